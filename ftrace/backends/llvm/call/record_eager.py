"""Eager calls become records: what Python's code did is done again without it.

A call that has come often is made once more in Python with a tape on
(`trace.eager.composite`). The steps from its arguments to its result, in the order
in which they were done, are what its record does. A step that is one ufunc is done by
the inner loop of it, without what NumPy does around that: the code of NumPy on the same
elements in the same order, so the bits are those of NumPy.

    Arguments     what is expected of them; the leaves, for which steps are repeated
    Steps         the steps of the tape that lead from these to the results
    EagerRecords  counts calls and makes records of them
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from operator import getitem
from typing import Any, cast

import numpy as np

from ftrace.backends.base import Expected, Fixed, Index, Signature
from ftrace.backends.llvm.call import records as r
from ftrace.backends.llvm.call.bind_signature import (
    SCALARS,
    BoundCall,
    NotNative,
    array_part,
)
from ftrace.backends.llvm.runtime.records import Block, Place, Word
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.tables import Table, memo
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.avals import ShapedArray
from ftrace.trace.eager.composite import Made as Value, Number, Step as Taped, Tape
from ftrace.trace.eager.dispatch import Eager, integer_classes, is_by_place
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import (
    Container,
    Leaf,
    Nothing,
    Part,
    layout_of,
)
from ftrace.trace.tiering import (
    BYTES_KEPT,
    CALLS_BEFORE_RECORD,
    IN_LOOP,
    ITEMS,
    KINDS_COUNTED,
    LEAVES,
)
from ftrace.trace.tracing.tracer import Tracer, aval_of

_copied: Any = vars(np.ndarray)["copy"]


class NotRecordable(Exception):
    """Calls of this kind stay with Python's code."""


#: Objects of these classes are told apart as what they are, as are all classes.
_CONSTANT = (type(None), bool, str, type(...), type, np.dtype, Eager)
#: Numbers that are told apart by their values.
_BY_VALUE = frozenset((int, float, complex, np.int64, np.float64))
_INTEGERS = frozenset((int, *integer_classes))
#: What numbers are: operands; or they may decide anything; or the argument is an index,
#: in which integers are places.
OPERANDS, BY_VALUE, BY_PLACE = range(3)


class Arguments:
    """The arguments of a call.

    Args:
      function: what is called.
      args: its arguments, those by name last.
      named: how many have names.

    Attributes:
      expected: what a call like this one is given.
      given: the leaves: what the steps are done with.
      words: tell calls of this kind from others.
      places: the numbers of the leaves that are indices by place.

    Raises:
      NotRecordable: one is of a kind of which no records are kept.
    """

    def __init__(self, function: Eager, args: Sequence[Any], named: int) -> None:
        self.given: list[Any] = []
        self.places: list[int] = []
        self.words: list[Any] = []
        plain = OPERANDS if function.numbers else BY_VALUE
        index = len(args) if not function.indexed else 2 if function.numbers else 1
        if function.indexed and len(args) - named <= index:  # it has a name
            plain, index = BY_VALUE, len(args)
        modes = [plain] * index + [BY_PLACE] + [BY_VALUE] * len(args)
        self.expected = tuple([
            self._expect(x, mode) for x, mode in zip(args, modes, strict=False)
        ])  # fmt: skip

    def _leaf(self, x: Any, word: Any) -> Leaf:
        if len(self.given) >= LEAVES:
            raise NotRecordable
        self.words.append(word)
        self.given.append(x)
        return Leaf(len(self.given) - 1)

    def _expect(self, x: Any, mode: int) -> Expected:
        kind: type[Any] = x.__class__
        if kind is Array:
            if x.is_deleted() or not x.memory.host:
                raise NotRecordable
            return self._leaf(x, id(aval_of(x)))
        if mode == BY_PLACE:
            mode = BY_VALUE
            if is_by_place(x):
                return self._index(x)
            if kind is np.ndarray:
                mode = OPERANDS
        if kind in (list, tuple, slice):
            return self._sequence(x, mode)
        if mode == OPERANDS and (kind is float or kind in SCALARS):
            return self._leaf(x, kind)
        if mode == OPERANDS and kind is np.ndarray:
            if not (x.flags.c_contiguous and x.flags.aligned):
                raise NotRecordable
            return self._leaf(x, (x.dtype, x.shape))
        if kind not in _BY_VALUE and not isinstance(x, _CONSTANT):
            raise NotRecordable
        self.words += kind, x
        return Fixed(x, kind not in _BY_VALUE)

    def _index(self, x: Any) -> Expected:
        """An index whose integers only say where."""
        self.places.append(len(self.given))
        if type(x) is not tuple:
            return self._leaf(x, type(x))
        given = cast(Any, x)
        number = self._leaf(x, len(given)).number
        parts: list[Any] = []
        for part in given:
            if type(part) in _INTEGERS:
                self.words.append(type(part))
                parts.append(type(part))
            else:
                parts.append(self._expect(part, BY_VALUE))
        return Index(number, tuple(parts))

    def _sequence(self, x: Any, mode: int) -> Expected:
        kind: type[Any] = x.__class__
        items: Any = (x.start, x.stop, x.step) if kind is slice else x
        if len(items) > ITEMS:
            raise NotRecordable
        if kind is slice and not all(type(i) in (int, type(None)) for i in items):
            raise NotRecordable
        self.words += kind, len(items)
        children: Any = tuple([self._expect(item, mode) for item in items])
        return Container(kind, None, children)


