"""Kernels and programs whose machine code is there: on disk, and in memory.

What makes code is `compile_kernels.py`. A whole program on disk is its steps, and where
the code of each kernel is:

    file = JSON: [[function, numbers] …] for its kernel steps, a line; then its text
    function = [units, grain, its name, module]
    numbers  = null | [dtype, bytes in hexadecimal]

A process that finds a file of its graph does not lower it, and looks at no kernel. The
object code stands in files of its own, which programs share; where one of them is gone
the program is a miss.

    file = names of the functions of the library that it calls, a line; the object code
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.llvm.compile import (
    Code,
    cache_key,
    link,
    load_or_make,
    object_cache,
)
from ftrace.backends.llvm.kernels.function_library import addresses
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.assembly.serialize import program_of, program_text
from ftrace.lower.program import Program, RunKernel

#: Numbers of a kernel as data: see `compile_kernels.py`.
Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Cached:
    """What is cached on disk of a kernel: its function, and where that is.

    Attributes:
      units: what the function can be split into.
      grain: the least number of units worth a thread's while.
      function: its name.
      module: what its module's object code is cached under; a module may hold the
        functions of several kernels.
      dims: sizes that are known at calls only; the function takes them as a buffer
        of int64 behind the kernel's own. Then `units` may be one of them, and the
        kernel is cached by its text alone.
    """

    units: int
    grain: int
    function: str
    module: str
    dims: tuple[Any, ...] = ()

    @property
    def row(self) -> tuple[int, int, str, str]:
        """What of it is cached."""
        return self.units, self.grain, self.function, self.module

    def pack(self) -> bytes:
        return json.dumps(self.row).encode()

    @staticmethod
    def unpack(whole: bytes) -> Cached | None:
        """None for what `pack` has not made."""
        try:
            return Cached.of(json.loads(whole))
        except ValueError:
            return None

    @staticmethod
    def of(row: Any) -> Cached:
        match row:
            case [int(units), int(grain), str(function), str(module)]:
                return Cached(units, grain, function, module)
            case _:
                raise ValueError(f"no row of a kernel: {row}")


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel as machine code.

    Attributes:
      made: its function.
      code: keeps the machine code in memory.
      address: of the function.
      source: gives the LLVM IR.
      numbers: a buffer behind the kernel's own, if the function takes one; see
        `compile_kernels.py`.
      like: one with other numbers, of which this one has the code.
    """

    made: Cached
    code: Code
    address: int
    source: Callable[[], str]
    numbers: Numbers | None = None
    like: CompiledKernel | None = None


class Modules:
    """The files of modules: what was read or made, by the names they are cached under.

    One is for one use: it would keep all that was ever compiled.
    """

    def __init__(self) -> None:
        self._files: dict[str, bytes | None] = {}

    def make(self, name: str, make: Callable[[], bytes]) -> None:
        """A module that is made now, unless another process has done so."""
        self._files[name] = load_or_make(("module", *cache_key(name)), make)

    def has(self, name: str) -> bool:
        """Is it there, or on disk?"""
        if name not in self._files:
            self._files[name] = object_cache.load("module", *cache_key(name))
        return self._files[name] is not None

    def link(self, name: str, functions: Iterable[str]) -> Code:
        """Loads one that is there, for these functions of it."""
        file = self._files[name]
        assert file is not None
        calls, _, code = file.partition(b"\n")
        return link(code, list(functions), addresses(calls.decode().split()))


def link_kernels(
    made: Sequence[Cached],
    modules: Modules,
    sources: Sequence[Callable[[], str]],
    numbers: Iterable[Numbers | None] = repeat(None),
) -> list[CompiledKernel]:
    """Loads the code of kernels, each module once."""
    functions: dict[str, dict[str, None]] = {}
    for one in made:
        functions.setdefault(one.module, {})[one.function] = None
    codes = {name: modules.link(name, inside) for name, inside in functions.items()}
    return [
        CompiledKernel(one, code, code.address(one.function), source, own)
        for one, source, own in zip(made, sources, numbers, strict=False)
        for code in (codes[one.module],)
    ]


SourceOf = Callable[[RunKernel, Numbers | None], Callable[[], str]]


def pack_program(program: Program, kernels: Sequence[CompiledKernel]) -> bytes | None:
    """A program and its code as the bytes of a file; None if it has no text.

    Args:
      kernels: the code of `program.kernels`.
    """
    text = program_text(program)
    if text is None or any(kernel.made.dims for kernel in kernels):
        return None
    rows = [[kernel.made.row, _numbers_as_text(kernel.numbers)] for kernel in kernels]
    head = json.dumps(rows, separators=(",", ":"))
    return f"{head}\n{text}".encode()


def unpack_program(
    whole: bytes, source_of: SourceOf
) -> tuple[Program, list[CompiledKernel]] | None:
    """What `pack_program` has made; None for other bytes, or if code is gone.

    Args:
      source_of: for a step and its numbers, what gives the LLVM IR of its kernel.
    """
    head, _, text = whole.decode("utf-8", "replace").partition("\n")
    try:
        rows = json.loads(head)
        made = [Cached.of(row) for row, _ in rows]
        numbers = [_numbers_of(text) for _, text in rows]
    except (ValueError, TypeError):
        return None
    modules = Modules()
    if not all(modules.has(one.module) for one in made):
        return None
    program = program_of(text)
    steps = [] if program is None else program.kernels
    if program is None or len(steps) != len(made):
        return None
    sources = list(map(source_of, steps, numbers))
    return program, link_kernels(made, modules, sources, numbers)


def _numbers_as_text(numbers: Numbers | None) -> Any:
    if numbers is None:
        return None
    return dtypes.name_of(numbers.dtype), numbers.tobytes().hex()


def _numbers_of(text: Any) -> Numbers | None:
    if text is None:
        return None
    dtype, digits = text
    return np.frombuffer(bytes.fromhex(digits), np.dtype(dtype))
