"""Rules on constants and on values without elements.

A constant is one scalar at every position, so that an elementwise operation on
constants, and most movements of one, are again a constant: the record's own meaning
says which.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from ftrace import dtypes
from ftrace.trace.graph import Node, constant_bits, constant_value, make_node
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import copy, stop_gradient
from ftrace.trace.primitives.indexing import gather_p, scatter_p
from ftrace.trace.primitives.movement import (
    pad_p,
    permute_p,
    reshape_p,
    shear_p,
    shrink_p,
    stride_p,
    unshear_p,
)
from ftrace.trace.primitives.record import PRIMITIVES, Primitive
from ftrace.trace.primitives.reduction import (
    REDUCTIONS,
    identity_like,
    reduce_prod_p,
)
from ftrace.trace.primitives.source import const_like, const_p, zeros_like
from ftrace.trace.rewrite import Pat, Rule

#: Primitives whose result at a position depends on that position alone.
ELEMENTWISE: Final[tuple[Primitive, ...]] = tuple(
    p
    for p in PRIMITIVES.values()
    if p.family in ("unary", "binary", "compare", "select", "cast")
)



_EVERYWHERE = (reshape_p, permute_p, shrink_p, stride_p, expand_p)


def of_any_arity(pattern: Callable[[int], Pat]) -> tuple[Pat, ...]:
    """A pattern for each number of operands that an elementwise primitive has."""
    return tuple(pattern(n) for n in (1, 2, 3))


@lru_cache(maxsize=None, typed=True)
def _bits(value: complex, dtype: np.dtype[Any]) -> bytes:
    return constant_bits(value, dtype)


def is_bits(node: Node, value: complex) -> bool:
    """Is it the constant `value`, bit for bit? For -0.0 see `is_negative_zero`."""
    return node.op is const_p and node.arg == _bits(value, node.dtype)


def is_zero(node: Node) -> bool:
    """The constant 0, or False; not -0.0."""
    return is_bits(node, 0)


def is_negative_zero(node: Node) -> bool:
    """Is it the constant -0.0 of a float dtype?"""
    if node.op is not const_p or not dtypes.is_float(node.dtype):
        return False
    return node.arg == _bits(0, node.dtype)[:-1] + b"\x80"


def is_const(node: Node) -> bool:
    return node.op is const_p


def move_constant(node: Node, shape: tuple[int, ...]) -> Node:
    """The same constant in another shape."""
    return make_node(const_p, node.aval.with_shape(shape), (), node.arg)


def evaluate_scalar(node: Node) -> Any:
    """The value of an elementwise node over constants."""
    operands = [np.frombuffer(s.arg, s.dtype) for s in node.src]  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        value = node.op.numpy(node.aval.with_shape((1,)), node.arg, *operands)
    return np.asarray(value)[0]


def _reduce_constant(x: Node) -> Node | None:
    value = constant_value(x.src[0])
    axes: Any = x.arg
    count = prod(x.src[0].shape[a] for a in axes)
    if count == 0:
        return None
    if x.op is reduce_sum_p:
        return const_like(x, _repeated_sum(value, count, x.dtype))
    if x.op is reduce_prod_p:
        if dtypes.is_complex(x.dtype):
            return None
        return const_like(x, _repeated_product(value, count, x.dtype))
    return const_like(x, value)


def _wrapped(value: int, dtype: np.dtype[Any]) -> Any:
    """A Python integer in an integer dtype, modulo its range."""
    bits = 8 * dtype.itemsize
    return np.array(value % (1 << bits), np.dtype(f"u{dtype.itemsize}")).view(dtype)


def _repeated_sum(value: Any, count: int, dtype: np.dtype[Any]) -> Any:
    if dtypes.is_integer(dtype):
        return _wrapped(int(value) * count, dtype)
    if dtypes.is_complex(dtype):
        # Part by part: inf·(n + 0i) would be NaN.
        return complex(float(value.real) * count, float(value.imag) * count)
    return float(value) * count


def _repeated_product(value: Any, count: int, dtype: np.dtype[Any]) -> Any:
    if dtypes.is_integer(dtype):
        return _wrapped(pow(int(value), count, 1 << (8 * dtype.itemsize)), dtype)
    with np.errstate(all="ignore"):
        return np.power(np.float64(value), np.float64(count))


def _has_no_elements(node: Node) -> bool:
    return node.aval.size == 0 and node.op is not const_p


def _reduces_nothing(node: Node) -> bool:
    return node.src[0].size == 0 and node.size != 0


CONSTANTS: Final = (
    Rule(  # any value without elements -> constant
        "fold_empty",
        Pat(name="node", where=_has_no_elements),
        zeros_like,
    ),
    Rule(  # reduce(value without elements) -> the reduction's identity
        "fold_reduce_of_nothing",
        Pat(REDUCTIONS, Pat(), name="x", where=_reduces_nothing),
        lambda x: identity_like(x.op, x),
    ),
    Rule(  # scatter(x, no updates) -> x
        "fold_scatter_of_nothing",
        Pat(scatter_p, name="x", where=lambda n: n.src[1].size == 0),
        lambda x: x.src[0],
    ),
    Rule(  # op(constants) -> constant
        "fold_constants",
        of_any_arity(lambda n: Pat(ELEMENTWISE, *[Pat(const_p)] * n, name="x")),
        lambda x: const_like(x, evaluate_scalar(x)),
    ),
    Rule(  # movement(c) -> c
        "fold_movement_of_constant",
        Pat(_EVERYWHERE, Pat(const_p, name="c"), name="x"),
        lambda x, c: move_constant(c, x.shape),
    ),
    Rule(  # gather(c, …) -> c
        "fold_gather_of_constant",
        Pat(gather_p, name="x", where=lambda n: n.src[0].op is const_p),
        lambda x: move_constant(x.src[0], x.shape),
    ),
    Rule(  # pad(0) -> 0; shear(0) -> 0
        "fold_padding_of_zero",
        Pat((pad_p, shear_p, unshear_p), Pat(const_p, where=is_zero), name="node"),
        zeros_like,
    ),
    Rule(  # sum(c) -> n·c; prod(c) -> cⁿ; max(c), min(c) -> c
        "reduce_of_constant_collapses",
        Pat(REDUCTIONS, Pat(const_p), name="x"),
        _reduce_constant,
    ),
    Rule(  # copy(c) -> c
        "remove_copy_of_constant",
        Pat(copy, Pat(const_p, name="c")),
        lambda c: c,
    ),
    Rule(  # copy(copy(x)) -> copy(x)
        "merge_copies",
        Pat(copy, Pat(copy, name="x")),
        lambda x: x,
    ),
    Rule(  # stop_gradient(x) -> x
        "remove_stop_gradient",
        Pat(stop_gradient, Pat(name="x")),
        lambda x: x,
    ),
)
