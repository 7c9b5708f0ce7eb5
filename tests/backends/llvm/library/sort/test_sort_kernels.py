"""Sorting as kernels: the values are those of the host, and no Python runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace import dtypes, tree_util
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.library.sort.kernel import ON_STACK, comparisons
from ftrace.backends.llvm.target import Target
from ftrace.lower.assembly.serialize import program_of, program_text
from ftrace.lower.library import sort_kernels
from ftrace.lower.library.sort_kernels import LONG, SEVERAL, SHORT, Ordering
from ftrace.lower.program import CallHost, RunKernel
from ftrace.trace.primitives.library.sorting import sort_p, sorter
from tests.support.covering import covering

Array = Any  # of NumPy

DTYPES = [
    dtypes.bool_, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16,
    dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64, dtypes.float16,
    dtypes.bfloat16, dtypes.float32, dtypes.float64,
]  # fmt: skip
#: Rows of one vector and less, on the stack, in memory, and in runs; several side by
#: side, of which the last vector has all, some or one.
SHAPES = [
    (1, 1), (3, 7), (2, 5, 33), (1, ON_STACK + 3), (2, 16, 4), (33, 16), (39, 17),
    (SEVERAL, SHORT),
]  # fmt: skip
_SPECIAL = (np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0)


def numbers(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> Array:
    """Numbers of all of a dtype's range, or few of them, with all special values."""
    rng = np.random.default_rng(seed)
    kind, few = dtypes.kind(dtype), seed % 2
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        low, high = (0, 4) if few else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return rng.integers(low, high, shape, dtype, endpoint=True)
    x: Array = rng.standard_normal(shape) * (1 if few else 1000)
    x = (np.round(x) if few else x).astype(dtype)
    flat = x.reshape(-1)
    for value in _SPECIAL if flat.size > 8 else ():
        flat[rng.integers(0, flat.size, 1 + flat.size // 20)] = value
    return x


def program_of_sort(function: Callable[..., Any], *arrays: Array) -> Any:
    return ft.jit(lambda *a: function(*a)).lower(*arrays).program


def kernels_of(function: Callable[..., Any], *arrays: Array) -> list[Ordering]:
    """The kernels that sort; there must be no call of the host."""
    steps = program_of_sort(function, *arrays).steps
    assert not any(isinstance(step, CallHost) for step in steps)
    kernels = [s.kernel for s in steps if isinstance(s, RunKernel)]
    return [k for k in kernels if isinstance(k, Ordering)]


def as_bits(x: Array) -> Array:
    """The bits of numbers, those of NaN all alike."""
    x = np.array(x)
    if dtypes.kind(x.dtype) == "f":
        x[np.isnan(x)] = np.nan
        return x.view(f"i{x.dtype.itemsize}")
    return x


def assert_as_on_host(function: Callable[..., Any], *arrays: Array) -> None:
    with ft.config(enable_x64=True):
        assert kernels_of(function, *arrays)
        found = tree_util.tree_leaves(ft.jit(lambda *a: function(*a))(*arrays))
        with ft.config(disabled_rules={"native_sort"}):
            wanted = tree_util.tree_leaves(ft.jit(lambda *a: function(*a))(*arrays))
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(as_bits(one.numpy()), as_bits(other.numpy()))


@covering(1, dtype=DTYPES, shape=SHAPES)
def test_sorted_values_and_positions_are_those_of_the_host(
    dtype: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    for seed in range(2):
        x = numbers(dtype, shape, seed)
        assert_as_on_host(lambda x: (fnp.sort(x), fnp.argsort(x)), x)
        assert_as_on_host(lambda x: (fnp.sort(x, 0), fnp.argsort(x, 0)), x)


@covering(1, dtype=DTYPES, size=[40, 900], k=[1, 3, 33])
def test_the_greatest_and_the_least_are_those_of_the_host(
    dtype: np.dtype[Any], size: int, k: int
) -> None:
    for x in (numbers(dtype, (3, size), k), np.sort(numbers(dtype, (3, size), 0))):
        assert_as_on_host(lambda x: lax.top_k(x, k), x)
        assert_as_on_host(lambda x: lax.approx_min_k(x, k), x)
        assert_as_on_host(lambda x: lax.top_k(x[:, ::-1], k, axis=0), x[:, :k].T)


def test_few_of_many_are_not_sorted() -> None:
    x = np.zeros((2, 1000), np.float32)
    (kernel,) = kernels_of(lambda x: lax.top_k(x, 10)[1], x)
    assert kernel.routine == "top"
    (kernel,) = kernels_of(lambda x: lax.top_k(x, 500)[1], x)
    assert kernel.routine == "positions"


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.uint64, dtypes.bfloat16])
@pytest.mark.parametrize("size", [LONG, LONG + 12345])
def test_long_rows_are_merged_from_runs(dtype: np.dtype[Any], size: int) -> None:
    for seed in range(2):
        x = numbers(dtype, (2, size), seed)
        assert_as_on_host(lambda x: (fnp.sort(x), fnp.argsort(x)), x)


def test_several_merges_follow_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort_kernels, "runs_of", lambda rows, size: 8)
    for size in (64, 1001, 70_000):
        for dtype in (dtypes.float32, dtypes.float64, dtypes.uint32, dtypes.int64):
            x = numbers(dtype, (2, size), size)
            assert_as_on_host(lambda x: (fnp.sort(x), fnp.argsort(x)), x)
    names = [k.routine for k in kernels_of(fnp.sort, np.zeros((2, 63), np.float32))]
    assert names == ["runs", "merge", "merge", "merged"]


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, -np.inf])
def test_runs_of_one_value_are_merged(value: float) -> None:
    """The pads behind runs equal the greatest key."""
    for dtype, number in ((np.float32, value), (np.int32, -1), (np.uint32, 2**32 - 1)):
        x = np.full(LONG + 5, number, dtype)
        x[[3, LONG]] = 0
        assert_as_on_host(lambda x: (fnp.sort(x), fnp.argsort(x)), x)


