"""What a device tells others: the steps from one spec to another, and edges.

A step has an entry in the ledger, with the line of the user that needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ftrace import dtypes
from ftrace.errors import Origin
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p, movement as mv, reduction as red
from ftrace.trace.primitives.broadcast import broadcast_leading
from ftrace.trace.primitives.indexing import gather, read_back
from ftrace.trace.primitives.reduction import NamedAxis
from ftrace.trace.primitives.sources import const, const_like, variable, zeros_like
from ftrace.transforms.partition import specs as sp, windows

#: Of variables for the place of a device along the axes of the mesh.
_RANK = ShapedArray.of((), dtypes.int32)


@dataclass(frozen=True)
class Collective:
    """A collective of a device's program.

    Attributes:
      kind: its name.
      axis: that of the mesh along which it is.
      aval: what the device gives.
      nbytes: what the device receives, each time.
      times: how often, in a loop of known length.
      operation: that which needs it.
      origin: the user's line of that.
    """

    kind: str
    axis: Any
    aval: ShapedArray
    nbytes: int
    times: int
    operation: str
    origin: Origin | None

    def __str__(self) -> str:
        times = f" x {self.times}" if self.times > 1 else ""
        return (
            f"{self.kind} over {self.axis!r} of {self.aval!r} for {self.operation}: "
            f"{self.nbytes} bytes{times}"
        )


class Cause(NamedTuple):
    """Why something is sent.

    Attributes:
      node: the operation that needs it.
      times: how often it runs.
    """

    node: Node
    times: int = 1


@dataclass
class MeshView:
    """The mesh as the program of a device sees it.

    Attributes:
      sizes: of the axes.
      ranks: for each axis the place of the device along it.
      ledger: the collectives so far.
    """

    sizes: sp.Sizes
    ranks: Mapping[Any, Node]
    ledger: list[Collective] = field(default_factory=list[Collective])

    @staticmethod
    def of(sizes: sp.Sizes) -> MeshView:
        names = enumerate(sizes)
        return MeshView(sizes, {n: variable(_RANK, "rank", i) for i, n in names})

    def begin(self, names: sp.Names, window: windows.Window) -> Node:
        """Where the window of the device begins."""
        number = self.number(names)
        if number is None:
            return const(window.start, _RANK.dtype)
        return windows.affine(number, window.step, window.start)

    def number(self, names: sp.Names) -> Node | None:
        """The place along several axes, of which the first counts slowest."""
        found: Node | None = None
        for name in names:
            place = self.ranks[name]
            if found is not None:
                n = const_like(place, self.sizes[name])
                place = p.add(p.mul(found, n), place)
            found = place
        return found

    def send(self, step: sp.Move, x: Node, cause: Cause, *more: Node) -> Node:
        """A collective along an axis of the mesh, with its entry."""
        nbytes = sp.local_bytes(x.aval, ((),) * x.ndim, self.sizes)
        nbytes = sp.bytes_received([step], nbytes, self.sizes)
        node, times = cause
        made = Collective(
            step.kind, step.name, x.aval, nbytes, times, node.op.name, node.origin
        )
        self.ledger.append(made)
        along = NamedAxis(step.name, self.sizes[step.name])
        op, place = _COLLECTIVES[step.kind], self.ranks[step.name]
        return op.results(x, place, *more, arg=along)[0]

    def move(self, x: Node, step: sp.Move, cause: Cause) -> Node:
        """A step from one spec to another, of a local value."""
        count = self.sizes[step.name]
        if step.kind == "slice":
            place = self.ranks[step.name]
            return gather(_split(x, step.axis, count), [place], (step.axis,))
        if step.kind == "psum_scatter":
            x = mv.move_axis(_split(x, step.axis, count), step.axis, 0)
        elif step.kind == "all_to_all":
            x = mv.move_axis(_split(x, step.to, count), step.to, 0)
        made = self.send(step, x, cause)
        return _join(made, step.axis) if step.kind.startswith("all") else made

    def gather(self, x: Node, names: sp.Names, cause: Cause) -> Node:
        """What all have along axes of the mesh, along a new leading axis."""
        rows = x
        for name in reversed(names):
            rows = self.send(sp.Move("all_gather", name), rows, cause)
        return mv.reshape(rows, (sp.shards(names, self.sizes), *x.shape))

    def exchange(
        self, x: Node, axis: int, names: sp.Names, window: windows.Window, cause: Cause
    ) -> Node:
        """The windows along an axis that is in even parts: with edges of others."""
        count = sp.shards(names, self.sizes)
        found = windows.edges(window, x.shape[axis] * count, count, len(names))
        assert found is not None
        pieces: list[Node] = []
        for piece in found.pieces:
            local = mv.shrink_axis(x, axis, piece.start, piece.stop)
            pieces.append(self._receive(local, names, piece, cause))
        made = windows.join(pieces, axis)
        if found.drift:
            number = self.number(names)
            assert number is not None
            start = windows.affine(number, found.drift, found.offset)
            made = windows.take(made, axis, start, found.size)
        for name in names if found.flipped else ():
            place, n = self.ranks[name], self.sizes[name]
            mirrored = windows.affine(place, -1, n - 1)
            made = self.send(sp.Move("ppermute", name), made, cause, mirrored, mirrored)
        return made

    def _receive(
        self, x: Node, names: sp.Names, piece: windows.Piece, cause: Cause
    ) -> Node:
        """What the device has of a piece; zeros where it has none."""
        if not piece.receivers:
            return zeros_like(x)
        few = min(piece.receivers), max(piece.receivers) + 1
        if piece.scale == 1:
            return self._shift(x, names, piece.by, few, cause) if piece.by else x
        if piece.is_own:
            return _choose(_within(self.ranks[names[0]], *few), x, zeros_like(x))
        return self._send_few(x, names[0], piece.by, few, cause, piece.scale)

    def give(self, x: Node, axis: int, names: sp.Names, window: windows.Window) -> Node:
        """Of the places of a window what the device has of them, and zeros."""
        number, part = self.number(names), x.shape[axis]
        assert number is not None
        start = windows.affine(number, -part, window.start)
        places = windows.iota_along(const(0, _RANK.dtype, (window.size,)), 0, start)
        return mv.move_axis(read_back(x, [places], (axis,)), 0, axis)

    def _shift(
        self, x: Node, names: sp.Names, by: int, few: tuple[int, int], cause: Cause
    ) -> Node:
        """What the device has that is so many further on; zeros beyond the last.

        Args:
          few: the first who receives, and the first who does not any more.
        """
        *major, name = names
        n, place = self.sizes[name], self.ranks[name]
        if not major:
            return self._send_few(x, name, by, few, cause) if by else x
        more, near = divmod(by, n)
        outer = tuple(major)
        everyone = 0, sp.shards(outer, self.sizes)
        if not near:
            return self._shift(x, outer, more, everyone, cause)
        # A ring along the last axis; who comes around it takes from the next row.
        rows = [windows.affine(place, 1, shift) for shift in (near, n - near)]
        tables = [
            _choose(_within(row, 0, n), row, windows.affine(row, 1, -n)) for row in rows
        ]
        x = self.send(sp.Move("ppermute", name), x, cause, *tables)
        low, high = [
            self._shift(x, outer, k, everyone, cause) for k in (more, more + 1)
        ]
        return _choose(_within(place, 0, n - near), low, high)

    def _send_few(
        self, x: Node, name: Any, by: int, few: tuple[int, int], cause: Cause,
        scale: int = 1,
    ) -> Node:  # fmt: skip
        """Of device `i * scale + by` for those i from the first to the last of few."""
        place, n = self.ranks[name], self.sizes[name]
        if scale == 1:
            few = max(few[0], -by), min(few[1], n - by)
        none, factor = const_like(place, -1), const_like(place, scale)
        source, ahead = windows.affine(place, scale, by), windows.affine(place, 1, -by)
        target = p.div(ahead, factor) if scale > 1 else ahead
        sends = _within(target, *few)
        if scale > 1:
            sends = p.bit_and(sends, p.eq(p.mul(target, factor), ahead))
        source = p.select(_within(place, *few), source, none)
        target = p.select(sends, target, none)
        return self.send(sp.Move("ppermute", name), x, cause, source, target)


def _within(x: Node, first: int, last: int) -> Node:
    return p.bit_and(p.ge(x, const_like(x, first)), p.lt(x, const_like(x, last)))


def _choose(test: Node, x: Node, y: Node) -> Node:
    """`x` where a scalar is true, else `y`."""
    return p.select(broadcast_leading(test, x.shape), x, y)


def _split(x: Node, axis: int, count: int) -> Node:
    """The outer part of an axis as one of its own."""
    return mv.reshape(x, mv.split_shape(x.shape, axis, count))


def _join(rows: Node, axis: int) -> Node:
    """A leading axis as the outer part of another one."""
    x = mv.move_axis(rows, 0, axis)
    return mv.reshape(x, mv.merge_shape(x.shape, axis))


_COLLECTIVES = {
    op.name: op
    for op in (
        red.psum_p, red.pmax_p, red.pmin_p, red.all_gather_p, red.psum_scatter_p,
        red.all_to_all_p, red.ppermute_p,
    )
}  # fmt: skip
