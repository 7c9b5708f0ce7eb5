"""What all running reductions emit: the operator, and what it reads and writes.

`running.py` says in which order elements are combined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ftrace.devices.llvm.ir.expressions import Expressions
from ftrace.devices.llvm.ir.scalar import Operations
from ftrace.devices.llvm.ir.types import Type, mask_type
from ftrace.devices.llvm.loops.access import Access
from ftrace.devices.llvm.loops.polling import writer_for
from ftrace.devices.llvm.recurrences.variation import Register, register_of, target_of
from ftrace.devices.llvm.target import Target
from ftrace.lower.kernel import Store
from ftrace.lower.recurrence import FIRST_REGISTER
from ftrace.lower.scan_kernels import Running
from ftrace.trace.graph import Node, constant_value

State = dict[Register, str]
_Read = Callable[[Node], str]


class Mask:
    """The lanes of the elements that are left, of a vector of elements."""

    def __init__(self, lanes: int, count: int, last: bool) -> None:
        self.lanes, self.count, self.last = lanes, count, last

    def part(self, number: int, components: int) -> str:
        """For one of the vectors that hold the components of all lanes."""
        whole, on = self.lanes * components, self.count * components
        first = whole - on if self.last else 0
        places = range(number * self.lanes, (number + 1) * self.lanes)
        inside = [first <= place < first + on for place in places]
        return mask_type(self.lanes).lanewise(inside)


class Lines:
    """Emits a legal running reduction.

    Args:
      streamed: results that are stored past the caches; see `streaming.py`.

    Attributes:
      lanes: of all vectors, so that the widest fill a register.
      state: the registers that hold the left operand, with their types.
    """

    def __init__(
        self, kernel: Running, target: Target, streamed: frozenset[int] = frozenset()
    ) -> None:
        self.kernel = kernel
        self.streamed = streamed
        #: Are lanes, which are neighbours in memory, in the opposite order?
        self.turned = False
        self.writer = writer_for(kernel.operations // max(kernel.outer, 1))
        self.ops = Operations(self.writer, target)
        self.access = Access(self.writer, self.ops)
        stores = [target_of(store) for store in kernel.combine]
        types = [store.value.dtype for store in kernel.combine]
        self.lanes = max(target.vector_bytes // max(d.itemsize for d in types), 2)
        self.state: dict[Register, Type] = {
            register: Type.of(dtype, self.lanes)
            for register, dtype in zip(stores, types, strict=True)
            if register is not None
        }
        #: How much further the number of a left register is than that of a right one.
        self.apart = len(kernel.registers) // 2

    # The operator.

    def enter(self, place: str, mask: Mask | None = None) -> State:
        """The right operand of the elements from a place on."""

        def read(node: Node) -> str:
            return self._load(node, place, mask)

        values = self._values(self.kernel.enter, read)
        return {(n + self.apart, k): text for (n, k), text in values.items()}

    def combine(self, left: State, right: State) -> State:
        def read(node: Node) -> str:
            register = register_of(node)
            assert register is not None
            number, part = register
            if number < FIRST_REGISTER + self.apart:
                return right[number + self.apart, part]
            return left[register]

        return self._values(self.kernel.combine, read)

    def leave(self, left: State, place: str, mask: Mask | None = None) -> None:
        """Stores the results at a place."""

        def read(node: Node) -> str:
            register = register_of(node)
            assert register is not None
            return left[register]

        roots = [store.value for store in self.kernel.leave]
        values = Expressions(self.ops, roots, self.lanes, read)
        parts: dict[int, list[tuple[Store, str]]] = {}
        for store in self.kernel.leave:
            found = parts.setdefault(store.buffer, [])
            found.append((store, values.value(store.value)))
        for number, found in parts.items():
            found.sort(key=lambda pair: constant_value(pair[0].index))
            t = Type.of(found[0][0].value.dtype, self.lanes)
            self._store(number, t, [text for _, text in found], place, mask)

    def _values(self, stores: Sequence[Store], read: _Read) -> State:
        values = Expressions(self.ops, [s.value for s in stores], self.lanes, read)
        found: State = {}
        for store in stores:
            register = target_of(store)
            assert register is not None
            found[register] = values.value(store.value)
        return found

    def choose(self, condition: str, a: State, b: State) -> State:
        """`a` where a scalar condition holds."""
        found: State = {}
        for register, t in self.state.items():
            x, y = a[register], b[register]
            text = f"select i1 {condition}, {t} {x}, {t} {y}"
            found[register] = self.writer.pure(text, condition, x, y)
        return found

    # Memory.

    def buffer(self, number: int) -> str:
        pure = self.writer.pure
        place = "%buffers"
        if number:
            place = pure(f"getelementptr ptr, ptr %buffers, i64 {number}")
        return pure(f"load ptr, ptr {place}, align 8", place)

    def _components(self, number: int) -> int:
        """How many numbers an element of a buffer has: two if it is complex."""
        kernel = self.kernel
        whole = kernel.outer * kernel.size * kernel.inner
        return kernel.buffers[number].size // whole

    def _pointer(self, number: int, place: str, t: Type) -> str:
        count = self._components(number)
        return self.access.pointer(self.buffer(number), [(count, place)], 0, t.bytes)

    def _load(self, node: Node, place: str, mask: Mask | None) -> str:
        buffer, index = node.src
        number, t = int(buffer.arg), Type.of(node.dtype, self.lanes)
        count = self._components(number)
        p = self._pointer(number, place, t)
        parts: list[str] = []
        for n in range(count):
            at = self.access.pointer(p, [], n * t.lanes, t.bytes)
            if mask is None:
                parts.append(self.access.load(t, at, True))
            else:
                lanes = mask.part(n, count)
                parts.append(self.access.load_masked(t, at, lanes, True))
        found = parts[0]
        if count > 1:
            found = self.ops.pick(t, parts, count, int(constant_value(index)))
        return self.ops.reverse(t, found) if self.turned else found

    def _store(
        self,
        number: int,
        t: Type,
        values: Sequence[str],
        place: str,
        mask: Mask | None,
    ) -> None:
        if self.turned:
            values = [self.ops.reverse(t, value) for value in values]
        if len(values) == 2:
            values = self.ops.interleave(t, values)
        p = self._pointer(number, place, t)
        for n, value in enumerate(values):
            at = self.access.pointer(p, [], n * t.lanes, t.bytes)
            if mask is None and number in self.streamed:
                self.access.stream(t, value, at)
            elif mask is None:
                self.access.store(t, value, at)
            else:
                lanes = mask.part(n, len(values))
                self.access.store_masked(t, value, at, lanes)

    def types(self) -> list[tuple[Register, Type]]:
        return list(self.state.items())
