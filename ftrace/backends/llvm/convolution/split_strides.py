"""Kernels in phases: where only every u-th place of an axis meets an element.

    out[i] = the sum over k of  x[(i + k) / u] · w[k]   where u divides i + k

Gradients of strided convolutions, and convolutions of an input that is spread, multiply
a zero u - 1 times out of u. For one remainder of i, the taps that meet an element are
u apart, and nothing is divided any more:

    out[u·q + p] = the sum over j of  x[q + j + c] · w[u·j + a]

So each remainder p becomes a kernel of its own, with fewer taps; two axes have as many
kernels as pairs of remainders. A remainder without taps stores zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import gcd, prod

from ftrace import dtypes
from ftrace.backends.llvm.schedule import known_positions
from ftrace.backends.llvm.schedule.index_facts import Facts, conjuncts
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lower.kernel import ir
from ftrace.lower.kernel.affine_index import Index, is_affine, range_index
from ftrace.trace.graph import Node, constant_value
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const, const_p

#: Kernels that one becomes, at most: a bound of code. With 2 spread images and the
#: gradient by images, strided 16 of 32→64, 28² stay one, with 8 or 128 no row differs.
_MOST_KERNELS = 32


class _Condition(NamedTuple):
    """`step` divides a sum of ranges."""

    node: Node
    form: Index
    step: int


class _Residue(NamedTuple):
    """A range runs in steps from one of its first values on: step·q + first."""

    step: int
    first: int


def phases(kernel: ir.Kernel, facts: Facts) -> list[ir.Kernel]:
    """The kernel by remainders; mostly it is one."""
    if kernel.is_dynamic or kernel.ordered or any(s.combine for s in kernel.stores):
        return [kernel]
    if not any(n.op is ir.reduce_p for n in kernel.nodes):
        return [kernel]
    conditions = list(_conditions(kernel, facts))
    steps: dict[Node, int] = {}
    for _, form, step in conditions:
        for r, c in form.terms.items():
            if r in kernel.axes and c % step and steps.setdefault(r, step) != step:
                return [kernel]
    if not steps or prod(steps.values()) > _MOST_KERNELS:
        return [kernel]
    found: list[ir.Kernel] = []
    for firsts in product(
        *(range(min(u, ir.axis_of(a).size)) for a, u in steps.items())
    ):
        pairs = zip(steps.items(), firsts, strict=True)
        places = {axis: _Residue(step, first) for (axis, step), first in pairs}
        solved = _solve(kernel, conditions, places)
        if solved is None:
            return [kernel]
        found.append(_phase(kernel, facts, *solved))
    return found


def _conditions(kernel: ir.Kernel, facts: Facts) -> Iterator[_Condition]:
    """`E rem u = 0`, where E is a sum of ranges; `r = 0`, where r is an axis.

    An axis is split already where the places that meet an element are the same for all
    taps: dilations that a stride divides.
    """
    for node in kernel.nodes:
        if node.op is not p.eq or facts.constant(node.src[1]) != 0:
            continue
        rest = node.src[0]
        if rest in kernel.axes and ir.axis_of(rest).size > 1:
            if any(
                _vanishes(n.src[0], node) for n in kernel.nodes if n.op is ir.reduce_p
            ):
                yield _Condition(node, facts.affine[rest], ir.axis_of(rest).size)
            continue
        if rest.op is not p.rem:
            continue
        form, step = facts.affine[rest.src[0]], facts.constant(rest.src[1])
        if step is not None and step > 1 and is_affine(form):
            yield _Condition(node, form, step)


def _solve(
    kernel: ir.Kernel, conditions: Iterable[_Condition], axes: Mapping[Node, _Residue]
) -> tuple[dict[Node, _Residue], dict[Node, bool]] | None:
    """Where ranges run for some remainders of axes, and which conditions hold anywhere.

    None if the kernel has another form.
    """
    places, truth = dict(axes), dict[Node, bool]()
    for node, form, step in conditions:
        deciding = [r for r, c in form.terms.items() if c % step and r not in axes]
        known = sum(c * axes[r].first for r, c in form.terms.items() if r in axes)
        constant = form.constant + known
        if not deciding:
            truth[node] = constant % step == 0
            continue
        r, *others = deciding
        by = form.terms[r] % step
        if others or not ir.axis_of(r).reduced or gcd(by, step) != 1:
            return None
        if not _may_leave_out(kernel, r, node):
            return None
        place = _Residue(step, -constant * pow(by, -1, step) % step)
        if places.setdefault(r, place) != place:
            return None
        truth[node] = place.first < ir.axis_of(r).size
    return places, truth


def _may_leave_out(kernel: ir.Kernel, r: Node, condition: Node) -> bool:
    """Is what is summed over a range zero where the condition does not hold?"""
    sums = [n for n in kernel.nodes if n.op is ir.reduce_p and r in n.src[1:]]
    return all(n.arg == "add" and _vanishes(n.src[0], condition) for n in sums)


def _split(r: Node, place: _Residue) -> Index:
    """r -> step·q + first."""
    axis, step = ir.axis_of(r), place.step
    first = place.first if place.first < axis.size else 0
    size = -(-(axis.size - first) // step)
    return range_index(axis.number, size, axis.reduced) * step + first


def _phase(
    kernel: ir.Kernel,
    facts: Facts,
    places: Mapping[Node, _Residue],
    truth: Mapping[Node, bool],
) -> ir.Kernel:
    """The kernel for one remainder of each axis.

    Args:
      places: where ranges run.
      truth: what is known of conditions.
    """
    moved = {r: _split(r, place) for r, place in places.items()}
    zeros = set[Node]()

    def over(ranges: Iterable[Node]) -> tuple[Node, ...]:
        """The new ranges in place of some."""
        return tuple(n for r in ranges for n in (moved[r].terms if r in moved else [r]))

    def is_zero(node: Node, new: Mapping[Node, Node]) -> bool:
        """Is there nothing to be loaded, multiplied or summed over?"""
        if node.op is ir.load_p:
            return any(_is_known(new[valid], False) for valid in node.src[2:])
        if node.op is p.mul:
            return not zeros.isdisjoint(node.src)
        if node.op is ir.reduce_p:
            return node.src[0] in zeros
        if node.op is p.select:
            condition, met, unmet = node.src
            if _is_known(new[condition], False):
                return unmet in zeros or _is_known(unmet, 0)
            return _is_known(new[condition], True) and met in zeros
        return False

    def replace(node: Node, new: Mapping[Node, Node]) -> Node | None:
        if is_zero(node, new):
            zeros.add(node)
            return const(0, node.dtype)
        if node in truth:
            return const(truth[node], dtypes.bool_)
        if node.op is not ir.reduce_p:
            return None
        value, left = new[node.src[0]], over(node.src[1:])
        if not left:  # as a sum, it has no -0
            return p.add(value, const(0, node.dtype))
        return ir.reduce(node.arg, value, left)

    stores = known_positions.stores_over(kernel, facts, moved, replace)
    return ir.Kernel(over(kernel.axes), stores, kernel.buffers)


def _is_known(node: Node, value: int) -> bool:
    return node.op is const_p and constant_value(node) == value


def _vanishes(value: Node, condition: Node) -> bool:
    """Is a value zero where the condition does not hold? Of a product, one factor."""
    src = list(value.src)
    if value.op is ir.load_p:
        return any(condition in conjuncts(valid) for valid in src[2:])
    if value.op is p.select:
        found = condition in conjuncts(src[0]) or _vanishes(src[1], condition)
        return found and _is_known(src[2], 0)
    if value.op is p.mul:
        return any(_vanishes(s, condition) for s in src)
    return value.op is p.cast_p and _vanishes(src[0], condition)