def _renew(expected: Expected, x: Any, fresh: Iterator[Any]) -> Any:
    """An argument with other objects in the places of its leaves."""
    if isinstance(expected, (Leaf, Index)):
        return next(fresh)
    if isinstance(expected, Container) and expected.kind is not slice:
        pairs = zip(expected.children, x, strict=True)
        return expected.kind([_renew(part, item, fresh) for part, item in pairs])
    return x


def _another(x: Any) -> Any:
    """Another object of the same values, where they are looked at."""
    kind: type[Any] = x.__class__
    if kind is Array:
        values = x.numpy()  # all of them see it
        return Array(x.shape, x.dtype, x.weak_type, x.stored, values)
    if kind is np.ndarray:
        return x.view()
    if kind is float:
        return x * 1.0
    return kind(x) if kind in SCALARS else x


# Steps.


@dataclass(frozen=True)
class At:
    """The value of that number: a leaf, or what a step makes."""

    number: int


@dataclass(frozen=True, eq=False)
class Call:
    """A step.

    Attributes:
      operands: values, and constants.
      dtype, shape: of an array that it makes; None where it makes something else, or
        the shape is not known.
    """

    function: Any
    operands: Sequence[Any]
    dtype: Any
    shape: tuple[int, ...] | None = None


class Steps:
    """The steps of a tape that lead to some results: what a record does.

    Args:
      given, fresh: the leaves, and the objects that stood for them.
      results: Arrays, of which some may be arguments, and what is always the same.

    Raises:
      NotRecordable: something in between is not on the tape.
    """

    def __init__(
        self, tape: Tape, given: Sequence[Any], fresh: Sequence[Any], results: Any
    ) -> None:
        self.calls: list[Call] = []
        self._given, self._results = given, results
        self._leaves = {id(x): i for i, x in enumerate(fresh)}
        self._numbers = dict(self._leaves)
        self._constants = {id(x): x.numpy() for x in tape.constants}
        self._pool: list[Any] = []
        made = {id(step.result): step for step in tape.steps}
        for step in _needed(tape.steps, made, results):
            result, operands = step.result, [self._resolve(x) for x in step.operands]
            fixed = not any(type(x) is At for x in operands)
            if fixed and type(result) is Array:
                self._constants[id(result)] = result.numpy()
            else:
                shape = getattr(result, "shape", None)
                call = Call(step.function, operands, result.dtype, shape)
                self._numbers[id(result)] = self._append(call)
        self._sources = [self._source(x) for x in results]

    def reads(self, leaf: int) -> bool:
        return any(x == At(leaf) for call in self.calls for x in call.operands)

    def _source(self, result: Any) -> int:
        """The number of a result's value; of an argument that of the leaf."""
        if type(result) is not Array:
            return self._append(Call(getitem, [(result,), 0], None))
        number = self._numbers.get(id(result))
        if number is not None:
            return number
        values = self._constants.get(id(result))
        if values is None:
            raise NotRecordable
        # Each call has elements of its own, but for one that repeats, as in Python.
        if not values.size or not any(values.strides):
            return self._append(Call(np.asarray, [values], values.dtype))
        if values.nbytes > BYTES_KEPT:
            raise NotRecordable
        return self._append(Call(_copied, [values], values.dtype))

    def _append(self, call: Call) -> int:
        self.calls.append(call)
        return len(self._given) + len(self.calls) - 1

    def _resolve(self, x: Any) -> Any:
        number = self._numbers.get(id(x))
        if number is not None:
            return At(number)
        if id(x) in self._constants:
            return self._constants[id(x)]
        if type(x) in (Array, Value):
            raise NotRecordable
        return self._number(x) if isinstance(x, Number) else x

    def _number(self, x: Number) -> Any:
        leaf = self._numbers.get(id(x.value))
        if leaf is None:
            return x.dtype.type(x.value)
        return At(self._append(Call(x.dtype.type, [At(leaf)], x.dtype, ())))

    # In memory: see `bind_signature.Body`.

    def place(self, block: Block, refer: Callable[[Any], int]) -> Place:
        loops = [self._loop(call, block, refer) for call in self.calls]
        numbers: list[list[int]] = []
        for call, loop in zip(self.calls, loops, strict=True):
            row: list[int] = []
            for x in call.operands:
                if type(x) is At:
                    row.append(x.number)
                    continue
                self._pool.append(x if loop is None else np.asarray(x, order="C"))
                row.append(-len(self._pool))
            numbers.append(row)
        first = len(self._pool)
        rows: list[Word] = []
        for call, loop, row in zip(self.calls, loops, numbers, strict=True):
            silent = getattr(call.function, "__name__", "") in _SILENT
            rows += r.Step(
                refer(call.function),
                len(row),
                block.add(*[first + n if n >= 0 else -n - 1 for n in row]),
                0 if call.dtype is None else refer(call.dtype),
                0 if loop is None else loop,
                int(not silent),
            )
        pool = block.add(*map(refer, self._pool))
        return block.add(*r.Steps(len(self.calls), block.add(*rows), first, pool))

    def result(self, number: int, refer: Callable[[Any], int]) -> Sequence[Any]:
        result, source = self._results[number], len(self._pool) + self._sources[number]
        if id(result) in self._leaves:  # itself, which stands behind all values
            source += len(self._given) + len(self.calls)
        elif type(result) is Array:
            return array_part(r.HOSTED, source, aval_of(result), refer)
        return r.GivenPart(r.GIVEN, source)

    def _loop(
        self, call: Call, block: Block, refer: Callable[[Any], int]
    ) -> Place | None:
        """A step as one inner loop; None if it is none."""
        ufunc, shape = call.function, call.shape
        if not isinstance(ufunc, np.ufunc) or call.dtype is None or shape is None:
            return None
        elements, known = math.prod(shape), len(self._given)
        operands = [
            x if type(x) is not At
            else self.calls[x.number - known] if x.number >= known
            else self._given[x.number]
            for x in call.operands
        ]  # fmt: skip
        if not 0 < elements <= IN_LOOP or len(operands) != ufunc.nin:
            return None
        dtypes: list[Any] = [getattr(x, "dtype", None) for x in operands]
        shapes: list[Any] = [getattr(x, "shape", None) for x in operands]
        if None in dtypes or None in shapes:
            return None
        sizes = [math.prod(s) for s in shapes]
        if not all(n in (1, elements) for n in sizes):
            return None
        types = [np.dtype(x) for x in (*dtypes, call.dtype)]
        text = "".join(t.char for t in types[:-1]) + "->" + types[-1].char
        code = inner_loop(ufunc, text)
        if code is None:
            return None
        strides = [
            t.itemsize if n == elements else 0
            for t, n in zip(types, [*sizes, elements], strict=True)
        ]
        of_operands = block.add(*strides), block.add(*map(refer, types[:-1]))
        size = len(shape), block.add(*shape)
        return block.add(*r.Loop(*code, elements, *of_operands, *size))


