"""softmax, log_softmax and logsumexp: exponentials that are scaled before they add up.

    m = max(x);  softmax = exp(x - m) / sum(exp(x - m))

The maximum takes no part in the derivative. The structure is kept plain, so that each
of them becomes one kernel. They belong to `ftrace.nn` and `ftrace.scipy.special`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.numpy.axes import (
    Axis,
    as_value,
    broadcast_to,
    canonical_axes,
    cast,
    choose,
    drop_axes,
    full,
)
from ftrace.numpy.elementwise import values_together
from ftrace.numpy.reductions import check_where, reduced
from ftrace.trace.avals import pairs_of
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import bind, broadcast_shapes, elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.reduction import reduce_max_p
from ftrace.trace.tracer import Value, aval_of


def _inexact(x: Value) -> Any:
    x = as_value(x)
    return x if dtypes.is_inexact(x.dtype) else cast(x, dtypes.to_inexact(x.dtype))


def _masked(name: str, x: Any, where: Value | None) -> list[Any]:
    """The operands: the value, and the mask where there is one."""
    return [x] if where is None else [x, check_where(name, where, x.shape)]


def _scalar(x: Any, value: float) -> Any:
    return full((), value, x.dtype)


def softmax(x: Value, axis: Axis = -1, where: Value | None = None) -> Any:
    """Exponentials along `axis`, divided by their sum.

    Args:
      x: the array.
      axis: an axis, several, or None for all.
      where: a mask of the elements that count; the others give 0.
    """
    x = _inexact(x)
    axes = canonical_axes(axis, x.ndim, "softmax")
    return run_fused(_softmax, _masked("softmax", x, where), axes=axes)


def _softmax(x: Any, *mask: Any, axes: tuple[int, ...]) -> Any:
    if mask:
        x = choose(mask[0], x, _scalar(x, -np.inf))
    powers = bind(p.exp, _shifted(x, axes))
    result = elementwise(p.div, powers, reduced(reduce_sum_p, powers, axes, True))
    return choose(mask[0], result, _scalar(x, 0)) if mask else result


def _shifted(x: Any, axes: tuple[int, ...]) -> Any:
    """`x` less its maximum, of complex numbers that of their real parts.

    The maximum is constant to derivatives.
    """
    size = bind(p.real, x) if dtypes.is_complex(x.dtype) else x
    top = bind(p.stop_gradient, reduced(reduce_max_p, size, axes, True))
    return elementwise(p.sub, x, top)


def log_softmax(x: Value, axis: Axis = -1, where: Value | None = None) -> Any:
    """The logarithm of `softmax`; arguments as there. Masked elements give -inf."""
    x = _inexact(x)
    axes = canonical_axes(axis, x.ndim, "log_softmax")
    return run_fused(_log_softmax, _masked("log_softmax", x, where), axes=axes)


def _log_softmax(x: Any, *mask: Any, axes: tuple[int, ...]) -> Any:
    if mask:
        x = choose(mask[0], x, _scalar(x, -np.inf))
    shifted = _shifted(x, axes)
    total = reduced(reduce_sum_p, bind(p.exp, shifted), axes, True)
    result = elementwise(p.sub, shifted, bind(p.log, total))
    return choose(mask[0], result, _scalar(x, -np.inf)) if mask else result


def logsumexp(
    a: Value,
    axis: Axis = None,
    b: Value | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Value | None = None,
) -> Any:
    """log(sum(b·exp(a))) along `axis`, without overflow.

    Args:
      a: the array.
      axis: an axis, several, or None for all.
      b: factors; they broadcast with `a`.
      keepdims: the reduced axes stay, with size 1.
      return_sign: return (log of the absolute value, sign of the sum).
      where: a mask of the elements that count.

    Returns:
      The logarithm; NaN where the sum is negative and its sign is not asked for.
    """
    factors = None
    if b is None:
        a = as_value(a)
    else:
        a, factors = values_together([a, b])
        avals = [aval_of(a), aval_of(factors)]
        dtype, _ = dtypes.promote(*pairs_of(avals))
        if not dtypes.is_inexact(dtype):
            dtype = dtypes.to_inexact(dtype)
        shape = broadcast_shapes("logsumexp", [a.shape, factors.shape])
        a = broadcast_to(cast(a, dtype), shape, "logsumexp")
        factors = broadcast_to(cast(factors, dtype), shape, "logsumexp")
    a = _inexact(a)
    axes = canonical_axes(axis, a.ndim, "logsumexp")
    mask = check_where("logsumexp", where, a.shape)
    if factors is not None:
        here = bind(p.ne, factors, full(factors.shape, 0, factors.dtype))
        mask = here if mask is None else bind(p.bit_and, mask, here)
    operands = [x for x in (a, mask, factors) if x is not None]
    options: dict[str, Any] = {
        "axes": axes, "masked": mask is not None, "scaled": factors is not None,
    }  # fmt: skip
    result = run_fused(_logsumexp, operands, part=0, **options)
    kept = result if keepdims else drop_axes(result, axes)
    if return_sign:
        sign = run_fused(_logsumexp, operands, part=1, **options)
        kept = bind(p.real, kept) if dtypes.is_complex(a.dtype) else kept
        return kept, sign if keepdims else drop_axes(sign, axes)
    if factors is None or dtypes.is_complex(a.dtype):
        return kept
    sign = run_fused(_logsumexp, operands, part=1, **options)
    sign = sign if keepdims else drop_axes(sign, axes)
    return choose(elementwise(p.lt, sign, 0), _scalar(kept, np.nan), kept)


def _logsumexp(
    a: Any, *rest: Any, axes: tuple[int, ...], masked: bool, scaled: bool, part: int
) -> Any:
    """The logarithm (part 0) or the sign (part 1) of the sum; axes are kept."""
    size = bind(p.real, a) if dtypes.is_complex(a.dtype) else a
    if masked:
        a = choose(rest[0], a, _scalar(a, -np.inf))
        size = choose(rest[0], size, _scalar(size, -np.inf))
    top = finite_maximum(size, axes)
    powers = elementwise(p.exp, elementwise(p.sub, a, top))
    if scaled:
        powers = bind(p.mul, powers, rest[-1])
    total = reduced(reduce_sum_p, powers, axes, True)
    if part:
        return bind(p.sign, total)
    if scaled and not dtypes.is_complex(a.dtype):
        total = bind(p.absolute, total)
    return elementwise(p.add, bind(p.log, total), top)


def finite_maximum(x: Any, axes: tuple[int, ...]) -> Any:
    """The maximum, constant to derivatives; 0 where it is infinite or NaN."""
    top = bind(p.stop_gradient, reduced(reduce_max_p, x, axes, True))
    return choose(bind(p.is_finite, top), top, _scalar(top, 0))


def log_sum_exp(x: Any, axes: tuple[int, ...]) -> Any:
    """log(sum(exp(x))) of a real value; the axes stay."""
    return _logsumexp(x, axes=axes, masked=False, scaled=False, part=0)
