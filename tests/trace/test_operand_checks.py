"""What functions refuse as an operand, and that they say what to write instead."""

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError, DtypeError

SIZES = (1, 4, 5000)
FOREIGN = {
    "object": lambda n: np.array([object()] * n),
    "long double": lambda n: np.zeros(n, "g"),
    "other bytes": lambda n: np.zeros(n, np.dtype("f4").newbyteorder("S")),
    "text": lambda n: np.array(["a"] * n),
    "date": lambda n: np.zeros(n, "M8[s]"),
}
USES = {
    "add": lambda y: fnp.add(fnp.ones(y.size), y),
    "operator": lambda y: fnp.ones(y.size) + y,
    "reflected": lambda y: fnp.subtract(y, fnp.ones(y.size)),
    "equal": lambda y: fnp.equal(fnp.ones(y.size), y),
    "where": lambda y: fnp.where(fnp.ones(y.size) > 0, fnp.ones(y.size), y),
    "concatenate": lambda y: fnp.concatenate([fnp.ones(y.size), y]),
    "exp": fnp.exp,
    "sum": fnp.sum,
    "sort": fnp.sort,
    "lax": lax.neg,
    "jit": ft.jit(lambda y: y + 1),
    "captured": lambda y: ft.jit(lambda x: x + y)(fnp.ones(y.size)),
    "vmap": ft.vmap(lambda y: y * 2),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("use", USES)
def test_dtypes_that_are_not_ours_are_refused_with_what_to_write(use, kind, size):
    with pytest.raises(DtypeError, match=r"is not supported.*\.astype"):
        USES[use](FOREIGN[kind](size))


def test_other_bytes_are_named_and_the_advice_works():
    y = np.arange(4, dtype=np.dtype("f8").newbyteorder("S"))
    with pytest.raises(DtypeError, match=r"\.astype\('float64'\)"):
        fnp.add(fnp.ones(4), y)
    np.testing.assert_array_equal(fnp.add(fnp.ones(4), y.astype("float64")), y + 1)
    np.testing.assert_array_equal(fnp.asarray(y), np.arange(4))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("use", [*USES, "asarray", "array", "array of a dtype", "put"])
def test_masks_are_never_dropped(use, size):
    more = {
        "asarray": fnp.asarray,
        "array": fnp.array,
        "array of a dtype": lambda y: fnp.array(y, np.float32),
        "put": ft.device_put,
    }
    masked = np.ma.masked_array(np.ones(size, np.float32), np.arange(size) % 2 == 0)
    function = (USES | more)[use]
    for _ in range(5):  # at first and when the call is known
        with pytest.raises(ArgumentError, match=r"filled"):
            function(masked)
    function(masked.filled(0))
    with pytest.raises(ArgumentError, match=r"filled"):
        function(masked)


def test_other_subclasses_are_arrays():
    class Named(np.ndarray):
        """An array of somebody's own."""

    x = np.arange(4.0).view(Named)
    np.testing.assert_array_equal(fnp.add(fnp.ones(4), x), np.arange(4.0) + 1)
    np.testing.assert_array_equal(fnp.exp(x), np.exp(np.arange(4.0)))
