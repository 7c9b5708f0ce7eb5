"""What was recorded before is recognised: the same nodes, without the functions."""

from __future__ import annotations

import gc
import inspect
import pickle
import weakref
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ShapeError
from ftrace.trace.eager import dispatch
from ftrace.trace.eager.function_objects import Eager
from ftrace.trace.graph import Graph, toposort
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms.jit import compiled_graph
from tests.support.alive import interned_count

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
W = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    dispatch.calls.clear()
    yield
    dispatch.calls.clear()


class Runs:
    """Counts the public functions whose Python has run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        plain = dispatch.run_at

        def counted(function: Any, *rest: Any) -> Any:
            self.names.append(function.__name__)
            return plain(function, *rest)

        monkeypatch.setattr(dispatch, "run_at", counted)

    def take(self) -> list[str]:
        found, self.names = self.names, []
        return found


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    return Runs(monkeypatch)


def graph_of(function: Any, *args: Any) -> Graph:
    """The graph of an un-jitted function: its variables have values."""
    return trace("grad", lambda *xs: [function(*xs)], [aval_of(x) for x in args], args)


def loss(w: Any, x: Any, labels: Any) -> Any:
    hidden = ft.nn.relu(x @ w["a"] + w["b"])
    wanted = ft.nn.one_hot(labels, 2)
    return -fnp.mean(fnp.sum(ft.nn.log_softmax(hidden) * wanted, axis=-1)) + 0.5


PARAMS = {"a": W, "b": np.zeros(2, np.float32)}
LABELS = np.array([0, 1, 1])


def test_the_second_gradient_runs_no_function(runs: Runs) -> None:
    slope = ft.grad(loss)
    first = slope(PARAMS, X, LABELS)
    assert "log_softmax" in runs.take()
    second = slope(PARAMS, X, LABELS)
    assert runs.take() == []
    for name in PARAMS:
        np.testing.assert_array_equal(first[name], second[name])


def test_other_data_of_the_same_types_is_used(runs: Runs) -> None:
    slope = ft.grad(loss)
    slope(PARAMS, X, LABELS)
    runs.take()
    found = slope(PARAMS, X * 2, LABELS[::-1])
    assert runs.take() == []
    expected = ft.jit(slope)(PARAMS, X * 2, LABELS[::-1])
    for name in PARAMS:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-7)


def test_other_types_run_again(runs: Runs) -> None:
    slope = ft.grad(lambda x: fnp.sum(fnp.tanh(x)))
    slope(X)
    runs.take()
    slope(X[:2])
    assert runs.take() == ["tanh", "sum"]


OPERATIONS: list[Any] = [
    lambda x, y: x + y,
    lambda x, y: x * 2.0 - y,
    lambda x, y: 2 / (x * x + 1),
    lambda x, y: fnp.where(x > y, x, 0.0),
    lambda x, y: fnp.sum(x, axis=1, keepdims=True) * y,
    lambda x, y: fnp.concatenate([x, y], axis=0)[1:4],
    lambda x, y: (x @ y.T) @ y,
    lambda x, y: ft.nn.softmax(x, axis=0) + ft.nn.gelu(y),
    lambda x, y: x.at[0].set(y[1]),
    lambda x, y: fnp.stack([x[0], y[1], x[2]]),
    lambda x, y: x.astype(fnp.float16).astype(y.dtype),
    lambda x, y: ft.lax.max(x, y) ** 2,
    lambda x, y: fnp.einsum("ij,kj->ij", x, y),
    lambda x, y: x + fnp.linalg.norm(y),
    lambda x, y: fnp.clip(x, -0.0, 0.5) + ft.scipy.special.erf(y),
]


@given(
    st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.booleans()), max_size=5)
)
def test_recalled_graphs_are_those_that_python_makes(steps: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        for number, flipped in steps:
            made = OPERATIONS[number](*((y, x) if flipped else (x, y)))
            x, y = y, made
        return y

    def outputs() -> Any:
        return graph_of(function, X, X).outputs

    dispatch.calls.clear()
    first = outputs()
    second = outputs()
    dispatch.calls.clear()
    assert first == second == outputs()


@pytest.mark.parametrize(
    "pair",
    [
        (lambda x: fnp.add(x, 1), lambda x: fnp.add(x, 1.0)),
        (lambda x: fnp.add(x > 0, 1), lambda x: fnp.add(x > 0, True)),
        (lambda x: x * 0.0, lambda x: x * -0.0),
        (lambda x: x * np.float32(0), lambda x: x * np.float32(-0.0)),
        (lambda x: fnp.sum(x, axis=0), lambda x: fnp.sum(x, axis=1)),
        (lambda x: fnp.sum(x, 0), lambda x: fnp.sum(x, dtype="f2")),
        (lambda x: x.astype(np.float16), lambda x: x.astype(fnp.int32)),
        (lambda x: x[0:2], lambda x: x[0:2:2]),
        (lambda x: fnp.reshape(x, (3, 2, 2)), lambda x: fnp.reshape(x, (3, 4, 1))),
        (lambda x: fnp.stack([x, x]), lambda x: fnp.stack((x, x, x))),
        (lambda x: x - 1.0, lambda x: 1.0 - x),
        (lambda x: fnp.full_like(x, 5), lambda x: fnp.full_like(x, 5, "f2")),
    ],
)  # fmt: skip
def test_calls_that_differ_in_static_values_are_two(pair: Any) -> None:
    one, other = pair
    integers = X.astype(np.int32)
    for _ in range(2):
        assert graph_of(one, X).outputs != graph_of(other, X).outputs or (
            graph_of(one, integers).outputs != graph_of(other, integers).outputs
        )


def test_settings_are_part_of_the_call() -> None:
    def narrow(x: Any) -> Any:
        return fnp.sum(x.astype(bool))

    dtypes: list[Any] = []
    for x64 in (None, True, None, True):
        with ft.config(enable_x64=x64):
            dtypes.append(graph_of(narrow, X).outputs[0].dtype.name)
    assert dtypes == ["int32", "int64", "int32", "int64"]


def test_what_depends_on_values_is_not_recalled() -> None:
    def positive(x: Any) -> Any:
        return fnp.sum(x[x > 0] ** 2)

    slope = ft.grad(positive)
    for x in (X, -X, X - 5):
        np.testing.assert_array_equal(slope(x), np.where(x > 0, 2 * x, 0))

    def picked(x: Any, places: Any) -> Any:
        return fnp.sum(x[places])

    for places in (np.array([0, 0]), np.array([2, 1])):
        found = ft.grad(picked)(X, places)
        np.testing.assert_array_equal(found.sum(1), 4 * np.bincount(places, None, 3))

    def scaled(x: Any, n: Any) -> Any:
        return fnp.sum(fnp.repeat(x, n, axis=0))

    for n in (np.array([1, 2, 3]), np.array([3, 3, 0])):
        np.testing.assert_array_equal(ft.grad(scaled)(X, n)[:, 0], n)


def test_concrete_operands_are_taken_anew_at_each_call(runs: Runs) -> None:
    square = X[:3, :3]
    slope = ft.grad(lambda w, x: fnp.sum(x * (x @ w)))
    for x in (square, square + 1):
        w = np.eye(3, dtype=np.float32)
        np.testing.assert_allclose(slope(w, x), x.T @ x, rtol=1e-6)
    assert "matmul" in runs.take()
    slope(w, fnp.asarray(square))
    assert runs.take() == []


def test_concrete_arrays_alone_are_computed_at_once() -> None:
    seen: list[Any] = []

    def function(w: Any, x: Any) -> Any:
        total = fnp.sum(x + x)
        seen.append(bool(total > 3))
        assert isinstance(fnp.add(x, x), ft.Array)
        assert isinstance(fnp.matmul(x, x.T), ft.Array)
        return fnp.sum(w) * total

    x = fnp.asarray(X)
    graph = graph_of(lambda w: function(w, x), W)
    assert len(graph.captured) == 1
    assert seen == [True]


def test_the_line_of_the_user_is_the_latest() -> None:
    def first(x: Any) -> Any:
        return ft.nn.softmax(x)

    def second(x: Any) -> Any:
        return ft.nn.softmax(x)

    for function in (first, second, first, first, second):
        graph = graph_of(function, X)
        for node in toposort(graph.outputs):
            if node not in graph.inputs:
                assert node.origin is not None
                assert node.origin.function == function.__name__


def test_a_tracer_knows_the_line_that_recalled_it() -> None:
    def over_here(x: Any) -> Any:
        return float(fnp.sum(x))

    for _ in range(2):
        with pytest.raises(ft.errors.ConcretizationTypeError, match="over_here"):
            ft.vmap(over_here)(X)


def test_mistakes_are_told_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ShapeError, match="matmul"):
            graph_of(lambda x: x @ x, X)


def test_the_table_keeps_no_node_alive() -> None:
    def function(x: Any) -> Any:
        return fnp.sum(ft.nn.softmax(x * 1.25) @ fnp.cos(x.T))

    def count() -> int:
        gc.collect()
        return interned_count()

    del [graph_of(function, X)][:]  # what compositions keep elsewhere is there now
    before = count()
    graph = graph_of(function, X)
    assert count() > before
    del graph
    assert count() == before


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch.calls, "most", 8)
    for n in range(40):
        graph_of(lambda x, n=n: x + n, X)
        assert len(dispatch.calls) <= 8
    kept = [graph_of(lambda x, n=n: x * n, X) for n in range(20)]
    assert len(dispatch.calls) <= 8
    assert len(kept) == 20


def test_jitted_functions_are_traced_once_and_not_looked_up() -> None:
    ft.jit(lambda x: fnp.sum(fnp.sin(x)))(X)
    assert len(dispatch.calls) == 0
    f = ft.jit(lambda x: fnp.sum(fnp.sin(x)))
    ft.jit(ft.grad(f))(X)
    entered = [x.value for _, x in dispatch.calls.by_age()]
    assert not any(isinstance(x, (list, weakref.ref)) for x in entered)


def test_jitted_functions_are_recognised_in_traces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f = ft.jit(lambda x: fnp.sum(fnp.sin(x) * 2))
    first = graph_of(lambda x: f(x) + f(x), X)
    monkeypatch.setattr(compiled_graph, "substitute", None)
    assert graph_of(lambda x: f(x) + f(x), X).outputs == first.outputs


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ft.grad(lambda x: fnp.sum(f(x))),
        lambda f: ft.grad(lambda x: fnp.sum(ft.grad(lambda y: fnp.sum(f(y)))(x))),
        ft.vmap,
        ft.jacfwd,
        ft.jacrev,
        lambda f: ft.vmap(ft.jacfwd(f)),
        lambda f: lambda x: ft.jvp(f, (x,), (x,))[1],
        lambda f: lambda x: ft.lax.scan(lambda c, y: (c + f(y), f(c * y)), x[0], x)[1],
        lambda f: lambda x: ft.lax.cond(True, f, fnp.cos, x),
        lambda f: lambda x: ft.checkpoint(f)(x),
    ],
)  # fmt: skip
def test_transforms_agree_with_jit_at_each_call(transform: Any) -> None:
    function = transform(lambda x: fnp.tanh(x * 2.0) * fnp.sum(x) + x[..., :1])
    small = X / 10
    expected = ft.jit(function)(small)
    for _ in range(3):
        np.testing.assert_allclose(function(small), expected, rtol=2e-5, atol=1e-6)


def test_bound_values_are_asked_for_at_each_call() -> None:
    def function(x: Any) -> Any:
        y = fnp.sum(x)
        return y * 2 if y > 0 else y * 3

    for x, slope in ((X, 2), (-X, 3), (X, 2)):
        np.testing.assert_array_equal(ft.grad(function)(x), np.full_like(x, slope))


def test_random_numbers_depend_on_the_key(runs: Runs) -> None:
    slope = ft.grad(lambda x, key: fnp.sum(x * ft.random.normal(key, x.shape)))
    first, second = ft.random.split(ft.random.key(0))
    for key in (first, second, first):
        expected = ft.random.normal(key, X.shape)
        np.testing.assert_allclose(slope(X, key), expected, rtol=1e-6)


# The functions that take part.

NAMESPACES = (
    ft.numpy, ft.numpy.linalg, ft.numpy.fft, ft.nn, ft.lax, ft.lax.linalg, ft.random,
    ft.scipy.special,
)  # fmt: skip


def members() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in NAMESPACES:
        names = getattr(module, "__all__", dir(module))
        values = [(n, getattr(module, n)) for n in names if n[0] != "_"]
        found |= {
            f"{module.__name__}.{n}": f
            for n, f in values
            if isinstance(f, (FunctionType, Eager))
        }
    return found


def taken(function: Any) -> list[Any]:
    """The parameters but for their types, which are the stub's where there is one."""
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, p.default) for p in found]


