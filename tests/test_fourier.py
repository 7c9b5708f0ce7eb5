"""Fourier transforms as kernels: NumPy's values, and no Python runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.devices.llvm.device import render_kernel
from ftrace.devices.llvm.fourier_tables import stage_offsets, stages_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.fourier import COLUMN, ROW, Transform
from ftrace.lower.program import CallHost, RunKernel
from ftrace.lower.stored import program_of, program_text

Array = Any  # of NumPy

DTYPES = ("complex64", "complex128")
#: Shapes and axes: rows and columns of each number of steps, fewer numbers than fill a
#: vector, columns that fill none, and rows that are matrices.
CASES = [
    *[((3, n), 1) for n in (2, 4, 8, 16, 32, 64, 128, ROW)],
    *[((2, n, 16), 1) for n in (2, 4, 32, 128)],
    ((64, 37), 0), ((2, 8, 3), 1), ((19, 8), 1), ((COLUMN, 17), 0),
    ((2 * COLUMN, 16), 0),
    ((2 * ROW,), 0), ((2, 4 * ROW), 1), ((1 << 17,), 0),
    # Other factors: of columns, of rows side by side, of few and of long rows.
    ((2, 210, 20), 1), ((21, 30), 0), ((20, 7), 1), ((33, 8), 1), ((16, 15), 1),
    ((17, 1000), 1), ((1000,), 0), ((2, 10_000), 1), ((30, 24, 5), 1),
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
    wide = x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
    wanted = getattr(np.fft, name)(wide, **options)
    single = x.dtype in (np.float32, np.complex64)
    assert found.dtype == (wanted.astype("F" if single else "D").dtype if
                           np.iscomplexobj(wanted) else x.real.dtype)  # fmt: skip
    error = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert error < 8 * np.finfo(x.dtype).eps


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["fft", "ifft"])
def test_transforms_along_an_axis_are_numpys(
    name: str, dtype: str, case: tuple[tuple[int, ...], int]
) -> None:
    shape, axis = case
    assert_as_numpy(name, numbers(shape, dtype), axis=axis)


@pytest.mark.parametrize("size", [4, 8, 16, 64, 256, 1000, 2 * ROW, 4 * ROW])
@pytest.mark.parametrize("double", [False, True])
def test_transforms_of_real_rows_are_numpys(size: int, double: bool) -> None:
    assert_as_numpy("rfft", numbers((3, size), "float64" if double else "float32"))
    half = numbers((3, size // 2 + 1), DTYPES[double])
    assert_as_numpy("irfft", half)  # whose first and last number are not real


@pytest.mark.parametrize("name", ["fft2", "ifft2", "fftn", "ifftn", "rfft2", "irfft2"])
def test_transforms_along_several_axes_are_numpys(name: str) -> None:
    if name == "irfft2":
        x = np.fft.rfft2(numbers((3, 16, 32), "float64")).astype(np.complex64)
    else:
        x = numbers((4, 16, 32), "float32" if name == "rfft2" else "complex64")
    assert_as_numpy(name, x)


def test_another_axis_is_not_transposed() -> None:
    x = numbers((64, 48))
    program = program_of_transform(lambda x: fnp.fft.fft(x, axis=0), x)
    (step,) = program.steps
    assert (step.kernel.outer, step.kernel.size, step.kernel.inner) == (1, 64, 48)


def test_long_rows_are_matrices() -> None:
    kernels = kernels_of(fnp.fft.fft, numbers((2 * ROW,)))
    assert [(k.size, k.inner, k.twisted) for k in kernels] == [
        (64, 128, True), (128, 1, False)
    ]  # fmt: skip


def test_rows_of_other_lengths_are_side_by_side_or_matrices() -> None:
    (kernel,) = kernels_of(fnp.fft.fft, numbers((20, 15)))
    assert kernel.abreast
    first, second = kernels_of(fnp.fft.fft, numbers((1000,)))
    assert [(k.size, k.inner) for k in (first, second)] == [(25, 40), (40, 25)]


@pytest.mark.parametrize("shape", [(3, 12), (5,), (0, 8), (2, 1), (20, 22)])
def test_other_lengths_are_left_to_the_host(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.complex64)
    steps = program_of_transform(fnp.fft.fft, x).steps
    kernels = [s.kernel for s in steps if isinstance(s, RunKernel)]
    assert not any(isinstance(k, Transform) for k in kernels)


def test_the_rule_can_be_switched_off() -> None:
    x = numbers((4, 8))
    with ft.config(disabled_rules={"transform_natively"}):
        steps = program_of_transform(fnp.fft.fft, x).steps
    assert any(isinstance(step, CallHost) for step in steps)


def test_gradients_are_transforms() -> None:
    x, weights = numbers((3, 32), "float32"), numbers((3, 17)).real

    def f(x: Any) -> Any:
        return (fnp.abs(fnp.fft.rfft(x)) ** 2 * weights).sum()

    assert len(kernels_of(ft.grad(f), x)) >= 2
    found = ft.jit(ft.grad(f))(x).numpy()
    with ft.config(disabled_rules={"transform_natively"}):
        wanted = ft.jit(ft.grad(f))(x).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = numbers((40, 1024))
    found: set[bytes] = set()
    for threads in (1, 2, 5):
        with ft.config(threads=threads):
            y = ft.jit(lambda x: fnp.fft.fft2(x[:32]))(x)
            found.add(y.numpy().tobytes())
    assert len(found) == 1


def test_infinities_and_nan_stay_in_their_row() -> None:
    x = numbers((3, 64))
    x[1, 5] = np.inf
    found = ft.jit(fnp.fft.fft)(x).numpy()
    assert not np.isfinite(found[1]).any()
    assert np.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize("size", [2, 4, 8, 1024, 2048, 360, 7, 1050])
def test_steps_multiply_to_the_length(size: int) -> None:
    steps = stages_of(size)
    assert np.prod([radix for radix, _ in steps]) == size
    assert len(stage_offsets(size)) == len(steps)


def test_kernels_can_be_read_and_stored() -> None:
    program = program_of_transform(fnp.fft.ifft, numbers((3, 64)))
    (step,) = program.steps
    assert str(step.kernel) == "inverse fft along 3x[64]x1"
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


@pytest.mark.parametrize("target", _TARGETS, ids=["x86-64", "x86-64-v3", "aarch64"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_code_for_other_processors_is_accepted(dtype: str, target: Target) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )
    x = numbers((64, 32), dtype)

    def f(x: Any) -> Any:
        return fnp.fft.fft2(x), fnp.fft.rfft(x.real), fnp.fft.irfft(x[:, :17])

    with ft.config(enable_x64=True):
        kernels = kernels_of(f, x)
    assert len(kernels) == 4
    for kernel in kernels:
        text = render_kernel(kernel, target).text
        machine.emit_object(llvm.parse_assembly(text))
