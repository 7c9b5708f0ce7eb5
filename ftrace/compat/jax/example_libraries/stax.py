"""`jax.example_libraries.stax`: layers as pairs of functions.

    init_fun(rng, input_shape) -> (output_shape, params)
    apply_fun(params, inputs, **kwargs) -> outputs

A batch of any size is -1 in the shapes. Layers that draw, as Dropout, take `rng=`.
"""

# Parameters of lambdas are Any.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import ftrace.numpy as jnp
from ftrace import lax, nn, random
from ftrace.errors import ValueRangeError
from ftrace.nn.initializers import glorot_normal, normal, ones, zeros
from ftrace.trace.tracing.tracer import Function

Layer = tuple[Function, Function]
Shape = tuple[int, ...]

glorot, randn, logsoftmax = glorot_normal, normal, nn.log_softmax
_DRAWN, _SMALL, _TINY = glorot_normal(), normal(), normal(1e-6)


def _layer(shapes: Function, W_init: Any, b_init: Any, product: Function) -> Layer:
    """A product with weights, and a bias.

    Args:
      shapes: the input's shape -> those of the output, the weights, the bias.
      product: (inputs, weights) -> outputs
    """

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        result, *each = shapes(tuple(input_shape))
        inits = zip((W_init, b_init), random.split(rng), each, strict=True)
        return result, tuple([init(key, shape) for init, key, shape in inits])

    def apply_fun(params: Any, inputs: Any, **_: Any) -> Any:
        W, b = params
        return product(inputs, W) + b

    return init_fun, apply_fun


def Dense(out_dim: int, W_init: Function = _DRAWN, b_init: Function = _SMALL) -> Layer:
    """A product with a matrix, and a bias."""

    def shapes(given: Shape) -> Any:
        return (*given[:-1], out_dim), (given[-1], out_dim), (out_dim,)

    return _layer(shapes, W_init, b_init, jnp.dot)


def _convolution(shape_of: Function, convolve: Function) -> Function:
    def layer(
        dimension_numbers: Any, out_chan: int, filter_shape: Sequence[int],
        strides: Any = None, padding: Any = "VALID", W_init: Function | None = None,
        b_init: Function = _TINY,
    ) -> Layer:  # fmt: skip
        of_input, of_kernel, of_output = dimension_numbers
        steps = strides or (1,) * len(filter_shape)

        def shapes(given: Shape) -> Any:
            spatial = iter(filter_shape)
            known = {"O": out_chan, "I": given[of_input.index("C")]}
            kernel = tuple([known.get(c) or next(spatial) for c in of_kernel])
            result = shape_of(given, kernel, steps, padding, dimension_numbers)
            bias = [out_chan if c == "C" else 1 for c in of_output]
            return result, kernel, tuple(bias)

        def product(x: Any, W: Any) -> Any:
            return convolve(x, W, steps, padding, dimension_numbers=dimension_numbers)

        axes = of_kernel.index("I"), of_kernel.index("O")
        return _layer(shapes, W_init or glorot_normal(*axes), b_init, product)

    return layer


_PLANES = ("NHWC", "HWIO", "NHWC")
GeneralConv = _convolution(lax.conv_general_shape_tuple, lax.conv_general_dilated)
GeneralConvTranspose = _convolution(lax.conv_transpose_shape_tuple, lax.conv_transpose)
Conv = partial(GeneralConv, _PLANES)
ConvTranspose = partial(GeneralConvTranspose, _PLANES)
Conv1DTranspose = partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))


def BatchNorm(
    axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True,
    scale: bool = True, beta_init: Function = zeros, gamma_init: Function = ones,
) -> Layer:  # fmt: skip
    """Mean 0 and variance 1 over some axes, then a scale and a bias for the others."""
    over = (axis,) if isinstance(axis, int) else tuple(axis)

    def init_fun(rng: Any, input_shape: Shape) -> Any:
        shape = tuple([n for i, n in enumerate(input_shape) if i not in over])
        k1, k2 = random.split(rng)
        beta = beta_init(k1, shape) if center else ()
        return input_shape, (beta, gamma_init(k2, shape) if scale else ())

    def apply_fun(params: Any, x: Any, **_: Any) -> Any:
        beta, gamma = params
        z = nn.standardize(x, over, epsilon=epsilon)
        z = jnp.expand_dims(gamma, over) * z if scale else z
        return z + jnp.expand_dims(beta, over) if center else z

    return init_fun, apply_fun


# Layers without parameters.


def _layer_of(apply: Function, shape_of: Function = lambda shape: shape) -> Layer:
    return (
        lambda rng, input_shape: (shape_of(input_shape), ()),
        lambda params, inputs, **kwargs: apply(inputs),
    )


