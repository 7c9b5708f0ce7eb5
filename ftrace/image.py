"""Images: resizing, scaling and translation by interpolating kernels.

A pixel is a square around its centre: that number i has its centre at i + 1/2. Each
axis is resampled by a matrix of weights of its own; the image is contracted with it.

Kernels: R. Keys, "Cubic convolution interpolation for digital image processing", IEEE
TASSP 29 (1981), with a = -1/2, and with a = -3/4 as OpenCV has it; C. Lanczos' window,
as in K. Turkowski, "Filters for common resampling tasks", Graphics Gems (1990).
"""

# What is passed on is of any type, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.errors import ShapeError, ValueRangeError, one_of
from ftrace.numpy import axes as ax, elementwise as ew
from ftrace.numpy.linear import contract
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.eager.precision import Precision, PrecisionLike
from ftrace.trace.tracing.tracer import Value

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """By which kernel pixels between others are made."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name: "nearest", "linear", "cubic", "lanczos3", "area", ….

        Raises:
          ValueRangeError: there is no such method.
        """
        one_of("the method of resizing", s, _NAMES)
        return _NAMES[s]


_NAMES = {m.name.lower().replace("_", "-"): m for m in ResizeMethod} | {
    **dict.fromkeys(("bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    **dict.fromkeys(("bicubic", "tricubic"), ResizeMethod.CUBIC),
    "bicubic-pytorch": ResizeMethod.CUBIC_PYTORCH,
}


# Kernels: the weight of a pixel at a distance.


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        whole, part = fnp.sin(math.pi * x), fnp.sin(math.pi * x / radius)
        inside = radius * whole * part / fnp.where(x > 1e-3, math.pi**2 * x**2, 1)
        return fnp.where(x > radius, 0.0, fnp.where(x > 1e-3, inside, 1.0))

    return kernel


def _cubic(a: float) -> Callable[[Any], Any]:
    def kernel(x: Any) -> Any:
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return fnp.where(x >= 2, 0.0, fnp.where(x >= 1, far, near))

    return kernel


#: Elements to either side that a cubic reads.
_CUBIC_REACH = 2
_KERNELS: dict[ResizeMethod, Callable[[Any], Any]] = {
    ResizeMethod.LINEAR: lambda x: fnp.maximum(0, 1 - x),
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}

#: Sums of weights that are no greater than that are taken for 0.
_NO_WEIGHT = 1000 * float(np.finfo(np.float32).eps)


def _weights(
    size: int, count: int, scale: Any, shift: Any, method: ResizeMethod, antialias: bool
) -> Any:
    """How much each of `size` pixels counts in each of `count` new ones: a matrix."""
    dtype = scale.dtype
    inverse = 1 / scale
    # A smaller image is smoothed first: the kernel is as wide as a new pixel.
    width = fnp.maximum(inverse, 1) if antialias else 1
    new = fnp.arange(count, dtype=dtype)
    centres = (new + 0.5) * inverse - shift * inverse - 0.5
    # Without an edge, pixels beyond it are those at it.
    reach = _CUBIC_REACH if method is ResizeMethod.CUBIC_PYTORCH else 0
    old = fnp.arange(-reach, size + reach, dtype=dtype)[:, None]
    if method is ResizeMethod.AREA:
        first = new * inverse - shift * inverse
        low, high = fnp.maximum(first, old), fnp.minimum(first + inverse, old + 1)
        weights = fnp.maximum(0, high - low)
    else:
        weights = _KERNELS[method](abs(centres - old) / width)
    if reach:
        before, after = weights[:reach].sum(0), weights[size + reach :].sum(0)
        weights = weights[reach : size + reach].at[0].add(before).at[-1].add(after)
    total = weights.sum(0, keepdims=True)
    some = abs(total) > _NO_WEIGHT
    weights = fnp.where(some, weights / fnp.where(total != 0, total, 1), 0)
    if reach:
        return weights
    return fnp.where((centres >= -0.5) & (centres <= size - 0.5), weights, 0)


def _method(name: str, method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if not isinstance(method, str):
        raise ValueRangeError(
            f"{name}: method must be a ResizeMethod or its name, got {method!r}"
        )
    return ResizeMethod.from_string(method)


def _shape(name: str, shape: Any, image: Any) -> tuple[int, ...]:
    target = ax.check_shape(shape, name)
    if len(target) != image.ndim:
        raise ShapeError(
            f"{name}: shape must have a size for each axis of the image, of shape "
            f"{image.shape}; got {target}"
        )
    return target


def scale_and_translate(
    image: Value,
    shape: Sequence[int],
    spatial_dims: Sequence[int],
    scale: Value,
    translation: Value,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Any:
    """The image with each place x moved to x·scale + translation.

    Args:
      image: an array; integers become floats.
      shape: of the result, a size for each axis.
      spatial_dims: the axes that are scaled, K of them.
      scale, translation: (K,); derivatives with respect to them are those of the
        weights.
      method: a kernel or its name; not "nearest".
      antialias: smooth where the image gets smaller.
      precision: accepted, without effect.

    Returns:
      The new image. Pixels whose centres lie outside of the old one are 0.

    Raises:
      ShapeError: the shapes do not fit.
      ValueRangeError: the method is unknown, or nearest.

    Example:
      >>> ft.image.scale_and_translate(fnp.array([0.0, 1.0, 2.0, 3.0]), (4,), (0,),
      ...                              fnp.array([1.0]), fnp.array([1.0]), "linear")
      Array([0., 0., 1., 2.], dtype=float32)
    """
    name = "scale_and_translate"
    (x,) = ew.promote_inexact(image)
    target, kind = _shape(name, shape, x), _method(name, method)
    if kind is ResizeMethod.NEAREST:
        raise ValueRangeError(f"{name}: method must interpolate; got nearest")
    axes = ax.canonical_axes(tuple(spatial_dims), x.ndim, name)
    scales, shifts = ew.promote_inexact(scale, translation)
    if scales.shape != (len(axes),) or shifts.shape != (len(axes),):
        raise ShapeError(
            f"{name}: scale and translation must have a number for each of the axes "
            f"{axes}, got the shapes {scales.shape} and {shifts.shape}"
        )
    rows = [(axis, scales[i], shifts[i]) for i, axis in enumerate(axes)]
    return _resample(name, x, target, rows, kind, antialias)


def _resample(
    name: str,
    x: Any,
    target: tuple[int, ...],
    rows: Sequence[tuple[int, Any, Any]],
    method: ResizeMethod,
    antialias: bool,
) -> Any:
    """The image, resampled along each (axis, scale, translation)."""
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    labels = list(map(str, range(x.ndim)))
    for axis, scale, shift in rows:
        size, count = x.shape[axis], target[axis]
        weights = _weights(size, count, scale, shift, method, antialias)
        result = ["new" if i == axis else label for i, label in enumerate(labels)]
        x = contract(
            name, x, weights.astype(x.dtype), labels, [labels[axis], "new"], result
        )
    return x


def resize(
    image: Value,
    shape: Sequence[int],
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: PrecisionLike = Precision.HIGHEST,
) -> Any:
    """The image in another shape.

    Args:
      image: an array; integers become floats, unless the method is nearest.
      shape: of the result, a size for each axis; axes that keep their size stay.
      method: "nearest", "linear" (or "bilinear", "trilinear", "triangle"), "cubic"
        (or "bicubic", "tricubic"), "cubic-pytorch", "lanczos3", "lanczos5", "area",
        or a `ResizeMethod`.
      antialias: smooth where the image gets smaller.
      precision: accepted, without effect.

    Returns:
      An array of that shape; of the dtype of the image, if that is of floats.

    Raises:
      ShapeError: the shape has not as many sizes as the image has axes.
      ValueRangeError: there is no such method.

    Example:
      >>> ft.image.resize(fnp.array([1.0, 3.0]), (4,), "nearest")
      Array([1., 1., 3., 3.], dtype=float32)
      >>> ft.image.resize(fnp.array([1.0, 3.0]), (4,), "linear")
      Array([1. , 1.5, 2.5, 3. ], dtype=float32)
      >>> ft.image.resize(fnp.ones((8, 32, 32, 3)), (8, 16, 16, 3), "bicubic").shape
      (8, 16, 16, 3)
    """
    x, kind = ax.as_value(image), _method("resize", method)
    target = _shape("resize", shape, x)
    changed = [i for i in range(x.ndim) if x.shape[i] != target[i]]
    if kind is ResizeMethod.NEAREST:
        for axis in changed:
            x = fnp.take(x, _nearest(x.shape[axis], target[axis]), axis)
        return x
    (x,) = ew.promote_inexact(x)
    if 0 in x.shape and 0 not in target:
        raise ShapeError(f"resize: an image of shape {x.shape} has no pixels")
    # Of images of 64 bits the weights have them, too.
    wide, _ = dtypes.promote((dtypes.real_dtype(x.dtype), False), _LEAST)
    rows = [
        (axis, fnp.asarray((target[axis] or 1) / (x.shape[axis] or 1), wide), 0.0)
        for axis in changed
    ]
    return _resample("resize", x, target, rows, kind, antialias)


_LEAST = (dtypes.float32, False)


def _nearest(size: int, count: int) -> np.ndarray[Any, Any]:
    """The pixel that holds the centre of each new one."""
    centres = (np.arange(count, dtype=np.float32) + np.float32(0.5)) * np.float32(size)
    return np.floor(centres / np.float32(count)).astype(np.int32)


publish(__name__)
