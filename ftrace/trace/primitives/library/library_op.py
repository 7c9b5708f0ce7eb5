"""The family of what the host computes: types that are checked, and batching.

That is NumPy's or LAPACK's work where the operation is done at once. In a program it is
a step of the host only if lowering makes no kernel of it (`lower/library/`).

Every operation works on the last axes of its operands; the axes before them are the
same for all. A batched operand has one more of them, in front, and so does an operand
that is not batched once it is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DtypeError, ShapeError
from ftrace.ground.errstate import ignore_errors, restore_errors
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import broadcast as bc, primitive as prim
from ftrace.trace.primitives.library import matrix_nodes as mat
from ftrace.trace.primitives.movement import move_axis, reshape
from ftrace.trace.symbolic import same_size

#: The dtypes that LAPACK computes in.
SUPPORTED = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


def batch_leading(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> prim.Batched:
    """The operation on operands that all have the lanes as their first axis."""
    results = _over_lanes(node, src, batched, size, node.arg)
    return results, [True] * len(results)


def batch_along(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
) -> prim.Batched:
    """The same; the axis of the argument moves."""
    arg = node.arg
    moved = arg + 1 if isinstance(arg, int) else arg._replace(axis=arg.axis + 1)
    return _over_lanes(node, src, batched, size, moved), [True]


def _over_lanes(
    node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int, arg: Any
) -> list[Node]:
    op = node.op
    assert isinstance(op, prim.Compound)
    full = [
        s if has else bc.broadcast_leading(s, (size, *s.shape))
        for s, has in zip(src, batched, strict=True)
    ]
    return op.results(*full, arg=arg)


def no_tangents(node: Node, tangents: prim.Results) -> prim.Results:
    return [None] * len(node.aval.items)


#: The signs of vectors are as under `jit`: NumPy computes float32 in float64, and has
#: others. A call is also shorter, if it is not the first one.
SIGNS = prim.CompiledFrom(1)


def along(
    name: str,
    infer: Callable[..., ShapedArray],
    numpy: Callable[..., prim.Array],
    **facts: Any,
) -> prim.Compound:
    """The record of an operation along an axis, with one result.

    Args:
      infer: (arg, *avals) -> aval.
      numpy: (arg, *arrays) -> array.
      facts: as of `Compound`; where no derivative is among them it is zero.
    """
    facts = {
        "jvp": no_tangents, "batch": batch_along, "dtypes": "biufc", "core": 0, **facts
    }  # fmt: skip

    def infer_one(arg: Any, *avals: ShapedArray) -> tuple[ShapedArray, ...]:
        return (infer(arg, *avals),)

    def compute(avals: Any, arg: Any, *arrays: prim.Array) -> Sequence[prim.Array]:
        return [numpy(arg, *arrays)]

    return host(name, infer_one, compute, **facts)


def host(
    name: str,
    infer: Callable[..., tuple[ShapedArray, ...]],
    numpy: Callable[..., Sequence[Any]],
    tangent: Callable[[Node, Node, Node], prim.Results] | None = None,
    **facts: Any,
) -> prim.Compound:
    """The record of an operation of the host.

    Args:
      name, infer: as of `Compound`.
      numpy: likewise; it returns new arrays, and raises nothing for values that it
        cannot factorise.
      tangent: (node, operand, its tangent) -> tangents, of an operation of one operand.
      facts: as of `Compound`.
    """
    facts = {"batch": batch_leading, "dtypes": "fc", **facts}
    if tangent is not None:
        facts["jvp"] = partial(_tangents_of_one, tangent)

    def quiet(avals: Any, arg: Any, *arrays: Any) -> Sequence[Any]:
        """In a program, too, NaN and infinity are values and no warnings."""
        token = ignore_errors()
        try:
            return numpy(avals, arg, *arrays)
        finally:
            restore_errors(token)

    return prim.Compound(name, "host", infer, quiet, **facts)


def _tangents_of_one(tangent: Any, node: Node, tangents: prim.Results) -> prim.Results:
    return tangent(node, *node.src, *tangents)


# Operations that are linear in their last operand.


def transpose_last(
    name: str, transposed: Callable[[Node], tuple[Sequence[Node], Any]]
) -> Callable[[Node, prim.Results, tuple[bool, ...]], prim.Results]:
    """The transpose of an operation that is linear in its last operand alone.

    Args:
      name: by which messages call it.
      transposed: the other operands and the argument of its transpose.
    """

    def transpose(
        node: Node, cotangents: prim.Results, linear: tuple[bool, ...]
    ) -> prim.Results:
        if any(linear[:-1]):
            raise prim.not_linear(name, node)
        (ct,) = cotangents
        assert ct is not None
        others: list[Node | None] = [None] * (len(node.src) - 1)
        operands, arg = transposed(node)
        op = node.op
        assert isinstance(op, prim.Compound)
        return [*others, *op.results(*operands, ct, arg=arg)]

    return transpose


def solver(
    name: str,
    infer: Callable[..., tuple[ShapedArray, ...]],
    numpy: Callable[..., Sequence[Any]],
    change: Callable[[Node, prim.Results, Node], Node | None],
    transposed: Callable[[Node], tuple[Sequence[Node], Any]],
    *,
    called: str,
    **facts: Any,
) -> prim.Compound:
    """The record of X of A(X) = b, for a linear A; b is the last operand.

    A(X') = b' - A'(X).

    Args:
      name, infer, numpy, facts: as of `host`.
      change: (node, tangents of the operands before b, X) -> A'(X).
      transposed: the operands before b and the argument of the transposed system.
      called: the name in messages.
    """

    def jvp(node: Node, tangents: prim.Results) -> prim.Results:
        *matrix, _ = node.src
        *turns, right = tangents
        if any(t is not None for t in turns):
            (x,) = prim.items(node)
            right = mat.minus(right, change(node, turns, x))
        if right is None:
            return (None,)
        return op.results(*matrix, right, arg=node.arg)

    facts = {"jvp": jvp, "transpose": transpose_last(called, transposed), **facts}
    op = host(name, infer, numpy, **facts)
    return op


def batch_right_side(axis: Callable[[Any], int]) -> Callable[..., prim.Batched]:
    """The batching of X of A(X) = b: one matrix for all lanes, if it is not batched.

    Their right sides become columns of one, or rows.

    Args:
      axis: which axis of b that is, by the argument: -1 or -2.
    """

    def batch(
        node: Node, src: tuple[Node, ...], batched: tuple[bool, ...], size: int
    ) -> prim.Batched:
        *matrix, b = src
        if any(batched[:-1]):
            return batch_leading(node, src, batched, size)
        # (lanes, …, n, k) -> (…, n, lanes·k), or the rows likewise.
        place = b.ndim + axis(node.arg) - 1  # of the lanes, once they are not in front
        moved = move_axis(b, 0, place)
        shape = moved.shape[:place], moved.shape[place + 2 :]
        lanes = moved.shape[place] * moved.shape[place + 1]
        op = node.op
        assert isinstance(op, prim.Compound)
        folded = reshape(moved, (*shape[0], lanes, *shape[1]))
        (x,) = op.results(*matrix, folded, arg=node.arg)
        return [move_axis(reshape(x, moved.shape), place, 0)], [True]

    return batch


# Types.


def need_lapack(name: str, *avals: ShapedArray) -> None:
    """Raises unless all have one dtype, in which LAPACK computes."""
    for x in avals:
        if x.dtype not in SUPPORTED:
            raise DtypeError(
                f"{name}: the dtype must be float32, float64, complex64 or complex128, "
                f"got {x!r}; convert with .astype('float32')"
            )
        if x.dtype != avals[0].dtype:
            raise DtypeError(
                f"{name}: the operands differ in dtype: {avals[0]!r} and {x!r}; "
                "convert one of them with .astype"
            )


def need_matrices(name: str, *avals: ShapedArray) -> None:
    """`need_lapack`, of operands of two axes or more, the same but for the last two."""
    need_lapack(name, *avals)
    for x in avals:
        if x.ndim < 2:
            raise ShapeError(f"{name}: matrices (…, m, n) are required, got {x!r}")
        if not same_size(x.shape[:-2], avals[0].shape[:-2]):
            raise ShapeError(
                f"{name}: the axes before the last two must be the same, got "
                f"{avals[0]!r} and {x!r}; broadcast one of them"
            )


def need_square(name: str, x: ShapedArray) -> None:
    need_matrices(name, x)
    if not same_size(x.shape[-1], x.shape[-2]):
        raise ShapeError(f"{name}: square matrices (…, n, n) are required, got {x!r}")


def of_square(
    name: str, *results: Callable[[ShapedArray], ShapedArray]
) -> Callable[..., tuple[ShapedArray, ...]]:
    """The rule of types for results of square matrices."""

    def infer(arg: Any, a: ShapedArray) -> tuple[ShapedArray, ...]:
        need_square(name, a)
        return tuple(result(a) for result in results)

    return infer


def keep(x: ShapedArray) -> ShapedArray:
    return x


def real_of(x: ShapedArray, shape: Shape) -> ShapedArray:
    """The type of real results of an operand."""
    return ShapedArray.of(shape, dtypes.real_dtype(x.dtype), x.weak_type)


def complex_of(x: ShapedArray, shape: Shape) -> ShapedArray:
    """The type of complex results of an operand."""
    if dtypes.is_complex(x.dtype):
        return x.with_shape(shape)
    return ShapedArray.of(shape, dtypes.complex_dtype(x.dtype), x.weak_type)


def integers(shape: Shape) -> ShapedArray:
    return ShapedArray.of(shape, np.dtype(np.int32))
