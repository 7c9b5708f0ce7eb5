"""Counts, axes and sizes: an integer of any kind is the Python integer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace.numpy as fnp
from ftrace.errors import ArgumentError

#: One, as an integer; bools of NumPy's are what comparisons give.
INTEGERS = (
    np.int8(1), np.uint8(1), np.int64(1), np.array(1), np.array(1, np.uint8),
    fnp.asarray(1),
)  # fmt: skip
BOOLS = (np.True_, np.array(True), fnp.asarray(True))
AXES_0_1 = np.array([0, 1])
#: Of a module, a vector, a matrix and a number k.
COUNTS = """
m.tile(v, k); m.tile(v, (k, 2)); m.repeat(v, k); m.repeat(v, [k, 2, 1, 1])
m.roll(v, k); m.roll(x, (k, 1), (0, 1)); m.rot90(x, k); m.split(v, k)
m.array_split(v, k); m.hsplit(v, k); m.pad(v, (k, 2)); m.pad(x, ((k, 0), (0, k)))
m.eye(3, k=k); m.eye(2, k); m.tri(k); m.tri(3, k=k); m.tril(x, k)
m.triu(x, k); m.diag(v, k); m.diagflat(v, k); m.diagonal(x, k); m.trace(x, k)
m.tril_indices(3, k); m.tril_indices(k); m.triu_indices(k); m.triu_indices(3, k)
m.triu_indices(2, 0, k); m.triu_indices_from(x, k); m.diag_indices(k)
m.diag_indices(2, k)
m.linspace(0, 1, k); m.diff(v, k); m.hanning(k); m.hamming(k); m.blackman(k)
m.bartlett(k); m.kaiser(k, 2.0); m.polyder(v, k); m.polyint(v, k); m.cov(x, ddof=k)
m.var(x, ddof=k); m.round(x, k); m.tensordot(x, x.T, k); m.unravel_index(k, (2, 3))
m.unpackbits(v.astype("u1"), count=k); m.linalg.matrix_power(x[:, :2], k)
m.histogram(v, k); m.take(v, k)
"""
AXES = """
m.sum(x, k); m.argmax(x, k); m.cumsum(x, k); m.sort(x, k); m.median(x, k)
m.expand_dims(x, k); m.flip(x, k); m.swapaxes(x, 0, k); m.moveaxis(x, 0, k)
m.transpose(x, (k, 0)); m.concatenate([x, x], k); m.stack([x, x], k); m.roll(x, 1, k)
m.fft.fft(x, axis=k); m.zeros(k); m.ones((k, 2)); m.full((2, k), 3)
m.indices((k, 2)); m.reshape(v, (k, 4)); m.broadcast_to(v, (k, 4)); m.resize(v, (k, 3))
m.split(v, [k]); m.unravel_index(0, (k, 3)); m.take(x, 0, axis=k)
x.sum(k); x.reshape(k, 6)
"""


def _calls(*tables: str) -> list[str]:
    return [
        call.strip()
        for table in tables
        for call in table.replace("\n", ";").split(";")
        if call.strip()
    ]


def _evaluate(call: str, module: Any, k: Any) -> list[Any]:
    asarray: Callable[[Any], Any] = module.asarray
    x = asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    v = asarray(np.arange(4, dtype=np.int32))
    found = eval(call, {"np": np, "m": module, "x": x, "v": v, "k": k})
    parts = found if isinstance(found, (tuple, list)) else [found]
    return [np.asarray(part) for part in parts]


def _agree(found: list[Any], wanted: list[Any]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("call", _calls(COUNTS, AXES))
def test_an_integer_of_any_kind_is_the_python_integer(call: str) -> None:
    wanted = _evaluate(call, np, 1)
    for k in (1, *INTEGERS):
        _agree(_evaluate(call, fnp, k), wanted)


def test_axes_may_be_an_array() -> None:
    for call in (
        "m.apply_over_axes(m.sum, x, k)", "m.tensordot(x, x, [k, k])",
        "m.tensordot(x, x, np.stack([k, k]))", "m.sum(x, tuple(k))", "m.tile(v, k)",
    ):  # fmt: skip
        _agree(_evaluate(call, fnp, AXES_0_1), _evaluate(call, np, AXES_0_1))


@pytest.mark.parametrize("call", _calls(COUNTS))
def test_a_bool_counts_as_0_or_1(call: str) -> None:
    if "histogram" in call or "take" in call:
        return  # there it is an array
    for k in BOOLS:
        _agree(_evaluate(call, fnp, k), _evaluate(call, np, 1))


@pytest.mark.parametrize("call", _calls(AXES))
def test_a_bool_of_numpys_is_no_axis_and_no_size(call: str) -> None:
    for k in BOOLS:
        with pytest.raises(ArgumentError, match="must be an integer"):
            _evaluate(call, fnp, k)
