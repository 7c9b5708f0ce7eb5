"""A failure with as few statements, and as simple values, as will show it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import ftrace as ft
from tests.fuzz.generate import evaluate
from tests.fuzz.program import SAMPLES, Input, Program, dtype_of

#: Takes a program, says whether it still fails in the same way.
Fails = Callable[[Program], bool]


def shrink(
    program: Program,
    fails: Fails,
    seconds: float = 60,
    enough: Callable[[Program], bool] = lambda program: False,
) -> Program:
    """Tries smaller programs until none fails, one is enough, or the time is over."""
    end = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < end and not enough(program):
        progress = False
        for smaller in candidates(program):
            if time.monotonic() > end:
                break
            if _fails(fails, smaller):
                program, progress = smaller, True
                break
    return program


def _fails(fails: Fails, program: Program) -> bool:
    try:
        return fails(program)
    except Exception:  # it is no program any more: a shape that does not fit
        return False


def candidates(program: Program) -> Iterator[Program]:
    """Programs that are smaller by one thing, those first that save most."""
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield replace(program, outputs=(name,)).live()
    yield from _cut(program)
    yield from _skip(program)
    yield from _without_inputs(program)
    yield from _smaller_texts(program)
    yield from _smaller_shapes(program)
    yield from _simpler_values(program)


def _values(program: Program, number: int) -> dict[str, Any]:
    known = {i.name: ft.numpy.asarray(i.sample(number)) for i in program.inputs}
    for statement in program.statements:
        value = evaluate(statement, known)
        if value is None:
            break
        known[statement.name] = value
    return known


def _cut(program: Program) -> Iterator[Program]:
    """A statement becomes an argument that has its value."""
    samples = [_values(program, n) for n in range(SAMPLES)]
    count = len(program.statements)
    order = sorted(range(count - 1), key=lambda k: abs(k - count // 2))
    for k in order:
        name = program.statements[k].name
        if any(name not in known for known in samples):
            continue
        values = tuple(np.asarray(known[name]) for known in samples)
        taken = [int(i.name[1:]) for i in program.inputs]
        fresh = f"x{max(taken, default=-1) + 1}"
        spec = Input(fresh, values[0].shape, values[0].dtype.name, "cut", values=values)
        spec = replace(spec, mapped=any(i.mapped for i in program.inputs))
        statements = (*program.statements[:k], *program.statements[k + 1 :])
        yield replace(
            program,
            inputs=(*program.inputs, spec),
            statements=tuple(s.rename({name: fresh}) for s in statements),
            outputs=tuple(fresh if n == name else n for n in program.outputs),
        ).live()


def _skip(program: Program) -> Iterator[Program]:
    """A statement is left out, and what it reads stands for it."""
    for k, statement in enumerate(program.statements):
        for read in statement.reads:
            rest = (*program.statements[:k], *program.statements[k + 1 :])
            yield replace(
                program,
                statements=tuple(s.rename({statement.name: read}) for s in rest),
                outputs=tuple(
                    read if n == statement.name else n for n in program.outputs
                ),
            ).live()


def _without_inputs(program: Program) -> Iterator[Program]:
    """One argument for two, and arguments that are not mapped."""
    for one in program.inputs:
        for other in program.inputs:
            if one is not other and (one.shape, one.dtype) == (
                other.shape,
                other.dtype,
            ):
                names = {other.name: one.name}
                yield replace(
                    program,
                    statements=tuple(s.rename(names) for s in program.statements),
                    outputs=tuple(names.get(n, n) for n in program.outputs),
                ).live()
        if one.mapped and sum(i.mapped for i in program.inputs) > 1:
            yield _with(program, one, replace(one, mapped=False))


def _with(program: Program, one: Input, other: Input) -> Program:
    inputs = tuple(other if i is one else i for i in program.inputs)
    return replace(program, inputs=inputs)


#: What may stand for a part of a text.
SIMPLER = (
    (r"\bN\((c|x)\)", r"\1"),
    (r", (keepdims|descending|reverse|unroll|mode)=[^,)]*", ""),
    (r"lax\.fori_loop\(\d+, [2-9]", "lax.fori_loop(0, 1"),
    (r"length=[2-9]", "length=1"),
    (r"jnp\.(sin|cos|exp|tanh|abs|flip|square)\(c\)", "c"),
)


def _smaller_texts(program: Program) -> Iterator[Program]:
    for k, statement in enumerate(program.statements):
        for pattern, replacement in SIMPLER:
            for found in re.finditer(pattern, statement.text):
                text = statement.text
                made = found.expand(replacement)
                text = text[: found.start()] + made + text[found.end() :]
                statements = list(program.statements)
                statements[k] = replace(statement, text=text)
                yield replace(program, statements=tuple(statements))


def _explicit(spec: Input) -> tuple[Any, ...]:
    return tuple(spec.sample(n) for n in range(SAMPLES))


def _smaller_shapes(program: Program) -> Iterator[Program]:
    """Half an axis of all arguments that have one of that size, or of one argument."""
    for size in sorted({n for i in program.inputs for n in i.shape if n > 1}):
        for less in sorted({1, size // 2, size - 1}):
            if not 0 < less < size:
                continue
            inputs = tuple(_narrow(i, size, less) for i in program.inputs)
            yield replace(program, inputs=inputs)
    for one in program.inputs:
        for axis, size in enumerate(one.shape):
            for less in sorted({1, size // 2, size - 1} - {0, size}):
                parts = [slice(None)] * len(one.shape)
                parts[axis] = slice(0, less)
                values = tuple(v[tuple(parts)] for v in _explicit(one))
                shape = values[0].shape
                yield _with(program, one, replace(one, shape=shape, values=values))


def _narrow(spec: Input, size: int, less: int) -> Input:
    if size not in spec.shape:
        return spec
    parts = tuple(slice(0, less if n == size else n) for n in spec.shape)
    values = tuple(v[parts] for v in _explicit(spec))
    return replace(spec, shape=values[0].shape, values=values)


def _simpler_values(program: Program) -> Iterator[Program]:
    """Zeros, ones, whole numbers; one element after the other where there are few."""
    for one in program.inputs:
        values, dtype = _explicit(one), dtype_of(one.dtype)
        makes: list[Callable[[Any], Any]] = [
            lambda v: np.zeros(v.shape, v.dtype),
            lambda v: np.ones(v.shape, v.dtype),
        ]
        if dtype.kind in "f":
            makes.append(lambda v: np.round(v))
        for make in makes:
            yield from _replaced(program, one, values, tuple(make(v) for v in values))
        if one.shape and values[0].size <= 8:
            for place in np.ndindex(*one.shape):
                yield from _replaced(
                    program, one, values, tuple(_zeroed(v, place) for v in values)
                )


def _zeroed(array: Any, place: tuple[int, ...]) -> Any:
    array = array.copy()
    array[place] = 0
    return array


def _replaced(
    program: Program, one: Input, old: tuple[Any, ...], new: tuple[Any, ...]
) -> Iterator[Program]:
    if _weight(new) < _weight(old):  # zeros, or ones, are not tried in turn for ever
        yield _with(program, one, replace(one, values=new))


def _weight(values: tuple[Any, ...]) -> tuple[int, ...]:
    """How many numbers are not zero, are not whole, are not one."""
    whole = np.concatenate([np.ravel(v).astype(np.complex128) for v in values])
    return tuple(np.count_nonzero(whole != x) for x in (0, np.round(whole), 1))
