"""`dataclass` and `NamedTuple`, as those of the standard library, made in less time.

    @dataclass(frozen=True)
    class Slot: …

The standard library's dataclass writes each method as a text of its own, and compiles
it: for our classes that was 22 of the 62 ms of `import ftrace`, and 65 of 163 with all
that compiles (November 2026, Python 3.11). Here a constructor is that
of another class with as many fields, renamed, and all else are functions. Who asks for
more than is written here gets the standard library's. Its NamedTuple compiles the
annotation of each field, which nobody reads.
"""

from __future__ import annotations

import collections
import dataclasses
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import cache
from operator import attrgetter
from types import CodeType, FunctionType
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
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    **more: Any,
) -> type[Any]:
    if more:
        return dataclasses.dataclass(repr=repr, eq=eq, frozen=frozen, **more)(cls)
    own = vars(cls).copy()
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # the signature would take as long as all else
    made = _BARE(cls)
    fields = dataclasses.fields(made)
    plain = all(f.init and f.hash is None and not f.kw_only for f in fields)
    assert plain, "not written here"
    methods: dict[str, Any] = {"__init__": _Constructor(made, fields, frozen)}
    if eq:
        methods["__eq__"], hashed = _equal(fields)
        methods["__hash__"] = hashed if frozen else None
    if repr:
        methods["__repr__"] = _repr
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    for name, method in methods.items():
        if own.get(name) is None:
            setattr(made, name, method)
    return made


class _Constructor:
    """In the place of `__init__` until it is asked for."""

    def __init__(self, cls: Any, fields: tuple[Field[Any], ...], frozen: bool) -> None:
        self.cls = cls
        self.fields = fields
        self.frozen = frozen

    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        made = tuple([f.default_factory is not MISSING for f in self.fields])
        code = _constructor(made, self.frozen, hasattr(self.cls, "__post_init__"))
        names = {f"a{n}": field.name for n, field in enumerate(self.fields)}

        def rename(values: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple([names.get(value, value) for value in values])

        code = code.replace(
            co_varnames=rename(code.co_varnames), co_names=rename(code.co_names),
            co_consts=rename(code.co_consts),
        )  # fmt: skip
        known: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
        known |= {f"f{n}": field.default_factory for n, field in enumerate(self.fields)}
        pairs = zip(self.fields, made, strict=True)
        given = [f.default for f, own in pairs if own or f.default is not MISSING]
        written: Any = FunctionType(code, known, "__init__", tuple(given))
        written.__qualname__ = f"{self.cls.__qualname__}.__init__"
        self.cls.__init__ = written
        return written.__get__(instance, owner)


@cache
def _constructor(made: tuple[bool, ...], frozen: bool, more: bool) -> CodeType:
    """Of fields `a0`, `a1`, …, some of which are made if they are not given."""
    lines = ["self.__post_init__()"] if more else ["pass"]
    for n, own in reversed([*enumerate(made)]):
        value = f"f{n}() if a{n} is _missing else a{n}" if own else f"a{n}"
        target = f"_set(self, 'a{n}', {value})" if frozen else f"self.a{n} = {value}"
        lines.insert(0, target)
    arguments = ", ".join(["self", *(f"a{n}" for n in range(len(made)))])
    written: dict[str, Any] = {}
    exec("\n ".join([f"def __init__({arguments}):", *lines]), written)
    return written["__init__"].__code__


def _equal(fields: tuple[Field[Any], ...]) -> tuple[Any, Any]:
    names = [field.name for field in fields if field.compare]

    def several(self: Any) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in names])

    key: Any = attrgetter(*names) if len(names) > 1 else several

    def __eq__(self: Any, other: Any) -> Any:
        return key(self) == key(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(key(self))

    return __eq__, __hash__


def _repr(self: Any) -> str:
    shown = [f for f in dataclasses.fields(self) if f.repr]
    values = ", ".join([f"{f.name}={getattr(self, f.name)!r}" for f in shown])
    return f"{type(self).__qualname__}({values})"


def _refuse(self: Any, name: str, act: str) -> None:
    """What subclasses add that are no data classes may change."""
    bare = "__dataclass_fields__" not in type(self).__dict__
    if not bare or name in self.__dataclass_fields__:
        raise FrozenInstanceError(f"cannot {act} field {name!r}")


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    _refuse(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    _refuse(self, name, "delete")
    object.__delattr__(self, name)


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
