"""What a ported program relies on (FEATURES.md), each promise on its own."""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from itertools import cycle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.test_util import check_grads
from tests.data import record_promotion as promotion

RECORDED = json.loads(promotion.PATH.read_text())["expressions"]

# Names.


SUBMODULES = [
    "numpy", "numpy.linalg", "numpy.fft", "lax", "random", "nn", "nn.initializers",
    "tree", "tree_util", "flatten_util", "ops", "test_util", "scipy", "scipy.special",
    "scipy.stats", "scipy.stats.norm", "scipy.signal", "optim", "errors", "lax.linalg",
    "scipy.linalg", "scipy.ndimage", "scipy.optimize", "debug",
]  # fmt: skip


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_are_real_modules(name: str) -> None:
    module = importlib.import_module(f"ftrace.{name}")
    assert isinstance(module, ModuleType)
    found: Any = ft
    for part in name.split("."):
        found = getattr(found, part)
    assert found is module


def test_top_level_names() -> None:
    names = (
        "Array ShapeDtypeStruct block_until_ready config default_device device_get "
        "device_put devices disable_jit eval_shape grad hessian jacfwd jacobian jacrev "
        "jit jvp linear_transpose linearize make_graph make_jaxpr named_call "
        "named_scope value_and_grad vjp vmap float0 load save counters"
    )
    assert [n for n in names.split() if not hasattr(ft, n)] == []


def test_check_grads_tells_right_from_wrong() -> None:
    x = np.linspace(-1, 1, 5)
    check_grads(lambda v: fnp.sin(v) * fnp.exp(-v * v), (x,), 3)
    check_grads(lambda v: fnp.sin(v) * v, (x.astype(np.float32),), 2)
    check_grads(
        lambda t: {"a": t["x"] @ t["y"]}, ({"x": np.eye(3), "y": np.ones(3)},), 2
    )
    check_grads(lambda z: z * z * 1j, (np.array([1 + 2j, 3j]),), 2)
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match="not the finite difference"):
            check_grads(lambda v: ft.lax.stop_gradient(v) * v, (x,), 1, modes=mode)
    with pytest.raises(errors.ValueRangeError, match="'fwd' or 'rev'"):
        check_grads(fnp.sin, (x,), 1, modes="both")
    with pytest.raises(errors.DerivativeError, match="float or complex"):
        check_grads(fnp.sin, (np.arange(3),), 1)


# Arrays and operands.


def test_arrays_are_immutable_and_unhashable() -> None:
    x = fnp.arange(3.0)
    with pytest.raises(errors.ImmutableError, match=r"x = x\.at\[i\]\.set\(y\)"):
        x[0] = 1  # type: ignore[index]
    with pytest.raises(errors.ImmutableError):
        del x[0]  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(TypeError, match="unhashable"):
        ft.jit(lambda v: {v: 1})(x)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 1
    before = x
    x += 1  # a new array
    assert before[0] == 0
    assert x[0] == 1


def test_numpy_operands_on_the_left_give_ours() -> None:
    a = np.arange(1.0, 4.0, dtype=np.float32)
    seen: list[str] = []

    def f(x: Any) -> Any:
        results = [
            a + x, a - x, a * x, a / x, a**x, a @ x, a % x, a // x, a < x, a == x,
            np.float32(2) * x, np.float64(2) - x, np.int32(2) ** x, np.bool_(True) + x,
            2 * x, True * x, np.add(a, x), np.stack([a, x]), np.concatenate([x, a]),
        ]  # fmt: skip
        seen.extend(type(r).__name__ for r in results)
        return results

    got = ft.jit(f)(fnp.asarray(a))
    assert set(seen) == {"Tracer"}
    seen.clear()
    eager = f(fnp.asarray(a))
    assert set(seen[:-3]) == {"Array"}  # functions of NumPy give NumPy's, as in JAX
    for one, two in zip(got, eager, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(two), rtol=1e-6)
        assert one.dtype == two.dtype


# Exceptions and threads.


def test_after_an_exception_while_tracing_everything_works() -> None:
    def broken(x: Any) -> Any:
        inner = ft.grad(lambda y: ft.vmap(lambda z: z.nope)(y).sum())
        return inner(x)

    for wrap in (ft.jit, ft.vmap, lambda f: f):
        with pytest.raises(AttributeError, match="nope"):
            wrap(broken)(np.ones((2, 3)))
        assert float(fnp.sum(fnp.ones(3))) == 3.0
        assert isinstance(fnp.ones(3), ft.Array)
        assert float(ft.jit(ft.grad(lambda x: x * x))(3.0)) == 6.0


def test_deep_structures_do_not_end_in_a_recursion_error() -> None:
    x: Any = 1.0
    f = ft.jit(lambda x: x)
    for _ in range(200):
        x = [x]
    assert len(ft.tree.leaves(f(x))) == 1

    def chain(x: Any) -> Any:
        for i in range(5000):
            x = x * 0.5 + i
        return x

    assert np.isfinite(float(ft.grad(chain)(0.5)))


