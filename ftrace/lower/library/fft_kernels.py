"""Fourier transforms as kernels, of any length.

NumPy takes 5 to 38 times as long.

    fft(x)        ->  transform(… transform(x))        one for each axis
    fft(long x)   ->  transposed(columns(x, twisted))
    fft(x, prime) ->  chirp · convolve(chirp · x)

Along the last axis each row is transformed by itself, or as many as a vector has
lanes; along another one a strip of columns; nothing is transposed. A row that is longer
than the first caches is a matrix: its columns are transformed, each element turned by
the root of unity that belongs to its place, then its rows, and the result is read by
columns (Gentleman and Sande 1966).

A length with a large prime factor goes by a convolution with a chirp (Bluestein 1970),
as jk = (j² + k² - (k - j)²)/2: as soon as its numbers, padded to twice as many, are
transformed, they are multiplied by the chirp's spectrum and transformed back. Of long
rows again as a matrix, where the spectrum need not be in order: columns, rows there
and back, and columns are three passes over memory.

A real row of even length is one of half as many complex numbers; its transform is told
from theirs.

Numbers stand in memory in one of four forms:

    rows       (outer, inner, size): a vector is a part of a row; powers of two only
    columns    (outer, size, inner): a vector has a number of each of as many columns
    batch      (outer, inner, size): a vector has a number of each of as many rows
    transposed (outer, inner, size) -> (outer, size, inner): batched rows to columns

The kernels of real rows have names of their own: "half" makes the transform of real
rows from those of their pairs of numbers, and "pairs" is the way back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.lower.kernel.ir import Kernel
from ftrace.lower.library import fft_radices as radices
from ftrace.lower.register_loops.register_loop import buffers_of, kernel_step
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives import elementwise as p, movement as mv
from ftrace.trace.primitives.library.fft import Fourier
from ftrace.trace.primitives.sources import zeros_like
from ftrace.trace.symbolic import same_size


@dataclass(frozen=True)
class Form:
    """What a kernel does with its numbers.

    Attributes:
      kind: see the module.
      outer, size, inner: the shape, of complex numbers.
      scale: what the result is multiplied by.
      swaps: are the parts of numbers exchanged when they are read, and when written?
      twisted: column k of the result is multiplied by the powers of the root of unity
        of order size · inner to the power of k; of rows, row k by those of order
        inner · size.
      length: of the transform that a convolution of more numbers makes; 0 is none.
      padded: only `length` numbers are there; they are multiplied by a chirp.
      convolved: what is transformed is multiplied by the spectrum of a chirp, and
        transformed back.
      cut: only `length` numbers are wanted; they are multiplied by a chirp.
    """

    kind: str = "rows"
    outer: int = 1
    size: int = 1
    inner: int = 1
    scale: float = 1.0
    swaps: tuple[bool, bool] = (False, False)
    twisted: bool = False
    length: int = 0
    padded: bool = False
    convolved: bool = False
    cut: bool = False

    def __str__(self) -> str:
        way = "inverse " if all(self.swaps) else ""
        words = [f"{way}{self.kind} {self.outer}x[{self.size}]x{self.inner}"]
        words += [word for word in ("twisted", "padded", "convolved", "cut")
                  if getattr(self, word)]  # fmt: skip
        return ", ".join(words) + f" for {self.length}" * bool(self.length)

    @property
    def work(self) -> int:
        """Operations for one row or column, about."""
        once = 5 * self.size * self.size.bit_length()
        return once * (1 + self.convolved)


@dataclass(frozen=True)
class Transform(Kernel):
    """A kernel that transforms along an axis: of a result and an operand.

    Units overlap, so that some of the operand is read after results are written: the
    result has memory of its own.

    Attributes:
      axes, stores: none.
      form: what it does.
    """

    form: Form = Form()

    def __str__(self) -> str:
        return str(self.form)


#: What `config.disabled_rules` can switch off here.
DECISIONS = {"native_fft": "a Fourier transform is a kernel, without Python"}

#: The longest rows that are transformed one by one, and the longest columns and rows
#: of which a vector has many: their numbers fit the second cache. With 2¹⁴ rows of 2¹⁴
#: are one kernel, not two, and 64 rows of 5000; with 2¹⁰ a row of 4096 is two.
ROW = 1 << 12
COLUMN = 1 << 12
#: The longest convolutions of one kernel, by columns and batched rows. With 2¹³ columns
#: of 2003 are one kernel, not three; with 2⁹ those of 1009 are three.
CONVOLUTION = 1 << 11
#: So many numbers of as many rows as a vector has lanes are in the first cache. With 64
#: 500 rows of 73 do 1.8 times the operations; with 2¹⁰ no row differs.
NEAR = 256
#: The longest transform by a chirp: parts of rows must fit a thread's stack.
LONGEST_CHIRP = 1 << 28
#: Longer rows of a power of two have enough numbers for vectors of their own. With 256
#: 1000 rows of 64 are a batch, with 16 those of 16 are not.
LONG = 64
#: Fewer columns or rows fill no vector of any processor. With 64 16 rows of 1000 are
#: two kernels, with 4 4 rows are one.
FEW_ROWS = 16
#: Of fewer columns it is quicker to make rows: with 1 two columns of 67 are one kernel,
#: not three, and take 1.6 times as long; with 16 no row differs.
_FEWEST = 4


def by_kernels(node: Node, read: Collection[int]) -> Sequence[Node] | None:
    """The result of a Fourier transform by kernels; None where the host is asked."""
    lengths: Shape = node.arg.lengths
    if not all(radices.is_smooth(n) or n <= LONGEST_CHIRP for n in lengths):
        return None
    return [_Kernels(node).of(node.src[0])]


def merge_permutations(node: Node, read: Collection[int]) -> Node | None:
    """A permutation of what `by_kernels` has permuted."""
    inner = node.src[0]
    if inner.op is not mv.permute_p:
        return None
    return mv.permute(inner.src[0], tuple(inner.arg[a] for a in node.arg))


class _Kernels:
    """The kernels of one transform of the graph."""

    def __init__(self, node: Node) -> None:
        self._node = node
        arg: Fourier = node.arg
        self._kind, self._lengths = arg
        self._inverse = arg.kind in ("ifft", "irfft")
        self._real = dtypes.real_dtype(node.src[0].dtype)
        self._complex = dtypes.complex_dtype(self._real)

    def of(self, x: Node) -> Node:
        """The result, of the operand."""
        axes = [*range(x.ndim - len(self._lengths), x.ndim)]
        if self._kind in ("fft", "ifft"):
            return self._where_they_are(x, axes)
        if self._kind == "rfft":
            x = self._from_real(x)
        for axis in axes[:-1]:
            x = self._along(x, axis)
        return self._to_real(x) if self._kind == "irfft" else x

    def _where_they_are(self, x: Node, axes: Sequence[int]) -> Node:
        """Along the axes of what was permuted, before it was."""
        order: Shape = tuple(range(x.ndim))
        if x.op is mv.permute_p:
            order = x.arg
            x = x.src[0]
        for axis in sorted([order[a] for a in axes], reverse=True):
            x = self._along(x, axis)
        return mv.permute(x, order)

    def _wide(self, *shape: int) -> ShapedArray:
        return ShapedArray.of(shape, self._complex)

    def _step(self, x: Node, result: ShapedArray, form: Form) -> Node:
        """A kernel in the graph.

        Only the order of the numbers of the operand and the result counts, not their
        shapes; they may be pairs of real ones.
        """
        kernel = Transform((), (), buffers_of([result], [x]), form=form)
        operations = form.outer * form.inner * form.work
        (found,) = kernel_step(kernel, operations, self._node, [x], [result], form.kind)
        return found

    def _whole(self, kind: str, outer: int, size: int, inner: int) -> Form:
        """A transform of one kernel."""
        swaps = (self._inverse, self._inverse)
        scale = 1 / size if self._inverse else 1.0
        if radices.is_smooth(size):
            return Form(kind, outer, size, inner, scale, swaps)
        count = radices.power_from(2 * size - 1)
        if kind != "rows":
            count = radices.smooth_from(2 * size - 1)
        swaps = (self._inverse, not self._inverse)
        return Form(
            kind, outer, count, inner, scale, swaps,
            length=size, padded=True, convolved=True, cut=True,
        )  # fmt: skip

    def _along(self, x: Node, axis: int) -> Node:
        """The transform along one axis."""
        size, last = x.shape[axis], x.ndim - 1
        outer, inner = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
        if same_size(size, 1):
            return x
        if same_size(inner, 1):
            return self._rows(x, outer, size, x.aval)
        form = self._whole("columns", outer, size, inner)
        if form.size <= _most(size) and inner >= _FEWEST:
            return self._step(x, x.aval, form)
        moved = self._along(mv.move_axis(x, axis, last), last)
        return mv.move_axis(moved, last, axis)

    def _rows(self, x: Node, outer: int, size: int, result: ShapedArray) -> Node:
        """The transform of rows of so many numbers."""
        alone = self._whole("rows", outer, size, 1)
        if _are_alone(alone, outer):
            return self._step(x, result, alone)
        kind = "batch" if outer > 1 else "columns"
        form = self._whole(kind, 1, size, outer)
        if form.size <= (LONG if outer < FEW_ROWS else _most(size)):
            return self._step(x, result, form)
        if radices.is_smooth(size):
            return self._matrix(x, outer, size, result)
        return self._long_chirp(x, outer, size, result)

    def _matrix(self, x: Node, outer: int, size: int, result: ShapedArray) -> Node:
        """Rows as matrices: first their columns, then their rows."""
        rows, columns = radices.matrix_of(size, COLUMN)
        matrices = self._wide(outer, rows, columns)
        first = self._whole("columns", outer, rows, columns)
        x = self._step(x, matrices, replace(first, twisted=True))
        if columns <= COLUMN:
            return self._step(
                x, result, self._whole("transposed", outer, columns, rows)
            )
        x = mv.permute(self._rows(x, outer * rows, columns, matrices), (0, 2, 1))
        if result.dtype == self._real:
            x = _in_pairs(x)
        return mv.reshape(x, result.shape)

    def _long_chirp(self, x: Node, outer: int, size: int, result: ShapedArray) -> Node:
        """Long rows by a convolution of matrices."""
        columns = LONG
        while columns * min(columns, COLUMN) < 2 * size:
            columns *= 2
        rows = radices.smooth_from(-(-(2 * size - 1) // columns))
        matrices = self._wide(outer, rows, columns)
        form = Form("columns", outer, rows, columns, length=size)
        first = replace(form, swaps=(self._inverse, False), twisted=True, padded=True)
        middle = replace(
            form, kind="rows", size=columns, inner=rows, twisted=True, convolved=True
        )
        scale = 1 / size if self._inverse else 1.0
        last = replace(form, scale=scale, swaps=(False, not self._inverse), cut=True)
        x = self._step(x, matrices, first)
        return self._step(self._step(x, matrices, middle), result, last)

    # Real rows.

    def _from_real(self, x: Node) -> Node:
        """rfft along the last axis."""
        size, lead = self._lengths[-1], x.shape[:-1]
        half = size // 2
        result = self._wide(*lead, half + 1)
        if size % 2 or size < 4:
            whole = self._along(p.make_complex(x, zeros_like(x)), x.ndim - 1)
            return mv.shrink_axis(whole, x.ndim - 1, 0, half + 1)
        outer = prod(lead)
        x = self._rows(x, outer, half, self._wide(outer, half))
        return self._step(x, result, Form("half", outer, half))

    def _to_real(self, x: Node) -> Node:
        """irfft along the last axis."""
        size, lead = self._lengths[-1], x.shape[:-1]
        half, last = size // 2, x.ndim - 1
        if size % 2 or size < 4:
            return p.real(self._along(_mirror(x, size), last))
        outer, result = prod(lead), ShapedArray.of((*lead, size), self._real)
        x = self._step(x, self._wide(outer, half), Form("pairs", outer, half))
        return self._rows(x, outer, half, result)


def _in_pairs(x: Node) -> Node:
    """Real and imaginary parts by turns, along an axis of their own."""
    parts = (
        mv.reshape(p.real(x), (*x.shape, 1)),
        mv.reshape(p.imag(x), (*x.shape, 1)),
    )
    behind = [(0, 0, 0)] * x.ndim
    return p.add(
        mv.pad(parts[0], (*behind, (0, 1, 0))),
        mv.pad(parts[1], (*behind, (1, 0, 0))),
    )


def _are_alone(form: Form, rows: int) -> bool:
    """Are rows transformed one by one, rather than one in each lane of vectors?

    A convolution of batched rows has fewer numbers, but needs more memory.
    """
    if not radices.is_power(form.size) or form.size > ROW:
        return False
    if rows < FEW_ROWS or not form.length:
        return rows < FEW_ROWS or form.size >= LONG
    batched = radices.smooth_from(2 * form.length - 1)
    return batched > NEAR and 5 * form.size <= 8 * batched


def _most(size: int) -> int:
    """How many numbers one kernel transforms, of columns and of batched rows."""
    return COLUMN if radices.is_smooth(size) else CONVOLUTION


def _mirror(x: Node, size: int) -> Node:
    """The whole of a spectrum of which the last axis has one half."""
    last, half = x.ndim - 1, x.shape[-1]
    behind = [(0, 0, 0)] * last
    first = mv.pad(x, (*behind, (0, size - half, 0)))
    if same_size(size, half):
        return first
    other = p.conj(mv.flip(mv.shrink_axis(x, last, 1, 1 + size - half), (last,)))
    return p.add(first, mv.pad(other, (*behind, (half, 0, 0))))
