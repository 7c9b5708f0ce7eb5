"""How the axes of a value are divided over a mesh, and what it takes to change that.

A spec has for each axis of a value the axes of the mesh along which it is divided, the
outermost first: `(("data",), ())`. To come from one spec to another,

    slice         each device keeps its part of what it has          nothing moves
    all_gather    the parts along an axis of the mesh become one
    all_to_all    one axis of the value is gathered, another divided
    ppermute      a device receives edges of the parts of others (`windows.py`)
    psum, …       what each device has is a part of a sum
    psum_scatter  likewise, and each keeps its part of the sum

which are counted in the bytes that each device receives.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.symbolic import is_dynamic
from ftrace.transforms.meshes import names_by_axis

#: Axes of a mesh.
Names = tuple[Any, ...]
#: For each axis of a value those that divide it.
Spec = tuple[Names, ...]
#: The axes of a mesh by name.
Sizes = Mapping[Any, int]


def spec_of(sharding: Any, ndim: int, open_as: Any = ()) -> Any:
    """That of a `NamedSharding`, for a value of so many axes.

    Args:
      open_as: what stands for an axis that is UNCONSTRAINED.
    """
    return names_by_axis(sharding.spec, ndim, open_as)


def brief(spec: Sequence[Any]) -> Sequence[Any]:
    """Without the axes at its end that nothing divides."""
    return spec[: max([i for i, names in enumerate(spec, 1) if names], default=0)]


def shards(names: Iterable[Any], sizes: Sizes) -> int:
    """Into how many parts these axes of the mesh divide."""
    return math.prod([sizes[name] for name in names])


def divides(names: Iterable[Any], size: int, sizes: Sizes) -> bool:
    """Can an axis of this size be divided so?"""
    count = shards(names, sizes)
    return count == 1 or not (is_dynamic(size) or size == 0 or size % count)


def names_of(spec: Spec) -> list[Any]:
    return [name for names in spec for name in names]


def is_prefix(names: Names, of: Names) -> bool:
    return of[: len(names)] == names


def local_shape(shape: Shape, spec: Spec, sizes: Sizes) -> Shape:
    """The shape of each part."""
    rows = zip(shape, spec, strict=True)
    return tuple([-(-n // shards(names, sizes)) if names else n for n, names in rows])


def even_spec(shape: Shape, spec: Spec, sizes: Sizes) -> Spec:
    """Without what does not divide evenly."""
    rows = zip(shape, spec, strict=True)
    return tuple([names if divides(names, n, sizes) else () for n, names in rows])


def split_by(shape: Shape, spec: Spec, sizes: Sizes) -> tuple[Shape, Shape]:
    """A shape, and an order of its axes: each of the mesh that the spec names first.

    Args:
      sizes: of the axes of the mesh, in its order.
    """
    cut: list[int] = []
    where: dict[Any, int] = {}
    for n, names in zip(shape, spec, strict=True):
        for name in names:
            where[name] = len(cut)
            cut.append(sizes[name])
        cut.append(n // shards(names, sizes))
    front = [where[name] for name in sizes if name in where]
    rest = [axis for axis in range(len(cut)) if axis not in front]
    return tuple(cut), (*front, *rest)


def merge_by(shape: Shape, spec: Spec, sizes: Sizes) -> tuple[Shape, Shape]:
    """`split_by` back: an order of axes, and the shape of the whole after it."""
    named = names_of(spec)
    front = [name for name in sizes if name in named]
    order: list[int] = []
    for axis, names in enumerate(spec):
        order += [*[front.index(name) for name in names], len(front) + axis]
    rows = zip(shape[len(front) :], spec, strict=True)
    return tuple(order), tuple([n * shards(names, sizes) for n, names in rows])


class Move(NamedTuple):
    """A step from one spec to another.

    Attributes:
      kind: what it is called.
      name: the axis of the mesh along which it happens.
      axis: of the value: that which is gathered, or divided by a slice or scatter.
      to: of an all_to_all that which is divided.
    """

    kind: str
    name: Any
    axis: int = 0
    to: int = 0


def moves(
    have: Spec, want: Spec, pending: Names = (), combine: str = "psum"
) -> list[Move]:
    """The steps from one spec to another, the cheap ones first.

    Args:
      pending: axes of the mesh along which the parts are still to be combined.
      combine: how that is done.
    """
    now, found, rest = list(have), list[Move](), list(pending)
    scattered = True
    while scattered and combine == "psum":
        scattered = False
        for axis, (has, wanted) in enumerate(zip(now, want, strict=True)):
            name = wanted[len(has)] if len(has) < len(wanted) else None
            if name in rest and is_prefix(has, wanted):
                rest.remove(name)
                now[axis], scattered = (*has, name), True
                found.append(Move("psum_scatter", name, axis))
    found += [Move(combine, name) for name in rest]
    while tuple(now) != want:
        move = _next_move(now, want)
        found.append(move)
        if move.kind != "slice":
            now[move.axis] = now[move.axis][:-1]
        to = {"slice": move.axis, "all_to_all": move.to}.get(move.kind)
        if to is not None:
            now[to] = (*now[to], move.name)
    return found


def _next_move(now: Sequence[Names], want: Spec) -> Move:
    rows = [*enumerate(zip(now, want, strict=True))]
    missing = [
        (axis, wanted[len(has)])
        for axis, (has, wanted) in rows
        if is_prefix(has, wanted) and has != wanted
    ]
    used = names_of(tuple(now))
    for axis, name in missing:
        if name not in used:
            return Move("slice", name, axis)
    wrong = [axis for axis, (has, wanted) in rows if not is_prefix(has, wanted)]
    for axis in wrong:
        for to, name in missing:
            if now[axis][-1] == name:
                return Move("all_to_all", name, axis, to)
    needed = names_of(want)  # those that no axis needs first
    axis = min(wrong, key=lambda axis: now[axis][-1] in needed)
    return Move("all_gather", now[axis][-1], axis)


def bytes_received(steps: Iterable[Move], nbytes: int, sizes: Sizes) -> int:
    """How many bytes each device receives in these steps.

    Args:
      nbytes: of what it has before them.
    """
    total = 0
    for step in steps:
        n = sizes[step.name]
        if step.kind == "all_gather":
            total += (n - 1) * nbytes
            nbytes *= n
        elif step.kind == "slice":
            nbytes //= n
        elif step.kind == "ppermute":
            total += nbytes
        else:
            times = 1 if step.kind in ("all_to_all", "psum_scatter") else 2
            total += times * nbytes * (n - 1) // n
            nbytes //= n if step.kind == "psum_scatter" else 1
    return total


def local_bytes(aval: ShapedArray, spec: Spec, sizes: Sizes) -> int:
    """Of a part of a value; of one of dynamic sizes as if they were one."""
    shape = [1 if is_dynamic(n) else n for n in local_shape(aval.shape, spec, sizes)]
    return math.prod(shape) * aval.dtype.itemsize
