"""What is known of a value before it exists: its shape, dtype and weakness.

ShapedArray   an array
Bundle        the several results of one operation, taken apart by `item`
Stack         as many arrays of one type as a loop turns out to push
Token         what effects pass on, so that they happen in order
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from ftrace import dtypes
from ftrace.errors import DynamicDimensionError
from ftrace.ground.fast_dataclasses import Immutable, NamedTuple
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.weak_tables import WeakValues
from ftrace.trace.backend import backend
from ftrace.trace.symbolic import is_dynamic, lower_bound

Shape = tuple[int, ...]


class ManualAxisType(NamedTuple):
    """Along which axes of devices a value differs; the other two are of JAX's."""

    varying: frozenset[Any] = frozenset()
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()


class ShapedArray(Immutable):
    """Shape and dtype of an array; interned, so that equal ones are one object.

    Make them with `ShapedArray.of(shape, dtype, weak_type)`. A weak type is that of
    a Python scalar and of what was computed from Python scalars alone.
    """

    __slots__ = ("__weakref__", "dtype", "shape", "size", "weak_type")

    shape: Shape
    dtype: np.dtype[Any]
    weak_type: bool
    size: int

    def __new__(
        cls, shape: Sequence[int], dtype: Any, weak_type: bool = False, **_: Any
    ) -> ShapedArray:
        """`of`, as JAX writes it; where an array lies is no part of its type here."""
        return ShapedArray.of(tuple(shape), dtypes.named_dtype(dtype), weak_type)

    @staticmethod
    def of(shape: Shape, dtype: np.dtype[Any], weak_type: bool = False) -> ShapedArray:
        key = (shape, dtype, weak_type)
        found = _interned.get(key)
        if found is not None:
            return found
        return _intern(key, lambda: _make(ShapedArray, dtype, shape, weak_type))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def with_shape(self, shape: Shape) -> ShapedArray:
        return ShapedArray.of(shape, self.dtype, self.weak_type)

    def with_dtype(self, dtype: np.dtype[Any], weak_type: bool = False) -> ShapedArray:
        return ShapedArray.of(self.shape, dtype, weak_type)

    def strong(self) -> ShapedArray:
        """The same without the weak type."""
        return ShapedArray.of(self.shape, self.dtype)

    @property
    def items(self) -> tuple[ShapedArray, ...]:
        """The types of the results: of itself, but for a bundle."""
        return (self,)

    # What libraries ask of a type under JAX's names.

    @property
    def mat(self) -> ManualAxisType:
        """Along which axes of devices a value differs: of what `typeof` gives."""
        return ManualAxisType()

    @property
    def manual_axis_type(self) -> ManualAxisType:
        """`mat`, in full."""
        return self.mat

    @property
    def vma(self) -> frozenset[Any]:
        """`mat.varying`, as it was called first."""
        return self.mat.varying

    @property
    def aval(self) -> ShapedArray:
        return self

    @property
    def sharding(self) -> Any:
        """Whole on each device: where an array lies is no part of its type."""
        return backend().sharding_of(self)

    def update(self, **changes: Any) -> ShapedArray:
        """The type with another shape, dtype, weak_type or sharding."""
        parts = "shape", "dtype", "weak_type"
        own: dict[str, Any] = {name: getattr(self, name) for name in parts}
        sharding = changes.pop("sharding", None)
        made = ShapedArray(**{**own, **changes})
        if sharding is None:
            return made
        return ArrayOverMesh.over(made, sharding=sharding.of_type(made.ndim))

    def strip_weak_type(self) -> ShapedArray:
        return self.strong()

    def to_tangent_aval(self) -> ShapedArray:
        """The type of a tangent; that of an integer has dtype float0."""
        inexact = dtypes.is_inexact(self.dtype)
        return self.strong() if inexact else ShapedArray.of(self.shape, dtypes.float0)

    to_cotangent_aval = to_ct_aval = at_least_vspace = to_tangent_aval

    @property
    def _dims(self) -> str:
        return ",".join(map(str, self.shape))

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        short = dtypes.SHORT.get(self.dtype) if short_dtypes else None
        return f"{short or dtypes.name_of(self.dtype)}[{self._dims}]"

    def __repr__(self) -> str:
        weak = "~" if self.weak_type else ""
        return f"{dtypes.SHORT[self.dtype]}{weak}[{self._dims}]"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return ShapedArray.of, (self.shape, self.dtype, self.weak_type)


def pairs_of(avals: Sequence[ShapedArray]) -> tuple[tuple[np.dtype[Any], bool], ...]:
    """(dtype, weak_type) of each, as `dtypes.promote` takes them.

    Beside what has axes a weak scalar gives up its 64 bits, be that weak itself.
    """
    has_axes = any(a.shape for a in avals)
    return tuple(
        [
            narrow(a.dtype)
            if has_axes and a.weak_type and not a.shape
            else (a.dtype, a.weak_type)
            for a in avals
        ]
    )


def narrow(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], bool]:
    """The dtype of a weak scalar beside an array."""
    return dtypes.default_dtype(dtypes.kind(dtype)), True


def _check_not_empty(shape: Shape) -> None:
    """Kernels count on sizes of at least 1."""
    for size in shape:
        if is_dynamic(size) and lower_bound(size) < 1:
            raise DynamicDimensionError(
                f"an axis of size {size} may be empty, in the shape {shape}: a size of "
                "at least 1 is required for all sizes of a dynamic dimension; give the "
                'dimension a range, as in ftrace.Dim("batch", min=8), that excludes it'
            )


