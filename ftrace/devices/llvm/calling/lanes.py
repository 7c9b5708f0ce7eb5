"""Some elements beside each other, and the instructions of LLVM on them."""

from __future__ import annotations

from ftrace.devices.llvm.runner.function import Function

#: Elements that are computed side by side.
LANES = 16
#: Bytes of an element in memory.
WIDTHS = {"i8": 1, "i32": 4, "float": 4, "i64": 8, "double": 8}
#: Infinity in the text of LLVM, of either width.
INFINITY = "0x7FF0000000000000"
#: Floats, and how intrinsic functions name them.
_FLOATS = {"float": "f32", "double": "f64"}


class Lanes:
    """Some elements beside each other; the instructions on them.

    Attributes:
      lanes: how many elements.
      declared: the lines that declare the intrinsic functions which were called.
    """

    def __init__(self, function: Function, lanes: int) -> None:
        self._function = function
        self.lanes = lanes
        self.declared: dict[str, None] = {}

    def of(self, kind: str) -> str:
        """The type of so many elements."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def let(self, instruction: str) -> str:
        return self._function.let(instruction)

    def all(self, kind: str, value: int | str) -> str:
        """A constant in all of them."""
        if self.lanes == 1:
            return str(value)
        return "<" + ", ".join([f"{kind} {value}"] * self.lanes) + ">"

    def op(self, code: str, kind: str, *operands: str) -> str:
        """An instruction whose operands are of one kind."""
        return self.let(f"{code} {self.of(kind)} {', '.join(operands)}")

    def cast(self, code: str, source: str, target: str, x: str) -> str:
        return self.let(f"{code} {self.of(source)} {x} to {self.of(target)}")

    def select(self, kind: str, condition: str, x: str, y: str) -> str:
        few = self.of(kind)
        return self.let(f"select {self.of('i1')} {condition}, {few} {x}, {few} {y}")

    def call(self, name: str, made: str, *operands: tuple[str, str]) -> str:
        """An intrinsic function, of pairs of kind and value."""
        types = dict.fromkeys([made, *(kind for kind, _ in operands)])
        short = [_FLOATS.get(kind, kind) for kind in types]
        many = "" if self.lanes == 1 else f"v{self.lanes}"
        kinds = short if "sat" in name else short[:1]
        suffix = ".".join(f"{many}{kind}" for kind in kinds)
        whole, takes = f"@llvm.{name}.{suffix}", [self.of(kind) for kind, _ in operands]
        declared = f"declare {self.of(made)} {whole}({', '.join(takes)})\n"
        self.declared[declared] = None
        given = ", ".join(f"{self.of(kind)} {x}" for kind, x in operands)
        return self.let(f"call {self.of(made)} {whole}({given})")
