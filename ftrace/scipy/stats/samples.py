"""What samples are like: the commonest value, ranks, the error of a mean, a density."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes, errors, random
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.lax.reductions import cummax, cummin
from ftrace.numpy.axes import as_value, canonical_axis, cast, choose, need_shape
from ftrace.numpy.elementwise import promote_inexact
from ftrace.scipy.linalg import cho_factor, cho_solve
from ftrace.scipy.special import logsumexp, ndtr
from ftrace.trace.tracing.tracer import Value
from ftrace.tree_util import register_dataclass

__all__ = ["ModeResult", "gaussian_kde", "mode", "rankdata", "sem"]

Axis = int | None


def _check_policy(name: str, policy: str) -> None:
    errors.one_of(f"{name}: nan_policy", policy, ("propagate", "omit", "raise"))
    if policy != "propagate":
        raise errors.UnsupportedError(
            f"{name}: nan_policy={policy!r} is not supported, since what is computed "
            "does not depend on values; look for NaN outside"
        )


class ModeResult(NamedTuple):
    """The commonest values, and how often they occur."""

    mode: Any
    count: Any


def mode(
    a: Value, axis: Axis = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The commonest value along an axis (None: of all), and how often it occurs.

    Of several the least; NaN is one value, the greatest. Of nothing NaN, 0 times.

    Args:
      a: an array.
      axis: the axis, or None for all elements.
      nan_policy: "propagate".
      keepdims: leaves the axis in the result, with size 1.

    Returns:
      `ModeResult(mode, count)`.

    Raises:
      UnsupportedError: the policy is not "propagate".

    Example:
      >>> ft.scipy.stats.mode(fnp.array([3, 1, 3, 2]))
      ModeResult(mode=Array(3, dtype=int32), count=Array(2, dtype=int32))
    """
    _check_policy("mode", nan_policy)
    x = fnp.atleast_1d(as_value(a))
    ones = (1,) * x.ndim
    if axis is None:
        x, axis = fnp.ravel(x), 0
    else:
        axis = canonical_axis(axis, x.ndim, "mode")
        ones = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    shape = ones if keepdims else tuple(np.delete(x.shape, axis).tolist())
    if not x.shape[axis]:
        default = dtypes.default_dtype("f")
        empty = fnp.zeros(shape, default)
        return ModeResult(empty + math.nan, empty)
    ordered = fnp.sort(fnp.moveaxis(x, axis, -1), axis=-1)
    first, last = (_ends_of_runs(ordered, last) for last in (False, True))
    count = last - first + 1
    best = fnp.argmax(count, axis=-1, keepdims=True)
    found = [fnp.take_along_axis(v, best, axis=-1) for v in (ordered, count)]
    return ModeResult(*[fnp.reshape(v, shape) for v in found])


def _ends_of_runs(ordered: Any, last: bool) -> Any:
    """Where the run of equal elements along the last axis begins or ends."""
    size = ordered.shape[-1]
    place = fnp.broadcast_to(fnp.arange(size), ordered.shape)
    a, b = ordered[..., 1:], ordered[..., :-1]
    other = (a != b) & ~((a != a) & (b != b))
    edge = fnp.ones_like(ordered[..., :1], dtype=bool)
    if last:
        ends = choose(fnp.concatenate([other, edge], axis=-1), place, size)
        return cummin(ends, ends.ndim - 1, reverse=True)
    begins = choose(fnp.concatenate([edge, other], axis=-1), place, 0)
    return cummax(begins, begins.ndim - 1)


def rankdata(
    a: Value,
    method: str = "average",
    *,
    axis: Axis = None,
    nan_policy: str = "propagate",
) -> Any:
    """The ranks of elements, from 1; equal ones share a rank.

    Args:
      a: an array.
      method: what equal elements get: "average", "min", "max" of their places, "dense":
        the number of different elements up to them, "ordinal": each its own.
      axis: along which elements are ranked; None: all of them, flattened.
      nan_policy: "propagate": NaN makes all ranks beside it NaN.

    Raises:
      ValueRangeError: there is no such method.
      UnsupportedError: the policy is not "propagate".

    Example:
      >>> ft.scipy.stats.rankdata(fnp.array([10, 30, 10, 20]))
      Array([1.5, 4. , 1.5, 3. ], dtype=float32)
    """
    _check_policy("rankdata", nan_policy)
    errors.one_of(
        "rankdata: method", method, ("average", "min", "max", "dense", "ordinal")
    )
    x = as_value(a)
    x = fnp.ravel(x) if axis is None else fnp.moveaxis(x, axis, -1)
    default = dtypes.default_dtype("f")
    if not x.size:
        ranks = fnp.zeros(x.shape, default)
    else:
        order = fnp.argsort(x, axis=-1, stable=True)
        back = fnp.argsort(order, axis=-1)
        ordered = fnp.take_along_axis(x, order, axis=-1)
        ranks = cast(_ranks(ordered, method), default)
        ranks = fnp.take_along_axis(ranks, back, axis=-1)
        if dtypes.is_inexact(x.dtype):
            lost = fnp.any(fnp.isnan(x), axis=-1, keepdims=True)
            ranks = choose(lost, math.nan, ranks)
    return ranks if axis is None else fnp.moveaxis(ranks, -1, axis)


