"""jit traces once per signature, and is the same function."""

from __future__ import annotations

import gc
import threading
import weakref
from functools import partial, wraps
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    ConcretizationTypeError,
    StaticArgumentError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from ftrace.ground.tables import Table


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-6)


def test_traces_once_per_signature() -> None:
    f = ft.jit(lambda x, y: x * y + 1)
    for x in (1.0, 2.0, 3.5):
        close(f(x, np.float32(2)), x * 2 + 1)
    assert f.trace_count == 1
    f(np.ones(3, np.float32), 2.0)
    f(2 * np.ones(3, np.float32), 5.0)
    assert f.trace_count == 2
    f(np.ones(4, np.float32), 2.0)
    f(np.ones(3), 2.0)
    assert f.trace_count == 4


def test_does_not_trace_again_inside_other_transforms() -> None:
    f = ft.jit(lambda x: fnp.sin(x) * x)
    g, v = ft.grad(f), ft.vmap(f)
    for x in (1.0, 2.0):
        close(g(x), np.cos(x) * x + np.sin(x))
    for _ in range(3):
        v(np.arange(3.0, dtype=np.float32))
    assert f.trace_count == 2  # a weak scalar, and a float32 scalar in vmap


def test_static_arguments() -> None:
    @partial(ft.jit, static_argnums=1, static_argnames=("mode",))
    def f(x: Any, n: int, mode: str = "sum") -> Any:
        x = x * fnp.ones(n)
        return fnp.sum(x) if mode == "sum" else fnp.max(x)

    assert float(f(2.0, 3)) == 6.0
    assert float(f(2.0, 4)) == 8.0
    assert float(f(2.0, 3, mode="max")) == 2.0
    assert f.trace_count == 3
    with pytest.raises(StaticArgumentError, match=r"must be hashable.*list"):
        f(2.0, [3])
    with pytest.raises(StaticArgumentError, match="static_argnames names 'nope'"):
        ft.jit(lambda x: x, static_argnames="nope")
    with pytest.raises(StaticArgumentError, match="takes 1 positional"):
        ft.jit(lambda x: x, static_argnums=3)

    def inner(a: Any, b: Any, c: str) -> Any:
        return a + b

    @partial(ft.jit, static_argnums=0, static_argnames="c")
    @wraps(inner)  # `c` stands elsewhere than the signature says
    def outer(first: str, second: Any, *args: Any, **kwargs: Any) -> Any:
        return second["x"] + inner(*args, **kwargs)

    assert float(outer("a", {"x": 1.0}, {"x": 2.0}["x"], 3.0, c="d")) == 6.0


def test_positions_and_names_of_static_arguments_may_disagree() -> None:
    def known(x: Any, y: Any) -> Any:
        return fnp.asarray([isinstance(v, int) for v in (x, y)])

    for argnums, argnames, by_position, by_name in (
        (1, None, [0, 1], [0, 1]),
        (None, "y", [0, 1], [0, 1]),
        (1, (), [0, 1], [0, 0]),
        ((), "y", [0, 0], [0, 1]),
        (0, "y", [1, 0], [1, 1]),
    ):
        f = ft.jit(known, static_argnums=argnums, static_argnames=argnames)
        assert f(1, 2).tolist() == by_position
        assert f(1, y=2).tolist() == by_name


def test_a_generator_is_no_function_to_transform() -> None:
    def f(x: Any) -> Any:
        yield x

    for transform in (ft.jit, ft.grad, ft.vmap):
        with pytest.raises(TypeError, match="takes a function, got generator function"):
            transform(f)


def test_negative_positions_count_from_the_last_argument_of_a_call() -> None:
    def known(*args: Any) -> Any:
        return fnp.asarray([isinstance(x, int) for x in args])

    def after_one(first: Any, *rest: Any) -> Any:
        return known(first, *rest)

    for f in (known, after_one):
        for numbers, *lists in (
            (-1, [1], [0, 1], [0, 0, 1]),
            (-2, [0], [1, 0], [0, 1, 0]),
            ((0, -1), [1], [1, 1], [1, 0, 1]),
        ):
            jitted = ft.jit(f, static_argnums=numbers)
            for _ in range(8):
                for wanted in lists:
                    args = range(2, 2 + len(wanted))
                    assert jitted(*args).tolist() == [bool(x) for x in wanted]
    for _ in range(8):
        x, y, z = (fnp.ones(3) * n for n in (1, 2, 3))
        ft.jit(lambda *xs: xs[0] + xs[-1], donate_argnums=-1)(x, y, z)
        assert [a.is_deleted() for a in (x, y, z)] == [False, False, True]


