"""Outcomes in a file, so that they can be compared with where JAX is not installed.

The inputs are made anew from a case's seed; of the results a few values are kept. A
case that is no longer what it was (its row has changed) is not compared.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from tests.differential.cases import Case
from tests.differential.outcomes import Leaf, Outcome, kept_places, sample
from tests.differential.rows import Row

#: So much of what JAX said is kept: purpose.py looks at it.
MESSAGE = 120
SAMPLE = str(Path(__file__).parent / "sample.npz")


def fingerprint(case: Case) -> int:
    """What tells a case from another of the same number."""
    return zlib.crc32(str(case).encode())


class Record:
    """Outcomes by case."""

    def __init__(self, entries: dict[str, Any], values: Any) -> None:
        self.entries, self.values = entries, values
        self.last: dict[str, int] = {}
        for name in entries:
            title, _, number = name.partition(" ")[0].rpartition("#")
            self.last[title] = max(self.last.get(title, 0), int(number) + 1)

    def holds(self, case: Case) -> bool:
        """Is there an outcome under that number, of whatever case?"""
        return f"{case.id} {case.seed}" in self.entries

    def cases(self, row: Row) -> int:
        """The number after that of the last case of a row."""
        return self.last.get(row.title, 0)

    def get(self, case: Case) -> Outcome | None:
        entry = self.entries.get(f"{case.id} {case.seed}")
        if entry is None or entry[0] != fingerprint(case):
            return None
        _, error, message, structure, start, leaves = entry
        made: list[Leaf] = []
        for dtype, shape, weak in leaves:
            size = int(np.prod(shape))
            places = kept_places(size)
            values = self.values[start : start + len(places)]
            start += len(places)
            if not dtype.startswith("complex"):
                values = values.real
            made.append(Leaf(dtype, tuple(shape), bool(weak), values, places))
        return Outcome(structure, made, error, message)


def save(path: str, outcomes: dict[Case, Outcome]) -> None:
    entries: dict[str, Any] = {}
    values: list[Any] = []
    start = 0
    for case, outcome in outcomes.items():
        kept = sample(outcome)
        heads = [[leaf.dtype, leaf.shape, int(leaf.weak)] for leaf in kept.leaves]
        said = kept.message[:MESSAGE]
        entries[f"{case.id} {case.seed}"] = [
            fingerprint(case), kept.error, said, kept.structure, start, heads,
        ]  # fmt: skip
        for leaf in kept.leaves:
            values.append(np.asarray(leaf.values, np.complex128))
            start += leaf.values.size
    text = np.frombuffer(json.dumps(entries, separators=(",", ":")).encode(), np.uint8)
    with np.errstate(all="ignore"):
        numbers = np.concatenate([np.zeros(0, np.complex128), *values])
    # A reader meanwhile sees the whole of the last record.
    draft = f"{path}.draft"
    with open(draft, "wb") as file:
        np.savez_compressed(file, entries=text, values=numbers)
    os.replace(draft, path)


def load(*paths: str) -> Record:
    """What was recorded; nothing where there is no such file yet."""
    entries: dict[str, Any] = {}
    values: list[Any] = [np.zeros(0, np.complex128)]
    for path in filter(os.path.exists, paths):
        start = sum(len(part) for part in values)
        with np.load(path, allow_pickle=False) as file:
            found = json.loads(file["entries"].tobytes())
            values.append(file["values"])
        for name, (*head, place, leaves) in found.items():
            entries[name] = [*head, place + start, leaves]
    return Record(entries, np.concatenate(values))
