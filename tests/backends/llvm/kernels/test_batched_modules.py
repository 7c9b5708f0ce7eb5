"""Kernels that share a module: they run as those that have one for themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.compile import generate, object_cache
from ftrace.backends.llvm.device import CPU, render_kernel
from ftrace.backends.llvm.emit.module import ALONE, Module, Rendered
from ftrace.backends.llvm.ir.symbols import POLL
from ftrace.backends.llvm.kernels import compile_kernels as compiling, function_library
from ftrace.backends.llvm.kernels.compile_kernels import (
    LENGTH,
    Cached,
    compile_kernels,
    group_kernels,
    in_one_module,
)
from ftrace.ground import settings

X: Any = np.outer(np.arange(1, 7), np.linspace(-1, 1, 6)).astype(np.float32)


def program(x: Any) -> Any:
    """Kernels of several kinds, with branches and functions that are called."""
    y = fnp.sin(x) @ x.T
    z = fnp.cumsum(y, axis=1) + fnp.tanh(x)
    return fnp.linalg.solve(z @ z.T + 6 * fnp.eye(6, dtype=x.dtype), y).sum(0), z.max()


def kernels() -> list[Any]:
    steps = ft.jit(program).lower(X).program.kernels
    return list(dict.fromkeys(step.kernel for step in steps))


def text_of(number: int, length: int = 0, defines: bool = False) -> Rendered:
    def write(name: str) -> str:
        body = f"define void @{name}(i64 %x) {{\n  ret void ; {number}\n}}\n"
        return body + ";" * max(length - len(body), 0)

    return Rendered(Module({"target": ""}, (write,), defines), 1, 1)


def test_all_kernels_of_a_program_are_one_module_that_llvm_takes() -> None:
    modules = [render_kernel(kernel).module for kernel in kernels()]
    assert len(modules) > 3
    text, names = in_one_module(modules)
    assert len(set(names)) == len(modules)
    assert all(f"@{name}(" in text for name in names)
    assert text.count("target triple") == 1
    assert generate(text)


def test_a_single_kernel_stays_as_it_is() -> None:
    module = render_kernel(kernels()[0]).module
    assert in_one_module([module]) == (module.text, [ALONE])


def test_groups_hold_short_kernels_in_order() -> None:
    lengths = [100, 200, LENGTH, 100, LENGTH // 2, LENGTH // 2, 2 * LENGTH, 100]
    rendered = [text_of(n, length) for n, length in enumerate(lengths)]
    groups = list(group_kernels(rendered))
    assert [one for group in groups for one in group] == rendered
    assert [len(group) for group in groups] == [2, 1, 2, 1, 1, 1]


def test_modules_that_are_joined_define_only_what_is_named_after_the_kernel() -> None:
    lowered = ft.jit(lambda x: fnp.linalg.inv(fnp.sort(x))).lower(fnp.ones((99, 99)))
    library = [step.kernel for step in lowered.program.kernels]
    modules = [render_kernel(kernel).module for kernel in (*kernels(), *library)]
    assert {module.defines for module in modules} == {False, True}
    defined = re.compile(r"^(?:define .*?)?@(.+?)(?:\(| =)", re.MULTILINE)
    for module in modules:
        names = defined.findall(module.text)
        own = all(name.startswith((ALONE, "zeros")) for name in names)
        assert own == (not module.defines), names


@pytest.mark.parametrize(
    "alone",
    [
        text_of(1, defines=True),
        Rendered(text_of(1).module, 1, 1, ("n",)),
    ],
    ids=["defines", "dynamic"],
)
def test_what_may_meet_another_of_its_name_is_alone(alone: Rendered) -> None:
    groups = list(group_kernels([text_of(0), alone, text_of(2), text_of(3)]))
    assert [len(group) for group in groups] == [1, 1, 2]


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_modules_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    found: list[list[bytes]] = []
    for length in (LENGTH, 0):
        monkeypatch.setattr(compiling, "LENGTH", length)
        folder = str(tmp_path / str(length))
        with ft.config(cache_dir=folder, threads=threads):
            for _ in range(2):  # the second time from disk
                lowered, device = ft.jit(program).lower(X).program, CPU()
                outs = device.compile(lowered)([device.copy_in(X)])
                sizes = [6, 1]
                found.append([
                    device.copy_out(out, X.dtype, size).tobytes()
                    for out, size in zip(outs, sizes, strict=True)
                ])  # fmt: skip
    assert all(one == found[0] for one in found)


def test_a_module_that_is_gone_is_made_again(tmp_path: Path) -> None:
    many = kernels()
    with settings.config(cache_dir=str(tmp_path)):
        compile_kernels(many, render_kernel, 1)
        for file in tmp_path.iterdir():
            if b"ELF" in file.read_bytes()[:64] or file.stat().st_size > 1000:
                file.unlink()
        count = 0

        def counted(kernel: Any) -> Rendered:
            nonlocal count
            count += 1
            return render_kernel(kernel)

        compile_kernels(many, counted, 1)
        assert count
        count, misses = 0, object_cache.misses
        compile_kernels(many, counted, 1)
        assert (count, object_cache.misses) == (0, misses)


def test_entries_are_read_as_they_were_written() -> None:
    made = Cached(3, 2, "kernel7", "digest")
    assert Cached.unpack(made.pack()) == made
    for other in (
        b"",
        b"{}",
        b"[3, 2]",
        b'[3, "2", "kernel", "digest"]',
        b"[1, 2, 3, 4]",
    ):
        assert Cached.unpack(other) is None


def test_functions_of_the_library_are_made_beside_the_kernels(tmp_path: Path) -> None:
    """Another order of work only: all of them are there when kernels are loaded."""
    program = ft.jit(lambda x: fnp.sin(fnp.exp(x)) + fnp.sinh(x)).lower(X).program
    many = list(dict.fromkeys(step.kernel for step in program.kernels))
    called = {symbol for k in many for symbol in render_kernel(k).module.calls}
    assert called
    with settings.config(cache_dir=str(tmp_path)):
        for symbol in sorted(called):
            function_library.prepare(symbol)
            assert function_library.addresses([symbol]) == function_library.addresses(
                [symbol]
            )
        function_library.prepare(POLL)  # and what is no formula is nobody's to make
        (compiled,) = compile_kernels(many[:1], render_kernel, 2)
    assert compiled.address
