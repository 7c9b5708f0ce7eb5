"""Graphs are interned, closed, readable, and as large as they come."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes, errors
from ftrace.lower import lower
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import (
    Graph,
    constant_value,
    make_node,
    toposort,
)
from ftrace.trace.primitives.elementwise import add, mul, sin
from ftrace.trace.primitives.primitive import PRIMITIVES, Primitive
from ftrace.trace.primitives.sources import const, variable
from tests.support.alive import interned_count

F32 = ShapedArray.of((3,), dtypes.float32)

# Interning.


def test_equal_nodes_are_one_object() -> None:
    x, y = variable(F32, 90, 0), variable(F32, 90, 1)
    assert variable(F32, 90, 0) is x
    assert add(mul(x, y), sin(x)) is add(mul(x, y), sin(x))
    assert add(x, y) is not add(y, x)
    assert add(x, y) is not mul(x, y)
    assert x is not variable(F32.with_dtype(dtypes.float64), 90, 0)
    assert x is not variable(F32.with_dtype(dtypes.float32, weak_type=True), 90, 0)


def test_the_same_function_traced_twice_is_the_same_graph() -> None:
    f = lambda x: fnp.sum(fnp.sin(x) * 2 + x, 0)  # noqa: E731
    one, two = (ft.make_graph(f)(np.ones((2, 3))) for _ in range(2))
    assert one.outputs[0] is two.outputs[0]
    assert one.inputs == two.inputs


def test_constants_are_known_by_dtype_and_bits() -> None:
    zero, negative = const(0.0, dtypes.float32), const(-0.0, dtypes.float32)
    assert zero is not negative
    assert zero is const(0, dtypes.float32)
    assert zero is not const(0.0, dtypes.float64)
    assert np.signbit(constant_value(negative))
    quiet = np.uint32(0x7FC00000).view(np.float32)
    other = np.uint32(0x7FC00001).view(np.float32)
    assert const(quiet, dtypes.float32) is const(quiet, dtypes.float32)
    assert const(quiet, dtypes.float32) is not const(other, dtypes.float32)
    assert const(True, dtypes.bool_) is not const(1, dtypes.int8)


def test_sources_come_before_what_uses_them() -> None:
    x = variable(F32, 91, 0)
    y = sin(x)
    z = add(y, mul(y, x))
    order = toposort([z])
    places = {node: i for i, node in enumerate(order)}
    assert all(places[s] < places[n] for n in order for s in n.src)
    assert order[-1] is z


def test_the_table_is_weak() -> None:
    gc.collect()
    before = interned_count()
    node = variable(ShapedArray.of((7, 7), dtypes.float32), 92, 0)
    for _ in range(100):
        node = sin(node)
    assert interned_count() == before + 101
    del node
    gc.collect()
    assert interned_count() == before


def test_threads_intern_to_one_object() -> None:
    start = threading.Barrier(8)
    found: list[list[Any]] = []

    def work() -> None:
        start.wait()
        nodes: list[Any] = []
        for round_ in range(30):
            node = variable(ShapedArray.of((5, round_ + 1), dtypes.float32), 93, 0)
            for k in range(20):
                node = add(sin(node), const(k, dtypes.float32, node.shape))
                nodes.append(node)
        found.append(nodes)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for nodes in found[1:]:
        assert all(a is b for a, b in zip(nodes, found[0], strict=True))


def test_threads_may_drop_nodes_while_others_make_them() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                x = variable(F32, 94, 0)
                y = add(sin(x), x)
                assert y.src == (sin(x), x)
                del x, y
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# Size: nothing recurses.


def chain(length: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for i in range(length // 2):
            x = fnp.sin(x) * (1.0 + i % 3)
        return x

    return f


def tree(leaves: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        level = [x * float(i) for i in range(leaves)]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            last = level[-1:] if len(level) % 2 else []
            level = [a + b for a, b in pairs] + last
        return level[0]

    return f


STAGES: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "traced": lambda f: ft.make_graph(f)(1.0),
    "differentiated": lambda f: ft.make_graph(ft.grad(f))(1.0),
    "forward": lambda f: ft.make_graph(lambda x: ft.jvp(f, (x,), (x,)))(1.0),
    "vmapped": lambda f: ft.make_graph(ft.vmap(f))(np.ones(3)),
    "printed": lambda f: str(ft.make_graph(f)(1.0)),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("program", [chain, tree])
def test_large_programs_take_linear_time(program: Any, stage: str) -> None:
    sizes = (3_000, 12_000) if program is chain else (600, 2_400)
    spent: list[float] = []
    for size in sizes:
        f = program(size)
        gc.collect()
        gc.freeze()  # collections shall not walk what the tests before have left
        start = time.process_time()
        result = STAGES[stage](f)
        spent.append(time.process_time() - start)
        count = result.count("\n") if stage == "printed" else len(result.nodes)
        assert count >= size
        del result
    # Four times the size; a quadratic step would take sixteen times as long.
    assert spent[1] < 10 * spent[0] + 0.25, f"{program.__name__} {stage}: {spent} s"


@pytest.mark.parametrize(("program", "size"), [(chain, 20_000), (tree, 4_000)])
def test_large_programs_are_lowered(program: Any, size: int) -> None:
    spent: list[float] = []
    for n in (size // 4, size):
        graph = ft.make_graph(program(n))(np.ones(4))
        start = time.process_time()
        lowered = lower(graph)
        spent.append(time.process_time() - start)
        assert lowered.program.kernels
    assert spent[1] < 10 * spent[0] + 0.5, f"{program.__name__}: {spent} s"


def test_a_long_chain_is_let_go_without_a_crash() -> None:
    before = interned_count()
    node = variable(ShapedArray.of((), dtypes.float32), 95, 0)
    for _ in range(100_000):
        node = sin(node)
    del node
    gc.collect()
    assert interned_count() <= before


# Text.


def test_text_shows_shapes_dtypes_and_lines() -> None:
    def f(x: Any, y: Any) -> Any:
        z = fnp.exp(x) * 2.5  # line one
        return fnp.sum(z @ y, axis=0)

    x = np.ones((2, 317), np.float64)
    text = str(ft.make_graph(f)(x, np.ones((317, 4), np.float64)))
    lines = text.splitlines()
    assert lines[0].startswith("graph (a:f64[2,317] b:f64[317,4]")
    assert "exp a" in lines[1]
    assert "f64[2,317]" in lines[1]
    assert "test_graph.py" in lines[1]
    assert "(f)" in lines[1]
    assert "2.5" in text
    assert "reduce_sum[" in text
    assert lines[-1].startswith("  return ")


def test_text_of_a_derivative_and_of_a_batch() -> None:
    text = str(ft.make_graph(ft.grad(lambda x: fnp.sum(fnp.sin(x))))(np.ones(5)))
    assert "cos" in text
    text = str(ft.make_graph(ft.vmap(lambda x: fnp.sin(x)))(np.ones((5, 2))))
    assert "sin" in text
    assert "f64[5,2]" in text


def test_captured_arrays_are_inputs() -> None:
    w = fnp.arange(3.0)
    graph = ft.make_graph(lambda x: x * w)(1.0)
    assert graph.captured[0] is w
    assert len(graph.inputs) == 2


# Records.


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"infer": None}, "infer"),
        ({"numpy": None}, "numpy"),
        ({"batch": None}, "batch"),
        ({"jvp": None}, "jvp"),
        ({"linear": True, "transpose": None}, "transpose"),
    ],
)
def test_an_incomplete_record_is_refused(changes: dict[str, Any], missing: str) -> None:
    rule = lambda *_: None  # noqa: E731
    rules: dict[str, Any] = {"infer": rule, "numpy": rule, "batch": rule, "jvp": rule}
    with pytest.raises(errors.PrimitiveError, match=f"'unheard_of' lacks.*{missing}"):
        Primitive("unheard_of", "unary", **(rules | changes))
    assert "unheard_of" not in PRIMITIVES


def test_a_name_is_taken_once() -> None:
    rule = lambda *_: None  # noqa: E731
    with pytest.raises(errors.PrimitiveError, match="'sin' already"):
        Primitive("sin", "unary", rule, rule, rule, rule)


# Specs.


def test_a_graph_that_breaks_its_spec_is_found_between_passes() -> None:
    x = variable(F32, 0, 0)
    wrong = make_node(
        add, F32, (x, variable(ShapedArray.of((4,), dtypes.float32), 0, 1))
    )
    graph = Graph(toposort([wrong])[:2], (wrong,))  # type: ignore[arg-type]
    with ft.config(check_specs=True), pytest.raises(errors.GraphError, match="add"):
        lower(graph)


def test_sound_programs_pass_the_specs() -> None:
    def f(x: Any) -> Any:
        return fnp.sum(ft.nn.softmax(x @ x.T)[::2].reshape(-1) ** 2)

    with ft.config(check_specs=True):
        lower(ft.make_graph(ft.grad(f))(np.ones((4, 4), np.float32)))
