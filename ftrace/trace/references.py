"""References: cells that are written in place, and functions that write them.

A function may write a `Ref` that was there before it. What it writes is traced, and
must not stay behind when its trace has ended: the trace takes what the reference holds
as one more argument, and returns what it holds at last.

    Frame     a run of a user's function: keeps what is written in it
    Written   raised where it ends, if that was a reference from around it
    threaded  the function with these references as an argument and a result

A transform that catches `Written` traces the function again, threaded; one that does
not has no meaning for it, and the exception says so to the user.

A backward rule may write a reference, too. What it writes goes backwards through the
program, as cotangents do: so it is one. Beside a reference that such a rule is given
there is another one, its back, of zeros, which goes from call to call. Its cotangent
after all of them is what the reference holds when the backward pass begins, that before
them what it holds at last: of integers as far as float32 can tell them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from threading import local
from typing import Any
from weakref import WeakSet

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace.arrays.array import Array, is_array
from ftrace.trace.pytree import tree

Value = Any  # Array | Tracer


class _Thread(local):
    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.lent: list[Ref] = []  # those that functions have got as arguments


_thread = _Thread()
#: What is greater began later, in whatever thread.
_serials = count()


class AbstractRef:
    """The type of a reference: the shape and dtype of its array.

    Attributes:
      inner_aval: the type of the array.
    """

    __slots__ = ("inner_aval",)

    def __init__(self, inner_aval: Any, *_: Any, **__: Any) -> None:
        self.inner_aval = inner_aval

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner_aval, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and other.inner_aval == self.inner_aval

    def __hash__(self) -> int:
        return hash((AbstractRef, self.inner_aval))

    def __repr__(self) -> str:
        return f"Ref{{{self.inner_aval!r}}}"


class RefBase(ABC):
    """What is read and written in place: a reference, or a part of one."""

    __slots__ = ()

    @abstractmethod
    def read(self) -> Value:
        """What it holds."""

    @abstractmethod
    def write(self, value: Value) -> None:
        """Gives it another array of its shape and dtype."""

    @property
    def at(self) -> RefIndexer:
        """`ref.at[i]` is that part of it, to be read and written."""
        return RefIndexer(self)

    @property
    def shape(self) -> Any:
        return self.read().shape

    @property
    def dtype(self) -> Any:
        return self.read().dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.read().size

    def unsafe_buffer_pointer(self) -> int:
        """Where the array that it holds lies now; each write gives it another."""
        held: Any = self.read()
        return held.unsafe_buffer_pointer()

    def __getitem__(self, index: Any) -> Value:
        found = self.read()
        if index is not ...:
            return found[index]
        # An array that is given up later is not the one that it holds.
        return found.copy() if is_array(found) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self.write(self.read().at[index].set(value))

    def addupdate(self, x: Any, idx: Any = ...) -> None:
        """`ref[idx] += x`; where an index comes twice, both are added."""
        self.write(self.read().at[idx].add(x))


@dataclass(frozen=True, eq=False)
class RefIndexer:
    """The parts of a place, by their index."""

    whole: RefBase

    def __getitem__(self, index: Any) -> RefView:
        return RefView(self.whole, index)


@dataclass(frozen=True, eq=False)
class RefView(RefBase):
    """A part of a place."""

    whole: RefBase
    index: Any

    def read(self) -> Value:
        return self.whole.read()[self.index]

    def write(self, value: Value) -> None:
        self.whole[self.index] = value


class Ref(RefBase):
    """An array that is read and written in place: `ref[i]`, `ref[i] = x`.

    Its shape and dtype stay. Functions get it as an argument or from around them.
    """

    __slots__ = ("__weakref__", "_back", "_born", "_value", "of")

    def __init__(self, value: Value, back: Value = None, of: Any = None) -> None:
        self._value = value
        self._born = next(_serials) if of is None else of._born
        self._back = None if back is None else Ref(back, of=self)
        self.of: Any = of  # the reference that it is the back of
        live.add(self)

    @property
    def back(self) -> Ref:
        """What goes to its backward rules and comes from them."""
        if self._back is None:
            self._back = Ref(self.zeros, of=self)
        return self._back

    @property
    def zeros(self) -> Value:
        dtype = self.dtype if dtypes.is_inexact(self.dtype) else dtypes.float32
        return Array.of(np.zeros(self.shape, dtype))

    @property
    def parts(self) -> list[Ref]:
        """Itself, and its back if it has one."""
        return [self] if self._back is None else [self, self._back]

    def read(self) -> Value:
        self._check()
        found, within = self._value, list[Frame]()
        for frame in self._frames_since():
            if self in frame.values:
                found = frame.values[self]
                break
            within.append(frame)
        if found is None:
            raise ArgumentError("this reference has been frozen: it holds nothing")
        for frame in within:
            frame.touched[self] = found
        return found

    def write(self, value: Value) -> None:
        self._check()
        for frame in self._frames_since():
            if frame.ends_trace:
                frame.written[self] = None
            elif self not in frame.values:
                continue
            frame.values[self] = value
            return
        self._value = value

    def give_up(self) -> Value:
        """What it holds at last."""
        if self._frames_since():
            raise ArgumentError(
                "a reference is frozen in the function that made it, not in one that "
                "was given it"
            )
        value, self._value = self.read(), None
        return value

    def _frames_since(self) -> list[Frame]:
        """The runs that have begun after it was made, innermost first."""
        return [f for f in reversed(_thread.frames) if f.serial > self._born]

    def _check(self) -> None:
        if self in _thread.lent:
            raise ArgumentError(
                "a function is given a reference that it also uses from around it; use "
                "one of both"
            )

    @property
    def aval(self) -> AbstractRef:
        return AbstractRef(self.read().aval)

    def __len__(self) -> int:
        return len(self.read())

    def __reduce__(self) -> Any:
        return Ref, (self.read(),)

    def __bool__(self) -> bool:
        raise ArgumentError("a reference is no bool; read it with ref[...]")

    def __repr__(self) -> str:
        return repr(self.read()).replace("Array", "Ref", 1)


#: The references that there are.
live: WeakSet[Ref] = WeakSet()


class Written(ArgumentError):
    """A function has written references from around it; under `jit`, or read them."""

    def __init__(self, transform: str, refs: Iterable[Ref]) -> None:
        super().__init__(
            f"{transform}: the function writes a reference from around it, or reads "
            f"one in a program, which {transform} gives no meaning here; pass the "
            "reference as an argument, or return the value"
        )
        self.transform, self._refs = transform, tuple(refs)
        self._depth = len(_thread.frames)

    def refs_of(self, transform: str) -> Sequence[Ref]:
        """The references that the function of this transform has written.

        Raises:
          Written: it was one within.
        """
        if self.transform != transform or self._depth != len(_thread.frames):
            raise self
        return self._refs

    def answer(self, transform: str, again: Callable[[Sequence[Ref]], Any]) -> Any:
        """What the transform makes of the function all the same.

        Args:
          again: makes (result, values) of the function that is threaded with these
            references, which get the values.
        """
        refs = self.refs_of(transform)
        result, last = again(refs)
        hold(refs, last)
        return result

    def differentiate(
        self, transform: str, again: Callable[[Callable[..., Any]], Any],
        function: Callable[..., Any], has_aux: bool,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The same of a derivative: none goes through what is written.

        Args:
          again: the transform, of a function with `has_aux`; its last result is aux.
        """

        def with_values(refs: Sequence[Ref]) -> Any:
            run = thread(function, refs, aux=has_aux)
            *results, (aux, values) = again(partial(run, read_all(refs)))
            return ((*results, aux) if has_aux else tuple(results)), values

        return self.answer(transform, with_values)