def _ranks(ordered: Any, method: str) -> Any:
    """Of elements in order, along the last axis."""
    if method == "ordinal":
        return fnp.broadcast_to(fnp.arange(1, ordered.shape[-1] + 1), ordered.shape)
    first = _ends_of_runs(ordered, False)
    if method == "dense":
        new = first == fnp.arange(ordered.shape[-1])
        return fnp.cumsum(new, axis=-1)
    if method == "min":
        return first + 1
    last = _ends_of_runs(ordered, True)
    return last + 1 if method == "max" else 0.5 * (first + last) + 1


def sem(
    a: Value,
    axis: Axis = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Any:
    """The standard error of the mean: std/√n.

    Args:
      a: an array.
      axis: of the samples; None: all elements are.
      ddof: degrees of freedom that are lost.
      nan_policy: "propagate", or "omit" to leave NaN out.
      keepdims: leaves the axis in the result, with size 1.

    Raises:
      ValueRangeError: there is no such policy.

    Example:
      >>> ft.scipy.stats.sem(fnp.array([1.0, 2.0, 3.0]))
      Array(0.57735026, dtype=float32)
    """
    errors.one_of("sem: nan_policy", nan_policy, ("propagate", "omit"))
    (x,) = promote_inexact(a)
    if nan_policy == "omit":
        std = fnp.nanstd(x, axis, ddof=ddof, keepdims=keepdims)
        count = fnp.sum(~fnp.isnan(x), axis, keepdims=keepdims)
        return std / cast(fnp.sqrt(count), x.dtype)
    std = fnp.std(x, axis, ddof=ddof, keepdims=keepdims)
    size = x.size if axis is None else x.shape[axis]
    return std / cast(math.sqrt(size), x.dtype)


_FIELDS = ("neff", "dataset", "weights", "covariance", "inv_cov")
BwMethod = None | str | Value | Callable[[Any], Any]


@partial(register_dataclass, data_fields=_FIELDS, meta_fields=())
class gaussian_kde:
    """The density of samples, as a sum of normal densities, one around each.

    Attributes:
      dataset: of shape (d, n).
      weights: their sum is 1.
      neff: the effective number of samples.
      covariance, inv_cov: of each density.

    Args:
      dataset: samples of shape (n,) or (d, n).
      bw_method: the width: "scott" (the default), "silverman", a factor of the standard
        deviation, or a function of this object that gives one.
      weights: of the samples, of shape (n,); equal by default.

    Raises:
      ShapeError: there is a single sample, or weights of another number.
      DtypeError: the samples are complex.
      ValueRangeError: there is no such method.

    Source: D. W. Scott, "Multivariate Density Estimation", 1992; B. W. Silverman,
    "Density Estimation for Statistics and Data Analysis", 1986.

    Example:
      >>> density = ft.scipy.stats.gaussian_kde(fnp.array([-1.0, 0.0, 1.0]))
      >>> density(fnp.array([0.0, 5.0]))
      Array([3.1815627e-01, 6.7290330e-07], dtype=float32)
    """

    __slots__ = _FIELDS
    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(
        self, dataset: Value, bw_method: BwMethod = None, weights: Value | None = None
    ) -> None:
        data = fnp.atleast_2d(_real("gaussian_kde", dataset))
        d, n = data.shape
        if data.size < 2:
            raise errors.ShapeError(
                f"gaussian_kde: dataset must have several samples, got {data.shape}"
            )
        if weights is None:
            (data,) = promote_inexact(data)
            each = fnp.full(n, 1 / n, data.dtype)
        else:
            data, each = promote_inexact(data, weights)
            each = fnp.atleast_1d(each)
            need_shape(each, "gaussian_kde: weights", (n,))
            each = each / fnp.sum(each)
        neff = 1 / fnp.sum(each * each)
        self._set(neff, data, each, None, None)
        factor = self._factor(bw_method, neff, d)
        shared = fnp.atleast_2d(fnp.cov(data, rowvar=True, bias=False, aweights=each))
        inverse = fnp.linalg.inv(shared)
        square = factor * factor
        self._set(neff, data, each, shared * square, inverse / square)

    def _factor(self, bw_method: BwMethod, neff: Any, d: int) -> Any:
        if bw_method is None or isinstance(bw_method, str):
            method = bw_method or "scott"
            errors.one_of("gaussian_kde: bw_method", method, ("scott", "silverman"))
            base = neff if method == "scott" else neff * (d + 2) / 4
            return fnp.power(base, -1 / (d + 4))
        if callable(bw_method):
            return bw_method(self)
        if as_value(bw_method).ndim:
            raise errors.ValueRangeError(
                "gaussian_kde: bw_method must be 'scott', 'silverman', a scalar, or a "
                f"function, got {bw_method!r}"
            )
        return bw_method

    def _set(self, *values: Any) -> None:
        for name, value in zip(_FIELDS, values, strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"gaussian_kde: {name} is not set; make another object")

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of samples."""
        return self.dataset.shape[1]

    def logpdf(self, x: Value) -> Any:
        """The logarithm of the density at points of shape (d, m), or (m,) if d = 1."""
        points, data = promote_inexact(self._points(x), self.dataset)
        root = fnp.linalg.cholesky(self.inv_cov)
        ours, theirs = root.T @ data, root.T @ points
        apart = theirs[:, :, None] - ours[:, None, :]
        distance = fnp.sum(apart * apart, axis=0)
        scale = fnp.sum(fnp.log(fnp.diagonal(root)))
        scale = scale - 0.5 * self.d * math.log(2 * math.pi)
        return logsumexp(scale - 0.5 * distance, axis=1, b=self.weights)

    def evaluate(self, points: Value) -> Any:
        """The density at points of shape (d, m), or (m,) where d = 1."""
        return fnp.exp(self.logpdf(points))

    def pdf(self, x: Value) -> Any:
        """`evaluate`."""
        return self.evaluate(x)

    __call__ = evaluate

    def _points(self, points: Value) -> Any:
        x = fnp.atleast_2d(_real("gaussian_kde", points))
        if x.shape[0] == self.d:
            return x
        if x.shape == (1, self.d):
            return fnp.reshape(x, (self.d, 1))
        raise errors.ShapeError(
            f"gaussian_kde: points must have {self.d} coordinates along their first "
            f"axis, as the dataset has, got shape {x.shape}"
        )

    def integrate_gaussian(self, mean: Value, cov: Value) -> Any:
        """The integral of the product with a normal density.

        Raises:
          ShapeError: the shapes are not (d,) and (d, d).
        """
        mean = fnp.atleast_1d(fnp.squeeze(as_value(mean)))
        cov = fnp.atleast_2d(as_value(cov))
        need_shape(mean, "integrate_gaussian: mean", (self.d,))
        need_shape(cov, "integrate_gaussian: cov", (self.d, self.d))
        return self._overlap(mean[:, None], self.covariance + cov)[0]

    def _overlap(self, means: Any, cov: Any) -> Any:
        """The sum of the weights times a normal density, at each of the means."""
        factor = cho_factor(cov)
        apart = (means[:, :, None] - self.dataset[:, None, :]).reshape(self.d, -1)
        distance = fnp.sum(apart * cho_solve(factor, apart), axis=0)
        values = fnp.exp(-0.5 * distance).reshape(means.shape[1], -1)
        root = fnp.prod(fnp.diagonal(factor[0])) * (2 * math.pi) ** (0.5 * self.d)
        return fnp.sum(values * self.weights, axis=1) / root

    def integrate_box_1d(self, low: Value, high: Value) -> Any:
        """The probability between two bounds, of samples of one coordinate.

        Raises:
          ShapeError: there are several coordinates, or a bound is no scalar.
        """
        if self.d != 1 or np.ndim(as_value(low)) or np.ndim(as_value(high)):
            raise errors.ShapeError("integrate_box_1d takes two scalars, where d is 1")
        sigma = fnp.sqrt(fnp.squeeze(self.covariance))
        low, high = [ndtr((b - self.dataset[0]) / sigma) for b in (low, high)]
        return fnp.sum(self.weights * (high - low))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product with another such density.

        Raises:
          ShapeError: it has another number of coordinates.
        """
        if other.d != self.d:
            raise errors.ShapeError(f"integrate_kde: d must be {self.d}, got {other.d}")
        small, large = (self, other) if self.n < other.n else (other, self)
        cov = self.covariance + other.covariance
        return fnp.sum(large._overlap(small.dataset, cov) * small.weights)

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Any:
        """Draws of shape (d, *shape)."""
        index_key, noise_key = random.split(key)
        index = random.choice(index_key, self.n, shape=shape, p=self.weights)
        noise = random.normal(noise_key, (*shape, self.d), self.dataset.dtype)
        root = fnp.linalg.cholesky(self.covariance)
        noise = fnp.einsum("ij,...j->...i", root, noise)
        return self.dataset[:, index] + noise.T

    def integrate_box(
        self, low_bounds: Value, high_bounds: Value, maxpts: int | None = None
    ) -> Any:
        """Not supported, as in JAX: see `integrate_box_1d`."""
        raise NotImplementedError("integrate_box: only integrate_box_1d is supported")

    def set_bandwidth(self, bw_method: BwMethod = None) -> None:
        """Not supported, as in JAX: the object does not change."""
        raise NotImplementedError("set_bandwidth: make another object with bw_method=")


def _real(name: str, x: Value) -> Any:
    value = as_value(x)
    if dtypes.is_complex(value.dtype):
        raise errors.DtypeError(f"{name} takes real numbers, got {value.dtype}")
    return value
