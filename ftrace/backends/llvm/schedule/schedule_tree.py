"""How a kernel runs: a tree of statements.

    for units of i1 by 512, i0 by 16:               what threads share
        clear sums
        for each r2 by 256:
            once for all i0 by 16:
                fill right[r2][i1]                  any expression; or transposed
            sums[i0][i1] += right · left            in tiles of registers
        out <- f(sums[i0][i1])

    for units of i0 by 8:                           loops as the kernel has them
        for each i0:
            for each i1 by 4 vectors of 16:
                buffer0 <- …

A strategy gives such trees of a kernel and a processor, or none. Printed it is that
diagram; `emit/schedule_emitter.py` carries it out. How ranges are cut, and what stands
in memory, says `layout.py`; how loops run in a block, `loop_tiling.py`. Blocks have
fixed sizes: results do not depend on how units are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import indent
from typing import Any

from ftrace.backends.llvm.schedule import layout, loop_tiling as tiling
from ftrace.backends.llvm.schedule.layout import Cut, Image, Memory, Panel
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lower.kernel import loop_tree
from ftrace.lower.kernel.ir import Kernel, Store
from ftrace.trace.graph import Node
from ftrace.trace.primitives.reduction import identity_of


def _lines(body: Iterable[object]) -> str:
    return "\n".join(filter(None, map(str, body)))


def _with_body(head: str, body: Iterable[object]) -> str:
    return _lines([f"{head}:", indent(_lines(body), "    ")])


def _names(images: Sequence[Image]) -> str:
    names = " + ".join(image.name for image in images)
    return f"({names})" if len(images) > 1 else names


def _ahead_text(prefetch: Sequence[Node], rows: int = 0) -> str:
    return f", {f'{rows} rows' if rows else 'a square'} ahead" if prefetch else ""


def _sum_text(into: Sequence[Panel], adds: bool, value: str, tile: str) -> str:
    if not into:
        return f"out <- f({value})    {tile}"
    sums = ", ".join(map(str, into))
    return f"{sums} {'+=' if adds else '<-'} {value}    {tile}"


@dataclass(frozen=True, eq=False)
class ForEach:
    """For each block of cuts; the outermost comes first."""

    blocks: tuple[layout.Blocked, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        return _with_body(f"for each {layout.names_of(self.blocks, ', ')}", self.body)


@dataclass(frozen=True, eq=False)
class Once:
    """What units share that differ in some places alone: the first of them makes it."""

    sharing: tuple[Node | Cut, ...]
    body: tuple[Statement, ...]

    def __str__(self) -> str:
        places = layout.names_of(self.sharing, ", ")
        return _with_body(f"once for all {places}", self.body)


@dataclass(frozen=True, eq=False)
class Clear:
    """Sums that more is added to begin at what changes nothing."""

    panel: Panel

    @property
    def value(self) -> Any:
        return identity_of(str(self.panel.node.arg), self.panel.node.dtype)

    def __str__(self) -> str:
        return f"clear {self.panel.name}"


@dataclass(frozen=True, eq=False)
class Fill:
    """Evaluates an operand, once for each place that it has in a block.

    Attributes:
      steps: how the last ranges of a panel run, the innermost first: a vector, and what
        is unrolled around it where squares of registers are transposed.
      prefetch: loads that are asked for before they are needed.
      ahead: by so many rows; 0: by a square.
    """

    panel: Memory
    steps: dict[Node, tiling.RangeTiling]
    prefetch: Sequence[Node] = ()
    ahead: int = 0

    @property
    def transposed(self) -> bool:
        return len(self.steps) > 1

    def __str__(self) -> str:
        mark = ", transposed" if self.transposed else ""
        return f"fill {self.panel}{mark}{_ahead_text(self.prefetch, self.ahead)}"


class TiledCut(NamedTuple):
    """How tiles run over a block.

    Attributes:
      flat: all ranges of the block are one in the tiles, in whole vectors.
    """

    cut: Cut
    steps: tiling.RangeTiling
    flat: bool = False

    @property
    def length(self) -> int:
        """Positions of the tiles."""
        lanes = self.steps.lanes if self.flat else 0
        return layout.whole_vectors(self.cut, max(lanes, 1))


@dataclass(frozen=True, eq=False)
class Accumulate:
    """Adds up sums of a block, in tiles of registers.

    Attributes:
      totals: the sums.
      operands: what stands in panels.
      images: what windows see of an operand, each with some of the taps.
      rows, columns: how tiles run; without rows the sums depend on columns alone.
      depth: what is summed over.
      into: where sums are put; results go from registers to where they belong if it is
        nowhere.
      finished: other sums that results need.
      along: how the last range that is summed over runs, if vectors run along it.
      prefetch: operands are asked for so many terms ahead.
      taps: taps, by number, that a tile has for each of its rows, where taps are rows.
    """

    totals: tuple[Node, ...]
    operands: tuple[Panel, ...]
    rows: TiledCut | None
    columns: TiledCut
    depth: Cut
    into: tuple[Panel, ...] = ()
    finished: tuple[Panel, ...] = ()
    along: tiling.RangeTiling | None = None
    prefetch: int = 0
    images: tuple[Image, ...] = ()
    taps: tuple[range, ...] = ()

    def __str__(self) -> str:
        tile = str(self.columns.steps)
        if self.along is not None:
            last = layout.name_of(self.depth.within[-1])
            tile += f" columns, {last} in vectors of {self.along.lanes}"
        tile = f"{len(self.taps[0])} taps × {tile}" if self.taps else tile
        tile = tile if self.rows is None else f"{self.rows.steps} rows × {tile}"
        tile += f", {self.prefetch} terms ahead" if self.prefetch else ""
        names = [p.name for p in self.operands]
        if self.images:
            names = [_names(self.images), *(names or ["…"])]
        value = " · ".join(names if self.images else ["…", *names])
        return _sum_text(self.into, self.depth.several, value, tile)


@dataclass(frozen=True, eq=False)
class StoreResults:
    """What becomes of the sums of a block: the kernel's own stores.

    Attributes:
      panels: where sums stand.
      axes: over which stores run; the last one in vectors.
      cuts: of which there are.
      squares: values are computed along the first of two axes, and stored along the
        last one, out of squares of registers.
      group: of groups, which are the last axis: all of its values lie side by side, and
        vectors of them are written together.
      prefetch: loads that are asked for a square ahead.
    """

    panels: tuple[Panel, ...]
    axes: tuple[Node, ...]
    cuts: tuple[Cut, ...]
    squares: bool = False
    group: Node | None = None
    prefetch: Sequence[Node] = ()

    def __str__(self) -> str:
        mark = ", transposed" if self.squares else ""
        mark += _ahead_text(self.prefetch)
        return f"out <- f({', '.join(map(str, self.panels)) or '…'}){mark}"


@dataclass(frozen=True, eq=False)
class Loops:
    """Loops of the kernel with what is inside; of blocks that are open, their part."""

    body: tuple[loop_tree.Statement, ...]
    tiling: tiling.Tiling

    def __str__(self) -> str:
        return _lines(_loop_texts(self.body, self.tiling))


def _loop_texts(
    body: Iterable[loop_tree.Statement], how: tiling.Tiling
) -> Iterator[str]:
    """Loops and what is inside, as they run."""
    for s in body:
        if isinstance(s, Store):
            yield f"buffer{s.buffer} {'+=' if s.combine == 'add' else '<-'} …"
        elif isinstance(s, loop_tree.ReduceLoop):
            ranges = sorted(s.ranges, key=lambda r: how.of(r).lanes > 0)
            yield _nested([_head(r, s, how) for r in ranges], _sum_texts(s, how))
        elif isinstance(s, loop_tree.Loop):
            rest, head = s.body, _head(s.axis, s, how)
            if s.axis is how.columns:
                rows = [r for r in s.body if isinstance(r, loop_tree.ReduceLoop)]
                rest = [r for r in s.body if r not in rows]
                for row in rows:
                    heads = [_head(r, row, how) for r in row.ranges]
                    yield _nested([*heads, head], _sum_texts(row, how))
            yield _nested([head], _loop_texts(rest, how))


def _head(
    r: Node, loop: loop_tree.Loop | loop_tree.ReduceLoop, how: tiling.Tiling
) -> str:
    steps = how.of(r)
    by = f" by {steps}" if steps.width > 1 else ""
    asked = how.prefetch.get(loop, ()) if r is tiling.range_of(loop) else ()
    ahead = ", ".join(f"buffer{p.buffer}" for p in asked)
    return f"for each {tiling.name_of_range(r)}{by}" + (
        f", {ahead} ahead" * bool(ahead)
    )


def _sum_texts(loop: loop_tree.ReduceLoop, how: tiling.Tiling) -> Iterator[str]:
    yield from _loop_texts(loop.body, how)
    for node in loop.reduces:
        yield "sum += …" if node.arg == "add" else f"{node.arg} of …"


def _nested(heads: Sequence[str], inside: Iterable[str]) -> str:
    text = _lines(inside)
    for head in reversed(heads):
        text = _with_body(head, [text])
    return text


Statement = ForEach | Once | Clear | Fill | Accumulate | StoreResults | Loops


class GroupView(NamedTuple):
    """A buffer of a kernel, seen as elements `group` times as large."""

    buffer: int
    group: int


@dataclass(frozen=True, eq=False)
class Schedule:
    """How a kernel runs.

    Attributes:
      kernel: it may be written anew for the schedule.
      lanes: of a vector.
      unit_places: what tells units apart.
      unit: what each of them does.
      views: buffers beside those of the kernel.
      registers: what they hold beside tiles of sums.
      nontemporal: results with non-temporal stores, where memory is aligned.
      setup: what each thread does before its units.
    """

    kernel: Kernel
    lanes: int
    unit_places: tuple[Node | Cut, ...]
    unit: tuple[Statement, ...]
    views: tuple[GroupView, ...] = ()
    registers: tiling.InRegisters = tiling.InRegisters()
    nontemporal: frozenset[int] = frozenset()
    setup: tuple[Loops, ...] = ()

    @property
    def names_places(self) -> bool:
        """Does a statement ask where in a range a block begins?"""
        plain = Loops | StoreResults | ForEach
        return not all(isinstance(s, plain) for s in self.statements())

    @property
    def in_tiles(self) -> bool:
        """Do registers hold several rows of sums of its loops?"""
        return any(isinstance(s, Loops) and s.tiling.in_tiles for s in self.unit)

    def statements(self) -> Iterator[Statement]:
        """All of them, each before those inside it."""
        pending = list(reversed(self.unit))
        while pending:
            statement = pending.pop()
            yield statement
            if isinstance(statement, ForEach | Once):
                pending += reversed(statement.body)

    @property
    def order_of_sums(self) -> tuple[str, ...]:
        """In which order terms are added: with the same one bits are the same."""
        found: list[str] = []
        for s in self.statements():
            if isinstance(s, Accumulate):
                long = not s.images and s.depth.length > 2 * tiling.BLOCK
                found.append(f"{s if long else type(s).__name__} {s.depth}")
            elif isinstance(s, Loops):
                found += s.tiling.order_of_sums
        return tuple(found)

    def memory(self) -> list[Memory]:
        """What has memory of its own: operands, then sums."""
        fills, sums = list[Memory](), list[Memory]()
        for s in self.statements():
            if isinstance(s, Fill):
                fills.append(s.panel)
            elif isinstance(s, Accumulate):
                sums += s.into
        return list({m.key: m for m in (*fills, *sums)}.values())

    def __str__(self) -> str:
        names = layout.names_of(self.unit_places, ", ")
        past = [f"buffer{n} past the caches" for n in sorted(self.nontemporal)]
        body = [*self.registers.lines(), *past, *self.unit]
        return _with_body(f"for units of {names}", body) if names else _lines(body)


def for_blocks(cut: Cut, *body: Statement) -> tuple[Statement, ...]:
    """Statements for each block of a cut; themselves, where there is one."""
    return (ForEach((cut,), body),) if cut.several else body
