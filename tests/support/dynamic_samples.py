"""Functions of arrays with dynamic dimensions: `transforms/jit/test_dynamic_dims.py`.

Each sample is a function, the value of `dynamic=`, and the shapes of the arguments for
a size n of the first dynamic dimension. Sizes of a second one are derived from n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn

Arguments = Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True)
class DynamicSample:
    """A function and its arguments for each size.

    Attributes:
      most: sizes are not larger, where time or memory grows faster than the size.
      slow: not for a device whose compiler is slow.
    """

    name: str
    function: Callable[..., Any]
    dynamic: dict[str, Any]
    arguments: Arguments
    most: int = 1 << 30
    slow: bool = False

    def __str__(self) -> str:
        return self.name


def floats(*shape: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(sum(shape))
    return generator.standard_normal(shape).astype(np.float32)


def positions(count: int, below: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(count).integers(0, below, count).astype(np.int32)


ROWS = {"x": {0: "n"}}
COLUMNS = {"x": {1: "n"}}
BOTH = {"x": {0: "n", 1: "m"}}
WEIGHTS, WIDE = floats(5, 6), floats(64, 48)


def other(n: int) -> int:
    """The size of a second dynamic dimension."""
    return 3 + n % 5


def loss(w: Any, x: Any, y: Any) -> Any:
    return fnp.mean((fnp.tanh(x @ w) - y) ** 2)


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / fnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x: Any, w: Any) -> Any:
    scores = (x @ w) @ fnp.swapaxes(x, 1, 2) / np.float32(2)
    return nn.softmax(scores, axis=-1) @ x


def causal_sums(x: Any) -> Any:
    place = fnp.arange(x.shape[0])
    return fnp.where(place[:, None] >= place, x[:, None] * x, 0).sum(1)


def of_rows(width: int) -> Arguments:
    return lambda n: (floats(n, width),)


def of_columns(height: int) -> Arguments:
    return lambda n: (floats(height, n),)


def vector(n: int) -> tuple[Any, ...]:
    return (floats(n),)


def matrix(n: int) -> tuple[Any, ...]:
    return (floats(n, other(n)),)


def _elementwise() -> list[DynamicSample]:
    s = DynamicSample
    return [
        s("chain", lambda x: fnp.exp(x) * 2 + 1, ROWS, of_rows(4)),
        s("chain_of_vector", lambda x: fnp.sin(x) * 2 + x, ROWS, vector),
        s("mask", lambda x: fnp.where(x > 0, x, 0), ROWS, of_rows(3)),
        s("size_is_a_value", lambda x: x * x.shape[0] + x.shape[0] // 2, ROWS, vector),
        s(
            "size_as_float",
            lambda x: x / x.shape[0] + 1.0 / x.size + x.shape[0] * 0.5,
            ROWS,
            vector,
        ),
        s("float16", lambda x: x.astype(fnp.float16) * 2, ROWS, of_rows(5)),
        s("complex", lambda x: fnp.abs(x * (1 + 2j)), ROWS, of_rows(5)),
        s(
            "positions",
            lambda x: (
                (fnp.arange(x.shape[0]) == 3) + fnp.minimum(fnp.arange(x.shape[0]), 3)
            ),
            ROWS,
            vector,
        ),
        s("arange", lambda x: x + fnp.arange(x.shape[0]), ROWS, vector),
        s("filled", lambda x: fnp.zeros(x.shape) + fnp.ones_like(x), ROWS, of_rows(3)),
        s("eye", lambda x: fnp.eye(x.shape[0]) * x, ROWS, vector, 64),
    ]


def _broadcasts() -> list[DynamicSample]:
    s = DynamicSample
    return [
        s("row_by_column", lambda x: x[:, None] * fnp.arange(7), ROWS, vector),
        s("bias", lambda x: x + np.arange(5, dtype=np.float32), ROWS, of_rows(5)),
        s("broadcast_to", lambda x: fnp.broadcast_to(x, (3, *x.shape)), ROWS, vector),
        s("two_by_two", lambda x, y: x[:, None] + y, {"x": {0: "n"}, "y": {0: "m"}},
          lambda n: (floats(n), floats(other(n))), 100),
        s("causal", causal_sums, ROWS, vector, 200),
    ]  # fmt: skip


def _reductions() -> list[DynamicSample]:
    s = DynamicSample
    return [
        s("sum_over", lambda x: x.sum(0), ROWS, of_rows(5)),
        s("sum_beside", lambda x: x.sum(1), ROWS, of_rows(50)),
        s("sum_of_all", lambda x: x.sum(), ROWS, of_rows(5)),
        s("mean", lambda x: x.mean(), ROWS, of_rows(5)),
        s("mean_over", lambda x: x.mean(0), ROWS, of_rows(5)),
        s("maximum", lambda x: x.max(), ROWS, vector),
        s("span", lambda x: x.max(0) - x.min(0), ROWS, of_rows(9)),
        s("product", lambda x: fnp.prod(x * 0.01 + 1, 0), ROWS, of_rows(3), 1000),
        s("argmax_over", lambda x: fnp.argmax(x, 0), ROWS, of_rows(3)),
        s("argmax_beside", lambda x: fnp.argmax(x, 1), ROWS, of_rows(11)),
        s("variance", lambda x: fnp.var(x, axis=0), ROWS, of_rows(3)),
        s("any", lambda x: (x > 2).any(0), ROWS, of_rows(5)),
        s("softmax_over", lambda x: nn.softmax(x, axis=0), ROWS, of_rows(3)),
        s("softmax_beside", lambda x: nn.softmax(x, axis=1), ROWS, of_rows(30)),
        s("softmax_of_vector", nn.softmax, ROWS, vector),
        s("logsumexp", lambda x: nn.logsumexp(x, axis=1), ROWS, of_rows(30)),
        s("layer_norm_beside", layer_norm, ROWS, of_rows(33)),
        s("layer_norm_over", layer_norm, COLUMNS, of_columns(3)),
        s("nested_rows", lambda x: (x - x.mean(0)).std(0), ROWS, of_rows(5)),
        s("sums_of_both", lambda x: x.sum(0) + x.sum(1).mean(), BOTH, matrix, 100),
        s("softmax_of_both", lambda x: nn.softmax(x, -1), BOTH, matrix, 100),
        s("cumsum_over", lambda x: fnp.cumsum(x, 0), {"x": {0: ft.Dim("n", max=4097)}},
          vector, slow=True),
        s("cumsum_beside", lambda x: fnp.cumsum(x, 1), ROWS, of_rows(5)),
        s("sums_of_constants", lambda x: fnp.full(x.shape, 2.5).sum(0), ROWS,
          of_rows(5)),
        s("count", lambda x: fnp.full(x.shape, 3).sum(), ROWS, of_rows(5)),
        s("complex_product", lambda x: (x * 0.01 + (0.6 + 0.8j)).prod(), ROWS, vector),
        s("complex_count", lambda x: fnp.full(x.shape, 2 - 1j).sum(), ROWS, vector),
        s("product_of_constants", lambda x: fnp.full(x.shape, 1.001).prod(), ROWS,
          vector, 1000),
        s("greatest_constant", lambda x: fnp.full(x.shape, 7).max(), ROWS, vector),
        s("gradient_of_a_bias", ft.grad(lambda b, x: (x - b).sum(), argnums=0),
          {"x": {0: "n"}}, lambda n: (np.float32(0.5), floats(n))),
    ]  # fmt: skip


def _contractions() -> list[DynamicSample]:
    s = DynamicSample
    both = {"x": {0: "n"}, "y": {0: "n"}}
    return [
        s("matmul", lambda x: x @ WEIGHTS, ROWS, of_rows(5)),
        s("layer", lambda x: fnp.maximum(x @ WIDE, 0), ROWS, of_rows(64)),
        s("layer_in_blocks", lambda x, w: fnp.maximum(x @ w, 0), ROWS,
          lambda n: (floats(n, 300), floats(300, 1100)), 1000, slow=True),
        s("batches_in_blocks", lambda x, w: x @ w, {"x": {0: "b", 1: "n"}},
          lambda n: (floats(3, n, 300), floats(300, 1100)), 100, slow=True),
        s("columns_in_blocks", lambda x: floats(600, 300) @ x, COLUMNS, of_columns(300),
          1000, slow=True),
        s("sums_in_blocks", lambda x: x.T @ x, ROWS, of_rows(512), 1000, slow=True),
        s("all_in_blocks", lambda x, y: x.T @ y.T,
          {"x": {0: "k", 1: "n"}, "y": {0: "m", 1: "k"}},
          lambda n: (floats(37 + n // 2, n), floats(300 + n % 7, 37 + n // 2)), 600,
          slow=True),
        s("columns_summed", lambda x: x - x.mean(0), BOTH,
          lambda n: (floats(n, 300 + n % 7),), 1000),
        s("matmul_over", lambda x, y: x @ y, {"x": {1: "n"}, "y": {0: "n"}},
          lambda n: (floats(5, n), floats(n, 6))),
        s("matmul_columns", lambda x: WEIGHTS.T @ x, COLUMNS, of_columns(5)),
        s("matvec", lambda x: x @ WEIGHTS[:, 0], ROWS, of_rows(5)),
        s("gram", lambda x: x.T @ x, ROWS, of_rows(5)),
        s("outer", lambda x: x @ x.T, ROWS, of_rows(5), 300),
        s("batched", lambda x, y: x @ y, both,
          lambda n: (floats(n, 3, 5), floats(n, 5, 4))),
        s("einsum", lambda x: fnp.einsum("bij,jk->bik", x, WEIGHTS), ROWS,
          lambda n: (floats(n, 3, 5),)),
        s("einsum_of_four",
          lambda x: fnp.einsum("ij,jk,lk,il->k", x, WEIGHTS, WEIGHTS, x), ROWS,
          of_rows(5)),
        s("multi_dot", lambda x: fnp.linalg.multi_dot([WEIGHTS.T, x.T, x, x.T, x]),
          ROWS, of_rows(5)),
        s("attention", attention, COLUMNS,
          lambda n: (floats(2, n, 5), floats(5, 5)), 100),
        s("attention_of_both", attention, {"x": {0: "b", 1: "n"}},
          lambda n: (floats(other(n), n, 5), floats(5, 5)), 64),
        s("matmul_of_both", lambda x, y: x @ y, {"x": {0: "n"}, "y": {1: "m"}},
          lambda n: (floats(n, 5), floats(5, other(n))), 100),
        s("convolution",
          lambda x: lax.conv_general_dilated(x, floats(4, 3, 3, 3), (1, 1), "SAME"),
          ROWS, lambda n: (floats(n, 3, 6, 6),), 9, slow=True),
    ]  # fmt: skip


def _movements() -> list[DynamicSample]:
    s = DynamicSample
    four = of_rows(4)
    return [
        s("concatenate", lambda x: fnp.concatenate([x, x * 2, fnp.ones((3, 4))]), ROWS,
          four),
        s("concatenate_beside", lambda x: fnp.concatenate([x, x * 2], 1), ROWS, four),
        s("stack", lambda x: fnp.stack([x, x + 1], 1), ROWS, four),
        s("without_first", lambda x: x[1:], ROWS, four),
        s("without_last", lambda x: x[:-1] * 2, ROWS, four),
        s("ends", lambda x: x[:2] + x[-2:], ROWS, four),
        s("differences", lambda x: x[1:] - x[:-1], ROWS, vector),
        s("first_and_last", lambda x: x[0] + x[-1], ROWS, four),
        s("every_second", lambda x: x[::2], ROWS, four),
        s("flip", lambda x: x[::-1] + x, ROWS, vector),
        s("columns", lambda x: x[:, 1:3] + x[:, ::2], ROWS, four),
        s("transpose", lambda x: x.T + 0, ROWS, four),
        s("transpose_of_both", lambda x: x.T * 2, BOTH, matrix, 100),
        s("flatten", lambda x: x.reshape(-1) * 2, ROWS, four),
        s("flatten_both", lambda x: (x.reshape(-1) * 2).sum(), BOTH, matrix, 100),
        s("split_axis", lambda x: x.reshape(x.shape[0], 2, 2).sum(1), ROWS, four),
        s("regroup", lambda x: x.reshape(-1, 2).sum(1), ROWS, four),
        s("ravel_of_transpose", lambda x: fnp.ravel(x.T), ROWS, four),
        s("pad", lambda x: fnp.pad(x, ((1, 2), (0, 0))), ROWS, four),
        s("roll", lambda x: fnp.roll(x, 1, axis=0), ROWS, four),
        s("repeat", lambda x: fnp.repeat(x, 3, axis=0), ROWS, four),
        s("tile", lambda x: fnp.tile(x, (2, 1)), ROWS, four),
        s("tril", lambda x: fnp.tril(x[:, None] * x), ROWS, vector, 200),
    ]  # fmt: skip


def _indexing() -> list[DynamicSample]:
    s = DynamicSample
    same = {"x": {0: "n"}, "i": {0: "n"}}
    return [
        s("gather_from", lambda x, i: x[i], ROWS,
          lambda n: (floats(n, 4), positions(6, n))),
        s("gather_many", lambda x, i: x[i], {"i": {0: "n"}},
          lambda n: (floats(10, 4), positions(n, 10))),
        s("take", lambda x, i: fnp.take(x, i, axis=0), same,
          lambda n: (floats(n, 4), positions(n, n))),
        s("take_along_axis", lambda x, i: fnp.take_along_axis(x, i[:, None], 1), same,
          lambda n: (floats(n, 4), positions(n, 4))),
        s("scatter_add", lambda x, i: x.at[i].add(1.0), ROWS,
          lambda n: (fnp.asarray(floats(n, 4)), positions(6, n))),
        s("one_hot", lambda i: nn.one_hot(i, 7), {"i": {0: "n"}},
          lambda n: (positions(n, 7),)),
        s("dynamic_slice", lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 0), ROWS,
          lambda n: (floats(n, 4), np.int32(1))),
    ]  # fmt: skip


def _transforms() -> list[DynamicSample]:
    s = DynamicSample
    data = {"x": {0: "n"}, "y": {0: "n"}}

    def batch(n: int) -> tuple[Any, ...]:
        return floats(5, 6), floats(n, 5), floats(n, 6)

    return [
        s("gradient", ft.value_and_grad(loss), data, batch),
        s("gradient_of_data", lambda w, x, y: ft.grad(loss, 1)(w, x, y), data, batch),
        s("gradient_of_softmax", ft.grad(lambda x: (nn.log_softmax(x) ** 2).sum()),
          ROWS, of_rows(9)),
        s("gradient_of_differences",
          ft.grad(lambda x: ((x[1:] - x[:-1]) ** 2).sum()), ROWS, vector),
        s("gradient_of_gather", ft.grad(lambda x, i: (x[i] ** 2).sum()),
          {"i": {0: "n"}}, lambda n: (floats(10, 3), positions(n, 10)), 64),
        s("gradient_of_maximum", ft.grad(lambda x: x.max(0).sum()), ROWS, of_rows(9)),
        s("gradient_of_concatenate",
          ft.grad(lambda x: (fnp.concatenate([x, x * 2]) ** 2).sum()), ROWS,
          of_rows(9)),
        s("vmap_over", ft.vmap(lambda x: x @ WEIGHTS + x.sum()), ROWS, of_rows(5)),
        s("vmap_beside", ft.vmap(nn.softmax), COLUMNS, of_columns(3)),
        s("vmap_of_gradient", ft.vmap(ft.grad(lambda x: fnp.tanh(x @ WEIGHTS).sum())),
          ROWS, of_rows(5)),
        s("jvp", lambda x: ft.jvp(lambda z: fnp.exp(z).sum(0), (x,), (x,))[1], ROWS,
          of_rows(5)),
        s("hessian", lambda x: ft.hessian(lambda w: ((x @ w) ** 2).mean())(fnp.ones(4)),
          ROWS, of_rows(4), slow=True),
        s("jit_inside", lambda x: ft.jit(lambda y: y * 2 + y.shape[0])(x), ROWS,
          vector),
        s("pytree", lambda d: d["a"] + d["b"][0].sum(),
          {"d": {"a": {0: "n"}, "b": ({0: "n"}, None)}},
          lambda n: ({"a": floats(n, 3), "b": (floats(n), floats(2))},)),
    ]  # fmt: skip


def _steps() -> list[DynamicSample]:
    """Loops, branches, and what the host computes."""
    s = DynamicSample
    four = of_rows(4)
    weights = floats(4, 4)

    def recurrence(x: Any) -> Any:
        return lax.scan(lambda c, r: (c * 0.9 + r, (c * r).sum()), fnp.zeros(4), x)

    def network(w: Any, x: Any) -> Any:
        start = fnp.zeros((x.shape[0], 4))
        rows = fnp.swapaxes(x, 0, 1)
        return lax.scan(lambda c, r: (fnp.tanh(c @ w + r), None), start, rows)[0].sum()

    return [
        s("scan_over", recurrence, ROWS, four, 100),
        s("scan_beside",
          lambda x: lax.scan(lambda c, i: (fnp.sin(c) + i, c.sum(0)), x,
                             fnp.arange(3.0)), ROWS, four),
        s("scan_backward", lambda x: lax.scan(lambda c, r: (c * 0.9 + r, c),
                                              fnp.zeros(4), x, reverse=True),
          ROWS, four, 100, slow=True),
        s("loop_as_often", lambda x: lax.fori_loop(
            0, x.shape[0], lambda i, c: c + fnp.asarray(x)[i], fnp.zeros(4)),
          ROWS, four, 100),
        s("loop_of_products",
          lambda x: lax.fori_loop(0, 3, lambda i, c: fnp.tanh(c @ weights), x), ROWS,
          four),
        s("while_loop", lambda x: lax.while_loop(lambda c: (c**2).sum() > 1e-3,
                                                 lambda c: c * 0.5, x), ROWS, four),
        s("cond", lambda x: lax.cond(x.sum() > 0, lambda z: z * 3, lambda z: -z, x),
          ROWS, four),
        s("gradient_of_scan", ft.grad(lambda x: recurrence(x)[1].sum()), ROWS, four,
          100, slow=True),
        s("gradient_of_network", ft.grad(network), {"x": {0: "b", 1: "n"}},
          lambda n: (floats(4, 4), floats(other(n), n, 4)), 64, slow=True),
        s("vmap_of_while", ft.vmap(lambda x: lax.while_loop(
            lambda c: c.sum() < 20, lambda c: c + 1, abs(x))), ROWS, four, 100,
          slow=True),
        s("cholesky_beside",
          lambda x: fnp.linalg.cholesky(x[:, :, None] * x[:, None] + fnp.eye(4)), ROWS,
          four),
        s("cholesky_over",
          lambda x: fnp.linalg.cholesky(x @ x.T + fnp.eye(x.shape[0])), ROWS, four, 20),
        s("sort", lambda x: fnp.sort(x, 0), ROWS, four),
        s("fft", lambda x: fnp.fft.fft(x, axis=0), ROWS, four),
        s("callback", lambda x: ft.pure_callback(lambda a: np.asarray(a) * 2, x, x),
          ROWS, four),
    ]  # fmt: skip


SAMPLES = [
    *_elementwise(), *_broadcasts(), *_reductions(), *_contractions(), *_movements(),
    *_indexing(), *_transforms(), *_steps(),
]  # fmt: skip
