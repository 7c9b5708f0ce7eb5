"""Callbacks: their derivatives, lanes, promised results, exceptions and formats."""

from __future__ import annotations

import gc
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import debug, errors, lax
from pytest_ftrace import require_device
from tests.support.effects_recorder import Counter, Log

f32 = np.float32
SCALAR = ft.ShapeDtypeStruct((), f32)


# Derivatives.


def double(x: Any) -> Any:
    return np.asarray(x) * f32(2)


@pytest.mark.parametrize("call", [ft.io_callback, ft.pure_callback])
@pytest.mark.parametrize("transform", [
    ft.grad, lambda f: ft.jit(ft.grad(f)), lambda f: ft.grad(ft.jit(f)),
    lambda f: lambda x: ft.jvp(f, (x,), (x,)), lambda f: lambda x: ft.vjp(f, x),
])  # fmt: skip
def test_derivatives_of_callbacks_are_refused(call: Any, transform: Any) -> None:
    def f(x: Any) -> Any:
        return call(double, SCALAR, x * 2) + x

    with pytest.raises(errors.DerivativeError, match="custom_jvp") as caught:
        transform(f)(f32(1))
    assert "call(double, SCALAR, x * 2)" in str(caught.value)


@pytest.mark.parametrize("jit", [lambda f: f, ft.jit])
def test_constants_of_the_derivative_may_come_from_callbacks(
    mode: str, jit: Any
) -> None:
    def f(x: Any) -> Any:
        scale = ft.io_callback(double, SCALAR, lax.stop_gradient(x))
        count = ft.io_callback(
            lambda v: np.int32(v), ft.ShapeDtypeStruct((), np.int32), x
        )
        ft.io_callback(lambda v: None, None, x)
        return x * scale * count

    assert float(jit(ft.grad(f))(f32(3))) == 18


def test_reverse_mode_runs_no_io_callback_again() -> None:
    counter = Counter()

    def body(state: Any) -> Any:
        i, x = state
        return i + 1, fnp.sin(x) * ft.io_callback(counter.next, SCALAR, i)

    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 3, body, (0, x))[1]

    with ft.config(device="interpreter"):
        ft.grad(f)(f32(1))
        assert counter.count == 3
        with pytest.raises(errors.DerivativeError, match="must not be called again"):
            ft.vjp(f, f32(1))


# vmap of pure callbacks.


@pytest.mark.parametrize(("method", "shapes"), [
    (None, [((2,), (2,))] * 3), ("sequential", [((2,), (2,))] * 3),
    ("sequential_unrolled", [((2,), (2,))] * 3), ("expand_dims", [((3, 2), (1, 2))]),
    ("broadcast_all", [((3, 2), (3, 2))]), ("legacy_vectorized", [((3, 2), (2,))]),
])  # fmt: skip
def test_vmap_methods_show_these_shapes(mode: str, method: Any, shapes: Any) -> None:
    seen: list[Any] = []

    def add(x: Any, y: Any) -> Any:
        seen.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    def f(x: Any, y: Any) -> Any:
        return ft.pure_callback(
            add, ft.ShapeDtypeStruct((2,), f32), x, y, vmap_method=method
        )

    x, y = np.arange(6, dtype=f32).reshape(3, 2), np.array([10, 20], f32)
    np.testing.assert_array_equal(ft.vmap(f, (0, None))(x, y), x + y)
    assert seen == shapes


def test_vmap_methods_nest() -> None:
    def f(x: Any, y: Any) -> Any:
        return ft.pure_callback(
            lambda a, b: np.asarray(a) * np.asarray(b), SCALAR, x, y,
            vmap_method="expand_dims",
        )  # fmt: skip

    x, y = np.arange(2, dtype=f32), np.arange(3, dtype=f32)
    with ft.config(device="interpreter"):
        table = ft.vmap(lambda a: ft.vmap(lambda b: f(a, b))(y))(x)
    np.testing.assert_array_equal(table, x[:, None] * y)


def test_vectorized_is_deprecated() -> None:
    def f(x: Any) -> Any:
        return ft.pure_callback(double, SCALAR, x, vectorized=True)

    with pytest.warns(DeprecationWarning, match="legacy_vectorized"):
        found = ft.vmap(f)(np.arange(3, dtype=f32))
    np.testing.assert_array_equal(found, [0, 2, 4])
    with pytest.raises(errors.ArgumentError, match="vmap_method must be one of"):
        ft.pure_callback(double, SCALAR, 1.0, vmap_method="parallel")


# Results are what was promised.


