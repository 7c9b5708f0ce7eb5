"""Fourier transforms as kernels: lengths that are powers of two.

    fft(x)        ->  transform(… transform(x))        one for each axis
    fft(long x)   ->  permute(rows(columns(x, twisted)))

Along the last axis each row is transformed by itself, along another one a strip of
columns, as many as fill a vector; nothing is transposed. A row that is longer than the
first caches is a matrix: its columns are transformed, each element turned by the root
of unity that belongs to its place, and then its rows (Gentleman and Sande 1966).

A real row is one of half as many complex numbers; its transform is told from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ftrace import dtypes, settings
from ftrace.lower.kernel import BufferSpec, Kernel, KernelInfo
from ftrace.lower.recurrence import Step, register_loop_p
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.dims import any_dynamic
from ftrace.trace.graph import Node, inherited_origin, rebuild, toposort
from ftrace.trace.primitives.host.fourier import Fourier, fft_p
from ftrace.trace.primitives.movement import move_axis, permute, permute_p, reshape
from ftrace.trace.primitives.record import item_p, items

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "transform_natively": "a Fourier transform is a kernel, without Python",
}

#: The longest rows and columns that are transformed in the first caches.
ROW = 1 << 12
COLUMN = 1 << 11
#: The longest rows that are matrices.
LONGEST = 1 << 20
#: Fewer columns fill no vector of any processor.
FEW_COLUMNS = 16


@dataclass(frozen=True)
class Transform(Kernel):
    """A kernel that transforms along an axis.

    Attributes:
      axes, stores: none.
      kind: "fft", or "rfft" and "irfft" of rows.
      outer, size, inner: the shape, of complex numbers; along the middle axis.
      inverse: the other sign of the exponent.
      scale: what the result is multiplied by.
      twisted: element (i, k) of the result is multiplied by the root of unity of order
        size · inner to the power of i·k; there is no more than one matrix per `outer`.
    """

    kind: str = "fft"
    outer: int = 1
    size: int = 1
    inner: int = 1
    inverse: bool = False
    scale: float = 1.0
    twisted: bool = False

    @property
    def work(self) -> int:
        """Operations for one row or column, about."""
        return 5 * self.size * self.size.bit_length()

    def __str__(self) -> str:
        way = "inverse " if self.inverse else ""
        shape = f"{self.outer}x[{self.size}]x{self.inner}"
        return f"{way}{self.kind} along {shape}{', twisted' * self.twisted}"


def transforms_as_kernels(outputs: Sequence[Node]) -> list[Node]:
    """The outputs with Fourier transforms as kernels."""
    order = toposort(outputs)
    off = "transform_natively" in settings.current().disabled_rules
    if off or not any(node.op is fft_p for node in order):
        return list(outputs)
    done: dict[Node, Node] = {}
    replaced: dict[Node, Node] = {}
    with inherited_origin() as take:
        for node in order:
            take(node)
            if node.op is item_p and node.src[0] in replaced:
                done[node] = replaced[node.src[0]]
                continue
            new = rebuild(node, tuple(done[s] for s in node.src))
            if new.op is permute_p and new.src[0].op is permute_p:
                new = _permuted_twice(new)
            done[node] = new
            if node.op is fft_p and is_plain(new):
                replaced[node] = _transformed(new)
    return [done[node] for node in outputs]


def _permuted_twice(node: Node) -> Node:
    first, second = node.src[0].arg, node.arg
    return permute(node.src[0].src[0], tuple(first[a] for a in second))


def is_plain(node: Node) -> bool:
    """Are all lengths powers of two for which there are kernels?"""
    (x,), arg = node.src, node.arg
    if any_dynamic(x.shape) or any_dynamic(arg.lengths) or not prod(x.shape):
        return False
    if any(n & (n - 1) for n in arg.lengths):
        return False
    last = arg.lengths[-1]
    if arg.kind in ("rfft", "irfft"):
        return 4 <= last <= 2 * ROW and max(arg.lengths) <= LONGEST
    return 1 < max(arg.lengths) <= LONGEST


def _transformed(node: Node) -> Node:
    (x,) = node.src
    arg: Fourier = node.arg
    axes = range(x.ndim - len(arg.lengths), x.ndim)
    inverse = arg.kind in ("ifft", "irfft")
    if arg.kind in ("fft", "ifft"):
        order: Shape | None = None
        if x.op is permute_p:  # along the axes where they were
            order = x.arg
            x = x.src[0]
            axes = [order[a] for a in axes]
        for axis in sorted(axes, reverse=True):
            x = _along(node, x, axis, inverse)
        return x if order is None else permute(x, order)
    if arg.kind == "rfft":
        x = _real_rows(node, x)
    for axis in axes[:-1]:
        x = _along(node, x, axis, inverse)
    return _real_rows(node, x) if arg.kind == "irfft" else x


def _along(node: Node, x: Node, axis: int, inverse: bool) -> Node:
    """The transform along one axis."""
    size, last = x.shape[axis], x.ndim - 1
    if size == 1:
        return x
    inner = prod(x.shape[axis + 1 :])
    scale = 1 / size if inverse else 1.0
    if inner > 1 and (inner < FEW_COLUMNS or size > COLUMN):
        moved = _along(node, move_axis(x, axis, last), last, inverse)
        return move_axis(moved, last, axis)
    shape = (prod(x.shape[:axis]), size, inner)
    if inner > 1 or size <= ROW:
        return _kernel(node, x, x.aval, shape, inverse, scale)
    # Both powers of two; there are no more rows of the matrix than columns.
    rows = 1 << ((size.bit_length() - 1) // 2)
    columns = size // rows
    matrices = reshape(x, (shape[0], rows, columns))
    aval = matrices.aval
    form = (shape[0], rows, columns)
    turned = _kernel(node, matrices, aval, form, inverse, 1.0, twisted=True)
    form = (shape[0] * rows, columns, 1)
    found = _kernel(node, turned, aval, form, inverse, scale)
    return reshape(permute(found, (0, 2, 1)), x.shape)


def _real_rows(node: Node, x: Node) -> Node:
    """rfft or irfft along the last axis."""
    arg: Fourier = node.arg
    size = arg.lengths[-1]
    lead = x.shape[:-1]
    if arg.kind == "rfft":
        complex_dtype = dtypes.complex_dtype(x.dtype)
        aval = ShapedArray.of((*lead, size // 2 + 1), complex_dtype)
    else:
        aval = ShapedArray.of((*lead, size), dtypes.real_dtype(x.dtype))
    inverse = arg.kind == "irfft"
    scale = 2 / size if inverse else 1.0
    shape = (prod(lead), size // 2, 1)
    return _kernel(node, x, aval, shape, inverse, scale, kind=arg.kind)


def _kernel(
    node: Node,
    x: Node,
    aval: ShapedArray,
    shape: tuple[int, int, int],
    inverse: bool,
    scale: float,
    *,
    kind: str = "fft",
    twisted: bool = False,
) -> Node:
    outer, size, inner = shape
    buffers = (
        BufferSpec(aval.dtype, aval.size, True),
        BufferSpec(x.dtype, x.size, False),
    )
    kernel = Transform(
        (), (), buffers, kind=kind, outer=outer, size=size, inner=inner,
        inverse=inverse, scale=scale, twisted=twisted,
    )  # fmt: skip
    info = KernelInfo(
        f"{kind}_{'x'.join(map(str, x.shape))}",
        () if node.origin is None else (node.origin,),
        outer * inner * kernel.work,
        sum(spec.size * spec.dtype.itemsize for spec in buffers),
        (node.op.name,),
    )
    return items(register_loop_p(x, arg=Step(kernel, info, (aval,))))[0]
