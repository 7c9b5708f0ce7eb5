"""Whole programs on disk: their steps, and where the code of each kernel is.

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
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.devices.llvm.compiling.made import (
    CompiledKernel,
    Made,
    Modules,
    Numbers,
    linked,
)
from ftrace.lower.program import Program, RunKernel
from ftrace.lower.serialize import program_of, program_text

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
