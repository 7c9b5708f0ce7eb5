"""Data types by name, questions about them, and to which of them operands promote."""

from __future__ import annotations

from types import ModuleType
from typing import Any, cast as cast_to

import ml_dtypes
import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.numpy import axes as ax
from ftrace.numpy.creation import array
from ftrace.numpy.shape import shape
from ftrace.trace.avals import ShapedArray
from ftrace.trace.backend import backend
from ftrace.trace.eager.function_objects import Eager
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.tracing import tracer

__all__ = [
    "bfloat16", "bool_", "can_cast", "cdouble", "character", "complex128", "complex64",
    "complexfloating", "csingle", "double", "dtype", "finfo", "flexible", "float16",
    "float32", "float64", "floating", "generic", "iinfo", "inexact", "int16", "int32",
    "int64", "int8", "integer", "iscomplexobj", "isdtype", "isrealobj", "isscalar",
    "issubdtype", "number", "promote_types", "result_type", "signedinteger", "single",
    "uint16", "uint32", "uint64", "uint8", "unsignedinteger",
]  # fmt: skip

# The dtypes by name: `float32` is a dtype, and `float32(x)` makes an array of it.


#: `array`, whose calls can become native.
_array = Eager(array, (), __name__)


class ScalarType(type):
    """The class of dtypes with a name; called, one converts to an array of its dtype.

    It equals the class of NumPy's scalars, and has its hash, as in JAX; it also equals
    the dtype.

    Attributes:
      dtype: the NumPy dtype, which NumPy reads from here.
    """

    dtype: np.dtype[Any]

    def __call__(self, x: Any = 0) -> Any:
        return _array(x, self.dtype)

    def __eq__(self, other: Any) -> bool:
        if self is other or other is self.dtype.type:
            return True
        return isinstance(other, _DTYPE) and self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.dtype.type)

    @property
    def name(self) -> str:
        return str(self.dtype)

    def __repr__(self) -> str:
        return f"ftrace.numpy.{self.dtype}"


#: Any: of its parameter nothing is known here.
_DTYPE: type[Any] = np.dtype


def _scalar_type(name: str, dtype: np.dtype[Any]) -> ScalarType:
    return ScalarType(name, (), {"dtype": dtype, "__module__": "ftrace.numpy"})


bool_ = _scalar_type("bool_", dtypes.bool_)
int8 = _scalar_type("int8", dtypes.int8)
int16 = _scalar_type("int16", dtypes.int16)
int32 = _scalar_type("int32", dtypes.int32)
int64 = _scalar_type("int64", dtypes.int64)
uint8 = _scalar_type("uint8", dtypes.uint8)
uint16 = _scalar_type("uint16", dtypes.uint16)
uint32 = _scalar_type("uint32", dtypes.uint32)
uint64 = _scalar_type("uint64", dtypes.uint64)
float16 = _scalar_type("float16", dtypes.float16)
bfloat16 = _scalar_type("bfloat16", dtypes.bfloat16)
float32 = _scalar_type("float32", dtypes.float32)
float64 = _scalar_type("float64", dtypes.float64)
complex64 = _scalar_type("complex64", dtypes.complex64)
complex128 = _scalar_type("complex128", dtypes.complex128)

#: Those of few bits, of which there are no arrays.
NARROW = {name: _scalar_type(name, dtype) for name, dtype in dtypes.NARROW.items()}

single, double = float32, float64
csingle, cdouble = complex64, complex128


# Questions about dtypes, as NumPy and JAX ask them.

dtype = np.dtype
generic = np.generic
number = np.number
inexact = np.inexact
floating = np.floating
complexfloating = np.complexfloating
integer = np.integer
signedinteger = np.signedinteger
unsignedinteger = np.unsignedinteger
flexible = np.flexible
character = np.character

#: The categories of `isdtype`, as the kinds of dtype that belong to them.
_CATEGORIES = {
    "bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu",
    "real floating": "f", "complex floating": "c", "numeric": "iufc",
}  # fmt: skip

_CLASSES = {
    "f": (floating, inexact, number, generic),
    "i": (signedinteger, integer, number, generic),
    "u": (unsignedinteger, integer, number, generic),
    "k": (dtypes.prng_key, dtypes.extended, generic),
    "V": (np.void, flexible, generic),
}
_ABSTRACT = (
    floating, inexact, number, generic, complexfloating, integer, signedinteger,
    unsignedinteger, flexible, character,
)  # fmt: skip


