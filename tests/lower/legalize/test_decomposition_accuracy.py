"""The decompositions: errors in units in the last place, special values, structure."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ftrace import dtypes
from ftrace.backends.llvm.target import Target, host_target
from ftrace.lower.legalize import term
from ftrace.lower.legalize.legalize import DECOMPOSITIONS, FORMULAS, decompose
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.primitive import PRIMITIVES
from ftrace.trace.primitives.sources import const, variable
from pytest_ftrace import require_device
from tests.support.kernel_samples import PLAIN, elementwise_kernel, run
from tests.support.node_values import evaluate

Array = np.ndarray[Any, Any]
RECORDED = np.load(Path(__file__).parents[2] / "data" / "math.npz")
FLOATS = (dtypes.float32, dtypes.float64)
ACCURACY = {name: row.errors for name, row in FORMULAS.items() if row.errors}
BINARY = ("pow", "atan2")
UNARY = [name for name in ACCURACY if name not in BINARY]
WITHOUT_FMA = PLAIN - {"fma"}
EITHER = pytest.mark.parametrize("has", [PLAIN, WITHOUT_FMA], ids=["fma", "no fma"])

#: Where a function is well conditioned; elsewhere its value is a small difference.
DOMAINS = {"lgamma": (0.0, np.inf), "digamma": (0.0, np.inf)}


@cache
def decomposed(
    name: str, dtype: Any, has: frozenset[str] = PLAIN
) -> tuple[tuple[Node, ...], Node]:
    """(operands, the decomposition over them)."""
    count = 2 if PRIMITIVES[name].family == "binary" else 1
    aval = ShapedArray.of((), dtype)
    operands = tuple(variable(aval, 0, i) for i in range(count))
    (root,) = decompose([PRIMITIVES[name](*operands)], has)
    return operands, root


def compute(name: str, *xs: Array, has: frozenset[str] = PLAIN) -> Array:
    operands, root = decomposed(name, xs[0].dtype, has)
    (value,) = evaluate([root], dict(zip(operands, xs, strict=True)))
    return np.broadcast_to(value, xs[0].shape)


def reference(name: str, *xs: Array) -> Array:
    """The primitive's meaning, in float64."""
    aval = ShapedArray.of(xs[0].shape, dtypes.float64)
    with np.errstate(all="ignore"):
        wide = [x.astype(np.float64) for x in xs]
        return np.asarray(PRIMITIVES[name].numpy(aval, None, *wide))


def recorded_arguments(name: str, dtype: Any) -> list[Array]:
    with np.errstate(all="ignore"):
        return [x.astype(dtype) for x in RECORDED[f"{name}/arguments"]]


def errors(got: Array, wanted: Array, lost: Array | float = 0.0) -> Array:
    """Errors in units in the last place of `got`'s dtype.

    `lost` is what the wanted value lost by rounding. Wrong signs of zero, infinities
    and NaN count as infinite errors.
    """
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(got.dtype)
        size = np.maximum(np.abs(wanted), float(info.tiny))
        unit = np.ldexp(1.0, np.frexp(size)[1] - 1 - info.nmant)
        error = np.abs((got.astype(np.float64) - wanted) / unit - lost)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        error = np.where(same & ~np.isfinite(error), 0.0, error)
        error = np.where(np.isnan(error), np.inf, error)
        return np.where(
            np.isnan(rounded) | (np.signbit(got) == np.signbit(rounded)), error, np.inf
        )


def every_kind_of_float32(step: int) -> Array:
    """Each `step`-th of all float32, NaN and denormal numbers among them."""
    bits = np.arange(0, 2**32, step, dtype=np.uint64).astype(np.uint32)
    return bits.view(np.float32)


