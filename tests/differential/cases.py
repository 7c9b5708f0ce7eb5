"""Cases: a row, and a level of each of its factors.

The factors are the mode, the setting, the shape, how the arguments' shapes fit, what
numbers they hold, what tangents are, which two numbers stand beside each other, and the
level of each argument. A row's cases are
chosen one after the other, each from a few candidates as the one with the most pairs
of levels that no earlier case had: every pair is met early, and case `n` of a row
depends on the seed and on `n` alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from tests.differential.kinds import (
    ABSENT,
    BASES,
    COMPLEX,
    DATA,
    FITS,
    FLOATS,
    LIKE,
    SHAPES,
    Choice,
    Given,
    Numbers,
    given,
)
from tests.differential.rows import Row

#: How a case is called: modes.py. What users do most comes most often.
MODES = (
    "eager",
    "eager",
    "eager",
    "jit",
    "jit",
    "vmap",
    "grad",
    "jvp",
    "vjp",
    "linearize",
    "jacfwd",
    "jit_vmap_grad",
)
BATCHED = ("vmap", "jit_vmap_grad")
DERIVED = ("grad", "jvp", "vjp", "linearize", "jacfwd", "jit_vmap_grad")
#: How the levels of arguments end by which one can differentiate.
INEXACT = (" float", " complex", *FLOATS, *COMPLEX)
#: ftrace's switch enable_x64: False, True, None.
SETTINGS = ("narrow", "wide", "default", "default")
#: What a tangent or a cotangent is: an array of the dtype, a Python number, an int.
TANGENTS = ("array", "python", "python", "integer")
#: Numbers that are seldom met by chance and often by users: Python's beside arrays of
#: 64 bits, the one before the other; in most cases each argument is drawn for itself.
BESIDE = (
    *((),) * 20,
    ("array float64", "python float"), ("python float", "array float64"),
    ("array float64", "python int"), ("numpy float64", "python float"),
    ("array float64", "weak float"), ("array int64", "python int"),
    ("python int", "array int64"), ("array int64", "python float"),
    ("array complex128", "python float"), ("python complex", "array float64"),
)  # fmt: skip
#: What a case has beside the levels of its arguments.
FACTORS = 7
CANDIDATES = 8


@dataclass(eq=False)
class Case:
    """One call of one function."""

    row: Row
    number: int
    seed: int
    factors: tuple[Any, ...]

    @property
    def id(self) -> str:
        return f"{self.row.title}#{self.number}"

    mode = property(lambda self: self.factors[0])
    setting = property(lambda self: self.factors[1])
    base = property(lambda self: self.factors[2])
    fit = property(lambda self: self.factors[3])
    data = property(lambda self: self.factors[4])
    tangents = property(lambda self: self.factors[5])
    levels = property(lambda self: self.factors[FACTORS:])

    def arguments(self) -> list[tuple[str | None, Given]]:
        """What is passed, with the keyword where there is one."""
        made: list[tuple[str | None, Given]] = []
        places, before = 0, ""
        for number, (argument, level) in enumerate(
            zip(self.row.arguments, self.levels, strict=True)
        ):
            if isinstance(level, str) and level == ABSENT:
                if argument.keyword is None:
                    break  # what stands behind it cannot be given by position
                continue
            if isinstance(level, str) and level == LIKE:
                level = before
            shape: tuple[int, ...] = ()
            if not isinstance(argument.kind, Choice):
                before = level
                shape = SHAPES[argument.kind.shape](self.base, self.fit, places)
                places += 1
                if self.mode in BATCHED and level.split()[0] in (
                    "array",
                    "numpy",
                    "weak",
                ):
                    shape = (2, *shape)
            seed = [self.seed, zlib.crc32(self.row.title.encode()), self.number, number]
            made.append(
                (argument.keyword, given(argument.kind, level, shape, self.data, seed))
            )
        return made

    @cached_property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of its arguments. Weak arrays are as exact as float32."""
        given = [value for _, value in self.arguments() if value.traced]
        weak = any(v.dtype in ("float", "complex") and v.form == "weak" for v in given)
        found = [value.dtype for value in given]
        return (*found, "float32" if weak and self.setting == "default" else "")

    @cached_property
    def kept(self) -> set[str]:
        """The dtypes that its arrays have, and no Python number and no NumPy scalar."""
        return {v.dtype for _, v in self.arguments() if v.form in ("array", "numpy")}

    def __str__(self) -> str:
        shown = ", ".join(
            f"{keyword + '=' if keyword else ''}"
            + (
                repr(v.data)
                if v.form == "static"
                else f"{v.form} {v.dtype}{list(v.data.shape)}"
            )
            for keyword, v in self.arguments()
        )
        tangents = (
            f" {self.tangents}" if self.mode in ("jvp", "vjp", "linearize") else ""
        )
        return f"{self.id} {self.mode}{tangents} {self.setting} {self.data}: ({shown})"