def _needed(
    steps: Sequence[Taped], made: dict[int, Taped], results: Sequence[Any]
) -> list[Taped]:
    pending, seen = [made.get(id(x)) for x in results], set[int]()
    while pending:
        step = pending.pop()
        if step is not None and id(step) not in seen:
            seen.add(id(step))
            pending.extend(made.get(id(x)) for x in step.operands)
    return [step for step in steps if id(step) in seen]


#: Functions that never tell of floating-point errors.
_SILENT = ("reshape", "transpose", "getitem", "where", "concatenate", "asarray")


# Inner loops.

#: `PyArray_NewFromDescr` and the version in the table of NumPy's C functions, and the
#: version of which that is known.
_NEW, _VERSION, _KNOWN = 94, 0, 0x02000000


def new_ndarray() -> int:
    """The address of what makes an array of NumPy's; 0 where it is not known."""
    core: Any = getattr(np, "_core", None)
    capsule = getattr(getattr(core, "multiarray", None), "_ARRAY_API", None)
    if capsule is None:
        return 0
    pointer: Any = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = (
        ctypes.c_void_p,
        (ctypes.py_object, ctypes.c_char_p),
    )
    table = (ctypes.c_void_p * (_NEW + 1)).from_address(pointer(capsule, None))
    version = ctypes.CFUNCTYPE(ctypes.c_uint)(table[_VERSION] or 0)()
    return table[_NEW] or 0 if version == _KNOWN else 0