def finfo(dtype: Any) -> Any:
    """The limits of a float dtype: eps, max, min, tiny, bits and more.

    Args:
      dtype: a float or complex dtype.

    Returns:
      NumPy's `finfo`; of bfloat16 and floats of few bits one with the same attributes.

    Raises:
      DtypeError: the dtype is another one.

    Example:
      >>> fnp.finfo(fnp.float32).bits, fnp.finfo(fnp.bfloat16).bits
      (32, 16)
    """
    found = dtypes.named_dtype(dtype)
    if not dtypes.is_inexact(found):
        other = "; use iinfo" if dtypes.is_integer(found) else ""
        raise errors.DtypeError(
            f"finfo takes a float or complex dtype, got {found}{other}"
        )
    return _module_of(found).finfo(found)


def iinfo(int_type: Any) -> Any:
    """The limits of an integer dtype: max, min, bits.

    Args:
      int_type: an integer dtype.

    Returns:
      NumPy's `iinfo`, or one with the same attributes.

    Raises:
      DtypeError: the dtype is another one.

    Example:
      >>> fnp.iinfo(fnp.int32).max
      2147483647
    """
    found = dtypes.named_dtype(int_type)
    if not dtypes.is_integer(found):
        other = "; use finfo" if dtypes.is_inexact(found) else ""
        raise errors.DtypeError(f"iinfo takes an integer dtype, got {found}{other}")
    return _module_of(found).iinfo(found)


