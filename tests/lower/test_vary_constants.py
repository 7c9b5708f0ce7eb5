"""The numbers that `vary_constants` varies: no room is left out."""

from __future__ import annotations

import re
from pathlib import Path

from ftrace.backends import llvm
from ftrace.trace import tiering
from tests.lower.vary_constants import NO_DECISIONS, lowering, numbers

CONSTANT = re.compile(r"^(_?[A-Z][A-Z0-9_]*)(?:: \w+)? = [-\d.]", re.M)


def written_in(path: Path) -> list[str]:
    return CONSTANT.findall(path.read_text(encoding="utf-8"))


def test_the_numbers_of_every_room_are_found() -> None:
    found = {name for name, *_ in numbers()}
    rooms: set[str] = set()
    missing = {f"trace.tiering.{n}" for n in written_in(Path(tiering.__file__))} - found
    for floor, prefix in ((lowering, "lower."), (llvm, "")):
        root = Path(floor.__path__[0])
        for path in root.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            place = prefix + ".".join(parts)
            names = {f"{place}.{name}" for name in written_in(path)}
            rooms |= {place, prefix + parts[0]}
            if NO_DECISIONS.isdisjoint((place, prefix + parts[0])):
                missing |= names - found
    assert not missing
    assert rooms >= NO_DECISIONS
    assert {"costs.fill", "look_ahead", "sort.compiled_from.elements"} <= found