class _Ufunc(ctypes.Structure):
    """The beginning of `PyUFuncObject`."""

    _fields_ = (
        ("head", ctypes.c_ssize_t * 2),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


@memo(1024)
def inner_loop(ufunc: Any, types: str) -> tuple[int, int] | None:
    """The loop of a ufunc for such types, as `ufunc.types` has them, and its data.

    None where there is none, or where it does not do what the ufunc does.
    """
    known: list[str] = list(ufunc.types)
    if types not in known or ufunc.nout != 1 or ufunc.nin > r.MOST_OPERANDS:
        return None
    if not new_ndarray():
        return None
    seen = _Ufunc.from_address(id(ufunc))
    if (seen.nin, seen.nargs, seen.ntypes) != (ufunc.nin, ufunc.nargs, ufunc.ntypes):
        return None
    place = known.index(types)
    function, data = seen.functions[place] or 0, seen.data[place] or 0
    works = function and _does_the_same(ufunc, types, function, data)
    return (function, data) if works else None


def _does_the_same(ufunc: Any, types: str, function: int, data: int) -> bool:
    count = 19
    given = [np.linspace(-1.5, 7, count).astype(t) for t in types.partition("->")[0]]
    try:
        with np.errstate(all="ignore"):
            expected: Any = ufunc(*given)
    except ValueError:  # of some numbers there is no such result
        return False
    found = np.zeros_like(expected)
    arrays: list[Any] = [*given, found]
    places = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])
    steps = (ctypes.c_ssize_t * len(arrays))(*[x.itemsize for x in arrays])
    sizes = (ctypes.c_ssize_t * 1)(count)
    run = ctypes.PYFUNCTYPE(None, *[ctypes.c_void_p] * 4)(function)
    run(places, sizes, steps, data or None)
    return found.dtype.char == types[-1] and found.tobytes() == expected.tobytes()


# Records.


