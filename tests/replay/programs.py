"""What is recorded: of each kind of kernels a program or two, small ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax

Program = tuple[Callable[..., Any], tuple[Any, ...]]

R = np.random.default_rng(0)


def _floats(*shape: int) -> Any:
    return R.standard_normal(shape).astype(np.float32)


def mlp_loss(params: Any, x: Any, labels: Any) -> Any:
    for w, b in params[:-1]:
        x = ft.nn.relu(x @ w + b)
    w, b = params[-1]
    scores = ft.nn.log_softmax(x @ w + b)
    return -fnp.mean(fnp.take_along_axis(scores, labels[:, None], 1))


def attention(q: Any, k: Any, v: Any) -> Any:
    return ft.nn.softmax(q @ k.swapaxes(-1, -2) / 4.0) @ v


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / fnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def convolution(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME")


def newton(x: Any) -> Any:
    return lax.while_loop(lambda y: abs(y * y - x) > 1e-5, lambda y: (y + x / y) / 2, x)


def recurrent(h: Any, xs: Any, w: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = fnp.tanh(h @ w + x)
        return h, h.sum()

    return lax.scan(step, h, xs)


PARAMS = [(_floats(16, 32), _floats(32)), (_floats(32, 10), _floats(10))]
LABELS = R.integers(0, 10, 8)
MATRIX = _floats(12, 12)
SPD = MATRIX @ MATRIX.T + 12 * np.eye(12, dtype=np.float32)

PROGRAMS: dict[str, Program] = {
    "mlp_gradient": (ft.grad(mlp_loss), (PARAMS, _floats(8, 16), LABELS)),
    "attention": (
        attention, (_floats(2, 20, 16), _floats(2, 20, 16), _floats(2, 20, 8)),
    ),
    "layer_norm": (layer_norm, (_floats(24, 40),)),
    "layer_norm_gradient": (ft.grad(lambda x: layer_norm(x)[0, 0]), (_floats(24, 40),)),
    "matmul": (fnp.matmul, (_floats(96, 80), _floats(80, 72))),
    "convolution": (convolution, (_floats(2, 3, 16, 16), _floats(4, 3, 3, 3))),
    "logsumexp": (lambda x: fnp.log(fnp.exp(x).sum(1)), (_floats(33, 50),)),
    "transcendentals": (
        lambda x: (fnp.sin(x), fnp.exp(x), fnp.log(abs(x)), fnp.tanh(x), lax.erf(x)),
        (_floats(300),),
    ),
    "cumulative": (lambda x: (fnp.cumsum(x, 1), fnp.cumprod(x, 0)), (_floats(20, 30),)),
    "sort": (lambda x: (fnp.sort(x), fnp.argsort(x, 0)), (_floats(20, 30),)),
    "fft": (lambda x: abs(fnp.fft.fft(x)), (_floats(4, 60),)),
    "cholesky_solve": (lambda a: fnp.linalg.solve(fnp.linalg.cholesky(a), a), (SPD,)),
    "gather_scatter": (lambda x, i: x.at[i].add(x[i]), (_floats(30, 4), LABELS)),
    "recurrent": (recurrent, (_floats(16), _floats(10, 16), _floats(16, 16))),
    "newton": (ft.vmap(newton), (abs(_floats(9)) + 1,)),
    "normal": (lambda key: ft.random.normal(key, (40,)), (ft.random.key(1),)),
    "bfloat16": (lambda x: (x.astype("bfloat16") * 3).sum(0), (_floats(40, 16),)),
    "integers": (lambda n: (n * 7 // 3 % 5, n << 2, n > 4), (LABELS,)),
    "pad_and_strides": (lambda x: fnp.pad(x, 2)[::2, ::-1].T, (_floats(10, 12),)),
}  # fmt: skip
