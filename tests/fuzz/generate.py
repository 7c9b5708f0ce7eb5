"""A whole program from a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import ftrace as ft
from tests.fuzz import arrays, loops, values
from tests.fuzz.draw import COMPLEX, FLOATS, INTS, LIMIT, Draw, Value
from tests.fuzz.program import NAME, Program, Statement, _plain
from tests.fuzz.ways import OURS, setting

Family = Callable[[Draw], "tuple[str, float] | None"]

FAMILIES: dict[Family, int] = {
    values.unary: 5,
    values.binary: 6,
    values.select: 2,
    values.cast: 3,
    values.bits: 1,
    values.complex_parts: 1,
    values.made: 1,
    values.like: 1,
    arrays.movement: 6,
    arrays.reduction: 4,
    arrays.along: 4,
    arrays.gathers: 3,
    arrays.scatters: 3,
    arrays.segments: 1,
    arrays.products: 3,
    arrays.convolution: 1,
    arrays.orders: 1,
    arrays.systems: 1,
    loops.loop: 4,
}
KINDS = ("plain", "plain", "plain", "whole", "whole", "positive", "wide", "special")


def generate(seed: int, peer: bool = False, steps: int = 9) -> Program:
    """The program of a seed; its statements run without an error, one by one."""
    random = Random(seed)
    draw = Draw(random)
    x64 = random.choice((True, True, False) if peer else (True, False, None))
    families, weights = list(FAMILIES), list(FAMILIES.values())
    statements, known = list[Statement](), dict[str, Any]()
    with setting(x64), np.errstate(all="ignore"):
        for _ in range(random.choice((1, 2, 2, 3))):
            draw.values.append(_input(draw))
        length = random.randint(2, steps)
        for _ in range(3 * length):
            if len(statements) == length:
                break
            made = random.choices(families, weights)[0](draw)
            if made is None:
                continue
            for i in draw.inputs:
                known.setdefault(i.name, ft.numpy.asarray(i.sample()))
            statement = Statement(f"v{len(statements)}", *made)
            value = evaluate(statement, known)
            if value is None or value.size > LIMIT or value.ndim > 5:
                continue
            known[statement.name] = value
            statements.append(statement)
            draw.values.append(
                Value(statement.name, tuple(value.shape), np.dtype(value.dtype).name)
            )
    names = [s.name for s in statements] or [draw.inputs[0].name]
    outputs = [
        names[-1],
        *random.sample(names, min(len(names), random.choice((0, 1, 2)))),
    ]
    program = Program(
        tuple(draw.inputs), tuple(statements), tuple(dict.fromkeys(outputs)), x64, seed
    )
    return program.live()


def _input(draw: Draw) -> Value:
    kinds = FLOATS if draw.chance(0.6) else INTS if draw.chance(0.7) else COMPLEX
    dtype = draw.choose(kinds)
    if draw.chance(0.3):
        dtype = "float32"
    if draw.chance(0.07):
        dtype = "bool"
    return draw.input(draw.some_shape(), dtype, kind=draw.choose(KINDS))


def evaluate(statement: Statement, known: dict[str, Any]) -> Any:
    """Its value, or None where it is refused: what refuses is held elsewhere."""
    names = {n: known[n] for n in NAME.findall(statement.text)}
    try:
        value = eval(_plain(statement.text), {**OURS, **names})
    except (ft.errors.FtraceError, NotImplementedError):
        return None
    return ft.numpy.asarray(value)
