"""Dtypes and weak types of functions of two operands: those that JAX gives.

`tests/data/record_promotion.py` says what is recorded. Here it is held for arrays,
NumPy's arrays and scalars and Python's numbers, called eagerly, again, and traced.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes, lax
from tests.data import record_promotion as promotion
from tests.support.covering import covering

RECORDED = promotion.load()
PAIRS = list(product([*promotion.DTYPES, *promotion.SCALARS], repeat=2))
SWITCH = {"narrow": False, "wide": True, "default": None}
#: What a scalar of NumPy's is beside an array by default.
WEAK = {"int64": "1", "float64": "1.0", "complex128": "1j"}
NARROW = {"int64~": "int32~", "float64~": "float32~", "complex128~": "complex64~"}

#: Where ftrace differs on purpose: in which mode, functions, what it gives, what JAX
#: gives, and why.
PURPOSES = (
    (r".*", r".*", r"bool", r"bool~", "bools are never weak"),
    (
        r"default", r".*", r"(float32|complex64)~?", r"(float64|complex128)~?",
        "integers become floats of 32 bits",
    ),
    (
        r".*", r"lax\..*|numpy\.(dot|vdot|kron)", r"[^E]*", r"TypeError",
        "more is taken than in JAX: a Python number beside any array that holds it, "
        "products of bools, complex numbers of 16-bit floats",
    ),
    (
        r".*", r"numpy\.(power|pow)", r"\w+~?", r"(int|float|complex)\d+~?",
        "bools count as the other operand, and powers of numbers are weak",
    ),
    (
        r".*", r"numpy\.(floor_divide|divmod|ldexp)", r"(int|float)\d+~?.*",
        r"(int|float)\d+~?.*", "weak types follow from the operands alone",
    ),
)  # fmt: skip


def _wanted(setting: str, name: str, pair: tuple[str, str]) -> str:
    """What is recorded; by default the dtypes of arrays are kept, and others narrow."""
    wanted = RECORDED[str(setting != "narrow")][name][PAIRS.index(pair)]
    if setting == "default":
        wanted = " ".join(NARROW.get(part, part) for part in wanted.split())
    return wanted


def _right(setting: str, name: str, found: str, wanted: str) -> bool:
    if found == wanted or (found.endswith("Error") and wanted.endswith("Error")):
        return True
    case = (setting, name, found, wanted)
    return any(all(map(re.fullmatch, row, case)) for *row, _ in PURPOSES)


def _wrong(
    name: str, setting: str, pair: tuple[str, str], call: Callable[[], Any]
) -> str:
    return _difference(name, setting, pair, promotion.dtype_of(call))


def _difference(name: str, setting: str, pair: tuple[str, str], found: str) -> str:
    wanted = _wanted(setting, name, pair)
    right = _right(setting, name, found, wanted)
    return "" if right else f"{' '.join(pair)}: {found}, not {wanted}"


def _traced(f: Callable[..., Any]) -> list[str]:
    """What each pair gives in one trace, where arrays are traced, numbers are not."""
    values = promotion.operands(fnp)
    found: list[str] = []

    def function(*traced: Any) -> None:
        operands = [*traced, *promotion.SCALARS.values()]
        found.extend(
            promotion.dtype_of(lambda: f(x, y))  # noqa: B023
            for x, y in product(operands, repeat=2)
        )

    ft.eval_shape(function, *(values[name] for name in promotion.DTYPES))
    return found


@covering(1, setting=SWITCH, name=promotion.NAMES)
def test_types_of_two_operands_are_jaxs(name: str, setting: str) -> None:
    f = promotion.function(ft, name)
    with ft.config(enable_x64=SWITCH[setting]), np.errstate(all="ignore"):
        wrong = [
            _wrong(name, setting, pair, lambda: f(x, y))  # noqa: B023
            for pair, (x, y) in zip(PAIRS, promotion.pairs(fnp), strict=True)
        ]
        wrong += map(partial(_difference, name, setting), PAIRS, _traced(f))
    assert not any(wrong), "\n".join(filter(None, wrong))


def _scalar_pair(setting: str, pair: tuple[str, str], place: int) -> tuple[str, str]:
    """The operands as they count where the one at a place is a scalar of NumPy's."""
    changed = list(pair)
    if setting == "default":
        changed[place] = WEAK.get(pair[place], pair[place])
    return (changed[0], changed[1])


@covering(1, name=promotion.NAMES, setting=SWITCH)
def test_arrays_and_scalars_of_numpy_have_the_types_of_arrays(
    name: str, setting: str
) -> None:
    """Some pairs of each function, each function others; also in later calls."""
    f = promotion.function(ft, name)
    wrong: list[str] = []
    with ft.config(enable_x64=SWITCH[setting]), np.errstate(all="ignore"):
        for pair in PAIRS[promotion.NAMES.index(name) % 11 :: 11]:
            if not set(pair) <= set(promotion.DTYPES):
                continue
            x, y = (np.ones(1, dtypes.as_dtype(d)) for d in pair)
            for place, operands in ((None, (x, y)), (0, (x[0], y)), (1, (x, y[0]))):
                counts = pair if place is None else _scalar_pair(setting, pair, place)
                wrong += [
                    _wrong(name, setting, counts, lambda: f(*operands))  # noqa: B023
                    for _ in range(8)
                ]
    assert not any(wrong), "\n".join(filter(None, wrong))


_WEAK_ALONE = {
    "clz": (lax.clz, 3),
    "conj": (lax.conj, 3.0),
    "resize to nothing": (lambda x: fnp.resize(x, (0,)), 3),
    "unique": (lambda x: fnp.unique(x, size=2), 3.0),
    "unique of nothing": (lambda x: fnp.unique(fnp.full((0,), x)), 3.0),
    "unique_all": (lambda x: fnp.unique_all(x, size=1).values, 3),
    "union1d": (lambda x: fnp.union1d(x, 2, size=2), 3.0),
    "setdiff1d": (lambda x: fnp.setdiff1d(x, 2, size=2), 3.0),
}


@pytest.mark.parametrize("name", _WEAK_ALONE)
def test_what_is_made_of_weak_numbers_alone_is_weak(name: str) -> None:
    function, number = _WEAK_ALONE[name]
    for call in (function, ft.jit(function)):
        assert call(number).weak_type
        assert not call(np.asarray(number)).weak_type