def test_trees_methods_and_keywords() -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = 3.0

        @partial(ft.jit, static_argnums=0)
        def apply(self, tree: Any, *, shift: Any) -> Any:
            return {"out": (tree["x"] * self.scale + shift, None)}

    out = Model().apply({"x": np.arange(3.0)}, shift=1.0)
    close(out["out"][0], np.arange(3.0) * 3 + 1)
    assert out["out"][1] is None


def test_nested_jits_and_closures() -> None:
    w = fnp.arange(3.0)
    inner = ft.jit(lambda x: x * w)

    @ft.jit
    def outer(x: Any) -> Any:
        near = ft.jit(lambda y: inner(y) + x)
        return near(x) + near(2 * x)

    close(outer(np.ones(3)), np.arange(3.0) * 3 + 2)
    close(ft.grad(lambda x: fnp.sum(outer(x)))(np.ones(3)), np.arange(3.0) * 3 + 2)
    assert inner.trace_count <= 2


def test_a_closed_over_array_is_a_hidden_input() -> None:
    w = fnp.arange(1000.0)
    stages = ft.jit(lambda x: x + w).lower(fnp.ones(1000))
    assert len(stages.graph.inputs) == 2
    assert stages.graph.captured[0] is w


def test_no_unsafe_algebra_on_floats() -> None:
    f = ft.jit(lambda a: ((a + 1e8) - 1e8, a + 0.0, a * 0.0, a - a, a / a))
    with np.errstate(all="ignore"):
        for a in np.float32([1.25, -0.0, np.inf, np.nan]):
            want = (
                (a + np.float32(1e8)) - np.float32(1e8), a + np.float32(0),
                a * np.float32(0), a - a, a / a,
            )  # fmt: skip
            for got, value in zip(f(a), want, strict=True):
                assert np.array_equal(np.asarray(got), value, equal_nan=True)
                signs = np.signbit([np.asarray(got), value])
                assert signs[0] == signs[1] or np.isnan(value)


def test_python_needs_values_that_jit_does_not_have() -> None:
    def branch(x: Any) -> Any:
        if x > 0:  # the branch
            return x
        return -x

    with pytest.raises(TracerBoolConversionError, match="if x > 0:  # the branch"):
        ft.jit(branch)(1.0)
    with pytest.raises(TracerIntegerConversionError, match="static_argnums"):
        ft.jit(lambda n: fnp.zeros(range(n)[-1]))(3)
    with pytest.raises(ConcretizationTypeError, match="float"):
        ft.jit(lambda x: float(x))(3.0)
    with pytest.raises(TracerArrayConversionError, match=r"ftrace\.numpy"):
        ft.jit(lambda x: np.asarray(x))(np.ones(3))
    with pytest.raises(TracerArrayConversionError, match=r"ftrace\.numpy"):
        ft.jit(lambda x: np.linalg.svd(x))(np.ones((3, 3)))


def test_numpy_on_tracers() -> None:
    x = np.arange(3.0)
    f = ft.jit(lambda t: np.float64(2) * np.sin(t) + x * t + np.sum(t))
    close(f(x), 2 * np.sin(x) + x * x + np.sum(x))


def test_a_tracer_that_escapes_says_where_it_was_made() -> None:
    kept: list[Any] = []

    @ft.jit
    def f(x: Any) -> Any:
        kept.append(fnp.sin(x) * 2)  # made here
        return x

    f(1.0)
    with pytest.raises(UnexpectedTracerError, match="# made here"):
        kept[0] + 1
    with pytest.raises(UnexpectedTracerError, match="escaped"):
        ft.jit(lambda y: y + kept[0])(1.0)
    close(f(2.0), 2.0)


def test_works_after_an_exception_while_tracing() -> None:
    @ft.jit
    def f(x: Any, fail: Any) -> Any:
        if fail.shape == (2,):
            raise KeyError("mine")
        return x + 1

    with pytest.raises(KeyError, match="mine"):
        f(1.0, np.ones(2))
    assert float(f(1.0, np.ones(3))) == 2.0
    assert float(fnp.sum(fnp.ones(3))) == 3.0


