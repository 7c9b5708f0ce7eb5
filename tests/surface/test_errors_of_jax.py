"""Wrong calls raise what JAX raises for them, as well as what ours are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import custom_batching, lax
from ftrace.experimental import checkify
from ftrace.experimental.sparse import BCOO
from ftrace.scipy import signal, special

X = np.ones((4, 4), np.float32)
V = np.ones(3, np.float32)
INTEGERS = np.arange(3, dtype=np.int32)

#: What is called -> the class that JAX 0.10.2 raises.
WRONG: dict[Callable[[], Any], type[Exception]] = {
    lambda: signal.convolve2d(X, X, boundary="wrap"): NotImplementedError,
    lambda: signal.correlate2d(X, X, fillvalue=1): NotImplementedError,
    lambda: fnp.add.at(V, 0, 1.0): NotImplementedError,
    lambda: fnp.pad(V, 1, mode="foo"): NotImplementedError,
    lambda: fnp.take(V, INTEGERS, mode="raise"): NotImplementedError,
    lambda: fnp.take(V, INTEGERS, mode="foo"): ValueError,
    lambda: fnp.put(V, INTEGERS, 1.0, inplace=True): ValueError,
    lambda: fnp.round(INTEGERS, -1): NotImplementedError,
    lambda: BCOO.fromdense(X) + 1: NotImplementedError,
    lambda: BCOO.fromdense(X) - 1: NotImplementedError,
    lambda: ft.random.key(0).astype("float32"): NotImplementedError,
    lambda: lax.scan(lambda c, x: (c, x), 0, fnp.float32(1)): IndexError,
    lambda: lax.map(lambda x: x, fnp.float32(1)): IndexError,
    lambda: fnp.arange(1, 2, 0): ZeroDivisionError,
    lambda: fnp.arange(1.0, 2, 0.0): ZeroDivisionError,
    lambda: lax.while_loop(lambda c: (c < 3,), lambda c: c + 1, 0): TypeError,
    lambda: lax.while_loop(lambda c: [c < 3], lambda c: c + 1, 0): TypeError,
    lambda: checkify.check(1, "a"): TypeError,
    lambda: checkify.check(np.int32(1), "a"): TypeError,
}


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_an_error_is_of_the_class_of_jax_too(number: int) -> None:
    call, expected = list(WRONG.items())[number]
    with pytest.raises(expected) as caught:
        call()
    assert isinstance(caught.value, ft.errors.FtraceError)


def _products(how: Any) -> list[Callable[[], Any]]:
    image = X[None, None]
    return [
        lambda: lax.dot(X, X, precision=how),
        lambda: lax.dot_general(X, X, (((1,), (0,)), ((), ())), precision=how),
        lambda: lax.batch_matmul(X[None], X[None], precision=how),
        lambda: lax.conv(image, image, (1, 1), "SAME", precision=how),
        lambda: fnp.matmul(X, X, precision=how),
        lambda: fnp.dot(X, X, precision=how),
        lambda: fnp.vdot(X, X, precision=how),
        lambda: fnp.vecdot(X, X, precision=how),
        lambda: fnp.inner(X, X, precision=how),
        lambda: fnp.tensordot(X, X, precision=how),
        lambda: fnp.einsum("ij,jk", X, X, precision=how),
        lambda: fnp.convolve(V, V, precision=how),
        lambda: fnp.correlate(V, V, precision=how),
        lambda: fnp.linalg.multi_dot([X, X], precision=how),
        lambda: signal.convolve2d(X, X, precision=how),
    ]


@pytest.mark.parametrize("how", ["foo", 3, ("high", "foo"), ("high",) * 3])
def test_a_precision_that_is_none_is_refused(how: Any) -> None:
    for product in _products(how):
        with pytest.raises(ValueError, match="precision must be"):
            product()


@pytest.mark.parametrize(
    "how",
    ["bfloat16", "highest", ("high", "default"), "BF16_BF16_F32", lax.Precision.HIGH,
     lax.DotAlgorithmPreset.F32_F32_F32],
)  # fmt: skip
def test_every_way_to_ask_for_a_precision_is_taken(how: Any) -> None:
    for product, plain in zip(_products(how), _products(None), strict=True):
        np.testing.assert_allclose(product(), plain(), rtol=1e-6)


def test_results_have_the_types_of_jax() -> None:
    """Weak of weak numbers, arrays of functions with a rule, windows of whole sizes."""
    for value in (
        special.gammainc(2, 1), special.gammaincc(2, 1), special.betainc(1.0, 2.0, 0.5),
        lax.igamma(2.0, 1.0), lax.igammac(2.0, 1.0), lax.betainc(1.0, 2.0, 0.5),
    ):  # fmt: skip
        assert value.weak_type
    assert not special.gammainc(V, 1).weak_type

    called = custom_batching.custom_vmap(lambda x: (1.0, 2.0 * x))
    called.def_vmap(lambda size, batched, x: ((1.0, 2.0 * x), (False, True)))
    assert all(isinstance(x, ft.Array) for x in called(1.0))

    assert fnp.hanning(4.5).shape == fnp.kaiser(4.0, 1.0).shape == (4,)
    with ft.config(jax_enable_x64=False):
        assert fnp.promote_types("uint32", "int32") == np.int32
        assert fnp.promote_types("uint32", "int64") == np.int64
