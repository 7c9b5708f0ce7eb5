"""Arrays in another order: transposes, joins, borders."""

from __future__ import annotations

from typing import Any

from benchmarks.inputs import normal
from benchmarks.row import Family

FAMILY = Family("movement")


def two_squares() -> tuple[Any, ...]:
    return normal(2048, 2048), normal(2048, 2048, seed=1)


@FAMILY.row("transpose + add 2048²", two_squares, bytes=True)
def transpose_add(_: Any) -> Any:
    return lambda a, b: a.T + b


@transpose_add.peer("torch", "numpy")
def _(_: Any) -> Any:
    return lambda a, b: a.T + b


@FAMILY.row("NCHW → NHWC + relu", lambda: (normal(32, 64, 56, 56),), bytes=True)
def to_channels_last(lib: Any) -> Any:
    return lambda x: lib.nn.relu(lib.np.transpose(x, (0, 2, 3, 1)))


@to_channels_last.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.relu(x.permute(0, 2, 3, 1)).contiguous()


@to_channels_last.peer("numpy")
def _(np: Any) -> Any:
    return lambda x: np.maximum(np.ascontiguousarray(x.transpose(0, 2, 3, 1)), 0)


@FAMILY.row("concatenate, slice, flip", two_squares, bytes=True)
def join(lib: Any) -> Any:
    np = lib.np

    def pieces(a: Any, b: Any) -> Any:
        return np.concatenate([a[:, 1024:], np.flip(b, 1), a[:, :1024] * 2], axis=1)

    return pieces


@join.peer("torch")
def _(torch: Any) -> Any:
    return lambda a, b: torch.cat([a[:, 1024:], b.flip(1), a[:, :1024] * 2], 1)


@join.peer("numpy")
def _(np: Any) -> Any:
    return lambda a, b: np.concatenate(
        [a[:, 1024:], np.flip(b, 1), a[:, :1024] * 2], axis=1
    )


@FAMILY.row("pad 2000² by 24", lambda: (normal(2000, 2000),), bytes=True)
def pad(lib: Any) -> Any:
    return lambda x: lib.np.pad(x, 24)


@pad.peer("numpy")
def _(np: Any) -> Any:
    return lambda x: np.pad(x, 24)


@pad.peer("torch")
def _(torch: Any) -> Any:
    return lambda x: torch.nn.functional.pad(x, (24, 24, 24, 24))


def laplacian(u: Any) -> Any:
    inner = u[1:-1, 1:-1]
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner


@FAMILY.row("5-point stencil 2048²", lambda: (normal(2048, 2048),), bytes=True)
def stencil(_: Any) -> Any:
    return lambda u: u.at[1:-1, 1:-1].add(0.1 * laplacian(u))


@stencil.peer("numpy")
def _(_: Any) -> Any:
    def step(u: Any) -> Any:
        out = u.copy()
        out[1:-1, 1:-1] += 0.1 * laplacian(u)
        return out

    return step


@stencil.peer("torch")
def _(_: Any) -> Any:
    def step(u: Any) -> Any:
        out = u.clone()
        out[1:-1, 1:-1] += 0.1 * laplacian(u)
        return out

    return step
