"""Jacobians and Hessians: vmap of a derivative over the standard basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DerivativeError
from ftrace.trace.arrays.array import Array
from ftrace.trace.flatten_arguments import Argnums, of_arguments, wraps
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms import grad
from ftrace.transforms.tangents import holds_numbers
from ftrace.transforms.vmap import vmap


def jacfwd(
    fun: grad.Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> grad.Function:
    """The Jacobian of `fun`, column by column in forward mode.

    Returns:
      f(*args) -> a tree like the output whose leaves are trees like the argument, of
      shape output.shape + argument.shape; and aux with `has_aux`.
    """
    return _jacfwd("jacfwd", fun, argnums, has_aux, holomorphic)


def _jacfwd(
    name: str, fun: grad.Function, argnums: int | Sequence[int], has_aux: bool,
    holomorphic: bool,
) -> grad.Function:  # fmt: skip
    """`jacfwd`, under the name of what the user has called."""
    tree.check_callable(fun, name)
    chosen = Argnums(name, argnums)

    @wraps(fun)
    def jacfwd_f(*args: Any, **kwargs: Any) -> Any:
        values, treedef, call = of_arguments(fun, chosen, args, kwargs)
        avals = [aval_of(x) for x in values]
        grad.check_inputs(name, avals, holomorphic, False, complex_too=False)
        sizes = [a.size for a in avals]
        output, push, *aux = grad.linearize_for(name, call, values, has_aux)
        _check_outputs(name, tree.leaves(output), holomorphic)
        basis = _basis(values)
        columns = vmap(push, out_axes=-1)(*basis)
        outs, out_def = tree.flatten(columns)
        shapes = [a.shape for a in avals]
        rows: list[Any] = []
        for out, value in zip(outs, tree.leaves(output), strict=True):
            parts = _split(_full(out, value), sizes, shapes, last=True)
            rows.append(_as_argument(treedef, parts, chosen))
        answer = tree.unflatten(out_def, rows)
        return (answer, *aux) if has_aux else answer

    return jacfwd_f


def jacrev(
    fun: grad.Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> grad.Function:
    """The Jacobian of `fun`, row by row in reverse mode; see `jacfwd`."""
    return _jacrev("jacrev", fun, argnums, has_aux, holomorphic, allow_int)


def _jacrev(
    name: str, fun: grad.Function, argnums: int | Sequence[int], has_aux: bool,
    holomorphic: bool, allow_int: bool,
) -> grad.Function:  # fmt: skip
    """`jacrev`, under the name of what the user has called."""
    tree.check_callable(fun, name)
    chosen = Argnums(name, argnums)

    @wraps(fun)
    def jacrev_f(*args: Any, **kwargs: Any) -> Any:
        values, treedef, call = of_arguments(fun, chosen, args, kwargs)
        grad.check_inputs(name, [aval_of(x) for x in values], holomorphic, allow_int)
        output, pull, *aux = grad.vjp_for(name, call, values, has_aux)
        outs, out_def = tree.flatten(output)
        _check_outputs(name, outs, holomorphic)
        basis = _basis(outs)
        cotangents = tree.unflatten(out_def, basis)
        grads = vmap(pull)(cotangents)
        shapes = [aval_of(x).shape for x in outs]
        sizes = [aval_of(x).size for x in outs]
        pairs = zip(grads, values, strict=True)
        per_argument = [_split(_full(g, x), sizes, shapes, False) for g, x in pairs]
        rows = [
            _as_argument(treedef, [parts[i] for parts in per_argument], chosen)
            for i in range(len(outs))
        ]
        answer = tree.unflatten(out_def, rows)
        return (answer, *aux) if has_aux else answer

    return jacrev_f


def hessian(
    fun: grad.Function,
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> grad.Function:
    """The matrix of second derivatives: jacfwd of jacrev."""
    inner = _jacrev("hessian", fun, argnums, has_aux, holomorphic, False)
    return _jacfwd("hessian", inner, argnums, has_aux, holomorphic)


def _check_outputs(transform: str, outputs: Sequence[Value], holomorphic: bool) -> None:
    """Raises for results without a Jacobian.

    That of integers is zero in forward mode, as in JAX.
    """
    fits = dtypes.is_complex if holomorphic else _FITTING[transform]
    for value in outputs:
        aval = aval_of(value)
        if not fits(aval.dtype):
            wanted = "complex" if holomorphic else "real float"
            raise DerivativeError(
                f"{transform} needs results of a {wanted} dtype, got {aval!r}; return "
                "what has no derivative as aux with has_aux=True, or convert it with "
                ".astype"
            )


_FITTING: dict[str, Callable[[Any], bool]] = {
    "jacfwd": lambda dtype: dtype not in (dtypes.bool_, dtypes.float0),
    "jacrev": dtypes.is_float,
    "hessian": dtypes.is_float,
}


def _as_argument(treedef: tree.TreeDef, parts: Sequence[Value], chosen: Argnums) -> Any:
    answer = tree.unflatten(treedef, parts)
    return answer[0] if chosen.single else answer


def _full(derivative: Value, like: Value) -> Value:
    """A derivative; zeros of the dtype of `like` where it is float0."""
    if holds_numbers(aval_of(derivative)):
        return derivative
    aval = aval_of(like)
    return Array.of(np.zeros(derivative.shape, aval.dtype), aval.weak_type)


def _basis(values: Sequence[Value]) -> list[Array]:
    """For each value its part of the standard basis of all of them together."""
    avals = [aval_of(x) for x in values]
    total = sum(a.size for a in avals)
    parts: list[Array] = []
    start = 0
    for aval in avals:
        part: Any = np.zeros((total, aval.size), aval.dtype)
        np.fill_diagonal(part[start : start + aval.size], 1)
        parts.append(Array.of(part.reshape((total, *aval.shape)), aval.weak_type))
        start += aval.size
    return parts


def _split(
    x: Value, sizes: Sequence[int], shapes: Sequence[Any], last: bool
) -> list[Value]:
    """Parts of an array along its last axis, or the first, each in a shape."""
    out: list[Value] = []
    start = 0
    for size, shape in zip(sizes, shapes, strict=True):
        part = x[..., start : start + size] if last else x[start : start + size]
        rest = part.shape[:-1] if last else part.shape[1:]
        out.append(part.reshape((*rest, *shape) if last else (*shape, *rest)))
        start += size
    return out
