"""Rules on movements next to each other: two of a kind merge, idle ones vanish."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ftrace.lower.kernel.affine_index import (
    ALWAYS,
    Index,
    Valid,
    flatten_index,
    range_index,
    source_index,
)
from ftrace.lower.simplify.fold_constants import arg_of
from ftrace.trace.graph import Node
from ftrace.trace.primitives.broadcast import expand, expand_p
from ftrace.trace.primitives.movement import (
    MOVEMENT,
    pad,
    pad_p,
    permute,
    permute_p,
    reshape,
    reshape_p,
    shrink,
    shrink_p,
    stride,
    stride_p,
)
from ftrace.trace.primitives.primitive import Primitive
from ftrace.trace.primitives.sources import zeros_like
from ftrace.trace.rewrite import Pat, Rule
from ftrace.trace.symbolic.dim import same_size

MOVEMENTS: Final = (*MOVEMENT, expand_p)


def _has_elements(node: Node) -> bool:
    return node.size > 0 and node.src[0].size > 0


def pair(
    name: str,
    upper: Primitive,
    lower: Primitive,
    function: Callable[[Node, Node], Node | None],
) -> Rule:
    """A rule on x = upper(y) and y = lower(…), both with elements."""
    y = Pat(lower, name="y", where=_has_elements)
    return Rule(name, Pat(upper, y, name="x", aval=lambda n: n.size > 0), function)


# Merging.


def _merge_permutes(x: Node, y: Node) -> Node:
    return permute(y.src[0], tuple(arg_of(y)[a] for a in arg_of(x)))


def _merge_pads(x: Node, y: Node) -> Node:
    """Zeros that the outer one puts between zeros of the inner one are zeros, too."""
    pads: list[tuple[int, int, int]] = []
    for size, inner, outer in zip(y.src[0].shape, arg_of(y), arg_of(x), strict=True):
        (a, b, gap), (c, d, outer_gap) = inner, outer
        step = outer_gap + 1
        between = (gap + 1) * step - 1 if size > 1 else 0
        pads.append((c + a * step, d + b * step, between))
    return pad(y.src[0], tuple(pads))


def _merge_shrinks(x: Node, y: Node) -> Node:
    both = zip(arg_of(y), arg_of(x), strict=True)
    return shrink(y.src[0], tuple((lo + a, lo + b) for (lo, _), (a, b) in both))


def _merge_strides(x: Node, y: Node) -> Node:
    """Backward over what is left: its last element is not the last of all."""
    bounds: list[tuple[int, int]] = []
    steps: list[int] = []
    for size, left, a, b in zip(
        y.src[0].shape, y.shape, arg_of(y), arg_of(x), strict=True
    ):
        reach = (left - 1) * abs(a) + 1
        if b > 0:
            bounds.append((0, size))
        else:
            bounds.append((0, reach) if a > 0 else (size - reach, size))
        steps.append(a * b)
    return stride(shrink(y.src[0], tuple(bounds)), tuple(steps))


def _shrink_of_pad(x: Node, y: Node) -> Node:
    bounds: list[tuple[int, int]] = []
    pads: list[tuple[int, int, int]] = []
    sizes = y.src[0].shape
    for size, (before, _, gap), (lo, hi) in zip(
        sizes, arg_of(y), arg_of(x), strict=True
    ):
        step = gap + 1
        first = max(0, -(-(lo - before) // step))
        stop = min(size, -(-(hi - before) // step))
        if first >= stop:
            return zeros_like(x)
        at, last = before + first * step, before + (stop - 1) * step
        bounds.append((first, stop))
        pads.append((at - lo, hi - 1 - last, gap if stop - first > 1 else 0))
    return pad(shrink(y.src[0], tuple(bounds)), tuple(pads))


_MERGES: Final = (
    # y(y(x)) -> y(x)
    pair(
        "merge_reshapes", reshape_p, reshape_p, lambda x, y: reshape(y.src[0], x.shape)
    ),
    pair("merge_expands", expand_p, expand_p, lambda x, y: expand(y.src[0], x.shape)),
    pair("merge_permutes", permute_p, permute_p, _merge_permutes),
    pair("merge_pads", pad_p, pad_p, _merge_pads),
    pair("merge_shrinks", shrink_p, shrink_p, _merge_shrinks),
    # stride(stride(x)) -> stride(shrink(x))
    pair("merge_strides", stride_p, stride_p, _merge_strides),
    # shrink(pad(x)) -> pad(shrink(x)), or zero where only zeros are left
    pair("merge_shrink_of_pad", shrink_p, pad_p, _shrink_of_pad),
)

# Removal.


def _adds_nothing(node: Node) -> bool:
    return not any(map(any, arg_of(node)))


def _takes_all(node: Node) -> bool:
    """Along axes of size 1 every step does."""
    sizes = node.src[0].shape
    return all(
        s == 1 or same_size(n, 1) for s, n in zip(arg_of(node), sizes, strict=True)
    )


def _noop(name: str, op: Primitive, holds: Callable[[Node], bool]) -> Rule:
    return Rule(name, Pat(op, Pat(name="x"), where=holds), lambda x: x)


def _keeps_shape(node: Node) -> bool:
    return same_size(node.aval.shape, node.src[0].aval.shape)


def _keeps_order(x: Node) -> Node | None:
    """Does it move axes of size 1 only? Then it is a reshape."""
    kept = [a for a in arg_of(x) if not same_size(x.src[0].shape[a], 1)]
    return reshape(x.src[0], x.shape) if kept == sorted(kept) else None


#: How far down a chain is followed: so many movements, and so many reshapes, as each
#: of those that does not merge with the next makes the index more complicated.
_DEPTH = 6
_RESHAPES = 2


def _chain_below(x: Node) -> list[Node]:
    """The movements from `x` down to the loads, as far as they are followed."""
    chain: list[Node] = []
    reshapes = 0
    node = x
    while node.op.family == "movement" and len(chain) < _DEPTH:
        reshapes += node.op is reshape_p
        if reshapes > _RESHAPES:
            break
        chain.append(node)
        node = node.src[0]
    return chain


def _contiguous_root(x: Node) -> Node | None:
    """The lowest node of a chain that has the elements of `x`, in the same order."""
    chain = _chain_below(x)
    # One that moves elements is undone by no reshape, nor the other way round.
    if [n.op is reshape_p for n in chain].count(False) == 1:
        return None
    roots = [n.src[0] for n in chain[1:] if same_size(n.src[0].size, x.size)]
    if not roots:
        return None
    indices: tuple[Index, ...] = tuple(range_index(i, n) for i, n in enumerate(x.shape))
    position = flatten_index(indices, x.shape)
    valid: Valid | None = ALWAYS
    found: Node | None = None
    for node in chain:
        indices, valid = source_index(node, indices, valid)
        source = node.src[0]
        if valid != ALWAYS:
            break  # zeros of a pad are in it
        if source in roots and same_size(
            flatten_index(indices, source.shape), position
        ):
            found = source
        if source is roots[-1]:
            break
    return None if found is None else reshape(found, x.shape)


_REMOVALS: Final = (
    # movement(x) that changes nothing -> x
    _noop("remove_noop_reshape", reshape_p, _keeps_shape),
    _noop("remove_noop_expand", expand_p, _keeps_shape),
    _noop("remove_noop_shrink", shrink_p, _keeps_shape),
    _noop("remove_noop_pad", pad_p, _adds_nothing),
    _noop("remove_noop_permute", permute_p, lambda n: n.arg == tuple(range(n.ndim))),
    _noop("remove_noop_stride", stride_p, _takes_all),
    # permute that moves only axes of size 1 -> reshape
    Rule("permute_of_ones_is_reshape", Pat(permute_p, Pat(), name="x"), _keeps_order),
)

# movements(x) that keep all elements in their order -> reshape(x)
_CONTIGUOUS: Final = Rule(
    "contiguous_chain_is_its_root",
    Pat(MOVEMENTS, Pat(MOVEMENTS), name="x", aval=lambda n: n.size > 0),
    _contiguous_root,
)

CHAINS: Final = (*_REMOVALS, *_MERGES, _CONTIGUOUS)
