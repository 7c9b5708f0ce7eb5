"""Kernels to machine code, by way of the disk cache.

    kernel -> identity -> its function, object code          (it is on disk)
    kernel -> text -> object code, which is kept on disk     (it is not)

What is cached is found by the kernel itself, so that nothing is rendered for it. Whole
programs that are on disk find the object code without their kernels:
`cached_kernel.py`.

Numbers that do not decide how a kernel is written become data first:

    Before: buffer0[i] = load(buffer1, i) * 0.3 + 1.7
    After:  buffer0[i] = load(buffer1, i) * load(buffer2, 0) + load(buffer2, 1)
            and the numbers 0.3, 1.7

Kernels that differ in such numbers alone are one: it is compiled once, and another
learning rate compiles nothing. What a compiler makes something special of stays: zero,
powers of two, infinities. So do the numbers of kernels that have many, which would take
up the registers, unless a program has several that are alike but for them: layers, the
parts of a long chain.

Short kernels of a program are compiled together, several in one module of LLVM IR:

    define void @kernel(…)       define void @kernel(…)
    ->  define void @kernel0(…)  define void @kernel1(…)

LLVM takes as long to begin with a module as to compile a short kernel, so that a
module for each would cost a program of many kernels a sixth of its time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.compile import cache_key, object_cache
from ftrace.backends.llvm.compile_threads import run_all
from ftrace.backends.llvm.emit.module import ALONE, Module, Rendered, text_of
from ftrace.backends.llvm.kernels import cached_kernel
from ftrace.backends.llvm.kernels.cached_kernel import Cached, CompiledKernel
from ftrace.backends.llvm.kernels.function_library import compile_module, prepare
from ftrace.backends.llvm.object_cache import digest_of
from ftrace.backends.llvm.target import Target
from ftrace.ground.progress import progress
from ftrace.ground.spans import span
from ftrace.lower.assembly.serialize import kernel_identity
from ftrace.lower.kernel.ir import INDEX, BufferSpec, Kernel, load, param, reduce_p
from ftrace.trace.graph import Node, constant_value, substitute
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import const, const_p

# Numbers become data.

#: A kernel with more numbers keeps them, one of several that are alike with still more.
MOST_NUMBERS, MOST_NUMBERS_ALIKE = 8, 64
#: A kernel that loads its numbers from one more buffer, and that buffer.
General = tuple[Kernel, np.ndarray[Any, Any] | None]


def general_kernels(kernels: Iterable[Kernel]) -> dict[Kernel, General]:
    """What is compiled for the kernels of a program: of several that are alike one."""
    found = {kernel: without_numbers(kernel) for kernel in kernels}
    users = Counter(general for general, _ in found.values())
    lone = [kernel for kernel, (general, _) in found.items() if users[general] == 1]
    sizes = Counter(len(kernel.nodes) for kernel in lone)
    lone = [kernel for kernel in lone if sizes[len(kernel.nodes)] > 1]
    more = {kernel: without_numbers(kernel, alike=True) for kernel in lone}
    users = Counter(general for general, _ in more.values())
    return found | {k: form for k, form in more.items() if users[form[0]] > 1}


def without_numbers(kernel: Kernel, alike: bool = False) -> General:
    """The kernel that loads its numbers from one more buffer, and that buffer.

    None where it has none to load. Reduces keep theirs: what is known of constants
    decides how products are blocked.

    Args:
      alike: there is another one like it, so that all but zero may be loaded.
    """
    if type(kernel) is not Kernel or kernel.is_dynamic:
        return kernel, None
    nodes = kernel.nodes
    if any(node.op is reduce_p for node in nodes):
        return kernel, None
    found = _numbers(kernel, nodes, alike)
    if not 0 < len(found) <= (MOST_NUMBERS_ALIKE if alike else MOST_NUMBERS):
        return kernel, None
    dtype, number = found[0].dtype, len(kernel.buffers)
    buffer = param(number, dtype, len(found))
    loads = {n: load(buffer, const(k, INDEX)) for k, n in enumerate(found)}
    values = substitute([store.value for store in kernel.stores], loads)
    stores = tuple(
        replace(store, value=value)
        for store, value in zip(kernel.stores, values, strict=True)
    )
    specs = (*kernel.buffers, BufferSpec(dtype, len(found), False))
    general = replace(kernel, stores=stores, buffers=specs)
    return general, np.array([constant_value(n) for n in found], dtype)


def _numbers(kernel: Kernel, nodes: list[Node], alike: bool) -> list[Node]:
    """The constants that may be loaded, all of one dtype, in the order of the nodes."""
    kept = set(kernel.roots)
    for node in nodes:
        if not (isinstance(node.op, Primitive) and node.op.takes_numbers):
            kept.update(node.src)
    numbers = [n for n in nodes if n.op is const_p and n not in kept]
    found = [n for n in numbers if _is_ordinary(n, alike)]
    return [n for n in found if n.dtype == found[0].dtype]


def _is_ordinary(node: Node, alike: bool) -> bool:
    """Is it a number like any other, or among kernels that are alike at least not 0?"""
    if node.dtype not in (dtypes.float32, dtypes.float64) or node.shape:
        return False
    value = float(constant_value(node))
    special = (0.0,) if alike else (0.0, 0.5)
    return math.isfinite(value) and abs(math.frexp(value)[0]) not in special


# Kernels to machine code.

Render = Callable[[Kernel], Rendered]


def compile_kernels(
    kernels: Sequence[Kernel],
    render: Render,
    threads: int,
    target: Target | None = None,
    way: int = 0,
) -> list[CompiledKernel]:
    """The machine code of kernels.

    Args:
      kernels: no two of them equal.
      render: gives the code of one that is not on disk.
      threads: how many may compile at the same time.
      target: the processor that `render` writes for, if not just this one.
      way: the number of the way to run that `render` writes.
    """
    keys = [_key(kernel, target, way) for kernel in kernels]
    modules = cached_kernel.Modules()
    found = [_load(key, modules) for key in keys]
    missing = [n for n, made in enumerate(found) if made is None]

    def jobs() -> Iterator[Callable[[], list[Cached]]]:
        waiting, asked = iter(missing), set[str]()
        for group in group_kernels(render(kernels[n]) for n in missing):
            calls = {c for one in group for c in one.module.calls} - asked
            asked |= calls
            for symbol in sorted(calls):
                yield partial(_prepare, symbol)
            mine = [keys[n] for n in islice(waiting, len(group))]
            yield partial(_make, group, mine, modules)

    with progress("compiling kernels") as step:
        made = run_all(jobs(), min(threads, 2 * len(missing)), step)
    object_cache.tell()
    for n, one in zip(missing, chain.from_iterable(made), strict=True):
        found[n] = one
    sources = [partial(_text, render, kernel) for kernel in kernels]
    return cached_kernel.link_kernels(
        [one for one in found if one is not None], modules, sources
    )


def _text(render: Render, kernel: Kernel) -> str:
    return render(kernel).text


def _key(kernel: Kernel, target: Target | None, way: int) -> tuple[str, ...] | None:
    identity = kernel_identity(kernel) if object_cache.limit else None
    if identity is None:
        return None
    return f"kernel{way or ''}", *cache_key(identity, target)


def _load(key: tuple[str, ...] | None, modules: cached_kernel.Modules) -> Cached | None:
    """What is on disk under a kernel's key, if its module is there too."""
    whole = None if key is None else object_cache.load(*key)
    made = None if whole is None else Cached.unpack(whole)
    return made if made is not None and modules.has(made.module) else None


