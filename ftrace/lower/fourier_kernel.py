"""Kernels of Fourier transforms, and the forms they have.

Numbers stand in memory in one of four forms:

    rows       (outer, inner, size): a vector is a part of a row; powers of two only
    columns    (outer, size, inner): a vector has a number of each of as many columns
    abreast    (outer, inner, size): a vector has a number of each of as many rows
    turned     (outer, inner, size) -> (outer, size, inner): rows abreast become columns

The kernels of real rows have names of their own: "rfft" and "irfft" do everything, of
powers of two; "half" makes the transform of real rows from those of their pairs of
numbers, and "pairs" is the way back.
"""

from __future__ import annotations

from ftrace.lower.kernel import BufferSpec, Kernel, KernelInfo
from ftrace.lower.recurrence import Step, register_loop_p
from ftrace.records import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node
from ftrace.trace.primitives.record import items


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
        way = "inverse " if all(self.swaps) or self.kind == "irfft" else ""
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


def transform_step(origin: Node, x: Node, result: ShapedArray, form: Form) -> Node:
    """A kernel in the graph, for a transform there.

    Only the order of the numbers of the operand and the result counts, not their
    shapes; they may be pairs of real ones.
    """
    buffers = (
        BufferSpec(result.dtype, result.size, True),
        BufferSpec(x.dtype, x.size, False),
    )
    kernel = Transform((), (), buffers, form=form)
    info = KernelInfo(
        f"{form.kind}_{'x'.join(map(str, x.shape))}",
        () if origin.origin is None else (origin.origin,),
        form.outer * form.inner * form.work,
        sum(spec.size * spec.dtype.itemsize for spec in buffers),
        (origin.op.name,),
    )
    return items(register_loop_p(x, arg=Step(kernel, info, (result,))))[0]
