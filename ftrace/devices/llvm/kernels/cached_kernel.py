"""Kernels and programs whose machine code is there: on disk, and in memory.

What makes code is `compile_kernels.py`. A whole program on disk is its steps, and where
the code of each kernel is:

    file = JSON: [modules, functions], a line; then the text of the program
    modules   = [[name, [function of the library that it calls …]] …]
    functions = [[units, grain, its name, module, numbers] …], one for each kernel step
    numbers   = null | [dtype, bytes in hexadecimal]

A process that finds a file of its graph does not lower it, and looks at no kernel. The
object code stands in files of its own, which programs share; where one of them is gone
the program is a miss.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.compile import Code, cache_key, link, object_cache
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.assembly.serialize import program_of, program_text
from ftrace.lower.program.ir import Program, RunKernel

#: Numbers of a kernel as data: see `lift_constants.py`.
Numbers = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Made:
    """What is kept on disk of a kernel: its function, and where that is.

    Attributes:
      units: what the function can be split into.
      grain: the least number of units worth a thread's while.
      function: its name.
      module: what its module's object code is kept under; a module may hold the
        functions of several kernels.
      calls: functions of the library that the module calls.
      dims: sizes that are known at calls only; the function takes them as a buffer
        of int64 behind the kernel's own. Then `units` may be one of them, and the
        kernel is kept by its text alone.
    """

    units: int
    grain: int
    function: str
    module: str
    calls: tuple[str, ...]
    dims: tuple[Any, ...] = ()

    def pack(self) -> bytes:
        parts = self.units, self.grain, self.function, self.module, *self.calls
        return json.dumps(parts).encode()

    @staticmethod
    def unpack(whole: bytes) -> Made | None:
        """None for what `pack` has not made."""
        try:
            units, grain, function, module, *calls = json.loads(whole)
        except (ValueError, TypeError):
            return None
        names = (function, module, *calls)
        if not (isinstance(units, int) and isinstance(grain, int)):
            return None
        if not all(isinstance(name, str) for name in names):
            return None
        return Made(units, grain, function, module, tuple(calls))


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel as machine code.

    Attributes:
      made: its function.
      code: keeps the machine code in memory.
      address: of the function.
      source: gives the LLVM IR.
      numbers: a buffer behind the kernel's own, if the function takes one; see
        `lift_constants.py`.
      like: one with other numbers, of which this one has the code.
    """

    made: Made
    code: Code
    address: int
    source: Callable[[], str]
    numbers: Numbers | None = None
    like: CompiledKernel | None = None

    @property
    def units(self) -> int:
        return self.made.units

    @property
    def grain(self) -> int:
        return self.made.grain

    @property
    def dims(self) -> tuple[Any, ...]:
        return self.made.dims

    @property
    def text(self) -> str:
        """The LLVM IR; rendered when asked for."""
        return self.source()


class Modules:
    """The object code of modules: what was read or made, by the names it is kept under.

    One is for one use: it would keep all that was ever compiled.
    """

    def __init__(self) -> None:
        self._codes: dict[str, bytes | None] = {}

    def add(self, name: str, code: bytes) -> None:
        """A module that was made now."""
        self._codes[name] = code

    def has(self, name: str) -> bool:
        """Is it there, or on disk?"""
        if name not in self._codes:
            self._codes[name] = object_cache.load("module", *cache_key(name))
        return self._codes[name] is not None

    def code(self, name: str) -> bytes:
        """The object code of one that is there."""
        code = self._codes[name]
        assert code is not None
        return code


def linked(
    made: Sequence[Made],
    modules: Modules,
    sources: Sequence[Callable[[], str]],
    numbers: Iterable[Numbers | None] = repeat(None),
) -> list[CompiledKernel]:
    """Loads the code of kernels, each module once."""
    functions: dict[str, dict[str, None]] = {}
    calls: dict[str, tuple[str, ...]] = {}
    for one in made:
        functions.setdefault(one.module, {})[one.function] = None
        calls[one.module] = one.calls
    codes = {
        module: link(modules.code(module), list(names), _addresses(calls[module]))
        for module, names in functions.items()
    }
    return [
        CompiledKernel(one, code, code.address(one.function), source, own)
        for one, source, own in zip(made, sources, numbers, strict=False)
        for code in (codes[one.module],)
    ]


def _addresses(calls: Sequence[str]) -> dict[str, int]:
    """Where functions of the library are, which few kernels call."""
    if not calls:
        return {}
    from ftrace.devices.llvm.kernels.function_library import addresses

    return addresses(calls)


SourceOf = Callable[[RunKernel], Callable[[], str]]


def packed(program: Program, kernels: Sequence[CompiledKernel]) -> bytes | None:
    """A program and its code as the bytes of a file; None if it has no text.

    Args:
      kernels: the code of `program.kernels`.
    """
    text = program_text(program)
    if text is None or any(kernel.dims for kernel in kernels):
        return None
    modules: dict[str, tuple[str, ...]] = {}
    for kernel in kernels:
        modules[kernel.made.module] = kernel.made.calls
    places = {name: place for place, name in enumerate(modules)}
    functions = [
        [kernel.units, kernel.grain, kernel.made.function,
         places[kernel.made.module], _numbers_as_text(kernel.numbers)]
        for kernel in kernels
    ]  # fmt: skip
    head = json.dumps([list(modules.items()), functions], separators=(",", ":"))
    return f"{head}\n{text}".encode()


def unpacked(
    whole: bytes, source_of: SourceOf
) -> tuple[Program, list[CompiledKernel]] | None:
    """What `packed` has made; None for other bytes, or if code is gone from the disk.

    Args:
      source_of: for a step, what gives the LLVM IR of its kernel.
    """
    head, _, text = whole.decode("utf-8", "replace").partition("\n")
    try:
        modules, functions = json.loads(head)
        made = [_made(modules, *row[:4]) for row in functions]
        numbers = [_numbers_of(row[4]) for row in functions]
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    codes = Modules()
    if not all(map(codes.has, [name for name, _ in modules])):
        return None
    program = program_of(text)
    steps = [] if program is None else program.kernels
    if program is None or len(steps) != len(made):
        return None
    return program, linked(made, codes, list(map(source_of, steps)), numbers)


def _made(modules: Any, units: int, grain: int, function: str, place: int) -> Made:
    name, calls = modules[place]
    return Made(units, grain, function, name, tuple(calls))


def _numbers_as_text(numbers: Numbers | None) -> Any:
    return (
        None
        if numbers is None
        else [dtypes.name_of(numbers.dtype), numbers.tobytes().hex()]
    )


def _numbers_of(text: Any) -> Numbers | None:
    if text is None:
        return None
    dtype, digits = text
    return np.frombuffer(bytes.fromhex(digits), np.dtype(dtype))
