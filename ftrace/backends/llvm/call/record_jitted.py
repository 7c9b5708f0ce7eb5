"""A compiled program and a signature, as a record that the native entry walks over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Expected, Fixed, Signature
from ftrace.backends.llvm.call import records as r
from ftrace.backends.llvm.call.numpy_loops import NumpyLoops
from ftrace.backends.llvm.call.object_layout import template_of
from ftrace.backends.llvm.runtime.records import Offset, RecordBlock
from ftrace.backends.llvm.runtime.work_estimate import Work
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import LargeInteger, ShapedArray
from ftrace.trace.pytree.structure_cache import LayoutNode, Leaf, Nothing
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.tracer import aval_of

if TYPE_CHECKING:
    from ftrace.backends.llvm.call.install import Native
    from ftrace.backends.llvm.device import CPUExecutable

#: Leaves and results of a call; with more of them Python's part is small beside theirs.
MOST_LEAVES = 1024

#: Static arguments that are what they were if they are the same object.
_CONSTANT = frozenset((bool, str, bytes, float, complex, type(None)))

#: Scalars of NumPy that are operands. Those of int64 have to fit what is beside them:
#: what they are decides.
_KINDS = "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16"
SCALARS = frozenset(np.dtype(kind).type for kind in _KINDS.split())

_NUMBERS: dict[tuple[type[Any], Any], int] = {
    (float, dtypes.float32): r.FLOAT32,
    (float, dtypes.float64): r.FLOAT64,
    (int, dtypes.int32): r.INT32,
}


class NotNative(Exception):
    """Calls of this kind stay with Python's code."""


class Plan(NamedTuple):
    """What is done in NumPy.

    Attributes:
      function: is called on what NumPy has of the leaves.
      many: it gives a tuple of so many values; 0 if it gives one.
      results: which of the leaves and these values each leaf of a result is.
      loops: the same as loops of NumPy's; None where it is more.
    """

    function: Any = None
    many: int = 0
    results: Sequence[int] = ()
    loops: NumpyLoops | None = None


