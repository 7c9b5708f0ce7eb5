"""NumPy's loops over elements, called without what NumPy does around them.

For each of its types a ufunc has a loop in C, which is given addresses and strides:

    loop(operands, count, strides, data)

To find the loop, walk over arrays and look for errors takes NumPy many times as long as
a few elements do. Here that is decided when calls are recorded. What is done with the
elements is the same, so that the bits are.

    subtract(x, m)         4 rows of 10: strides 4, 0, 4, and from row to row 40, 4, 40
    add.reduce(x, (1,))    0 -> result; 4 rows of result + x -> result: strides 0, 4, 0

In between, values are in memory of the record: loops run no code of Python's, and so
one call is done before another begins. All are row-major.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import getitem
from typing import Any

import numpy as np

from ftrace.backends.llvm.runtime.ufunc_loops import NotLoops, loop_of
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace.primitives.elementwise import bitcast, copy
from ftrace.trace.primitives.reference import Extremum
from ftrace.trace.tiering import BYTES_RETAINED

_NDARRAY: Any = np.ndarray
_UFUNC: Any = np.ufunc
#: What gives its operand: the first one, in another shape or as other numbers.
_SAME = (_NDARRAY.reshape, _NDARRAY.view, copy.numpy, np.asarray, bitcast.numpy)
_COPIES = (_NDARRAY.copy, np.array)
#: Unsigned integers, whose bits are copied, by their sizes.
_BITS = {1: "B", 2: "H", 4: "I", 8: "L"}
#: What numbers become that are given to calls: see `record_jitted`.
_NUMBERS = (np.float32, np.float64, np.int32)
#: Where the memory of a record has room: after a word that is 0 unless it is refused.
_FIRST, _ALIGNED = 64, 64


class Location(NamedTuple):
    """Where a value is: in which object, how many bytes behind its beginning.

    Attributes:
      slot: a leaf, then arrays that are made, then the memory.
      like: an array of its shape and dtype, row-major.
    """

    slot: int
    offset: int
    like: Any


class NumpyLoop(NamedTuple):
    """So many rows of so many elements.

    Attributes:
      address, data: of NumPy's code, and what it is given besides.
      operands: slot, offset, bytes from row to row and from element to element.
    """

    address: int
    data: int
    rows: int
    length: int
    operands: Sequence[tuple[int, int, int, int]]


class NumpyLoops:
    """What is done with values, as loops.

    Args:
      steps: (function, names of operands, name of the result), in their order.
      values: those of one call, by name.
      leaves, returned: the names of what is given, and of what is made.
      own: the addresses of loops that NumPy lacks: see `records.LOOPS`.

    Attributes:
      loops: in their order.
      made: arrays like those that a call makes.
      memory: what they work in, with all constants; where its first word is not 0
        afterwards, there are zeros to whose signs loops do not see.
      numbers: the dtypes of leaves that are numbers.

    Raises:
      NotLoops: something else is done.
    """

    def __init__(
        self,
        steps: Sequence[tuple[Any, Sequence[str], str]],
        values: Mapping[str, Any],
        leaves: Sequence[str],
        returned: Sequence[str],
        own: Mapping[int | str, int],
    ) -> None:
        self.loops: list[NumpyLoop] = []
        self.numbers: dict[int, np.dtype[Any]] = {}
        self._values: Mapping[str, Any] = values
        self._leaves, self._own = leaves, own
        self._constants: list[Location] = []
        self._slot, self._end = len(leaves) + len(returned), _FIRST
        # What is another value, or a part of it so many bytes behind its beginning.
        self._same: dict[str, str] = {}
        self._parts: dict[str, int] = {}
        self._changing = {*leaves, *[name for *_, name in steps]}
        work = [step for step in steps if not self._is_same(*step)]
        roots = [self._same.get(name, name) for name in returned]
        if not {*roots} <= {x for *_, x in work} or len({*roots}) < len(roots):
            raise NotLoops
        if not self._parts.keys().isdisjoint(returned):
            raise NotLoops
        self.made = [np.empty(values[x].shape, values[x].dtype) for x in returned]
        self._slots = {x: i for i, x in enumerate((*leaves, *roots))}
        self._places: dict[str, Location] = {}
        for function, operands, name in work:
            self._do(function, operands, self._locate(name, makes=True))
        self.memory = np.zeros(self._end, np.uint8)
        for _, offset, value in self._constants:
            bits = np.frombuffer(value.tobytes(), np.uint8)
            self.memory[offset : offset + len(bits)] = bits
        self._values = {}  # a record lives longer than the arrays of one call

    def _is_same(self, function: Any, operands: Sequence[str], name: str) -> bool:
        """Does a step give its operand? Then both are one from now on."""
        first = operands[0] if operands else ""
        is_dtype = np.generic in getattr(function, "__mro__", ())
        if is_dtype and first in self._leaves:
            number, dtype = self._leaves.index(first), self._values[name].dtype
            known = self.numbers.setdefault(number, dtype) == dtype
            if not known or dtype not in _NUMBERS:
                raise NotLoops
        elif function is getitem:
            start = self._find_part(*operands)
            if start is None:
                return False
            self._parts[name] = self._parts.get(first, 0) + start
        elif getattr(function, "func", function) not in _SAME:
            return False
        elif first in self._parts:
            self._parts[name] = self._parts[first]
        self._same[name] = self._same.get(first, first)
        return True

    def _find_part(self, whole: str, index: str) -> int | None:
        """How many bytes behind the beginning a part is, if it is in one piece."""
        value = self._values[whole]
        if index in self._changing or not hasattr(value, "dtype"):
            return None
        like = np.empty(value.shape, value.dtype)
        part = like[self._values[index]]
        if type(part) is not np.ndarray or part.base is not like:
            return None
        if not part.flags.c_contiguous:
            return None
        return part.ctypes.data - like.ctypes.data

    def _do(self, function: Any, operands: Sequence[str], result: Location) -> None:
        whole = getattr(function, "func", function)
        owner = getattr(whole, "__self__", None)
        reduces = getattr(whole, "__name__", "") == "reduce"
        if isinstance(function, _UFUNC):
            self._loop(function, *map(self._locate, operands), result)
        elif function is np.where:
            self._choose(*[self._locate(x) for x in operands], result)
        elif isinstance(whole, Extremum):
            self._loop(whole.ufunc, *map(self._locate, operands), result)
            self._refuse_zeros(result)
        elif function is _NDARRAY.astype:
            self._cast(self._locate(operands[0]), result)
        elif function in _COPIES:
            self._copy(self._locate(operands[0]), result)
        elif reduces and isinstance(owner, _UFUNC):
            _, dtype, _, keeps, initial = [self._values[x] for x in operands[1:]]
            if not keeps or dtype not in (None, result.like.dtype):
                raise NotLoops
            self._reduce(owner, self._locate(operands[0]), result, initial)
        elif reduces and isinstance(owner, Extremum):
            initial = function.keywords["initial"]
            self._reduce(owner.ufunc, self._locate(operands[0]), result, initial)
            self._refuse_zeros(result)
        else:
            raise NotLoops

    # Where values are.

    def _locate(self, name: str, makes: bool = False) -> Location:
        root, value = self._same.get(name, name), self._values[name]
        if not hasattr(value, "dtype") or value.nbytes > BYTES_RETAINED:
            raise NotLoops
        like = np.empty(value.shape, value.dtype)
        if root in self._slots:
            return Location(self._slots[root], self._parts.get(name, 0), like)
        if root not in self._places:
            whole = self._values[root]
            self._places[root] = self._new(like) if makes else self._constant(whole)
        place = self._places[root]
        return place._replace(offset=place.offset + self._parts.get(name, 0), like=like)

    def _constant(self, value: Any) -> Location:
        place = self._new(np.array(value, order="C"))
        self._constants.append(place)
        return place

    def _new(self, like: Any) -> Location:
        """Room in the memory."""
        place = Location(self._slot, self._end, like)
        self._end += -(-like.nbytes // _ALIGNED) * _ALIGNED
        if self._end > BYTES_RETAINED:
            raise NotLoops
        return place

    # Loops.

    def _loop(self, ufunc: Any, *places: Location) -> None:
        """The operands and the result, each again and again to the shape of all."""
        dtypes = [place.like.dtype for place in places]
        if not all(dtype.isnative for dtype in dtypes):
            raise NotLoops
        self._add(*loop_of(ufunc, "".join([dtype.char for dtype in dtypes])), *places)

    def _add(self, address: int, data: int, *places: Location) -> None:
        shape = np.broadcast_shapes(*[place.like.shape for place in places])
        strides = [np.broadcast_to(place.like, shape).strides for place in places]
        axes: list[tuple[int, ...]] = [(1, *[0] * len(places))]
        for size, *steps in zip(shape, *strides, strict=True):
            *before, last = axes
            dense = last[0] == 1 or [size * step for step in steps] == [*last[1:]]
            if size != 1:
                axes = (
                    [*before, (last[0] * size, *steps)]
                    if dense
                    else [*axes, (size, *steps)]
                )
        if len(axes) > 2:
            raise NotLoops
        (rows, *outer), (length, *inner) = [(1, *[0] * len(places)), *axes][-2:]
        slots = [place[:2] for place in places]
        operands = [(*s, m, n) for s, m, n in zip(slots, outer, inner, strict=True)]
        self.loops.append(NumpyLoop(address, data, rows, length, operands))

    def _choose(self, *places: Location) -> None:
        where, x, y, result = places
        size = result.like.itemsize
        alike = x.like.dtype == y.like.dtype == result.like.dtype
        if where.like.dtype != bool or not alike or size not in self._own:
            raise NotLoops
        self._add(self._own[size], 0, *places)

    def _cast(self, source: Location, target: Location) -> None:
        address = self._own.get(source.like.dtype.char + target.like.dtype.char)
        if address is None:
            raise NotLoops
        self._add(address, 0, source, target)

    def _copy(self, source: Location, target: Location) -> None:
        """The same bits."""
        kind = _BITS.get(source.like.itemsize)
        if kind is None or source.like.dtype != target.like.dtype:
            raise NotLoops
        x, y = (p._replace(like=p.like.view(kind)) for p in (source, target))
        self._loop(np.bitwise_or, x, x, y)

    def _reduce(self, ufunc: Any, x: Location, result: Location, initial: Any) -> None:
        """NumPy goes over the elements as they lie in memory."""
        first = np.full((), initial, result.like.dtype)
        self._copy(self._constant(first), result)
        self._loop(ufunc, result, x, result)

    def _refuse_zeros(self, x: Location) -> None:
        if x.like.dtype.kind != "f":
            return
        zero = self._constant(np.zeros((), x.like.dtype))
        found = self._new(np.empty(x.like.shape, np.bool_))
        refused = Location(self._slot, 0, np.empty((), np.bool_))
        self._loop(np.equal, x, zero, found)
        self._loop(np.logical_or, refused, found, refused)
