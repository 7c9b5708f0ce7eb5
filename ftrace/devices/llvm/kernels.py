"""Kernels to machine code, by way of the disk cache.

    kernel -> identity -> object code and how to run it      (it is on disk)
    kernel -> text -> object code, which is kept on disk     (it is not)

Short kernels of a program are compiled together: see `modules.py`.

What is kept is found by the kernel itself, so that nothing is rendered for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
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
from ftrace.devices.llvm.library import addresses, prepare, symbols_in
from ftrace.devices.llvm.modules import grouped, in_one_module
from ftrace.devices.llvm.numbers import Numbers
from ftrace.devices.llvm.render import Rendered
from ftrace.devices.llvm.target import Target
from ftrace.lower.identity import kernel_identity
from ftrace.lower.kernel import Kernel

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
      function: the name of its function.
      module: what the object code is kept under that has several kernels; empty where
        it is kept with this one.
      calls: functions of the library that the object code calls.
      code: object code.
      dims: see `CompiledKernel`; what has any is not kept.
    """

    units: int
    grain: int
    function: str
    module: str
    calls: tuple[str, ...]
    code: bytes
    dims: tuple[Any, ...] = ()

    def pack(self) -> bytes:
        parts = self.units, self.grain, self.function, self.module, *self.calls
        head = json.dumps(parts).encode() + b"\n"
        return head if self.module else head + self.code

    @staticmethod
    def unpack(whole: bytes) -> Made | None:
        """None for what `pack` has not made."""
        head, _, code = whole.partition(b"\n")
        try:
            units, grain, function, module, *calls = json.loads(head)
        except (ValueError, TypeError):
            return None
        if not (isinstance(units, int) and isinstance(grain, int)):
            return None
        if bool(module) is bool(code):
            return None
        return Made(units, grain, function, module, tuple(calls), code)


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
    modules: dict[str, bytes | None] = {}
    found = [load_made(key, modules) for key in keys]
    missing = [n for n, made in enumerate(found) if made is None]

    def jobs() -> Iterator[Callable[[], list[Made]]]:
        waiting, asked = iter(missing), set[str]()
        for group in grouped(render(kernels[n]) for n in missing):
            calls = {c for one in group for c in symbols_in(one.text)} - asked
            asked |= calls
            for symbol in sorted(calls):
                yield partial(_prepare, symbol)
            mine = [keys[n] for n in islice(waiting, len(group))]
            yield partial(_make, group, mine)

    made = run_all(jobs(), min(threads, 2 * len(missing)))
    for n, one in zip(missing, chain.from_iterable(made), strict=True):
        found[n] = one
    return _linked(kernels, [one for one in found if one is not None], render)


def compile_rendered(kernel: Kernel, render: Render, target: Target) -> CompiledKernel:
    """The machine code of one kernel in the schedule for a processor.

    Args:
      render: gives its text for that processor.
      target: the processor, which this one can stand in for.
    """
    key = _key(kernel, target)
    found = load_made(key)
    made = _make([render(kernel)], [key]) if found is None else [found]
    (compiled,) = _linked([kernel], made, render)
    return compiled


def _key(kernel: Kernel, target: Target | None = None) -> tuple[str, ...] | None:
    identity = kernel_identity(kernel)
    return None if identity is None else ("kernel", *cache_key(identity, target))


def load_made(
    key: tuple[str, ...] | None, modules: dict[str, bytes | None] | None = None
) -> Made | None:
    """What is on disk under a key.

    Args:
      modules: the code that was read for others; that for this one is added.
    """
    whole = None if key is None else object_cache.load(*key)
    made = None if whole is None else Made.unpack(whole)
    if made is None or not made.module:
        return made
    modules = {} if modules is None else modules
    if made.module not in modules:
        modules[made.module] = object_cache.load("module", *cache_key(made.module))
    code = modules[made.module]
    return None if code is None else replace(made, code=code)


def _make(
    group: Sequence[Rendered], keys: Sequence[tuple[str, ...] | None]
) -> list[Made]:
    """What kernels come to that are one module, kept on disk under their keys.

    A kernel of dynamic sizes has none; its code is kept by its text.
    """
    text, names = in_one_module([rendered.text for rendered in group])
    kept = all(key is not None for key in keys)
    code = generate(text) if kept else emit_object(text)
    module, calls = "", symbols_in(text)
    if kept and len(group) > 1:
        module = hashlib.sha256(text.encode()).hexdigest()
        object_cache.store(code, "module", *cache_key(module))
    made: list[Made] = []
    for one, name, key in zip(group, names, keys, strict=True):
        found = Made(one.parallel, one.grain, name, module, calls, code, one.dims)
        if key is not None:
            assert not one.dims
            object_cache.store(found.pack(), *key)
        made.append(found)
    return made


def _prepare(symbol: str) -> list[Made]:
    """Makes a function that kernels call, and none of them."""
    prepare(symbol)
    return []


def _linked(
    kernels: Sequence[Kernel], made: Sequence[Made], render: Render
) -> list[CompiledKernel]:
    """Loads the code of kernels, each module once."""
    modules: dict[bytes, tuple[list[str], tuple[str, ...]]] = {}
    for one in made:
        modules.setdefault(one.code, ([], one.calls))[0].append(one.function)
    codes = {
        code: link(code, list(dict.fromkeys(names)), addresses(calls))
        for code, (names, calls) in modules.items()
    }
    return [
        CompiledKernel(
            kernel, code, code.address(one.function), one.units, one.grain, one.dims,
            render,
        )
        for kernel, one in zip(kernels, made, strict=True)
        for code in (codes[one.code],)
    ]  # fmt: skip
