"""OpenCL: kernels against their samples, each operation against its meaning."""

from __future__ import annotations

import ctypes
import platform
import sys
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

import ftrace as ft
from ftrace import dtypes
from ftrace.backends.opencl.device import name_processor
from ftrace.backends.opencl.render import program_source, render
from ftrace.backends.opencl.scalar_ops import SUPPORTED, literal
from ftrace.backends.opencl.writer import Traits
from ftrace.errors import DeviceError, MissingExtraError, OutOfMemoryError
from ftrace.lower.kernel.ir import Kernel, KernelInfo, Store, load, param
from ftrace.lower.program import Program, RunKernel, Slot
from ftrace.testing import assert_close
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.primitive import PRIMITIVES
from tests.support import kernel_samples as samples
from tests.support.kernel_samples import (
    Case,
    axes,
    cases,
    copy_slot,
    integer,
    make_program,
    run,
    specs,
)

REAL = [dtype for dtype in dtypes.ALL if not dtypes.is_complex(dtype)]
all_cases = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)

GPU = Traits(units=16, max_group=256, doubles=True)


@pytest.fixture(scope="session")
def opencl() -> Any:
    pytest.importorskip("pyopencl")
    from ftrace.backends.opencl.device import OpenCL

    return OpenCL()


@all_cases
def test_opencl_computes_each_sample(opencl: Any, case: Case) -> None:
    got = run(opencl, case.kernel, case.inputs, case.outputs)
    for result, wanted in zip(got, case.expected, strict=True):
        assert_close(result, wanted, rtol=case.tolerance, scaled=True)


def test_nothing_is_compiled_behind_the_back_of_python(
    opencl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PoCL finishes the code of a kernel when it first runs, in another thread: where
    # `os.environ` changes meanwhile, it cannot start its linker and ends the process.
    waits: list[str] = []
    wait = opencl.synchronize
    monkeypatch.setattr(opencl, "synchronize", lambda: (waits.append(""), wait()))
    case = samples.softmax_case(9, 31)
    program = make_program(case.kernel)
    inputs = [opencl.copy_in(x) for x in (*case.inputs, *case.outputs)]
    for finishes in (True, False):
        monkeypatch.setattr(opencl, "finishes_code", finishes)
        runnable = opencl.compile(program)
        for first in (True, False):
            waits.clear()
            runnable(inputs)
            assert len(waits) == (finishes and first)


LARGE = [
    samples.softmax_case(70, 1000),
    samples.softmax_case(3000, 10),
    samples.matmul_case(64, 96, 33),
    samples.matmul_case(7, 130, 5),
    samples.matmul_case(1, 40, 40),
    samples.convolution_case(2, 3, 9, 17, 13, 5),
    samples.batched_matmul_case(2, 33, 18, 65),
]


@pytest.mark.parametrize(
    "case", LARGE, ids=lambda case: f"{case.name}{case.kernel.shape}"
)
def test_blocks_and_groups_fit_every_size(opencl: Any, case: Case) -> None:
    got = run(opencl, case.kernel, case.inputs, case.outputs)
    for result, wanted in zip(got, case.expected, strict=True):
        assert_close(result, wanted, rtol=case.tolerance, scaled=True)


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 37, 64, 101])
@pytest.mark.usefixtures("opencl")
def test_rows_of_any_count_are_reduced(rows: int) -> None:
    x = np.arange(rows * 45, dtype=np.float32).reshape(rows, 45)
    found = ft.jit(lambda x: x.max(axis=1), device="opencl")(x)
    np.testing.assert_array_equal(found, x.max(axis=1))


