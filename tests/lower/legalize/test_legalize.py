"""Legal kernels: pairs for complex numbers, float32 for 16 bits, plain operations.

The interpreter runs each kernel as it was and as it becomes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.lax as lax
import ftrace.numpy as fnp
from ftrace import dtypes
from ftrace.backends.interpreter import Interpreter
from ftrace.errors import GraphError
from ftrace.lower.kernel.ir import (
    INDEX,
    Kernel,
    Store,
    load,
    param,
    reduce,
    reduce_p,
)
from ftrace.lower.legalize.complex import COMPLEX
from ftrace.lower.legalize.legalize import (
    DECOMPOSITIONS,
    legalize,
    split_complex,
    widen_half,
)
from ftrace.testing import assert_close
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.primitive import PRIMITIVES
from ftrace.trace.primitives.sources import const
from tests.support.kernel_samples import (
    PLAIN,
    axes,
    elementwise_kernel,
    index,
    integer,
    reduced,
    run,
    specs,
)

Array = np.ndarray[Any, Any]
ALL = PLAIN | frozenset(DECOMPOSITIONS)
HALVES = (dtypes.float16, dtypes.bfloat16)
COMPLEX_DTYPES = (dtypes.complex64, dtypes.complex128)
ROUNDING = {dtypes.complex64: 2e-6, dtypes.complex128: 5e-15}


def as_real(x: Array) -> Array:
    """The bytes of complex numbers as pairs of reals."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(flat.real.dtype) if x.dtype.kind == "c" else flat


def run_both(
    kernel: Kernel, inputs: list[Array], outputs: list[Array]
) -> tuple[list[Array], list[Array]]:
    """What the kernel writes, and what the legal one does."""
    wanted = run(Interpreter(), kernel, inputs, outputs)
    legal = legalize(kernel, ALL)
    assert_legal(legal)
    got = run(Interpreter(), legal, [*map(as_real, inputs)], [*map(as_real, outputs)])
    return wanted, [g.view(w.dtype).reshape(w.shape) for g, w in zip(got, wanted)]  # noqa: B905


def assert_legal(kernel: Kernel) -> None:
    """No complex numbers; 16-bit floats in loads and casts only."""
    for node in kernel.nodes:
        assert not dtypes.is_complex(node.dtype), node
        if node.dtype in HALVES:
            assert node.op.name in ("param", "load", "cast", "bitcast"), node
    for spec in kernel.buffers:
        assert not dtypes.is_complex(spec.dtype)
    for store in kernel.stores:
        assert store.value.dtype == kernel.buffers[store.buffer].dtype


def samples(name: str, dtype: Any) -> Array:
    rng = np.random.default_rng(3)
    x = rng.standard_normal(400) + 1j * rng.standard_normal(400)
    x[200:] *= np.exp(rng.uniform(-3, 1, 200))
    if name in ("div", "abs", "sign", "mul", "add", "sub", "sqrt", "log", "rsqrt"):
        x[300:] *= 10.0 ** rng.uniform(-30, 30, 100)
    return x.astype(dtype)


def assert_complex_close(got: Array, wanted: Array, dtype: Any, scale: float) -> None:
    """Close as numbers in the plane: a small part beside a large one may differ."""
    with np.errstate(all="ignore"):
        error = np.abs(got - wanted) / np.maximum(np.abs(wanted), 1e-300)
    assert np.nanmax(np.where(wanted == got, 0, error)) <= scale * ROUNDING[dtype]


# Complex numbers.


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES, ids=str)
@pytest.mark.parametrize(
    "name", [n for n in COMPLEX if n not in ("eq", "ne", "is_finite")]
)
def test_complex_function_is_that_of_the_reference(name: str, dtype: Any) -> None:
    record = PRIMITIVES[name]
    binary = record.family == "binary"
    inputs = [samples(name, dtype)]
    if binary:
        inputs.append(samples(name, dtype)[::-1].copy())
    if name == "pow":
        inputs[1] = np.clip(inputs[1].real, -2, 2) + 0.5j
        inputs[1] = inputs[1].astype(dtype)
    operand = load(param(0, dtype, 400), integer(0)).aval
    aval = record.infer(None, *[operand] * len(inputs))
    kernel, outputs = elementwise_kernel(record, inputs, aval.dtype)
    _, (got,) = run_both(kernel, inputs, outputs)
    # The reference in double precision, where the function is not a difference.
    wide = [x.astype(np.complex128) for x in inputs]
    with np.errstate(all="ignore"):
        wanted = np.asarray(record.numpy(aval, None, *wide))
        if name == "logistic":
            wanted = np.where(wide[0].real < 0, np.exp(wide[0]), 1) / (
                1 + np.exp(np.where(wide[0].real < 0, wide[0], -wide[0]))
            )
    assert_complex_close(got, wanted, dtype, 8.0 if name in ("pow", "log1p") else 1.0)