def test_functions_look_like_themselves() -> None:
    wrong: list[str] = []
    for name, function in members().items():
        plain = inspect.unwrap(function, stop=lambda f: "__signature__" in vars(f))
        same = pickle.loads(pickle.dumps(function)) is function
        same = same and taken(function) == taken(plain)
        if not same or function.__doc__ != plain.__doc__:
            wrong.append(name)
    assert not wrong


def test_functions_that_take_functions_are_left_alone() -> None:
    takers = (
        fnp.vectorize, fnp.apply_along_axis, fnp.fromfunction,
        ft.lax.cond, ft.lax.switch, ft.lax.scan, ft.lax.map, ft.lax.while_loop,
        ft.lax.fori_loop, ft.lax.associative_scan,
    )  # fmt: skip
    for function in takers:
        assert not _recalls(function), function
    for function in (fnp.add, fnp.sum, ft.nn.relu, ft.lax.dot, ft.random.normal):
        assert _recalls(function), function


def _recalls(function: Any) -> bool:
    """Is one of the functions that it is made of one that `recalling` made?"""
    while not hasattr(function, "__code__"):
        function = function.behind
    code = function.__code__
    owns = dispatch.owning(abs).__code__  # stands in the same file, and recalls nothing
    return code.co_filename == dispatch.__file__ and code is not owns


def test_lines_of_functions_that_are_called_are_their_own() -> None:
    def branch(x: Any) -> Any:
        return x * 7

    graph = graph_of(lambda x: fnp.apply_along_axis(branch, 0, x), X)
    functions = {n.origin.function for n in toposort(graph.outputs) if n.origin}
    assert "branch" in functions