@pytest.mark.parametrize("name", UNARY)
def test_float32_decomposition_keeps_its_bound_over_all_floats(name: str) -> None:
    slow = name in ("erf", "erfc", "erf_inv", "lgamma", "digamma")
    x = every_kind_of_float32(100003 if slow else 4001)
    low, high = DOMAINS.get(name, (-np.inf, np.inf))
    x = x[(np.isnan(x)) | ((x >= low) & (x <= high))]
    error = errors(compute(name, x), reference(name, x))
    worst = int(np.argmax(error))
    assert error[worst] <= ACCURACY[name][0], (x[worst], error[worst])


@EITHER
@pytest.mark.parametrize("name", list(ACCURACY))
def test_float64_decomposition_keeps_its_bound_on_recorded_values(
    name: str, has: frozenset[str]
) -> None:
    arguments = RECORDED[f"{name}/arguments"]
    wanted, lost = RECORDED[f"{name}/values"], RECORDED[f"{name}/lost"]
    # The unit of `lost` is that of float64's spacing, as in `errors`.
    error = errors(compute(name, *arguments, has=has), wanted, lost)
    worst = int(np.argmax(error))
    assert error[worst] <= ACCURACY[name][1], (arguments[:, worst], error[worst])


@pytest.mark.parametrize("name", BINARY)
def test_float32_function_of_two_keeps_its_bound(name: str) -> None:
    arguments = recorded_arguments(name, dtypes.float32)
    error = errors(compute(name, *arguments), reference(name, *arguments))
    assert error.max() <= ACCURACY[name][0]


@pytest.mark.parametrize("name", list(ACCURACY))
def test_the_cpu_keeps_the_bounds(name: str) -> None:
    arguments = [np.ascontiguousarray(x) for x in RECORDED[f"{name}/arguments"]]
    kernel, outputs = elementwise_kernel(PRIMITIVES[name], arguments, dtypes.float64)
    (got,) = run(require_device("cpu"), kernel, arguments, outputs)
    error = errors(got, RECORDED[f"{name}/values"], RECORDED[f"{name}/lost"])
    assert error.max() <= ACCURACY[name][1]


@pytest.mark.parametrize(("name", "bound"), [("tanh", 1), ("erf", 1), ("erfc", 1.5)])
def test_functions_in_pieces_keep_their_bounds(name: str, bound: float) -> None:
    if not host_target().avx512:
        pytest.skip("this processor has no such tables")
    edges = np.ldexp(1 + np.arange(4) / 4, np.arange(-8, 5)[:, None]).ravel()
    edges = edges.astype(np.float32)
    near = np.concatenate([np.nextafter(edges, np.float32(0)), edges])
    x = np.concatenate([every_kind_of_float32(4001), near, -near])
    kernel, outputs = elementwise_kernel(PRIMITIVES[name], [x], dtypes.float32)
    (got,) = run(require_device("cpu"), kernel, [x], outputs)
    error = errors(got, reference(name, x))
    worst = int(np.argmax(error))
    assert error[worst] <= bound, (x[worst], error[worst])