def test_a_complex_number_is_finite_where_both_parts_are() -> None:
    x = np.array([1 + 2j, complex(np.inf, 0), complex(0, np.nan)], np.complex64)
    kernel, outputs = elementwise_kernel(ew.is_finite, [x], dtypes.bool_)
    (wanted,), (got,) = run_both(kernel, [x], outputs)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("op", [ew.eq, ew.ne], ids=lambda op: op.name)
def test_complex_comparison_asks_both_parts(op: Any) -> None:
    x = np.array([1 + 2j, 1 + 2j, 1 + 2j, np.nan, 0], np.complex64)
    y = np.array([1 + 2j, 1 + 3j, 2 + 2j, np.nan, -0.0], np.complex64)
    kernel, outputs = elementwise_kernel(op, [x, y], dtypes.bool_)
    (wanted,), (got,) = run_both(kernel, [x, y], outputs)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["abs", "sqrt", "exp", "log", "div"])
def test_complex_edges_are_those_of_numpy(name: str) -> None:
    edges = [0, 1, -1, 1j, -1j, -2, np.inf, -np.inf, complex(0, np.inf), -0.0]
    x = np.array(edges, np.complex128)
    inputs = [x]
    if name == "div":
        x, y = (a.ravel() for a in np.meshgrid(x[:6], x[:6]))
        inputs = [x.copy(), y.copy()]
    if name in ("exp", "log"):
        inputs = [x[:8] if name == "log" else x[:6]]
    result = dtypes.float64 if name == "abs" else dtypes.complex128
    kernel, outputs = elementwise_kernel(PRIMITIVES[name], inputs, result)
    (wanted,), (got,) = run_both(kernel, inputs, outputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-14, atol=1e-15)


def test_the_modulus_does_not_overflow_on_the_way() -> None:
    x = np.array([3e38 + 4e37j, 3e-40 + 4e-40j, 3e20 - 4e20j], np.complex64)
    kernel, outputs = elementwise_kernel(ew.absolute, [x], dtypes.float32)
    _, (got,) = run_both(kernel, [x], outputs)
    np.testing.assert_allclose(got, np.abs(x.astype(np.complex128)), rtol=1e-5)


def test_a_complex_number_times_its_conjugate_is_real() -> None:
    x = samples("mul", dtypes.complex64)[:200]
    kernel, outputs = elementwise_kernel(
        lambda z: ew.imag(ew.mul(z, ew.conj(z))), [x], dtypes.float32
    )
    _, (got,) = run_both(kernel, [x], outputs)
    assert not got.any()


def test_complex_parts_casts_and_choices() -> None:
    x = samples("add", dtypes.complex64)
    y = x.real.copy()

    def value(z: Any, r: Any) -> Any:
        made = ew.make_complex(r, ew.imag(z))
        wide = ew.cast(ew.cast(made, dtypes.complex128), z.dtype)
        flag = ew.gt(ew.real(z), ew.cast(const(0, r.dtype), r.dtype))
        some = ew.bit_and(flag, ew.cast(z, dtypes.bool_))
        return ew.select(some, ew.copy(wide), ew.cast(ew.cast(z, r.dtype), z.dtype))

    kernel, outputs = elementwise_kernel(value, [x, y], dtypes.complex64)
    (wanted,), (got,) = run_both(kernel, [x, y], outputs)
    np.testing.assert_array_equal(got, wanted)


def test_the_bits_of_complex64_are_kept() -> None:
    x = samples("add", dtypes.complex64)

    def value(z: Any) -> Any:
        flipped = ew.bit_xor(ew.bitcast(z, arg=dtypes.int64), const(5, dtypes.int64))
        return ew.bitcast(flipped, arg=dtypes.complex64)

    kernel, outputs = elementwise_kernel(value, [x], dtypes.complex64)
    (wanted,), (got,) = run_both(kernel, [x], outputs)
    np.testing.assert_array_equal(got.view(np.int64), wanted.view(np.int64))