def elementwise(fun: Function, **fun_kwargs: Any) -> Layer:
    """A layer that is a function of the shape of its input."""
    return _layer_of(partial(fun, **fun_kwargs))


Tanh, Exp, Identity = map(elementwise, (jnp.tanh, jnp.exp, lambda x: x))
Relu, Elu, LeakyRelu = map(elementwise, (nn.relu, nn.elu, nn.leaky_relu))
Selu, Gelu, Softplus = map(elementwise, (nn.selu, nn.gelu, nn.softplus))
Sigmoid = elementwise(nn.sigmoid)
LogSoftmax, Softmax = (elementwise(f, axis=-1) for f in (nn.log_softmax, nn.softmax))

Flatten = _layer_of(
    lambda x: jnp.reshape(x, (x.shape[0], -1)), lambda s: (s[0], prod(s[1:]))
)
FanInSum = _layer_of(sum, lambda shapes: shapes[0])


def FanOut(num: int) -> Layer:
    """So many outputs, each of which is the input."""
    return _layer_of(lambda x: [x] * num, lambda shape: [shape] * num)


def FanInConcat(axis: int = -1) -> Layer:
    """The inputs, side by side."""

    def shape_of(shapes: Sequence[Shape]) -> Shape:
        at = axis % len(shapes[0])
        total = sum(shape[at] for shape in shapes)
        return (*shapes[0][:at], total, *shapes[0][at + 1 :])

    return _layer_of(lambda xs: jnp.concatenate(xs, axis), shape_of)


def _pooling(reducer: Function, init_val: float, mean: bool = False) -> Function:
    def layer(
        window_shape: Shape, strides: Any = None, padding: Any = "VALID",
        spec: str | None = None,
    ) -> Layer:  # fmt: skip
        dims, steps = list(window_shape), list(strides or [1] * len(window_shape))
        outer = (0, len(dims) + 1) if spec is None else map(spec.index, "NC")
        for i in sorted(outer):
            dims.insert(i, 1)
            steps.insert(i, 1)

        def shape_of(shape: Shape) -> Shape:
            pads = lax.padtype_to_pads(shape, dims, steps, padding)
            apart = (1,) * len(dims)
            return lax.reduce_window_shape_tuple(shape, dims, steps, pads, apart, apart)

        def reduce(x: Any) -> Any:
            return lax.reduce_window(x, init_val, reducer, dims, steps, padding)

        def pool(x: Any) -> Any:
            return reduce(x) / reduce(jnp.ones_like(x)) if mean else reduce(x)

        return _layer_of(pool, shape_of)

    return layer


MaxPool = _pooling(lax.max, -jnp.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, mean=True)


def Dropout(rate: float, mode: str = "train") -> Layer:
    """In training each element is kept with probability `rate`, and scaled."""

    def apply_fun(params: Any, inputs: Any, *, rng: Any = None, **_: Any) -> Any:
        if rng is None:
            raise ValueRangeError(
                "Dropout draws: call apply_fun(params, inputs, rng=key)"
            )
        if mode != "train":
            return inputs
        keep = random.bernoulli(rng, rate, inputs.shape)
        return jnp.where(keep, inputs / rate, 0)

    return elementwise(lambda x: x)[0], apply_fun


# Layers of layers.


def _keys(rng: Any, count: int) -> Any:
    return [None] * count if rng is None else random.split(rng, count)


def serial(*layers: Layer) -> Layer:
    """One layer after another."""
    inits, applies = zip(*layers, strict=True)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        params: list[Any] = []
        for init in inits:
            rng, key = random.split(rng)
            input_shape, found = init(key, input_shape)
            params.append(found)
        return input_shape, params

    def apply_fun(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        keys = _keys(rng, len(layers))
        for apply, own, key in zip(applies, params, keys, strict=True):
            inputs = apply(own, inputs, rng=key, **kwargs)
        return inputs

    return init_fun, apply_fun


def parallel(*layers: Layer) -> Layer:
    """A layer for each of a list of inputs."""
    inits, applies = zip(*layers, strict=True)

    def init_fun(rng: Any, input_shape: Any) -> Any:
        each = zip(inits, _keys(rng, len(layers)), input_shape, strict=True)
        return zip(*[init(key, shape) for init, key, shape in each], strict=True)

    def apply_fun(params: Any, inputs: Any, *, rng: Any = None, **kwargs: Any) -> Any:
        each = zip(applies, params, inputs, _keys(rng, len(layers)), strict=True)
        return [apply(own, x, rng=key, **kwargs) for apply, own, x, key in each]

    return init_fun, apply_fun


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """A layer that is made when its input's shape is known."""
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](
            params, inputs, **kwargs
        ),
    )
