"""The kinds of argument: what each can be, and how a value of it is made.

A *level* is one of the things that an argument can be: `"weak float"`, `"mixed list"`,
an axis. A *value* follows from the level, the case's shape and its random numbers; it
is described by a `Given` of NumPy data, from which each library builds its own object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
PYTHON = {"bool": bool, "int": int, "float": float, "complex": complex}
_WEAK = ("weak int", "weak float")

#: What a number can be: the ordinary ones stand here more than once.
_REALS = (
    *(f"array {d}" for d in (*FLOATS, *INTEGERS, "bool")),
    "array float32", "array float32", "array int32",
    *(f"numpy {d}" for d in ("float32", "float64", "int64", "bool", "float16", "int8")),
    *(f"0d {d}" for d in ("float32", "float64", "int64", "uint8", "bfloat16")),
    *(f"scalar {d}" for d in (*FLOATS, *INTEGERS, "bool")),
    *_WEAK, "python bool", "python int", "python float", "python int",
    "python float",
)  # fmt: skip
_ALL = (*_REALS, "array complex64", "array complex128", "python complex",
        "scalar complex64", "scalar complex128", "weak complex")  # fmt: skip
_FLOATS = (
    *(f"array {d}" for d in (*FLOATS, "float32", "float32", "float32", "float32")),
    "numpy float32", "numpy float64", "weak float", "python float", "0d float32",
    "scalar float64", "scalar float32", "array int32", "python int",
)  # fmt: skip
_INEXACT = (*_FLOATS, "array complex64", "array complex64", "python complex")
_INTEGERS = (
    *(f"array {d}" for d in (*INTEGERS, "int32", "int32", "bool")),
    "numpy int64", "numpy uint8", "0d int32", "scalar int64", "scalar uint64",
    "python int", "python bool", "weak int",
)  # fmt: skip
_MASKS = ("array bool", "numpy bool")
_BYTES = ("array uint8", "array bool", "array int32", "numpy uint8")
_MATRICES = (
    *(f"array {d}" for d in ("float32", "float32", "float32", "float64", "complex64")),
    "numpy float32", "numpy float64", "array int32", "array float16", "array bfloat16",
    "array complex128",
)  # fmt: skip
_INDICES = (
    "array int32", "array int32", "array int64", "array uint8", "array int8",
    "array bool", "array uint64",
    "numpy int64", "numpy int32", "scalar int64", "scalar int32", "python int",
    "python bool", "0d int32", "weak int", "array float32", "python float",
)  # fmt: skip
_NESTED = (
    *_ALL, "list int", "list float", "list bool", "list complex", "mixed list",
    "mixed list", "arrays float32", "arrays int32", "arrays bool", "mixed arrays",
)  # fmt: skip
#: The level of the argument before.
LIKE = "like before"
#: What `lax` takes beside an array: an array of the same dtype; seldom another.
_LIKE = (LIKE,) * 5 + ("python float", "python int", "array int8", "weak float")
#: Beside shapes whose sizes matter, only what has a shape.
_ARRAYS = tuple(x for x in _ALL if x.split()[0] in ("array", "numpy"))


@dataclass(frozen=True)
class Numbers:
    """A kind of argument that holds numbers, and may be traced.

    Attributes:
      levels: what it can be.
      domain: a row of `DOMAINS`: which numbers.
      shape: a row of `SHAPES`: which shape, beside the shape of the case.
    """

    levels: tuple[str, ...]
    domain: str = "any"
    shape: str = "broadcast"


@dataclass(frozen=True)
class Choice:
    """A kind of argument that a program fixes: an axis, a shape, a flag."""

    levels: tuple[Any, ...]


#: In the place of a keyword that is not given.
ABSENT = "absent"

KINDS: dict[str, Numbers | Choice] = {
    "any": Numbers(_ALL),
    "real": Numbers(_REALS),
    "float": Numbers(_FLOATS),
    "inexact": Numbers(_INEXACT),
    "unit": Numbers(_FLOATS, "unit"),
    "positive": Numbers(_FLOATS, "positive"),
    "int": Numbers(_INTEGERS),
    "shift": Numbers(_INTEGERS, "shift"),
    "count": Numbers(_INTEGERS, "count"),
    "bool": Numbers((*_MASKS, "python bool", "array int32", "array float32")),
    "nested": Numbers(_NESTED),
    "mask": Numbers(_MASKS),
    "same": Numbers(_ARRAYS, "any", "same"),
    "array": Numbers(_ARRAYS, "any", "same"),
    "floats": Numbers(_MATRICES[:9], "any", "same"),
    "vector": Numbers(_ARRAYS, "any", "vector"),
    "signal": Numbers(_MATRICES, "any", "signal"),
    "shares": Numbers(_MATRICES[:4], "positive", "vector"),
    "whole": Numbers(("array int32", "array float32"), "count", "vector"),
    "matrix": Numbers(_MATRICES, "any", "matrix"),
    "square": Numbers(_MATRICES, "regular", "square"),
    "spd": Numbers(_MATRICES, "spd", "square"),
    "like": Numbers(_LIKE, "any", "lax"),
    "alike": Numbers(_LIKE, "positive", "lax"),
    "share": Numbers(_LIKE[:6], "fraction", "lax"),
    "columns": Numbers((*_MATRICES, *_LIKE[:5]), "any", "column"),
    "column": Numbers((*_LIKE[:5], "array int32"), "any", "one column"),
    "dominant": Numbers((*_LIKE[:5], "array int32"), "dominant", "vector"),
    "plane": Numbers(_MATRICES, "any", "plane"),
    "grid": Numbers(_MATRICES[:9], "any", "grid"),
    "image": Numbers(_MATRICES[:9], "any", "image"),
    "kernel": Numbers((*_LIKE[:5], "array float32"), "any", "kernel"),
    "attended": Numbers(_MATRICES[:9], "any", "attended"),
    "sorted": Numbers(_ARRAYS, "sorted", "vector"),
    "fraction": Numbers(_FLOATS, "fraction"),
    "index": Numbers(_INDICES, "index", "index"),
    "vectorindex": Numbers(_INDICES, "index", "vector"),
    "picks": Numbers(_INDICES, "index", "same"),
    "place": Numbers(_INDICES, "index", "scalar"),
    "pivots": Numbers(("array int32", "numpy int32"), "index", "pivots"),
    "bits": Numbers(_BYTES, "count", "same"),
    "flag": Choice((False, True)),
    "axis": Choice((0, -1, 1, None, 5, -4)),
    "axes": Choice((0, -1, None, (0, 1), (0,), (), 3, (-1, 0), (0, 0))),
    "dtype": Choice(("float32", "int32", "float16", "bool", "complex64", "int8", None)),
    "float_dtype": Choice(("float32", "float16", "bfloat16", None, "int32")),
    "shape": Choice(((), (3,), 4, (2, 3), (0,), (2, 0, 3), [2, 1])),
}  # fmt: skip

#: Sizes of nothing, one, odd, more than a vector, more than a block.
BASES: tuple[tuple[int, ...], ...] = (
    (), (3,), (2, 3), (1,), (0,), (3, 3), (1, 5), (2, 3, 4), (7, 5), (4, 0), (33,),
    (1000,), (0, 3), (64, 17), (5,), (2, 1, 3),
)  # fmt: skip

#: How the second argument of a case stands to the shape of the case.
FITS = ("same", "same", "scalar", "row", "ones", "longer", "bad")


def _broadcast(base: tuple[int, ...], fit: str, place: int) -> tuple[int, ...]:
    if place == 0 or fit == "same":
        return base
    return {
        "scalar": (),
        "row": base[1:],
        "ones": tuple(1 if i % 2 == 0 else n for i, n in enumerate(base)),
        "longer": (2, *base),
        "bad": (*base[:-1], base[-1] + 2) if base else (),
    }[fit]


def _side(base: tuple[int, ...]) -> int:
    return min(base[-1] if base else 2, 9)


#: Shapes by the rule of the kind: of the case's shape, its fit, the argument's place.
SHAPES: dict[str, Callable[[tuple[int, ...], str, int], tuple[int, ...]]] = {
    "broadcast": _broadcast,
    "same": lambda base, fit, place: base,
    "lax": lambda base, fit, place: {"scalar": (), "bad": (*base, 2)}.get(fit, base),
    "vector": lambda base, fit, place: (base[-1] if base else 4,),
    "signal": lambda base, fit, place: base if base and base[-1] > 3 else (9,),
    "matrix": lambda base, fit, place: base if len(base) > 1 else (_side(base), 3),
    "square": lambda base, fit, place: (*base[:-2], _side(base), _side(base)),
    "scalar": lambda base, fit, place: (),
    # Parts of eight devices are of it; of the second not all.
    "grid": lambda base, fit, place: (8, 8) if fit != "ones" else (8, 6),
    "index": lambda base, fit, place: (4,) if fit == "longer" else base[:1],
    "one column": lambda base, fit, place: (base[-1] if base else 4, 1),
    "plane": lambda base, fit, place: (3, 4) if fit != "ones" else (_side(base), 2),
    "image": lambda base, fit, place: (1, 2, 5, 4) if fit != "longer" else (2, 2, 1, 3),
    "kernel": lambda base, fit, place: (3, 2, 2, 2) if fit != "bad" else (3, 1, 2, 2),
    "attended": lambda base, fit, place: (1, 3, 2, 4) if fit != "row" else (5, 2, 3),
    "pivots": lambda base, fit, place: (2,),
    "column": lambda base, fit, place: (
        (*base[:-2], _side(base), 2) if fit != "row" else (_side(base),)
    ),
}


# Numbers. Each gets random numbers of [-1, 1) and makes of them what its domain asks.

_SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.0, 1e30, 3.5]
)


def _plain(unit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return unit * 4


def _special(unit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(_SPECIAL, unit.shape)


def _regular(unit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return unit + 3 * np.eye(unit.shape[-2], unit.shape[-1])


def _spd(unit: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    product = unit @ np.conj(np.swapaxes(unit, -1, -2))
    return product + 2 * np.eye(unit.shape[-1])


def _one_of(*values: float) -> Any:
    return lambda unit, rng: rng.choice(values, unit.shape)


def _scaled(factor: float, least: float = 0.0) -> Any:
    return lambda unit, rng: np.abs(unit) * factor + least


#: The numbers of a domain, by the case's data: ordinary, or those at the edges.
DOMAINS: dict[str, tuple[Callable[..., np.ndarray], Callable[..., np.ndarray]]] = {
    "any": (_plain, _special),
    "unit": (lambda u, rng: u * 0.95, _one_of(-1.0, 0.0, 1.0, -0.0, 2.0, np.nan)),
    "positive": (_scaled(4, 0.2), _one_of(0.0, 1.0, np.inf, np.nan, 30.0)),
    "fraction": (_scaled(1), _one_of(0.0, 1.0, 0.5)),
    "count": (_scaled(5), _scaled(2)),
    "shift": (_scaled(7), lambda u, rng: u * 40),
    "index": (_scaled(2), _scaled(2)),
    "regular": (_regular, _regular),
    "spd": (_spd, _spd),
    "sorted": (
        lambda u, rng: np.sort(u * 4, axis=-1),
        lambda u, rng: np.sort(np.round(u * 2), axis=-1),
    ),
    "dominant": (lambda u, rng: u + 9, lambda u, rng: u + 9),
}

DATA = ("plain", "plain", "special", "ties")


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _convert(values: np.ndarray, dtype: np.dtype[Any], edges: bool) -> np.ndarray:
    """Numbers of a dtype: of integers also the least and the greatest."""
    if dtype.kind == "b":
        return values > 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        finite = np.nan_to_num(values, nan=3.0, posinf=7.0, neginf=-7.0)
        whole = np.trunc(np.where(np.abs(finite) > 1e9, 9.0, finite)).astype(np.int64)
        if dtype.kind == "u":
            whole = np.abs(whole)
        result = whole.astype(dtype)
        if edges and result.size > 1:
            result.reshape(-1)[:2] = limits.max, limits.min
        return result
    return values.astype(dtype)


def numbers(
    kind: Numbers, dtype: str, shape: tuple[int, ...], data: str, seed: Any
) -> np.ndarray:
    """The data of an argument."""
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-1, 1, shape)
    if data == "ties":
        unit = np.round(unit * 2) / 2
    made = dtype_of(dtype if dtype not in ("int", "float") else f"{dtype}64")
    if made.kind == "c":
        unit = unit + 1j * rng.uniform(-1, 1, shape)
    with np.errstate(all="ignore"):
        plain, special = DOMAINS[kind.domain]
        if made.kind == "c" and plain is _plain:
            values = plain(
                unit, rng
            )  # inf - inf of the parts is not what is asked here
        elif made.kind == "c" and plain not in (_regular, _spd):
            values = plain(unit.real, rng) + 1j * unit.imag
        else:
            values = (special if data == "special" else plain)(unit, rng)
        # A number of NumPy's is no array, and it is what its arithmetic makes of one.
        return np.asarray(
            _convert(values, made, data == "special" and kind.domain == "any")
        )


@dataclass(frozen=True)
class Given:
    """An argument, as data: what either library builds its own object of.

    Attributes:
      form: how it is passed: array, weak, numpy, 0d, scalar, python, list, mixed, …
      data: its numbers, or the value itself where form is "static".
      dtype: the name of its dtype.
    """

    form: str
    data: Any
    dtype: str = ""

    @property
    def traced(self) -> bool:
        return self.form != "static"

    @property
    def mapped(self) -> bool:
        """Does it have an axis that vmap can go along, with `batch`?"""
        return self.form in ("array", "numpy", "weak")


def given(
    kind: Numbers | Choice, level: Any, shape: tuple[int, ...], data: str, seed: Any
) -> Given:
    """The value of an argument at a level."""
    if isinstance(kind, Choice):
        return Given("static", level)
    form, dtype = level.split()
    if form in ("0d", "scalar", "python"):
        shape = ()
    if (form, dtype) == ("mixed", "list") or dtype == "arrays":
        form, dtype = ("mixed" if dtype == "list" else "mixed_arrays"), "float"
    return Given(form, numbers(kind, dtype, shape, data, seed), dtype)


def _mixed(data: np.ndarray) -> Any:
    """Nested lists whose numbers are int, float and bool in turn."""
    kinds = (
        float,
        lambda x: int(np.nan_to_num(x, posinf=5, neginf=-5) % 7),
        lambda x: bool(x > 0),
    )
    turn = iter(range(data.size))

    def walk(part: Any) -> Any:
        if isinstance(part, list):
            return [walk(p) for p in part]
        return kinds[next(turn) % 3](part)

    return walk(data.tolist())


def build(library: Any, value: Given, batched: bool = False) -> Any:
    """The object that is passed, for one of the libraries."""
    np_, data = library.numpy, value.data
    if value.form == "static":
        return data
    if value.form == "array":
        return np_.asarray(data)
    if value.form == "weak":
        whole = np_.asarray(PYTHON[value.dtype](_first(data)))
        return np_.broadcast_to(whole, data.shape)
    if value.form in ("numpy", "0d"):
        return data
    if value.form == "scalar":
        return data[()]
    if value.form == "python":
        return PYTHON[value.dtype](_first(data))
    if value.form == "list":
        return data.tolist()
    if value.form == "mixed":
        return _mixed(data)
    if data.ndim == 0:
        return [np_.asarray(data)]
    if value.form == "arrays":
        return [np_.asarray(row) for row in data]
    return [np_.asarray(row) if i % 2 else row.tolist() for i, row in enumerate(data)]


def _first(data: np.ndarray) -> Any:
    """A number for a whole array: a Python int of an ordinary size."""
    number = data.reshape(-1)[0].item() if data.size else 1
    return int(np.clip(number, -100, 100)) if isinstance(number, int) else number
