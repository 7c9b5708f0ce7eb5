"""What is named by types: dtypes, annotations, errors, arrays' methods, trees."""

from __future__ import annotations

import dataclasses
import io
import logging
import sys
import typing
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import (
    debug,
    dlpack,
    dtypes,
    errors,
    lax,
    nn,
    tree_util,
    typing as ft_typing,
)
from ftrace.ad_checkpoint import Offloadable, Recompute, Saveable
from ftrace.lax import linalg


def test_dtypes_of_few_bits_have_limits_and_kinds() -> None:
    assert len(dtypes.NARROW) >= 9
    for name, dtype in dtypes.NARROW.items():
        named = getattr(fnp, name)
        assert named == dtype
        assert np.dtype(named) == dtype
        integer = "int" in name
        assert fnp.issubdtype(named, fnp.integer if integer else fnp.floating)
        assert not fnp.issubdtype(named, fnp.floating if integer else fnp.integer)
        limits: Any = fnp.iinfo(name) if integer else fnp.finfo(name)
        wanted: Any = (ml_dtypes.iinfo if integer else ml_dtypes.finfo)(dtype)
        assert limits.max == wanted.max
    assert fnp.issubdtype(fnp.uint4, fnp.unsignedinteger)
    assert not fnp.issubdtype(fnp.uint4, np.signedinteger)
    assert fnp.issubdtype(fnp.bfloat16, np.floating)
    assert fnp.isdtype(fnp.int4, "signed integer")
    assert fnp.isdtype("float8_e5m2", ("bool", "real floating"))
    assert not fnp.issubdtype(fnp.int4, object)
    for x64 in (True, False, None):
        with ft.config(jax_enable_x64=x64):
            assert fnp.issubdtype(fnp.int64, np.dtype("int64"))
            assert fnp.promote_types(np.dtype("int8"), np.dtype("int32")) == "int32"
            assert fnp.result_type(np.float32, "int8", np.dtype("bool")) == "float32"
    bits = {"int4": 4, "float8_e5m2": 8, "float32": 32, "bool": 8, "bfloat16": 16}
    assert [dtypes.itemsize_bits(name) for name in bits] == list(bits.values())
    assert dtypes.canonicalize_dtype("float64") == "float64"
    assert dtypes.result_type(1, 2.0, return_weak_type_flag=True) == ("float32", True)
    for dtype in (np.dtype("float64"), np.dtype("int64"), np.dtype("complex128")):
        assert not dtypes.result_type(dtype, return_weak_type_flag=True)[1]
    kinds = [dtypes.scalar_type_of(x) for x in (True, 1, np.int8(1), fnp.ones(1), 1j)]
    assert kinds == [bool, int, int, float, complex]


def test_descriptions_of_arrays_stand_for_them() -> None:
    described = ft.ShapeDtypeStruct((2, 3), "complex64")
    for make in (fnp.zeros_like, fnp.ones_like, fnp.empty_like):
        made = make(described)
        assert (made.shape, made.dtype) == ((2, 3), "complex64")
    assert fnp.full_like(ft.ShapeDtypeStruct((2,), "int32"), 3.5).tolist() == [3, 3]
    assert (fnp.shape(described), fnp.ndim(described)) == ((2, 3), 2)
    assert (fnp.size(described), fnp.result_type(described)) == (6, "complex64")
    for is_complex in (described, np.dtype("complex64"), fnp.complex64, 1j, [1j]):
        assert fnp.iscomplexobj(is_complex)
    for is_real in (fnp.float32, np.float64, np.dtype("int8"), [1.0]):
        assert fnp.isrealobj(is_real)


def test_arrays_have_the_methods_of_jax() -> None:
    x = fnp.arange(4.0)
    assert x.compress(np.array([True, False, True, False])).tolist() == [0, 2]
    assert fnp.array([0, 1]).choose([x[:2], x[2:]]).tolist() == [0, 3]
    assert 3 in x
    assert 9 not in x
    assert x.on_device_size_in_bytes() == 16
    assert x.platform() == "cpu"
    assert x.copy_to_host_async() is None
    assert x.unsafe_buffer_pointer() == x.__array__().ctypes.data
    assert x.clone().tolist() == x.tolist()
    for dtype in ("int16", "uint32", "float64", "int64"):
        y = np.arange(5).astype(dtype)
        want = y.byteswap().view(f"u{y.itemsize}")
        assert fnp.asarray(y).byteswap().view(want.dtype).tolist() == want.tolist()


def test_types_and_errors_have_the_names_of_jax() -> None:
    assert ft.Array in typing.get_args(ft_typing.ArrayLike)
    assert np.dtype in typing.get_args(ft_typing.DTypeLike)
    assert not isinstance([1], typing.get_args(ft_typing.ArrayLike)[0])
    groups = {
        errors.JAXTypeError: errors.TracerBoolConversionError,
        errors.JAXIndexError: errors.NonConcreteBooleanIndexError,
        errors.JaxRuntimeError: errors.OutOfMemoryError,
        errors.JaxprTypeError: errors.GraphError,
        errors.InconclusiveDimensionOperation: errors.DynamicDimensionError,
    }
    assert all(issubclass(ours, group) for group, ours in groups.items())
    with pytest.raises(errors.JAXTypeError):
        ft.jit(lambda x: 1 if x else 2)(1.0)
    supported = [dlpack.is_supported_dtype(d) for d in ("float32", bool, "int4")]
    assert supported == [True, True, False]
    assert dlpack.from_dlpack(np.ones(2)).tolist() == [1, 1]


