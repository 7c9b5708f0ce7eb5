"""Which library operations become kernels, or others: two tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any

from ftrace.ground import settings
from ftrace.lower.library import fft_kernels, lapack_kernels, scan_kernels, sort_kernels
from ftrace.trace import linalg_compositions as compositions
from ftrace.trace.graph import Node
from ftrace.trace.graph_map import Rule
from ftrace.trace.primitives.library.fft import fft_p
from ftrace.trace.primitives.library.scan import extremum_tangent_p
from ftrace.trace.primitives.primitive import items
from ftrace.trace.symbolic import any_dynamic


def _of_known_sizes(rule: Rule, *decisions: str) -> Rule:
    """A rule for operations whose shapes are known and have elements.

    Args:
      rule: makes others of an operation.
      decisions: those that switch it off.
    """

    def guarded(node: Node, read: Collection[int]) -> Node | Sequence[Node] | None:
        shapes = [x.shape for x in (*node.src, *items(node))]
        known = not any(any_dynamic(shape) or not prod(shape) for shape in shapes)
        return rule(node, read) if known and settings.decides(*decisions) else None

    return guarded


#: Operations of linear algebra that are others, put together.
COMPOUNDS: dict[Any, Rule] = dict.fromkeys(
    compositions.COMPOSITIONS, _of_known_sizes(lapack_kernels.expand_composition)
)
#: Library operations, and what makes kernels of them.
LIBRARY: dict[Any, Rule] = {
    op: _of_known_sizes(rule, *decisions)
    for ops, rule, *decisions in (
        (scan_kernels.OPERATORS, scan_kernels.by_kernels, "native_scan"),
        (
            (extremum_tangent_p,), scan_kernels.tangent_by_kernels,
            "native_scan", "native_extremum_tangent",
        ),
        (lapack_kernels.FACTORS, lapack_kernels.by_kernels),
        (sort_kernels.SORTS, sort_kernels.by_kernels, "native_sort"),
        ((fft_p,), fft_kernels.by_kernels, "native_fft"),
    )
    for op in ops
}  # fmt: skip

#: What `config.disabled_rules` can switch off of `LIBRARY`.
DECISIONS = (
    scan_kernels.DECISIONS | lapack_kernels.DECISIONS
    | sort_kernels.DECISIONS | fft_kernels.DECISIONS
)  # fmt: skip