@pytest.mark.parametrize("name", ["pow", "log", "log2"])
def test_the_cpu_keeps_the_bounds_in_float32(name: str) -> None:
    """What it has instructions for takes other formulas there."""
    rng = np.random.default_rng(5)
    x = np.exp2(rng.uniform(-149, 128, 20_000)).astype(np.float32)
    near = (1 + rng.normal(0, 0.05, 20_000)).astype(np.float32)
    limit = rng.uniform(-150, 128, 40_000)
    x = np.concatenate([x, near])
    arguments = [x] if name != "pow" else [x, (limit / np.log2(x)).astype(np.float32)]
    arguments = [np.ascontiguousarray(a) for a in arguments]
    with np.errstate(all="ignore"):
        kernel, outputs = elementwise_kernel(
            PRIMITIVES[name], arguments, dtypes.float32
        )
    (got,) = run(require_device("cpu"), kernel, arguments, outputs)
    bound = ACCURACY[name][0] + (0.0 if host_target().fma else 0.5)
    assert errors(got, reference(name, *arguments)).max() <= bound


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["pow", "log", "log2", "log1p", "atanh", "acosh"])
def test_special_values_on_the_cpu(name: str, dtype: Any) -> None:
    arguments = [specials(dtype)]
    if name == "pow":
        arguments = [a.ravel() for a in np.meshgrid(specials(dtype), specials(dtype))]
    arguments = [np.ascontiguousarray(x) for x in arguments]
    kernel, outputs = elementwise_kernel(PRIMITIVES[name], arguments, dtype)
    (got,) = run(require_device("cpu"), kernel, arguments, outputs)
    with np.errstate(all="ignore"):
        aval = ShapedArray.of(arguments[0].shape, dtype)
        wanted = PRIMITIVES[name].numpy(aval, None, *arguments)
    error = errors(got, np.asarray(wanted, np.float64))
    worst = int(np.argmax(error))
    bound = ACCURACY[name][FLOATS.index(dtype)] + 2.0
    assert error[worst] <= bound, ([a[worst] for a in arguments], got[worst])


