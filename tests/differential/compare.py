"""A case, called in ftrace and in JAX, and what of it differs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import numpy as np

import ftrace as ft
from ftrace.errors import FtraceError
from tests.differential.cases import Case
from tests.differential.kinds import Given
from tests.differential.modes import Library, run
from tests.differential.outcomes import (
    Difference,
    Outcome,
    _wide,
    close,
    describe,
    differences,
    failed,
)

X64 = {"narrow": False, "wide": True, "default": None}
_WIDE = ("int64", "uint64", "float64", "complex128")


@cache
def library(name: str) -> Library:
    return Library(name)


def call_ftrace(case: Case) -> Outcome:
    """What ftrace gives, in the case's setting."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with ft.config(enable_x64=X64[case.setting]):
            try:
                return describe(run(library("ftrace"), case))
            except Exception as error:
                return failed(error, isinstance(error, FtraceError))


def call_jax(case: Case, wide: bool | None = None) -> Outcome:
    """What JAX gives, in its dtype mode that is nearest to the case's setting."""
    import jax

    if wide is None:
        wide = expects_wide(case)
    with warnings.catch_warnings(), np.errstate(all="ignore"), jax.enable_x64(wide):
        warnings.simplefilter("ignore")
        try:
            return describe(run(library("jax"), case))
        except Exception as error:
            return failed(error, True)


def expects_wide(case: Case) -> bool:
    """Is JAX's 64-bit mode the one to compare with?

    By default ftrace keeps the dtypes of its inputs: it is JAX with 64 bits where an
    input has them, but for what creates arrays.
    """
    if case.setting == "default":
        return any(g.traced and g.dtype in _WIDE for _, g in case.arguments())
    return case.setting == "wide"


def is_loose(case: Case) -> bool:
    return case.setting == "default" and expects_wide(case)


class Widened(Case):
    """A case whose floats are float64, and whose exact result tells who is right."""

    def arguments(self) -> list[tuple[str | None, Given]]:
        narrow = self.setting == "narrow"
        return [(keyword, _widen(x, narrow)) for keyword, x in super().arguments()]


def _widen(value: Given, narrow: bool) -> Given:
    if value.form == "static" or value.data.dtype.kind in "biu":
        return value
    wide = _wide(value.data)
    if narrow and wide.dtype == value.data.dtype:
        rounded = np.complex64 if wide.dtype.kind == "c" else np.float32
        wide = wide.astype(rounded).astype(wide.dtype)
    return replace(
        value,
        data=wide,
        dtype=str(wide.dtype) if value.form != "python" else value.dtype,
    )


def settle(case: Case, found: Outcome, wanted: Outcome) -> Outcome:
    """What is wanted, where JAX's own rounding is larger than what is allowed.

    The same call with 64 bits tells what the numbers should have been; what is as near
    to them as JAX's is right.
    """
    exact = call_jax(Widened(case.row, case.number, case.seed, case.factors), True)
    if exact.structure != wanted.structure or exact.error:
        return wanted
    leaves = []
    for a, b, c in zip(found.leaves, wanted.leaves, exact.leaves, strict=True):
        x, z = _wide(a.values).reshape(-1), _wide(c.values).reshape(-1)
        right = (
            a.shape == c.shape and x.dtype.kind == z.dtype.kind and x.dtype.kind in "fc"
        )
        if right and a.dtype != "float0":
            with np.errstate(all="ignore"):
                z = z.astype(a.values.dtype).astype(z.dtype)  # overflow included
                y = _wide(b.values).reshape(-1)
                nearer = np.abs(x - z) <= np.abs(y - z)
            if (close(case, x, z, a.dtype) | nearer).all():
                b = replace(b, values=np.where(nearer, x, z).reshape(b.shape))
        leaves.append(b)
    return replace(wanted, leaves=leaves)


def compare(
    case: Case, wanted: Outcome | None = None
) -> tuple[list[Difference], Outcome]:
    """What differs from JAX, or from what was recorded, and what was wanted."""
    found = call_ftrace(case)
    asked = wanted is None
    if wanted is None:
        wanted = call_jax(case)
        if wanted.error == "Missing":
            return [], wanted
    result = differences(case, found, wanted, is_loose(case))
    if asked and any(d.what == "value" for d in result):
        wanted = settle(case, found, wanted)
        result = differences(case, found, wanted, is_loose(case))
    return result, wanted
