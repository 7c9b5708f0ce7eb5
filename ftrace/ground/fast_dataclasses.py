"""`dataclass` and `NamedTuple`, as those of the standard library, made in less time.

    @dataclass(frozen=True)
    class Slot: …

The standard library's dataclass writes each method as a text of its own, and compiles
it: for our classes that was 22 of the 62 ms of `import ftrace`, and 65 of 163 with all
that compiles (November 2026, Python 3.11). Here one text has all of them, compiled when
one is called first, and what needs no text is a function.
Who asks for more than is written here gets the standard library's. Its NamedTuple
compiles the annotation of each field, which nobody reads.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from typing import TYPE_CHECKING, Any, TypeVar

from ftrace.errors import ArgumentError

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from typing import NamedTuple as NamedTuple
else:

    def dataclass(cls=None, /, **options):
        """See `dataclasses.dataclass`."""
        if cls is None:
            return lambda found: _make(found, **options)
        return _make(cls, **options)

    class _Named(type):
        """Puts a class of tuples in the place of the class that is written."""

        def __new__(cls, name, bases, body):
            assert bases == (NamedTuple,), "a named tuple has no other base"
            return _tuple_class(name, body)

    #: A class of which only the name is used: see `typing.NamedTuple`.
    NamedTuple = type.__new__(_Named, "NamedTuple", (), {})


class Immutable:
    """A copy of it, also a deep one, is itself."""

    __slots__ = ()

    def __copy__(self: T) -> T:
        return self

    def __deepcopy__(self: T, memo: Any) -> T:
        return self


class Keyed(Immutable):
    """It equals others of its class by what is its key."""

    __slots__ = ()

    @property
    def _key(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class OfProcess(Immutable):
    """What belongs to this process: it is not pickled."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise ArgumentError(
            f"{type(self).__name__} belongs to the process that made it and cannot be "
            "pickled; pickle the function, and trace it where it is needed"
        )


#: What makes a class without a method.
_BARE = dataclasses.dataclass(init=False, repr=False, eq=False)


def _make(
    cls: type[Any],
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    **more: Any,
) -> type[Any]:
    if more or not init:
        options = {"init": init, "repr": repr, "eq": eq, "frozen": frozen, **more}
        return dataclasses.dataclass(**options)(cls)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # the signature would take as long as all else
    made = _BARE(cls)
    fields = dataclasses.fields(made)
    assert not any(field.kw_only for field in fields), "not written here"
    own: dict[str, Any] = {}
    late = ["__init__"]
    explicit = "__hash__" in cls.__dict__ and cls.__dict__["__hash__"] is not None
    if eq:
        late.append("__eq__")
        if frozen and not explicit:
            late.append("__hash__")
        elif not explicit:
            own["__hash__"] = None

    def write() -> dict[str, Any]:
        names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
        texts = [_init_text(fields, frozen, hasattr(cls, "__post_init__"), names)]
        texts += [_eq_text(fields), _hash_text(fields)][: len(late) - 1]
        written: dict[str, Any] = {}
        exec("\n".join(texts), names, written)
        for name, method in written.items():
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            if type(cls.__dict__[name]) is _Late:
                setattr(made, name, method)
        return written

    own |= {name: _Late(name, write) for name in late}
    if repr:
        own["__repr__"] = _repr
    if frozen:
        own["__setattr__"], own["__delattr__"] = _make_frozen(made, fields)
    for name, method in own.items():
        if name == "__hash__" or name not in cls.__dict__:
            setattr(made, name, method)
    return made


class _Late:
    """In the place of a method until it is asked for; then all of a class are there."""

    def __init__(self, name: str, write: Callable[[], dict[str, Any]]) -> None:
        self.name = name
        self.write = write

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        return self.write()[self.name].__get__(instance, owner)


def _init_text(
    fields: tuple[Field[Any], ...], frozen: bool, more: bool, names: dict[str, Any]
) -> str:
    """The constructor; defaults stand among `names`."""
    arguments, lines = ["self"], list[str]()
    for number, field in enumerate(fields):
        value, name = field.name, field.name
        if field.default_factory is not MISSING:
            names[f"_make{number}"] = field.default_factory
            value = f"_make{number}()"
            if field.init:
                arguments.append(f"{name}=_missing")
                value = f"{value} if {name} is _missing else {name}"
        elif not field.init:
            continue  # set later, or found in the class
        elif field.default is not MISSING:
            names[f"_default{number}"] = field.default
            arguments.append(f"{name}=_default{number}")
        else:
            arguments.append(name)
        if frozen:
            lines.append(f"_set(self, {name!r}, {value})")
        else:
            lines.append(f"self.{name} = {value}")
    if more:
        lines.append("self.__post_init__()")
    body = "\n ".join(lines or ["pass"])
    return f"def __init__({', '.join(arguments)}):\n {body}"


def _tuple_of(owner: str, fields: list[Field[Any]]) -> str:
    return f"({''.join(f'{owner}.{field.name},' for field in fields)})"


def _eq_text(fields: tuple[Field[Any], ...]) -> str:
    compared = [field for field in fields if field.compare]
    return (
        "def __eq__(self, other):\n"
        " if other.__class__ is self.__class__:\n"
        f"  return {_tuple_of('self', compared)} == {_tuple_of('other', compared)}\n"
        " return NotImplemented"
    )


def _hash_text(fields: tuple[Field[Any], ...]) -> str:
    hashed = [f for f in fields if (f.compare if f.hash is None else f.hash)]
    return f"def __hash__(self):\n return hash({_tuple_of('self', hashed)})"


def _repr(self: Any) -> str:
    shown = [f for f in dataclasses.fields(self) if f.repr]
    values = ", ".join([f"{f.name}={getattr(self, f.name)!r}" for f in shown])
    return f"{type(self).__qualname__}({values})"


def _make_frozen(
    cls: type[Any], fields: tuple[Field[Any], ...]
) -> tuple[Callable[..., None], Callable[..., None]]:
    """What refuses to assign to fields and to delete them."""
    kept = {field.name for field in fields}

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in kept:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in kept:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


#: Of the body of a class, what the class of tuples has already.
_OWN = frozenset(("__annotations__", "__module__", "__qualname__", "__slots__"))
_namedtuple: Any = collections.namedtuple


def _tuple_class(name: str, body: dict[str, Any]) -> type[Any]:
    # From Python 3.14 on they come later, where the file does not ask for texts.
    assert "__annotate_func__" not in body, "from __future__ import annotations"
    annotations: dict[str, Any] = body.get("__annotations__", {})
    defaults = [body[field] for field in annotations if field in body]
    made: Any = _namedtuple(
        name, annotations, defaults=defaults, module=body["__module__"]
    )
    first = len(annotations) - len(defaults)
    assert all(field in body for field in [*annotations][first:]), "defaults are last"
    made.__annotations__ = annotations
    for key, value in body.items():
        if key not in _OWN and key not in annotations:
            setattr(made, key, value)
    return made
