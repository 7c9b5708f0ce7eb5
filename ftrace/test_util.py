"""`check_grads`: derivatives held against finite differences, as in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground.missing_names import tell_missing
from ftrace.trace.flatten_arguments import display_name, wraps
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Function, aval_of
from ftrace.transforms.grad import jvp, vjp
from ftrace.transforms.jit.jit import Jitted

#: By the least precise dtype among arguments and results: tolerance, and step.
_TOLERANCE = {2: 5e-2, 4: 6e-3, 8: 1e-5}
_STEP = {2: 3e-2, 4: 1e-2, 8: 1e-5}

#: One for all dtypes, or by dtype.
Tolerance = float | None | Mapping[Any, float]


def check_grads(
    f: Function,
    args: Sequence[Any],
    order: int,
    modes: str | Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Raises unless jvp and vjp of `f` agree with central differences.

    Args:
      f: a function of pytrees of float or complex arrays.
      args: where to check.
      order: up to which order of derivative.
      modes: "fwd" checks jvp, "rev" vjp; both by default.
      atol, rtol: tolerances, or dictionaries of them by dtype; by default by the least
        precise dtype.
      eps: the step of the differences.

    Raises:
      GradientCheckError: a derivative is not the finite difference; an AssertionError.
        It names the function, and the leaf of the arguments by which it is wrong.
      DerivativeError: an argument or a result is neither float nor complex.
      ValueRangeError: a mode is unknown.
      ArgumentError: `f` is no function, `args` no tuple or list, `order` no integer.

    Example:
      >>> ft.testing.check_grads(lambda x: fnp.sin(x) ** 2, (0.5,), order=2)
    """
    tree.check_callable(f, "check_grads")
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    for mode in modes:
        errors.one_of("check_grads: modes", mode, ("fwd", "rev"))
    for name, value, kinds in (("args", args, (tuple, list)), ("order", order, int)):
        if not isinstance(value, kinds):
            raise errors.ArgumentError(
                f"check_grads: {name} is a {type(value).__name__}; it takes a tuple of "
                "the arguments and an order, write check_grads(f, (x,), order=1)"
            )
    rng = np.random.default_rng(0)
    pending = [(f, tuple(args), order, display_name(f))]
    while pending:
        function, values, left, name = pending.pop()
        if left <= 0:
            continue
        if "fwd" in modes:
            check_jvp(function, partial(jvp, function), values, atol, rtol, eps, name)
            forward = _forward(f, function, random_like(values, rng))
            pending.append((forward, values, left - 1, f"jvp of {name}"))
        if "rev" in modes:
            check_vjp(function, partial(vjp, function), values, atol, rtol, eps, name)
            reverse = _reverse(f, function, random_like(function(*values), rng))
            pending.append((reverse, values, left - 1, f"vjp of {name}"))


def _of_dtype(tolerance: Tolerance, args: Sequence[Any]) -> float | None:
    """What is given for the dtypes of the arguments; of several the greatest."""
    if not isinstance(tolerance, Mapping):
        return tolerance
    given = {np.dtype(kind): value for kind, value in tolerance.items()}
    kinds = {aval_of(x).dtype for x in tree.leaves(tuple(args))}
    return max((given[kind] for kind in kinds if kind in given), default=None)


