"""Are numbers what they should be? And where not: how far apart, which, and where."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import TreeError, ValueRangeError
from ftrace.numpy import finfo
from ftrace.random import key_data
from ftrace.trace.arrays.array import is_array
from ftrace.trace.pytree import tree

Numbers = np.ndarray[Any, Any]
#: One for all dtypes, or by dtype.
Tolerance = float | None | Mapping[Any, float]


def default_tolerance(dtype: Any) -> float:
    """Three quarters of a dtype's digits: eps^¾, and 0 for what is exact.

    float64 1.8e-12, float32 6.4e-6, float16 5.5e-3, bfloat16 2.6e-2.
    """
    dtype = np.dtype(dtype)
    return eps_of(dtype) ** 0.75 if dtypes.is_inexact(dtype) else 0.0


def eps_of(dtype: np.dtype[Any]) -> float:
    return float(finfo(dtype).eps)


def ulps_between(x: Any, y: Any) -> Numbers:
    """How many numbers of the dtype lie from each element to the other, as uint64.

    Units in the last place: 0 of equal ones and of zeros of both signs; infinities
    follow the largest number. Of complex numbers it is the greater part's.

    Args:
      x, y: arrays of one shape and one float or complex dtype, without NaN.

    Raises:
      ValueRangeError: they differ in shape or dtype, or are not inexact.

    Example:
      >>> one = np.float32(1.0)
      >>> int(ft.testing.ulps_between(one, np.nextafter(one, np.float32(2.0))))
      1
    """
    a, b = np.asarray(x), np.asarray(y)
    if (a.shape, a.dtype) != (b.shape, b.dtype) or not dtypes.is_inexact(a.dtype):
        raise ValueRangeError(
            "ulps_between needs arrays of one shape and one float or complex dtype, "
            f"got {a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
        )
    found, other = _in_order(_components(a)), _in_order(_components(b))
    # In 64 bits without signs a difference of any two is right.
    high, low = np.maximum(found, other), np.minimum(found, other)
    return np.max(high.astype(np.uint64) - low.astype(np.uint64), -1)


def _in_order(x: Numbers) -> Numbers:
    """Integers in the order of floats, which are as far apart as these are."""
    size: Any = np.abs(x)
    bits: Numbers = size.view(np.dtype(f"u{x.dtype.itemsize}")).astype(np.int64)
    return np.where(x < 0, -bits, bits)


def _components(x: Numbers) -> Numbers:
    """Real numbers along a last axis: two of a complex one."""
    return np.stack([x.real, x.imag], -1) if x.dtype.kind == "c" else x[..., None]


@dataclass(frozen=True)
class Limits:
    """How far apart elements may be, and what of them has to be the same.

    Attributes:
      rtol, atol: tolerances; None is by dtype if both are, and else 0.
      ulps: in their place, units in the last place.
      scaled: is `rtol` a part of the array's largest element?
      signed_zeros: is -0.0 another number than 0.0?
    """

    rtol: Tolerance = None
    atol: Tolerance = None
    ulps: int | None = None
    scaled: bool = False
    equal_nan: bool = True
    check_dtypes: bool = True
    check_weak_type: bool = False
    signed_zeros: bool = False

    def describe(self) -> str:
        """What may be, in words: ulps=0, or rtol=1e-3."""
        names = ("rtol", "atol", "ulps")
        given = [f"{k}={v}" for k in names if (v := getattr(self, k)) is not None]
        return ", ".join(given) or "eps^0.75 of the largest element"

    def tolerances(self, dtype: Any, largest: float) -> tuple[float, float]:
        """(rtol, atol) for one array whose wanted elements are not above `largest`."""
        usual = default_tolerance(dtype)
        if self.rtol is None and self.atol is None:
            small = usual * min(largest or 1.0, 1.0)
            return usual, 0.0 if self.scaled else small
        given: list[float] = []
        for limit in (self.rtol, self.atol):
            if isinstance(limit, Mapping):
                by_dtype = {np.dtype(kind): value for kind, value in limit.items()}
                limit = by_dtype.get(np.dtype(dtype), usual)
            given.append(0.0 if limit is None else float(limit))
        return given[0], given[1]


def assert_close(
    actual: Any,
    desired: Any,
    *,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    ulps: int | None = None,
    scaled: bool = False,
    equal_nan: bool = True,
    check_dtypes: bool = True,
    check_weak_type: bool = False,
    err_msg: str = "",
) -> None:
    """Raises unless two pytrees have the same structure and close numbers.

    Elements are close where |actual - desired| <= atol + rtol · |desired|; infinities
    and NaN have to be in the same places, integers and bools have to be equal unless a
    tolerance is given.

    Args:
      actual: a pytree of arrays and numbers.
      desired: a pytree of that structure; lists of numbers may stand for arrays, and
        they and Python's numbers have no dtype.
      rtol, atol: tolerances, or dictionaries of them by dtype. Where neither is given,
        both are eps^¾ of the less precise dtype (`default_tolerance`), and `atol` no
        more than that part of the array's largest element; one alone leaves the
        other 0.
      ulps: in their place, how many units in the last place.
      scaled: `rtol` is a part of the array's largest element, not of each element: for
        sums whose terms cancel.
      equal_nan: NaN is equal to NaN.
      check_dtypes: dtypes have to be the same.
      check_weak_type: and so whether they are weak.
      err_msg: what is compared, for the message.

    Raises:
      AssertionError: they differ. The first line names the leaf, how many elements
        differ, the worst of them with both values, and units in the last place.
      ValueRangeError: tolerances and `ulps` are given, or one is negative.

    Example:
      >>> ft.testing.assert_close(fnp.sin(1.0), np.float32(np.sin(1.0)), ulps=1)
      >>> ft.testing.assert_close([1.0, 2.0], [1.0, 2.5])
      Traceback (most recent call last):
        ...
      AssertionError: assert_close: [1]: 2.0 (actual) is not 2.5 (desired), ...
    """
    __tracebackhide__ = True
    check_tolerances("assert_close", rtol, atol, ulps)
    limits = Limits(
        rtol, atol, ulps, scaled, equal_nan, check_dtypes, check_weak_type
    )  # fmt: skip
    _assert(actual, desired, limits, err_msg or "assert_close")


def check_tolerances(
    what: str, rtol: Tolerance, atol: Tolerance, ulps: int | None
) -> None:
    """Raises ValueRangeError where these are no tolerances, or two kinds of them."""
    if ulps is not None and (rtol is not None or atol is not None):
        raise ValueRangeError(f"{what}: give ulps, or rtol and atol, not both")
    for name, given in (("rtol", rtol), ("atol", atol), ("ulps", ulps)):
        every = given.values() if isinstance(given, Mapping) else [given]
        if any(limit is not None and not limit >= 0 for limit in every):
            raise ValueRangeError(f"{what}: {name} must be 0 or more, got {given}")


def assert_same_bits(
    actual: Any,
    desired: Any,
    *,
    check_dtypes: bool = True,
    check_weak_type: bool = False,
    err_msg: str = "",
) -> None:
    """Raises unless two pytrees have the same numbers to the bit.

    Which NaN it is does not matter, the sign of a zero does.

    Args:
      actual, desired, check_dtypes, check_weak_type, err_msg: as those of
        `assert_close`.

    Raises:
      AssertionError: they differ.

    Example:
      >>> ft.testing.assert_same_bits(fnp.array(-0.0), fnp.array(0.0))
      Traceback (most recent call last):
        ...
      AssertionError: assert_same_bits: -0.0 (actual) is not 0.0 (desired), ...
    """
    __tracebackhide__ = True
    limits = Limits(
        ulps=0,
        check_dtypes=check_dtypes,
        check_weak_type=check_weak_type,
        signed_zeros=True,
    )
    _assert(actual, desired, limits, err_msg or "assert_same_bits")


def _assert(actual: Any, desired: Any, limits: Limits, what: str) -> None:
    __tracebackhide__ = True
    pairs, structure = tree.flatten_with_path(actual)
    try:
        others = tree.flatten_up_to(structure, desired, what)
    except TreeError as error:
        said = error.message.removeprefix(f"{what}: ")
        raise AssertionError(f"{what}: {said}") from None
    wrong: list[str] = []
    for (path, found), wanted in zip(pairs, others, strict=True):
        if said := compare(found, wanted, limits):
            wrong.append(f"{what}: {tree.keystr(path)}{': ' * bool(path)}{said}")
    if wrong:
        raise AssertionError("\n".join(wrong))


def compare(actual: Any, desired: Any, limits: Limits) -> str:
    """What differs between two arrays, in lines; nothing where they are close."""
    if not _is_numeric(actual) or not _is_numeric(desired):
        same = type(actual) is type(desired) and bool(actual == desired)
        return "" if same else f"{actual!r} is not {desired!r}"
    x, y = _numbers(actual), _numbers(desired)
    if x.shape != y.shape:
        return f"shapes differ: {x.shape} is not {y.shape}"
    if limits.check_dtypes and hasattr(actual, "dtype") and hasattr(desired, "dtype"):
        if x.dtype != y.dtype:
            return (
                f"dtypes differ: {x.dtype} is not {y.dtype}; check_dtypes=False "
                "compares values alone"
            )
        weak = [bool(getattr(z, "weak_type", False)) for z in (actual, desired)]
        if limits.check_weak_type and weak[0] != weak[1]:
            names = [f"{'weak ' * w}{x.dtype}" for w in weak]
            return f"dtypes differ: {names[0]} is not {names[1]}"
    if x.dtype == y.dtype and limits.equal_nan and x.tobytes() == y.tobytes():
        return ""
    with np.errstate(all="ignore"):
        return _Comparison(x, y, limits).describe()


def _is_numeric(x: Any) -> bool:
    return isinstance(x, (int, float, complex, list, tuple)) or hasattr(x, "dtype")


def _numbers(x: Any) -> Numbers:
    """A value as an array of NumPy; random keys as their words."""
    keys = is_array(x) and dtypes.is_key(x.dtype)
    return np.asarray(key_data(x) if keys else x)


class _Comparison:
    """Two arrays of one shape, element by element."""

    def __init__(self, x: Numbers, y: Numbers, limits: Limits) -> None:
        self.x, self.y = x, y
        kinds = [z.dtype for z in (x, y) if dtypes.is_inexact(z.dtype)]
        self.inexact = bool(kinds)
        #: The less precise of both: tolerances and units are its.
        self.dtype = max(kinds, key=eps_of) if kinds else x.dtype
        wide: Any = np.float64
        if any(map(dtypes.is_complex, kinds)):
            wide = np.complex128
            self.dtype = np.result_type(self.dtype, np.complex64)
        a, b = (z.astype(wide) for z in (x, y))
        self.error = np.abs(a - b)
        size = np.where(np.isfinite(b), np.abs(b), 0.0)
        largest = float(size.max(initial=0))
        self.rtol, self.atol = limits.tolerances(self.dtype, largest)
        self.limits = limits
        part = self.rtol * (np.full(x.shape, largest) if limits.scaled else size)
        self.allowed = self.atol + part
        self.bad = ~(self._same(a, b) | self._near(np.isfinite(a) & np.isfinite(b)))

    def _same(self, a: Numbers, b: Numbers) -> Numbers:
        if not self.inexact:  # exact beyond the digits of float64 too
            return np.asarray(self.x == self.y)
        p, q = _components(a), _components(b)
        same = p == q
        if self.limits.signed_zeros:
            same &= np.signbit(p) == np.signbit(q)
        if not self.limits.equal_nan:
            return same.all(-1)
        if self.limits.signed_zeros:  # to the bit: each part by itself
            return (same | (np.isnan(p) & np.isnan(q))).all(-1)
        return same.all(-1) | (np.isnan(a) & np.isnan(b))  # as NumPy: in either part

    def _near(self, finite: Numbers) -> Numbers:
        units = self.limits.ulps
        if not self.inexact:  # digits beyond float64's count where nothing is allowed
            most = self.allowed if units is None else units
            return finite & (self.error <= most) & (np.asarray(most) > 0)
        if units is None:
            return finite & (self.error <= self.allowed)
        zeros = (self.x == 0) & (self.y == 0) & self.limits.signed_zeros
        return finite & ~zeros & (self.ulps() <= units)

    def ulps(self) -> Numbers:
        """Units in the last place between the elements, whatever NaN are among them."""
        x, y = self.x.astype(self.dtype), self.y.astype(self.dtype)
        return ulps_between(x, y)

    def describe(self) -> str:
        if not self.bad.any():
            return ""
        # Of what is too far the farthest, by what is allowed; NaN are beyond all.
        least = np.finfo(np.float64).tiny
        beyond = np.where(self.bad, self.error / (self.allowed + least), -1.0)
        beyond = np.where(self.bad & np.isnan(beyond), np.inf, beyond)
        place = np.unravel_index(int(np.argmax(beyond)), self.bad.shape)
        a, b = self.x[place], self.y[place]
        several = f"{int(self.bad.sum())} of {self.bad.size} elements differ, most at "
        where = f"{several}{[int(i) for i in place]}: " if self.bad.ndim else ""
        both = f"{a!s} (actual) is not {b!s} (desired)"
        lines = [f"{where}{both}{self._distance(place)}", *self._counts()]
        if self.bad.ndim:
            lines += [f"{name}: {_short(z)}" for name, z in
                      (("actual", self.x), ("desired", self.y))]  # fmt: skip
        return "\n  ".join(lines)

    def _distance(self, place: Any) -> str:
        if not self.inexact:
            return f", {abs(int(self.x[place]) - int(self.y[place]))} apart"
        if not np.isfinite(self.error[place]):
            return ""
        units = f", {int(self.ulps()[place])} ULPs of {self.dtype} apart"
        if self.limits.ulps is not None:
            return f"{units}; {self.limits.ulps} allowed"
        return f"{units}: {self.error[place]:.3g}; {self.allowed[place]:.3g} allowed"

    def _counts(self) -> list[str]:
        """What is special among the elements that differ."""
        kinds = {"NaN": np.isnan, "infinity": np.isinf}
        found: list[str] = []
        for name, test in kinds.items() if self.inexact else ():
            has = [test(z.astype(self.dtype)) for z in (self.x, self.y)]
            only = [int((self.bad & one & ~two).sum()) for one, two in (has, has[::-1])]
            if any(only):
                found.append(f"{name}: {only[0]} in actual alone, {only[1]} in desired")
        if self.limits.ulps is None and self.inexact:
            found.append(f"rtol={self.rtol:.3g}, atol={self.atol:.3g}")
        return found


def _short(x: Numbers) -> str:
    return np.array2string(x, threshold=20, edgeitems=2, separator=", ", prefix="x" * 9)
