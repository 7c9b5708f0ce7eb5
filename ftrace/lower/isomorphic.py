"""Drafts of one structure become one kernel, which is built once.

The layers of a network, and the steps of an unrolled loop, make the same kernel again
and again, of other values. Two drafts are *isomorphic* where their values in the order
of the graph pair off: the same operation over the partners of the same operands,
computed or loaded alike. What is built of the one is then the kernel of the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ftrace.lower.build import BuiltKernel, build_kernel, origins_of, rounds_operand
from ftrace.lower.drafts import Draft, Schedule
from ftrace.records import NamedTuple
from ftrace.trace.graph import Node
from ftrace.trace.primitives.indexing import gather_p


class _Pattern(NamedTuple):
    """A kernel, and of each of its buffers the number of the value in it."""

    built: BuiltKernel
    stores: dict[int, int]
    loads: dict[int, int]


def build_kernels(plan: Schedule) -> Iterator[tuple[int, BuiltKernel]]:
    """The kernels of those drafts that are no steps, by the draft's number."""
    known: dict[Any, _Pattern] = {}
    for draft, computed in _computed_by(plan):
        if draft.step is not None:
            continue
        found = _structure_of(draft, computed, plan)
        if found is None:
            yield draft.number, build_kernel(draft, plan)
            continue
        structure, values = found
        pattern = known.get(structure)
        if pattern is None:
            built = build_kernel(draft, plan)
            known[structure] = _pattern_of(built, values)
        else:
            built = _applied(pattern, values, computed)
        yield draft.number, built


def _computed_by(plan: Schedule) -> list[tuple[Draft, list[Node]]]:
    """What each draft computes, in the order in which it was decided on."""
    found: list[list[Node]] = [[] for _ in plan.drafts]
    for node, numbers in plan.inlined.items():
        for number in numbers:
            found[number].append(node)
    for draft in plan.drafts:
        found[draft.number] += sorted(draft.sums, key=plan.places.__getitem__)
    return list(zip(plan.drafts, found, strict=True))


def _structure_of(
    draft: Draft, computed: list[Node], plan: Schedule
) -> tuple[Any, list[Node]] | None:
    """What is equal for isomorphic drafts, and the values that pair off.

    None where index arrays are read, whose numbers are those of the plan.
    """
    if draft.kind == "scatter":
        return None
    number_of = {node: i for i, node in enumerate(computed)}
    values = list(computed)
    loaded: list[Any] = []
    parts: list[Any] = []
    places: dict[int, int] = {}  # of levels: reduces of one level may share ranges
    for node in computed:
        if node.op is gather_p:
            return None
        sources: list[int] = []
        for source in node.src:
            number = number_of.get(source)
            if number is None:
                number = number_of[source] = len(values)
                values.append(source)
                loaded.append(source.aval)
            sources.append(number)
        level = 0
        if node.op.family == "reduction":
            level = places.setdefault(plan.levels[node], len(places))
        rounds = rounds_operand(node, plan)
        parts.append((node.op, node.aval, node.arg, tuple(sources), level, rounds))
    roots = tuple([number_of[n] for n in draft.roots])
    sums = frozenset([number_of[n] for n in draft.sums])
    structure = (draft.shape, draft.kind, roots, sums, tuple(parts), tuple(loaded))
    return structure, values


def _pattern_of(built: BuiltKernel, values: list[Node]) -> _Pattern:
    number_of = {node: i for i, node in enumerate(values)}
    return _Pattern(
        built,
        {i: number_of[n] for i, n in built.stores.items()},
        {i: number_of[n] for i, n in built.loads.items()},
    )


def _applied(
    pattern: _Pattern, values: list[Node], computed: list[Node]
) -> BuiltKernel:
    """The kernel of a pattern, about the values of an isomorphic draft."""
    built = pattern.built
    lines = origins_of(reversed(computed))
    return BuiltKernel(
        built.kernel,
        replace(built.info, origins=lines),
        {i: values[n] for i, n in pattern.stores.items()},
        {i: values[n] for i, n in pattern.loads.items()},
    )
