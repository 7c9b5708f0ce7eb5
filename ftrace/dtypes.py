r"""Dtypes, and how they combine: JAX's promotion lattice with weak Python scalars.

All dtypes are `numpy.dtype` objects; bfloat16 comes from ml_dtypes. A *weak* type is
that of a Python scalar: it takes the dtype of what it meets.

The lattice (source: the JAX documentation, "Type promotion semantics"):

    bool -> i* -> u8 -> u16 -> u32 -> u64 -> f* -> bf16 -> f32 -> f64 -> c128
             \-> i8 -> i16 -> i32 -> i64 /    \-> f16 /       \-> c64 /

Below them nothing joins dtypes of few bits: i* -> int4, f* -> float8_e5m2 and the like.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any, Final

import ml_dtypes
import numpy as np

from ftrace import errors
from ftrace.ground import settings
from ftrace.ground.missing_names import tell_missing

bool_: Final = np.dtype(np.bool_)
int8: Final = np.dtype(np.int8)
int16: Final = np.dtype(np.int16)
int32: Final = np.dtype(np.int32)
int64: Final = np.dtype(np.int64)
uint8: Final = np.dtype(np.uint8)
uint16: Final = np.dtype(np.uint16)
uint32: Final = np.dtype(np.uint32)
uint64: Final = np.dtype(np.uint64)
float16: Final = np.dtype(np.float16)
bfloat16: Final = np.dtype(ml_dtypes.bfloat16)
float32: Final = np.dtype(np.float32)
float64: Final = np.dtype(np.float64)
complex64: Final = np.dtype(np.complex64)
complex128: Final = np.dtype(np.complex128)
#: The dtype of derivatives with respect to integers: it holds no bits.
float0: Final = np.dtype([("float0", np.void, 0)])


class extended(np.void):
    """The class of dtypes that are no numbers: `issubdtype(dtype, extended)`."""


class prng_key(extended):
    """The class of the dtypes of random keys."""


def _key_type(name: str, words: int) -> np.dtype[Any]:
    return np.dtype((prng_key, [(name, np.uint32, (words,))]))


#: The dtypes of random keys, by generator: elements that are moved and compared, and
#: have no arithmetic. Each holds the words of one key.
KEYS: Final = {
    "threefry2x32": _key_type("key<fry>", 2),
    "rbg": _key_type("key<rbg>", 4),
    "unsafe_rbg": _key_type("key<urbg>", 4),
}

SIGNED: Final = (int8, int16, int32, int64)
UNSIGNED: Final = (uint8, uint16, uint32, uint64)
INTEGER: Final = SIGNED + UNSIGNED
FLOAT: Final = (float16, bfloat16, float32, float64)
COMPLEX: Final = (complex64, complex128)
ALL: Final = (bool_, *INTEGER, *FLOAT, *COMPLEX)

#: Dtypes of few bits, by name: elements have a byte each, are moved, and computed with
#: in the dtype that `widen` tells. Which of them there are depends on ml_dtypes.
NARROW: Final = {
    name: np.dtype(vars(ml_dtypes)[name])
    for name in (
        "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4", "float8_e4m3",
        "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
        "float8_e5m2fnuz", "float8_e8m0fnu", "int1", "int2", "int4", "uint1", "uint2",
        "uint4",
    )
    if name in vars(ml_dtypes)
}  # fmt: skip

SHORT: Final = {
    bool_: "bool", int8: "i8", int16: "i16", int32: "i32", int64: "i64",
    uint8: "u8", uint16: "u16", uint32: "u32", uint64: "u64",
    float16: "f16", bfloat16: "bf16", float32: "f32", float64: "f64",
    complex64: "c64", complex128: "c128", float0: "float0",
    **{dtype: (dtype.names or ("",))[0] for dtype in KEYS.values()},
    **{d: n.replace("uint", "u").replace("int", "i").replace("float", "f")
       for n, d in NARROW.items()},
}  # fmt: skip

_KIND: Final = (
    {bool_: "b", float0: "V"}
    | dict.fromkeys(KEYS.values(), "k")
    | {dtype: name[0] for name, dtype in NARROW.items()}  # float…, int…, uint…
    | dict.fromkeys(SIGNED, "i")
    | dict.fromkeys(UNSIGNED, "u")
    | dict.fromkeys(FLOAT, "f")
    | dict.fromkeys(COMPLEX, "c")
)

# The lattice's edges; "i*", "f*" and "c*" are the weak Python scalars.
_Point = np.dtype[Any] | str
_EDGES: Final[dict[_Point, tuple[_Point, ...]]] = {
    bool_: ("i*",),
    "i*": (uint8, int8, *[d for n, d in NARROW.items() if n[0] in "iu"]),
    uint8: (int16, uint16), uint16: (int32, uint32), uint32: (int64, uint64),
    uint64: ("f*",),
    int8: (int16,), int16: (int32,), int32: (int64,), int64: ("f*",),
    "f*": (bfloat16, float16, "c*", *[d for n, d in NARROW.items() if n[0] == "f"]),
    **dict.fromkeys(NARROW.values(), ()),
    bfloat16: (float32,), float16: (float32,),
    float32: (float64, complex64), float64: (complex128,),
    "c*": (complex64,), complex64: (complex128,), complex128: (),
}  # fmt: skip


def _upper_bounds(point: _Point) -> set[_Point]:
    return {point}.union(*map(_upper_bounds, _EDGES[point]))


_ABOVE: Final = {point: _upper_bounds(point) for point in _EDGES}
_WEAK_POINT: Final = {"b": bool_, "i": "i*", "u": "i*", "f": "f*", "c": "c*"}


@cache  # NumPy takes tens of microseconds
def name_of(dtype: np.dtype[Any]) -> str:
    """`str(dtype)`: NumPy's name of a dtype; `key<fry>` of one of keys."""
    return SHORT[dtype] if is_key(dtype) else str(dtype)


