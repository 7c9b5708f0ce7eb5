"""Running reductions as kernels: values, special ones, bits, other processors."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace.backends.llvm.compile import emit_object, link
from ftrace.backends.llvm.render import render_recurrence
from ftrace.backends.llvm.scalar.ops import operations_of
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.program import CallHost, RunKernel
from ftrace.lower.register_loops.register_loop import Recurrence, legalize_registers
from ftrace.trace.bind import bind_compound
from ftrace.trace.primitives.library.scan import Along, recurrence_p
from tests.support.covering import covering

RULE = "native_scan"
UFUNCS: dict[str, Any] = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
    "cumlogsumexp": np.logaddexp,
}
#: Contiguous rows with and without a rest, few columns, strips of many, one element.
SHAPES = [
    ((100,), 0), ((64,), 0), ((3, 17), 1), ((17, 3), 0), ((4, 33, 40), 1),
    ((2, 9, 300), 1), ((27, 600), 0), ((2, 9, 5001), 1), ((5, 9, 1), 1), ((9, 2049), 0),
]  # fmt: skip
FLOATS = ("float32", "float64", "float16", "bfloat16")
TOLERANCE = {
    "float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-7, "complex64": 6e-7,
    "float64": 1e-13, "complex128": 1e-13,
}  # fmt: skip
CASES = [
    (name, dtype)
    for name in UFUNCS
    for dtype in (*FLOATS, "complex64", "complex128", "int32", "int64", "uint8", "bool")
    if not (dtype == "bool" and name in ("cumsum", "cumprod"))
    and not ("complex" in dtype and name not in ("cumsum", "cumprod"))
    and not (name == "cumlogsumexp" and "float" not in dtype)
]


def sample(name: str, dtype: str, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(len(name) + sum(shape))
    x: Any = rng.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    if "int" in dtype:
        x = rng.integers(0, 5, shape)
    if name == "cumprod" and "int" not in dtype:
        x = 1 + x * 0.02
    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return (x > 0 if dtype == "bool" else x).astype(kind)


def expected(name: str, x: Any, axis: int, reverse: bool) -> Any:
    """NumPy's, in twice the digits."""
    wide: Any = x.dtype
    if x.dtype.kind in "fV" and x.dtype.itemsize < 8:
        wide = np.float64
    if x.dtype == np.complex64:
        wide = np.complex128
    x = np.flip(x, axis) if reverse else x
    found = UFUNCS[name].accumulate(x.astype(wide), axis, dtype=wide)
    return np.flip(found, axis) if reverse else found


def program_of(function: Any, *arrays: Any) -> Any:
    return ft.jit(lambda *a: function(*a)).lower(*arrays).program


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_running_kernels_have_the_values_of_numpy(
    name: str, dtype: str, reverse: bool
) -> None:
    with ft.config(enable_x64=True):
        for shape, axis in SHAPES[reverse::2]:
            x = sample(name, dtype, shape)

            def f(x: Any, axis: int = axis) -> Any:
                return getattr(lax, name)(x, axis=axis, reverse=reverse)

            found, want = np.asarray(ft.jit(f)(x)), expected(name, x, axis, reverse)
            assert found.dtype == x.dtype
            if dtype not in TOLERANCE:
                np.testing.assert_array_equal(found, want)
                continue
            tolerance = TOLERANCE[dtype]
            scale = max(1.0, float(np.abs(want).max()))
            np.testing.assert_allclose(
                found.astype(want.dtype), want, rtol=tolerance, atol=tolerance * scale
            )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", UFUNCS)
def test_special_values_run_as_in_numpy(name: str, axis: int) -> None:
    x = np.ones((40, 24), np.float32) * np.float32(0.5)
    for i, special in enumerate((np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e-45)):
        x[3 * i, 2 * i + 1] = special
        x[3 * i + 1, 2 * i] = special
        x[3 * i + 2, :] = special
    x[:4, 20:] = -np.inf
    x[30:, :] = -0.0
    with np.errstate(all="ignore"):
        want = expected(name, x, axis, False).astype(np.float32)
    found = np.asarray(ft.jit(lambda x: getattr(lax, name)(x, axis=axis))(x))
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)
    if name != "cumlogsumexp":
        if name == "cumsum":
            want += 0.0  # of -0 alone it is +0
        known = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(want)[known])


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
@pytest.mark.parametrize("shape", [2, 5, 20, 1 << 17, (40, 3), (40, 7), (40, 30)])
def test_running_sums_of_negative_zeros_are_positive(
    shape: int | tuple[int, ...], dtype: str
) -> None:
    x = np.full(shape, -0.0, dtype)
    for device in ("cpu", "interpreter"):
        with ft.default_device(device):
            for cumsum in (fnp.cumsum, ft.jit(fnp.cumsum, static_argnums=1)):
                found = np.asarray(cumsum(fnp.asarray(x), 0))
                assert not np.signbit(found.real).any()