def _answer(word: Any, *_: Any, **__: Any) -> Any:
    return word


def test_policies_may_answer_in_words() -> None:
    for word in (Saveable, Recompute, Offloadable("device", "host")):
        answer = partial(_answer, word)
        kept = ft.checkpoint(lambda x: fnp.sin(fnp.sin(x)), policy=answer)
        np.testing.assert_allclose(ft.grad(kept)(0.5), 0.7785, 1e-3)


def test_trees_have_static_fields_and_a_registry() -> None:
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        x: float
        name: str = ft.tree.static(default="model", metadata={"of": "us"})

    assert ft.tree.leaves(Model(3.0)) == [3.0]
    assert dataclasses.fields(Model)[1].metadata == {"static": True, "of": "us"}

    class Pair:
        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

    registry = tree_util.default_registry
    registry.register_node(Pair, lambda p: ((p.x, p.y), None), lambda _, xy: Pair(*xy))
    assert registry.flatten(Pair(1, [2]))[0] == [1, 2]
    assert registry.is_node(Pair)
    children, _ = registry.flatten_one_level(Pair(1, [2])) or ([], None)
    assert list(children) == [1, [2]]
    assert registry.flatten_one_level(3) is None


def test_debug_logs_and_stops(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @ft.jit
    def f(x: Any) -> Any:
        y = x * 2
        debug.log("y is {}", y)
        debug.breakpoint()
        return y

    monkeypatch.setattr(sys, "stdin", io.StringIO("print('seen', y, x + 1)\n"))
    printed = io.StringIO()
    monkeypatch.setattr(sys, "stdout", printed)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level(logging.INFO, "ftrace.debug"):
        f(fnp.ones(2))
    assert [record.getMessage() for record in caplog.records] == ["y is [2. 2.]"]
    assert "seen [2. 2.] [2. 2.]" in printed.getvalue()
    with pytest.raises(errors.ArgumentError, match="asks for the argument 1"):
        debug.log("{} {}", 1)


def test_polar_decomposition() -> None:
    x = np.cos(np.arange(12) * 1.7).reshape(4, 3)
    for a in (x, x[:3], x.astype("float32"), x + 1j * x[::-1], 1e-20 * x):
        u, h, steps, converged = linalg.qdwh(a)
        size, eps = np.abs(a).max(), float(fnp.finfo(a.dtype).eps)
        np.testing.assert_allclose(u @ h, a, 0, 30 * eps * size)
        np.testing.assert_allclose(u.conj().T @ u, np.eye(3), 0, 30 * eps)
        assert np.linalg.eigvalsh(h).min() > -30 * eps * size
        assert converged
        assert steps <= 9
    assert not linalg.qdwh(x, max_iterations=2)[3]
    with pytest.raises(errors.ShapeError, match="transpose it"):
        linalg.qdwh(x.T)


def _rounded(x: Any, mode: str) -> Any:
    """The operand as float32, after NumPy and ml_dtypes have rounded it."""
    block = {"mxfp8": 32, "nvfp4": 16}[mode]
    parts = x.reshape(*x.shape[:-1], -1, block)
    if mode == "mxfp8":
        scales = np.abs(parts).max(-1, keepdims=True) / 448
        scales = 2.0 ** np.ceil(np.log2(scales))
        kind: Any = ml_dtypes.float8_e4m3fn
    else:
        scales = np.abs(parts).max(-1, keepdims=True) / 6
        scales = scales.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
        kind = ml_dtypes.float4_e2m1fn
    most = float(ml_dtypes.finfo(kind).max)
    rounded = np.clip(parts / scales, -most, most).astype(kind).astype(np.float32)
    return (rounded * scales).reshape(x.shape).astype(np.float32)


@pytest.mark.parametrize("mode", ["mxfp8", "nvfp4"])
def test_scaled_products_round_to_their_formats(mode: str) -> None:
    rng = np.random.default_rng(0)
    x, y, weights = (
        (rng.normal(size=s) * np.exp(rng.normal(size=s))).astype(np.float32)
        for s in ((2, 32, 64), (2, 32, 64), (2, 32, 32))
    )
    axes = (((2,), (2,)), ((0,), (0,)))
    configs = [nn.get_scaled_dot_general_config(mode)] * 3

    def product(x: Any, y: Any) -> Any:
        return nn.scaled_dot_general(x, y, axes, configs=configs)

    want = np.einsum("bmk,bnk->bmn", _rounded(x, mode), _rounded(y, mode))
    np.testing.assert_allclose(product(x, y), want, 1e-5, 1e-4)
    slope = ft.jit(ft.grad(lambda x, y: (product(x, y) * weights).sum()))(x, y)
    if mode == "mxfp8":
        turned = _rounded(np.ascontiguousarray(y.swapaxes(1, 2)), mode)
        want = np.einsum("bmn,bkn->bmk", _rounded(weights, mode), turned)
    else:
        want = np.einsum("bmn,bnk->bmk", weights, y)
    np.testing.assert_allclose(slope, want, 1e-4, 1e-3)
    plain = nn.scaled_dot_general(x, y, axes)
    np.testing.assert_allclose(plain, lax.dot_general(x, y, axes), 1e-6)
    with pytest.raises(errors.ShapeError, match="multiple of"):
        product(x[..., :40], y[..., :40])
    with pytest.raises(errors.ShapeError, match="multiple of blocks"):
        nn.scaled_matmul(x, y, x[..., :3], y[..., :3])