@given(st.integers(0, 50), st.integers(1, 60), st.sampled_from([3, 20]))
def test_zeros_of_both_signs_keep_their_order(seed: int, size: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.array([0.0, -0.0, 1.0, -1.0, np.nan], np.float32)
    x = values[rng.integers(0, 5, (rows, size))]
    found = ft.jit(fnp.sort)(x).numpy()
    order = np.argsort(x, -1, kind="stable")
    wanted = np.take_along_axis(x, order, -1)
    np.testing.assert_array_equal(found, wanted)
    numeric = ~np.isnan(wanted)
    np.testing.assert_array_equal(
        np.signbit(found)[numeric], np.signbit(wanted)[numeric]
    )


@pytest.mark.parametrize("size", range(1, 70))
def test_a_network_brings_all_in_order(size: int) -> None:
    """By the 0-1 principle: of zeros and ones, here all steps and random ones."""
    rng = np.random.default_rng(size)
    x = np.concatenate([np.tri(size, dtype=np.int8), rng.integers(0, 2, (300, size))])
    for i, j in comparisons(size):
        assert i < j
        x[:, i], x[:, j] = np.minimum(x[:, i], x[:, j]), np.maximum(x[:, i], x[:, j])
    assert (np.diff(x, axis=1) >= 0).all()


def test_several_keys_refine_each_other() -> None:
    x, y = numbers(dtypes.float32, (4, 300), 1), numbers(dtypes.int64, (4, 300), 3)
    assert_as_on_host(lambda x, y: lax.sort((x, y, x * 2), num_keys=2), x, y)
    assert_as_on_host(lambda x, y: fnp.lexsort((x, y)), x, y)


def test_keys_of_a_row_are_not_stored() -> None:
    x = np.random.default_rng(0).standard_normal((20, ON_STACK + 1))
    for kernel in kernels_of(fnp.argsort, x.astype(np.float32)):
        assert [spec.written for spec in kernel.buffers] == [True, False]


def test_bits_do_not_depend_on_the_number_of_threads() -> None:
    x = numbers(dtypes.float32, (2, LONG), 1)
    found: set[bytes] = set()
    for threads in (1, 2, 5):
        with ft.config(threads=threads):
            results = ft.jit(lambda x: (fnp.sort(x), fnp.argsort(x)))(x)
            found.add(b"".join(as_bits(r.numpy()).tobytes() for r in results))
    assert len(found) == 1


def test_each_rule_can_be_switched_off() -> None:
    x = np.zeros(LONG, np.float32)
    assert [k.routine for k in kernels_of(fnp.sort, x)] == ["runs", "merged"]
    with ft.config(disabled_rules={"merge_sort"}):
        assert [k.routine for k in kernels_of(fnp.sort, x)] == ["sort"]
    short = np.zeros((SEVERAL, SHORT), np.float32)
    few = short[1:]
    assert [k.routine for k in kernels_of(fnp.sort, short)] == ["short"]
    assert [k.routine for k in kernels_of(fnp.argsort, short)] == ["short_positions"]
    assert [k.routine for k in kernels_of(fnp.sort, few)] == ["sort"]
    with ft.config(disabled_rules={"sort_rows_in_lanes"}):
        assert [k.routine for k in kernels_of(fnp.sort, short)] == ["sort"]
        assert [k.routine for k in kernels_of(fnp.argsort, short)] == ["positions"]
    with ft.config(disabled_rules={"native_sort"}):
        (step,) = program_of_sort(fnp.sort, x).steps
        assert isinstance(step, CallHost)


def test_what_has_no_kernel_is_left_to_the_host() -> None:
    for x in (np.zeros(5, np.complex64), np.zeros((0, 3), np.float32)):
        (program,) = [program_of_sort(fnp.sort, x)]
        kernels = [s.kernel for s in program.steps if isinstance(s, RunKernel)]
        assert not any(isinstance(k, Ordering) for k in kernels)


def test_without_the_sorts_of_numpy_the_host_sorts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sort_kernels, "has_sorters", lambda: False)
    x = np.zeros((13, 11), np.float32)  # of a shape that no other test has lowered
    (step,) = program_of_sort(fnp.sort, x).steps
    assert isinstance(step, CallHost)