@pytest.mark.parametrize(("specs", "result", "error", "parts"), [
    (SCALAR, lambda: np.ones(3, f32), errors.CallbackError, ["shape ()", "(3,)"]),
    (SCALAR, lambda: np.int32(1), errors.CallbackError, ["float32", "int32"]),
    (SCALAR, lambda: 1j, errors.CallbackError, ["float32", "complex64"]),
    (SCALAR, lambda: (1.0, 2.0), errors.CallbackError, ["one array", "(*, *)"]),
    (SCALAR, lambda: None, errors.CallbackError, ["one array", "None"]),
    (None, lambda: 3, errors.CallbackError, ["must return None", "one array"]),
    ({"a": SCALAR, "b": [SCALAR]}, lambda: {"a": 1.0, "b": [np.ones(2, f32)]},
     errors.CallbackError, ["['b'][0]", "(2,)"]),
    (SCALAR, lambda: "text", errors.CallbackError, ["str: 'text'"]),
])  # fmt: skip
def test_wrong_results_are_named(
    mode: str, specs: Any, result: Any, error: Any, parts: Any
) -> None:
    def give(*_: Any) -> Any:
        return result()

    def f(x: Any) -> Any:
        return ft.io_callback(give, specs, x)

    for call in (f, ft.jit(f), ft.vmap(f)):
        with pytest.raises(error) as caught:
            call(np.ones(1, f32))
        message = str(caught.value)
        assert "io_callback" in message
        assert "give" in message
        assert "ft.io_callback(give, specs, x)" in message
        assert all(part in message for part in parts), message


def test_results_take_the_promised_type(mode: str) -> None:
    int8 = ft.ShapeDtypeStruct((), np.int8)
    specs = {"n": int8, "x": [SCALAR, ft.ShapeDtypeStruct((2,), f32)]}

    def give(x: Any) -> Any:
        assert isinstance(x, ft.Array)
        return {"n": 7, "x": (lambda v: [2, v])(np.asarray(x, np.float64))}

    found = ft.jit(lambda x: ft.pure_callback(give, specs, x))(np.ones(2, f32))
    types = ft.tree.map(lambda a: (a.shape, a.dtype.name), found)
    assert types == {"n": ((), "int8"), "x": [((), "float32"), ((2,), "float32")]}
    with (
        ft.config(enable_x64=True),
        pytest.raises(errors.CallbackError, match="float64"),
    ):
        ft.jit(lambda x: ft.pure_callback(give, specs, x))(np.ones(2, f32))
    with pytest.raises(errors.DtypeOverflowError):
        ft.jit(lambda x: ft.pure_callback(lambda _: 300, int8, x))(1.0)


@pytest.mark.parametrize("dtype", ["int32", "complex64", "float32", "bool"])
def test_float64_is_given_as_float64(dtype: str) -> None:
    wide = ft.ShapeDtypeStruct((2,), np.float64)
    for run in (lambda f: f, ft.jit):
        with pytest.raises(errors.CallbackError, match=f"must have .* got {dtype}"):
            run(lambda: ft.pure_callback(lambda: np.ones(2, dtype), wide))()


def test_specifications_are_checked() -> None:
    with pytest.raises(errors.ArgumentError, match="ShapeDtypeStruct"):
        ft.pure_callback(double, 3, 1.0)
    wide = ft.ShapeDtypeStruct((), np.float64)
    with (
        ft.config(enable_x64=False),
        pytest.raises(errors.DtypeError, match="64 bits are switched off"),
    ):
        ft.pure_callback(double, wide, 1.0)
    for call in (ft.pure_callback, ft.io_callback):
        with pytest.raises(errors.ArgumentError, match="takes a function"):
            call(3, SCALAR, 1.0)
    with pytest.raises(errors.ArgumentError, match="takes a function"):
        debug.callback(None, 1.0)  # pyright: ignore[reportArgumentType]


