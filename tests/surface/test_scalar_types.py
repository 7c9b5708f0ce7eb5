"""Names of dtypes: what they equal, how they hash, what they are."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ftrace.numpy as fnp

NAMES = (
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64", "complex64", "complex128", "bool_", "bfloat16",
)  # fmt: skip


def test_bool_is_a_name_of_a_dtype() -> None:
    assert fnp.bool is fnp.bool_
    x = fnp.zeros(3, fnp.bool)
    assert (x.dtype, x.astype("f4").astype(fnp.bool).dtype) == ("bool", "bool")
    for kind in (fnp.flexible, fnp.character):
        assert not fnp.issubdtype(fnp.float32, kind)


class _Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_scalar_type_equals_numpys_and_has_its_hash(name: str) -> None:
    ours = getattr(fnp, name)
    theirs = ml_dtypes.bfloat16 if name == "bfloat16" else getattr(np, name)
    dtype = np.dtype(theirs)
    assert ours == theirs
    assert theirs == ours
    assert ours == dtype
    assert dtype == ours
    assert hash(ours) == hash(theirs)
    assert {ours: 1}[theirs] == {theirs: 1}[ours] == 1
    assert dtype in (ours,)
    assert [n for n in NAMES if getattr(fnp, n) == ours] == [name]
    assert [n for n in NAMES if getattr(fnp, n) == dtype] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_a_scalar_type_compares_with_any_object(name: str) -> None:
    ours = getattr(fnp, name)
    others: list[Any] = [
        "text", "float32", name, b"f4", None, 1, 1.5, [], {}, (1, 2), [("a", "f4")],
        object(), _Hostile(), int, float, bool, type, np.ones(2), np.float32(1),
        fnp.ones(2), "?", "float32,float32", np, ours(1),
    ]  # fmt: skip
    for other in others:
        assert (ours == other) is False
        assert (ours != other) is True
    assert ours not in {"float32": 1, "bool": 2, float: 3}


@pytest.mark.parametrize("name", NAMES)
def test_a_scalar_type_is_a_class(name: str) -> None:
    ours = getattr(fnp, name)
    theirs = np.dtype(ours).type
    assert isinstance(ours, type)
    assert not issubclass(ours, np.generic)
    assert isinstance(theirs(1), ours)
    assert not isinstance(fnp.ones((), ours), ours)
    for made in (
        copy.copy(ours),
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
    ):
        assert made is ours
    for _ in range(12):
        made = ours(1)
        assert (made.dtype, made.shape, made.weak_type) == (ours, (), False)
        assert fnp.zeros(2, ours).dtype == fnp.asarray([1], dtype=ours).dtype == ours
    assert fnp.dtype(ours) is np.dtype(theirs)
    kind = fnp.iinfo if np.dtype(ours).kind in "iu" else fnp.finfo
    if name != "bool_":
        assert kind(ours).bits == kind(np.dtype(ours)).bits
    assert repr(ours) == f"ftrace.numpy.{np.dtype(ours)}"
