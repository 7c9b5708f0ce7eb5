"""Taps that see padding alone are left out.

    out[i, p] = the sum over c, t of left(i, c, t) · right(c, p + t)    right = 0 around

A tile is a few lines or pixels p. Near the border of an image, or where taps lie far
apart, all that some of them see is padding: of a window along p the others are a range.
Zero times a number that is finite is zero, and adding that changes no sum. But zero
times NaN or an infinity is NaN: so the other operand is looked through first, block by
block, and where it has such a number, nothing is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ftrace.devices.llvm.contraction.find_windows import Group, Window
from ftrace.devices.llvm.ir.writer import Writer, highest, lowest
from ftrace.devices.llvm.schedule.index_facts import Facts
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import load_p
from ftrace.trace.graph import Node

#: The part of the taps that is left out at least, as asking is not free; and columns
#: that are left out for each tap, as the other operand is looked through for them.
_LEAST = 0.06
_LEAST_COLUMNS = 6


@dataclass(frozen=True)
class Bounds:
    """Where an operand is not padding: low <= line·column + tap·number < high.

    Attributes:
      line, tap: greater than zero.
      low, high: None is no bound.
    """

    line: int
    tap: int
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Seen:
    """Which taps of a window see more than padding."""

    window: Window
    bounds: tuple[Bounds, ...]

    def numbers(self, first: int, last: int) -> tuple[int, int]:
        """The taps that columns from `first` to `last` need: one, and one beyond."""
        begin, end = 0, self.window.taps
        for b in self.bounds:
            if b.low is not None:
                begin = max(begin, -((b.line * last - b.low) // b.tap))
            if b.high is not None:
                end = min(end, -((b.line * first - b.high) // b.tap))
        return begin, max(end, begin)

    def range(self, writer: Writer, column: str, finite: str) -> tuple[str, str]:
        """The values of the taps' range that a column needs: the first, and how many.

        Args:
          finite: whether any may be left out.
        """
        taps, whole = self.window.taps, self.window.whole
        begin, count = self.steps(writer, column, column, whole, finite)
        if self.window.turned:
            end = writer.pure(f"add i64 {begin}, {count}", begin, count)
            begin = writer.pure(f"sub i64 {taps}, {end}", end)
        return begin, count

    def columns(self, first: int, last: int) -> tuple[int, int]:
        """The columns that the taps from `first` to `last` see, and one beyond."""
        begin, end = 0, self.window.pixels
        for b in self.bounds:
            if b.low is not None:
                begin = max(begin, -((b.tap * last - b.low) // b.line))
            if b.high is not None:
                end = min(end, -((b.tap * first - b.high) // b.line))
        return begin, max(end, begin)

    def part(
        self, writer: Writer, taps: Sequence[int], start: str, count: str, finite: str
    ) -> tuple[str, str]:
        """The columns of a block that some taps see: the first, and how many.

        Args:
          start, count: where the block begins, and how long it is.
          finite: whether any may be left out.
        """
        bounds = self.columns(min(taps), max(taps))
        begin, end = (writer.pure(f"sub i64 {b}, {start}", start) for b in bounds)
        more = writer.pure(f"sub i64 {count}, 1", count)
        begin = lowest(writer, highest(writer, begin, 0), more)  # a loop runs once
        begin = _chosen(writer, finite, begin, "0")
        end = _chosen(writer, finite, lowest(writer, end, count), count)
        found = writer.pure(f"sub i64 {end}, {begin}", end, begin)
        return begin, highest(writer, found, 1)

    def saves(self, columns: int) -> float:
        """The part of the taps that tiles of so many columns leave out."""
        pixels, taps = self.window.pixels, self.window.taps
        starts = range(0, pixels, columns)
        found = [self.numbers(s, min(s + columns, pixels) - 1) for s in starts]
        return 1 - sum(end - begin for begin, end in found) / (len(starts) * taps)

    def steps(
        self,
        writer: Writer,
        first: str,
        last: str,
        group: Group,
        finite: str,
    ) -> tuple[str, str]:
        """The steps of a group of classes: where they begin, and how many they are.

        Args:
          first, last: columns of a tile.
          finite: whether any may be left out.
        """
        number, classes, steps, stride = group
        begin, end = "0", str(steps)
        for b in self.bounds:
            if b.low is not None:
                tap = _least_number(writer, last, b, b.low)
                step = _quotient(writer, tap, stride, stride - number - classes)
                begin = highest(writer, step, begin)
            if b.high is not None:
                tap = _least_number(writer, first, b, b.high)
                step = _quotient(writer, tap, stride, stride - 1 - number)
                end = lowest(writer, step, end)
        begin = lowest(writer, begin, steps - 1)  # a loop runs once
        begin = _chosen(writer, finite, begin, "0")
        count = writer.pure(f"sub i64 {end}, {begin}", end, begin)
        return begin, _chosen(writer, finite, highest(writer, count, 1), str(steps))


def _least_number(writer: Writer, column: str, b: Bounds, bound: int) -> str:
    """The first tap of a column that is at a bound, or beyond."""
    place = writer.pure(f"mul i64 {column}, {-b.line}", column)
    return _quotient(writer, place, b.tap, bound + b.tap - 1)


def _quotient(writer: Writer, value: str, by: int, plus: int) -> str:
    """(value + plus) / by, or zero where that is negative."""
    total = writer.pure(f"add i64 {value}, {plus}", value) if plus else value
    total = highest(writer, total, 0)
    return writer.pure(f"udiv i64 {total}, {by}", total) if by > 1 else total


def _chosen(writer: Writer, condition: str, a: str, b: str) -> str:
    text = f"select i1 {condition}, i64 {a}, i64 {b}"
    return writer.pure(text, condition, a, b)


def find_seen(node: Node, window: Window, facts: Facts) -> Seen | None:
    """Which taps see an operand, where it is zero beside the image."""
    if node.op is not load_p or len(node.src) < 3:
        return None
    found: list[Bounds] = []
    for condition in facts.conditions(node.src[2]):
        form = condition.form
        if form is None or set(form.terms) != {window.column, window.tap}:
            continue
        line, tap = form.terms[window.column], form.terms[window.tap]
        constant, low, high = form.constant, condition.low, condition.high
        if line < 0:
            line, tap, constant = -line, -tap, -constant
            low, high = _turned(high), _turned(low)
        if window.turned:
            constant, tap = constant + tap * (window.taps - 1), -tap
        if tap < 0:
            continue
        low = None if low is None else low - constant
        high = None if high is None else high - constant
        found.append(Bounds(line, tap, low, high))
    return Seen(window, tuple(found)) if found else None


def _turned(bound: int | None) -> int | None:
    """low <= x is -x < 1 - low, and the other way round."""
    return None if bound is None else 1 - bound


def worth_asking(seen: Seen, columns: int, together: int) -> bool:
    """Do tiles of so many columns leave out enough?

    Args:
      together: columns, along all axes, for which the other operand is looked through.
    """
    part = seen.saves(columns)
    return part >= _LEAST and part * together >= _LEAST_COLUMNS


def find_padding(
    node: Node, windows: Mapping[Window, int], together: int, facts: Facts
) -> tuple[Seen, ...]:
    """Windows with taps that see padding alone, where leaving them out pays.

    Args:
      windows: and how many columns of each a tile has.
      together: columns, along all axes, for which the other operand is looked through.
    """
    found: list[Seen] = []
    for window, columns in windows.items():
        seen = find_seen(node, window, facts)
        if seen is not None and worth_asking(seen, columns, together):
            found.append(seen)
    return tuple(found)