def _factors(row: Row) -> list[tuple[Any, ...]]:
    modes = tuple(m for m in MODES if row.modes is None or m in row.modes)
    small = row.properties.get("small")
    bases = tuple(b for b in BASES if not small or np.prod(b) <= float(small))
    return [
        modes,
        SETTINGS[:3] if "switched" in row.properties else SETTINGS,
        bases,
        FITS,
        DATA,
        TANGENTS,
        tuple(b for b in BESIDE if not b or _places(row, b)),
        *(a.levels for a in row.arguments),
    ]


def cases_of(row: Row, seed: int) -> Iterator[Case]:
    """The cases of a row, without end."""
    factors = _factors(row)
    rng = np.random.default_rng([seed, zlib.crc32(row.title.encode())])
    seen: set[tuple[int, int, int, int]] = set()
    number = 0
    while True:
        drawn = [
            [int(rng.integers(len(f))) for f in factors] for _ in range(CANDIDATES)
        ]
        if number % 6 != 5:
            sound = [x for x in drawn if _sound(_chosen(row, factors, x))]
            drawn = sound or drawn
        chosen = max(drawn, key=lambda levels: len(_pairs(levels) - seen))
        seen |= _pairs(chosen)
        yield Case(row, number, seed, _chosen(row, factors, chosen))
        number += 1


def _places(row: Row, beside: tuple[str, ...]) -> list[int]:
    """The arguments of a row that can be of two kinds in turn."""
    found: list[int] = []
    for place, argument in enumerate(row.arguments):
        number = isinstance(argument.kind, Numbers) and argument.kind.domain != "index"
        if beside and number and beside[len(found) % 2] in argument.levels:
            found.append(place)
    return found if len(found) > 1 else []


def _chosen(
    row: Row, factors: list[tuple[Any, ...]], levels: list[int]
) -> tuple[Any, ...]:
    chosen = [f[i] for f, i in zip(factors, levels, strict=True)]
    beside = chosen[FACTORS - 1]
    for turn, place in enumerate(_places(row, beside)):
        chosen[FACTORS + place] = beside[turn % 2]
    return tuple(chosen)


def _sound(factors: tuple[Any, ...]) -> bool:
    """Is it no sure error? Errors are a sixth of the cases."""
    mode, _, _, fit, _, tangents, _, *levels = factors
    if fit == "bad" or any(isinstance(x, int) and x in (5, -4) for x in levels):
        return False
    if mode not in DERIVED:
        return True
    inexact = [x for x in levels if isinstance(x, str) and x.endswith(INEXACT)]
    return bool(inexact) and tangents != "integer"


def _pairs(levels: list[int]) -> set[tuple[int, int, int, int]]:
    return {
        (i, levels[i], j, levels[j]) for i, j in combinations(range(len(levels)), 2)
    }


def shares(rows: list[Row], cases: int) -> dict[str, int]:
    """How many cases each row gets of so many: by how much it has to choose from."""
    weights = {row.title: sum(len(f) for f in _factors(row)) ** 0.5 for row in rows}
    total = sum(weights.values())
    return {name: max(1, round(cases * w / total)) for name, w in weights.items()}