@cache
def kind(dtype: np.dtype[Any]) -> str:
    """'b' bool, 'i' signed, 'u' unsigned, 'f' float, 'c' complex, 'k' a key.

    'V' is float0.
    """
    found = _KIND.get(dtype)
    if found is None:
        names = ", ".join(map(str, ALL))
        raise errors.DtypeError(
            f"dtype {dtype} is not supported; the dtypes are {names}. "
            + _instead_of(dtype)
        )
    return found


def _instead_of(dtype: Any) -> str:
    """What to write where somebody has a dtype that is not ours."""
    if dtype.newbyteorder("=") in _KIND:
        return f"Its bytes are in another order: convert with .astype({dtype.name!r})"
    if dtype.kind == "O":
        return (
            "Objects are no numbers: convert with .astype(float), or to another dtype"
        )
    return "Convert with .astype to one of them"


def is_float(dtype: np.dtype[Any]) -> bool:
    """Is the dtype one of floats?"""
    return kind(dtype) == "f"


def summing_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """In which dtype elements of one are added: float32 those of 16-bit floats."""
    return float32 if is_half(dtype) else dtype


def is_half(dtype: np.dtype[Any]) -> bool:
    """Is the dtype one of floats of 16 bits, which are stored so and computed in 32?"""
    return dtype in (float16, bfloat16)


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Is the dtype float or complex? These have derivatives."""
    return kind(dtype) in "fc"


def is_complex(dtype: np.dtype[Any]) -> bool:
    """Is the dtype complex?"""
    return kind(dtype) == "c"


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Is the dtype a signed or unsigned integer? bool is neither."""
    return kind(dtype) in "iu"


def is_key(dtype: Any) -> bool:
    """Is it a dtype whose elements are random keys?"""
    return getattr(dtype, "type", None) is prng_key