@pytest.mark.parametrize("name", ["i2", "u2", "i4", "u4", "i8", "u8"])
def test_sorts_of_numpy_are_found(name: str) -> None:
    assert sorter(np.dtype(name))


def test_kernels_can_be_read_and_stored() -> None:
    x = np.zeros((2, 3 * LONG), np.float32)
    program = program_of_sort(fnp.sort, x)
    kernels = kernels_of(fnp.sort, x)
    assert (
        str(kernels[0]) == f"runs of 2 rows of {3 * LONG} in 2 runs of {3 * LONG // 2}"
    )
    text = program_text(program)
    assert text is not None
    found = program_of(text)
    assert found is not None
    read = [s.kernel for s in found.steps if isinstance(s, RunKernel)]
    assert read == kernels


def test_gradients_go_to_the_elements() -> None:
    x = numbers(dtypes.float32, (3, 20), 0)
    x = np.where(np.isfinite(x), x, 7).astype(np.float32)
    weights = np.arange(60, dtype=np.float32).reshape(3, 20)
    found = ft.jit(ft.grad(lambda x: (fnp.sort(x) * weights).sum()))(x).numpy()
    wanted = np.empty_like(x)
    np.put_along_axis(wanted, np.argsort(x, -1, kind="stable"), weights, -1)
    np.testing.assert_array_equal(found, wanted)


_TARGETS = [
    Target.of("x86_64-unknown-linux-gnu", "x86-64"),
    Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
    Target.of("aarch64-unknown-linux-gnu", "generic"),
]


@covering(1, target=_TARGETS, dtype=[dtypes.uint8, dtypes.bfloat16, dtypes.float64])
def test_code_for_other_processors_is_accepted(
    dtype: np.dtype[Any], target: Target
) -> None:
    llvm: Any = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=1
    )
    x, short = np.zeros((2, LONG), dtype), np.zeros((9, 18), dtype)

    def f(x: Any, short: Any) -> Any:
        rows = fnp.sort(short), fnp.argsort(short)
        return fnp.sort(x), fnp.argsort(x), lax.top_k(x, 3), rows

    with ft.config(enable_x64=True):
        kernels = kernels_of(f, x, short)
    assert len(kernels) > 3
    for kernel in kernels:
        text = render_kernel(kernel, target).text
        machine.emit_object(llvm.parse_assembly(text))


def test_large_eager_sorts_are_compiled_when_they_come_again() -> None:
    least = sort_p.compiled_from
    assert least is not None

    def is_compiled(call: Any) -> bool:
        before = ft.counters("cpu").kernels_run
        call().block_until_ready()
        return ft.counters("cpu").kernels_run > before

    x = np.random.default_rng(3).standard_normal(least.elements).astype(np.float32)
    for call in range(9):
        assert is_compiled(lambda: fnp.sort(fnp.asarray(x))) == (
            call >= least.calls - 1
        )
        found = fnp.sort(fnp.asarray(x)).numpy()
        np.testing.assert_array_equal(as_bits(found), as_bits(np.sort(x)))
    assert not is_compiled(lambda: fnp.sort(fnp.asarray(x[1:])))
    ones = fnp.ones(1 << 13, np.complex64)
    assert is_compiled(lambda: fnp.fft.fft(ones))
    first, second = (fnp.fft.fft(ones).numpy() for _ in range(2))
    assert first.tobytes() == second.tobytes()
