"""Vectors of complex numbers in LLVM IR, their parts apart."""

from __future__ import annotations

from ftrace import dtypes
from ftrace.devices.llvm.emit.rendered import LibraryFunction
from ftrace.devices.llvm.ir.types import Type
from ftrace.devices.llvm.library.fft.twiddles import roots_symbol
from ftrace.devices.llvm.target import Target
from ftrace.lower.library.fft_kernels import Form, Transform
from ftrace.lower.library.fft_radices import power_within

#: Parts of complex numbers, in vectors.
Pair = tuple[str, str]

#: Forms whose vectors have numbers of as many columns or rows.
ACROSS = ("columns", "abreast", "turned")


def exchanged(x: Pair) -> Pair:
    """With the parts in the other order."""
    return x[1], x[0]


def _most_lanes(form: Form) -> int:
    """How many lanes a vector can fill.

    Rows abreast are turned in squares, of half as many numbers as rows.
    """
    if form.kind not in ACROSS:
        return max(form.size // 4, 1)
    if form.kind == "columns":
        return form.inner
    return min(form.inner, 2 * power_within(form.length or form.size))


class Waves(LibraryFunction):
    """Writes the function of a transform.

    Attributes:
      form: of the transform.
      nbytes: of the result and the operand.
      t: the type of a real number.
      lanes: of the vectors.
      total: numbers in a buffer; the imaginary parts stand `plane` after the real ones.
    """

    def __init__(self, kernel: Transform, target: Target, name: str) -> None:
        super().__init__(target, name)
        self.form = form = kernel.form
        self.nbytes = [spec.size * spec.dtype.itemsize for spec in kernel.buffers]
        double = kernel.buffers[0].dtype in (dtypes.float64, dtypes.complex128)
        self.t = Type.of(dtypes.float64 if double else dtypes.float32, 0)
        most = target.vector_bytes // self.t.bytes
        self.lanes = power_within(min(most, _most_lanes(form)))
        self.total = form.size * (self.lanes if form.kind in ACROSS else 1)
        self.plane = self.total + self.lanes

    # Vectors.

    def type(self, lanes: int) -> str:
        return f"<{lanes} x {self.t}>"

    def at(self, base: str, index: str | int) -> str:
        return self.let(f"getelementptr {self.t}, ptr {base}, i64 {index}")

    def take(self, base: str, index: str | int, lanes: int) -> str:
        place = self.at(base, index)
        return self.let(f"load {self.type(lanes)}, ptr {place}, align {self.t.bytes}")

    def put(self, value: str, base: str, index: str | int, lanes: int) -> None:
        place = self.at(base, index)
        self.do(f"store {self.type(lanes)} {value}, ptr {place}, align {self.t.bytes}")

    def take_some(self, base: str, index: str, lanes: int, mask: str) -> str:
        """Zeros where the mask does not hold."""
        t, bits = self.type(lanes), f"<{lanes} x i1>"
        name = f"{t} @llvm.masked.load.v{lanes}f{8 * self.t.bytes}.p0"
        self.declare(f"declare {name}(ptr, i32, {bits}, {t})")
        place = f"ptr {self.at(base, index)}, i32 {self.t.bytes}"
        return self.let(f"call {name}({place}, {bits} {mask}, {t} zeroinitializer)")

    def put_some(
        self, value: str, base: str, index: str, lanes: int, mask: str
    ) -> None:
        """Nothing where the mask does not hold."""
        t, bits = self.type(lanes), f"<{lanes} x i1>"
        name = f"void @llvm.masked.store.v{lanes}f{8 * self.t.bytes}.p0"
        self.declare(f"declare {name}({t}, ptr, i32, {bits})")
        place = f"ptr {self.at(base, index)}, i32 {self.t.bytes}"
        self.do(f"call {name}({t} {value}, {place}, {bits} {mask})")

    def shuffle(self, x: str, y: str, lanes: int, places: list[int]) -> str:
        """The elements of two vectors at these places."""
        mask = ", ".join(f"i32 {p}" for p in places)
        t = self.type(lanes)
        return self.let(
            f"shufflevector {t} {x}, {t} {y}, <{len(places)} x i32> <{mask}>"
        )

    def splat(self, base: str, index: str | int) -> str:
        """A number of memory in all lanes."""
        t = self.type(self.lanes)
        scalar = self.load(self.t.text, self.at(base, index))
        one = self.let(f"insertelement {t} poison, {self.t} {scalar}, i64 0")
        return self.shuffle(one, "poison", self.lanes, [0] * self.lanes)

    # Arithmetic.

    def arithmetic(self, verb: str, x: str, y: str) -> str:
        return self.let(f"{verb} contract {self.type(self.lanes)} {x}, {y}")

    def add(self, x: Pair, y: Pair) -> Pair:
        (a, b), (c, d) = x, y
        return self.arithmetic("fadd", a, c), self.arithmetic("fadd", b, d)

    def sub(self, x: Pair, y: Pair) -> Pair:
        (a, b), (c, d) = x, y
        return self.arithmetic("fsub", a, c), self.arithmetic("fsub", b, d)

    def times(self, x: Pair, y: Pair, *, conjugate: bool = False) -> Pair:
        """The product of x and y, or of x and y's conjugate."""
        (a, b), (c, d) = x, y
        ac, bd, bc, ad = (
            self.arithmetic("fmul", *factors)
            for factors in ((a, c), (b, d), (b, c), (a, d))
        )
        verbs = ("fadd", "fsub") if conjugate else ("fsub", "fadd")
        return self.arithmetic(verbs[0], ac, bd), self.arithmetic(verbs[1], bc, ad)

    def scaled(self, x: Pair, factor: float) -> Pair:
        if factor == 1:
            return x
        return self.each(x, self.t.with_lanes(self.lanes).constant(factor))

    def each(self, x: Pair, factor: str) -> Pair:
        """Both parts, multiplied by a real number."""
        return self.arithmetic("fmul", x[0], factor), self.arithmetic(
            "fmul", x[1], factor
        )

    # Complex numbers side by side in memory.

    def apart(self, both: str) -> Pair:
        """The real parts and the imaginary ones of numbers side by side."""
        n = self.lanes
        a, b = (
            self.shuffle(both, "poison", 2 * n, [2 * i + part for i in range(n)])
            for part in (0, 1)
        )
        return a, b

    def together(self, x: Pair) -> str:
        """Numbers side by side."""
        n = self.lanes
        return self.shuffle(*x, n, [i // 2 + (i % 2) * n for i in range(2 * n)])

    def roots(self, kind: str, *sizes: int) -> str:
        """The table of roots of unity."""
        symbol = roots_symbol("f64" if self.t.bytes == 8 else "f32", kind, *sizes)
        self.declare(f"declare ptr @{symbol}()")
        return self.let(f"call ptr @{symbol}()")