def test_results_that_are_no_arrays_are_refused() -> None:
    with pytest.raises(ArgumentError, match="must be an array or a number, got str"):
        ft.jit(lambda x: {"a": "text"})(1.0)
    with pytest.raises(ArgumentError, match="must be an array or a number, got str"):
        ft.jit(lambda x: x)("text")


def test_lower_shows_every_stage() -> None:
    stages = ft.jit(lambda x: fnp.sum(fnp.exp(x) * 2)).lower(
        np.ones((4, 5), np.float32)
    )
    text = stages.as_text()
    assert "exp" in str(stages.graph)
    assert "test_jit.py" in str(stages.graph)
    assert "reduce[add]" in text
    assert len(stages.kernels) == 1
    assert len(stages.sources) == 1
    assert float(stages.compile()(np.zeros((4, 5), np.float32))) == 40.0


def test_lower_takes_shapes_alone() -> None:
    stages = ft.jit(lambda x: x @ x).lower(ft.ShapeDtypeStruct((8, 8), np.float32))
    assert stages.graph.outputs[0].shape == (8, 8)


def test_eval_shape_computes_nothing() -> None:
    big = ft.ShapeDtypeStruct((1 << 20, 1 << 20), np.float32)
    out = ft.eval_shape(lambda x: {"s": fnp.sum(x, 0), "t": x.T}, big)
    assert out["s"].shape == (1 << 20,)
    assert out["t"].dtype == np.float32


def test_disable_jit_runs_operation_by_operation() -> None:
    f = ft.jit(lambda x: x if x > 0 else -x)
    with ft.disable_jit():
        assert float(f(-2.0)) == 2.0


