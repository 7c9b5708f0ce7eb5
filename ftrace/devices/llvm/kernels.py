"""Kernels to machine code, by way of the disk cache.

    kernel -> identity -> object code and how to run it      (it is on disk)
    kernel -> text -> object code, which is kept on disk     (it is not)

What is kept is found by the kernel itself, so that nothing is rendered for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ftrace.devices.llvm.compile import (
    Code,
    cache_key,
    emit_object,
    generate,
    link,
    object_cache,
    run_all,
)
from ftrace.devices.llvm.library import addresses, symbols_in
from ftrace.devices.llvm.numbers import Numbers
from ftrace.devices.llvm.render import Rendered
from ftrace.devices.llvm.target import Target
from ftrace.lower.identity import kernel_identity
from ftrace.lower.kernel import Kernel

#: The name of the function in every kernel's text.
FUNCTION = "kernel"

Render = Callable[[Kernel], Rendered]


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel as machine code.

    Attributes:
      kernel: what it was made of.
      code: keeps the machine code in memory.
      address: of the function.
      units: what the function can be split into.
      grain: the least number of units worth a thread's while.
      dims: sizes that are known at calls only; the function takes them as a buffer
        of int64 behind the kernel's own. Then `units` may be one of them.
      render: gives the kernel's text.
      numbers: a buffer behind the kernel's own, if the function takes one; see
        `numbers.py`.
    """

    kernel: Kernel
    code: Code
    address: int
    units: int
    grain: int
    dims: tuple[Any, ...]
    render: Render
    numbers: Numbers | None = None

    @property
    def text(self) -> str:
        """The LLVM IR."""
        return self.render(self.kernel).text


@dataclass(frozen=True)
class Made:
    """What is kept on disk of a kernel.

    Attributes:
      units, grain: see `CompiledKernel`.
      calls: functions of the library that it calls.
      code: object code.
      dims: see `CompiledKernel`; what has any is not kept.
    """

    units: int
    grain: int
    calls: tuple[str, ...]
    code: bytes
    dims: tuple[Any, ...] = ()

    def pack(self) -> bytes:
        head = json.dumps([self.units, self.grain, *self.calls])
        return head.encode() + b"\n" + self.code

    @staticmethod
    def unpack(whole: bytes) -> Made | None:
        """None for what `pack` has not made."""
        head, _, code = whole.partition(b"\n")
        try:
            units, grain, *calls = json.loads(head)
        except (ValueError, TypeError):
            return None
        if not (isinstance(units, int) and isinstance(grain, int) and code):
            return None
        return Made(units, grain, tuple(calls), code)


def compile_kernels(
    kernels: Sequence[Kernel],
    render: Render,
    threads: int,
    target: Target | None = None,
) -> list[CompiledKernel]:
    """The machine code of kernels.

    Args:
      kernels: no two of them equal.
      render: gives the code of one that is not on disk.
      threads: how many may compile at the same time.
      target: the processor that `render` writes for, if not just this one.
    """
    keys = [_key(kernel, target) for kernel in kernels]
    found = [load_made(key) for key in keys]
    missing = [n for n, made in enumerate(found) if made is None]

    def jobs() -> Iterator[Callable[[], Made]]:
        for n in missing:
            yield partial(_make, render(kernels[n]), keys[n])

    made = run_all(jobs(), min(threads, len(missing)))
    for n, one in zip(missing, made, strict=True):
        found[n] = one
    return [
        _linked(kernel, one, render)
        for kernel, one in zip(kernels, found, strict=True)
        if one is not None
    ]


def compile_rendered(kernel: Kernel, render: Render, target: Target) -> CompiledKernel:
    """The machine code of one kernel in the schedule for a processor.

    Args:
      render: gives its text for that processor.
      target: the processor, which this one can stand in for.
    """
    key = _key(kernel, target)
    made = load_made(key) or _make(render(kernel), key)
    return _linked(kernel, made, render)


def _key(kernel: Kernel, target: Target | None = None) -> tuple[str, ...] | None:
    identity = kernel_identity(kernel)
    return None if identity is None else ("kernel", *cache_key(identity, target))


def load_made(key: tuple[str, ...] | None) -> Made | None:
    """What is on disk under a key."""
    whole = None if key is None else object_cache.load(*key)
    return None if whole is None else Made.unpack(whole)


def _make(rendered: Rendered, key: tuple[str, ...] | None) -> Made:
    """What a text comes to, kept on disk under the key, or by the text if it has none.

    A kernel of dynamic sizes has none.
    """
    text, units, grain = rendered.text, rendered.parallel, rendered.grain
    calls = symbols_in(text)
    if key is None:
        return Made(units, grain, calls, emit_object(text), rendered.dims)
    assert not rendered.dims
    made = Made(units, grain, calls, generate(text))
    object_cache.store(made.pack(), *key)
    return made


def _linked(kernel: Kernel, made: Made, render: Render) -> CompiledKernel:
    code = link(made.code, (FUNCTION,), addresses(made.calls))
    address = code.address(FUNCTION)
    return CompiledKernel(
        kernel, code, address, made.units, made.grain, made.dims, render
    )