def specials(dtype: Any) -> Array:
    info = np.finfo(dtype)
    least = float(info.smallest_subnormal)
    positive = [
        0.0, least, 3 * least, float(info.tiny), float(info.tiny) / 4, 1e-20, 0.25,
        0.5, 1.0, float(np.nextafter(dtype.type(1), dtype.type(2))), 1.5, 2.0, 3.0, 7.0,
        88.0, 88.7, 89.5, 104.0, 127.5, 691.5, 700.0, 709.7, 709.9, 745.5, 1e9, 1e20,
        float(info.max) / 2**28, float(info.max), np.inf,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        x = np.array([*positive, np.nan], np.float64).astype(dtype)
    return np.concatenate([x, -x])


@EITHER
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_values_are_those_of_the_reference(
    name: str, dtype: Any, has: frozenset[str]
) -> None:
    x = specials(dtype)
    got = compute(name, x, has=has)
    wanted = reference(name, x)
    # The reference itself is rounded, and in float64 may be off by a unit or two.
    bound = ACCURACY[name][FLOATS.index(dtype)] + (0.5 if dtype == FLOATS[0] else 2.0)
    if name in DOMAINS:
        keep = ~(x < -1)  # near a negative zero of the function any error is large
        x, got, wanted = x[keep], got[keep], wanted[keep]
        bound += 60.0  # digamma's reference near its positive zero
    with np.errstate(all="ignore"):
        tiny = (name in DOMAINS) & (np.abs(got - wanted) < 1e-15)
    error = np.where(tiny, 0.0, errors(got, wanted))
    worst = int(np.argmax(error))
    assert error[worst] <= bound, (x[worst], got[worst], wanted[worst])


@EITHER
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_functions_of_two(
    name: str, dtype: Any, has: frozenset[str]
) -> None:
    x, y = (a.ravel() for a in np.meshgrid(specials(dtype), specials(dtype)))
    got = compute(name, x, y, has=has)
    with np.errstate(all="ignore"):
        wanted = PRIMITIVES[name].numpy(ShapedArray.of(x.shape, dtype), None, x, y)
    error = errors(got, wanted.astype(np.float64))
    worst = int(np.argmax(error))
    bound = ACCURACY[name][FLOATS.index(dtype)] + 2.0
    assert error[worst] <= bound, (x[worst], y[worst], got[worst], wanted[worst])


# Processors without fma.


def beyond_bounds() -> list[str]:
    """The functions whose code on this processor is less exact than their bounds."""
    found: list[str] = []
    for name, dtype in ((n, d) for n in ACCURACY for d in FLOATS):
        special = specials(dtype)
        if name in BINARY:
            rows = [a.ravel() for a in np.meshgrid(special, special)]
        else:
            rows = [special[~(special < 0)] if name in DOMAINS else special]
        pairs = zip(recorded_arguments(name, dtype), rows, strict=True)
        xs = [np.concatenate(pair) for pair in pairs]
        kernel, outputs = elementwise_kernel(PRIMITIVES[name], xs, dtype)
        (got,) = run(require_device("cpu"), kernel, xs, outputs)
        wanted = reference(name, *xs)
        error = errors(got, wanted)
        if name in DOMAINS:  # the reference loses digits where it is small
            error[np.abs(got - wanted) < (1e-15 if dtype == FLOATS[1] else 1e-7)] = 0
        worst = int(np.argmax(error))
        if error[worst] > ACCURACY[name][FLOATS.index(dtype)] + 2.0:
            found.append(f"{name} of {[x[worst] for x in xs]}: {got[worst]}")
    return found


@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_code_for_other_processors_keeps_the_bounds(cpu: str, tmp_path: Path) -> None:
    here, other = host_target(), Target.of("x86_64-unknown-linux-gnu", cpu)
    if here.triple[:6] != "x86_64" or here.vector_bytes < other.vector_bytes:
        pytest.skip("this processor cannot run that code")
    chosen = {"FTRACE_CPU": cpu, "FTRACE_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", f"import {__name__} as t; print(t.beyond_bounds())"],
        env=os.environ | chosen, capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_fma_of_simpler_operations_is_right_for_every_operand() -> None:
    """To a unit: sums that are nearly halfway between two numbers are rounded twice."""
    operands = [variable(ShapedArray.of((), dtypes.float64), 0, i) for i in range(3)]
    (root,) = decompose([term.fma(*map(term.Term, operands)).node], WITHOUT_FMA)
    few = np.array([0, 5e-324, 2.0**-1023, 1e-9, 1.5, 1e9, 2.0**1000, 1.9e307, np.inf])
    few = np.concatenate([few, -few, [np.nan]])
    grid = [x.ravel() for x in np.meshgrid(few, few, few)]
    rng = np.random.default_rng(0)
    a, b = np.ldexp(rng.standard_normal((2, 5000)), rng.integers(-450, 511, (2, 5000)))
    c = -a * b * (1 + rng.integers(-2, 3, 5000) * 2.0**-52)  # few digits are left
    xs = [np.concatenate(pair) for pair in zip(grid, (a, b, c), strict=True)]
    with np.errstate(all="ignore"):
        (got,) = evaluate([root], dict(zip(operands, xs, strict=True)))
    wanted = np.array([multiply_add(*map(float, abc)) for abc in zip(*xs, strict=True)])
    # The sign of a product that is too small for a float is lost beside a zero.
    lost = (xs[2] == 0) & (got == 0)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    assert errors(got, wanted)[~lost].max() <= 1


def multiply_add(a: float, b: float, c: float) -> float:
    """a·b + c, rounded once."""
    if not np.isfinite([a, b]).all():
        return a * b + c
    if not np.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    try:
        return float(exact) if exact else a * b + c
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("power", [0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 3.0, 4.0])
def test_constant_powers_are_products_and_roots(power: float, dtype: Any) -> None:
    x = variable(ShapedArray.of((), dtype), 0, 0)
    (root,) = decompose([ew.power(x, const(power, dtype))], PLAIN)
    assert len(toposort([root])) <= 10
    values = specials(dtype)
    (got,) = evaluate([root], {x: values})
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        wanted = np.power(wide, np.full(wide.shape, power))
    error = errors(np.broadcast_to(got, values.shape), wanted)
    assert error.max() <= 2.0


# Functions without rounding.


@pytest.mark.parametrize("dtype", [*FLOATS, *dtypes.INTEGER], ids=str)
def test_sign_is_that_of_the_reference(dtype: Any) -> None:
    x = specials(dtype) if dtype in FLOATS else np.array([0, 1, 5, 100]).astype(dtype)
    if dtype in dtypes.SIGNED:
        x = np.concatenate([x, -x])
    wanted = PRIMITIVES["sign"].numpy(None, None, x)
    got = compute("sign", x)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


@pytest.mark.parametrize("dtype", dtypes.FLOAT, ids=str)
def test_nextafter_is_exact_in_every_width(dtype: Any) -> None:
    with np.errstate(over="ignore"):
        values = specials(dtypes.float32).astype(dtype)
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        got, wanted = compute("nextafter", x, y), np.nextafter(x, y)
    number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    number &= x != y  # of two equal zeros NumPy takes the one or the other
    bits = np.dtype(f"u{dtype.itemsize}")
    np.testing.assert_array_equal(got.view(bits)[number], wanted.view(bits)[number])


@pytest.mark.parametrize("dtype", dtypes.INTEGER, ids=str)
def test_popcount_counts_the_bits(dtype: Any) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(0, 2**63, 1000, np.int64).astype(dtype)
    x = np.concatenate([x, np.array([info.min, info.max, 0, 1], dtype)])
    got = compute("popcount", x, has=PLAIN - {"popcount"})
    bits = x.view(np.dtype(f"u{dtype.itemsize}"))
    np.testing.assert_array_equal(got, np.bitwise_count(bits))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_finite_and_annihilating_product(dtype: Any) -> None:
    x, y = (a.ravel() for a in np.meshgrid(specials(dtype), specials(dtype)))
    has = PLAIN - {"mul_zero", "is_finite"}
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            compute("mul_zero", x, y, has=has),
            PRIMITIVES["mul_zero"].numpy(None, None, x, y),
        )
    np.testing.assert_array_equal(compute("is_finite", x, has=has), np.isfinite(x))


