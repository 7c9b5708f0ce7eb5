"""Jacobians and Hessians: vmap of a derivative over the standard basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import DerivativeError
from ftrace.trace.arrays.array import Array
from ftrace.trace.flatten_arguments import Argnums, P, of_arguments, wraps
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import Value, aval_of
from ftrace.transforms import grad
from ftrace.transforms.tangents import holds_numbers
from ftrace.transforms.vmap import vmap


def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The Jacobian of `fun`, column by column in forward mode.

    It takes one pass forward per element of the argument, all of them at once by
    `vmap`: the right choice where there are more outputs than inputs. `jacrev` is the
    other one.

    Args:
      fun: any function of arrays.
      argnums: which positional arguments to differentiate: an int, or several; pytrees
        of arrays of float dtype.
      has_aux: `fun` returns a pair (output, aux).
      holomorphic: arguments and results are complex, and `fun` is holomorphic.

    Returns:
      f(*args, **kwargs) -> a tree like the output whose leaves are trees like the
      argument, of shape output.shape + argument.shape: J[i, j] = ∂out[i] / ∂arg[j]; and
      aux with `has_aux`.

    Raises:
      DerivativeError: an argument is not of a float dtype, or complex and not
        `holomorphic`.

    Example:
      >>> def f(x):
      ...     return fnp.stack([x[0] * x[1], x[0] ** 2, x[1]])
      >>> ft.jacfwd(f)(fnp.array([2.0, 3.0]))
      Array([[3., 2.],
             [4., 0.],
             [0., 1.]], dtype=float32)
    """
    return _jacobian("jacfwd", _by_columns, fun, argnums, has_aux, holomorphic)


def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """The Jacobian of `fun`, row by row in reverse mode.

    It takes one pass back per element of the output, all of them at once by `vmap`: the
    right choice where there are more inputs than outputs. `jacfwd` is the other one.

    Args:
      fun: any function of arrays.
      argnums: which positional arguments to differentiate: an int, or several; pytrees
        of arrays of float or complex dtype.
      has_aux: `fun` returns a pair (output, aux).
      holomorphic: arguments and results are complex, and `fun` is holomorphic.
      allow_int: integer arguments are allowed; their derivative has dtype float0.

    Returns:
      f(*args, **kwargs) -> a tree like the output whose leaves are trees like the
      argument, of shape output.shape + argument.shape: J[i, j] = ∂out[i] / ∂arg[j]; and
      aux with `has_aux`.

    Raises:
      DerivativeError: an argument or result is not of a dtype that has derivatives.

    Example:
      >>> def f(x):
      ...     return fnp.stack([fnp.sum(x), x @ x])
      >>> ft.jacrev(f)(fnp.array([1.0, 2.0, 3.0]))
      Array([[1., 1., 1.],
             [2., 4., 6.]], dtype=float32)
    """
    return _jacobian("jacrev", _by_rows, fun, argnums, has_aux, holomorphic, allow_int)


def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """The matrix of second derivatives: `jacfwd` of `jacrev`.

    Args:
      fun: any function of arrays; mostly one that returns a scalar.
      argnums: which positional arguments to differentiate: an int, or several; pytrees
        of arrays of float dtype.
      has_aux: `fun` returns a pair (output, aux).
      holomorphic: arguments and results are complex, and `fun` is holomorphic.

    Returns:
      f(*args, **kwargs) -> a tree like the output, of trees like the argument, of trees
      like it again; leaves are of shape output.shape + argument.shape + argument.shape:
      H[i, j] = ∂²f / ∂x[i]∂x[j]. And aux with `has_aux`.

    Raises:
      DerivativeError: an argument or result is not of a dtype that has derivatives.

    Example:
      >>> ft.hessian(lambda x: x[0] ** 2 * x[1])(fnp.array([3.0, 5.0]))
      Array([[10.,  6.],
             [ 6.,  0.]], dtype=float32)
    """
    inner = _jacobian(
        "hessian", _by_rows, fun, argnums, has_aux, holomorphic, named=False
    )
    return _jacobian("hessian", _by_columns, inner, argnums, has_aux, holomorphic)


#: For each result what is its derivative in each of the values.
_Blocks = list[list[Value]]


def _jacobian(
    name: str, blocks: Callable[..., tuple[Any, _Blocks, list[Any]]],
    fun: grad.Function, argnums: int | Sequence[int], has_aux: bool, holomorphic: bool,
    allow_int: bool = False, named: bool = True,
) -> grad.Function:  # fmt: skip
    """A Jacobian under the name of what the user has called.

    Args:
      named: has the function what people call it from here?
    """
    tree.check_callable(fun, name)
    chosen = Argnums(name, argnums)
    complex_too = blocks is _by_rows

    @wraps(fun, name if named else "")
    def jacobian_f(*args: Any, **kwargs: Any) -> Any:
        values, treedef, call = of_arguments(fun, chosen, args, kwargs)
        avals = [aval_of(x) for x in values]
        grad.check_inputs(name, avals, holomorphic, allow_int, complex_too)
        output, rows, aux = blocks(name, call, values, has_aux, holomorphic)
        parts = [tree.unflatten(treedef, row) for row in rows]
        parts = [part[0] for part in parts] if chosen.single else parts
        answer = tree.unflatten(tree.structure(output), parts)
        return (answer, *aux) if has_aux else answer

    return jacobian_f


def _by_columns(
    name: str, call: grad.Function, values: Sequence[Value], has_aux: bool,
    holomorphic: bool,
) -> tuple[Any, _Blocks, list[Any]]:  # fmt: skip
    output, push, *aux = grad.linearize_for(name, call, values, has_aux)
    outs = tree.leaves(output)
    _check_outputs(name, outs, holomorphic)
    columns = tree.leaves(vmap(push, out_axes=-1)(*_basis(values)))
    pairs = zip(columns, outs, strict=True)
    return output, [_split(_full(c, x), values, last=True) for c, x in pairs], aux


def _by_rows(
    name: str, call: grad.Function, values: Sequence[Value], has_aux: bool,
    holomorphic: bool,
) -> tuple[Any, _Blocks, list[Any]]:  # fmt: skip
    output, pull, *aux = grad.vjp_for(name, call, values, has_aux)
    outs, out_def = tree.flatten(output)
    _check_outputs(name, outs, holomorphic)
    rows = vmap(pull)(tree.unflatten(out_def, _basis(outs)))
    pairs = zip(rows, values, strict=True)
    columns = [_split(_full(r, x), outs, last=False) for r, x in pairs]
    return output, [[c[i] for c in columns] for i in range(len(outs))], aux


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


def _split(x: Value, like: Sequence[Value], last: bool) -> list[Value]:
    """Parts of an array along its last axis, or the first, in the shapes of values."""
    out: list[Value] = []
    start = 0
    for aval in map(aval_of, like):
        stop = start + aval.size
        part = x[..., start:stop] if last else x[start:stop]
        rest, shape = part.shape[:-1] if last else part.shape[1:], aval.shape
        out.append(part.reshape((*rest, *shape) if last else (*shape, *rest)))
        start = stop
    return out
