"""Eager calls become records: what Python's code did is done again without it.

A call that has come often is made once more in Python with a tape on
(`trace.eager.composite`). The steps from its arguments to its result, in the order
in which they were done, become a function of what NumPy has of its arguments: that is
what its record does. If it is one step it is NumPy's function itself.

    Arguments     what is expected of them; the leaves, for which steps are repeated
    Steps         the steps of the tape that lead from these to the results
    EagerRecords  counts calls and makes records of them
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from ftrace.backends.base import Expected, Fixed, Signature
from ftrace.backends.llvm.call.bind_signature import (
    SCALARS,
    BoundCall,
    NotNative,
    Plan,
)
from ftrace.ground import settings
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.tables import Table, memo
from ftrace.trace.arrays.array import Array, recording
from ftrace.trace.avals import ShapedArray
from ftrace.trace.eager.composite import Made, Number, Step as Taped, Tape
from ftrace.trace.eager.dispatch import Eager
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


class Arguments:
    """The arguments of a call.

    Args:
      function: what is called.
      args: its arguments, those by name last.

    Attributes:
      expected: what a call like this one is given.
      given: the leaves: what the steps are done with.
      words: tell calls of this kind from others.

    Raises:
      NotRecordable: one is of a kind of which no records are kept.
    """

    def __init__(self, function: Eager, args: Sequence[Any]) -> None:
        self.given: list[Any] = []
        self.words: list[Any] = []
        self.expected = tuple([self._expect(x, function.numbers) for x in args])

    def _leaf(self, x: Any, word: Any) -> Leaf:
        if len(self.given) >= LEAVES:
            raise NotRecordable
        self.words.append(word)
        self.given.append(x)
        return Leaf(len(self.given) - 1)

    def _expect(self, x: Any, numbers: bool) -> Expected:
        """What is expected of an argument; `numbers`: those are operands."""
        kind: type[Any] = x.__class__
        if kind is Array:
            if x.is_deleted() or not x.memory.host:
                raise NotRecordable
            return self._leaf(x, id(aval_of(x)))
        if kind in (list, tuple):
            if len(x) > ITEMS:
                raise NotRecordable
            self.words += kind, len(x)
            children = tuple([self._expect(item, numbers) for item in x])
            return Container(kind, None, children)
        if numbers and (kind is float or kind in SCALARS):
            return self._leaf(x, kind)
        if numbers and kind is np.ndarray:
            if not (x.flags.c_contiguous and x.flags.aligned):
                raise NotRecordable
            return self._leaf(x, (x.dtype, x.shape))
        if kind not in _BY_VALUE and not isinstance(x, _CONSTANT):
            raise NotRecordable
        self.words += kind, x
        return Fixed(x, kind not in _BY_VALUE)


def _renew(expected: Expected, x: Any, fresh: Iterator[Any]) -> Any:
    """An argument with other objects in the places of its leaves."""
    if isinstance(expected, Leaf):
        return next(fresh)
    if isinstance(expected, Container):
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


class Steps:
    """The steps of a tape that lead to some results, as a function of the leaves.

        def call(x0, x1):
            v0 = c0(x0, c1)
            v1 = c2(v0, x1)
            return v1

    Each is done once meanwhile: what NumPy returns of the wrong dtype, or as a number,
    is made an array of the right one.

    Args:
      given, fresh: the leaves, and the objects that stood for them.
      results: Arrays, of which some may be arguments, and what is always the same.

    Attributes:
      plan: what a record does.

    Raises:
      NotRecordable: something in between is not on the tape.
    """

    def __init__(
        self, tape: Tape, given: Sequence[Any], fresh: Sequence[Any], results: Any
    ) -> None:
        self._lines: list[str] = []
        self._scope: dict[str, Any] = {"asarray": np.asarray}
        self._values = {
            f"x{i}": x.numpy() if type(x) is Array else x for i, x in enumerate(given)
        }
        leaves = [*self._values]
        self._names = dict(zip(map(id, fresh), leaves, strict=True))
        self._constants = {id(x): x.numpy() for x in tape.constants}
        made = {id(step.result): step for step in tape.steps}
        for step in _needed(tape.steps, made, results):
            result, operands = step.result, [self._operand(x) for x in step.operands]
            if type(result) is Array and not any(x[0] != "c" for x in operands):
                self._constants[id(result)] = result.numpy()
            else:
                name = self._call(step.function, operands, result.dtype)
                self._names[id(result)] = name
        returned = [self._returned(x) for x in results]
        values = [*dict.fromkeys(x for x in returned if x not in leaves)]
        sources = [[*leaves, *values].index(x) for x in returned]
        many = 0 if len(values) == 1 else len(values)
        self.plan = Plan(self._function(leaves, values), many, sources)

    def _operand(self, x: Any) -> str:
        """The name of a value; a number may be one in a dtype."""
        name = self._names.get(id(x))
        if name is None:
            if id(x) in self._constants:
                x = self._constants[id(x)]
            if type(x) in (Array, Made):
                raise NotRecordable
            if type(x) is Number:
                kind: Any = x.dtype.type
                leaf = self._names.get(id(x.value))
                if leaf is not None:
                    return self._call(kind, [leaf])
                x = kind(x.value)
            name = self._constant(x)
        return name

    def _constant(self, x: Any) -> str:
        name = f"c{len(self._scope)}"
        self._scope[name] = self._values[name] = x
        return name

    def _call(self, function: Any, operands: Sequence[str], dtype: Any = None) -> str:
        value = function(*[self._values[name] for name in operands])
        text = f"{self._constant(function)}({', '.join(operands)})"
        if dtype is not None and (type(value), value.dtype) != (np.ndarray, dtype):
            value = np.asarray(value, dtype)
            text = f"asarray({text}, {self._constant(dtype)})"
        name = f"v{len(self._lines)}"
        self._lines.append(f"{name} = {text}")
        self._values[name] = value
        return name

    def _returned(self, result: Any) -> str:
        """The name of a result's value; of an argument that of the leaf."""
        if type(result) is not Array:
            return self._constant(result)
        name = self._names.get(id(result))
        if name is not None:
            return name
        values = self._constants.get(id(result))
        if values is None or values.nbytes > BYTES_KEPT:
            raise NotRecordable
        # Each call has elements of its own.
        return self._call(_copied, [self._constant(values)])

    def _function(self, leaves: Sequence[str], values: Sequence[str]) -> Any:
        given, returned = ", ".join(leaves), ", ".join(values)
        if self._lines == [f"v0 = c1({given})"] and returned == "v0":
            return self._scope["c1"]
        lines = [f"def call({given}):", *self._lines, f"return {returned}"]
        exec(_code("\n  ".join(lines)), self._scope)
        return self._scope.pop("call")


@memo(1024)
def _code(source: str) -> Any:
    return compile(source, "<calls of NumPy>", "exec")


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
            arguments = Arguments(function, given)
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

        avals = tuple([aval_of(x) if type(x) is Array else None for x in leaves])

        def bound(plan: Plan | None, part: Part) -> BoundCall:
            signature = Signature(
                config, expected[:count], named, tuple(kinds), (), (), (), part, avals
            )
            return BoundCall(self._native, signature, plan=plan)

        try:
            if layout is None or not leaves:
                raise NotRecordable
            found = bound(_steps(tape, arguments, fresh, leaves), layout)
        except (NotRecordable, NotNative, TypeError):  # a step may want an array
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
) -> Plan:
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
    with np.errstate(all="ignore"):
        return Steps(tape, arguments.given, fresh, leaves).plan


#: Results that are what they are: no two of them are told apart.
_PLAIN = frozenset((bool, int, float, str))