def test_arguments_come_as_arrays_in_their_trees(mode: str) -> None:
    seen: list[Any] = []

    def look(*args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return f32(0)

    @ft.jit
    def f(x: Any) -> Any:
        return ft.pure_callback(
            look, SCALAR, {"a": x, "b": [np.arange(2), 3]}, "name", None, flag=True
        )

    f(f32(1.5))
    (tree, name, nothing), named = seen[0]
    arrays = [tree["a"], *tree["b"], named["flag"]]
    assert all(isinstance(a, ft.Array) for a in arrays)
    assert [a.tolist() for a in arrays] == [1.5, [0, 1], 3, True]
    assert (name, nothing) == ("name", None)


def test_what_a_callback_keeps_does_not_change(mode: str) -> None:
    kept: list[Any] = []

    def body(i: Any, x: Any) -> Any:
        debug.callback(kept.append, x)
        return x + 1

    ft.jit(lambda x: lax.fori_loop(0, 5, body, x))(np.zeros(3, f32))
    gc.collect()
    ft.jit(lambda x: x * 2)(np.ones(3, f32))
    np.testing.assert_array_equal(np.stack(kept)[:, 0], np.arange(5))


# Exceptions.


class Trouble(Exception):
    """Raised by callbacks of these tests."""


def fail_at(limit: float) -> Callable[..., Any]:
    def callback(x: Any) -> Any:
        if float(x) >= limit:
            raise Trouble(f"at {float(x)}")
        return np.asarray(x)

    return callback


def in_use(mode: str) -> int:
    gc.collect()
    if mode == "disable_jit":
        return 0
    return require_device(mode).allocator.in_use


@pytest.mark.parametrize("shape", ["straight", "scan", "while", "cond", "vmap"])
def test_exceptions_reach_the_caller_and_leave_all_usable(
    mode: str, shape: str
) -> None:
    failing = fail_at(3)

    def call(x: Any) -> Any:
        big = fnp.ones(1000) * x
        return ft.io_callback(failing, SCALAR, x) + big.sum() * 0

    def f(x: Any) -> Any:
        if shape == "scan":
            return lax.scan(lambda c, i: (call(c + i), c), x, fnp.arange(2.0))[0]
        if shape == "while":
            return lax.while_loop(lambda c: c < 4, lambda c: call(c) + 1, x)
        if shape == "cond":
            return lax.cond(x > 0, call, lambda v: v, x)
        if shape == "vmap":
            return ft.vmap(call)(fnp.stack([x, x - 1])).sum()
        return call(x)

    jitted = ft.jit(f)
    good = f32(5) if shape == "while" else f32(1)
    bad = f32(2) if shape == "while" else f32(3)
    first = float(jitted(good))
    before = in_use(mode)
    for _ in range(3):
        with pytest.raises(Trouble, match="at 3") as caught:
            jitted(bad)
        text = "".join(traceback.format_exception(caught.value))
        assert "raise Trouble" in text  # where it was raised
        if sys.version_info >= (3, 11):  # before, tracebacks show no notes
            assert "ft.io_callback(failing, SCALAR, x)" in text  # where it was written
        assert "jitted(bad)" in text  # where the program was called
        del caught
        assert in_use(mode) == before
    assert float(jitted(good)) == first


@pytest.mark.parametrize("exception", [KeyboardInterrupt, SystemExit, MemoryError])
def test_interrupts_pass_through(mode: str, exception: Any) -> None:
    stops = [True]

    def interrupt(x: Any) -> None:
        if stops:
            raise exception

    @ft.jit
    def f(x: Any) -> Any:
        debug.callback(interrupt, x)
        return x + 1

    with pytest.raises(exception):
        f(1.0)
    stops.clear()
    assert float(f(1.0)) == 2


def test_effects_after_an_exception_do_not_happen(mode: str) -> None:
    log = Log()

    @ft.jit
    def f(x: Any) -> Any:
        log.note("first", x)
        debug.callback(fail_at(0), x)
        log.note("second", x)
        return x

    with pytest.raises(Trouble):
        f(1.0)
    assert log.events == [["first", 1.0]]


def test_threads_call_back_for_themselves(mode: str) -> None:
    seen: dict[threading.Thread, list[int]] = {}

    def look(number: Any) -> Any:
        seen.setdefault(threading.current_thread(), []).append(int(number))
        return np.asarray(number) * 2

    spec = ft.ShapeDtypeStruct((), np.int32)
    f = ft.jit(lambda n: ft.io_callback(look, spec, n) + 1)
    found: dict[int, list[int]] = {}

    def work(start: int) -> None:
        if mode == "disable_jit":
            with ft.disable_jit():
                found[start] = [int(f(np.int32(start + i))) for i in range(20)]
        else:
            with ft.config(device=mode):
                found[start] = [int(f(np.int32(start + i))) for i in range(20)]

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for start in range(0, 400, 100):
        assert found[start] == [2 * (start + i) + 1 for i in range(20)]
    assert sorted(map(len, seen.values())) == [20] * 4


# Formats are checked where they are written.


@pytest.mark.parametrize(("fmt", "args", "message"), [
    ("{} {}", (1,), "asks for the argument 1"),
    ("{name}", (), "asks for the argument 'name'"),
    ("{}", (1, 2), "does not use"),
    ("{:.2f}", (np.ones(3),), "is for a scalar"),
    ("{:d}", (f32(1),), "does not fit"),
    ("{:.2f}", ([f32(1)],), "does not fit"),
    ("{", (), "does not fit"),
    (f32(1), (), "is the format"),
])  # fmt: skip
def test_wrong_formats_are_refused_before_anything_runs(
    fmt: Any, args: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves, treedef = ft.tree.flatten(args)

    def f(*values: Any) -> None:
        debug.print(fmt, *ft.tree.unflatten(treedef, values))

    for call in (f, ft.jit(f)):
        with pytest.raises(errors.ArgumentError, match=message) as found:
            call(*leaves)
        # As str.format raises.
        for kind, text in ((IndexError, "argument 1"), (KeyError, "argument 'name'")):
            assert isinstance(found.value, kind) or text not in message
    assert capsys.readouterr().out == ""


def test_format_checks_can_be_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    debug.print("{{{}}}", 1, skip_format_check=True)
    assert capsys.readouterr().out == "{1}\n"


def test_python_values_are_printed_as_they_are(
    mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    zero = [0.0, -0.0]

    def f(x: Any, k: int) -> None:
        debug.print("{} {} {} {}", 2**70, zero[k], "s", [x, {"k": k}])

    ft.jit(f, static_argnums=1)(f32(1), 0)
    ft.jit(f, static_argnums=1)(f32(1), 1)
    shown = "[Array(1., dtype=float32), {'k': %d}]"
    assert capsys.readouterr().out == (
        f"{2**70} 0.0 s {shown % 0}\n{2**70} -0.0 s {shown % 1}\n"
    )
