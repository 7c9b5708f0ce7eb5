"""Samples of a product of axes: every value of each axis, without every combination.

A law that is asked of cases in several layouts and dtypes has no more to say in each of
the combinations than in a few of them, and each costs a compilation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from types import MappingProxyType
from typing import Any

import pytest

Row = tuple[Any, ...]

NONE: Mapping[Any, Any] = MappingProxyType({})

#: Axes that are parameters of fixtures of `conftest.py`.
FIXTURES = ("device", "mode", "calling")


def covering(
    strength: int,
    /,
    joint: Mapping[tuple[str, ...], Sequence[Row]] = NONE,
    **axes: Sequence[Any],
) -> pytest.MarkDecorator:
    """`parametrize` by rows that have all combinations of any `strength` axes.

    Strength 1 has each value of each axis, 2 each pair of values of two axes, as in
    pairwise testing (Cohen et al., The AETG system, 1997); the number of axes is the
    whole product. The rows are the same in every run.

    Args:
      joint: axes of several arguments at once, by the names of these.
    """
    names = [*joint, *((name,) for name in axes)]
    values: list[Sequence[Row]] = [
        *joint.values(),
        *([(x,) for x in axis] for axis in axes.values()),
    ]
    rows = [
        [x for axis, n in zip(values, row, strict=True) for x in axis[n]]
        for row in covering_rows([len(axis) for axis in values], strength)
    ]
    flat = [name for group in names for name in group]
    return pytest.mark.parametrize(
        flat,
        rows,
        ids=["-".join(map(_name, row)) for row in rows],
        indirect=[name for name in flat if name in FIXTURES],
    )


def covering_rows(sizes: Sequence[int], strength: int) -> list[Row]:
    """Positions along axes: each row has one for each of them."""
    if strength == 1 and min(sizes, default=0):
        return list(zip(*_diagonals(sizes), strict=True))
    missing = _combinations(sizes, strength)
    used: Counter[Row] = Counter()
    every = [(row, _parts(row, strength)) for row in product(*map(range, sizes))]
    rows: list[Row] = []
    while missing:
        # The one that has most of what is missing, and of these the least used values.
        row, parts = max(
            every,
            key=lambda each: (
                len(missing & each[1]),
                -sum(used[value] for value in enumerate(each[0])),
            ),
        )
        missing -= parts
        used.update(enumerate(row))
        rows.append(row)
    return rows


def _diagonals(sizes: Sequence[int]) -> list[list[int]]:
    """As many positions along each axis as the longest one has.

    Each axis moves on by one from row to row, and by one more when all longer ones but
    the first have been through: of sizes 7, 2, 2 rows are 000, 111, 201, 310, 400, ….
    """
    found: dict[int, list[int]] = {}
    rows, steps = range(max(sizes)), [1]
    for axis in sorted(range(len(sizes)), key=lambda k: -sizes[k]):
        found[axis] = [sum(n // s for s in steps) % sizes[axis] for n in rows]
        if len(found) > 1:
            steps.append(steps[-1] * sizes[axis])
    return [found[axis] for axis in range(len(sizes))]


def _combinations(sizes: Sequence[int], strength: int) -> set[Row]:
    """Each combination of values of so many axes, as pairs of axis and value."""
    along = [[(k, n) for n in range(size)] for k, size in enumerate(sizes)]
    strength = min(strength, len(sizes))
    return {row for axes in combinations(along, strength) for row in product(*axes)}


def _parts(row: Row, strength: int) -> set[Row]:
    return set(combinations(enumerate(row), min(strength, len(row))))


def _name(value: Any) -> str:
    for attribute in ("__name__", "name"):
        if name := getattr(value, attribute, None):
            return str(name)
    return str(value)