def test_a_running_sum_is_a_kernel_and_the_rule_can_be_switched_off() -> None:
    x = np.ones((30, 20), np.float32)
    (step,) = program_of(lambda x: lax.cumsum(x, axis=1), x).steps
    assert isinstance(step, RunKernel)
    assert isinstance(step.kernel, Recurrence)
    assert step.kernel.scan is not None
    with ft.config(disabled_rules=(RULE,)):
        (step,) = program_of(lambda x: lax.cumsum(x, axis=1), x).steps
    assert isinstance(step, CallHost)


def test_complex_extrema_stay_with_the_host() -> None:
    x = sample("cumsum", "complex64", (20,))
    (step,) = program_of(lambda x: lax.cummax(x), x).steps
    assert isinstance(step, CallHost)
    want = np.maximum.accumulate(x)
    np.testing.assert_array_equal(np.asarray(ft.jit(lax.cummax)(x)), want)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_recurrences_have_the_values_of_a_loop(
    shape: tuple[int, ...], axis: int, reverse: bool
) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((2, *shape)).astype(np.float32)

    def f(a: Any, b: Any) -> Any:
        return bind_compound(recurrence_p, a, b, arg=Along(axis, reverse))[0]

    steps, terms = (np.moveaxis(x.astype(np.float64), axis, 0) for x in (a, b))
    if reverse:
        steps, terms = steps[::-1], terms[::-1]
    y, rows = np.zeros(terms.shape[1:]), []
    for factor, term in zip(steps, terms, strict=True):
        y = factor * y + term
        rows.append(y)
    want = np.stack(rows)[::-1] if reverse else np.stack(rows)
    found = np.asarray(ft.jit(f)(fnp.asarray(a), fnp.asarray(b)))
    np.testing.assert_allclose(found, np.moveaxis(want, 0, axis), rtol=2e-5, atol=2e-5)


@covering(1, dtype=["uint8", "int32", "float32"], reverse=[False, True])
def test_rows_of_every_length_pass_the_borders_of_vectors(
    dtype: str, reverse: bool
) -> None:
    for size in (*range(1, 36), 63, 64, 65, 127, 128, 129, 200, 321):
        x = np.random.default_rng(size).integers(0, 9, (3, size)).astype(dtype)
        found = np.asarray(ft.jit(lambda x: lax.cumsum(x, 1, reverse))(x))
        want = expected("cumsum", x, 1, reverse).astype(dtype)
        np.testing.assert_array_equal(found, want, str(size))


@covering(1, dtype=["int8", "int64", "float32"], reverse=[False, True])
def test_few_columns_run_as_one_row(dtype: str, reverse: bool) -> None:
    for columns in (2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33):
        for size in (1, 2, 7, 40, 41):
            x = np.random.default_rng(size).integers(0, 3, (2, size, columns))
            x = x.astype(dtype)
            found = np.asarray(ft.jit(lambda x: lax.cumsum(x, 1, reverse))(x))
            want = expected("cumsum", x, 1, reverse).astype(dtype)
            np.testing.assert_array_equal(found, want, f"{size} × {columns}")


@pytest.mark.parametrize(("shape", "axis"), [((40, 3000), 1), ((200, 3000), 0)])
def test_bits_do_not_depend_on_the_number_of_threads(
    shape: tuple[int, ...], axis: int
) -> None:
    x = sample("cumsum", "float32", shape)
    found: list[Any] = []
    for threads in (1, 2, 5):
        with ft.config(threads=threads):
            f = ft.jit(lambda x: (lax.cumsum(x, axis=axis), lax.cumprod(x, axis=axis)))
            found.append([np.asarray(y).view(np.uint32) for y in f(x)])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_running_sums_inside_of_loops_and_branches() -> None:
    x = sample("cumsum", "float32", (6, 50))

    def f(x: Any) -> Any:
        rows = lax.map(lambda row: fnp.cumsum(row) * 2, x)
        total = lax.fori_loop(0, 3, lambda i, y: fnp.cumsum(y, axis=1) * 0.1, x)
        return rows, lax.cond(
            x[0, 0] > 100, lambda: total, lambda: fnp.cumsum(total, 0)
        )

    rows, last = ft.jit(f)(x)
    want = np.cumsum(x, 1) * 2
    np.testing.assert_allclose(np.asarray(rows), want, rtol=1e-5, atol=1e-5)
    y = x.astype(np.float64)
    for _ in range(3):
        y = np.cumsum(y, 1) * 0.1
    np.testing.assert_allclose(np.asarray(last), np.cumsum(y, 0), rtol=1e-5, atol=1e-6)


def test_a_running_kernel_can_be_read() -> None:
    (step,) = program_of(lambda x: lax.cumprod(x, reverse=True), np.ones(20)).steps
    text = str(step.kernel)
    assert text.startswith("running backwards along 1x[20]x1:")
    assert "mul" in text


_TARGETS = [
    Target.of("x86_64-unknown-linux-gnu", "x86-64"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v4"),
    Target.of("aarch64-unknown-linux-gnu", "generic"),
]


@covering(1, target=_TARGETS, name=UFUNCS)
def test_code_for_other_processors_is_accepted(name: str, target: Target) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )
    for shape, axis in SHAPES:
        x = np.ones(shape, np.float32)
        (step,) = program_of(lambda x, a=axis: getattr(lax, name)(x, axis=a), x).steps
        legal = legalize_registers(step.kernel, operations_of(target))
        module = llvm.parse_assembly(render_recurrence(legal, target).text)
        module.verify()
        assert machine.emit_object(module)


