"""How the loops of a kernel are spread over work-items.

    item    one work-item per iteration
    group   one work-group per iteration
    lane    the work-items of a group take turns
    serial  a loop in each work-item

A kernel without inner rows is all `item`. Where reduces stand between axes (softmax,
layer norm) the axes around them are rows: a row is a group, whose lanes reduce it
together and then share the axes inside; short rows are one item each.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ftrace.devices.affine import Affine
from ftrace.lower.kernel import Kernel, axis_of, load_p
from ftrace.lower.place import Let, Loop, ReduceLoop, Statement
from ftrace.records import dataclass
from ftrace.trace.graph import Node
from ftrace.trace.sizes import sample


@dataclass(frozen=True)
class Traits:
    """What the renderer knows of a device.

    Attributes:
      cpu: its work-items are loop iterations on a few cores.
      units: how many groups run at one time.
      max_group: the most work-items of a group.
      vector: how many floats an instruction takes.
      doubles: it computes in float64.
      clang: its compiler is clang, and vectorises only what clang's builtins say.
    """

    cpu: bool
    units: int
    max_group: int
    vector: int
    doubles: bool
    clang: bool

    @property
    def group(self) -> int:
        """Lanes of a group that works on one row."""
        return min(2 * self.vector if self.cpu else 128, self.max_group)

    @property
    def short_row(self) -> int:
        """A row of fewer elements is done by one lane."""
        return max(self.vector, 8) if self.cpu else 64

    @property
    def enough(self) -> int:
        """Work-items that keep the device busy."""
        return self.units * (4 if self.cpu else 1024)


@dataclass(frozen=True)
class Launch:
    """How a kernel is spread.

    Attributes:
      roles: of each axis.
      lanes: work-items of a group that works on a row; 0 without groups.
      barriers: reduces in the work-items get a barrier, for a compiler that
        vectorises over work-items.
    """

    roles: dict[Node, str]
    lanes: int = 0
    barriers: bool = False

    def axes(self, role: str) -> tuple[Node, ...]:
        return tuple(axis for axis, given in self.roles.items() if given == role)


def choose_launch(
    kernel: Kernel,
    block: Sequence[Statement],
    forms: dict[Node, Affine],
    traits: Traits,
) -> Launch:
    """The roles of the axes of a kernel whose statements are `block`."""
    axes = kernel.axes
    if 0 in kernel.shape:
        return Launch(dict.fromkeys(axes, "serial"))
    if kernel.ordered:
        ordered = {axis for axis in axes if axis_of(axis).number in kernel.ordered}
        return Launch({a: "serial" if a in ordered else "item" for a in axes})
    loops = _reduce_loops(block)
    depth = max((d for d, _ in loops if d < len(axes)), default=None)
    if depth is not None:
        return _launch_rows(kernel, depth, traits)
    points = sample(prod(kernel.shape))
    longest = max((_count(loop) for _, loop in loops), default=0)
    along = any(_runs_along_memory(loop, axes, forms) for _, loop in loops)
    if longest >= traits.short_row and (points < traits.enough or along):
        roles = dict.fromkeys(axes, "group")
        return Launch(roles, _lanes(longest, traits))
    barriers = traits.clang and bool(loops) and not along
    return Launch(dict.fromkeys(axes, "item"), barriers=barriers)


def _launch_rows(kernel: Kernel, depth: int, traits: Traits) -> Launch:
    rows, inside = kernel.axes[:depth], kernel.axes[depth:]
    length = sample(prod(axis_of(axis).size for axis in inside))
    count = sample(prod(axis_of(axis).size for axis in rows))
    if length < traits.short_row and count >= traits.units:
        roles = dict.fromkeys(rows, "item") | dict.fromkeys(inside, "serial")
        return Launch(roles)
    roles = dict.fromkeys(rows, "group") | dict.fromkeys(inside, "lane")
    return Launch(roles, _lanes(length, traits))


def _lanes(length: int, traits: Traits) -> int:
    """A power of two, at most the length."""
    return 1 << max(min(traits.group, length).bit_length() - 1, 0)


def _reduce_loops(block: Sequence[Statement]) -> list[tuple[int, ReduceLoop]]:
    """The outermost reduce loops, each with the number of axes around it."""
    found: list[tuple[int, ReduceLoop]] = []
    depth = 0
    while True:
        found += [(depth, s) for s in block if isinstance(s, ReduceLoop)]
        inner = [s for s in block if isinstance(s, Loop)]
        if not inner:
            return found
        block = inner[0].body
        depth += 1


def _count(loop: ReduceLoop) -> int:
    return sample(prod(axis_of(r).size for r in loop.ranges))


def _runs_along_memory(
    loop: ReduceLoop, axes: tuple[Node, ...], forms: dict[Node, Affine]
) -> bool:
    """Do more loads run along memory with the reduce than with the innermost axis?"""
    loads = [
        forms[s.node.src[1]].terms
        for s in loop.body
        if isinstance(s, Let) and s.node.op is load_p and s.node.src[1] in forms
    ]
    reduced = sum(abs(terms.get(loop.ranges[-1], 0)) == 1 for terms in loads)
    across = sum(abs(terms.get(axes[-1], 0)) == 1 for terms in loads) if axes else 0
    return reduced > across
