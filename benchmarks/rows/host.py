"""Sorting, running sums, and linear algebra on the host inside of programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.inputs import normal
from benchmarks.row import Family

FAMILY = Family("host")


@FAMILY.row("sort 1M", lambda: (normal(1 << 20),))
def sort(lib: Any) -> Any:
    return lib.np.sort


@sort.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.sort(x)[0]


@sort.peer("numpy")
def _(np: Any) -> Any:
    return np.sort


@FAMILY.row("argsort 1,000 × 1,000", lambda: (normal(1000, 1000),))
def argsort(lib: Any) -> Any:
    return lib.np.argsort


@argsort.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.argsort(x, stable=True)


@argsort.peer("numpy")
def _(np: Any) -> Any:
    return lambda x: np.argsort(x, kind="stable")


@FAMILY.row("fft2 512²", lambda: (normal(512, 512) + 1j * normal(512, 512, seed=1),))
def fft2(lib: Any) -> Any:
    return lib.np.fft.fft2


@fft2.peer("torch")
def _(torch: Any) -> Any:
    return torch.fft.fft2


@fft2.peer("numpy")
def _(np: Any) -> Any:
    return np.fft.fft2


@FAMILY.row("rfft 256 × 1,000", lambda: (normal(256, 1000),))
def rfft(lib: Any) -> Any:
    return lib.np.fft.rfft


@rfft.peer("torch")
def _(torch: Any) -> Any:
    return torch.fft.rfft


@rfft.peer("numpy")
def _(np: Any) -> Any:
    return np.fft.rfft


@FAMILY.row("cumsum 4M", lambda: (normal(1 << 22) * 1e-3,), bytes=True, tolerance=2e-2)
def cumsum(lib: Any) -> Any:
    return lib.np.cumsum


@cumsum.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.cumsum(x, 0)


@cumsum.peer("numpy")
def _(np: Any) -> Any:
    return np.cumsum


@FAMILY.row("cumsum axis 1, 2048²", lambda: (normal(2048, 2048),), bytes=True)
def cumsum_rows(lib: Any) -> Any:
    return lambda x: lib.np.cumsum(x, axis=1)


@cumsum_rows.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.cumsum(x, 1)


@cumsum_rows.peer("numpy")
def _(np: Any) -> Any:
    return lambda x: np.cumsum(x, axis=1)


def process_inputs() -> tuple[Any, ...]:
    x = np.sort(normal(256, seed=1))
    return np.array([0.1, 0.2, -1.0], np.float32), x, np.sin(3 * x).astype(np.float32)


@FAMILY.row("Gaussian process likelihood, 256, with gradient", process_inputs)
def process(lib: Any) -> Any:
    def loss(theta: Any, x: Any, y: Any) -> Any:
        length, scale, noise = (
            lib.np.exp(theta[0]),
            lib.np.exp(theta[1]),
            lib.np.exp(theta[2]),
        )
        distance = (x[:, None] - x[None, :]) / length
        kernel = scale * lib.np.exp(-0.5 * distance**2)
        factor = lib.np.linalg.cholesky(
            kernel + noise * lib.np.eye(x.size, dtype="float32")
        )
        white = lib.lax.linalg.triangular_solve(
            factor, y[:, None], left_side=True, lower=True
        )
        return 0.5 * lib.np.sum(white**2) + lib.np.sum(
            lib.np.log(lib.np.diagonal(factor))
        )

    return lib.value_and_grad(loss)


@FAMILY.row(
    "solve 256 × 256, with gradient",
    lambda: (
        normal(256, 256) + 16 * np.eye(256, dtype=np.float32),
        normal(256, 8, seed=2),
    ),
)
def solve(lib: Any) -> Any:
    return lib.grad(
        lambda a, b: lib.np.sum(lib.np.linalg.solve(a, b) ** 2), argnums=(0, 1)
    )
