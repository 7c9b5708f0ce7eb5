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

from ftrace.lower.build import BuiltKernel, build_kernel, origins_of
from ftrace.lower.drafts import Draft, Schedule
from ftrace.records import NamedTuple, dataclass
from ftrace.trace.graph import Node
from ftrace.trace.primitives.indexing import gather_p


@dataclass(frozen=True, eq=False)
class _Structure:
    """What follows for the kernel of a draft, and the values that it is about.

    Attributes:
      key: equal for isomorphic drafts.
      values: computed or loaded, in the order of the graph.
      loaded: those that are not computed.
    """

    key: Any
    values: list[Node]
    loaded: set[Node]


class _Pattern(NamedTuple):
    """A kernel, and of each of its buffers the number of the value in it."""

    built: BuiltKernel
    stores: dict[int, int]
    loads: dict[int, int]


def build_kernels(plan: Schedule) -> Iterator[tuple[int, BuiltKernel]]:
    """The kernels of those drafts that are no steps, by the draft's number."""
    known: dict[Any, _Pattern] = {}
    for draft in plan.drafts:
        if draft.step is not None:
            continue
        structure = _structure_of(draft, plan)
        if structure is None:
            yield draft.number, build_kernel(draft, plan)
            continue
        pattern = known.get(structure.key)
        if pattern is None:
            built = build_kernel(draft, plan)
            known[structure.key] = _pattern_of(built, structure)
        else:
            built = _applied(pattern, structure)
        yield draft.number, built


def _structure_of(draft: Draft, plan: Schedule) -> _Structure | None:
    """None where the numbers of index arrays count, which are those of the plan."""
    if draft.kind == "scatter":
        return None
    values, loaded = _values_of(draft, plan)
    number_of = {node: i for i, node in enumerate(values)}
    reduced = [n for n in values if n.op.family == "reduction" and n not in loaded]
    lowest = min([plan.levels[n] for n in reduced], default=0)
    parts: list[Any] = []
    for node in values:
        if node in loaded:
            parts.append(node.aval)
            continue
        if node.op is gather_p:
            return None
        level = plan.levels[node] - lowest if node in reduced else 0
        sources = tuple([number_of[s] for s in node.src])
        parts.append((node.op, node.aval, node.arg, sources, level))
    roots = tuple([number_of[n] for n in draft.roots])
    sums = frozenset([number_of[n] for n in draft.sums])
    key = (draft.shape, draft.kind, roots, sums, tuple(parts))
    return _Structure(key, values, loaded)


def _values_of(draft: Draft, plan: Schedule) -> tuple[list[Node], set[Node]]:
    """The values of a draft in the order of the graph, and those that are loaded."""
    number, inlined = draft.number, plan.inlined
    seen: set[Node] = set()
    loaded: set[Node] = set()
    pending = list(draft.roots)
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if number in inlined.get(node, ()) or node in draft.sums:
            pending.extend(node.src)
        else:
            loaded.add(node)
    return sorted(seen, key=plan.places.__getitem__), loaded


def _pattern_of(built: BuiltKernel, structure: _Structure) -> _Pattern:
    number_of = {node: i for i, node in enumerate(structure.values)}
    return _Pattern(
        built,
        {i: number_of[n] for i, n in built.stores.items()},
        {i: number_of[n] for i, n in built.loads.items()},
    )


def _applied(pattern: _Pattern, structure: _Structure) -> BuiltKernel:
    """The kernel of a pattern, about the values of an isomorphic draft."""
    built, values = pattern.built, structure.values
    computed = [n for n in values if n not in structure.loaded]
    return BuiltKernel(
        built.kernel,
        replace(built.info, origins=origins_of(computed)),
        {i: values[n] for i, n in pattern.stores.items()},
        {i: values[n] for i, n in pattern.loads.items()},
    )
