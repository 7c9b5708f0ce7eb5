"""Products summed over an axis: matmul, einsum, dense layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inputs import integers, normal, weights
from benchmarks.row import Family, Row
from ftrace.dtypes import bfloat16

FAMILY = Family("contraction")


def short_floats(*shape: int, seed: int = 0) -> Any:
    """Standard normal bfloat16."""
    return normal(*shape, seed=seed).astype(bfloat16)


def short_integers(*shape: int, seed: int = 0) -> Any:
    """Uniform int8 from -64 to 63."""
    return integers(*shape, high=128, seed=seed, dtype=np.int8) - np.int8(64)


def product(m: int, k: int, n: int, name: str) -> Row:
    """A matmul of (m, k) and (k, n), the same in all libraries."""

    @FAMILY.row(
        f"matmul {name}",
        lambda: (normal(m, k), normal(k, n, seed=1)),
        flops=2 * m * k * n,
    )
    def row(_: Any) -> Any:
        return lambda a, b: a @ b

    @row.peer("torch", "numpy")
    def _(_: Any) -> Any:
        return lambda a, b: a @ b

    return row


for size in (48, 64, 256, 512, 1024, 2048):
    product(size, size, size, f"{size}³")
product(333, 777, 555, "333×777×555")
product(700, 900, 500, "700×900×500")
product(96, 300, 200, "96×300×200")
product(32, 1024, 1024, "32×1024×1024")
product(4096, 512, 4, "4096×512×4")


@FAMILY.row(
    "bfloat16 512³",
    lambda: (short_floats(512, 512), short_floats(512, 512, seed=1)),
    tolerance=1e-2,
)
def of_bfloat16(_: Any) -> Any:
    return lambda a, b: a @ b


@FAMILY.row(
    "int8 512³, sums of int32",
    lambda: (short_integers(512, 512), short_integers(512, 512, seed=1)),
)
def of_int8(lib: Any) -> Any:
    return lambda a, b: lib.lax.dot(a, b, preferred_element_type=lib.np.int32)


@FAMILY.row(
    "a.T @ b 512³",
    lambda: (normal(512, 512), normal(512, 512, seed=1)),
    flops=2 * 512**3,
)
def transposed(_: Any) -> Any:
    return lambda a, b: a.T @ b


@transposed.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda a, b: a.T @ b


@FAMILY.row(
    "batch of 64 (128×64 @ 64×128)",
    lambda: (normal(64, 128, 64), normal(64, 64, 128, seed=1)),
    flops=2 * 64 * 128 * 64 * 128,
)
def batched(_: Any) -> Any:
    return lambda a, b: a @ b


@batched.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda a, b: a @ b


@FAMILY.row(
    "matvec 4096²", lambda: (normal(4096, 4096), normal(4096, seed=1)), bytes=True
)
def matvec(_: Any) -> Any:
    return lambda a, x: a @ x


@matvec.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda a, x: a @ x


@FAMILY.row(
    "dense + bias + gelu 256×512×512",
    lambda: (normal(256, 512), weights(512, 512, seed=1), normal(512, seed=2)),
    flops=2 * 256 * 512 * 512,
)
def dense(lib: Any) -> Any:
    return lambda x, w, b: lib.nn.gelu(x @ w + b)


@dense.peer("torch")
def _(torch: Any) -> Any:
    def layer(x: Any, w: Any, b: Any) -> Any:
        return torch.nn.functional.gelu(torch.addmm(b, x, w), approximate="tanh")

    return layer


@FAMILY.row(
    "attention scores einsum 4×256×8×64",
    lambda: (normal(4, 256, 8, 64), normal(4, 256, 8, 64, seed=1)),
    flops=2 * 4 * 8 * 256 * 256 * 64,
)
def scores(lib: Any) -> Any:
    return lambda q, k: lib.np.einsum("bqhd,bkhd->bhqk", q, k)


@scores.peer("torch", "numpy")
def _(module: Any) -> Any:
    return lambda q, k: module.einsum("bqhd,bkhd->bhqk", q, k)


@FAMILY.row(
    "bilinear einsum 256×(64·64→128)",
    lambda: (
        normal(256, 64),
        normal(64, 64, 128, seed=1, scale=0.02),
        normal(256, 64, seed=2),
    ),
)
def bilinear(lib: Any) -> Any:
    return lambda x, w, y: lib.np.einsum("bi,ijk,bj->bk", x, w, y)


@bilinear.peer("torch")
def _(torch: Any) -> Any:
    return lambda x, w, y: torch.einsum("bi,ijk,bj->bk", x, w, y)
