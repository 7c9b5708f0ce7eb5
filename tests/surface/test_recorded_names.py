"""Names of numpy, lax, nn and image that few programs call, held to recorded values."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, image, lax, nn
from tests.data import names_cases as cases

RECORDED = cases.recorded()
NAMES = {"jax": ft, "jnp": fnp, "lax": lax, "nn": nn, "image": image}


@pytest.mark.parametrize("section", cases.SECTIONS)
def test_names_agree_with_what_jax_gave(section: str) -> None:
    found: list[str] = []
    for expression in cases.expressions(section):
        wanted = RECORDED[expression]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = cases.outcome(expression, NAMES)
        if wanted is None or got is None:
            same = wanted is got
        else:
            same = got.shape == wanted.shape and got.dtype == wanted.dtype
            same = same and np.allclose(got, wanted, 2e-5, 5e-5, equal_nan=True)
        if not same:
            found.append(f"{expression}: {got!r}, but JAX gave {wanted!r}"[:400])
    assert not found, "\n".join(found)


def test_ufuncs_are_objects_that_travel() -> None:
    assert pickle.loads(pickle.dumps(fnp.add)) is fnp.add
    assert isinstance(fnp.add, fnp.ufunc)
    assert not isinstance(fnp.exp, fnp.ufunc)
    made = fnp.frompyfunc(lambda x, y: x * y + 1, 2, 1, identity=0)
    assert isinstance(made, fnp.ufunc)
    assert (made.nin, made.nout, made.nargs, made.identity) == (2, 1, 2, 0)
    assert (fnp.add.nin, fnp.add.nout, fnp.add.identity) == (2, 1, 0)
    assert fnp.negative.nargs == 1
    with pytest.raises(errors.ImmutableError, match="inplace=False"):
        fnp.add.at(fnp.arange(3), 1, 2)
    with pytest.raises(errors.ValueRangeError, match="two operands"):
        fnp.negative.reduce(fnp.arange(3))
    with pytest.raises(errors.ArgumentError, match="takes 2 arguments, got 1"):
        made(1)


def test_files_and_texts_come_back(tmp_path: Path) -> None:
    for dtype in ("float32", "bfloat16", "complex64", "bool"):
        x = fnp.ones((2, 3), dtype)
        fnp.save(tmp_path / "x.npy", x)
        back = fnp.load(tmp_path / "x.npy")
        assert back.dtype == dtype
        np.testing.assert_array_equal(back, x)
    fnp.savez(tmp_path / "x.npz", a=x)
    np.testing.assert_array_equal(fnp.load(tmp_path / "x.npz")["a"], x)
    np.arange(4.0).tofile(tmp_path / "raw")
    assert fnp.fromfile(tmp_path / "raw", "float64").tolist() == [0, 1, 2, 3]
    assert fnp.fromiter((i * i for i in range(4)), int, 3).tolist() == [0, 1, 4]
    assert fnp.fromiter(range(2)).dtype == "float32"
    assert fnp.array_repr(fnp.arange(2.0)) == "Array([0., 1.], dtype=float32)"
    assert [fnp.iterable(x) for x in (fnp.ones(()), fnp.ones(1), 1)] == [0, 1, 0]


def test_bits_are_those_of_integers() -> None:
    rng = np.random.default_rng(0)
    for name in ("int64", "uint64", "int32", "uint8"):
        info = np.iinfo(name)
        x, y = rng.integers(info.min, info.max, (2, 99), name, endpoint=True)
        want = [int(a) * int(b) >> info.bits for a, b in zip(x, y, strict=True)]
        assert lax.mulhi(x, y).tolist() == want
    x = rng.normal(size=200).astype(np.float32) * 10.0 ** rng.integers(-9, 9, 200)
    x = x.astype(np.float32)
    normal = np.abs(x) >= 2.0**-14
    half = lax.reduce_precision(x, 5, 10)
    with np.errstate(over="ignore"):
        want = np.where(normal, x.astype(np.float16), x * np.float32(0))
    np.testing.assert_array_equal(half, want)
    np.testing.assert_array_equal(
        lax.reduce_precision(x, 8, 7), x.astype(fnp.bfloat16.dtype).astype(np.float32)
    )
    slope = ft.jit(ft.grad(lambda v: lax.reduce_precision(v * v, 8, 7).sum()))(x)
    np.testing.assert_allclose(slope, 2 * x, 2**-7)
    key = np.array([1, 2, 3, 4], np.uint32)
    moved, bits = ft.jit(lambda k: lax.rng_bit_generator(k, (2, 3)))(key)
    assert moved.tolist() == [1, 2, 5, 4]
    assert bits.ravel()[:3].tolist() == [512747620, 1298009047, 1267190206]  # JAX's
    with ft.config(enable_x64=False):
        assert lax.rng_bit_generator(key, (2, 3))[1].tolist() == bits.tolist()
    wide = lax.rng_bit_generator(key, (2,), "uint64")[1]
    assert wide.tolist() == [5574906407289874532, 3272025663544478142]
    drawn = [lax.rng_uniform(-1, 4, (50,)) for _ in range(2)]
    assert not fnp.array_equal(*drawn)
    assert set(np.ravel(drawn)) == {-1, 0, 1, 2, 3}


def test_a_branch_is_that_of_the_device() -> None:
    def chosen() -> int:
        return lax.platform_dependent(cpu=lambda: 1, tpu=lambda: 2, default=lambda: 3)

    assert chosen() == 1
    with pytest.raises(errors.DeviceError, match="default="):
        lax.platform_dependent(1, tpu=lambda x: x)
    twice = lax.composite(lambda x, *, times=2: x * times, "our.times")
    assert ft.vmap(twice)(np.arange(2.0)).tolist() == [0, 2]
    assert twice(3, times=4) == 12
    for derivative in (ft.grad(twice), ft.jit(ft.grad(twice)), ft.grad(ft.jit(twice))):
        with pytest.raises(errors.DerivativeError, match="JVP rule for composite"):
            derivative(3.0)
    ruled = ft.custom_jvp(lambda x: twice(x, times=4))
    ruled.defjvp(lambda p, t: (ruled(*p), 5 * t[0]))
    assert ft.value_and_grad(ruled)(3.0) == (12, 5)
    assert lax.dce_sink({"x": fnp.ones(3)}) is None
