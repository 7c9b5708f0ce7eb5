"""References: cells that are written in place, and functions that write them.

A function may write a `Ref` that was there before it. What it writes is traced, and
must not stay behind when its trace has ended: the trace takes what the reference holds
as one more argument, and returns what it holds at last.

    Frame     a run of a user's function: keeps what is written in it
    Written   raised where it ends, if that was a reference from around it
    threaded  the function with these references as an argument and a result

A transform that catches `Written` traces the function again, threaded; one that does
not has no meaning for it, and the exception says so to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import count
from threading import local
from typing import Any
from weakref import WeakSet

from ftrace.errors import ArgumentError
from ftrace.trace.arrays.array import is_array
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


class Ref:
    """An array that is read and written in place: `ref[i]`, `ref[i] = x`.

    Its shape and dtype stay. Functions get it as an argument or from around them.
    """

    __slots__ = ("__weakref__", "_born", "_value")

    def __init__(self, value: Value) -> None:
        self._value = value
        self._born = next(_serials)
        live.add(self)

    def read(self) -> Value:
        """What it holds."""
        found = self._value
        self._check()
        for frame in self._frames_since():
            if self in frame.values:
                found = frame.values[self]
                break
            if frame.ends_trace:
                frame.touched[self] = None
        if found is None:
            raise ArgumentError("this reference has been frozen: it holds nothing")
        return found

    def write(self, value: Value) -> None:
        """Gives it another array of its shape and dtype."""
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

    @property
    def aval(self) -> AbstractRef:
        return AbstractRef(self.read().aval)

    def __len__(self) -> int:
        return len(self.read())

    def __reduce__(self) -> Any:
        return Ref, (self.read(),)

    def __getitem__(self, index: Any) -> Value:
        found = self.read()
        if index is not ...:
            return found[index]
        # An array that is given up later is not the one that it holds.
        return found.copy() if is_array(found) else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self.write(self.read().at[index].set(value))

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
        self.transform, self.refs = transform, tuple(refs)
        self.depth = len(_thread.frames)


class Frame:
    """A run of a user's function.

    Args:
      transform: what traces it; "" where it is a part of the trace around it.
      given: references that the part may write, and what these hold at first.

    Attributes:
      ends_trace: references from around it must not be written when it ends.
      values: what those hold that it has written or was given.
      touched, written: of those from around it, in their order.
    """

    def __init__(self, transform: str, given: Iterable[tuple[Ref, Value]] = ()) -> None:
        self.transform = transform
        self.ends_trace = transform != ""
        self.serial = next(_serials)
        self.values = dict(given)
        self.touched: dict[Ref, None] = {}
        self.written: dict[Ref, None] = {}

    def __enter__(self) -> Frame:
        _thread.frames.append(self)
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        _thread.frames.pop()
        # A program is used again, when they hold something else.
        found = self.written
        if self.transform == "jit":
            found = {**self.touched, **self.written}
        if found and kind is None:
            raise Written(self.transform, found)


def running(transform: str) -> Any:
    """The block in which a transform runs a user's function."""
    return Frame(transform) if live else ExitStack()


def threaded(
    function: Callable[..., Any], refs: Sequence[Ref], written: set[int] | None = None
) -> Callable[..., Any]:
    """(values, *args) -> (result, values), of what the references hold.

    Args:
      written: gets the positions of those that the function writes.
    """

    def call(values: Sequence[Value], *args: Any, **kwargs: Any) -> Any:
        with Frame("", zip(refs, values, strict=True)) as frame:
            result = function(*args, **kwargs)
        found = [frame.values[ref] for ref in refs]
        pairs = enumerate(zip(values, found, strict=True))
        if written is not None:
            written.update([i for i, (old, new) in pairs if new is not old])
        return result, found

    call.__name__ = getattr(function, "__name__", "function")
    return call


def with_parameters(
    function: Callable[..., Any],
    places: Sequence[int],
    treedef: tree.TreeDef,
    written: set[int] | None = None,
) -> Callable[..., Any]:
    """(values, others) -> (result, values), of a function that is given references.

    Args:
      function: of the tuple that is the tree of leaves; it gets references of its own.
      places: of these leaves.
    """

    def run(own: Sequence[Ref], others: Sequence[Any]) -> Any:
        full = list(others)
        for i, ref in zip(places, own, strict=True):
            full.insert(i, ref)
        return function(*tree.unflatten(treedef, full))

    def call(values: Sequence[Value], others: Sequence[Any]) -> Any:
        own = [Ref(value) for value in values]
        return threaded(partial(run, own), own, written)(values, others)

    call.__name__ = getattr(function, "__name__", "function")
    return call


def lend(
    refs: Sequence[Ref],
    run: Callable[..., tuple[Any, Sequence[Value]]],
    others: Sequence[Any],
    written: set[int] | None = None,
) -> Any:
    """The result of (values, *args) -> (result, values), which the references get.

    Raises:
      ArgumentError: one is given twice, or used from around the function as well.
    """
    if len({*refs}) < len(refs):
        raise ArgumentError("a function is given the same reference twice")
    values = held(refs)
    _thread.lent += refs
    try:
        result, last = run(values, others)
    finally:
        del _thread.lent[len(_thread.lent) - len(refs) :]
    hold(refs, last, written)
    return result


def held(refs: Iterable[Ref]) -> list[Value]:
    """What they hold."""
    return [ref.read() for ref in refs]


def hold(
    refs: Iterable[Ref], values: Iterable[Value], written: set[int] | None = None
) -> None:
    """Gives each its value, or those in these places."""
    for i, (ref, value) in enumerate(zip(refs, values, strict=True)):
        if written is None or i in written:
            ref.write(value)


def of_transform(found: Written, transform: str) -> Sequence[Ref]:
    """The references that the function of this transform has written.

    Raises:
      Written: it was one within.
    """
    if found.transform != transform or found.depth != len(_thread.frames):
        raise found
    return found.refs


def differentiated_beside(
    transform: Callable[[Callable[..., Any]], Sequence[Any]],
    function: Callable[..., Any],
    refs: Sequence[Ref],
    has_aux: bool,
) -> tuple[Any, ...]:
    """What a transform makes of a function that writes references.

    No derivative goes through what is written in them.

    Args:
      transform: of a function with `has_aux`; its last result is aux.
    """
    before, run = held(refs), threaded(function, refs)

    def with_values(*args: Any, **kwargs: Any) -> Any:
        result, values = run(before, *args, **kwargs)
        result, aux = result if has_aux else (result, None)
        return result, (aux, values)

    with_values.__name__ = run.__name__
    *results, (aux, values) = transform(with_values)
    hold(refs, values)
    return (*results, aux) if has_aux else tuple(results)
