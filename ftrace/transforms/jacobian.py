"""Jacobians and Hessians: vmap of a derivative over the standard basis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import Any

import numpy as np

from ftrace.array import Array
from ftrace.trace import tree
from ftrace.trace.tracer import Value, aval_of
from ftrace.transforms.arguments import check_callable, of_arguments
from ftrace.transforms.derivatives import Function, check_inputs, linearize, vjp
from ftrace.transforms.vmap import vmap


def jacfwd(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function:
    """The Jacobian of `fun`, column by column in forward mode.

    Returns:
      f(*args) -> a tree like the output whose leaves are trees like the argument, of
      shape output.shape + argument.shape; and aux with `has_aux`.
    """
    check_callable(fun, "jacfwd")

    @wraps(fun)
    def jacfwd_f(*args: Any, **kwargs: Any) -> Any:
        values, treedef, call = of_arguments(fun, argnums, args, kwargs, "jacfwd")
        check_inputs([aval_of(x) for x in values], holomorphic, False)
        sizes = [aval_of(x).size for x in values]
        _, push, *aux = linearize(call, *values, has_aux=has_aux)
        basis = _basis(values)
        columns = vmap(push, out_axes=-1)(*basis)
        outs, out_def = tree.flatten(columns)
        shapes = [aval_of(x).shape for x in values]
        rows: list[Any] = []
        for out in outs:
            parts = _split_last(out, sizes, shapes)
            rows.append(_as_argument(treedef, parts, argnums))
        answer = tree.unflatten(out_def, rows)
        return (answer, *aux) if has_aux else answer

    return jacfwd_f


def jacrev(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Function:
    """The Jacobian of `fun`, row by row in reverse mode; see `jacfwd`."""
    check_callable(fun, "jacrev")

    @wraps(fun)
    def jacrev_f(*args: Any, **kwargs: Any) -> Any:
        values, treedef, call = of_arguments(fun, argnums, args, kwargs, "jacrev")
        check_inputs([aval_of(x) for x in values], holomorphic, allow_int)
        output, pull, *aux = vjp(call, *values, has_aux=has_aux)
        outs, out_def = tree.flatten(output)
        basis = _basis(outs)
        cotangents = tree.unflatten(out_def, basis)
        grads = vmap(pull)(cotangents)
        shapes = [aval_of(x).shape for x in outs]
        sizes = [aval_of(x).size for x in outs]
        per_argument = [_split_first(g, sizes, shapes) for g in grads]
        rows = [
            _as_argument(treedef, [parts[i] for parts in per_argument], argnums)
            for i in range(len(outs))
        ]
        answer = tree.unflatten(out_def, rows)
        return (answer, *aux) if has_aux else answer

    return jacrev_f


def hessian(
    fun: Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Function:
    """The matrix of second derivatives: jacfwd of jacrev."""
    return jacfwd(
        jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic
    )


def _as_argument(treedef: tree.TreeDef, parts: Sequence[Value], argnums: Any) -> Any:
    answer = tree.unflatten(treedef, parts)
    return answer if isinstance(argnums, (tuple, list)) else answer[0]


def _basis(values: Sequence[Value]) -> list[Array]:
    """For each value its part of the standard basis of all of them together."""
    avals = [aval_of(x) for x in values]
    total = sum(a.size for a in avals)
    parts: list[Array] = []
    start = 0
    for aval in avals:
        part: Any = np.zeros((total, aval.size), aval.dtype)
        np.fill_diagonal(part[start : start + aval.size], 1)
        parts.append(Array.of(part.reshape((total, *aval.shape))))
        start += aval.size
    return parts


def _split_last(x: Value, sizes: Sequence[int], shapes: Sequence[Any]) -> list[Value]:
    out: list[Value] = []
    start = 0
    for size, shape in zip(sizes, shapes, strict=True):
        part = x[..., start : start + size]
        out.append(part.reshape((*part.shape[:-1], *shape)))
        start += size
    return out


def _split_first(x: Value, sizes: Sequence[int], shapes: Sequence[Any]) -> list[Value]:
    out: list[Value] = []
    start = 0
    for size, shape in zip(sizes, shapes, strict=True):
        part = x[start : start + size]
        out.append(part.reshape((*shape, *part.shape[1:])))
        start += size
    return out