def _make(
    group: Sequence[Rendered],
    keys: Sequence[tuple[str, ...] | None],
    modules: cached_kernel.Modules,
) -> list[Cached]:
    """What kernels come to that are one module, cached on disk under their keys.

    A kernel of dynamic sizes has none; its code is cached by its text.
    """
    text, names = in_one_module([rendered.module for rendered in group])
    module = digest_of(text.encode()).hex()
    calls = dict.fromkeys([c for rendered in group for c in rendered.module.calls])
    with span("llvm", f"{len(names)} kernels"):
        modules.make(module, lambda: compile_module(text, calls))
    made: list[Cached] = []
    for one, name, key in zip(group, names, keys, strict=True):
        found = Cached(one.parallel, one.grain, name, module, one.dims)
        if key is not None:
            assert not one.dims
            object_cache.store(found.pack(), *key)
        made.append(found)
    return made


def _prepare(symbol: str) -> list[Cached]:
    """Makes a function that kernels call, and none of them."""
    prepare(symbol)
    return []


#: Characters of a module; a kernel that is longer has one for itself. This is so much
#: that beginning is a tenth of the work, and so little that threads end together.
LENGTH: Final = 48_000


def group_kernels(kernels: Iterable[Rendered]) -> Iterator[list[Rendered]]:
    """Kernels in order, those side by side that are to be one module.

    They are rendered while the groups before them are compiled.
    """
    group: list[Rendered] = []
    length = 0
    for kernel in kernels:
        size = len(kernel.text)
        if group and (length + size > LENGTH or not _can_be_joined(kernel)):
            yield group
            group, length = [], 0
        group.append(kernel)
        length += size
        if length > LENGTH or not _can_be_joined(kernel):
            yield group
            group, length = [], 0
    if group:
        yield group


def _can_be_joined(kernel: Rendered) -> bool:
    """Are its names its own? What is dynamic is cached by its text."""
    return not (kernel.dims or kernel.module.defines)


def in_one_module(modules: Sequence[Module]) -> tuple[str, list[str]]:
    """The module of kernels that stand in modules of their own, and their names."""
    several = len(modules) > 1
    names = [f"{ALONE}{n}" if several else ALONE for n in range(len(modules))]
    return text_of(modules, names), names