def _module_of(dtype: np.dtype[Any]) -> Any:
    return np if dtype.isbuiltin == 1 else ml_dtypes


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Is the first dtype the second, or below it in NumPy's hierarchy?

    Args:
      arg1, arg2: dtypes, or abstract ones such as `floating` and `integer`.

    Returns:
      A Python bool.

    Example:
      >>> fnp.issubdtype(fnp.bfloat16, fnp.floating)
      True
      >>> fnp.issubdtype(fnp.int32, fnp.floating)
      False
    """
    first, second = _as_type(arg1), _as_type(arg2)
    if isinstance(first, _DTYPE) and first.isbuiltin != 1:  # NumPy does not know it
        of_kind = _CLASSES[dtypes.kind(first)]
        return second == first or any(second is c for c in of_kind)
    return bool(np.issubdtype(first, second))


def _as_type(kind: Any) -> Any:
    """A dtype, or one of NumPy's abstract classes."""
    if any(kind is abstract for abstract in _ABSTRACT):
        return kind
    if isinstance(kind, type) and issubclass(
        cast_to("type[Any]", kind), dtypes.extended
    ):
        return cast_to(Any, kind)
    if any(kind is python for python in (bool, int, float, complex, object)):
        return np.dtype(kind)
    return dtypes.named_dtype(kind)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Is it of this kind: a dtype, "bool", "integral", "real floating", …, a tuple?

    Args:
      dtype: a dtype.
      kind: a dtype, or "bool", "signed integer", "unsigned integer", "integral",
        "real floating", "complex floating" or "numeric"; or a tuple: one of them.

    Returns:
      A Python bool.

    Raises:
      ValueRangeError: there is no kind of that name.

    Example:
      >>> fnp.isdtype(fnp.int32, "integral")
      True
      >>> fnp.isdtype(fnp.bool_, ("numeric", fnp.float32))
      False
    """
    found = dtypes.named_dtype(dtype)
    letter = dtypes.kind(found)

    def fits(one: Any) -> bool:
        if not isinstance(one, str):
            return dtypes.named_dtype(one) == found
        errors.one_of("isdtype: kind", one, _CATEGORIES)
        return letter in _CATEGORIES[one]

    return True in [fits(one) for one in (kind if ax.is_sequence(kind) else (kind,))]


def type_like(a: Any) -> ShapedArray:
    """The type of an array, of what has a shape and a dtype, of what makes an array."""
    typed = tracer.is_value(a) or (hasattr(a, "shape") and hasattr(a, "dtype"))
    return type_of(a if typed else array(a))


def _type_of(x: Any) -> tuple[np.dtype[Any], bool]:
    named = isinstance(x, (_DTYPE, type))  # a dtype has a shape, too
    if not named and (tracer.is_value(x) or hasattr(x, "shape")):
        aval = type_like(x)
        return aval.dtype, aval.weak_type
    # A dtype equals the type of Python that it is made of.
    return dtypes.as_dtype(x), any(x is kind for kind in (int, float, complex))


def result_type(*args: Any) -> np.dtype[Any]:
    """The dtype to which arrays, numbers and dtypes promote together.

    Args:
      *args: arrays, numbers or dtypes. Python's numbers take the dtype of the arrays
        beside them.

    Returns:
      A NumPy dtype; unlike in NumPy, int32 and float32 make float32.

    Raises:
      ArgumentError: nothing is given.

    Example:
      >>> fnp.result_type(fnp.int32, fnp.float32)
      dtype('float32')
      >>> fnp.result_type(fnp.array([1], dtype=fnp.float16), 2.0)
      dtype('float16')
    """
    return promoted_type(*args)[0]


def promoted_type(*args: Any) -> tuple[np.dtype[Any], bool]:
    """`result_type`, and whether it is weak."""
    if not args:
        raise errors.ArgumentError(
            "result_type takes at least one array, number or dtype"
        )
    dtype, weak = dtypes.promote(*map(_type_of, args))
    return dtypes.canonicalize(dtype), weak


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """The least dtype to which both can be promoted.

    Without 64 bits one of them may be of 64 all the same; of two others none is made.

    Args:
      a, b: dtypes.

    Returns:
      A NumPy dtype.

    Example:
      >>> fnp.promote_types(fnp.float16, fnp.bfloat16)
      dtype('float32')
    """
    mode = settings.current().enable_x64
    with settings.config(enable_x64=None if mode is None else True):
        found, given = result_type(a, b), [_type_of(x)[0] for x in (a, b)]
    given_wide = any(d in dtypes.OF_32_BITS for d in given)
    return found if mode is not False or given_wide else dtypes.canonicalize(found)


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """May values of one dtype be converted to another under NumPy's casting rule?

    Args:
      from_: a dtype, an array or a number.
      to: a dtype.
      casting: "no", "equiv", "safe", "same_kind" or "unsafe".

    Returns:
      A Python bool.

    Example:
      >>> fnp.can_cast(fnp.int32, fnp.int64), fnp.can_cast(fnp.float32, fnp.int32)
      (True, False)
    """
    source = _type_of(from_)[0]
    return bool(np.can_cast(source, dtypes.as_dtype(to), casting))


def iscomplexobj(x: Any) -> bool:
    """Is its dtype complex?

    Args:
      x: an array, a number, nested lists of numbers, or a dtype.

    Returns:
      A Python bool, known while tracing too.

    Example:
      >>> fnp.iscomplexobj(fnp.array([1j])), fnp.iscomplexobj(1.0)
      (True, False)
    """
    if x is None:
        return False
    is_dtype = isinstance(x, (np.dtype, type))
    return dtypes.is_complex(dtypes.as_dtype(x) if is_dtype else type_like(x).dtype)


def isrealobj(x: Any) -> bool:
    """Is its dtype not complex?

    Args:
      x: an array, a number, nested lists of numbers, or a dtype.

    Returns:
      A Python bool, known while tracing too.

    Example:
      >>> fnp.isrealobj(fnp.array([1j])), fnp.isrealobj(1.0)
      (False, True)
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Is it a number, or an array without axes?

    Args:
      element: anything.

    Returns:
      A Python bool, known while tracing too.

    Example:
      >>> [fnp.isscalar(x) for x in (1.5, fnp.array(1.5), fnp.array([1.5]))]
      [True, True, False]
    """
    if isinstance(element, np.ndarray) or tracer.is_value(element):
        return not shape(element)
    return bool(np.isscalar(element))


# What the array API standard asks of a namespace beside its functions.
#
#     xp = x.__array_namespace__()
#     xp.__array_namespace_info__().default_dtypes()
#
# Source: data-apis.org/array-api, version 2024.12. Differences: docs/array-api.md.

#: The versions that a program may ask for; the last one contains the others.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

#: The dtypes of the standard; there are others, such as bfloat16.
_STANDARD = {
    dtypes.name_of(dtype): dtype
    for dtype in dtypes.ALL
    if dtype not in (dtypes.float16, dtypes.bfloat16)
}


class NamespaceInfo:
    """What this namespace can do; its methods answer.

    In JAX's modes, with `jax_enable_x64` on or off, the answers are those of the mode.
    """

    def capabilities(self) -> dict[str, Any]:
        """Masks index arrays, sizes may depend on values; both outside of `jit`."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": 64,  # as of NumPy's arrays
        }

    def devices(self) -> list[Any]:
        """The devices that arrays can be made on: those of `ftrace.devices()`."""
        return backend().devices()

    def default_device(self) -> Any:
        """The device of arrays that are made without one."""
        return self.devices()[0]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays that are made without one, by kind."""
        integer = dtypes.default_dtype("i")
        return {
            "real floating": dtypes.default_dtype("f"),
            "complex floating": dtypes.default_dtype("c"),
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(
        self, *, device: Any = None, kind: Any = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes, of one kind or of several: see `isdtype`."""
        narrow = settings.current().enable_x64 is False
        return {
            name: dtype
            for name, dtype in _STANDARD.items()
            if not (narrow and dtypes.canonicalize(dtype) != dtype)
            and (kind is None or isdtype(dtype, kind))
        }


def array_namespace(own: ModuleType, *, api_version: str | None = None) -> ModuleType:
    """`ftrace.numpy` itself, which `x.__array_namespace__()` gives.

    Raises:
      ValueRangeError: it does not follow that version of the standard.
    """
    if api_version is not None:
        errors.one_of("__array_namespace__: api_version", api_version, API_VERSIONS)
    return own
