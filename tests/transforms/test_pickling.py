"""Functions and values travel: pickled, copied, sent to other processes."""

from __future__ import annotations

import copy
import functools
import linecache
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.trace.effects import Same
from ftrace.trace.primitives.primitive import COMPOUNDS, PRIMITIVES


@ft.jit
def doubled(x: Any) -> Any:
    return x * 2


def _power(x: Any, n: int = 2) -> Any:
    return x**n


power = ft.jit(_power, static_argnames="n")
along = ft.jit(_power, dynamic={"x": {0: "n"}})


@ft.custom_jvp
def tripled(x: Any) -> Any:
    return x * 3


def _rule(primals: Any, tangents: Any) -> Any:
    return primals[0], tangents[0] * 4


tripled.defjvp(_rule)


class Model:
    """An object that holds jitted functions."""

    def __init__(self) -> None:
        self.weights = fnp.arange(3.0)
        self.step = ft.jit(_power, static_argnums=1)
        self.act = power

    @ft.jit
    def apply(self: Any, x: Any) -> Any:
        return x + 1


def sent(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


WAYS: tuple[Callable[[Any], Any], ...] = (sent, copy.copy, copy.deepcopy)


@pytest.mark.parametrize("way", WAYS)
def test_a_jitted_function_travels_as_what_it_is(way: Callable[[Any], Any]) -> None:
    assert way(doubled) is doubled  # by its name
    assert way(Model.apply) is Model.apply
    for function, args, want in (
        (power, (3.0,), 9),
        (power, (3.0, 3), 27),
        (along, (np.full(5, 3.0),), [9] * 5),
    ):
        for _ in range(8):  # also when calls are native
            function(*args)
        np.testing.assert_array_equal(way(function)(*args), want)
    own = ft.jit(_power, donate_argnums=0)
    x = fnp.ones(4)
    way(own)(x)
    assert x.is_deleted()


@pytest.mark.parametrize("way", WAYS)
def test_what_holds_a_jitted_function_travels(way: Callable[[Any], Any]) -> None:
    model = Model()
    for _ in range(8):
        model.step(model.weights, 3)
    made = way(model)
    np.testing.assert_array_equal(made.step(made.weights, 3), [0, 1, 8])
    assert way({"a": [doubled]})["a"][0] is doubled
    part = way(functools.partial(power, n=3))
    assert part(2.0) == 8


VALUES = (
    lambda: fnp.arange(3.0),
    lambda: fnp.asarray(1.0),
    lambda: ft.random.key(3),
    lambda: ft.ShapeDtypeStruct((2,), fnp.float32),
    lambda: ft.tree.structure({"a": [1, (2, None)]}),
    lambda: fnp.float32,
    lambda: fnp.sin,
    lambda: ft.nn.softmax,
)


@pytest.mark.parametrize("way", WAYS)
def test_values_travel(way: Callable[[Any], Any]) -> None:
    for make in VALUES:
        value = make()
        assert repr(way(value)) == repr(value)
    assert way(ft.tree_util.Partial(_power, 3.0))(3) == 27
    assert way(tripled) is tripled
    own = ft.custom_jvp(_power)
    own.defjvp(_rule)
    assert ft.grad(own)(1.0) == 4  # the rule is traced, and known then
    assert ft.grad(way(own))(1.0) == 4
    weak = way(fnp.asarray(1.0))
    assert (weak + np.float32(1)).dtype == np.float32


def test_what_wraps_a_jitted_function_has_nothing_of_its_inside() -> None:
    for wrapper in (ft.grad(doubled), functools.wraps(doubled)(lambda: None)):
        assert not [name for name in vars(wrapper) if not name.startswith("__")]


def test_a_primitive_is_found_by_its_name() -> None:
    for op in (*PRIMITIVES.values(), *COMPOUNDS.values()):
        assert sent(op) is op
    whole = pickle.dumps(PRIMITIVES["reshape"]).replace(b"reshape", b"reshapo")
    with pytest.raises(errors.PrimitiveError, match=r"'reshapo'.*import the module"):
        pickle.loads(whole)


def test_jitted_functions_go_to_spawned_processes() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        got = pool.submit(doubled, 4.0), pool.submit(power, 4.0, n=3)
        assert [float(one.result()) for one in got] == [8, 64]


CHILD = """
import pickle, sys
cases = pickle.load(sys.stdin.buffer)
print({name: str(f(2.0)) for name, f in cases.items()})
"""


def _by_value() -> dict[str, Any]:
    """Functions as in a notebook, where no other process finds them."""
    space: dict[str, Any] = {"__name__": "__main__"}
    text = """
import ftrace as ft

@ft.jit
def decorated(x): return x * 7

def plain(x): return x * 5

class Model:
    def __init__(self): self.f = ft.jit(lambda x: x * 3)
    def __call__(self, x): return self.f(x)

cases = {
    "decorated": decorated, "jit": ft.jit(plain), "grad": ft.grad(plain),
    "of jit": ft.grad(decorated), "jit of grad": ft.jit(ft.value_and_grad(plain)),
    "vmap": lambda x: ft.vmap(plain)(ft.numpy.full(2, x)), "model": Model(),
    "checkpoint": ft.checkpoint(plain), "linear": ft.linearize(plain, 1.0)[1],
    "static": ft.jit(lambda x, n=2: x * n, static_argnames="n"),
}
for f in cases.values(): f(2.0)
"""
    exec(text, space)
    return space


#: Every exception and warning of ours.
CLASSES = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, (errors.FtraceError, Warning))
]


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("way", WAYS)
def test_exceptions_travel(way: Callable[[Any], Any], kind: type[Exception]) -> None:
    space: dict[str, Any] = {"kind": kind}
    exec(compile("def make():\n    return kind('what')", "elsewhere.py", "exec"), space)
    linecache.cache["elsewhere.py"] = 0, None, ["\n", "    return kind('what')\n"], ""
    error = space["make"]()
    error.__notes__ = ["a note"]
    want = str(error)
    whole = way(error)
    del linecache.cache["elsewhere.py"]  # where it arrives there is no such file
    for _ in range(2):
        assert type(whole) is kind
        assert (whole.args, whole.__notes__) == (("what",), ["a note"])
        assert str(whole) == want or way is not sent
        whole = way(whole)
    if issubclass(kind, errors.FtraceError):
        assert want.endswith("line 2, in make\n    return kind('what')")
        assert whole.message == "what"


