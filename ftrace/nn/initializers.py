"""Initial values of weights: functions `init(key, shape, dtype)`.

`variance_scaling` and its named forms keep the variance of what flows through a layer
of `fan_in` inputs and `fan_out` outputs (Glorot 2010, He 2015, LeCun 1998).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ftrace.numpy as fnp
from ftrace import dtypes, lax, random
from ftrace.errors import DtypeError, ShapeError, one_of
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy.axes import canonical_axis, check_shape
from ftrace.trace.eager.function_objects import member

__all__ = [
    "Initializer", "constant", "delta_orthogonal", "glorot_normal", "glorot_uniform",
    "he_normal", "he_uniform", "kaiming_normal", "kaiming_uniform", "lecun_normal",
    "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform",
    "variance_scaling", "xavier_normal", "xavier_uniform", "zeros",
]  # fmt: skip

Initializer = Callable[..., Any]
Axes = int | Sequence[int]

#: The standard deviation of the normal distribution between -2 and 2.
_TRUNCATED_DEVIATION = 0.87962566103423978
#: What the complex one, with absolute values up to 2, is divided by. It is JAX's number
#: (the standard deviation, the root of 1 - 4/(e⁴ - 1), is 0.962).
_TRUNCATED_RADIUS = 0.95311164380491208


def _float_dtype(dtype: Any) -> Any:
    return dtypes.default_dtype("f") if dtype is None else dtypes.as_dtype(dtype)


def zeros(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Zeros; the key is not used.

    It is an initializer itself: no call makes it.

    Args:
      key: a key, or None.
      shape: of the result.
      dtype: of the result, by default float32.
      out_sharding: where the result is, as `device_put` takes it.

    Example:
      >>> nn.initializers.zeros(None, (3,))
      Array([0., 0., 0.], dtype=float32)
    """
    return fnp.zeros(shape, _float_dtype(dtype))


def ones(key: Any, shape: Any, dtype: Any = None, out_sharding: Any = None) -> Any:
    """Ones; the key is not used.

    It is an initializer itself: no call makes it.

    Args:
      key: a key, or None.
      shape: of the result.
      dtype: of the result, by default float32.
      out_sharding: where the result is, as `device_put` takes it.

    Example:
      >>> nn.initializers.ones(None, (2, 2))
      Array([[1., 1.],
             [1., 1.]], dtype=float32)
    """
    return fnp.ones(shape, _float_dtype(dtype))


def _initializer(
    default: Any, build: Callable[[Any, tuple[int, ...], Any], Any]
) -> Initializer:
    def init(
        key: Any, shape: Any, dtype: Any = default, out_sharding: Any = None
    ) -> Any:
        return build(key, check_shape(shape, "init"), _float_dtype(dtype))

    return init


def constant(value: Any, dtype: Any = None) -> Initializer:
    """One value everywhere.

    Args:
      value: a number, or an array that broadcasts to the shapes asked for.
      dtype: of the result, unless `init` is given one; by default float32.

    Returns:
      init(key, shape, dtype, out_sharding) -> an array; the key is not used.

    Example:
      >>> nn.initializers.constant(0.5)(None, (2, 2))
      Array([[0.5, 0.5],
             [0.5, 0.5]], dtype=float32)
    """
    return _initializer(dtype, lambda key, shape, kind: fnp.full(shape, value, kind))


