"""A small helper to write functions of LLVM IR by hand.

Values are names ("%v3") or numbers. Blocks are `with` statements:

    with f.repeat(count) as i:      # for i in 0 … count - 1
        with f.when(condition):
            …
        f.ret_if(condition, 0)     # return
        f.stop_if(condition)        # break
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from ftrace.backends.llvm.ir.symbols import PREFIX

#: The parameters of every handler.
HANDLER = ("ptr %record", "ptr %frame", "ptr %context")

#: A class of `runtime/records.py`: a tuple of words, with the names of these.
RecordType = Any

F = TypeVar("F", bound="Function")


class Function:
    """A function in the making.

    Args:
      name: how it is called.
      result: the type of what it gives.
      parameters: type and name of each.
      visible: may it be called from outside of the module?

    Attributes:
      declared: what it calls that is outside of the module, as of `emit.module.Module`.
    """

    def __init__(
        self, name: str, result: str, *parameters: str, visible: bool = False
    ) -> None:
        self.declared: dict[str, str] = {}
        self._called, self._linkage = name, "" if visible else "internal "
        self._parameters = ", ".join(parameters)
        self._result = result
        self._places: list[str] = []
        self._lines: list[str] = []
        self._label = ".begin"
        self._ended = False  # does the block end with a return?
        self._exits: list[str] = []  # the labels after the open loops
        self._count = 0

    @property
    def text(self) -> str:
        """The function, complete."""
        return self.text_as(self._called)

    def text_as(self, name: str) -> str:
        """The same under another name."""
        head = f"define {self._linkage}{self._result} @{name}({self._parameters}) {{"
        first = [".top:", *self._places, "  br label %.begin", ".begin:"]
        return "\n".join([head, *first, *self._lines, "}", ""])

    def declare(self, line: str, symbol: str = "") -> None:
        """A line before the function; `symbol` is in the library, and is linked."""
        self.declared[line] = symbol

    # Instructions.

    def do(self, instruction: str) -> None:
        """An instruction without a result."""
        self._lines.append("  " + instruction)

    def let(self, instruction: str) -> str:
        """The result of an instruction."""
        name = self._name("%v")
        self.do(f"{name} = {instruction}")
        return name

    def call(
        self, result: str, name: str, kinds: Sequence[str], *operands: str | int
    ) -> str:
        """What a function of such operands gives; nothing where it gives nothing."""
        pairs = zip(kinds, operands, strict=True)
        listed = ", ".join([f"{kind} {operand}" for kind, operand in pairs])
        instruction = f"call {result} @{name}({listed})"
        if result != "void":
            return self.let(instruction)
        self.do(instruction)
        return ""

    def outside(self, declared: str, *operands: str | int) -> str:
        """`call` of a function outside of the module, declared as `ptr malloc(i64)`."""
        head, _, rest = declared.partition("(")
        result, _, name = head.rpartition(" ")
        symbol = name if name.startswith(PREFIX) else ""
        self.declare(f"declare {result} @{name}({rest}", symbol)
        kinds = rest[:-1].split(", ") if rest != ")" else ()
        return self.call(result, name, kinds, *operands)

    def ret(self, value: str | int = "") -> None:
        """Returns."""
        self.do(f"ret {self._result} {value}")
        self._ended = True

    def ret_if(self, condition: str, value: str | int = "") -> None:
        """Returns where a condition holds."""
        with self.when(condition):
            self.ret(value)

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def sum(self, x: str, y: str | int) -> str:
        return self.let(f"add i64 {x}, {y}")

    def least(self, x: str, y: str | int) -> str:
        less = self.let(f"icmp ult i64 {x}, {y}")
        return self.let(f"select i1 {less}, i64 {x}, i64 {y}")

    def most(self, x: str, y: str | int) -> str:
        less = self.let(f"icmp ult i64 {x}, {y}")
        return self.let(f"select i1 {less}, i64 {y}, i64 {x}")

    # Memory.

    def allocate(self, kind: str, count: int = 1) -> str:
        """Memory of the function, 64-byte aligned."""
        name = self._name("%place")
        self._places.append(f"  {name} = alloca {kind}, i64 {count}, align 64")
        return name

    def variable(self, kind: str, value: str | int) -> str:
        """Memory for a value that changes."""
        place = self.allocate(kind)
        self.store(kind, value, place)
        return place

    def pointers(self, count: str) -> str:
        """Memory for so many pointers."""
        return self.let(f"alloca ptr, i64 {count}, align 64")

    def load(self, kind: str, pointer: str) -> str:
        return self.let(f"load {kind}, ptr {pointer}")

    def store(self, kind: str, value: str | int, pointer: str) -> None:
        self.do(f"store {kind} {value}, ptr {pointer}")

    def beyond(self, pointer: str, nbytes: str | int) -> str:
        """The address so many bytes after another."""
        return self.let(f"getelementptr i8, ptr {pointer}, i64 {nbytes}")

    def word(self, array: str, index: str | int) -> str:
        """The address of an element of an array of words or pointers."""
        return self.item("i64", array, index)

    def item(self, kind: str, array: str, index: str | int) -> str:
        """The address of an element of an array."""
        return self.let(f"getelementptr {kind}, ptr {array}, i64 {index}")

    def slot(self, frame: str, index: str | int) -> str:
        """The pointer at that place of a frame."""
        return self.load("ptr", self.word(frame, index))

    def set_slot(self, frame: str, index: str | int, pointer: str) -> None:
        self.store("ptr", pointer, self.word(frame, index))

    def view(self, record: str, kind: RecordType, row: str | int = 0) -> View:
        """A record in memory, or a row of an array of them."""
        if row != 0:
            size = f"[{len(kind.fields)} x i64]"
            record = self.let(f"getelementptr {size}, ptr {record}, i64 {row}")
        return View(self, record, kind)

    def new(self, kind: RecordType) -> View:
        """Memory for a record."""
        return View(self, self.allocate("i64", len(kind.fields)), kind)

    def copy(self, target: str, source: str, nbytes: str | int) -> None:
        function = "void llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
        self.outside(function, target, source, nbytes, "false")

    def clear(self, target: str, nbytes: str | int) -> None:
        """Sets so many bytes to zero."""
        function = "void llvm.memset.p0.i64(ptr, i8, i64, i1)"
        self.outside(function, target, 0, nbytes, "false")

    # Blocks.

    @contextmanager
    def hold_lock(self, lock: str) -> Generator[None]:
        """Runs the block while no other thread holds the lock: a word of 32 bits."""
        with self.repeat(-1):
            swap = self.let(f"cmpxchg ptr {lock}, i32 0, i32 1 acquire monotonic")
            self.stop_if(self.let(f"extractvalue {{ i32, i1 }} {swap}, 1"))
        yield
        self.do(f"store atomic i32 0, ptr {lock} release, align 4")

    @contextmanager
    def when(self, condition: str) -> Generator[None]:
        """Runs the block if the condition holds."""
        inside, after = self._name("when"), self._name("after")
        self.do(f"br i1 {condition}, label %{inside}, label %{after}")
        self._begin(inside)
        yield
        if not self._ended:
            self.do(f"br label %{after}")
        self._begin(after)

    @contextmanager
    def repeat(self, stop: str | int, start: str | int = 0) -> Generator[str]:
        """Runs the block for each index from `start` to below `stop`."""
        with self.fold(stop, (), start) as fold:
            yield fold.index

    @contextmanager
    def fold(
        self, stop: str | int, firsts: Sequence[tuple[str, str]], start: str | int = 0
    ) -> Generator[Fold]:
        """The same with values that the block renews.

        Args:
          firsts: the type of each and what it is at first.
        """
        head, inside = self._name("head"), self._name("body")
        after, index = self._name("after"), self._name("%i")
        fold = Fold(index, [self._name("%t") for _ in firsts])
        before = self._label
        # The loop's head is written when its end is known.
        self.do(f"br label %{head}")
        position = len(self._lines)
        self._begin(inside)
        self._exits.append(after)
        yield fold
        self._exits.pop()
        following = self.let(f"add i64 {index}, 1")
        self._lines[position:position] = [
            f"{head}:",
            f"  {index} = phi i64 [ {start}, %{before} ], "
            f"[ {following}, %{self._label} ]",
            *[
                f"  {name} = phi {kind} [ {first}, %{before} ], "
                f"[ {value}, %{self._label} ]"
                for name, (kind, first), value in zip(
                    fold.values, firsts, fold.following, strict=True
                )
            ],
            f"  {index}.more = icmp ult i64 {index}, {stop}",
            f"  br i1 {index}.more, label %{inside}, label %{after}",
        ]
        self.do(f"br label %{head}")
        self._begin(after)

    @contextmanager
    def rows(self, first: str, kind: RecordType, count: str | int) -> Generator[View]:
        """Runs the block for each of so many records that stand in a row."""
        with self.repeat(count) as i:
            yield self.view(first, kind, i)

    def stop_if(self, condition: str) -> None:
        """Leaves the innermost loop if the condition holds."""
        on = self._name("on")
        self.do(f"br i1 {condition}, label %{self._exits[-1]}, label %{on}")
        self._begin(on)

    def cut(self) -> None:
        """Begins another basic block."""
        after = self._name("cut")
        self.do(f"br label %{after}")
        self._begin(after)

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._label = label
        self._ended = False


class Routines(Generic[F]):
    """The functions of a piece of hand-written code, each written where it is declared.

        routines = Routines(Function)

        @routines("i32", "ptr %record", visible=True)
        def look(f: Function) -> None:
            f.ret(0)

    In the code of others it is called by that name: `status = look(f, record)`.

    Args:
      kind: the class of such functions.
    """

    def __init__(self, kind: Callable[..., F]) -> None:
        self._kind = kind
        self._parts: list[Callable[..., F]] = []

    def __call__(
        self, result: str, *parameters: str, visible: bool = False, name: str = ""
    ) -> Callable[[Callable[..., None]], Callable[..., str]]:
        """Declares a function: the type of what it gives, and its parameters.

        Args:
          name: how it is called; by default as what writes it.
        """

        def declare(write: Callable[..., None]) -> Callable[..., str]:
            count, called = write.__code__.co_argcount - 1, name or write.__name__
            kinds = [parameter.split()[0] for parameter in parameters]

            def build(*facts: Any) -> F:
                f = self._kind(called, result, *parameters, visible=visible)
                write(f, *facts[:count])
                return f

            def call(f: Function, *operands: str | int) -> str:
                return f.call(result, called, kinds, *operands)

            self._parts.append(build)
            return call

        return declare

    def functions(self, *facts: Any) -> list[F]:
        """All of them; each is given as many of the facts as it asks for."""
        return [part(*facts) for part in self._parts]


def module_text(variables: str, functions: Iterable[Function]) -> str:
    """The text of a module: what its functions call is declared."""
    listed = list(functions)
    declared = dict.fromkeys([line for f in listed for line in f.declared])
    return "\n".join([variables, *declared, *[f.text for f in listed]])


class Fold:
    """A loop in the making.

    Attributes:
      index: of this time.
      values: in the block those that it begins with, behind it the last ones.
      following: those that it ends with.
    """

    def __init__(self, index: str, values: list[str]) -> None:
        self.index = index
        self.values = values
        self.following = values


class View:
    """A record in memory, read and written by the names of its fields."""

    def __init__(self, function: Function, address: str, kind: RecordType) -> None:
        self.address = address
        self._function = function
        self._fields: tuple[str, ...] = kind.fields

    def at(self, field: str) -> str:
        """The address of a field."""
        return self._function.word(self.address, self._fields.index(field))

    def number(self, field: str) -> str:
        return self._function.load("i64", self.at(field))

    def pointer(self, field: str) -> str:
        return self._function.load("ptr", self.at(field))

    def set(self, field: str, value: str | int, kind: str = "i64") -> None:
        self._function.store(kind, value, self.at(field))