class RecordedCall:
    """See `trace.eager.function_objects.Record`.

    Args:
      native: the native code of this process.
      signature: how it is called.
      executable: the program that runs.
      plan: what is done where there is none; without a function it is Python's.

    Raises:
      NotNative: it cannot be done.
    """

    in_use = True

    def __init__(
        self,
        native: Native,
        signature: Signature,
        executable: CPUExecutable | None = None,
        plan: Plan = Plan(),  # noqa: B008
    ) -> None:
        self._native = native
        self._keeps: list[Any] = [signature, executable]
        self._block = RecordBlock()
        self._executable = executable
        self._plan = plan
        self._signature = signature
        self._arrays = {
            number for number, (kind, _) in enumerate(signature.leaves) if kind is Array
        }
        record = self._block.add(*self._record())
        self._block.freeze()
        self.address = self._block.settle(record)

    def _refer(self, thing: Any) -> int:
        self._keeps.append(thing)
        return id(thing)

    def _record(self) -> r.Call:
        executable, signature = self._executable, self._signature
        leaves, captured, named = signature.leaves, signature.captured, signature.named
        inputs = len(leaves) + len(captured)
        made: Sequence[tuple[int, int]] = ()
        entry, threads, work, function = 0, 0, Work(), 0
        dims: Sequence[int] = ()
        if executable is not None:
            dims = [array.ctypes.data for array in executable.dims]
            entry, work, made = executable.entry, executable.work, executable.made
            threads = executable.device.threads_for(signature.config)
            if inputs != len(executable.program.inputs):
                raise NotNative
        else:
            function = self._refer(self._plan.function)
        if max(inputs + len(made), len(signature.avals)) > MOST_LEAVES:
            raise NotNative
        parts = [self._expect(x) for x in (*signature.positional, *named.values())]
        captures: list[r.Capture] = []
        for number, array in enumerate(captured, len(leaves)):
            self._arrays.add(number)
            aval = aval_of(array)
            part = r.LeafPattern(self._kind_of(number, aval), number, self._refer(aval))
            captures.append(r.Capture(self._refer(array), self._block.add(*part)))
        makes = [r.Make(self._native.number_of(size), nbytes) for nbytes, size in made]
        return r.Call(
            id(self),
            id(signature.config),
            entry,
            threads,
            len(signature.positional),
            *self._block.words([self._refer(name) for name in named]),
            self._block.add(*parts),
            *self._block.rows(captures),
            inputs,
            *self._block.words(signature.donated),
            *self._block.words(signature.overwritten),
            len(made) or self._plan.many,
            self._block.rows(makes)[1],
            *self._block.words(dims),
            self._result(signature.result),
            work.kernels,
            work.operations,
            work.bytes,
            function,
            self._loops(self._plan.loops),
        )

    def _loops(self, loops: NumpyLoops | None) -> Offset | int:
        if loops is None:
            return 0
        rows = self._block.rows
        made = [
            r.NewArray(self._refer(like.dtype), like.ndim, self._block.add(*like.shape))
            for like in loops.made
        ]
        listed: list[r.Loop] = []
        for function, data, count, length, operands in loops.loops:
            places = rows(r.OperandLocation(*place) for *place, _ in operands)
            strides = self._block.add(*[x[-1] for x in operands])
            listed.append(r.Loop(function, data, count, length, *places, strides))
        memory = loops.memory.ctypes.data
        return self._block.add(*r.Loops(*rows(made), *rows(listed), memory))

    # Arguments.

    def _expect(self, expected: Expected) -> Offset:
        if isinstance(expected, Fixed):
            return self._block.add(*self._encode_fixed(expected))
        if isinstance(expected, Nothing):
            return self._block.add(*r.ObjectPattern(r.STATIC, id(None)))
        if isinstance(expected, Leaf):
            return self._block.add(*self._leaf(expected.number))
        parts = self._block.add(*[self._expect(child) for child in expected.children])
        count, kind = len(expected.children), self._refer(expected.kind)
        if expected.keys is None:
            name = r.LIST if expected.kind is list else r.TUPLE
            return self._block.add(*r.ContainerPattern(name, kind, count, parts))
        keys = self._block.add(*[self._refer(key) for key in expected.keys])
        return self._block.add(*r.ContainerPattern(r.DICT, kind, count, parts, keys))

    def _encode_fixed(self, fixed: Fixed) -> Sequence[Any]:
        value: Any = fixed.value
        kind: type[Any] = value.__class__
        if kind is int and abs(value) < 1 << 63:
            return r.ObjectPattern(r.INTEGER, value)
        if kind not in _CONSTANT and kind is not int and not fixed.constant:
            raise NotNative
        return r.ObjectPattern(r.STATIC, self._refer(value))

    def _kind_of(self, number: int, aval: ShapedArray) -> int:
        """The kind of an Array, by what results have its memory."""
        assert self._executable is not None
        # A token after effects is no result: zip leaves it out.
        pairs = zip(self._executable.results, self._signature.avals)  # noqa: B905
        own = (aval.shape, aval.dtype)
        kinds = [(a.shape, a.dtype) for i, a in pairs if i == number and a]
        other = not all(same_size(kind, own) for kind in kinds)
        return r.BUFFERED if other else r.ARRAY

    def _leaf(self, number: int) -> r.LeafPattern:
        kind, aval = self._signature.leaves[number]
        eager = self._executable is None
        if kind is Array:
            use = r.HOSTED if eager else self._kind_of(number, aval)
            if number in self._signature.overwritten:
                use = r.OVERWRITTEN
            elif number in self._signature.donated:
                use = r.DONATED
            return r.LeafPattern(use, number, self._refer(aval))
        if number in self._signature.overwritten:
            raise NotNative
        if kind is np.ndarray:
            sizes = self._block.add(*aval.shape)
            dtype = self._refer(aval.dtype)
            use = r.STRIDED if eager else r.NUMPY
            return r.LeafPattern(use, number, dtype, len(aval.shape), sizes)
        if eager:
            loops = self._plan.loops
            dtype = loops and loops.numbers.get(number)
            plain = r.INT32 if kind is int else r.FLOAT64
            return r.LeafPattern(_NUMBERS.get((kind, dtype), plain), number, 0)
        if kind in SCALARS and aval.dtype == np.dtype(kind):
            small = kind is np.int64 and type(aval) is not LargeInteger
            return r.LeafPattern(r.SCALAR, number, self._refer(kind), int(small))
        if (kind, aval.dtype) not in _NUMBERS:
            raise NotNative
        return r.LeafPattern(_NUMBERS[kind, aval.dtype], number, 0)

    # Results.

    def _result(self, part: LayoutNode) -> Offset:
        if isinstance(part, Nothing):
            return self._block.add(r.NONE)
        if isinstance(part, Leaf):
            return self._block.add(*self._result_leaf(part.number))
        parts = self._block.add(*[self._result(child) for child in part.children])
        count, kind = len(part.children), self._refer(part.kind)
        if part.keys is not None:
            keys = self._block.add(*[self._refer(key) for key in part.keys])
            template, slots = template_of(part.keys)
            offsets = self._block.add(*slots) if slots else 0
            facts = count, parts, keys, self._refer(template), offsets
            built = r.ContainerResult(r.MAPPING, kind, *facts)
        else:
            names = {list: r.LIST, tuple: r.TUPLE}
            name = names.get(part.kind, r.NAMEDTUPLE)
            built = r.ContainerResult(name, kind, count, parts)
        return self._block.add(*built)

    def _result_leaf(self, number: int) -> Sequence[Any]:
        done = self._executable or self._plan
        aval, holder = self._signature.avals[number], done.results[number]
        if self._executable is None:
            if aval is None or holder < len(self._signature.leaves):
                return r.ObjectResult(r.GIVEN, holder)
        elif holder < len(self._executable.program.inputs) and (
            holder not in self._arrays
        ):
            raise NotNative  # it would share what NumPy may change
        assert aval is not None
        facts = aval, aval.shape, aval.dtype, aval.weak_type
        return r.ArrayResult(r.RESULT, holder, *map(self._refer, facts))
