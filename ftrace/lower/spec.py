"""What a graph may contain between the stages, and what some of them leave.

graph     = const | iota | variable
          | elementwise(graph, …)     operands of one shape
          | movement(graph)
          | reduction(graph)          axes stay with size 1
          | gather(graph, index, …) | scatter(graph, graph, index, …)
          | copy(graph) | stop_gradient(graph)
          | item[i](compound)         one result of an operation that is a step

simplify  leaves no stop_gradient, no value without elements but constants, no
          operation on nothing but constants, no reduction of an axis of size 1
movement  leaves no movement that changes nothing or stands above one of its kind,
          and brings the others into their order
split     leaves what simplify leaves
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ftrace.errors import FtraceError
from ftrace.ground import settings
from ftrace.lower.analysis import is_step
from ftrace.lower.simplify.algebra import ELEMENTWISE_OPS, arg_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives import (
    broadcast as bc,
    movement as mv,
    primitive as prim,
    reduction as red,
)
from ftrace.trace.primitives.elementwise import copy
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.sources import SOURCES, const_p, dim_p, iota_p, variable_p
from ftrace.trace.rewrite import Pat, Spec
from ftrace.trace.symbolic import is_dynamic, same_size, surely_at_most


def _is_source(node: Node) -> bool:
    """No operands, and an argument of the right kind."""
    if node.src:
        return False
    if node.op is const_p:
        return isinstance(node.arg, bytes) and len(node.arg) == node.dtype.itemsize
    if node.op is iota_p:
        return isinstance(node.arg, int) and 0 <= node.arg < node.ndim
    if node.op is dim_p:
        return is_dynamic(node.arg)
    return isinstance(node.arg, tuple)


def _obeys_record(node: Node) -> bool:
    """Are shape and dtype those that the record's rule gives?"""
    try:
        aval = prim.primitive_of(node).infer(node.arg, *[s.aval for s in node.src])
    except FtraceError:
        return False
    return same_size(aval.shape, node.shape) and aval.dtype == node.dtype


def _all(*conditions: Callable[[Node], bool]) -> Callable[[Node], bool]:
    return lambda node: all(holds(node) for holds in conditions)


_INDEXING = (gather_p, scatter_p)
_OTHERS = tuple(p for p in prim.PRIMITIVES.values() if p not in SOURCES)
_BUILT_IN = frozenset(prim.PRIMITIVES.values())


def _is_users(node: Node) -> bool:
    """Is it elementwise, of a primitive that a user made (`extend.py`)?"""
    op = node.op
    if not isinstance(op, prim.Primitive) or op in _BUILT_IN:
        return False
    return op.family in ("unary", "binary") and _obeys_record(node)


#: Of every graph that is lowered, before and after each pass.
GRAPH_SPEC: Final = Spec(
    "graph",
    (
        Pat(SOURCES, where=_is_source),
        Pat(_OTHERS, where=_obeys_record),
        Pat(where=_is_users),
        Pat(where=is_step),
    ),
)

# What the passes leave, unless some of their rules are disabled.


def _has_elements(node: Node) -> bool:
    return node.size > 0


def _varies(node: Node) -> bool:
    return any(s.op is not const_p for s in node.src)


def _reduces_something(node: Node) -> bool:
    axes: tuple[int, ...] = arg_of(node)
    shape = node.src[0].shape
    return len(axes) > 0 and not any(surely_at_most(shape[a], 1) for a in axes)


_SIMPLE: Final = (
    Pat((const_p, dim_p, variable_p)),
    Pat(where=is_step),
    Pat((iota_p, *_INDEXING, *mv.PADDING), where=_has_elements),
    Pat(ELEMENTWISE_OPS, where=_all(_has_elements, _varies)),
    Pat(red.REDUCTIONS, where=_all(_has_elements, _reduces_something)),
    Pat(copy, where=_has_elements),
    Pat(where=_all(_is_users, _has_elements)),
)

SIMPLIFIED_SPEC: Final = Spec(
    "after simplify", (*_SIMPLE, Pat(bc.SELECTIONS, where=_all(_has_elements, _varies)))
)


def _above(op: Any, *allowed: Any) -> Pat:
    """A movement above one that it cannot move past, or above no movement."""
    others = (
        prim.item_p,
        *(p for p in prim.PRIMITIVES.values() if p not in (*bc.MOVEMENTS, const_p)),
    )
    return Pat(op, Pat((*others, *allowed)))


MOVED_SPEC: Final = Spec(
    "after movement",
    (
        *_SIMPLE[:2],
        Pat((iota_p, *_INDEXING, mv.shear_p, mv.unshear_p), where=_has_elements),
        *_SIMPLE[3:],
        # Past a reshape, and below a pad, a movement gets only where axes correspond.
        _above(mv.shrink_p, mv.reshape_p, mv.shear_p, mv.unshear_p),
        _above(
            mv.stride_p,
            mv.shrink_p,
            mv.reshape_p,
            mv.pad_p,
            bc.expand_p,
            mv.shear_p,
            mv.unshear_p,
        ),
        _above(
            mv.permute_p,
            mv.shrink_p,
            mv.stride_p,
            mv.reshape_p,
            mv.shear_p,
            mv.unshear_p,
        ),
        _above(mv.reshape_p, *[op for op in bc.MOVEMENTS if op is not mv.reshape_p]),
        _above(mv.pad_p, const_p, *[op for op in bc.MOVEMENTS if op is not mv.pad_p]),
        _above(bc.expand_p, *[op for op in bc.MOVEMENTS if op is not bc.expand_p]),
    ),
)

#: What holds after a pass, by its name.
SPECS: Final = {
    "simplify": SIMPLIFIED_SPEC,
    "movement": MOVED_SPEC,
    "split_reductions": SIMPLIFIED_SPEC,
}


def check_after(name: str, outputs: Sequence[Node]) -> None:
    """Checks what the stage of that name left.

    Raises:
      GraphError: it names the first node that breaks the contract.
    """
    GRAPH_SPEC.check(outputs)
    if name in SPECS and not settings.current().disabled_rules:
        SPECS[name].check(outputs)
