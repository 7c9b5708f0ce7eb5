"""Fourier transforms as kernels: NumPy's values, and no Python runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.library.fft.twiddles import stage_offsets
from ftrace.backends.llvm.target import Target
from ftrace.lower.assembly.serialize import program_of, program_text
from ftrace.lower.library import fft_kernels
from ftrace.lower.library.fft_kernels import (
    COLUMN,
    ROW,
    Form,
    Transform,
)
from ftrace.lower.library.fft_radices import (
    RADICES,
    is_smooth,
    matrix_of,
    smooth_from,
    stages_of,
)
from ftrace.lower.program import CallHost, RunKernel
from tests.support.covering import covering

Array = Any  # of NumPy

DTYPES = ("complex64", "complex128")
#: Shapes and axes: rows and columns of each number of steps, fewer numbers than fill a
#: vector, columns that fill none, and rows that are matrices.
CASES = [
    *[((3, n), 1) for n in (2, 4, 8, 16, 32, 64, 128, ROW)],
    *[((2, n, 16), 1) for n in (2, 4, 32, 128)],
    ((64, 37), 0), ((37, 64), 0), ((2, 8, 3), 1), ((19, 8), 1), ((2048, 17), 0),
    ((2 * COLUMN, 16), 0), ((5, 3), 0), ((6, 5), 0),
    ((2 * ROW,), 0), ((2, 4 * ROW), 1), ((1 << 17,), 0),
    # Other factors: of columns, of rows side by side, of few and of long rows.
    ((2, 210, 20), 1), ((21, 30), 0), ((20, 7), 1), ((33, 8), 1), ((16, 15), 1),
    ((17, 1000), 1), ((1000,), 0), ((2, 10_000), 1), ((30, 24, 5), 1),
    *[((20, n), 1) for n in RADICES], ((7,), 0), ((3, 12), 1), ((143, 18), 0),
    ((2, 31 * 31), 1), ((1001,), 0), ((40, 2500), 1), ((6000, 17), 0),
    # By chirps: batched rows, rows, columns, and long rows.
    *[((n, 18), 0) for n in (67, 134, 1021)], ((18, 67), 1), ((2, 71), 1), ((97,), 0),
    ((19, 211), 1), ((18, 1021), 1), ((3, 1021), 1), ((2, 2053), 1), ((17, 2053), 1),
    ((10_007,), 0), ((65_537,), 0), ((2053, 3), 0), ((2, 67, 5), 1),
]  # fmt: skip


def numbers(shape: tuple[int, ...], dtype: str = "complex64") -> Array:
    rng = np.random.default_rng(sum(shape))
    x = rng.standard_normal(shape)
    if "complex" in dtype:
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def program_of_transform(function: Callable[..., Any], *arrays: Array) -> Any:
    return ft.jit(lambda *a: function(*a)).lower(*arrays).program


def kernels_of(function: Callable[..., Any], *arrays: Array) -> list[Transform]:
    """The kernels that transform; there must be no call of the host."""
    steps = program_of_transform(function, *arrays).steps
    assert not any(isinstance(step, CallHost) for step in steps)
    kernels = [s.kernel for s in steps if isinstance(s, RunKernel)]
    return [k for k in kernels if isinstance(k, Transform)]


def assert_as_numpy(name: str, x: Array, **options: Any) -> None:
    """As exact as sums of that many numbers in a tree can be."""
    with ft.config(enable_x64=True):

        def f(x: Any) -> Any:
            return getattr(fnp.fft, name)(x, **options)

        assert kernels_of(f, x)
        found = ft.jit(f)(x).numpy()
    real = np.float64 if x.dtype in (np.float32, np.complex64) else np.longdouble
    wide = x.astype(np.result_type(real, np.complex64) if np.iscomplexobj(x) else real)
    wanted = getattr(np.fft, name)(wide, **options)
    single = x.dtype in (np.float32, np.complex64)
    assert found.dtype == (np.dtype("F" if single else "D") if
                           np.iscomplexobj(wanted) else x.real.dtype)  # fmt: skip
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    several = name.endswith(("2", "n"))
    size = wanted.size if several else wanted.shape[options.get("axis", -1)]
    assert error < max(2, np.log2(size)) * np.finfo(x.dtype).eps


@covering(1, case=CASES, dtype=DTYPES, name=["fft", "ifft"])
def test_transforms_along_an_axis_are_numpys(
    name: str, dtype: str, case: tuple[tuple[int, ...], int]
) -> None:
    shape, axis = case
    assert_as_numpy(name, numbers(shape, dtype), axis=axis)


@covering(
    1,
    size=[
        2,
        3,
        4,
        5,
        6,
        8,
        16,
        22,
        37,
        64,
        134,
        256,
        1000,
        1001,
        2042,
        2 * ROW,
        4 * ROW,
        20_014,
    ],
    double=[False, True],
)
def test_transforms_of_real_rows_are_numpys(size: int, double: bool) -> None:
    assert_as_numpy("rfft", numbers((3, size), "float64" if double else "float32"))
    half = numbers((3, size // 2 + 1), DTYPES[double])
    assert_as_numpy("irfft", half, n=size)  # whose first and last number are not real


@pytest.mark.parametrize("name", ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2"])
def test_transforms_along_several_axes_are_numpys(name: str) -> None:
    if name == "irfft2":
        x = np.fft.rfft2(numbers((3, 16, 32), "float64")).astype(np.complex64)
    else:
        x = numbers((4, 16, 32), "float32" if name == "rfft2" else "complex64")
    assert_as_numpy(name, x)


@pytest.mark.parametrize("name", ["fft", "ifft", "hfft", "ihfft"])
@pytest.mark.parametrize("norm", ["ortho", "forward"])
@pytest.mark.parametrize("n", [11, 43, 67])
def test_axes_are_cut_and_padded(name: str, norm: str, n: int) -> None:
    x = numbers((5, 46), "float32" if name == "ihfft" else "complex64")
    assert_as_numpy(name, x, n=n, norm=norm, axis=1)


def forms_of(function: Callable[..., Any], *arrays: Array) -> list[str]:
    return [str(kernel) for kernel in kernels_of(function, *arrays)]


def test_another_axis_is_not_transposed() -> None:
    x = numbers((64, 48))
    assert forms_of(lambda x: fnp.fft.fft(x, axis=0), x) == ["columns 1x[64]x48"]


def test_long_rows_are_matrices() -> None:
    assert forms_of(fnp.fft.fft, numbers((2 * ROW,))) == [
        "columns 1x[64]x128, twisted", "transposed 1x[128]x64",
    ]  # fmt: skip


def test_rows_of_other_lengths_are_side_by_side_or_matrices() -> None:
    assert forms_of(fnp.fft.fft, numbers((20, 15))) == ["batch 1x[15]x20"]
    assert forms_of(fnp.fft.fft, numbers((1000,))) == [
        "columns 1x[25]x40, twisted", "transposed 1x[40]x25",
    ]  # fmt: skip


def test_lengths_with_large_prime_factors_go_by_chirps() -> None:
    (kernel,) = kernels_of(fnp.fft.fft, numbers((20, 67)))
    form = kernel.form
    assert (form.kind, form.length, form.inner) == ("batch", 67, 20)
    assert (form.padded, form.convolved, form.cut) == (True, True, True)
    assert form.size >= 133
    assert forms_of(fnp.fft.fft, numbers((10_007,))) == [
        "columns 1x[80]x256, twisted, padded for 10007",
        "rows 1x[256]x80, twisted, convolved for 10007",
        "columns 1x[80]x256, cut for 10007",
    ]  # fmt: skip


def test_rows_of_matrices_may_be_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fft_kernels, "COLUMN", 16)
    monkeypatch.setattr(fft_kernels, "ROW", 16)
    assert len(kernels_of(fnp.fft.fft, numbers((2, 5000)))) > 2
    for name in ("fft", "ifft", "rfft"):
        x = numbers((2, 5000), "float32" if name == "rfft" else "complex64")
        assert_as_numpy(name, x)
    assert_as_numpy("irfft", numbers((2, 5001)))


@pytest.mark.parametrize("shape", [(0, 8), (2, 1)])
def test_nothing_is_left_where_nothing_is(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.complex64)
    steps = program_of_transform(fnp.fft.fft, x).steps
    kernels = [s.kernel for s in steps if isinstance(s, RunKernel)]
    assert not any(isinstance(k, Transform) for k in kernels)
    np.testing.assert_array_equal(ft.jit(fnp.fft.fft)(x), np.fft.fft(x))


def test_the_rule_can_be_switched_off() -> None:
    x = numbers((4, 8))
    with ft.config(disabled_rules={"native_fft"}):
        steps = program_of_transform(fnp.fft.fft, x).steps
    assert any(isinstance(step, CallHost) for step in steps)


def test_gradients_are_transforms() -> None:
    x, weights = numbers((3, 32), "float32"), numbers((3, 17)).real

    def f(x: Any) -> Any:
        return (fnp.abs(fnp.fft.rfft(x)) ** 2 * weights).sum()

    assert len(kernels_of(ft.grad(f), x)) >= 2
    found = ft.jit(ft.grad(f))(x).numpy()
    with ft.config(disabled_rules={"native_fft"}):
        wanted = ft.jit(ft.grad(f))(x).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n", [67, 101])
def test_gradients_and_lanes_of_chirps_are_theirs(n: int) -> None:
    x, weights = numbers((4, n)), numbers((4, n)).real

    def f(x: Any) -> Any:
        return (fnp.abs(fnp.fft.fft(x)) ** 2 * weights).sum()

    found = ft.jit(ft.grad(f))(x).numpy()
    wanted = 2 * n * np.fft.ifft(weights * np.fft.fft(x)).conj()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)
    lanes = ft.jit(ft.vmap(fnp.fft.fft, in_axes=1, out_axes=1))(x.T).numpy()
    np.testing.assert_allclose(lanes, np.fft.fft(x).T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "shape", [(20, 67), (20, 31), (20, 509), (2, 10_007), (18, 7), (1000,)]
)
def test_bits_of_any_length_do_not_depend_on_threads(shape: tuple[int, ...]) -> None:
    x = numbers(shape)
    found: set[bytes] = set()
    for threads in (1, 2):
        with ft.config(threads=threads):
            found.add(ft.jit(lambda x: fnp.fft.fft(x))(x).numpy().tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("shape", [(19, 67), (67, 19), (19, 24), (70, 33)])
@pytest.mark.parametrize("axis", [0, 1])
def test_operands_are_not_overwritten(shape: tuple[int, ...], axis: int) -> None:
    """Units overlap, and read again what was there."""
    x = numbers(shape)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, x: fnp.fft.fft(x, axis=axis), x)

    found = ft.jit(f, donate_argnums=0)(fnp.asarray(x)).numpy()
    wanted = x.astype(np.complex128)
    for _ in range(3):
        wanted = np.fft.fft(wanted, axis=axis)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * abs(wanted).max())


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = numbers((40, 1024))
    found: set[bytes] = set()
    for threads in (1, 2, 5):
        with ft.config(threads=threads):
            y = ft.jit(lambda x: fnp.fft.fft2(x[:32]))(x)
            found.add(y.numpy().tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("size", [64, 7, 67, 1009, 2053])
@pytest.mark.parametrize("rows", [3, 20])
def test_infinities_and_nan_stay_in_their_row(size: int, rows: int) -> None:
    x = numbers((rows, size))
    x[1, 5] = np.inf
    found = ft.jit(fnp.fft.fft)(x).numpy()
    assert not np.isfinite(found[1]).any()
    assert np.isfinite(np.delete(found, 1, 0)).all()


@pytest.mark.parametrize("size", [2, 4, 8, 1024, 2048, 360, 7, 1050, 13 * 31])
def test_steps_multiply_to_the_length(size: int) -> None:
    steps = stages_of(size)
    assert np.prod([radix for radix, _ in steps]) == size
    assert len(stage_offsets(size)) == len(steps)


@pytest.mark.parametrize("size", [2, 73, 1000, 4097])
def test_a_convolution_has_a_smooth_length(size: int) -> None:
    found = smooth_from(size)
    assert size <= found <= 2 * size
    assert is_smooth(found)
    assert not is_smooth(67 * found)


@pytest.mark.parametrize(
    ("size", "form"), [(1 << 20, (1024, 1024)), (1 << 26, (4096, 16384)), (26, (2, 13))]
)
def test_matrices_are_as_square_as_can_be(size: int, form: tuple[int, int]) -> None:
    assert matrix_of(size, 4096) == form


def test_kernels_can_be_read_and_stored() -> None:
    program = program_of_transform(fnp.fft.ifft, numbers((3, 64)))
    (step,) = program.steps
    assert str(step.kernel) == "inverse rows 3x[64]x1"
    assert step.kernel.form == Form("rows", 3, 64, 1, 1 / 64, (True, True))
    text = program_text(program)
    assert text is not None
    found: Any = program_of(text)
    assert found.steps[0].kernel == step.kernel


def test_permutations_that_undo_each_other_vanish() -> None:
    x = numbers((8, 5, 32))

    def f(x: Any) -> Any:
        return fnp.fft.fft(x, axis=0)

    (step,) = program_of_transform(f, x).steps
    assert isinstance(step.kernel, Transform)


_TARGETS = [
    Target.of("x86_64-unknown-linux-gnu", "x86-64"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
    Target.of("aarch64-unknown-linux-gnu", "generic"),
]


#: Instructions of whole vectors.
_MULTIPLIES = {
    "x86_6": re.compile(r"\bv?mulp[sd]\b"),
    "aarch": re.compile(r"\bf(mul|mla|mls)\s+v\d+\.[24][sd]"),
}


@covering(1, target=_TARGETS, dtype=DTYPES)
def test_code_for_other_processors_is_accepted(dtype: str, target: Target) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )
    x = numbers((64, 32), dtype)

    def f(x: Any) -> Any:
        kinds = fnp.fft.fft2(x), fnp.fft.rfft(x.real), fnp.fft.irfft(x[:, :17])
        return kinds, [fnp.fft.fft(x, n) for n in (31, 67, 509, 2053)]

    with ft.config(enable_x64=True):
        kernels = kernels_of(f, x)
    assert len(kernels) == 12
    for kernel in kernels:
        module = llvm.parse_assembly(render_kernel(kernel, target).text)
        assert _MULTIPLIES[target.triple[:5]].search(machine.emit_assembly(module))