def test_threads_trace_and_run_side_by_side() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            x = np.full(100, seed, np.float32)
            for i in range(10):
                f = ft.jit(lambda v, i=i: fnp.sum(fnp.sin(v) * i))
                close(f(x), np.sum(np.sin(x) * i))
                close(ft.grad(f)(x), np.cos(x) * i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_outputs_that_are_inputs_or_constants() -> None:
    x = fnp.arange(6.0)
    same, shaped, one, again = ft.jit(
        lambda x: (x, x.reshape(2, 3), fnp.ones(3), x.reshape(3, 2))
    )(x)
    close(same, np.arange(6.0))
    close(shaped, np.arange(6.0).reshape(2, 3))
    close(one, np.ones(3))
    close(again, np.arange(6.0).reshape(3, 2))


def test_sizes_of_zero() -> None:
    f = ft.jit(lambda x: (fnp.sum(x, 1), x + 1, fnp.sum(x), fnp.max(x, 1, initial=3.0)))
    sums, more, total, greatest = f(np.ones((2, 0), np.float32))
    close(sums, np.zeros(2))
    assert more.shape == (2, 0)
    close(total, 0.0)
    close(greatest, np.full(2, 3.0))


def test_long_programs_are_compiled_in_linear_time() -> None:
    @ft.jit
    def f(x: Any) -> Any:
        for i in range(1700):
            x = fnp.sin(x) * 1.01 + fnp.flip(x) / (i + 2)
        return x

    x = np.linspace(-1, 1, 8, dtype=np.float32)
    want = x
    for i in range(1700):
        want = np.sin(want) * np.float32(1.01) + want[::-1] / np.float32(i + 2)
    np.testing.assert_allclose(np.asarray(f(x)), want, rtol=2e-2, atol=2e-3)


@pytest.mark.parametrize(
    "chosen",
    [
        {"static_argnums": 0, "donate_argnums": 0},
        {"static_argnums": (0, 1), "donate_argnums": 1},
        {"static_argnums": -1, "donate_argnums": 1},
        {"static_argnums": 0, "donate_argnames": "x"},
        {"static_argnames": "y", "donate_argnums": 1},
        {"static_argnames": ("x", "y"), "donate_argnames": "y"},
    ],
)
def test_an_argument_is_static_or_donated(chosen: Any) -> None:
    with pytest.raises(StaticArgumentError, match="as static and as donated"):
        ft.jit(lambda x, y: x * y, **chosen)


@pytest.mark.parametrize("given", ["0", 1.0, (0, None), ((0,),), slice(0, 1)])
@pytest.mark.parametrize("name", ["static_argnums", "donate_argnums"])
def test_argnums_of_jit_are_ints(name: str, given: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name} must be an int"):
        ft.jit(lambda x, y: x * y, **{name: given})


def test_names_of_arguments_are_of_those_that_are_given_by_name() -> None:
    def f(a: Any, /, b: Any, *args: Any, **kwargs: Any) -> Any:
        return b

    for kind in ("static_argnames", "donate_argnames"):
        ft.jit(f, **{kind: ("b", "other")})
        for name in ("a", "args"):
            with pytest.raises(StaticArgumentError, match=f"names '{name}'"):
                ft.jit(f, **{kind: (name, "b")})


def test_what_is_given_up_by_name_needs_a_signature() -> None:
    class Nameless:
        @property
        def __signature__(self) -> Any:
            raise TypeError("no signature")

        def __call__(self, x: Any) -> Any:
            return x + 1

    with pytest.raises(StaticArgumentError, match="Pass donate_argnums"):
        ft.jit(Nameless(), donate_argnames="x")
    assert ft.jit(Nameless(), donate_argnums=0)(1) == 2
    assert ft.jit(Nameless(), static_argnames="x")(1) == 2


def test_all_jits_of_a_function_trace_it_once_while_it_lives() -> None:
    traces: list[None] = []
    held = fnp.ones(3)

    def f(x: ft.Array, k: int = 1) -> ft.Array:
        traces.append(None)
        return x * k + held

    for _ in range(2):
        for _ in range(8):  # the last ones find what is native
            ft.jit(f)(held)
        assert ft.jit(f, static_argnums=1)(held, 3)[0] == 4
    assert len(traces) == 2
    ft.jit(f).clear_cache()
    ft.jit(f)(held)
    assert len(traces) == 3
    alive = weakref.ref(f)
    del f
    assert alive() is None


def test_traces_in_use_stay_where_the_limit_is_reached() -> None:
    table: Table[int, int] = Table(latest=0)

    def f(x: Any) -> Any:
        return x * 2

    for _ in range(3):
        ft.jit(f)(1.0)
        table.put(1, 0, 1 << 40)  # that is more than all may hold
    assert ft.jit(f).trace_count == 1
    table.put(1, 0, 1 << 40)
    assert ft.jit(f).trace_count == 0


def test_functions_that_their_traces_hold_go_with_the_caches() -> None:
    def make() -> Any:
        def f(x: Any) -> Any:
            ft.debug.callback(lambda v: f and None, x)
            return x * 2

        return f

    f = make()
    alive = weakref.ref(f)
    ft.jit(f)(1.0)
    ft.jit(f)(1.0)
    del f
    ft.clear_caches()
    for _ in range(3):
        gc.collect()
    assert alive() is None


@pytest.mark.parametrize("calls", [1, 50])  # by Python, and natively
def test_clear_caches_has_functions_traced_anew(calls: int) -> None:
    def f(x: Any) -> Any:
        return x * scale[0]

    scale = [2]
    many, inner = ft.jit(f), ft.jit(lambda x: ft.grad(ft.jit(f))(x))
    for _ in range(calls):
        assert (float(many(1.0)), float(inner(1.0))) == (2.0, 2.0)
    ft.clear_caches()
    assert many.cache_info().signatures == many.cache_info().native == 0
    scale[0] = 3
    for _ in range(calls):
        assert (float(many(1.0)), float(inner(1.0))) == (3.0, 3.0)
    assert many.trace_count == 2


def test_numbers_that_a_vmap_shares_stay_numbers_where_jit_traces_once() -> None:
    def scaled(x: Any, n: Any, rate: Any) -> Any:
        assert [type(n), type(rate)] == [int, float]
        return x * rate if n > 1 else x

    f = ft.jit(lambda x: ft.vmap(scaled, (0, None, None))(x, 2, 0.5))
    assert f(fnp.arange(3.0)).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: ft.jit(f),
        lambda f: ft.jit(ft.grad(f)),
        lambda f: ft.grad(ft.checkpoint(f)),
        lambda f: ft.jit(lambda v: ft.lax.cond(v[0] > 0, f, lambda v: v.sum(), v)),
    ],
)
def test_programs_hold_no_array_that_a_function_closed_over(transformed: Any) -> None:
    """They are kept for functions of the same graph when this one is gone."""
    data = fnp.arange(10.0) * 1
    alive = weakref.ref(data)
    function = transformed(partial(lambda data, v: (v * data).sum(), data))
    del data
    function(fnp.ones(10))
    assert alive() is not None
    del function
    gc.collect()
    assert alive() is None
