"""What came of a case, and what it takes for two of them to be equal."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from tests.differential.cases import DERIVED, Case

#: Relative error that is allowed: some 16 units in the last place.
TOLERANCE = {
    "float16": 8e-3, "bfloat16": 6e-2, "float32": 3e-6, "float64": 2e-14,
    "complex64": 5e-6, "complex128": 4e-14,
}  # fmt: skip


#: So many values of an array are recorded.
KEPT = 6


@dataclass(frozen=True)
class Leaf:
    """An array of a result.

    Attributes:
      places: where `values` stand in it, where not all of them are kept.
    """

    dtype: str
    shape: tuple[int, ...]
    weak: bool
    values: Any
    places: Any = None

    @property
    def head(self) -> str:
        return f"{self.dtype}{list(self.shape)}{' weak' if self.weak else ''}"


@dataclass(frozen=True)
class Outcome:
    """A result, or the error in its place.

    Attributes:
      structure: the containers of a result, and what is no array.
      error: the class of what was raised; empty where nothing was.
      message: what it said.
      ours: is it an exception of the library's own, not one from somewhere inside?
    """

    structure: str = ""
    leaves: list[Leaf] = field(default_factory=list)
    error: str = ""
    message: str = ""
    ours: bool = True


@dataclass(frozen=True)
class Difference:
    """One way in which two outcomes are not the same.

    Attributes:
      what: accepts, refuses, raw, structure, dtype, shape, weak or value.
    """

    what: str
    text: str


def describe(result: Any) -> Outcome:
    """The outcome of a call that returned."""
    leaves: list[Leaf] = []

    def walk(part: Any) -> str:
        if isinstance(part, tuple):
            name = " ".join(getattr(part, "_fields", ()))
            return name + "(" + ",".join(map(walk, part)) + ")"
        if isinstance(part, list):
            return "[" + ",".join(map(walk, part)) + "]"
        if isinstance(part, dict):
            return (
                "{" + ",".join(f"{k}:{walk(v)}" for k, v in sorted(part.items())) + "}"
            )
        if hasattr(part, "dtype") and hasattr(part, "shape"):
            values = np.asarray(part)
            dtype = "float0" if values.dtype.names else str(values.dtype)
            weak = bool(getattr(part, "weak_type", False))
            leaves.append(Leaf(dtype, values.shape, weak, values))
            return "*"
        if isinstance(part, type):
            return part.__name__
        plain = part is None or isinstance(
            part, (bool, int, float, complex, str, np.dtype)
        )
        return repr(part) if plain else type(part).__name__

    return Outcome(walk(result), leaves)


def failed(error: BaseException, ours: bool) -> Outcome:
    return Outcome(error=type(error).__name__, message=str(error)[:300], ours=ours)


def differences(
    case: Case, found: Outcome, wanted: Outcome, loose: bool
) -> list[Difference]:
    """What is not the same.

    `loose`: widths may differ, but for dtypes that an array among the arguments has.
    """
    if found.error and wanted.error:
        return (
            [] if found.ours else [Difference("raw", f"{found.error}: {found.message}")]
        )
    if found.error:
        shown = " ".join(leaf.head for leaf in wanted.leaves) or wanted.structure
        raw = "" if found.ours else " (not an error of ours)"
        return [
            Difference("refuses", f"{found.error}{raw}: {found.message}; not {shown}")
        ]
    if wanted.error:
        shown = " ".join(leaf.head for leaf in found.leaves) or found.structure
        return [Difference("accepts", f"{shown}; not {wanted.error}: {wanted.message}")]
    if found.structure != wanted.structure:
        return [Difference("structure", f"{found.structure}; not {wanted.structure}")]
    result: list[Difference] = []
    for place, (a, b) in enumerate(zip(found.leaves, wanted.leaves, strict=True)):
        result += _leaf(case, place, a, b, loose)
    return result


def _tolerance(dtype: str) -> float:
    return TOLERANCE.get(dtype, 0)


def _kind(dtype: str) -> str:
    return "float" if dtype == "bfloat16" else dtype.rstrip("0123456789")


def _leaf(case: Case, place: int, a: Leaf, b: Leaf, loose: bool) -> list[Difference]:
    where = f"result {place}: " if place else ""
    loose &= b.weak or b.dtype not in case.kept
    same = _kind(a.dtype) == _kind(b.dtype) if loose else a.dtype == b.dtype
    if a.shape != b.shape:
        return [Difference("shape", f"{where}{a.head}; not {b.head}")]
    if not same:
        return [Difference("dtype", f"{where}{a.head}; not {b.head}")]
    result: list[Difference] = []
    if a.weak != b.weak and not loose:
        result.append(Difference("weak", f"{where}{a.head}; not {b.head}"))
    if "values" not in case.row.properties and a.dtype != "float0":
        result += _values(case, where, a, b)
    return result


def _wide(values: Any) -> Any:
    values = np.asarray(values)
    if values.dtype.kind == "c":
        return values.astype(np.complex128)
    if values.dtype == ml_dtypes.bfloat16 or values.dtype.kind == "f":
        return values.astype(np.float64)
    return values


def _values(case: Case, where: str, a: Leaf, b: Leaf) -> list[Difference]:
    x, y = _wide(a.values), _wide(b.values)
    if b.places is not None:
        x = x.reshape(-1)[b.places]
    elif a.places is not None:
        y = y.reshape(-1)[a.places]
    x, y = x.reshape(-1), y.reshape(-1)
    if x.dtype.kind not in "fc":
        bad = x != y
        if x.dtype.kind in "iu" and y.dtype.kind == "f":  # recorded as float64
            bad = x.astype(np.float64) != y
    else:
        bad = ~close(case, x, y, max(a.dtype, b.dtype, key=_tolerance))
    if not bad.any():
        return []
    i = int(np.flatnonzero(bad)[0])
    share = f"({int(bad.sum())} of {bad.size})"
    text = f"{where}{a.head} at {i}: {x[i]!r}; not {y[i]!r} {share}"
    return [Difference("value", text)]


def close(case: Case, x: Any, y: Any, dtype: str) -> Any:
    """Where numbers are as near as their dtype allows, NaN, inf and zeros included."""
    narrowest = max(dtype, *case.dtypes, key=_tolerance)
    tolerance = (
        TOLERANCE[narrowest] * case.row.rough * (4 if case.mode in DERIVED else 1)
    )
    with np.errstate(all="ignore"):
        size = np.abs(y)
        finite = np.isfinite(size)
        scale = size
        if not case.row.elementwise and finite.any():
            scale = np.maximum(size, np.max(np.abs(y[finite])))
        least = 1e-7 if dtype == "float16" else 1e-37  # what is denormal may be zero
        if case.mode in DERIVED and not case.row.elementwise:
            least = max(least, tolerance * 0.1)  # what cancels need not be zero
        near = np.abs(x - y) <= tolerance * scale + least
        if x.dtype.kind == "c":
            return np.where(
                finite & np.isfinite(x),
                near,
                _same(x.real, y.real) & _same(x.imag, y.imag),
            ) | (_unfinished(x) & _unfinished(y))
        zeros = (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
        near &= ~(
            zeros & case.row.elementwise & (case.mode in ("eager", "jit", "vmap"))
        )
        return np.where(finite & np.isfinite(x), near, _same(x, y))


def _same(x: Any, y: Any) -> Any:
    return (x == y) | (np.isnan(x) & np.isnan(y))


def _unfinished(x: Any) -> Any:
    """Complex numbers that are infinite or NaN: which part it is, no rule says."""
    return ~np.isfinite(x)


def kept_places(size: int) -> Any:
    """Where the values stand that are kept of so many: the first, the last, between."""
    return np.unique(np.linspace(0, size - 1, min(size, KEPT)).astype(int))


def sample(outcome: Outcome) -> Outcome:
    """An outcome of which a few values are kept."""
    leaves: list[Leaf] = []
    for leaf in outcome.leaves:
        if leaf.places is None:
            places = kept_places(leaf.values.size)
            whole = np.zeros(leaf.shape) if leaf.dtype == "float0" else leaf.values
            values = _wide(whole).reshape(-1)[places]
            leaf = replace(leaf, values=values, places=places)
        leaves.append(leaf)
    return replace(outcome, leaves=leaves)