def reduction_kernel(op: str, x: Array) -> tuple[Kernel, list[Array]]:
    out = np.zeros(x.shape[0], x.dtype)
    (i,), (r,) = axes(x.shape[0]), reduced(x.shape[1])
    value = load(param(0, x.dtype, x.size), index((i, x.shape[1]), (r, 1)))
    store = Store(1, i, reduce(op, value, (r,)))
    return Kernel((i,), (store,), specs([x], [out])), [out]


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES, ids=str)
def test_complex_sums(dtype: Any) -> None:
    x = samples("exp", dtype)[:200].reshape(5, 40)
    kernel, outputs = reduction_kernel("add", x)
    _, (got,) = run_both(kernel, [x], outputs)
    wanted = np.sum(x.astype(np.complex128), axis=1)
    assert_complex_close(got, wanted, dtype, 20.0)
    with pytest.raises(GraphError, match="complex numbers have no mul"):
        split_complex(reduction_kernel("mul", x)[0])


def scatter_kernel(combine: str) -> tuple[Kernel, list[Array], list[Array]]:
    x, at = samples("exp", dtypes.complex64)[:6], np.array([1, 0, 1, 2, 1, 9], np.int64)
    out = np.ones(3, np.complex64)
    (i,) = axes(6)
    place = load(param(1, at.dtype, 6), i)
    value = load(param(0, x.dtype, 6), i)
    store = Store(2, place, value, ew.lt(place, integer(3)), combine)
    kernel = Kernel((i,), (store,), specs([x, at], [out]), frozenset((0,)))
    return kernel, [x, at], [out]


@pytest.mark.parametrize("combine", ["", "add"])
def test_complex_scatter(combine: str) -> None:
    kernel, inputs, outputs = scatter_kernel(combine)
    (wanted,), (got,) = run_both(kernel, inputs, outputs)
    assert_close(got, wanted, rtol=1e-6, scaled=True)


def test_complex_products_in_memory_are_refused() -> None:
    kernel, _, _ = scatter_kernel("mul")
    with pytest.raises(GraphError, match="only a sum"):
        split_complex(kernel)


# 16-bit floats.