def test_combinations_of_few_columns_stay_in_registers() -> None:
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v3")
    for columns in (20, 600):
        (step,) = program_of(lax.cummax, np.ones((90, columns), np.float32)).steps
        legal = legalize_registers(step.kernel, operations_of(target))
        text = render_recurrence(legal, target).text
        assert ("alloca" in text) is (columns == 600)


@pytest.mark.parametrize("target", _TARGETS[:3], ids=lambda t: t.cpu)
@pytest.mark.parametrize("reverse", [False, True])
def test_narrower_processors_compute_the_same(reverse: bool, target: Target) -> None:
    """What this machine can run of the code for others; nothing beside is touched."""
    here = host_target()
    if here.triple[:6] != target.triple[:6] or here.vector_bytes < target.vector_bytes:
        pytest.skip("this processor cannot run that code")
    for shape, axis in SHAPES:
        x = sample("cumsum", "float32", shape)

        def f(x: Any, axis: int = axis) -> Any:
            return lax.cumsum(x, axis=axis, reverse=reverse)

        (step,) = program_of(f, x).steps
        legal = legalize_registers(step.kernel, operations_of(target))
        rendered = render_recurrence(legal, target)
        code = link(emit_object(rendered.text, target), ("kernel",))
        whole = np.full(x.size + 128, 7, np.float32)
        found = whole[64:-64]
        pointers = (ctypes.c_void_p * 2)(found.ctypes.data, x.ctypes.data)
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        function = kind(code.address("kernel"))
        for unit in range(rendered.parallel):
            function(pointers, unit, unit + 1)
        assert (whole[:64] == 7).all()
        assert (whole[-64:] == 7).all()
        want = expected("cumsum", x, axis, reverse)
        np.testing.assert_allclose(found.reshape(shape), want, rtol=1e-6, atol=1e-5)


# Long rows in blocks.

BLOCKS = "blocked_scan"
LONG = 1 << 17


def steps_of(name: str, x: Any) -> int:
    program = ft.jit(lambda x: getattr(lax, name)(x, axis=x.ndim - 1)).lower(x).program
    return len(program.steps)


@covering(
    2,
    reverse=[False, True],
    dtype=["float32", "float64", "bfloat16", "int32", "uint8"],
    name=["cumsum", "cumprod", "cummax", "cummin"],
    shape=[(LONG + 64 * 17,), (3, LONG), (LONG + 16,)],
)
def test_long_rows_in_blocks(
    name: str, dtype: str, reverse: bool, shape: tuple[int, ...]
) -> None:
    x: Any = sample(name, dtype, shape).astype(np.float64) * 0.1
    x = fnp.asarray(x + (0.9 if name == "cumprod" else 0)).astype(dtype)

    def running(x: Any) -> Any:
        return getattr(lax, name)(x, axis=len(shape) - 1, reverse=reverse)

    assert steps_of(name, x) == 4
    got = np.asarray(ft.jit(running)(x))
    with ft.config(threads=1):
        alone = np.asarray(ft.jit(running)(x))
    with ft.config(disabled_rules={BLOCKS}):
        assert steps_of(name, x) == 1
        whole = np.asarray(ft.jit(running)(x))
    assert got.tobytes() == alone.tobytes()
    exact = "float" not in dtype or name in ("cummax", "cummin")
    wide = [z.astype(np.float64) for z in (got, whole)]
    tolerance = 0.0 if exact else TOLERANCE[dtype] * 40
    scale = float(np.max(np.abs(wide[1])))
    np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance * scale)


def test_rows_that_are_short_many_or_of_other_operators_stay_whole() -> None:
    ones = np.ones(LONG, np.float32)
    assert steps_of("cumsum", ones) == 4
    assert steps_of("cumsum", ones[: LONG // 2]) == 1
    assert steps_of("cumsum", np.ones((16, LONG), np.float32)) == 1
    assert steps_of("cumsum", np.ones(LONG + 1, np.float32)) == 1  # no equal blocks
    assert steps_of("cumlogsumexp", ones) == 1


def test_zeros_and_what_is_not_finite_pass_the_borders_of_blocks() -> None:
    zeros = np.full(LONG, -0.0, np.float32)
    assert not np.signbit(np.asarray(ft.jit(fnp.cumsum)(zeros))).any()
    x = sample("cumsum", "float32", (LONG,)).astype(np.float32)
    x[40_000], x[90_000] = np.inf, -np.inf
    got = np.asarray(ft.jit(fnp.cumsum)(x))
    assert np.isfinite(got[:40_000]).all()
    assert np.isposinf(got[40_000:90_000]).all()
    assert np.isnan(got[90_000:]).all()
    x[90_000] = np.nan
    most = np.asarray(ft.jit(lambda x: lax.cummax(x))(x))
    assert np.isposinf(most[40_000:90_000]).all()
    assert np.isnan(most[90_000:]).all()