class EagerRecords:
    """The records of all public functions.

    Args:
      native: the native code of this process.
      recording: a word that is not 0 while a call is recorded.
    """

    def __init__(self, native: Any, recording: Any) -> None:
        self._native = native
        self._recording = recording
        self._counts: Table[tuple[Any, ...], count[int]] = Table(KINDS_COUNTED)
        self._lock = fresh_after_fork(threading.Lock())

    def call(self, function: Eager, args: tuple[Any, ...], kwargs: Any) -> Any:
        """A call for which there is no record; one that comes often gets one."""
        config = settings.current()
        native = config.native_calls and not config.checks_calls
        if recording.tape is not None or not native:
            return function.behind(*args, **kwargs)
        if Tracer in map(type, args):  # it is traced: nothing is computed
            return function.behind(*args, **kwargs)
        given = [*args, *kwargs.values()]
        try:
            arguments = Arguments(function, given, len(kwargs))
        except (NotRecordable, RecursionError):  # or nested too deep
            return function.behind(*args, **kwargs)
        key = (function, id(config), *kwargs, *arguments.words)
        counter = self._counts.get(key) or self._counts.put(key, count(1))
        # Whose record was dropped waits twice as long for the next one.
        often, rest = divmod(next(counter), CALLS_BEFORE_RECORD)
        if rest or not often or often & (often - 1):
            return function.behind(*args, **kwargs)
        # Only one is recorded at a time; where a fork left it locked, none.
        if not self._lock.acquire(blocking=False):
            return function.behind(*args, **kwargs)
        try:
            return self._record(function, given, tuple(kwargs), arguments, config)
        finally:
            self._lock.release()

    def _record(
        self,
        function: Eager,
        args: Sequence[Any],
        names: Sequence[str],
        arguments: Arguments,
        config: settings.Config,
    ) -> Any:
        fresh = [_another(x) for x in arguments.given]
        substitutes = iter(fresh)
        pairs = zip(arguments.expected, args, strict=True)
        renewed = [_renew(part, x, substitutes) for part, x in pairs]
        count = len(args) - len(names)
        tape = Tape()
        recording.tape = tape
        self._recording[0] = 1
        try:
            named = dict(zip(names, renewed[count:], strict=True))
            result = function.behind(*renewed[:count], **named)
        finally:
            recording.tape = None
            self._recording[0] = 0
        kinds: list[tuple[type[Any], Any]]
        kinds = [(type(x), _type_of(x)) for x in arguments.given]
        expected = arguments.expected
        named = dict(zip(names, expected[count:], strict=True))
        own = {id(x): given for x, given in zip(fresh, arguments.given, strict=True)}
        leaves, treedef = tree.flatten(result)
        layout = layout_of(treedef)

        def bound(body: Steps | None, part: Part) -> BoundCall:
            signature = Signature(
                config, expected[:count], named, tuple(kinds), (), (), (), part, ()
            )
            return BoundCall(self._native, signature, body=body)

        try:
            if layout is None or not leaves:
                raise NotRecordable
            found = bound(_steps(tape, arguments, fresh, leaves), layout)
        except (NotRecordable, NotNative):
            found = bound(None, Nothing())  # such calls are left to Python
        function.add_record(found)
        return tree.unflatten(treedef, [own.get(id(x), x) for x in leaves])


def _type_of(x: Any) -> Any:
    """The type of an array; None of what only its class tells apart."""
    if type(x) is np.ndarray:
        return ShapedArray.of(x.shape, x.dtype)
    return aval_of(x) if type(x) is Array else None


def _steps(
    tape: Tape, arguments: Arguments, fresh: Sequence[Any], leaves: Sequence[Any]
) -> Steps:
    """What leads to the leaves of a result.

    Raises:
      NotRecordable: that hangs on more than the types of the arguments.
    """
    if tape.refused:
        raise NotRecordable
    if not arguments.given:  # what decides is fixed
        tape.constants += [x for x in leaves if type(x) is Array and x.memory.host]
    for x in leaves:  # no value decides a dtype
        always = type(x) in _PLAIN and not arguments.given
        if type(x) is not Array and not isinstance(x, np.dtype) and not always:
            raise NotRecordable
    steps = Steps(tape, arguments.given, fresh, leaves)
    if not all(map(steps.reads, arguments.places)):
        raise NotRecordable  # an index has decided what the steps are
    return steps


#: Results that are what they are: no two of them are told apart.
_PLAIN = frozenset((bool, int, float, str))
