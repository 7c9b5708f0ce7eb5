"""Effects happen once, in order, whatever is around them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import debug, errors, lax
from ftrace.transforms.jit import compiled_graph
from pytest_ftrace import DEVICES
from tests.data.effects_cases import FORMATS, PROGRAMS, WAYS
from tests.support.covering import covering
from tests.support.effects_recorder import Counter, Log

RECORDED = json.loads(
    (Path(__file__).parents[1] / "data" / "effects.json").read_text("utf-8")
)
f32 = np.float32
SCALAR = ft.ShapeDtypeStruct((), f32)


def events(way: str, program: Callable[[Any, Any], Any]) -> list[Any]:
    log = Log()
    WAYS[way](log.library, lambda a: program(log.library, a))
    return log.events


def assert_same(found: list[Any], wanted: list[Any]) -> None:
    assert [e[0] for e in found] == [e[0] for e in wanted]
    for mine, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine[1:], other[1:], rtol=1e-5, atol=1e-6)


# Against JAX.


@covering(2, name=PROGRAMS, way=WAYS, mode=[*DEVICES, "disable_jit"])
def test_effects_happen_as_in_jax(mode: str, way: str, name: str) -> None:
    wanted = RECORDED[f"{way}/{name}"]
    if wanted is None:  # reverse mode through while_loop: JAX has none
        wanted = RECORDED[f"{'jit' if way == 'jit_grad' else 'plain'}/{name}"]
    found = events(way, PROGRAMS[name])
    if "vmap" in way and name in ("branch", "silent_branch", "until", "nested"):
        # There JAX also calls back for lanes that have not chosen the branch, or have
        # left the loop. Here each lane does what it would do alone.
        log = Log()
        for value in (f32(0.5), f32(1.5)):
            PROGRAMS[name](log.library, value)
        wanted = log.events
    if "vmap" in way:  # there JAX promises no order
        found, wanted = sorted(found), sorted(wanted)
    assert_same(found, wanted)


@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_print_formats_as_jax(
    mode: str, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fmt, args, kwargs = FORMATS[number]

    numeric = [x for x in args if hasattr(x, "dtype")]
    named = {k: v for k, v in kwargs.items() if hasattr(v, "dtype")}
    others = {k: v for k, v in kwargs.items() if k not in named}

    def call(values: Any, traced: Any) -> None:
        rest = iter(values)
        full = [next(rest) if hasattr(x, "dtype") else x for x in args]
        debug.print(fmt, *full, **traced, **others)

    ft.jit(call)(numeric, named)
    assert capsys.readouterr().out == RECORDED["formats"][number]


def test_print_has_the_options_of_numpy_where_it_is_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @ft.jit
    def f(x: Any) -> None:
        with np.printoptions(precision=2, suppress=True):
            debug.print("{}", x)

    f(np.array([1.2345, 1e-7]))
    assert capsys.readouterr().out == "[1.23 0.  ]\n"


# Against Python: random programs, with loops and branches that Python runs.


class PythonLax:
    """The loops and branches of lax as Python has them."""

    @staticmethod
    def scan(f: Any, init: Any, xs: Any) -> Any:
        rows: list[Any] = []
        for x in np.asarray(xs):
            init, y = f(init, x)
            rows.append(y)
        return init, np.stack(rows)

    @staticmethod
    def while_loop(cond: Any, body: Any, init: Any) -> Any:
        while cond(init):
            init = body(init)
        return init

    @staticmethod
    def cond(pred: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return (yes if pred else no)(*operands)


def plain_library(log: Log) -> SimpleNamespace:
    def note(what: str, *args: Any) -> None:
        log.keep(*args, what=what)

    return SimpleNamespace(lax=PythonLax, numpy=np, note=note)


def programs(depth: int) -> st.SearchStrategy[list[Any]]:
    """Lists of statements; those of loops and branches hold programs themselves."""
    simple: st.SearchStrategy[Any] = st.sampled_from(["note", "sin", "shift"])
    if depth == 0:
        return st.lists(simple, min_size=1, max_size=2)
    inner = programs(depth - 1)
    nested: st.SearchStrategy[Any] = st.one_of(
        st.tuples(st.sampled_from(["scan", "while"]), inner),
        st.tuples(st.just("cond"), inner, inner),
    )
    return st.lists(st.one_of(simple, nested), min_size=1, max_size=3)


def run(program: list[Any], M: Any, c: Any, name: str = "") -> Any:
    for number, statement in enumerate(program):
        at = f"{name}.{number}"
        if statement == "note":
            M.note(at, c)
        elif statement == "sin":
            c = M.numpy.sin(c)
        elif statement == "shift":
            c = c * f32(0.5) + f32(0.1)
        elif statement[0] == "scan":
            inner = statement[1]

            def body(v: Any, i: Any, inner: Any = inner, at: str = at) -> Any:
                v = run(inner, M, v, at) * i
                return v, v

            c = M.lax.scan(body, c, M.numpy.arange(1, 3, dtype=f32))[0]
        elif statement[0] == "while":
            inner = statement[1]

            def step(state: Any, inner: Any = inner, at: str = at) -> Any:
                i, v = state
                return i + 1, run(inner, M, v, at)

            c = M.lax.while_loop(lambda s: s[0] < 2, step, (0, c))[1]
        else:
            branches = [
                lambda v, p=p, at=f"{at}{k}": run(p, M, v, at)
                for k, p in enumerate(statement[1:])
            ]
            c = M.lax.cond(c > 0.3, *branches, c)
    return c


@pytest.mark.parametrize("way", ["jit", "grad", "jit_grad", "vmap_grad", "vjp"])
@pytest.mark.parametrize("device_name", ["cpu", "interpreter", "disable_jit"])
@settings(max_examples=3)
@given(program=programs(3))
def test_random_programs_act_as_python(
    way: str, device_name: str, program: list[Any]
) -> None:
    given_value = f32(0.7)
    wanted = Log()
    value = run(program, plain_library(wanted), given_value)
    log = Log()

    def f(x: Any) -> Any:
        return run(program, log.library, x)

    context = (
        ft.disable_jit()
        if device_name == "disable_jit"
        else ft.config(device=device_name)
    )
    with context:
        if way == "jit":
            np.testing.assert_allclose(ft.jit(f)(given_value), value, rtol=1e-4)
        elif way == "grad":
            ft.grad(f)(given_value)
        elif way == "jit_grad":
            ft.jit(ft.grad(f))(given_value)
        elif way == "vmap_grad":
            ft.vmap(ft.grad(f))(np.array([given_value]))
        else:
            ft.vjp(f, given_value)[1](f32(1))
    assert [e[0] for e in log.events] == [e[0] for e in wanted.events]
    for mine, other in zip(log.events, wanted.events, strict=True):
        np.testing.assert_allclose(mine[1], other[1], rtol=1e-4, atol=1e-5)


@settings(max_examples=12)
@given(program=programs(3))
def test_each_lane_acts_as_one_example(program: list[Any]) -> None:
    """Per lane what happens is what happens for that example alone, in its order."""
    values = np.array([0.7, 0.2, -0.4], f32)

    def tagged(log: Log, lane: Any) -> SimpleNamespace:
        def note(what: str, *args: Any) -> None:
            debug.callback(log.keep, lane, *args, what=what)

        return SimpleNamespace(lax=lax, numpy=fnp, note=note)

    log = Log()
    with ft.config(device="interpreter"):
        ft.vmap(lambda lane, x: run(program, tagged(log, lane), x))(
            np.arange(3), values
        )
    for lane, value in enumerate(values):
        wanted = Log()
        run(program, plain_library(wanted), value)
        found = [[e[0], e[2]] for e in log.events if e[1] == lane]
        assert [e[0] for e in found] == [e[0] for e in wanted.events]
        for mine, other in zip(found, wanted.events, strict=True):
            np.testing.assert_allclose(mine[1], other[1], rtol=1e-4, atol=1e-5)


# Once, in order, never dropped.


def test_equal_calls_with_effects_are_two(mode: str) -> None:
    counter = Counter()

    @ft.jit
    def f(x: Any) -> Any:
        first = ft.io_callback(counter.next, SCALAR, x)
        return first * 10 + ft.io_callback(counter.next, SCALAR, x)

    assert float(f(1.0)) == 1
    assert float(f(1.0)) == 23
    assert counter.count == 4


def test_unused_results_are_computed_if_there_are_effects(mode: str) -> None:
    counter, pure = Counter(), Counter()

    @ft.jit
    def f(x: Any) -> Any:
        ft.io_callback(counter.next, SCALAR, x)
        ft.pure_callback(pure.next, SCALAR, x)
        return x + 1

    f(1.0)
    f(1.0)
    assert counter.count == 2
    # Under disable_jit there is no program, and each operation runs as it is called.
    assert pure.count == (2 if mode == "disable_jit" else 0)


def test_equal_pure_calls_are_one() -> None:
    counter = Counter()

    def f(x: Any) -> Any:
        return sum(ft.pure_callback(counter.next, SCALAR, x) for _ in range(3))

    ft.jit(f, device="interpreter")(1.0)
    assert counter.count == 1


def test_effects_without_operands_run_each_time(mode: str) -> None:
    log = Log()

    @ft.jit
    def f() -> None:
        log.note("here")

    f()
    f()
    assert log.events == ([["here"]] * 2)


def test_state_goes_through_a_scan_in_order(mode: str) -> None:
    counter = Counter()

    def body(c: Any, x: Any) -> Any:
        got = ft.io_callback(counter.next, SCALAR, x, ordered=True)
        return c + got * x, got

    total, got = ft.jit(lambda xs: lax.scan(body, f32(0), xs))(np.arange(4, dtype=f32))
    np.testing.assert_array_equal(got, [0, 1, 2, 3])
    assert float(total) == 14


def test_predicates_call_back_once_more_than_bodies(mode: str) -> None:
    log = Log()

    def holds(c: Any) -> Any:
        log.note("holds", c)
        return c < 2

    def body(c: Any) -> Any:
        log.note("body", c)
        return c + 1

    def f(x: Any) -> Any:
        return lax.while_loop(holds, body, x)

    wanted = [[what, c] for c in (0, 1) for what in ("holds", "body")] + [["holds", 2]]
    for call in (f, ft.jit(f), lambda x: ft.vmap(f)(x[None])[0]):
        log.events.clear()
        assert int(call(np.int32(0))) == 2
        assert log.events == wanted
    log.events.clear()
    ft.jit(ft.grad(f))(f32(0))
    assert log.events == wanted


def test_unbatched_effects_happen_once_under_vmap(mode: str) -> None:
    log = Log()

    def f(x: Any, y: Any) -> Any:
        log.note("lane", x)
        log.note("shared", y)
        log.note("lane again", x)
        return x + y

    ft.vmap(f, in_axes=(0, None))(np.arange(2), 5)
    assert log.events == [
        ["lane", 0], ["lane", 1], ["shared", 5], ["lane again", 0], ["lane again", 1],
    ]  # fmt: skip


def test_nested_vmaps_count_as_loops(mode: str) -> None:
    log = Log()

    def f(x: Any, y: Any) -> Any:
        log.note("pair", x, y)
        return ft.io_callback(lambda a, b: f32(10 * a + b), SCALAR, x, y)

    table = ft.vmap(lambda x: ft.vmap(lambda y: f(x, y))(np.arange(3)))(np.arange(2))
    assert log.events == [["pair", x, y] for x in range(2) for y in range(3)]
    np.testing.assert_array_equal(table, [[0, 1, 2], [10, 11, 12]])


def test_no_lanes_no_calls(mode: str) -> None:
    counter = Counter()
    found = ft.vmap(lambda x: ft.io_callback(counter.next, SCALAR, x))(fnp.zeros(0))
    assert (counter.count, found.shape) == (0, (0,))


def test_second_derivatives_act_once(mode: str) -> None:
    log = Log()

    def f(x: Any) -> Any:
        return PROGRAMS["nested"](log.library, x)

    f(f32(0.75))
    once = list(log.events)
    for transformed in (
        ft.grad(ft.grad(f)), ft.jit(ft.grad(ft.grad(f))), ft.hessian(f),
        lambda x: ft.jvp(ft.grad(f), (x,), (f32(1),)),
    ):  # fmt: skip
        log.events.clear()
        transformed(f32(0.75))
        assert_same(log.events, once)


# Un-jitted derivatives: what Python sees in the midst of a function.


def test_order_is_kept_around_jitted_functions(mode: str) -> None:
    log = Log()

    @ft.jit
    def inner(x: Any) -> Any:
        log.note("inner", x)
        return x * x

    def f(x: Any) -> Any:
        log.note("before", x)
        y = inner(x)
        if y > 1:  # evaluates, and does not call again
            log.note("after", y)
        return y

    assert float(ft.grad(f)(2.0)) == 4
    assert [e[0] for e in log.events] == ["before", "inner", "after"]


def test_values_behind_a_callback_that_waits_are_refused() -> None:
    counter = Counter()

    @ft.jit
    def inner(x: Any) -> Any:
        return x * ft.io_callback(counter.next, SCALAR, 0)

    def f(x: Any) -> Any:
        return inner(x) if inner(x) >= 0 else x

    with pytest.raises(errors.ConcretizationTypeError, match="happens once"):
        ft.grad(f)(2.0)
    assert counter.count == 0


def test_callbacks_may_close_over_traced_values_with_a_value(mode: str) -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        debug.callback(lambda: seen.append(float(x)))
        return x * x

    ft.grad(f)(3.0)
    assert seen == [3.0]


def test_callbacks_over_traced_values_without_a_value_are_refused(mode: str) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return ft.pure_callback(lambda: np.asarray(y), SCALAR)

    with pytest.raises(errors.UnexpectedTracerError, match="pass it the traced value"):
        ft.vmap(f)(np.ones(2, f32))


def test_constants_of_a_loop_may_come_from_callbacks(mode: str) -> None:
    for transform in (
        ft.grad,
        lambda f: ft.jit(ft.grad(f)),
        lambda f: ft.grad(ft.jit(f)),
    ):
        counter = Counter()

        def body(c: Any, x: Any, counter: Counter = counter) -> Any:
            return fnp.sin(c) * (1 + ft.io_callback(counter.next, SCALAR, x)), None

        def f(x: Any, body: Any = body) -> Any:
            return lax.scan(body, x, np.arange(3.0))[0]

        def unrolled(x: Any) -> Any:
            return fnp.sin(fnp.sin(fnp.sin(x)) * 2) * 3

        found = transform(f)(f32(0.7))
        np.testing.assert_allclose(found, ft.grad(unrolled)(f32(0.7)), rtol=1e-5)
        assert counter.count == 3


def test_what_a_callback_computes_is_not_traced(mode: str) -> None:
    found: list[Any] = []

    def look(v: Any) -> None:
        found.append(fnp.ones(2) * v + ft.jit(ft.grad(lambda a: a * a))(v))

    def f(x: Any) -> Any:
        debug.callback(look, x)
        return x * x

    for transformed in (ft.grad(f), ft.jit(f), ft.jit(ft.grad(f)), f):
        transformed(3.0)
        assert isinstance(found[-1], ft.Array)
        np.testing.assert_array_equal(found[-1], [9, 9])


def test_effects_in_a_callback_happen_at_once(mode: str) -> None:
    log = Log()

    @ft.jit
    def inner(x: Any) -> Any:
        log.note("inner", x)
        return x + 1

    def outer(x: Any) -> Any:
        log.note("outer", x)
        return inner(x)

    f = ft.jit(lambda x: ft.pure_callback(outer, SCALAR, x) * 2)
    assert float(f(f32(1))) == 4
    assert log.events == [["outer", 1.0], ["inner", 1.0]]


# Graphs.


def test_graphs_show_their_effects() -> None:
    def f(x: Any) -> Any:
        debug.print("x is {}", x)
        return x + 1

    text = str(ft.make_graph(f)(1.0))
    assert "callback[debug.print 'x is {}']" in text
    assert text.count(":token") == 2  # before it, and after it
    assert "callback" not in str(ft.make_graph(lambda x: x + 1)(1.0))


def test_functions_that_print_are_compiled_once() -> None:
    def f(x: Any) -> Any:
        debug.print("x is {}", x)
        return x + 1

    with ft.config(device="interpreter"):
        ft.vmap(f)(np.arange(3.0))
        before = ft.counters("interpreter").kernels_compiled
        known = len(compiled_graphs())
        for _ in range(3):
            ft.vmap(f)(np.arange(3.0))
        assert ft.counters("interpreter").kernels_compiled == before
        assert len(compiled_graphs()) == known


def compiled_graphs() -> Any:
    return compiled_graph._cache  # pyright: ignore[reportPrivateUsage]


def test_shapes_are_known_without_a_call() -> None:
    counter = Counter()
    found = ft.eval_shape(lambda x: ft.io_callback(counter.next, SCALAR, x), 1.0)
    assert (found.shape, found.dtype, counter.count) == ((), f32, 0)


def test_barrier_and_names() -> None:
    ft.effects_barrier()
    assert ft.experimental.io_callback is ft.io_callback


def test_the_text_of_a_graph_takes_any_callable_as_callback() -> None:
    @dataclasses.dataclass
    class Scaled:
        factor: Any

    specs = ft.ShapeDtypeStruct((), np.float32)
    graph = ft.make_graph(lambda x: ft.pure_callback(Scaled, specs, x))(np.float32(1))
    assert "pure_callback" in str(graph)
