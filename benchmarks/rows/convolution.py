"""Convolutions of images, forward and with their gradients."""

from __future__ import annotations

from math import prod
from typing import Any

from benchmarks.inputs import normal
from benchmarks.row import Family, Row

FAMILY = Family("convolution")


def images_and_filters(
    images: tuple[int, ...], filters: tuple[int, ...]
) -> tuple[Any, Any]:
    scale = prod(filters[1:]) ** -0.5
    return normal(*images), normal(*filters, seed=1, scale=scale)


def operations(images: tuple[int, ...], filters: tuple[int, ...], stride: int) -> float:
    """Multiplications and additions of a "SAME" convolution, borders included."""
    pixels = prod(-(-n // stride) for n in images[2:])
    return 2.0 * images[0] * pixels * prod(filters)


def forward(
    name: str,
    images: tuple[int, ...],
    filters: tuple[int, ...],
    stride: int = 1,
    dilation: int = 1,
) -> Row:
    """A 3×3 convolution whose output is as large as the images, over the stride."""

    @FAMILY.row(
        name,
        lambda: images_and_filters(images, filters),
        flops=operations(images, filters, stride),
    )
    def row(lib: Any) -> Any:
        return lambda x, w: lib.lax.conv_general_dilated(
            x, w, (stride, stride), [(dilation, dilation)] * 2,
            rhs_dilation=(dilation, dilation),
        )  # fmt: skip

    @row.peer("torch")
    def _(torch: Any) -> Any:
        return lambda x, w: torch.nn.functional.conv2d(
            x, w, stride=stride, padding=dilation, dilation=dilation
        )

    return row


forward("128 of 1→32, 28²", (128, 1, 28, 28), (32, 1, 3, 3))
forward("32 of 32→64, 14²", (32, 32, 14, 14), (64, 32, 3, 3))
forward("strided 16 of 32→64, 28²", (16, 32, 28, 28), (64, 32, 3, 3), stride=2)
forward("dilated 16 of 32→32, 28²", (16, 32, 28, 28), (32, 32, 3, 3), dilation=2)

IMAGES, FILTERS = (32, 32, 14, 14), (64, 32, 3, 3)


@FAMILY.row(
    "gradients 32 of 32→64, 14²",
    lambda: images_and_filters(IMAGES, FILTERS),
    flops=3 * operations(IMAGES, FILTERS, 1),
)
def gradients(lib: Any) -> Any:
    def loss(x: Any, w: Any) -> Any:
        return lib.np.sum(lib.lax.conv_general_dilated(x, w, (1, 1), "SAME") ** 2)

    return lib.grad(loss, argnums=(0, 1))


@gradients.peer("torch")
def _(torch: Any) -> Any:
    def both(x: Any, w: Any) -> Any:
        with torch.enable_grad():
            x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
            loss = torch.nn.functional.conv2d(x, w, padding=1).square().sum()
            return torch.autograd.grad(loss, (x, w))

    return both