def _scale(dtype: Any, scale: Any, draw: Callable[..., Any]) -> Initializer:
    def build(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
        return draw(key, shape=shape, dtype=kind) * fnp.asarray(scale, kind)

    return _initializer(dtype, build)


def uniform(scale: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Uniform in [0, scale).

    Args:
      scale: the bound.
      dtype: of the result, unless `init` is given one; by default float32.

    Returns:
      init(key, shape, dtype, out_sharding) -> an array.

    Example:
      >>> init = nn.initializers.uniform(0.1)
      >>> init(ft.random.key(0), (2, 3))
      Array([[0.0947667 , 0.09785799, 0.03322915],
             [0.04686685, 0.05698887, 0.0165503 ]], dtype=float32)
    """
    return _scale(dtype, scale, random.uniform)


def normal(stddev: Any = 1e-2, dtype: Any = None) -> Initializer:
    """Normal, of mean 0 and this standard deviation.

    Args:
      stddev: the standard deviation.
      dtype: of the result, unless `init` is given one; by default float32.

    Returns:
      init(key, shape, dtype, out_sharding) -> an array.

    Example:
      >>> init = nn.initializers.normal(0.02)
      >>> init(ft.random.key(0), (2, 3))
      Array([[ 0.03245284,  0.04050529, -0.00867189],
             [-0.00157235,  0.00352182, -0.01944179]], dtype=float32)
    """
    return _scale(dtype, stddev, random.normal)


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = None, lower: Any = -2.0, upper: Any = 2.0
) -> Initializer:
    """Normal between two bounds, then scaled.

    Args:
      stddev: the factor: of what is drawn before the cut it is the standard deviation.
      dtype: of the result, unless `init` is given one; by default float32.
      lower, upper: the bounds, in units of `stddev`.

    Returns:
      init(key, shape, dtype, out_sharding) -> an array.

    Example:
      >>> init = nn.initializers.truncated_normal(1.0, lower=0.0)
      >>> init(ft.random.key(0), (3,))
      Array([1.6673133 , 1.8387917 , 0.40860733], dtype=float32)
    """
    draw = partial(random.truncated_normal, lower=lower, upper=upper)
    return _scale(dtype, stddev, draw)


def _in_disc(key: Any, shape: tuple[int, ...], kind: Any, distribution: str) -> Any:
    """Complex numbers of variance 1, uniform or normal in a disc around 0.

    By the distribution of the radius, inverted; the normal one ends at 2.
    """
    of_radius, of_angle = random.split(key)
    real = dtypes.real_dtype(kind)
    share = random.uniform(of_radius, shape, real)
    if distribution == "uniform":
        square = 2 * share
    else:
        square = -fnp.log1p(share * math.expm1(-4)) / _TRUNCATED_RADIUS**2
    angle = 2 * math.pi * random.uniform(of_angle, shape, real)
    turned = lax.complex(fnp.cos(angle), fnp.sin(angle))
    return turned * fnp.sqrt(square).astype(kind)


_MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda inputs, outputs: inputs,
    "fan_out": lambda inputs, outputs: outputs,
    "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2,
    "fan_geo_avg": lambda inputs, outputs: math.sqrt(inputs * outputs),
}


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Values of mean 0 and variance scale/n.

    Args:
      scale: of the variance.
      mode: what n is: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
      distribution: "truncated_normal", "normal" or "uniform".
      in_axis, out_axis: the axes of inputs and outputs; the others are the window.
      batch_axis: axes that belong to neither.
      dtype: of the result, unless `init` is given one.

    Returns:
      init(key, shape, dtype, out_sharding) -> an array. Of a weight (window…, in, out)
      fan_in is window·in, fan_out window·out, and the averages are of these two.

    Raises:
      ValueRangeError: the mode or the distribution is unknown.

    Example:
      >>> init = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
      >>> w = init(ft.random.key(0), (400, 100))
      >>> fnp.round(fnp.var(w) * 400, 1)
      Array(1., dtype=float32)
    """
    kinds = ("truncated_normal", "normal", "uniform")
    given = in_axis, out_axis, batch_axis
    one_of("variance_scaling: mode", mode, _MODES)
    one_of("variance_scaling: distribution", distribution, kinds)

    def build(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
        if not dtypes.is_inexact(kind):
            raise DtypeError(
                f"variance_scaling: a float or complex dtype is required, got {kind}"
            )
        if len(shape) <= 1 and in_axis == -2:
            raise ShapeError(
                "variance_scaling: a shape of at least two axes is required, got "
                f"{shape}; or give in_axis"
            )
        groups = [(x,) if isinstance(x, int) else x for x in given]
        inputs, outputs, batch = (math.prod(shape[a] for a in g) for g in groups)
        if 0 in shape:
            raise ShapeError(
                f"variance_scaling: a size of 0 has no variance, got {shape}"
            )
        receptive = math.prod(shape) / inputs / outputs / batch
        fan = _MODES[mode](inputs * receptive, outputs * receptive)
        variance = fnp.asarray(scale / fan, dtypes.real_dtype(kind))
        width = fnp.sqrt(variance).astype(kind)
        if distribution == "normal":
            return random.normal(key, shape, kind) * width
        if dtypes.is_complex(kind):
            return _in_disc(key, shape, kind, distribution) * width
        if distribution == "uniform":
            return random.uniform(key, shape, kind, -1) * fnp.sqrt(3 * variance)
        deviation = width / fnp.asarray(_TRUNCATED_DEVIATION, kind)
        return random.truncated_normal(key, -2, 2, shape, kind) * deviation

    return _initializer(dtype, build)


def _scaling(name: str, scale: float, mode: str, distribution: str):
    def of_axes(
        in_axis: Axes = -2,
        out_axis: Axes = -1,
        batch_axis: Axes = (),
        dtype: Any = None,
    ) -> Initializer:
        """Of a variance by fans.

        Args:
          in_axis, out_axis: the axes of inputs and outputs; the others are the window.
          batch_axis: axes that belong to neither.
          dtype: of the result, unless `init` is given one; by default float32.

        Returns:
          init(key, shape, dtype, out_sharding) -> an array.
        """
        return variance_scaling(
            scale, mode, distribution, in_axis, out_axis, batch_axis, dtype
        )

    return of_axes


@member(_scaling, 1.0, "fan_avg", "uniform")
def glorot_uniform():
    """Uniform, of variance 2/(fan_in + fan_out) (Glorot, Bengio, 2010).

    They are between ±√(6/(fan_in + fan_out)).

    Example:
      >>> init = nn.initializers.glorot_uniform()
      >>> init(ft.random.key(0), (2, 4))
      Array([[ 0.895334  ,  0.95715976, -0.33541703, -0.06266308],
             [ 0.13977742, -0.66899395, -0.37961078,  0.3789611 ]], dtype=float32)
    """


@member(_scaling, 1.0, "fan_avg", "truncated_normal")
def glorot_normal():
    """Normal, cut off, of variance 2/(fan_in + fan_out) (Glorot, Bengio, 2010).

    Example:
      >>> init = nn.initializers.glorot_normal()
      >>> init(ft.random.key(0), (2, 4))
      Array([[ 0.955632  ,  1.1254909 , -0.27086315, -0.04924887],
             [ 0.11026898, -0.5990026 , -0.3091259 ,  0.30855602]], dtype=float32)
    """


@member(_scaling, 1.0, "fan_in", "uniform")
def lecun_uniform():
    """Uniform, of variance 1/fan_in (LeCun et al., 1998).

    They are between ±√(3/fan_in).

    Example:
      >>> init = nn.initializers.lecun_uniform()
      >>> init(ft.random.key(0), (3, 2))
      Array([[ 0.895334  ,  0.95715976],
             [-0.33541703, -0.06266308],
             [ 0.13977742, -0.66899395]], dtype=float32)
    """


@member(_scaling, 1.0, "fan_in", "truncated_normal")
def lecun_normal():
    """Normal, cut off, of variance 1/fan_in (LeCun et al., 1998).

    Example:
      >>> init = nn.initializers.lecun_normal()
      >>> init(ft.random.key(0), (3, 2))
      Array([[ 0.955632  ,  1.1254909 ],
             [-0.27086315, -0.04924887],
             [ 0.11026898, -0.5990026 ]], dtype=float32)
    """


@member(_scaling, 2.0, "fan_in", "uniform")
def he_uniform():
    """Uniform, of variance 2/fan_in: for layers before a relu (He, 2015).

    They are between ±√(6/fan_in).

    Example:
      >>> init = nn.initializers.he_uniform()
      >>> init(ft.random.key(0), (6, 2))
      Array([[ 0.895334  ,  0.95715976],
             [-0.33541703, -0.06266308],
             [ 0.13977742, -0.66899395],
             [-0.37961078,  0.3789611 ],
             [ 0.49353313, -0.6579709 ],
             [ 0.97070765, -0.94943476]], dtype=float32)
    """


@member(_scaling, 2.0, "fan_in", "truncated_normal")
def he_normal():
    """Normal, cut off, of variance 2/fan_in: for layers before a relu (He, 2015).

    Example:
      >>> init = nn.initializers.he_normal()
      >>> init(ft.random.key(0), (6, 2))
      Array([[ 0.955632  ,  1.1254909 ],
             [-0.27086315, -0.04924887],
             [ 0.11026898, -0.5990026 ],
             [-0.3091259 ,  0.30855602],
             [ 0.41327727, -0.585994  ],
             [ 1.1748586 , -1.0999686 ]], dtype=float32)
    """


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(
    scale: Any = 1.0, column_axis: int = -1, dtype: Any = None
) -> Initializer:
    """A uniformly drawn matrix with orthonormal rows or columns, whichever are fewer.

    Args:
      scale: by which it is multiplied.
      column_axis: the axis of the columns; all others together are the rows.
      dtype: of the result, unless `init` is given one.

    Returns:
      init(key, shape, dtype, out_sharding) -> an array.

    Raises:
      ShapeError: when called, for a shape of less than two axes.

    Example:
      >>> w = nn.initializers.orthogonal()(ft.random.key(0), (3, 2))
      >>> fnp.round(abs(w.T @ w), 3)
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """

    def build(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
        if len(shape) < 2:
            raise ShapeError(f"orthogonal: two axes at least are required, got {shape}")
        if 0 in shape:
            return fnp.zeros(shape, kind)
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        axis = canonical_axis(column_axis, len(shape), "orthogonal: column_axis")
        others = (*shape[:axis], *shape[axis + 1 :], columns)
        drawn = random.orthogonal(key, rows, (), kind, columns).reshape(others)
        return fnp.asarray(scale, kind) * fnp.moveaxis(drawn, -1, axis)

    return _initializer(dtype, build)


def delta_orthogonal(
    scale: Any = 1.0, column_axis: int = -1, dtype: Any = None
) -> Initializer:
    """A kernel whose middle is an orthogonal matrix and that is 0 elsewhere.

    Source: L. Xiao and others, "Dynamical isometry and a mean field theory of CNNs"
    (2018). Arguments are those of `orthogonal`; the last two axes are the matrix.

    Args:
      scale, column_axis, dtype: as of `orthogonal`.

    Returns:
      init(key, shape, dtype, out_sharding) -> an array.

    Raises:
      ShapeError: when called, for a shape that has not 3 to 5 axes, or fewer outputs
        than inputs.

    Example:
      >>> init = nn.initializers.delta_orthogonal()
      >>> abs(init(ft.random.key(0), (3, 1, 1))[:, 0, 0])
      Array([0., 1., 0.], dtype=float32)
    """

    def build(key: Any, shape: tuple[int, ...], kind: Any) -> Any:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ShapeError(
                "delta_orthogonal: 1 to 3 axes of space, inputs, and outputs that are "
                f"no fewer are required, got {shape}"
            )
        matrix = orthogonal(scale, column_axis, kind)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return fnp.zeros(shape, kind).at[middle].set(matrix)

    return _initializer(dtype, build)


tell_missing(__name__)
