"""Windows: which places of an axis each device has, where these are no even parts.

    device i has the places  i * step + start, …, of which there are `size`

What is read of them are the places from `first` to `last` of the array; what stands
elsewhere is anything. A window slides through an operation that reads what is near by:

    x[2:]          of y: (4, 0, 4)      of x: (4, 2, 4)
    pad 1          of y: (4, 0, 4)      of x: (4, -1, 4)
    3 taps         of y: (4, 0, 4)      of x: (4, 0, 6)
    x[::2]         of y: (4, 0, 4)      of x: (8, 0, 7)

An array in even parts is brought into windows by an exchange of edges: pieces of the
parts of other devices, each by a ppermute. Of an axis that is not divided then all
devices want the same places, by steps of 0: who has some gives them to a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p, movement as mv
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.indexing import gather
from ftrace.trace.primitives.sources import const, const_like, iota


class Window(NamedTuple):
    """The places of an axis that each device has; see above."""

    step: int
    start: int
    size: int
    first: int
    last: int

    def starts(self, count: int) -> tuple[int, int]:
        """The least and the greatest place with which a device begins."""
        ends = self.start, self.start + (count - 1) * self.step
        return min(ends), max(ends)


def even(n: int, count: int, grain: int = 1) -> Window:
    """Parts of one size, of which the last one may have less to hold.

    Args:
      grain: what divides their size, where the axis does not divide evenly.
    """
    size = -(-n // count)
    size = -(-size // grain) * grain if n % count else size
    return Window(size, 0, size, 0, n)


def is_even(window: Window, n: int, count: int) -> bool:
    """Are the parts those of an axis that divides evenly?"""
    part = n // count
    return (
        n % count == 0
        and window[1:3] == (0, part)
        and (count == 1 or window.step == part)
    )


def join_near(
    wants: Iterable[tuple[Window, ...]],
) -> list[tuple[Window, ...]]:
    """Windows of several axes, as few as need be so that nothing between is read."""
    found: list[tuple[Window, ...]] = []
    for windows in wants:
        new = windows
        for known in [*found]:
            wide = tuple([hull(pair) for pair in zip(known, new, strict=True)])
            if _volume(wide) <= _volume(known) + _volume(new):
                found.remove(known)
                new = wide
        found.append(new)
    return found


def has(wide: Sequence[Window], windows: Sequence[Window]) -> bool:
    """Are these windows in wider ones?"""
    rows = zip(wide, windows, strict=True)
    return all(hull([w, window])[:3] == w[:3] for w, window in rows)


def _volume(windows: Iterable[Window]) -> int:
    return prod([window.size for window in windows])


def hull(windows: Sequence[Window]) -> Window:
    """One that has what several of one step have."""
    start = min([w.start for w in windows])
    end = max([w.start + w.size for w in windows])
    return Window(
        windows[0].step, start, end - start,
        min([w.first for w in windows]), max([w.last for w in windows]),
    )  # fmt: skip


class Slide(NamedTuple):
    """Which places of an operand an operation reads along an axis.

    Place k of the result is of the places `k * step + start` to `… + reach` of the
    operand; `spread`: place k of the operand goes to these places of the result, and
    others are zero.
    """

    step: int
    start: int = 0
    reach: int = 0
    spread: bool = False

    @property
    def grain(self) -> int:
        """What divides the parts of the result, so that the operand has parts."""
        return self.step if self.spread else 1

    def into(self, window: Window, n: int) -> Window | None:
        """The window of an operand of size n, for one of the result, if it is one."""
        c, a, w, first, last = window
        s, start, reach = self.step, self.start, self.reach
        if self.spread:
            low, high = -((start + reach - a) // s), (a + w - 1 - start) // s
            if c % s or high < low:
                return None
            first, last = -((start + reach - first) // s), (last - 1 - start) // s + 1
            found = Window(c // s, low, high - low + 1, first, last)
        else:
            ends = a, a + w - 1
            low, high = sorted([k * s + start for k in ends])
            reads = sorted([k * s + start for k in (first, last - 1)])
            size = high - low + reach + 1
            found = Window(c * s, low, size, reads[0], reads[1] + reach + 1)
        return found._replace(first=max(found.first, 0), last=min(found.last, n))

    def lead(self, window: Window, operand: Window) -> int:
        """Of what is spread: how far in the window the operand's first place comes."""
        return operand.start * self.step + self.start - window.start


class Piece(NamedTuple):
    """A piece of the part of another device.

    Attributes:
      by, scale: device i has it of device `i * scale + by`.
      start, stop: the places, within the part of that one.
      receivers: the devices that read something of it.
    """

    by: int
    scale: int
    start: int
    stop: int
    receivers: tuple[int, ...]

    @property
    def is_own(self) -> bool:
        """Does nobody receive it from another device?"""
        return all(i * self.scale + self.by == i for i in self.receivers)


