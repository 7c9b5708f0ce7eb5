"""A compiled program and a signature, as a record that the native entry walks over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.arrays.array import Array
from ftrace.devices.call_signature import Expected, Fixed, Signature
from ftrace.devices.llvm.call.cpython.method_table import SCALARS
from ftrace.devices.llvm.call.cpython.records import (
    ARRAY,
    BOOL,
    DICT,
    DONATED,
    FLOAT32,
    FLOAT64,
    INT32,
    NOTHING,
    NUMPY,
    OVERWRITTEN,
    RESULT,
    SCALAR,
    SEQUENCE,
    STATIC,
    Call,
    Capture,
    ContainerPart,
    LeafPart,
    Make,
    ObjectPart,
)
from ftrace.devices.llvm.call.install import Native
from ftrace.devices.llvm.call.jit.build_results import NotNative, Outcome, array_part
from ftrace.devices.llvm.runtime.vm.records import Block, Place
from ftrace.ground.settings import Config
from ftrace.trace.avals import LargeInteger
from ftrace.trace.pytree.structure_cache import Leaf, Nothing
from ftrace.trace.tracing.tracer import aval_of

#: Leaves and results of a call; with more of them Python's part is small beside theirs.
MOST_LEAVES = 1024

#: Static arguments that are what they were if they are the same object.
_CONSTANT = frozenset((bool, int, float, complex, str, bytes, type(None)))

_NUMBERS: dict[tuple[type[Any], Any], int] = {
    (float, dtypes.float32): FLOAT32,
    (float, dtypes.float64): FLOAT64,
    (int, dtypes.int32): INT32,
    (bool, dtypes.bool_): BOOL,
}

#: Numbers of NumPy.
_SCALARS = frozenset((*SCALARS, np.int64))


class Program:
    """What a record says of the program.

    Attributes:
      entry, threads: what `run` takes.
      inputs: how many it has.
      made: (bytes, size class) of the buffers that it is given besides.
      results: the numbers of the objects that are its results.
      work: (kernels, operations, bytes) of one run.
      keeps: what keeps the program in memory.
    """

    def __init__(
        self,
        entry: int,
        threads: int,
        inputs: int,
        made: Sequence[tuple[int, int]],
        results: Sequence[int],
        work: tuple[int, int, int],
        keeps: Any,
    ) -> None:
        self.entry = entry
        self.threads = threads
        self.inputs = inputs
        self.made = made
        self.results = results
        self.work = work
        self.keeps = keeps


class BoundCall:
    """See `calls.Bound`.

    Raises:
      NotNative: it cannot be done.
    """

    def __init__(self, native: Native, program: Program, signature: Signature) -> None:
        self.config = signature.config
        self._native = native
        self._keeps: list[Any] = [program.keeps, signature]
        self._block = Block()
        self._program = program
        self._signature = signature
        self._arrays = {
            number for number, (kind, _) in enumerate(signature.leaves) if kind is Array
        }
        record = self._block.add(*self._record())
        self._block.freeze()
        self.address = self._block.settle(record)
        # Written behind: what the record refers to is known only now.
        self._set("owner", id(self))

    def use(self, config: Config) -> None:
        before, self.config = self.config, config
        self._set("config", id(config))
        del before  # the native code compares addresses: it lives until here

    def serve(self, kind: type[Any], links: str, plain: str) -> None:
        self._native.serve(kind, links, plain)

    def _set(self, field: str, value: int) -> None:
        self._block.write(self.address, Call._fields.index(field), value)

    def _refer(self, thing: Any) -> int:
        self._keeps.append(thing)
        return id(thing)

    def _list(self, words: Sequence[Any]) -> Place:
        return self._block.add(*words) if words else self._block.add(0)

    def _record(self) -> Call:
        program, signature = self._program, self._signature
        leaves, captured = signature.leaves, signature.captured
        inputs = len(leaves) + len(captured)
        if inputs != program.inputs:
            raise NotNative
        if max(inputs + len(program.made), len(signature.avals)) > MOST_LEAVES:
            raise NotNative
        named = signature.named
        parts = [self._expected(x) for x in (*signature.positional, *named.values())]
        captures: list[Any] = []
        for number, array in enumerate(captured, len(leaves)):
            self._arrays.add(number)
            part = LeafPart(ARRAY, number, self._refer(aval_of(array)))
            captures.extend(Capture(self._refer(array), self._block.add(*part)))
        makes: list[Any] = []
        for nbytes, size in program.made:
            makes.extend(Make(self._native.number_of(size), nbytes))
        return Call(
            0,
            id(signature.config),
            program.entry,
            program.threads,
            len(signature.positional),
            len(named),
            self._list([self._refer(name) for name in named]),
            self._list(parts),
            len(captured),
            self._list(captures),
            inputs,
            len(signature.donated),
            self._list(signature.donated),
            len(signature.overwritten),
            self._list(signature.overwritten),
            len(program.made),
            self._list(makes),
            Outcome(self._block, self._refer).place(signature.result, self._array),
            *program.work,
        )

    # Arguments.

    def _expected(self, expected: Expected) -> Place:
        if isinstance(expected, Fixed):
            if type(expected.value) not in _CONSTANT:
                raise NotNative
            return self._block.add(*ObjectPart(STATIC, self._refer(expected.value)))
        if isinstance(expected, Nothing):
            return self._block.add(*ObjectPart(NOTHING, id(None)))
        if isinstance(expected, Leaf):
            return self._block.add(*self._leaf(expected.number))
        parts = self._list([self._expected(child) for child in expected.children])
        count, kind = len(expected.children), self._refer(expected.kind)
        if expected.keys is None:
            # A list has its items elsewhere: see `arguments`.
            elsewhere = int(expected.kind is list)
            part = ContainerPart(SEQUENCE, kind, count, parts, elsewhere)
        else:
            keys = self._list([self._refer(key) for key in expected.keys])
            part = ContainerPart(DICT, kind, count, parts, keys)
        return self._block.add(*part)

    def _leaf(self, number: int) -> LeafPart:
        kind, aval = self._signature.leaves[number]
        if kind is Array:
            use = OVERWRITTEN if number in self._signature.overwritten else ARRAY
            if use == ARRAY and number in self._signature.donated:
                use = DONATED
            return LeafPart(use, number, self._refer(aval))
        if number in self._signature.overwritten:
            raise NotNative
        if kind is np.ndarray:
            sizes = self._list(aval.shape)
            dtype = self._refer(aval.dtype)
            return LeafPart(NUMPY, number, dtype, len(aval.shape), sizes)
        if kind in _SCALARS and aval.dtype == np.dtype(kind):
            is_small = kind is np.int64 and type(aval) is not LargeInteger
            return LeafPart(SCALAR, number, self._refer(kind), int(is_small))
        if (kind, aval.dtype) not in _NUMBERS:
            raise NotNative
        return LeafPart(_NUMBERS[kind, aval.dtype], number, 0)

    # Results.

    def _array(self, number: int) -> Place:
        aval = self._signature.avals[number]
        holder = self._program.results[number]
        if holder < self._program.inputs and holder not in self._arrays:
            raise NotNative  # it would share what NumPy may change
        part = array_part(RESULT, holder, aval, self._refer)
        return self._block.add(*part)