#: Those of few bits: moved and cast as they are, and computed with as `widen` tells.
FEW_BITS: Final = frozenset(NARROW.values())


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Has the dtype few bits, so that it is moved, cast, and computed wider?"""
    return dtype in FEW_BITS


def is_carried(dtype: np.dtype[Any]) -> bool:
    """Do programs move its elements in another dtype, its `carrier`?"""
    return dtype in FEW_BITS or is_key(dtype)


def widen(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which one of few bits is computed with; of others themselves."""
    if dtype not in FEW_BITS:
        return dtype
    return float32 if kind(dtype) == "f" else int32


def carrier(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of numbers with as many bits in memory; of most numbers itself.

    Programs move keys and numbers of few bits in it. All others are moved bit by bit.
    """
    if dtype in FEW_BITS:
        return uint8
    if not is_key(dtype):
        return dtype
    return uint64 if dtype.itemsize == 8 else complex128


@cache
def _join(points: frozenset[_Point]) -> _Point | None:
    common = frozenset(_ABOVE).intersection(*(_ABOVE[point] for point in points))
    return next((point for point in common if _ABOVE[point] >= common), None)


def default_dtype(category: str, x64: bool | None = None) -> np.dtype[Any]:
    """The dtype of a Python scalar or of a created array, by kind.

    Args:
      category: "b", "i", "u", "f" or "c".
      x64: whether 64 bits are the default; None: as the settings say.
    """
    wide = (settings.current().enable_x64 if x64 is None else x64) is True
    return (_WIDE_DEFAULTS if wide else _DEFAULTS)[category]


_DEFAULTS = {"b": bool_, "i": int32, "u": uint32, "f": float32, "c": complex64}
_WIDE_DEFAULTS = {"b": bool_, "i": int64, "u": uint64, "f": float64, "c": complex128}


def promote(*types: tuple[np.dtype[Any], bool]) -> tuple[np.dtype[Any], bool]:
    """The least upper bound of (dtype, weak_type) pairs in the lattice.

    Args:
      *types: the pairs.

    Returns:
      (dtype, weak_type) of the result. Weak results take the default dtype of their
      kind, or the widest of the weak dtypes given (a large Python int is int64).

    Raises:
      DtypeError: random keys beside others, or numbers of few bits.
    """
    return _promote(types, settings.current().enable_x64)


@lru_cache(maxsize=4096)
def _promote(
    types: tuple[tuple[np.dtype[Any], bool], ...], x64: bool | None
) -> tuple[np.dtype[Any], bool]:
    for dtype, _ in types:
        kind(dtype)  # raises where it is not ours
    if len(types) == 1:
        return types[0]
    first = types[0]
    if all(t == first for t in types):
        return first
    strong = [dtype for dtype, weak in types if not weak]
    if any(map(is_key, strong)):
        if set(strong) == {strong[0]} and len(strong) == len(types):
            return types[0]
        names = " and ".join(name_of(dtype) for dtype, _ in types)
        raise errors.DtypeError(
            f"random keys have no dtype in common with others, got {names}; the "
            "numbers of keys are random.key_data(keys)"
        )
    if all(weak for _, weak in types):
        category = max((kind(dtype) for dtype, _ in types), key="biufc".index)
        same = [dtype for dtype, _ in types if kind(dtype) == category]
        widest = max([default_dtype(category, x64), *same], key=lambda d: d.itemsize)
        return widest, True
    points = {_WEAK_POINT[kind(dtype)] for dtype, weak in types if weak}
    joined = _join(frozenset(points | set(strong)))
    if joined is None:
        names = " and ".join([f"{d}*" if weak else f"{d}" for d, weak in types])
        raise errors.TypePromotionError(
            f"dtypes of few bits have none in common with others, got {names}: "
            "convert one of them with .astype"
        )
    if isinstance(joined, str):
        # A wide weak type that has given way would come back where it is met again.
        found = default_dtype(joined[0], x64)
        same = [dtype for dtype, weak in types if weak and kind(dtype) == joined[0]]
        return found, all(dtype == found for dtype in same)
    return (OF_32_BITS.get(joined, joined) if x64 is False else joined), False


def require_numbers(dtype: np.dtype[Any]) -> None:
    """Raises where the dtype is that of random keys."""
    if is_key(dtype):
        raise errors.DtypeError(
            f"numbers are required, got {name_of(dtype)}; those of keys are "
            "random.key_data(keys)"
        )


#: What does of bools what such a function may have been meant to do.
_OF_BOOLS = {
    "negative": "write ~x, or logical_not(x)",
    "subtract": "write x ^ y, or logical_xor(x, y)",
}


def require_kind(name: str, kinds: str, dtype: np.dtype[Any]) -> None:
    """Raises where a function is not defined for a dtype, with what to write instead.

    Args:
      name: of the function, where users have called none whose name is known.
      kinds: those that it is defined for, as "iuf".
      dtype: what it was given.

    Raises:
      DtypeError: the dtype is of none of these kinds.
    """
    own = kind(dtype)
    if own in kinds:
        return
    require_numbers(dtype)
    name = errors.called_function(name)
    to = "int" if "i" in kinds else "float" if "f" in kinds else "complex"
    advice = f"convert with .astype({to})"
    if own == "c" and "f" in kinds:
        advice = "take its .real, or abs(x)"
    advice = _OF_BOOLS.get(name, advice) if own == "b" else advice
    raise errors.DtypeError(f"{name} is not defined for {name_of(dtype)}; {advice}")


def to_inexact(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """`dtype` where it is float or complex, else the default float.

    Under JAX's 64-bit behaviour a 64-bit integer becomes float64, as there.
    """
    if is_inexact(dtype):
        return dtype
    require_numbers(dtype)
    if dtype.itemsize == 8 and settings.current().enable_x64 is True:
        return float64
    return float32


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a complex one; a real dtype itself."""
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The complex dtype whose parts have this one."""
    return complex128 if dtype == float64 else complex64


def canonicalize(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """`dtype`, narrowed to 32 bits when JAX's 32-bit behaviour is switched on."""
    if settings.current().enable_x64 is False:
        return OF_32_BITS.get(dtype, dtype)
    return dtype


def narrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """`dtype` as JAX has it: 64 bits are 32 unless `enable_x64` is on."""
    return dtype if settings.current().enable_x64 else OF_32_BITS.get(dtype, dtype)


#: What 64 bits per number are under JAX's 32-bit behaviour.
OF_32_BITS: Final = {
    int64: int32, uint64: uint32, float64: float32, complex128: complex64,
}  # fmt: skip

_PYTHON: Final = {bool: "b", int: "i", float: "f", complex: "c"}
_DTYPE: Final[type[Any]] = np.dtype  # Any: of its parameter nothing is known here


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """Any way to write a dtype (`"f4"`, `np.float32`, `float`, …) as a `np.dtype`.

    Python's `int`, `float` and `complex` mean the default dtype of that kind; 64 bits
    are narrowed under JAX's 32-bit behaviour.

    Raises:
      ArgumentError: it names no dtype.
      DtypeError: it names one that ftrace does not have.
    """
    return canonicalize(named_dtype(dtype))


def bits_of(dtype: np.dtype[Any]) -> int:
    """The bits that an element of a dtype stands for, not those of its memory."""
    if dtype not in FEW_BITS:
        return 8 * dtype.itemsize
    return int(re.findall(r"\d+", name_of(dtype))[0])


def named_dtype(dtype: Any) -> np.dtype[Any]:
    """`as_dtype` without narrowing: any way to write a dtype as a `np.dtype`."""
    found: np.dtype[Any]
    if isinstance(dtype, _DTYPE):
        found = dtype
    elif isinstance(dtype, type) and dtype in _PYTHON:
        return default_dtype(_PYTHON[dtype])
    elif isinstance(dtype, str) and dtype in _NAMED:
        found = _NAMED[dtype]
    else:
        try:
            found = _read(dtype)
        except TypeError:
            shape = "; the sizes of a shape are one tuple, as in ones((3, 4))"
            advice = shape if isinstance(dtype, int) else ""
            raise errors.ArgumentError(f"{dtype!r} is not a dtype{advice}") from None
    kind(found)
    return found


_NAMED: Final = {"bfloat16": bfloat16, "bf16": bfloat16, **NARROW}


def _read(dtype: Any) -> Any:
    """NumPy's reading; what has a dtype (a scalar type of ml_dtypes) means that."""
    own = getattr(dtype, "dtype", None)
    return own if isinstance(own, _DTYPE) else _DTYPE(dtype)


def scalar_type(value: complex) -> tuple[np.dtype[Any], bool]:
    """(dtype, weak_type) of a Python scalar.

    An int that does not fit the default dtype takes int64 or uint64; under JAX's
    32-bit behaviour it raises.

    Args:
      value: a bool, int, float or complex.

    Raises:
      DtypeOverflowError: the int fits no dtype that is allowed.
    """
    if isinstance(value, bool):
        return bool_, False
    kinds = (kind for python, kind in _PYTHON.items() if isinstance(value, python))
    category = _PYTHON.get(type(value)) or next(kinds)
    dtype = default_dtype(category)
    if isinstance(value, int):
        dtype = _fitting(int(value), dtype)
    return dtype, True


#: Scalars that NumPy's arithmetic on Python's numbers gives, and the kinds of dtypes in
#: which they are what these are.
_OF_NUMBERS: Final[dict[type[Any], str]] = {
    np.int64: "iufc", np.float64: "fc", np.complex128: "c",
}  # fmt: skip


def is_number_in(value: Any, dtype: np.dtype[Any]) -> bool:
    """Is a scalar of NumPy in this dtype what Python's number is in it?

    Args:
      value: anything.
      dtype: of what it stands beside.
    """
    return dtype.kind in _OF_NUMBERS.get(value.__class__, ())


def numpy_type(value: Any) -> tuple[np.dtype[Any], bool]:
    """(dtype, weak_type) of a NumPy array or scalar.

    A scalar of 64 bits is weak: it stands for the Python numbers that it was made of.
    Under JAX's 64-bit or 32-bit behaviour it is not, as there.

    Args:
      value: an array or a scalar of NumPy's.
    """
    return canonicalize(value.dtype), as_number(value) is not value


def as_number(value: Any) -> Any:
    """Python's number for the scalar of NumPy that stands for it; else the same.

    What makes an array of numbers takes these, and so gives it the default dtype.

    Args:
      value: anything.
    """
    weak = type(value) in _OF_NUMBERS and settings.current().enable_x64 is None
    return value.item() if weak else value


def strong_dtype(dtype: np.dtype[Any], weak: bool) -> np.dtype[Any]:
    """The dtype of a weak value that becomes an array of its own; of others theirs.

    A traced scalar of NumPy's then has the default dtype, as one that is known. An
    integer stays as wide as it is: nobody knows whether it fits.

    Args:
      dtype: of the value.
      weak: is its type weak?
    """
    return default_dtype(kind(dtype)) if weak and is_inexact(dtype) else dtype


def _fitting(value: int, default: np.dtype[Any]) -> np.dtype[Any]:
    if -(2**31) <= value < 2**31:
        return default
    allowed = (default,)
    if settings.current().enable_x64 is None:
        allowed = (int32, int64, uint64)
    for dtype in allowed:
        info = np.iinfo(dtype)
        if info.min <= value <= info.max:
            return dtype
    advice = "write it as a float"
    if allowed == (int32,) and -(2**63) <= value < 2**63:
        advice += ", or enable 64 bits with ft.config.update('jax_enable_x64', True)"
    raise errors.DtypeOverflowError(
        f"Python int {_digits(value)} is too large for {allowed[-1]}; {advice}"
    )


def _digits(value: int) -> str:
    bits = value.bit_length()
    return f"{value}" if bits < 256 else f"of {bits} bits"


def limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The least and greatest value of a dtype; infinities for floats."""
    category = kind(dtype)
    if category == "b":
        return False, True
    if category in "iu":
        info = ml_dtypes.iinfo(dtype)
        return int(info.min), int(info.max)
    return -np.inf, np.inf


__getattr__ = tell_missing(__name__)