class Edges(NamedTuple):
    """How the even parts of an axis become windows.

    Attributes:
      pieces: which are put together, in order.
      flipped: device i then gives what it has to device count - 1 - i.
      offset, drift: device i takes the places from `offset + i * drift` on.
      size: so many of them.
    """

    pieces: tuple[Piece, ...]
    flipped: bool
    offset: int
    drift: int
    size: int

    @property
    def received(self) -> int:
        """How many places a device receives."""
        return self.size * self.flipped + sum([
            piece.stop - piece.start for piece in self.pieces if not piece.is_own
        ])  # fmt: skip


def edges(window: Window, n: int, count: int, axes: int = 1) -> Edges | None:
    """The exchange for an axis of size n; None where a gather moves no more.

    Args:
      axes: so many axes of the mesh divide it.
    """
    part, step, start = n // count, window.step, window.start
    if n % count:
        return None
    if step < 0:  # as seen from the last device
        step, start = -step, start + (count - 1) * step
    # Parts that become larger ones, as of what is concatenated, stay what they are.
    scale = step // part if axes == 1 and step and step % part == 0 else 1
    drift = step - scale * part
    low = start + min(0, drift * (count - 1))
    high = start + max(0, drift * (count - 1)) + window.size
    if high - low > n + part:
        return None
    pieces: list[Piece] = []
    for by in range(low // part, (high - 1) // part + 1):
        begin, end = max(low, by * part), min(high, (by + 1) * part)
        receivers = [
            i
            for i in range(count)
            if 0 <= i * scale + by < count
            and max(i * scale * part + begin, i * step + start, window.first)
            < min(i * scale * part + end, i * step + start + window.size, window.last)
        ]
        ends = begin - by * part, end - by * part
        pieces.append(Piece(by, scale, *ends, tuple(receivers)))
    made = Edges(tuple(pieces), window.step < 0, start - low, drift, window.size)
    # A piece of a larger part has few receivers: of as many bytes most are not sent.
    return made if made.received < n - part + (scale > 1) else None


# Values.


def join(parts: Sequence[Node], axis: int) -> Node:
    """Values after each other along an axis."""
    joined = parts[-1]
    for x in reversed(parts[:-1]):
        n, rest = x.shape[axis], joined.shape[axis]
        pads = [[(0, 0, 0)] * x.ndim for _ in range(2)]
        pads[0][axis], pads[1][axis] = (0, rest, 0), (n, 0, 0)
        one, other = mv.pad(x, tuple(pads[0])), mv.pad(joined, tuple(pads[1]))
        places = iota_along(one, axis)
        joined = p.select(p.lt(places, const_like(places, n)), one, other)
    return joined


def iota_along(x: Node, axis: int, begin: Node | None = None) -> Node:
    """The place of each element along an axis, of which the first is `begin`."""
    places = iota(dtypes.int32, x.shape, axis)
    return places if begin is None else p.add(places, broadcast_leading(begin, x.shape))


def take(x: Node, axis: int, start: Node, size: int) -> Node:
    """So many elements along an axis, from a place on that each device knows."""
    index = iota_along(const(0, dtypes.int32, (size,)), 0, start)
    return mv.move_axis(gather(x, [index], (axis,)), 0, axis)


def window_of(
    x: Node, axis: int, number: Node | None, window: Window, count: int
) -> Node:
    """A device's window of an axis that all have; zeros outside of it."""
    if number is None:
        return mv.shrink_axis(x, axis, window.start, window.start + window.size)
    low, high = window.starts(count)
    before, after = max(0, -low), max(0, high + window.size - x.shape[axis])
    pads = [(0, 0, 0)] * x.ndim
    pads[axis] = (before, after, 0)
    start = affine(number, window.step, window.start + before)
    return take(mv.pad(x, tuple(pads)), axis, start, window.size)


def affine(number: Node, by: int, offset: int) -> Node:
    """`number * by + offset`."""
    scaled = p.mul(number, const_like(number, by))
    return p.add(scaled, const_like(number, offset)) if offset else scaled


def mask(x: Node, axis: int, begin: Node, n: int, fill: Node) -> Node:
    """What stands beyond an axis of size n as `fill`."""
    places = iota_along(x, axis, begin)
    inside = p.bit_and(
        p.ge(places, const_like(places, 0)), p.lt(places, const_like(places, n))
    )
    return p.select(inside, x, fill)


def cut(x: Node, axis: int, have: Window, want: Window) -> Node:
    """A window of a wider one."""
    start = want.start - have.start
    return mv.shrink_axis(x, axis, start, start + want.size)