def _values(dtype: np.dtype[Any]) -> Any:
    """Numbers of a dtype, those that are easily got wrong among them."""
    kind = dtypes.kind(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        info = np.iinfo(dtype)
        ends = [info.max, info.min, info.max // 3, info.max - 1, info.min + 1]
        return np.array([0, 1, 2, 3, 7, 31, 64, 100, *ends, -1 % (info.max + 1)], dtype)
    info = np.finfo(dtypes.float32 if dtype == dtypes.bfloat16 else dtype)
    plain = [0, 0.5, 1, 1.5, 2.5, 3.7, 1e-4, 100.25, 1e4, np.inf, np.nan,
             float(info.max), float(info.tiny)]  # fmt: skip
    with np.errstate(over="ignore"):
        positive = np.array(plain).astype(dtype)
    return np.concatenate([positive, -positive])


def _pairs(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    x, y = np.meshgrid(_values(dtype), _values(dtype))
    return x.ravel(), y.ravel()


#: Those that are compositions of others, and have a tolerance of their own tests.
_EXACT = [
    record
    for record in samples.elementwise_records()
    if record.name in SUPPORTED and record.name not in ("cast", "bitcast")
]


def _all_at_once(
    expressions: list[tuple[Any, np.dtype[Any]]], inputs: list[Any]
) -> tuple[Kernel, list[Any]]:
    """A kernel that stores each expression in a buffer of its own."""
    size = inputs[0].size
    (i,) = axes(size)
    outputs = [np.zeros(size, dtype) for _, dtype in expressions]
    stores = tuple(
        Store(len(inputs) + n, i, value) for n, (value, _) in enumerate(expressions)
    )
    return Kernel((i,), stores, specs(inputs, outputs)), outputs


def _same(got: Any, wanted: Any) -> bool:
    """Equal bits, but for the payload and sign of NaNs and the sign of max(0, -0)."""
    return np.array_equal(got, wanted, equal_nan=dtypes.is_inexact(got.dtype))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_opencl_gives_each_operation_its_meaning(
    opencl: Any, dtype: np.dtype[Any]
) -> None:
    x, y = _pairs(dtype)
    inputs = [x, y, x == y]
    (i,) = axes(x.size)
    a, b, c = (load(param(n, v.dtype, v.size), i) for n, v in enumerate(inputs))
    records = [r for r in _EXACT if dtypes.kind(dtype) in r.dtypes]
    operands = {1: (a, b), 2: (a, b), 3: (c, a, b)}
    nodes = [r(*operands[samples.arity(r)][: samples.arity(r)]) for r in records]
    kernel, outputs = _all_at_once([(n, n.dtype) for n in nodes], inputs)
    results = run(opencl, kernel, inputs, outputs)
    arrays = {a: x, b: y, c: x == y}
    for record, node, got in zip(records, nodes, results, strict=True):
        with np.errstate(all="ignore"):
            wanted = record.numpy(node.aval, None, *[arrays[s] for s in node.src])
        wanted = np.asarray(wanted).astype(node.dtype)
        if not _same(got, wanted):
            wrong = [
                k for k in range(x.size) if not _same(got[k : k + 1], wanted[k : k + 1])
            ]
            shown = [(x[k], y[k], got[k], wanted[k]) for k in wrong[:5]]
            pytest.fail(f"{record.name} (x, y, got, wanted): {shown}")


def test_negative_zero_keeps_its_sign(opencl: Any) -> None:
    x = np.array([0.0, -0.0], np.float32)
    (i,) = axes(2)
    a = load(param(0, x.dtype, 2), i)
    nodes = [
        ew.neg(a),
        ew.mul(a, a),
        ew.add(a, a),
        ew.sign(a),
        ew.truncate(a),
        ew.sqrt(a),
    ]
    kernel, outputs = _all_at_once([(n, n.dtype) for n in nodes], [x])
    for node, got in zip(nodes, run(opencl, kernel, [x], outputs), strict=True):
        wanted = np.asarray(node.op.numpy(node.aval, None, *[x] * len(node.src)))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_opencl_casts_to_every_dtype(opencl: Any, dtype: np.dtype[Any]) -> None:
    x = _values(dtype)
    (i,) = axes(x.size)
    a = load(param(0, x.dtype, x.size), i)
    targets = [t for t in REAL if t != dtype]
    kernel, outputs = _all_at_once([(ew.cast(a, t), t) for t in targets], [x])
    for target, got in zip(targets, run(opencl, kernel, [x], outputs), strict=True):
        with np.errstate(all="ignore"):
            through = x
            if (
                dtype == dtypes.float64
                and target.itemsize == 2
                and target.kind not in "iu"
            ):
                through = x.astype(np.float32)  # 16-bit floats are rounded twice
            wanted = ew.convert(through, target)
        assert _same(got, wanted), (target, x[got != wanted], got[got != wanted])


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_every_short_float_survives(opencl: Any, dtype: np.dtype[Any]) -> None:
    """All 65,536: widened, and narrowed again with ties to even."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    wide = x.astype(np.float32)
    with np.errstate(all="ignore"):
        y = wide * np.float32(1.0009765625)
        narrow = y.astype(dtype)
    (i,) = axes(x.size)
    a, b = load(param(0, dtype, x.size), i), load(param(1, dtypes.float32, x.size), i)
    nodes = [
        ew.cast(a, dtypes.float32),
        ew.cast(b, dtype),
        ew.bitcast(a, arg=dtypes.uint16),
    ]
    kernel, outputs = _all_at_once([(n, n.dtype) for n in nodes], [x, y])
    got = run(opencl, kernel, [x, y], outputs)
    assert _same(got[0], wide)
    assert _same(got[1], narrow)
    assert _same(got[2], x.view(np.uint16))


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("exp", np.linspace(-80, 80, 200)), ("log", np.logspace(-30, 30, 200)),
        ("sin", np.linspace(-50, 50, 200)), ("tanh", np.linspace(-5, 5, 200)),
        ("erf", np.linspace(-4, 4, 200)), ("rsqrt", np.logspace(-20, 20, 200)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64], ids=str)
def test_functions_that_are_decomposed_are_accurate(
    opencl: Any, name: str, x: Any, dtype: np.dtype[Any]
) -> None:
    x = x.astype(dtype)
    record = PRIMITIVES[name]
    kernel, outputs = samples.elementwise_kernel(record, [x], dtype)
    (got,) = run(opencl, kernel, [x], outputs)
    exact = record.numpy(None, None, x.astype(np.float64))
    tolerance = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(got, exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_literals_are_exact(opencl: Any, dtype: np.dtype[Any]) -> None:
    values = _values(dtype)
    out = np.zeros(values.size, dtype)
    stores = tuple(
        Store(0, integer(n), samples.const(v, dtype)) for n, v in enumerate(values)
    )
    (got,) = run(opencl, Kernel((), stores, specs([], [out])), [], [out])
    assert _same(got, values)
    assert "(" in literal(-1.5, dtypes.float32)


def test_programs_run_in_order_and_share_the_arena(opencl: Any) -> None:
    f32 = dtypes.float32
    (i,) = axes(100)
    double = ew.add(load(param(0, f32, 100), i), load(param(0, f32, 100), i))
    x = np.arange(100, dtype=np.float32)
    kernel = Kernel((i,), (Store(1, i, double),), specs([x], [x]))
    slots = (
        Slot(f32, (100,), "input", 0), Slot(f32, (100,), "arena", 0),
        Slot(f32, (100,), "arena", 512), Slot(f32, (100,), "output", 0),
        Slot(f32, (100,), "output", 1),
    )  # fmt: skip
    info = KernelInfo("double", (), 100, 800)
    steps = (
        RunKernel(kernel, (0, 1), info), RunKernel(kernel, (1, 2), info),
        copy_slot(f32, 100, 2, 3), RunKernel(kernel, (2, 4), info),
    )  # fmt: skip
    program = Program(slots, steps, (0,), (3, 4, 3, 0), 1024)
    opencl.counters.reset()
    executable = opencl.compile(program)
    source = opencl.copy_in(x)
    for divides in (True, False):
        opencl.divides_memory = divides
        results = executable([source])
        assert results[3] is source
        assert results[0] is results[2]
        for result, factor in zip(results, (4, 8, 4, 1), strict=True):
            np.testing.assert_array_equal(opencl.copy_out(result, f32, 100), factor * x)
    opencl.divides_memory = True
    done = opencl.counters
    assert (done.kernels_compiled, done.kernels_cached, done.kernels_run) == (2, 2, 8)
    assert done.bytes == 6400


def test_memory_is_counted_kept_and_reused(opencl: Any) -> None:
    allocator = opencl.allocator
    used = allocator.in_use
    buffer = opencl.copy_in(np.zeros(12345, np.int8))
    memory = buffer.memory
    assert allocator.in_use - used == allocator.size_class(12345)
    del buffer
    assert allocator.in_use == used
    assert opencl.allocate(12345).memory is memory
    allocator.trim()
    assert allocator.cached == 0


def test_allocation_that_is_too_large_says_so(opencl: Any) -> None:
    with pytest.raises(OutOfMemoryError, match="opencl has no memory for"):
        opencl.allocate(1 << 50)


@pytest.mark.parametrize(
    "dtype", [dtypes.float32, dtypes.bool_, dtypes.bfloat16], ids=str
)
def test_copies_keep_every_element(opencl: Any, dtype: np.dtype[Any]) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for array in (x, x.T, x[:, ::2], x[:0], x[0, 0, 0]):
        array = np.asarray(array)
        got = opencl.copy_out(opencl.copy_in(array), dtype, array.size)
        np.testing.assert_array_equal(got, array.ravel())


def test_axis_of_size_zero_runs_nothing(opencl: Any) -> None:
    out = np.ones(3, np.float32)
    i, j = axes(3, 0)
    store = Store(0, i, ew.cast(j, dtypes.float32))
    (got,) = run(opencl, Kernel((i, j), (store,), specs([], [out])), [], [out])
    np.testing.assert_array_equal(got, out)


def test_equal_kernels_have_equal_sources() -> None:
    case = samples.matmul_case()
    first, second = (render(case.kernel, GPU) for _ in range(2))
    assert first == second
    assert program_source([first, second]).count("__kernel") == 1


def test_float64_on_a_device_without_it_says_so() -> None:
    with pytest.raises(DeviceError, match=r"no float64.*astype\('float32'\)"):
        render(
            samples.matmul_case(dtype=np.float64).kernel, replace(GPU, doubles=False)
        )


def test_missing_pyopencl_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from ftrace.backends.opencl.device import OpenCL

    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(
        MissingExtraError, match=r'pip install "ftrace\[opencl\]".*PoCL'
    ):
        OpenCL()


def test_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    cl = pytest.importorskip("pyopencl")
    from ftrace.backends.opencl.device import OpenCL

    monkeypatch.setattr(cl, "get_platforms", list)
    with pytest.raises(
        DeviceError, match=r'no OpenCL driver has a device.*"ftrace\[opencl\]"'
    ):
        OpenCL()


def test_failures_of_the_driver_are_ours(opencl: Any) -> None:
    with pytest.raises(DeviceError, match="opencl failed"), opencl.errors():
        opencl.cl.Program(opencl.context, "nonsense").build()


def test_a_program_is_compiled_in_one_build(
    opencl: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds: list[str] = []
    build = opencl.cl.Program

    def counted(context: Any, source: str) -> Any:
        builds.append(source)
        return build(context, source)

    monkeypatch.setattr(opencl.cl, "Program", counted)
    programs = [make_program(samples.softmax_case(3, n).kernel) for n in (5, 6)]
    steps = programs[0].steps + programs[1].steps
    opencl.compile(replace(programs[0], steps=steps))
    opencl.compile(programs[1])
    assert len(builds) == 1
    assert builds[0].count("__kernel") == 2


class _Record:
    """A device of PoCL: a handle to a record that points to texts."""

    version = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-generic"
    alive: ClassVar[list[_Record]] = []

    def __init__(self, *texts: bytes) -> None:
        self.texts = [ctypes.create_string_buffer(text) for text in texts]
        self.words = (ctypes.c_uint64 * 512)(3, *map(ctypes.addressof, self.texts))
        self.int_ptr = ctypes.addressof(self.words)
        self.alive.append(self)  # no other device ever has this handle

    def text(self, position: int) -> bytes:
        return ctypes.string_at(self.words[position])


on_linux = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="PyPI has PoCL for Linux on x86-64",
)


@on_linux
def test_pocl_that_knows_no_processor_is_told_one() -> None:
    device = _Record(b"pthread", b"x86_64-unknown-linux-gnu", b"generic", b"generic")
    name = name_processor(device)
    assert name.startswith("x86-64")
    assert device.text(3) == name.encode()
    assert device.text(4) == b"generic"
    assert name_processor(device) == name


@on_linux
@pytest.mark.parametrize(
    "texts", [(b"x86_64-", b"znver3"), (b"generic",), 2 * (b"x86_64-", b"generic")]
)
def test_pocl_of_another_build_is_left_alone(texts: tuple[bytes, ...]) -> None:
    device = _Record(*texts)
    before = bytes(device.words)
    with pytest.raises(DeviceError, match=r"does not know this processor.*newer PoCL"):
        name_processor(device)
    assert bytes(device.words) == before


def test_devices_of_other_drivers_are_left_alone() -> None:
    device = _Record(b"x86_64-", b"generic")
    for version in ("OpenCL 3.0 CUDA", "OpenCL 3.0 PoCL HSTR: pthread-znver3"):
        device.version = version
        assert name_processor(device) == ""
    assert device.text(2) == b"generic"