class ArrayOverMesh(ShapedArray):
    """The type of a value over devices, for people: graphs have none of them.

    Make them with `ArrayOverMesh.over(aval, names, sharding)`.

    Attributes:
      sharding: over the axes of a mesh that are `Explicit`; of others nothing is said.
    """

    __slots__ = ("_mat", "_sharding")

    _mat: ManualAxisType
    _sharding: Any

    @staticmethod
    def over(
        aval: ShapedArray, names: frozenset[Any] = frozenset(), sharding: Any = None
    ) -> ArrayOverMesh:
        """A type; within `shard_map` with the axes along which the value differs."""

        def make() -> ArrayOverMesh:
            own = {"_mat": ManualAxisType(names), "_sharding": sharding}
            return _make(ArrayOverMesh, aval.dtype, aval.shape, aval.weak_type, **own)

        return _intern(("over a mesh", aval, names, sharding), make)

    @property
    def mat(self) -> ManualAxisType:
        return self._mat

    @property
    def sharding(self) -> Any:
        return super().sharding if self._sharding is None else self._sharding

    @property
    def _dims(self) -> str:
        rows = zip(self.shape, self.sharding.spec, strict=True)
        return ",".join([_divided_size(n, names) for n, names in rows])

    def __repr__(self) -> str:
        varying = ",".join(sorted(map(str, self.vma)))
        return super().__repr__() + (f"{{V:{varying}}}" if varying else "")

    def __reduce__(self) -> tuple[Any, ...]:
        plain = ShapedArray.of(self.shape, self.dtype, self.weak_type)
        return ArrayOverMesh.over, (plain, self.vma, self._sharding)


_TUPLE: type[Any] = tuple


def _divided_size(n: Any, names: Any) -> str:
    """An axis and what divides it: 8@x, 8@(x,y)."""
    if names is None:
        return f"{n}"
    text = f"({','.join(map(str, names))})" if isinstance(names, _TUPLE) else names
    return f"{n}@{text}"


class LargeInteger(ShapedArray):
    """The type of an integer of Python's, or a weak one of NumPy's, beyond int32.

    It is weak, but it does not fit what is narrower: an argument of this type is known
    not to. Make them with `LargeInteger.of_dtype(dtype)`.
    """

    __slots__ = ()

    @staticmethod
    def of_dtype(dtype: np.dtype[Any]) -> LargeInteger:
        key = ("large", dtype)
        return _intern(key, lambda: _make(LargeInteger, dtype, weak_type=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return LargeInteger.of_dtype, (self.dtype,)


class Bundle(ShapedArray):
    """The types of several results. To walks over a graph it looks like a scalar.

    Make them with `Bundle.of_items(avals)`.
    """

    __slots__ = ("_items",)

    _items: tuple[ShapedArray, ...]

    @staticmethod
    def of_items(avals: tuple[ShapedArray, ...]) -> Bundle:
        key = ("bundle", avals)
        return _intern(key, lambda: _make(Bundle, dtypes.uint8, _items=avals))

    @property
    def items(self) -> tuple[ShapedArray, ...]:
        return self._items

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self._items))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Bundle.of_items, (self._items,)


class Stack(ShapedArray):
    """Arrays of one type, whose number is known at run time only.

    Make them with `Stack.of_element(aval)`. A stack is written by one loop and read by
    others of the same graph; it is never an argument or a result of a program.

    Attributes:
      element: the type of what is pushed.
      lanes: () for one stack; else so many independent ones, in an array.
    """

    __slots__ = ("element", "lanes")

    element: ShapedArray
    lanes: Shape

    @staticmethod
    def of_element(aval: ShapedArray, lanes: Shape = ()) -> Stack:
        key = ("stack", aval, lanes)
        return _intern(key, lambda: _make(Stack, aval.dtype, element=aval, lanes=lanes))

    def __repr__(self) -> str:
        several = f"{list(self.lanes)}" if self.lanes else ""
        return f"stack{several} of {self.element!r}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Stack.of_element, (self.element, self.lanes)


class Token(ShapedArray):
    """The type of `TOKEN`: a byte without meaning that puts effects in order."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "token"

    def __reduce__(self) -> str:
        return "TOKEN"


_Kind = TypeVar("_Kind", bound=ShapedArray)


def _make(
    kind: type[_Kind],
    dtype: np.dtype[Any],
    shape: Shape = (),
    weak_type: bool = False,
    **own: Any,
) -> _Kind:
    """A type; `own` are the attributes that its kind alone has."""
    made = object.__new__(kind)
    made.shape, made.dtype, made.weak_type = shape, dtype, weak_type
    made.size = prod(shape)
    if is_dynamic(made.size):
        _check_not_empty(shape)
    for name, value in own.items():
        setattr(made, name, value)
    return made


def _intern(key: Any, make: Callable[[], _Kind]) -> _Kind:
    """The one type of a key."""
    found: Any = _interned.get(key)
    if found is None:
        with _lock:
            found = _interned.get(key) or _interned.put(key, make())
    return found


_interned: WeakValues[Any, ShapedArray] = WeakValues()
_lock = fresh_after_fork(threading.Lock())

#: The types of Python's numbers stay: they are asked for again and again.
_OF_NUMBERS = [
    ShapedArray.of((), np.dtype(name), name != "bool")
    for name in ("bool", "i4", "i8", "f4", "f8", "c8", "c16")
]

#: Each effect takes the token of the effect before it and gives a new one.
TOKEN = _make(Token, dtypes.uint8)
#: The value of a token under which effects do not happen: for who wants the values of
#: a part of a graph that runs again, or runs later (`trace/effects.py`).
REHEARSAL = 1
