"""Models that are trained, in the names that ftrace and JAX share.

Each has `<name>_inputs`, the arguments of a step as NumPy arrays, and `<name>_loss`,
which is given the library. The same programs serve the rows of training steps and of
cold start.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from benchmarks.inputs import integers, normal, weights

Params = dict[str, Any]
CLASSES = 10


def cross_entropy(lib: Any, logits: Any, labels: Any) -> Any:
    """Mean over the batch; the labels are integers."""
    wanted = lib.nn.one_hot(labels, logits.shape[-1])
    return -lib.np.mean(lib.np.sum(lib.nn.log_softmax(logits) * wanted, axis=-1))


# A multi-layer perceptron.


def mlp_params(widths: tuple[int, ...]) -> list[Params]:
    pairs = itertools.pairwise(widths)
    return [
        {"w": weights(m, n, seed=i), "b": np.zeros(n, np.float32)}
        for i, (m, n) in enumerate(pairs)
    ]


def mlp_inputs(widths: tuple[int, ...], batch: int) -> tuple[Any, ...]:
    images = normal(batch, widths[0], seed=90)
    return mlp_params(widths), images, integers(batch, high=widths[-1], seed=91)


def mlp_loss(lib: Any) -> Any:
    def loss(params: list[Params], x: Any, labels: Any) -> Any:
        for layer in params[:-1]:
            x = lib.nn.relu(x @ layer["w"] + layer["b"])
        return cross_entropy(lib, x @ params[-1]["w"] + params[-1]["b"], labels)

    return loss


# Two convolutions with pooling, and two dense layers, on square images.


def cnn_inputs(
    batch: int, side: int = 28, channels: tuple[int, int, int] = (1, 16, 32)
) -> tuple[Any, ...]:
    """`channels` are those of the images and of each convolution's result."""
    colours, first, second = channels
    pixels = (side // 4) ** 2
    params = {
        "conv1": _convolution(colours, first, seed=1),
        "conv2": _convolution(first, second, seed=2),
        "dense1": {"w": weights(second * pixels, 64, seed=3), "b": _zeros(64)},
        "dense2": {"w": weights(64, CLASSES, seed=4), "b": _zeros(CLASSES)},
    }
    images = normal(batch, colours, side, side, seed=90)
    return params, images, integers(batch, high=CLASSES, seed=91)


def _convolution(inputs: int, outputs: int, seed: int) -> Params:
    scale = (9 * inputs) ** -0.5
    kernel = normal(outputs, inputs, 3, 3, seed=seed, scale=scale)
    return {"w": kernel, "b": _zeros(outputs, 1, 1)}


def cnn_loss(lib: Any) -> Any:
    def convolved(layer: Params, x: Any) -> Any:
        x = lib.lax.conv_general_dilated(x, layer["w"], (1, 1), "SAME")
        x = lib.nn.relu(x + layer["b"])
        count, channels, height, width = x.shape
        x = x.reshape(count, channels, height // 2, 2, width // 2, 2)
        return lib.np.max(x, axis=(3, 5))

    def loss(params: Params, images: Any, labels: Any) -> Any:
        x = convolved(params["conv2"], convolved(params["conv1"], images))
        x = x.reshape(x.shape[0], -1)
        x = lib.nn.relu(x @ params["dense1"]["w"] + params["dense1"]["b"])
        logits = x @ params["dense2"]["w"] + params["dense2"]["b"]
        return cross_entropy(lib, logits, labels)

    return loss


# A transformer block: attention and a dense layer, each normalised and added.


def block_inputs(batch: int, length: int, width: int) -> tuple[Any, ...]:
    params = {
        "norm1": {"scale": np.ones(width, np.float32), "shift": _zeros(width)},
        "qkv": weights(width, 3 * width, seed=1),
        "out": weights(width, width, seed=2),
        "norm2": {"scale": np.ones(width, np.float32), "shift": _zeros(width)},
        "up": {"w": weights(width, 4 * width, seed=3), "b": _zeros(4 * width)},
        "down": {"w": weights(4 * width, width, seed=4), "b": _zeros(width)},
    }
    x = normal(batch, length, width, seed=90)
    return params, x, normal(batch, length, width, seed=91)


def block_loss(lib: Any, heads: int) -> Any:
    block = transformer_block(lib, heads)
    return lambda params, x, target: lib.np.mean((block(params, x) - target) ** 2)


def stack_inputs(depth: int, batch: int, length: int, width: int) -> tuple[Any, ...]:
    """The same for so many blocks, one after the other."""
    params, x, target = block_inputs(batch, length, width)
    return [params] * depth, x, target


def stack_loss(lib: Any, heads: int) -> Any:
    block = transformer_block(lib, heads)

    def loss(layers: Any, x: Any, target: Any) -> Any:
        for params in layers:
            x = block(params, x)
        return lib.np.mean((x - target) ** 2)

    return loss


def transformer_block(lib: Any, heads: int) -> Any:
    np = lib.np

    def normalised(layer: Params, x: Any) -> Any:
        mean = np.mean(x, axis=-1, keepdims=True)
        variance = np.var(x, axis=-1, keepdims=True)
        scaled = (x - mean) * lib.lax.rsqrt(variance + 1e-5)
        return scaled * layer["scale"] + layer["shift"]

    def attention(params: Params, x: Any) -> Any:
        batch, length, width = x.shape
        size = width // heads
        qkv = (x @ params["qkv"]).reshape(batch, length, 3, heads, size)
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = np.einsum("bqhd,bkhd->bhqk", q, k) * size**-0.5
        visible = np.tril(np.ones((length, length), bool))
        scores = lib.nn.softmax(np.where(visible, scores, -1e9))
        mixed = np.einsum("bhqk,bkhd->bqhd", scores, v)
        return mixed.reshape(batch, length, width) @ params["out"]

    def block(params: Params, x: Any) -> Any:
        x = x + attention(params, normalised(params["norm1"], x))
        hidden = normalised(params["norm2"], x)
        hidden = lib.nn.gelu(hidden @ params["up"]["w"] + params["up"]["b"])
        return x + hidden @ params["down"]["w"] + params["down"]["b"]

    return block


def _zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


# Steps of training.


def sgd_step(lib: Any, loss: Any, rate: float = 0.01) -> Any:
    """A step (params, …) -> (params, loss)."""

    def step(params: Any, *batch: Any) -> Any:
        value, grads = lib.value_and_grad(loss)(params, *batch)
        return lib.tree.map(lambda p, g: p - rate * g, params, grads), value

    return step


def adam_step(lib: Any, loss: Any, rate: float = 1e-3) -> Any:
    """A first step (params, means, squares, …) -> (the same three, loss)."""

    def step(params: Any, means: Any, squares: Any, *batch: Any) -> Any:
        value, grads = lib.value_and_grad(loss)(params, *batch)
        means = lib.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, grads)
        squares = lib.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, squares, grads)

        def moved(p: Any, m: Any, s: Any) -> Any:
            return p - rate * (m / 0.1) / (lib.np.sqrt(s / 0.001) + 1e-8)

        return lib.tree.map(moved, params, means, squares), means, squares, value

    return step
