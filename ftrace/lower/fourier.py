"""Fourier transforms as kernels: lengths whose prime factors are 2, 3, 5 and 7.

    fft(x)        ->  transform(… transform(x))        one for each axis
    fft(long x)   ->  permute(rows(columns(x, twisted)))
                  or  columns(permute(columns(x, twisted)))

Along the last axis each row is transformed by itself, or as many as a vector has
lanes; along another one a strip of columns; nothing is transposed. A row that is longer
than the first caches is a matrix: its columns are transformed, each element turned by
the root of unity that belongs to its place, and then its rows (Gentleman and Sande
1966). So is a row whose length is no power of two: only columns are transformed by
other factors.

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
from ftrace.trace.exchange import exchange
from ftrace.trace.graph import Node, nodes_of, rebuild
from ftrace.trace.primitives.host.fourier import Fourier, fft_p
from ftrace.trace.primitives.movement import move_axis, permute, permute_p, reshape
from ftrace.trace.primitives.record import items

#: What `config.disabled_rules` can switch off here.
DECISIONS = {
    "transform_natively": "a Fourier transform is a kernel, without Python",
}

#: Lengths are products of these, of which 2 comes in pairs first.
RADICES = (2, 3, 5, 7)
#: The longest rows and columns that are transformed in the first caches.
ROW = 1 << 12
COLUMN = 1 << 11
#: Shorter rows do not fill a square of a vector's lanes; longer ones of a power of two
#: have enough numbers for vectors of their own.
_SHORT = 8
_LONG = 64
#: The longest rows that are matrices.
LONGEST = 1 << 20
#: Fewer columns fill no vector of any processor.
FEW_COLUMNS = 16


@dataclass(frozen=True)
class Transform(Kernel):
    """A kernel that transforms along an axis.

    Attributes:
      axes, stores: none.
      kind: "fft", or "rfft" and "irfft" of rows; "half" is the transform of real rows
        from those of their pairs of numbers, "pairs" is the way back, and "view" gives
        memory another type.
      outer, size, inner: the shape, of complex numbers; along the middle axis.
      inverse: the other sign of the exponent.
      scale: what the result is multiplied by.
      twisted: element (i, k) of the result is multiplied by the root of unity of order
        size · inner to the power of i·k; there is no more than one matrix per `outer`.
      abreast: several rows are transformed together, one in each lane.
    """

    kind: str = "fft"
    outer: int = 1
    size: int = 1
    inner: int = 1
    inverse: bool = False
    scale: float = 1.0
    twisted: bool = False
    abreast: bool = False

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
    off = "transform_natively" in settings.current().disabled_rules
    if off or not any(node.op is fft_p for node in nodes_of(outputs)):
        return list(outputs)

    def change(node: Node, src: tuple[Node, ...]) -> Node | Sequence[Node] | None:
        if node.op is permute_p and src[0].op is permute_p:
            return _permuted_twice(rebuild(node, src))
        if node.op is not fft_p:
            return None
        new = rebuild(node, src)
        return [_transformed(new)] if is_plain(new) else new

    return exchange(outputs, change)


def _permuted_twice(node: Node) -> Node:
    first, second = node.src[0].arg, node.arg
    return permute(node.src[0].src[0], tuple(first[a] for a in second))


def is_plain(node: Node) -> bool:
    """Are there kernels for transforms of these lengths?"""
    (x,), arg = node.src, node.arg
    lengths: Shape = arg.lengths
    if any_dynamic(x.shape) or any_dynamic(lengths) or not prod(x.shape):
        return False
    if arg.kind in ("rfft", "irfft"):
        last, lengths = lengths[-1], (*lengths[:-1], 1)
        if last % 2 or last < 4:
            return False
        half = (*x.shape[:-1], last // 2)
        if not _is_in_one(last) and not _has_kernels(half, x.ndim - 1):
            return False
    elif max(lengths) == 1:
        return False
    first = x.ndim - len(lengths)
    shape = (*x.shape[:first], *lengths)
    if arg.kind in ("rfft", "irfft"):
        shape = (*shape[:-1], arg.lengths[-1] // 2 + 1)
    return all(n == 1 or _has_kernels(shape, first + k) for k, n in enumerate(lengths))


def _is_in_one(size: int) -> bool:
    """Is a real row of this length transformed by one kernel?"""
    return _is_power(size) and size <= 2 * ROW


def _is_power(size: int) -> bool:
    return not size & (size - 1)


def _has_kernels(shape: Shape, axis: int) -> bool:
    """Does `_along` find kernels for this axis? What it can do, this has to know."""
    size, rest = shape[axis], shape[axis]
    for radix in RADICES:
        while rest % radix == 0:
            rest //= radix
    if rest > 1 or size > LONGEST:
        return False
    if _is_power(size) or _matrix_of(size):
        return True
    return size <= COLUMN and prod(shape) // size >= FEW_COLUMNS


def _is_abreast(size: int) -> bool:
    """Are rows transformed together, if there are enough?"""
    return _SHORT <= size <= COLUMN and (size < _LONG or not _is_power(size))


def _matrix_of(size: int) -> Shape | None:
    """The form of a row as a matrix with enough columns, transposed or not.

    Of powers of two there are no more rows than columns.
    """
    if _is_power(size):
        rows = 1 << ((size.bit_length() - 1) // 2)
        return rows, size // rows
    forms = [
        (n, size // n)
        for n in range(FEW_COLUMNS, int(size**0.5) + 1)
        if size % n == 0 and size // n <= COLUMN
    ]
    return forms[-1] if forms else None


def _transformed(node: Node) -> Node:
    (x,) = node.src
    arg: Fourier = node.arg
    axes = [*range(x.ndim - len(arg.lengths), x.ndim)]
    inverse = arg.kind in ("ifft", "irfft")
    if arg.kind in ("fft", "ifft"):
        order: Shape = tuple(range(x.ndim))
        if x.op is permute_p:  # along the axes where they were
            order = x.arg
            x = x.src[0]
        for axis in sorted([order[a] for a in axes], reverse=True):
            x = _along(node, x, axis, inverse)
        return permute(x, order)
    if arg.kind == "rfft":
        x = _real_rows(node, x)
    for axis in axes[:-1]:
        x = _along(node, x, axis, inverse)
    return _real_rows(node, x) if arg.kind == "irfft" else x


def _along(node: Node, x: Node, axis: int, inverse: bool) -> Node:
    """The transform along one axis."""
    size, last = x.shape[axis], x.ndim - 1
    inner, outer = prod(x.shape[axis + 1 :]), prod(x.shape[:axis])
    if size == 1:
        return x
    if inner > 1 and (inner < FEW_COLUMNS or size > COLUMN):
        moved = _along(node, move_axis(x, axis, last), last, inverse)
        return move_axis(moved, last, axis)
    if inner == 1 and outer >= FEW_COLUMNS and _is_abreast(size):
        shape = (outer, size, 1)
        return _kernel(node, x, x.aval, shape, inverse, None, abreast=True)
    if inner > 1 or (_is_power(size) and size <= ROW):
        return _kernel(node, x, x.aval, (outer, size, inner), inverse, None)
    form = _matrix_of(size)
    if form is None:  # there are rows enough to be columns
        columns = permute(reshape(x, (outer, size)), (1, 0))
        shape = (1, size, outer)
        found = _kernel(node, columns, columns.aval, shape, inverse, None)
        return reshape(permute(found, (1, 0)), x.shape)
    rows, columns = form
    matrices = reshape(x, (outer, rows, columns))
    aval = matrices.aval
    scale = 1 / size if inverse else 1.0
    shape = (outer, rows, columns)
    turned = _kernel(node, matrices, aval, shape, inverse, 1.0, twisted=True)
    if _is_power(size):
        shape = (outer * rows, columns, 1)
        found = _kernel(node, turned, aval, shape, inverse, scale)
        return reshape(permute(found, (0, 2, 1)), x.shape)
    turned = permute(turned, (0, 2, 1))
    shape = (outer, columns, rows)
    found = _kernel(node, turned, turned.aval, shape, inverse, scale)
    return reshape(found, x.shape)


def _real_rows(node: Node, x: Node) -> Node:
    """rfft or irfft along the last axis."""
    arg: Fourier = node.arg
    size, last = arg.lengths[-1], x.ndim - 1
    lead, half = x.shape[:-1], size // 2
    shape = (prod(lead), half, 1)
    inverse = arg.kind == "irfft"
    wide = dtypes.complex_dtype(dtypes.real_dtype(x.dtype))
    pairs = ShapedArray.of((*lead, half), wide)
    result = ShapedArray.of((*lead, half + 1), wide)
    if inverse:
        result = ShapedArray.of((*lead, size), dtypes.real_dtype(x.dtype))
    if _is_in_one(size):
        return _kernel(node, x, result, shape, inverse, None, kind=arg.kind)
    if inverse:
        x = _kernel(node, x, pairs, shape, inverse, 1.0, kind="pairs")
        x = _along(node, x, last, inverse)
        return _kernel(node, x, result, shape, inverse, 1.0, kind="view")
    x = _kernel(node, x, pairs, shape, inverse, 1.0, kind="view")
    x = _along(node, x, last, inverse)
    return _kernel(node, x, result, shape, inverse, 1.0, kind="half")


def _kernel(
    node: Node,
    x: Node,
    aval: ShapedArray,
    shape: tuple[int, int, int],
    inverse: bool,
    scale: float | None,
    *,
    kind: str = "fft",
    twisted: bool = False,
    abreast: bool = False,
) -> Node:
    outer, size, inner = shape
    if scale is None:
        scale = 1 / size if inverse else 1.0
    buffers = (
        BufferSpec(aval.dtype, aval.size, True),
        BufferSpec(x.dtype, x.size, False),
    )
    kernel = Transform(
        (), (), buffers, kind=kind, outer=outer, size=size, inner=inner,
        inverse=inverse, scale=scale, twisted=twisted, abreast=abreast,
    )  # fmt: skip
    info = KernelInfo(
        f"{kind}_{'x'.join(map(str, x.shape))}",
        () if node.origin is None else (node.origin,),
        outer * inner * kernel.work,
        sum(spec.size * spec.dtype.itemsize for spec in buffers),
        (node.op.name,),
    )
    return items(register_loop_p(x, arg=Step(kernel, info, (aval,))))[0]
