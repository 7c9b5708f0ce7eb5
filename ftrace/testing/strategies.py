"""Arrays, shapes, dtypes and trees for hypothesis.

    from hypothesis import given
    from ftrace.testing import strategies as fst

    @given(fst.arrays(fst.scalar_dtypes("f"), fst.array_shapes(), special=True))
    def test_sums_are_finite(x): ...

Needs hypothesis: `pip install 'ftrace[testing]'`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import MissingExtraError, one_of
from ftrace.numpy import finfo, iinfo

try:
    from hypothesis import strategies as st
    from hypothesis.extra import numpy as hnp
except ImportError as error:
    raise MissingExtraError(
        "ftrace.testing.strategies needs hypothesis, which is missing: "
        "pip install 'ftrace[testing]'"
    ) from error

__all__ = [
    "array_shapes", "arrays", "broadcastable_shapes", "elements",
    "mutually_broadcastable_shapes", "scalar_dtypes", "trees",
]  # fmt: skip

Strategy = st.SearchStrategy

broadcastable_shapes = hnp.broadcastable_shapes
mutually_broadcastable_shapes = hnp.mutually_broadcastable_shapes


def array_shapes(
    *, min_dims: int = 0, max_dims: int = 3, min_side: int = 0, max_side: int = 6
) -> Strategy[tuple[int, ...]]:
    """Shapes: as hypothesis's, but by default also () and those without elements."""
    return hnp.array_shapes(
        min_dims=min_dims, max_dims=max_dims, min_side=min_side, max_side=max_side
    )


def scalar_dtypes(kinds: str = "biufc") -> Strategy[np.dtype[Any]]:
    """The dtypes of numbers of the kinds that are named, bfloat16 among the floats.

    Args:
      kinds: letters: b bool, i and u integers with and without signs, f floats,
        c complex numbers.

    Raises:
      ValueRangeError: there is no such kind.
    """
    for kind in kinds or " ":
        one_of("scalar_dtypes: each of kinds", kind, "biufc")
    return st.sampled_from([d for d in dtypes.ALL if dtypes.kind(d) in kinds])


def elements(
    dtype: Any,
    *,
    special: bool = False,
    min_value: Any = None,
    max_value: Any = None,
) -> Strategy[Any]:
    """NumPy's scalars of a dtype.

    Args:
      special: NaN, infinities, -0.0, denormal numbers and the ends of the range are
        among them, and often; else floats are normal numbers and 0.0.
      min_value, max_value: bounds, of both parts of complex numbers. With bounds no
        number is NaN, and infinities and zeros are those within.
    """
    dtype = np.dtype(dtype)
    kind = dtypes.kind(dtype)
    if kind == "b":
        return st.booleans().map(np.bool_)
    if kind == "c":
        real = dtype.type(0).real.dtype
        part = elements(real, special=special, min_value=min_value, max_value=max_value)
        return st.tuples(part, part).map(lambda pair: dtype.type(complex(*pair)))
    if kind != "f":
        limits = iinfo(dtype)
        low = int(limits.min if min_value is None else min_value)
        high = int(limits.max if max_value is None else max_value)
        found: Strategy[Any] = st.integers(low, high).map(dtype.type)
    else:
        low, high = _limit(dtype, min_value, -1), _limit(dtype, max_value, 1)
        found = _normal_floats(dtype, low, high)
    ends = _special(dtype) if special else ()
    if min_value is not None or max_value is not None:
        ends = tuple([x for x in ends if low <= x <= high])
    return st.sampled_from(ends) | found if ends else found


def _limit(dtype: np.dtype[Any], value: Any, sign: int) -> float:
    """The last number of a dtype below or above which there shall be none."""
    limits = finfo(dtype)
    farthest = limits.max if sign > 0 else limits.min
    if value is None:
        return float(farthest)
    bound = dtype.type(value)
    if sign * float(bound) > sign * float(value):
        bound = np.nextafter(bound, dtype.type(-farthest))
    return float(bound)


def _normal_floats(dtype: np.dtype[Any], low: float, high: float) -> Strategy[Any]:
    """Floats in bounds; 0.0 for denormal numbers and -0.0, where it is within."""
    least = float(finfo(dtype).smallest_normal) if low <= 0 <= high else 0.0
    width: Any = 8 * dtype.itemsize if dtype.kind == "f" else 32  # others fit into it
    floats = st.floats(low, high, width=width)
    return floats.map(lambda x: dtype.type(x if abs(x) >= least else 0.0))


@cache
def _special(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """The numbers of a dtype where programs go wrong."""
    if dtypes.is_integer(dtype):
        info = iinfo(dtype)
        return tuple([dtype.type(x) for x in sorted({info.min, 0, 1, info.max})])
    limits = finfo(dtype)
    sizes = [0.0, limits.smallest_subnormal, limits.smallest_normal, 1.0, limits.max]
    both = [sign * float(x) for x in (*sizes, np.inf) for sign in (1, -1)]
    with np.errstate(all="ignore"):
        return tuple([dtype.type(x) for x in (*both, np.nan)])


_elements = elements  # `arrays` has an argument of that name


def arrays(
    dtype: Any = np.float32,
    shape: int | tuple[int, ...] | Strategy[Any] | None = None,
    *,
    elements: Strategy[Any] | None = None,
    special: bool = False,
    min_value: Any = None,
    max_value: Any = None,
    unique: bool = False,
) -> Strategy[np.ndarray[Any, Any]]:
    """Arrays of NumPy, which every function of ftrace takes.

    Args:
      dtype: one, or a strategy of them.
      shape: one, a number of elements, or a strategy; by default `array_shapes()`.
      elements: a strategy of elements; by default those of the function of that name,
        with `special`, `min_value` and `max_value`.
      unique: no two elements are equal.
    """
    bounds = {"special": special, "min_value": min_value, "max_value": max_value}

    def of_dtype(dtype: Any) -> Strategy[Any]:
        each = _elements(dtype, **bounds) if elements is None else elements
        wanted = array_shapes() if shape is None else shape
        fill = None if unique else each  # of large arrays a few elements are drawn
        return hnp.arrays(
            np.dtype(dtype), wanted, elements=each, fill=fill, unique=unique
        )

    flatmap = getattr(dtype, "flatmap", None)
    return of_dtype(dtype) if flatmap is None else flatmap(of_dtype)


def trees(leaves: Strategy[Any], *, max_leaves: int = 8) -> Strategy[Any]:
    """Pytrees: lists, tuples and dicts of leaves, nested, some of them empty.

    Args:
      leaves: a strategy: `trees(arrays())`.
      max_leaves: how many there are at most.
    """
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        ),
        max_leaves=max_leaves,
    )