def test_what_has_no_bound_is_exact_or_a_step_of_others() -> None:
    exact = {"sign", "nextafter", "is_finite"}
    assert FORMULAS.keys() & PRIMITIVES.keys() - ACCURACY.keys() == exact


# Structure.


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", [n for n in DECOMPOSITIONS if n in PRIMITIVES])
def test_nothing_unsupported_is_left(name: str, dtype: Any) -> None:
    if name == "popcount":
        dtype = dtypes.int32
    _, root = decomposed(name, dtype, WITHOUT_FMA)
    assert {n.op.name for n in toposort([root])} <= WITHOUT_FMA | {"const", "variable"}


def test_what_the_device_has_stays() -> None:
    x = variable(ShapedArray.of((), dtypes.float32), 0, 0)
    node = ew.exp(ew.sin(x))
    assert decompose([node], PLAIN | {"exp", "sin"}) == [node]
    (partly,) = decompose([node], PLAIN | {"exp"})
    assert partly.op is ew.exp


def test_arrays_are_decomposed_as_scalars_are() -> None:
    aval = ShapedArray.of((2, 3), dtypes.float32)
    x = variable(aval, 0, 0)
    (root,) = decompose([ew.tanh(ew.log1p(x))], PLAIN)
    assert root.aval is aval
    values = np.linspace(0, 3, 6, dtype=np.float32).reshape(2, 3)
    (got,) = evaluate([root], {x: values})
    np.testing.assert_allclose(got, np.tanh(np.log1p(values)), rtol=1e-6)


def test_shared_parts_are_computed_once() -> None:
    x = variable(ShapedArray.of((), dtypes.float32), 0, 0)
    both = toposort(decompose([ew.sin(x), ew.cos(x)], PLAIN))
    one = toposort(decompose([ew.sin(x)], PLAIN))
    assert len(both) < len(one) + 10


def test_long_chains_are_decomposed_without_recursion() -> None:
    x = variable(ShapedArray.of((), dtypes.float32), 0, 0)
    node = x
    for _ in range(5000):
        node = ew.rsqrt(node)
    (root,) = decompose([node], PLAIN)
    assert len(toposort([root])) == 2 * 5000 + 2