def test_a_trace_does_not_block_the_eager_work_of_another_thread() -> None:
    tracing, done = threading.Event(), threading.Event()
    found: list[float] = []

    def slow(x: Any) -> Any:
        tracing.set()
        assert done.wait(20)
        return x * 2

    thread = threading.Thread(target=lambda: found.append(float(ft.jit(slow)(2.0))))
    thread.start()
    assert tracing.wait(20)
    x = fnp.arange(4.0)
    assert isinstance(x, ft.Array)
    assert float(fnp.sum(x @ x + fnp.sin(x) * 0)) == 56.0
    assert float(ft.jit(lambda v: fnp.sum(v) * 3)(x)) == 18.0
    assert float(ft.grad(lambda v: v * v)(2.0)) == 4.0
    done.set()
    thread.join(20)
    assert found == [4.0]


# Programs that stop JAX.


def test_a_program_of_5000_mixed_operations_compiles() -> None:
    def f(x: Any, m: Any) -> Any:
        for i in range(400):
            x = fnp.sin(x) * 1.01
            x = x + m @ x * 1e-3
            x = fnp.where(x > 0, x, -x)
            if i % 5 == 0:
                x = x.reshape(2, 4).T.reshape(-1) / (1 + fnp.max(x))
            if i % 7 == 0:
                x = fnp.concatenate([x[4:], x[:4]]) - fnp.sum(x) * 1e-3
        return x

    x = np.full(8, 0.3, np.float32)
    m = np.eye(8, dtype=np.float32)
    count = len(ft.make_graph(f)(x, m).nodes)
    assert count > 5000
    start = time.perf_counter()
    got = np.asarray(ft.jit(f)(x, m))
    each = (time.perf_counter() - start) / count * 1e6
    print(f"{count} operations: {each:.0f} µs each")  # noqa: T201
    with ft.disable_jit():
        np.testing.assert_allclose(got, np.asarray(f(x, m)), rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_computes() -> None:
    f = ft.jit(lambda x: fnp.sum(x @ x + fnp.sin(x)))
    x = np.ones((700, 700), np.float32)  # large enough for several threads
    want = float(f(x))
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads and fork
        child = os.fork()
    if child == 0:
        try:
            again = float(f(x)) == want
            fresh = float(ft.jit(lambda x: fnp.sum(x @ x * 2))(x)) > 0
            eager = float(fnp.sum(fnp.ones(3) @ fnp.ones((3, 2)))) == 6
            os.write(writer, b"ok" if again and fresh and eager else b"no")
        finally:
            os._exit(0)
    ready = select.select([reader], [], [], 30)[0]
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert ready, "the child hangs"
    assert os.read(reader, 2) == b"ok"
    assert float(f(x)) == want


def test_positions_beyond_two_to_the_31(device: Any) -> None:
    size = 1 << 33

    def numbers() -> Any:
        return fnp.arange(size, dtype="int64")

    at = np.array([size - 5, 7, (1 << 31) + 3])
    got = ft.jit(lambda i: fnp.take(numbers(), i))(at)
    np.testing.assert_array_equal(np.asarray(got), at)
    got = ft.jit(lambda: numbers()[(1 << 32) + 1 :: 1 << 31])()
    np.testing.assert_array_equal(np.asarray(got), [2**32 + 1, 2**32 + 2**31 + 1])
    got = ft.jit(lambda i: ft.lax.dynamic_slice(numbers(), (i,), (3,)))(np.int64(2**32))
    np.testing.assert_array_equal(np.asarray(got), np.arange(3) + 2**32)

    def pairs(i: Any) -> Any:
        return fnp.broadcast_to(fnp.arange(2.0), (1 << 32, 2)).ravel()[i]

    assert float(ft.jit(pairs)(np.int64(2**32 + 1))) == 1.0


def test_jit_does_no_unsafe_algebra_on_floats(device: Any) -> None:
    def f(a: Any, b: Any) -> list[Any]:
        return [
            a + 0.0, a - 0.0, 0.0 - a, a * 1.0, a / 1.0, a * 0.0, a - a, a / a, -a,
            (a + 1e8) - 1e8, (a * 3.0) / 3.0, a + b - b, (a * b) / b, a * 2.0 * 0.5,
            a + a, abs(-a), fnp.negative(-a), a != a, a == a, a <= a, (a * a) ** 0.5,
            a * b + a * 3.0, a * (b + 3.0),
        ]  # fmt: skip

    values = np.float32([0, -0.0, 1.25, np.nan, np.inf, -np.inf, 3e38, -1, 1e-30])
    a, b = (v.ravel().copy() for v in np.meshgrid(values, values))
    got = ft.jit(f)(a, b)
    with np.errstate(all="ignore"):
        want = f(a, b)
    for i, (one, two) in enumerate(zip(got, want, strict=True)):
        one = np.asarray(one)
        np.testing.assert_array_equal(one, two, err_msg=f"expression {i}")
        known = ~np.isnan(two)
        if two.dtype == np.float32:
            signs = np.signbit(one[known]), np.signbit(two[known])
            np.testing.assert_array_equal(*signs, err_msg=f"expression {i}")


def test_minimum_and_maximum_carry_nan(device: Any) -> None:
    a = np.float32([1, np.nan, np.nan, np.inf])
    b = np.float32([np.nan, 1, np.nan, -np.inf])
    low, high, least, most = ft.jit(
        lambda a, b: (fnp.minimum(a, b), fnp.maximum(a, b), fnp.min(a), fnp.max(b))
    )(a, b)
    np.testing.assert_array_equal(np.asarray(low), np.minimum(a, b))
    np.testing.assert_array_equal(np.asarray(high), np.maximum(a, b))
    assert np.isnan(float(least))
    assert np.isnan(float(most))


# Dtypes.


@pytest.fixture(params=[False, True])
def x64(request: pytest.FixtureRequest) -> Any:
    with ft.config(jax_enable_x64=request.param):
        yield request.param


@pytest.mark.parametrize("expression", promotion.EXPRESSIONS)
def test_the_64_bit_switch_gives_jaxs_dtypes(x64: bool, expression: str) -> None:
    want = RECORDED[str(x64)][expression]
    assert promotion.outcome(expression, {"xnp": fnp, "np": np}) == want


def test_without_the_switch_dtypes_are_honoured_and_defaults_are_narrow() -> None:
    honoured = {
        "xnp.array(np.zeros(2))": "float64",
        "xnp.asarray(np.int64(1))": "int64",
        "xnp.zeros(2)": "float32",
        "xnp.arange(3)": "int32",
        "xnp.zeros(2, 'float64')": "float64",
        "xnp.ones(2) * np.float64(2)": "float32",
        "xnp.array(2**40)": "int64~",
        "xnp.array(2**64)": "OverflowError",
    }
    for expression, want in honoured.items():
        assert promotion.outcome(expression, {"xnp": fnp, "np": np}) == want
    assert ft.jit(lambda x: x + 1)(np.zeros(2)).dtype == np.float64


@pytest.mark.parametrize(("value", "dtype"), [("1", "float64"), ("0", "float32")])
def test_the_switch_in_the_environment(value: str, dtype: str) -> None:
    program = (
        "import numpy as np, ftrace.numpy as fnp; print(fnp.asarray(np.ones(2)).dtype, "
        "fnp.zeros(1).dtype)"
    )
    env = {**os.environ, "FTRACE_ENABLE_X64": value}
    result = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    assert result.stdout.split() == [dtype, dtype]


def test_update_changes_the_switch_for_all_threads() -> None:
    found: list[Any] = []
    ft.config.update("jax_enable_x64", True)
    try:
        thread = threading.Thread(target=lambda: found.append(fnp.zeros(1).dtype))
        thread.start()
        thread.join()
        assert ft.config.jax_enable_x64 is True
    finally:
        ft.config.update("jax_enable_x64", None)
    assert found == [np.float64]
    assert fnp.zeros(1).dtype == np.float32


# The disk cache.

PROGRAM = (
    "import ftrace as ft, ftrace.numpy as fnp; "
    "print(float(ft.jit(lambda x: fnp.sum(fnp.sin(x) * 3))(fnp.zeros(100))))"
)


def run_with_cache(folder: Path, warning: str = "") -> str:
    env = {**os.environ, "FTRACE_CACHE_DIR": str(folder)}
    result = subprocess.run(
        [sys.executable, "-W", "default" if warning else "error", "-c", PROGRAM],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert (result.stderr.count(warning) == 1) if warning else result.stderr == ""
    return result.stdout


def test_a_damaged_cache_does_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    want = run_with_cache(folder)
    files = [p for p in folder.rglob("*") if p.is_file()]
    assert len(files) > 2, "FTRACE_CACHE_DIR names the disk cache"
    damages = [lambda _: b"", lambda _: b"junk", lambda whole: whole[: len(whole) // 2]]
    for path, damage in zip(sorted(files), cycle(damages), strict=False):
        path.write_bytes(damage(path.read_bytes()))
    assert run_with_cache(folder) == want


def test_a_file_where_the_cache_should_be_does_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.write_text("not a folder")
    assert run_with_cache(folder, "CacheWarning").strip() == "0.0"
    assert folder.read_text() == "not a folder"


@pytest.mark.parametrize("name", ["FTRACE_DEBUG", "FTRACE_THREADS"])
def test_an_environment_variable_that_is_no_number_is_named(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import ftrace"],
        env={**os.environ, name: "many"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert (
        f"{name} must be a whole number, written in digits, got 'many'" in done.stderr
    )