class Frame:
    """A run of a user's function.

    Args:
      transform: what traces it; "" where it is a part of the trace around it.
      given: references that the part may write, and what these hold at first.

    Attributes:
      ends_trace: references from around it must not be written when it ends.
      values: what those hold that it has written or was given.
      touched: what those from around it have held that were read.
      written: of those from around it, in their order.
    """

    def __init__(self, transform: str, given: Iterable[tuple[Ref, Value]] = ()) -> None:
        self.transform = transform
        self.ends_trace = transform != ""
        self.serial = next(_serials)
        self.values = dict(given)
        self.touched: dict[Ref, Value] = {}
        self.written: dict[Ref, None] = {}

    def __enter__(self) -> Frame:
        _thread.frames.append(self)
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        _thread.frames.pop()
        # A jaxpr is not run.
        if self.written and kind is None and self.transform != "make_jaxpr":
            raise Written(self.transform, {**self.touched, **self.written})


def running(transform: str) -> Any:
    """The block in which a transform runs a user's function."""
    return Frame(transform) if live else ExitStack()


def thread(
    function: Callable[..., Any], refs: Sequence[Ref], written: set[int] | None = None,
    aux: bool | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """(values, *args) -> (result, values), of what the references hold.

    Args:
      written: gets the positions of those that the function writes.
      aux: the function returns a pair (result, aux), or it does not: the threaded one
        returns (result, (aux, values)).
    """

    def call(values: Sequence[Value], *args: Any, **kwargs: Any) -> Any:
        with Frame("", zip(refs, values, strict=True)) as frame:
            result = function(*args, **kwargs)
        found = [frame.values[ref] for ref in refs]
        pairs = enumerate(zip(values, found, strict=True))
        if written is not None:
            written.update([i for i, (old, new) in pairs if new is not old])
        if aux is None:
            return result, found
        return (result[0], (result[1], found)) if aux else (result, (None, found))

    call.__name__ = getattr(function, "__name__", "function")
    return call


def with_parameters(
    function: Callable[..., Any],
    places: Sequence[int],
    treedef: tree.TreeDef,
    written: set[int] | None = None,
) -> Callable[..., Any]:
    """(contents, others) -> (result, contents), of a function given references.

    The contents of one are the values of its parts.

    Args:
      function: of the tuple that is the tree of leaves; it gets references of its own.
      places: of these leaves.
    """

    def run(own: Sequence[Ref], others: Sequence[Any]) -> Any:
        full = list(others)
        for i, ref in zip(places, own, strict=True):
            full.insert(i, ref)
        return function(*tree.unflatten(treedef, full))

    def call(contents: Sequence[tuple[Value, ...]], others: Sequence[Any]) -> Any:
        own = [Ref(*content) for content in contents]
        parts = [part for ref in own for part in ref.parts]
        values = [value for content in contents for value in content]
        result, last = thread(partial(run, own), parts, written)(values, others)
        if sum(len(ref.parts) for ref in own) > len(parts):
            raise BacksWanted
        rest = iter(last)
        return result, [tuple([next(rest) for _ in c]) for c in contents]

    call.__name__ = getattr(function, "__name__", "function")
    return call


def check_distinct(refs: Sequence[Ref]) -> None:
    if len({*refs}) < len(refs):
        raise ArgumentError("a function is given the same reference twice")


class BacksWanted(Exception):
    """A backward rule within is given references that a function has got."""


def lend(
    refs: Sequence[Ref],
    run: Callable[..., tuple[Any, Sequence[tuple[Value, ...]]]],
    others: Sequence[Any],
    written: set[int] | None = None,
    backs: bool = False,
) -> Any:
    """The result of (contents, *args) -> (result, contents), which the references get.

    Args:
      backs: all of them have one.

    Raises:
      ArgumentError: one is given twice, or used from around the function as well.
    """
    check_distinct(refs)
    parts = [[ref, ref.back] if backs else ref.parts for ref in refs]
    contents, found = [tuple(read_all(p)) for p in parts], None
    _thread.lent += refs
    try:
        found = run(contents, others)
    except BacksWanted:
        pass
    finally:
        del _thread.lent[len(_thread.lent) - len(refs) :]
    if found is None:
        return lend(refs, run, others, written, True)
    result, last = found
    every = [part for both in parts for part in both]
    hold(every, [value for content in last for value in content], written)
    return result


class Threaded(NamedTuple):
    """A call of a function that is given what references hold, instead of these.

    Attributes:
      run: that function.
      refs: these references.
      others: its other arguments.
      written: the numbers of those that it writes.
      lent: they are arguments; otherwise they are from around it.
    """

    run: Any
    refs: Sequence[Ref]
    others: Sequence[Any]
    written: set[int]
    lent: bool

    @property
    def arguments(self) -> tuple[Sequence[Any], Sequence[Any]]:
        if not self.lent:
            return read_all(self.refs), self.others
        return [tuple(read_all(ref.parts)) for ref in self.refs], self.others

    def __call__(self) -> Any:
        """The result, when the references have got what they hold then."""
        if self.lent:
            return lend(self.refs, self.run, self.others, self.written)
        result, last = self.run(*self.arguments)
        hold(self.refs, last, self.written)
        return result


def read_all(refs: Iterable[Ref]) -> list[Value]:
    """What they hold."""
    return [ref.read() for ref in refs]


def hold(
    refs: Iterable[Ref], values: Iterable[Value], written: set[int] | None = None
) -> None:
    """Gives each its value, or those in these places."""
    for i, (ref, value) in enumerate(zip(refs, values, strict=True)):
        if written is None or i in written:
            ref.write(value)