def half_values(dtype: Any) -> Array:
    rng = np.random.default_rng(5)
    return (rng.standard_normal(300) * 3).astype(dtype)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_chain_is_rounded_once(dtype: Any) -> None:
    x, y = half_values(dtype), half_values(dtype)[::-1].copy()
    kernel, outputs = elementwise_kernel(
        lambda a, b: ew.mul(ew.add(ew.exp(a), b), const(0.1, dtype)), [x, y], dtype
    )
    _, (got,) = run_both(kernel, [x, y], outputs)
    a, b = x.astype(np.float32), y.astype(np.float32)
    factor = np.asarray(0.1).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(got, ((np.exp(a) + b) * factor).astype(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize(
    "greatest",
    [
        lambda x: fnp.max(x),
        lambda x: fnp.sum(fnp.max(x.reshape(4, 4), axis=1)),
        lambda x: fnp.zeros(4, x.dtype).at[np.arange(16) % 4].max(x).sum(),
        lambda x: lax.reduce_window(
            x, x.dtype.type(-np.inf), lax.max, (3,), (3,), "VALID"
        ).sum(),
        lambda x: lax.cummax(x)[-1],
        lambda x: lax.associative_scan(fnp.maximum, x)[-1],
    ],
)
def test_a_greatest_half_is_one_of_those_it_was_taken_of(
    greatest: Any, dtype: Any
) -> None:
    """So that it has a gradient, though what it was taken of is not stored."""
    x = np.linspace(0.5, 2, 16).astype(dtype)  # squares are far apart

    def square(x: Any) -> Any:
        return greatest(x * x)

    wanted = ft.grad(square)(x.astype(np.float32))
    for slope in (ft.grad(square), ft.jit(ft.grad(square))):
        got = np.asarray(slope(x)).astype(np.float32)
        np.testing.assert_allclose(got, wanted, rtol=0.02)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_half_is_one_number_where_it_is_made_and_where_it_is_loaded(
    dtype: Any,
) -> None:
    """Of three equal quotients none is lost, whichever kernel compares them."""
    x, v = np.ones(3, np.float32), np.array([2.1, 0.37]).astype(dtype)

    def quotients(x: Any, v: Any) -> Any:
        return lax.associative_scan(fnp.maximum, x / fnp.dot(v, v)).sum()

    slope = ft.grad(quotients, argnums=(0, 1))
    wanted, _ = slope(x, v.astype(np.float32))
    for got, _ in (slope(x, v), ft.jit(slope)(x, v)):
        np.testing.assert_allclose(got, wanted, rtol=0.02)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("wide", [dtypes.float32, dtypes.float64], ids=str)
def test_a_cast_of_the_program_rounds(dtype: Any, wide: Any) -> None:
    x = np.random.default_rng(6).standard_normal(300).astype(wide)
    kernel, outputs = elementwise_kernel(
        lambda a: ew.sub(a, ew.cast(ew.cast(a, dtype), wide)), [x], wide
    )
    (wanted,), (got,) = run_both(kernel, [x], outputs)
    assert wanted.any()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_copies_of_halves_keep_every_bit(dtype: Any) -> None:
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    kernel, outputs = elementwise_kernel(ew.copy, [x], dtype)
    legal = legalize(kernel, PLAIN)
    moved, _ = elementwise_kernel(lambda a: a, [x], dtype)
    np.testing.assert_array_equal(
        run(Interpreter(), moved, [x], outputs)[0].view(np.uint16), x.view(np.uint16)
    )
    value = legal.stores[0].value
    assert value.op.name in ("load", "cast")


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_moves_of_bits_see_the_half(dtype: Any) -> None:
    x, y = half_values(dtype), half_values(dtype)[::-1].copy()

    def value(a: Any, b: Any) -> Any:
        bits = ew.bitcast(ew.nextafter(ew.add(a, a), b), arg=dtypes.int16)
        flipped = ew.bit_xor(bits, const(1, dtypes.int16))
        return ew.neg(ew.bitcast(flipped, arg=dtype))

    kernel, outputs = elementwise_kernel(value, [x, y], dtype)
    (wanted,), (got,) = run_both(kernel, [x, y], outputs)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_half_sums_are_computed_in_float32(dtype: Any) -> None:
    x = np.full((2, 4096), 1, dtype)
    kernel, outputs = reduction_kernel("add", x)
    legal = legalize(kernel, PLAIN)
    assert all(n.dtype == dtypes.float32 for n in legal.nodes if n.op is reduce_p)
    (got,) = run(Interpreter(), legal, [x], outputs)
    np.testing.assert_array_equal(got.astype(np.float32), [4096, 4096])


def test_comparisons_and_integers_of_halves() -> None:
    x, y = half_values(dtypes.bfloat16), half_values(dtypes.float16)

    def value(a: Any, b: Any) -> Any:
        less = ew.lt(a, ew.cast(b, a.dtype))
        whole = ew.cast(ew.mul(a, a), dtypes.int32)
        return ew.select(less, whole, ew.cast(b, dtypes.int32))

    kernel, outputs = elementwise_kernel(value, [x, y], dtypes.int32)
    _, (got,) = run_both(kernel, [x, y], outputs)
    wide = x.astype(np.float32)
    less = x < y.astype(np.float32).astype(dtypes.bfloat16)
    np.testing.assert_array_equal(got, np.where(less, wide * wide, y).astype(np.int32))


# Structure.


def test_a_legal_kernel_stays_itself() -> None:
    x = np.ones(4, np.float32)
    kernel, _ = elementwise_kernel(lambda a: ew.add(a, a), [x], dtypes.float32)
    assert legalize(kernel, PLAIN) == kernel
    assert split_complex(kernel) is kernel
    assert widen_half(kernel) is kernel


def test_functions_are_decomposed_where_the_device_lacks_them() -> None:
    x = np.linspace(0, 2, 50, dtype=np.float32)
    kernel, outputs = elementwise_kernel(
        lambda a: ew.log1p(ew.tanh(a)), [x], dtypes.float32
    )
    legal = legalize(kernel, PLAIN)
    known = PLAIN | {"const", "load", "param", "range"}
    assert {n.op.name for n in legal.nodes} <= known
    (got,) = run(Interpreter(), legal, [x], outputs)
    np.testing.assert_allclose(got, np.log1p(np.tanh(x)), rtol=1e-5)


def test_masked_complex_loads_and_stores_keep_their_masks() -> None:
    x = samples("add", dtypes.complex64)[:5]
    out = np.full(10, 7, np.complex64)
    (i,) = axes(10)
    inside = ew.bit_and(ew.ge(i, integer(2)), ew.lt(i, integer(7)))
    value = load(param(0, x.dtype, 5), ew.sub(i, integer(2)), inside)
    store = Store(1, i, value, ew.ne(i, const(4, INDEX)))
    kernel = Kernel((i,), (store,), specs([x], [out]))
    (wanted,), (got,) = run_both(kernel, [x], [out])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", [dtypes.complex64, dtypes.bfloat16], ids=str)
def test_long_expressions_are_legalised_without_recursion(dtype: Any) -> None:
    x = np.ones(2, dtype)

    def chain(a: Any) -> Any:
        value = a
        for _ in range(10_000):
            value = ew.add(value, a)
        return value

    kernel, _ = elementwise_kernel(chain, [x], dtype)
    legal = legalize(kernel, PLAIN)
    assert len(legal.nodes) < 20_020