def check_jvp(
    f: Function,
    f_jvp: Function,
    args: tuple[Any, ...],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Raises unless `f_jvp` along one direction is the central difference of `f`.

    Args:
      f: a function of pytrees of float or complex arrays.
      f_jvp: of arguments and tangents, as `partial(jvp, f)`.
      args, atol, rtol, eps: as those of `check_grads`.
      err_msg: what is checked, for the message.
    """
    name = err_msg or display_name(f)
    tangents = random_like(args, np.random.default_rng(0))
    value, _ = f_jvp(args, tangents)
    compare = partial(_compare, _width((args, value)), atol, rtol, args)
    compare(f"the value of {name}'s jvp, beside f", value, numpy_leaves(f(*args)))

    def check_along(tangents: Any, by: str) -> None:
        expected, _ = _difference(f, args, tangents, eps)
        what = f"the jvp of {name}{by} is not the finite difference"
        compare(what, f_jvp(args, tangents)[1], expected)

    _check_leaves(check_along, f, args, tangents)


def check_vjp(
    f: Function,
    f_vjp: Function,
    args: tuple[Any, ...],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Raises unless ⟨f_vjp(…)(ȳ), ẋ⟩ is ⟨ȳ, central difference of `f` along ẋ⟩.

    Args:
      f: a function of pytrees of float or complex arrays.
      f_vjp: of the arguments, as `partial(vjp, f)`.
      args, atol, rtol, eps, err_msg: as those of `check_jvp`.
    """
    name, rng = err_msg or display_name(f), np.random.default_rng(0)
    tangents = random_like(args, rng)
    value, pullback = f_vjp(*args)
    cotangents = random_like(value, rng)
    found = numpy_leaves(pullback(cotangents))
    compare = partial(_compare, _width((args, value)), atol, rtol, args)
    compare(f"the value of {name}'s vjp, beside f", value, numpy_leaves(f(*args)))

    def check_along(tangents: Any, by: str) -> None:
        expected, size = _difference(f, args, tangents, eps)
        left = inner_product(found, numpy_leaves(tangents))
        right = inner_product(numpy_leaves(cotangents), expected)
        what = f"the vjp of {name}{by} is not the finite difference"
        compare(what, [left], [right], size)

    _check_leaves(check_along, f, args, tangents)


def _check_leaves(
    check_along: Callable[[Any, str], None], f: Function, args: Any, tangents: Any
) -> None:
    """A check along tangents; where it fails, of each leaf's alone: which one is it?"""
    try:
        check_along(tangents, "")
        return
    except errors.GradientCheckError as error:
        failed = error
    leaves, structure = tree.flatten(tangents)
    for i, name in enumerate(Jitted(f).leaf_names(args, {})):
        alone = [x if k == i else np.zeros_like(x) for k, x in enumerate(leaves)]
        check_along(tree.unflatten(structure, alone), f" by {name}")
    raise failed


def _forward(of: Function, f: Function, tangents: Any) -> Function:
    """The jvp of `f`, whose arguments are called as those of `of`."""

    @wraps(of)
    def forward(*args: Any) -> Any:
        return jvp(f, args, tangents)[1]

    return forward


def _reverse(of: Function, f: Function, cotangents: Any) -> Function:

    @wraps(of)
    def reverse(*args: Any) -> Any:
        return vjp(f, *args)[1](cotangents)

    return reverse


def numpy_leaves(values: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(asarray(x)) for x in tree.leaves(values)]


def random_like(values: Any, rng: np.random.Generator) -> Any:
    """Random values of the same structure, shapes and dtypes."""

    def draw(value: Any) -> Any:
        array = np.asarray(asarray(value))
        if not dtypes.is_inexact(array.dtype):
            raise errors.DerivativeError(
                f"check_grads needs float or complex values, got {array.dtype}; close "
                "over the others"
            )
        random = rng.standard_normal(array.shape)
        if dtypes.is_complex(array.dtype):
            random = random + 1j * rng.standard_normal(array.shape)
        return np.asarray(random).astype(array.dtype)

    return tree.map(draw, values)


def _width(values: Any) -> int:
    """Bytes of a real number of the least precise dtype."""
    found = [x.real.dtype.itemsize for x in numpy_leaves(values)]
    return min(found, default=4)


def _difference(
    f: Function, args: tuple[Any, ...], tangents: Any, eps: float | None
) -> tuple[list[np.ndarray[Any, Any]], float]:
    """The central difference of each result along `tangents`, and its magnitude."""
    step = _STEP[_width(args)] if eps is None else eps

    def shift(sign: float) -> list[np.ndarray[Any, Any]]:
        shifted = tree.map(
            lambda x, t: (np.asarray(asarray(x)) + sign * step / 2 * t).astype(t.dtype),
            args, tangents,
        )  # fmt: skip
        return numpy_leaves(f(*shifted))

    pairs = zip(shift(1), shift(-1), strict=True)
    found = [_widen(high) / step - _widen(low) / step for high, low in pairs]
    return found, max([float(np.max(np.abs(x), initial=0)) for x in found], default=0.0)


def _widen(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.astype(np.complex128 if dtypes.is_complex(x.dtype) else np.float64)


def inner_product(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """⟨x, y⟩ without conjugation: vjp is the transpose, not the adjoint."""
    pairs = zip(xs, ys, strict=True)
    total = sum((_widen(x) * _widen(y)).sum() for x, y in pairs)
    return np.real(np.asarray(total))


def _compare(
    width: int,
    atol: Tolerance,
    rtol: Tolerance,
    args: Any,
    what: str,
    gots: Any,
    wants: Sequence[Any],
    magnitude: float = 1.0,
) -> None:
    tolerance = _TOLERANCE[width]
    atol, rtol = _of_dtype(atol, args), _of_dtype(rtol, args)
    absolute = tolerance * max(1.0, magnitude) if atol is None else atol
    relative = tolerance if rtol is None else rtol
    for got, want in zip(numpy_leaves(gots), wants, strict=True):
        if not np.allclose(_widen(got), want, relative, absolute, True):
            error = np.max(np.abs(got - want))
            raise errors.GradientCheckError(
                f"check_grads: {what}: they differ by {error} where "
                f"{absolute} + {relative} · |value| is allowed; got\n"
                f"{got}\nand the difference is\n{want}"
            )


tell_missing(__name__)