def _fails(shape: Any) -> Any:
    return fnp.ones(shape) + fnp.ones(3)


POOLS = (
    functools.partial(ProcessPoolExecutor, mp_context=get_context("spawn")),
    get_context("spawn").Pool,
)


@pytest.mark.parametrize("pool", POOLS)
def test_exceptions_of_workers_arrive(pool: Any) -> None:
    wanted = pytest.raises(errors.ShapeError, match=r"\(2,\) and \(3,\)")
    with pool(1) as workers, wanted as caught:
        list(workers.map(_fails, [(2,)]))
    assert "return fnp.ones(shape) + fnp.ones(3)" in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_graph_that_arrives_is_made_of_nodes_of_its_new_process(
    way: Callable[[Any], Any],
) -> None:
    def loop(x: Any) -> Any:
        for _ in range(3000):  # deeper than pickle may go
            x = fnp.sin(x)
        return ft.lax.fori_loop(0, 3, lambda i, y: y * 2, x)

    graph = ft.make_graph(loop)(1.0)
    made = way(graph)
    assert (made.inputs, str(made)) == (graph.inputs, str(graph))
    node = graph.outputs[0].src[0]
    assert way(node) is node or node.op.name == "loop"


def test_what_is_told_by_its_place_in_memory_is_so_where_it_arrives() -> None:
    shifted = Same(_power, id(_power) + 16)  # as another process has it
    assert sent(shifted) == Same.of(_power)


def test_what_was_compiled_stays_where_it_is() -> None:
    lowered = ft.jit(_power).lower(2.0)
    assert copy.copy(lowered) is copy.deepcopy(lowered) is lowered
    for one in (lowered, ft.jit(_power).trace(2.0)):
        with pytest.raises(errors.ArgumentError, match="pickle the function"):
            pickle.dumps(one)


def test_functions_of_a_notebook_travel_by_value() -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    cases = _by_value()["cases"]
    whole = cloudpickle.dumps(cases)
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=whole, capture_output=True, check=True
    )
    want = {name: str(function(2.0)) for name, function in cases.items()}
    assert done.stdout.decode().strip() == str(want)
