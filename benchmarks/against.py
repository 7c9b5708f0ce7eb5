"""Two runs next to each other: `python -m benchmarks --against FILE`.

Between two runs a machine changes more than most code does. So a figure is divided by
that of its reference, which had its turn in the same rounds: the limit that the row is
held to, or a piece of Python. What is compared are these quotients, of the best rounds:
what else a machine has to do only adds to the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import duration, mean_of, show

#: A row is named where it has changed by more than this.
MUCH = 0.03

Figures = dict[str, Any]


def read(path: Path) -> Figures:
    """Figures that `--save` has written.

    Raises:
      OSError, ValueError: there are none.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not {"machine", "rows"} <= found.keys():
        raise ValueError("these are no figures that `--save` of this version has made")
    return found


def figures_of(figures: Figures) -> dict[str, tuple[float, float]]:
    """(seconds, seconds of the reference) by name."""
    return dict(_figures(figures))


def _figures(figures: Figures) -> Iterator[tuple[str, tuple[float, float]]]:
    for row in figures["rows"]:
        own, limits = row["rounds"].get("ftrace"), list(row["limits"].values())
        if own and limits:
            yield f"{row['family']}/{row['name']}", (min(own), min(limits[0]))
    for program in figures["compile time"]:
        for stage, us in program["microseconds"].items():
            name = f"compile time/{program['program']}, {program['size']}, {stage}"
            if us:
                yield name, (us * 1e-6, program["python"])


def print_comparison(before: Figures, now: Figures) -> None:
    """A table of quotients, above 1 where it was slower before, and what they say."""
    old, new = figures_of(before), figures_of(now)
    ratios: dict[str, float] = {}
    lines: list[list[str]] = []
    for name in new:
        if name not in old:
            continue
        (was, reference), (own, other) = old[name], new[name]
        ratios[name] = was / reference / (own / other)
        cells = duration(was), duration(own), f"{was / own:.2f}", f"{ratios[name]:.2f}×"
        lines.append([name, *cells])
    families = {name.partition("/")[0]: None for name in ratios}
    for family in families:
        found = [x for name, x in ratios.items() if name.startswith(f"{family}/")]
        lines.append([f"mean of {family}", "", "", "", f"{mean_of(found):.2f}×"])
    show(
        "Before / now: above 1 it is faster now",
        ["row", "before", "now", "times", "in turn"],
        lines,
    )
    print(_of_machines(before["machine"], now["machine"]))
    if not ratios:
        print("the two runs have no row in common")
        return
    print(
        f"geometric mean of {len(ratios)} rows, in turn: {mean_of(ratios.values()):.3f}"
    )
    for name, ratio in sorted(ratios.items(), key=lambda item: item[1]):
        if abs(ratio - 1) > MUCH:
            change = f"{1 / ratio - 1:.0%} slower" if ratio < 1 else "faster"
            print(f"beyond {MUCH:.0%}: {name} {ratio:.2f}× ({change})")


def _of_machines(before: Figures, now: Figures) -> str:
    text = ", ".join(f"{key} {value}" for key, value in before.items())
    changed = [key for key in now if before.get(key) != now[key]]
    if not changed:
        return f"both on the same kind of machine: {text}"
    other = ", ".join(f"{key} {now[key]}" for key in changed)
    return f"ANOTHER MACHINE: before {text}; now {other}"
