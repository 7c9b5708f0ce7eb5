"""Convolutions of images, forward and with their gradients, and pooling."""

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
    groups: int = 1,
) -> Row:
    """A convolution whose output is as large as the images, over the stride."""
    pad = dilation * (filters[-1] // 2)

    @FAMILY.row(
        name,
        lambda: images_and_filters(images, filters),
        flops=operations(images, filters, stride),
    )
    def row(lib: Any) -> Any:
        return lambda x, w: lib.lax.conv_general_dilated(
            x, w, (stride, stride), [(pad, pad)] * 2,
            rhs_dilation=(dilation, dilation), feature_group_count=groups,
        )  # fmt: skip

    @row.peer("torch")
    def _(torch: Any) -> Any:
        return lambda x, w: torch.nn.functional.conv2d(
            x, w, stride=stride, padding=pad, dilation=dilation, groups=groups
        )

    return row


def gradient(
    name: str,
    images: tuple[int, ...],
    filters: tuple[int, ...],
    stride: int,
    by: int,
    groups: int = 1,
) -> Row:
    """The gradient of a convolution by the images (0) or by the filters (1)."""
    (batch, _, *space), pad = images, filters[-1] // 2
    result = (batch, filters[0], *[-(-n // stride) for n in space])

    @FAMILY.row(
        name,
        lambda: (*images_and_filters(images, filters), normal(*result, seed=2)),
        flops=operations(images, filters, stride),
    )
    def row(lib: Any) -> Any:
        def inner(x: Any, w: Any, y: Any) -> Any:
            made = lib.lax.conv_general_dilated(
                x, w, (stride, stride), [(pad, pad)] * 2, feature_group_count=groups
            )
            return lib.np.sum(made * y)

        return lib.grad(inner, argnums=by)

    @row.peer("torch")
    def _(torch: Any) -> Any:
        def one(x: Any, w: Any, y: Any) -> Any:
            with torch.enable_grad():
                x, w = x.detach(), w.detach()
                (x, w)[by].requires_grad_()
                found = torch.nn.functional.conv2d(
                    x, w, stride=stride, padding=pad, groups=groups
                )
                return torch.autograd.grad(found, (x, w)[by], y)[0]

        return one

    return row


def pooling(name: str, images: tuple[int, ...], size: int, stride: int) -> Row:
    """The greatest of each window."""
    pad = size // 2 if size > stride else 0

    @FAMILY.row(
        name,
        lambda: (normal(*images),),
        bytes=int(4 * prod(images) * (1 + 1 / stride**2)),
    )
    def row(lib: Any) -> Any:
        return lambda x: lib.lax.reduce_window(
            x, -float("inf"), lib.lax.max, (1, 1, size, size), (1, 1, stride, stride),
            [(0, 0), (0, 0), (pad, pad), (pad, pad)],
        )  # fmt: skip

    @row.peer("torch")
    def _(torch: Any) -> Any:
        return lambda x: torch.nn.functional.max_pool2d(x, size, stride, pad)

    return row


def pooling_gradient(name: str, images: tuple[int, ...]) -> Row:
    """The gradient of the greatest of 2×2 windows side by side."""
    batch, channels, height, width = images
    result = (batch, channels, height // 2, width // 2)

    @FAMILY.row(name, lambda: (normal(*images), normal(*result, seed=1)))
    def row(lib: Any) -> Any:
        def inner(x: Any, y: Any) -> Any:
            found = lib.lax.reduce_window(
                x, -float("inf"), lib.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
            )
            return lib.np.sum(found * y)

        return lib.grad(inner)

    @row.peer("torch")
    def _(torch: Any) -> Any:
        def gradient(x: Any, y: Any) -> Any:
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                found = torch.nn.functional.max_pool2d(x, 2)
                return torch.autograd.grad(found, x, y)[0]

        return gradient

    return row


forward("128 of 1→32, 28²", (128, 1, 28, 28), (32, 1, 3, 3))
forward("32 of 32→64, 14²", (32, 32, 14, 14), (64, 32, 3, 3))
forward("strided 16 of 32→64, 28²", (16, 32, 28, 28), (64, 32, 3, 3), stride=2)
forward("dilated 16 of 32→32, 28²", (16, 32, 28, 28), (32, 32, 3, 3), dilation=2)
forward("32 of 64→64, 56²", (32, 64, 56, 56), (64, 64, 3, 3))
gradient(
    "by images, strided 16 of 32→64, 28²", (16, 32, 28, 28), (64, 32, 3, 3), 2, by=0
)
gradient(
    "by filters, strided 16 of 32→64, 28²", (16, 32, 28, 28), (64, 32, 3, 3), 2, by=1
)
gradient("by filters, 8 of 3→16, 32²", (8, 3, 32, 32), (16, 3, 3, 3), 1, by=1)
forward(
    "depthwise 4 of 32, 28², 5×5 by 2", (4, 32, 28, 28), (32, 1, 5, 5), 2, groups=32
)
gradient("by filters, depthwise 4 of 32, 28²", (4, 32, 28, 28), (32, 1, 3, 3), 1, 1, 32)
forward("8 of 128→128, 7²", (8, 128, 7, 7), (128, 128, 3, 3))
pooling("max of 2×2, 16 of 32, 56²", (16, 32, 56, 56), 2, 2)
pooling("max of 3×3 by 2, 16 of 32, 56²", (16, 32, 56, 56), 3, 2)
pooling_gradient("gradient of max of 2×2, 16 of 32, 56²", (16, 32, 56, 56))


def gradients_channels_last(
    name: str, images: tuple[int, ...], filters: tuple[int, ...], groups: int
) -> Row:
    """Both gradients of a convolution in the layout of flax and haiku."""

    @FAMILY.row(
        name,
        lambda: images_and_filters(images, filters),
        flops=6.0 * prod(images[:3]) * prod(filters),
    )
    def row(lib: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            found = lib.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=groups,
            )  # fmt: skip
            return lib.np.sum(found**2)

        return lib.grad(loss, argnums=(0, 1))

    return row


gradients_channels_last(
    "gradients, channels last 32 of 32→64, 14²", (32, 14, 14, 32), (3, 3, 32, 64), 1
)
gradients_channels_last(
    "gradients, channels last 8 of 32 × 4→4, 28²", (8, 28, 28, 128), (3, 3, 4, 128), 32
)

gradients_channels_last(
    "gradients, depthwise channels last 8 of 32, 56²",
    (8, 56, 56, 32),
    (3, 3, 1, 32),
    32,
)
gradients_channels_last(
    "gradients, depthwise channels last 2 of 384, 14², 7×7",
    (2, 14, 14, 384),
    (7, 7, 1, 384),
    384,
)
gradients_channels_last(
    "gradients, channels last 2 of 4 × 8→8, 28²", (2, 28, 28, 32), (3, 3, 8, 32), 4
)

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
