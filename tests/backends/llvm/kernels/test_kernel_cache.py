"""Kernels on disk, found by themselves; and the functions that kernels call."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes, lax
from ftrace.backends.llvm import compile as compile_module, device as device_module
from ftrace.backends.llvm.compile import object_cache
from ftrace.backends.llvm.device import CPU, render_kernel
from ftrace.backends.llvm.emit import called_functions
from ftrace.backends.llvm.kernels.cached_kernel import Cached
from ftrace.backends.llvm.kernels.compile_kernels import compile_kernels
from ftrace.backends.llvm.object_cache import digest_of_sources
from ftrace.backends.llvm.scalar.ops import CALLED
from ftrace.backends.llvm.target import Target
from ftrace.errors import GraphError
from ftrace.ground import settings
from ftrace.lower.assembly.serialize import kernel_identity
from ftrace.lower.kernel.ir import BufferSpec, Kernel, Store, load, make_range, param
from ftrace.trace.primitives.elementwise import add, sin
from ftrace.trace.primitives.sources import const
from tests.support.covering import covering
from tests.support.kernel_texts import library_functions_in

ROOT = Path(__file__).parents[4]
f32, f64 = dtypes.float32, dtypes.float64


def kernel_of(
    size: int = 8,
    dtype: np.dtype[Any] = f32,
    number: float = 1.0,
    op: Any = add,
    combine: str = "",
    ordered: frozenset[int] = frozenset(),
) -> Kernel:
    i = make_range(0, size, False)
    value = op(load(param(0, dtype, size), i), const(number, dtype))
    specs = (BufferSpec(dtype, size, False), BufferSpec(dtype, size, True))
    return Kernel((i,), (Store(1, i, value, None, combine),), specs, ordered)


def loop(x: Any) -> Any:
    return lax.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "chain": (lambda x: fnp.sin(x) * 2 + fnp.where(x > 0, x, -0.0), (9,)),
    "softmax": (lambda x: ft.nn.softmax(x), (4, 9)),
    "product": (lambda x: x @ x.T, (32, 32)),
    "half": (lambda x: fnp.exp(x.astype(fnp.bfloat16)), (9,)),
    "bits": (lambda x: lax.bitcast_convert_type(x, fnp.int32) >> 3, (9,)),
    "gather": (lambda x: x[fnp.argsort(x)], (9,)),
    "scatter": (lambda x: fnp.zeros(9).at[fnp.arange(9) % 3].add(x), (9,)),
    "pad": (lambda x: fnp.pad(x, 2)[1:] * 3, (9,)),
    "loop": (loop, ()),
}


def kernels_of(name: str) -> list[Kernel]:
    function, shape = PROGRAMS[name]
    stages = ft.jit(function).lower(ft.ShapeDtypeStruct(shape, np.float32))
    return [step.kernel for step in stages.program.kernels]


def run_python(program: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=120, check=True,
        env={**os.environ, **environment}, cwd=ROOT,
    ).stdout  # fmt: skip


# What a kernel is found by


def test_identity_is_the_same_in_every_process() -> None:
    program = """
        import hashlib, sys
        from tests.backends.llvm.kernels.test_kernel_cache import *
        names = sorted(PROGRAMS, reverse={reverse})
        texts = {{n: "".join(map(kernel_identity, kernels_of(n))) for n in names}}
        for name in sorted(texts):
            digest = hashlib.sha256(texts[name].encode()).hexdigest()
            sys.stdout.write(f"{{name}} {{digest}}\\n")
    """
    first = run_python(program.format(reverse=False), PYTHONHASHSEED="1")
    assert len(first.splitlines()) == len(PROGRAMS)
    assert run_python(program.format(reverse=True), PYTHONHASHSEED="2") == first


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_programs_have_an_identity(name: str) -> None:
    identities = [kernel_identity(kernel) for kernel in kernels_of(name)]
    assert all(identities)
    assert len(set(identities)) == len(set(kernels_of(name)))


def test_kernels_that_differ_have_other_identities() -> None:
    one = kernel_of()
    (store,) = one.stores
    i = one.axes[0]
    others = [
        one,
        kernel_of(size=9),
        kernel_of(dtype=f64),
        kernel_of(number=0.0),
        kernel_of(number=-0.0),
        kernel_of(number=float("nan")),
        kernel_of(op=lambda a, b: add(b, a)),
        kernel_of(combine="add"),
        kernel_of(ordered=frozenset((0,))),
        replace(one, stores=(replace(store, buffer=0),)),
        replace(one, stores=(store, replace(store, buffer=0))),
        replace(one, stores=(replace(store, valid=const(True, dtypes.bool_)),)),
        replace(one, axes=(i, make_range(1, 1, False))),
        replace(one, buffers=(one.buffers[0], BufferSpec(f32, 8, False))),
    ]
    identities = [kernel_identity(kernel) for kernel in others]
    assert len(set(identities)) == len(others)
    assert kernel_identity(kernel_of()) == identities[0]


def test_dynamic_sizes_have_no_identity_and_are_kept_by_text(tmp_path: Path) -> None:
    program = """
        import sys
        import numpy as np
        import ftrace as ft, ftrace.numpy as fnp
        from ftrace.backends.llvm.compile import object_cache
        from ftrace.lower.assembly.serialize import kernel_identity
        f = ft.jit(lambda x: fnp.cos(x) * 2, dynamic={"x": {0: ft.Dim("n", min=2)}})
        for size in (5, 17):
            x = np.arange(size, dtype=np.float32)
            np.testing.assert_allclose(f(x), np.cos(x) * 2, rtol=1e-5)
        sys.stdout.write(f"{object_cache.hits} {object_cache.misses}")
    """
    folder = str(tmp_path / "cache")
    assert run_python(program, FTRACE_CACHE_DIR=folder) == "0 3"
    assert run_python(program, FTRACE_CACHE_DIR=folder) == "3 0"
    size: Any = ft.Dim("n", min=2)
    i = make_range(0, size, False)
    store = Store(0, i, const(1.0, f32))
    assert kernel_identity(Kernel((i,), (store,), (BufferSpec(f32, 9, True),))) is None


def test_users_functions_are_not_found_by_their_names(tmp_path: Path) -> None:
    program = """
        import sys
        import numpy as np
        import ftrace as ft
        tripled = ft.extend.elementwise(
            "scaled", numpy=lambda x: x * {factor}, kernel=lambda x: x * {factor},
            derivatives=[lambda x, y: {factor}],
        )
        x = np.arange(4, dtype=np.float32)
        assert (np.asarray(ft.jit(tripled)(x)) == x * {factor}).all()
    """
    for factor in (3, 5, 3):
        run_python(program.format(factor=factor), FTRACE_CACHE_DIR=str(tmp_path))


def test_key_holds_versions_sources_and_the_processor() -> None:
    text, target, version = compile_module.cache_key("text")
    assert text == "text"
    assert "x86" in target or "aarch64" in target or "arm" in target
    sources = digest_of_sources()
    assert len(sources) == 64
    assert sources in version
    other = Target.of("aarch64-unknown-linux-gnu")
    assert compile_module.cache_key("text", other)[1] != target


# A warm start


def refuse(kernel: Kernel) -> Any:
    raise GraphError("this was to be on disk")


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n != "gather"])
def test_warm_start_renders_nothing(name: str, tmp_path: Path) -> None:
    kernels = list(dict.fromkeys(kernels_of(name)))
    with settings.config(cache_dir=str(tmp_path)):
        cold = compile_kernels(kernels, render_kernel, 2)
        warm = compile_kernels(kernels, refuse, 2)
    for kernel, a, b in zip(kernels, cold, warm, strict=True):
        rendered = render_kernel(kernel)
        assert a.source() == rendered.text
        assert (a.made.units, a.made.grain) == (rendered.parallel, rendered.grain)
        assert (b.made.units, b.made.grain) == (a.made.units, a.made.grain)
        assert a.address != b.address


def test_next_process_finds_kernels_and_what_they_call(tmp_path: Path) -> None:
    program = """
        import sys
        import numpy as np
        import ftrace as ft, ftrace.numpy as fnp
        from ftrace.backends.llvm import device
        from ftrace.backends.llvm.compile import object_cache
        if {warm}:
            device.render_kernel = None
        x = np.array([1e9, 2.0, np.inf] * 7, np.float32)
        y = np.asarray(ft.jit(fnp.sin)(x))
        wide = np.sin(x[:2].astype(np.float64))
        assert abs(y[:2] - wide).max() < 1e-7 and np.isnan(y[2])
        sys.stdout.write(f"{{object_cache.hits}} {{object_cache.misses}}")
    """
    folder = str(tmp_path / "cache")
    cold = run_python(program.format(warm=False), FTRACE_CACHE_DIR=folder)
    # The program, the runner, its kernel and module, the reduction of angles.
    assert cold == "0 5"
    warm = run_python(program.format(warm=True), FTRACE_CACHE_DIR=folder)
    assert warm == "4 0"  # the program says which module has its code


def test_sources_are_rendered_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = ft.jit(fnp.sin).lower(np.ones(8, np.float32)).program
    with settings.config(cache_dir=str(tmp_path)):
        first = CPU().compile(program).sources
        count = 0

        def counted(kernel: Kernel, target: Target | None = None) -> Any:
            nonlocal count
            count += 1
            return render_kernel(kernel, target)

        monkeypatch.setattr(device_module, "render_kernel", counted)
        executable = CPU().compile(program)
        assert count == 0
        assert executable.sources == first
        assert count == 1


def test_entry_of_another_form_is_a_miss(tmp_path: Path) -> None:
    kernel = kernel_of(number=41.0)
    identity = kernel_identity(kernel)
    assert identity is not None
    key = ("kernel", *compile_module.cache_key(identity))
    with settings.config(cache_dir=str(tmp_path)):
        for whole in (b"", b"no head at all", b"{}\n", b"[1]\ncode", b'["a", 2]\ncode'):
            object_cache.store(whole, *key)
            (compiled,) = compile_kernels([kernel], render_kernel, 1)
            assert compiled.made.units >= 1
            written = object_cache.load(*key)
            assert written is not None
            assert Cached.unpack(written) is not None  # it was written anew


# Functions that are called


def special_values(dtype: Any) -> Any:
    info = np.finfo(dtype)
    rng = np.random.default_rng(0)
    values = [
        0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, info.max, info.min,
        info.tiny, info.smallest_subnormal, 1e5, 2e5, 1e9, -3e22, info.eps,
    ]  # fmt: skip
    return np.concatenate([values, rng.normal(size=43) * 3]).astype(dtype)


FUNCTIONS: dict[str, Any] = {
    **{n: getattr(fnp, n) for n in ("expm1", "sinh", "tanh", "log", "log2", "log1p")},
    **{n: getattr(fnp, n) for n in ("sin", "cos", "tan", "cbrt")},
    **{n: getattr(lax, n) for n in ("asinh", "acosh", "atanh", "asin", "acos", "atan")},
    **{n: getattr(lax, n) for n in ("erf", "erfc", "erf_inv", "lgamma", "digamma")},
    "atan2": lambda x: fnp.arctan2(x, 1.5 - x),
    "pow": lambda x: fnp.power(abs(x), x * 0.5),
}


def test_every_function_that_may_be_called_is_tested() -> None:
    assert set(FUNCTIONS) == set(CALLED)


@covering(1, dtype=[np.float32, np.float64], name=FUNCTIONS)
def test_called_functions_give_the_same_bits(
    name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    function = FUNCTIONS[name]
    monkeypatch.setattr(called_functions, "SMALL", 0)
    monkeypatch.setattr(called_functions, "SEVERAL", 1)
    for size in (1, 3, 60):
        x = special_values(dtype)[-size:]
        results: list[Any] = []
        for many in (1, 1000):
            monkeypatch.setattr(called_functions, "MANY", many)
            with settings.config(cache_dir=str(tmp_path / str(many))):
                program = ft.jit(function).lower(x).program
                called = called_functions.called_in(program.kernels[0].kernel)
                assert (name in called) == (many == 1)
                device = CPU()
                (out,) = device.compile(program)([device.copy_in(x)])
                results.append(device.copy_out(out, x.dtype, size).copy())
        kind = f"u{x.itemsize}"
        np.testing.assert_array_equal(results[0].view(kind), results[1].view(kind))


def test_function_used_many_times_stands_once() -> None:
    def chain(x: Any) -> Any:
        for _ in range(called_functions.MANY):
            x = fnp.sin(x) + 0.1
        return x

    def shorter(x: Any) -> Any:
        for _ in range(called_functions.MANY - 1):
            x = fnp.sin(x) + 0.1
        return x

    x = np.linspace(-9, 9, 5000, dtype=np.float32)
    (text,) = ft.jit(chain).lower(x).sources
    assert any("ftrace_sin_" in symbol for symbol in library_functions_in(text))
    (text,) = ft.jit(shorter).lower(x).sources
    assert not any("ftrace_sin_" in symbol for symbol in library_functions_in(text))
    wide = x.astype(np.float64)
    for _ in range(called_functions.MANY):
        wide = np.sin(wide) + 0.1
    np.testing.assert_allclose(ft.jit(chain)(x), wide, atol=1e-5)


def test_function_used_few_times_stands_where_it_is_used() -> None:
    def several(x: Any) -> Any:
        for _ in range(called_functions.MANY):
            x = fnp.sin(x) + 0.1
        for _ in range(called_functions.SEVERAL - 1):
            x = fnp.tanh(x)
        return x

    (text,) = ft.jit(several).lower(np.ones(5000, np.float32)).sources
    called = library_functions_in(text)
    assert any("ftrace_sin_" in symbol for symbol in called)
    assert not any("ftrace_tanh_" in symbol for symbol in called)


def test_function_used_few_times_is_called_for_few_elements() -> None:
    def four(x: Any) -> Any:
        return fnp.sin(fnp.sin(fnp.tanh(fnp.tanh(x)))) + fnp.log(x)

    def called(size: int) -> set[str]:
        (text,) = ft.jit(four).lower(np.ones(size, np.float32)).sources
        return {symbol.split("_")[1] for symbol in library_functions_in(text)}

    assert called(called_functions.SMALL) == {"sin", "tanh"}  # and log stands in it
    assert called(called_functions.SMALL + 1) == {"far"}


def test_far_angles_are_reduced_out_of_line_in_whole_vectors() -> None:
    size = 1 << 12
    i = make_range(0, size, False)
    value = sin(load(param(0, f32, size), i))
    specs = (BufferSpec(f32, size, False), BufferSpec(f32, size, True))
    text = render_kernel(Kernel((i,), (Store(1, i, value),), specs)).text
    (symbol,) = library_functions_in(text)
    lanes = compile_module.host_target().vector_bytes // 4
    assert symbol == f"ftrace_far_angle_v{lanes}f32"
    assert "i64>" not in text  # of the integers of the reduction
    assert text.count("!prof !1") == text.count(f"call {{ <{lanes} x i32>")


@pytest.mark.parametrize("symbol", ["ftrace_far_angle_v4f32", "ftrace_tan_v2f64"])
@pytest.mark.parametrize(
    "target",
    [
        Target.of("x86_64-unknown-linux-gnu", "x86-64"),
        Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
        Target.of("aarch64-unknown-linux-gnu", "cortex-a72"),
    ],
    ids=["x86-64", "x86-64-v3", "aarch64"],
)
def test_functions_are_written_for_other_processors(
    symbol: str, target: Target
) -> None:
    text = called_functions.write_called(symbol, target).text
    assert f"@{symbol}(" in text
    if target.triple.startswith("x86_64"):
        assert compile_module.generate(text, target)
