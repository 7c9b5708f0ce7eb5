"""Steps of eager calls that are loops of our own, beside those that NumPy does.

What a call gives once it is native has the bits that Python's code gives.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.array import Array
from ftrace.devices.base import get_device
from ftrace.devices.llvm.calling import fronts
from ftrace.devices.llvm.calling.element_loops import ElementLoops, loops_text
from ftrace.devices.llvm.calling.elements import CODES, KINDS
from ftrace.devices.llvm.calling.looping import Looping
from ftrace.devices.llvm.calling.operations import loop_of
from ftrace.devices.llvm.compiling.compile import generate
from ftrace.devices.llvm.target import host_target
from ftrace.trace.primitives import extrema, meanings
from ftrace.trace.primitives.conversion import converter

CALLS = fronts.CALLS_BEFORE + 3
LOOPS = ElementLoops()
SHAPES = [(), (0,), (1,), (3, 5), (8, 1), (2, 3, 4), (67,)]


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    with ft.config(device="cpu", enable_x64=True):
        get_device("cpu").make_native()
        yield


def samples(dtype: Any, shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype)
    draw = np.random.default_rng(seed)
    if kind.kind == "b":
        return np.asarray(draw.random(shape) < 0.5)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        special = [info.min, info.max, 0, 1, 2, 3, 31, 32, 33, 64]
        special += [-1, -2, -31] if kind.kind == "i" else []
        return np.asarray(draw.choice(np.array(special, kind), shape))
    info = np.finfo(kind)
    edge = [info.max, info.tiny, info.smallest_subnormal, np.nan, np.inf, 2.5e9, 0.5]
    special = [0.0, -0.0, 1.0, -1.0, -np.inf, *edge, *(-x for x in edge)]
    found = draw.choice(np.array(special, kind), shape)
    ordinary = draw.normal(size=shape).astype(kind)
    return np.asarray(np.where(draw.random(shape) < 0.6, found, ordinary), kind)


def bits(found: Any) -> list[Any]:
    """What a result is, to the bit, but for which NaN."""
    leaves, _ = ft.tree.flatten(found)
    parts: list[Any] = []
    for leaf in leaves:
        x = np.array(leaf)
        if x.dtype.kind == "f":
            x[np.isnan(x)] = np.nan
        parts.append((x.shape, x.dtype, leaf.weak_type, x.tobytes()))
    return parts


def check(function: Callable[..., Any], *operands: Any) -> None:
    with ft.config(native_calls=False):
        expected = bits(function(*operands))
    for _ in range(CALLS):
        assert bits(function(*operands)) == expected


def of_floats() -> dict[str, Callable[..., Any]]:
    x = fnp
    return {
        "hypot": x.hypot, "fmax": x.fmax, "fmin": x.fmin, "logaddexp": x.logaddexp,
        "copysign": x.copysign, "sums": lambda a, b: x.where(a < b, a + b, a * b - 1.5),
        "heaviside": x.heaviside, "isclose": x.isclose,
        "nan_to_num": lambda a, b: x.nan_to_num(a), "sinc": lambda a, b: x.sinc(b),
        "modf": lambda a, b: x.modf(a), "frexp": lambda a, b: x.frexp(a),
        "sign": lambda a, b: x.sign(a), "spacing": lambda a, b: x.spacing(a),
        "clip": lambda a, b: x.clip(a, -0.5, 0.5),
        "clamp": lambda a, b: lax.clamp(-0.5, a, 0.5),
        "isinf": lambda a, b: x.isinf(a), "signbit": lambda a, b: x.signbit(b),
        "relu": lambda a, b: nn.relu(a), "relu6": lambda a, b: nn.relu6(b),
        "nanmax": lambda a, b: x.nanmax(a, initial=-3.0), "maximum": x.maximum,
        "minimum": x.minimum, "i0": lambda a, b: x.i0(a),
        "cast": lambda a, b: a.astype("int32"),
        "count": lambda a, b: x.count_nonzero(a), "ldexp": lambda a, b: x.ldexp(a, 3),
    }  # fmt: skip


def of_integers() -> dict[str, Callable[..., Any]]:
    x = fnp
    return {
        "lcm": x.lcm, "shifts": lambda a, b: (a << b) ^ (a >> b), "left": x.left_shift,
        "right": x.right_shift, "logical": lax.shift_right_logical, "whole": lax.div,
        "rest": lax.rem, "sign": lambda a, b: x.sign(a), "abs": lambda a, b: abs(a) + 1,
        "bits": lambda a, b: ~a & b | 3, "as_float": lambda a, b: a * 0.5 + b,
        "clip": lambda a, b: x.clip(a, 1, 5), "some": lambda a, b: x.any(a * b),
        "floor": x.floor_divide, "mod": x.remainder,
        "where": lambda a, b: x.where(a > b, a, -b),
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", of_floats())
def test_compositions_of_floats_have_the_bits_of_python(name: str, dtype: str) -> None:
    for shape in SHAPES:
        a, b = (fnp.asarray(samples(dtype, shape, seed)) for seed in (1, 2))
        check(of_floats()[name], a, b)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint8"])
@pytest.mark.parametrize("name", of_integers())
def test_compositions_of_integers_have_the_bits_of_python(
    name: str, dtype: str
) -> None:
    for shape in SHAPES:
        a, b = (fnp.asarray(samples(dtype, shape, seed)) for seed in (1, 2))
        if name == "logical" or dtype[0] == "i" or name != "where":
            check(of_integers()[name], a, b)


@pytest.mark.parametrize("name", ["&", "|", "^", "~", "where", "==", "cast"])
def test_compositions_of_truth_values_have_the_bits_of_python(name: str) -> None:
    functions: dict[str, Callable[..., Any]] = {
        "&": lambda p, q: (p & q) & ~p, "|": lambda p, q: (p | q) & p,
        "^": lambda p, q: (p ^ q) | q, "~": lambda p, q: ~(p & q),
        "where": lambda p, q: fnp.where(p & q, p, ~q),
        "==": lambda p, q: (p == q) & (p != q), "cast": lambda p, q: p * 2.5 + q,
    }  # fmt: skip
    p, q = (fnp.asarray(samples(bool, (5, 7), seed)) for seed in (1, 2))
    check(functions[name], p, q)


def test_one_element_stands_beside_many() -> None:
    x = fnp.asarray(samples("float32", (5, 7), 1))
    one, row = x[:1, :1], x[0]
    check(lambda a, s: fnp.fmax(a, s) * 2.0, x, one)
    check(lambda a, s: fnp.where(a > s, a, s), x, fnp.asarray(0.5))
    check(lambda a, r: fnp.fmax(a, r) + r, x, row)  # that is NumPy's


def test_arrays_of_another_layout_are_left_to_numpy() -> None:
    plain = samples("float32", (6, 4), 1)
    a = fnp.asarray(plain)
    with ft.config(native_calls=False):
        expected = bits(fnp.hypot(a, a))
    raw = np.zeros(plain.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(plain.shape)
    unaligned[:] = plain
    wide = np.repeat(plain, 2, axis=1)[:, ::2]
    for _ in range(CALLS):
        assert bits(fnp.hypot(a, a)) == expected
    for other in (np.asfortranarray(plain), wide, unaligned):
        b = Array(plain.shape, plain.dtype, False, None, other)
        assert bits(fnp.hypot(b, b)) == expected


def test_steps_become_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    native = get_device("cpu").native()  # type: ignore[attr-defined]
    if native is None or native.records.looping is None:
        pytest.skip("no native calls")
    found: list[bool] = []
    plan = Looping.step_loop

    def noted(self: Looping, *args: Any) -> Any:
        result = plan(self, *args)
        found.append(result[0] != 0)
        return result

    monkeypatch.setattr(Looping, "step_loop", noted)
    monkeypatch.setattr(native.records, "chaining", None)  # which takes several at once
    a = fnp.asarray(np.linspace(-1, 1, 71, dtype=np.float32))
    for _ in range(2 * CALLS):
        fnp.hypot(a, a)
    assert len(found) > 10
    assert all(found)
    del found[:]
    for _ in range(2 * CALLS):  # what other tests called is forgotten by and by
        fnp.exp(a) - fnp.sum(a)  # NumPy's, as is a sum of elements
        fnp.logaddexp(a, a)
    assert True in found
    assert False in found


def test_which_operations_are_loops() -> None:
    single, double, whole, half = map(np.dtype, ("f4", "f8", "i4", "f2"))
    truth, count, byte, swapped = map(np.dtype, ("?", "u4", "u1", ">f4"))
    loops: list[tuple[Any, list[Any], Any]] = [
        (np.add, [single, single], single), (np.where, [truth, whole, whole], whole),
        (extrema.maximum, [double, double], double), (np.less, [count, count], truth),
        (np.bitwise_and, [truth, truth], truth), (np.add, [byte, byte], byte),
        (meanings.shift_left, [count, count], count), (np.less, [whole, whole], truth),
        (meanings.shift_right_arithmetic, [count, count], count),
        (converter(whole, single), [whole, None], single),
        (converter(single, whole), [single, None], whole),
        (converter(double, np.dtype("i8")), [double, None], np.dtype("i8")),
        (meanings.divide, [whole, whole], whole),
        (np.true_divide, [single, single], single),
    ]  # fmt: skip
    for function, given, made in loops:
        assert loop_of(function, given, made) in CODES
    others: list[tuple[Any, list[Any], Any]] = [
        (np.exp, [single], single), (np.add, [half, half], half),
        (np.add, [swapped, swapped], single), (np.add, [single, double], double),
        (np.add, [double, None], double), (np.where, [truth, None, double], double),
        (np.less, [truth, truth], truth), (np.true_divide, [whole, whole], double),
        (np.maximum, [single, single], single), (np.add, [single], single),
        (partial(np.add), [single, single], single),
        (converter(count, half), [count, None], half),
        (converter(single, single), [single, None], single),
    ]  # fmt: skip
    for function, given, made in others:
        assert loop_of(function, given, made) is None


FUNCTIONS = [
    np.add, np.subtract, np.multiply, np.true_divide, np.negative, np.absolute, np.sqrt,
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.isfinite, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.where,
    meanings.divide, meanings.remainder, meanings.sign, meanings.shift_left,
    meanings.shift_right_logical, meanings.shift_right_arithmetic, extrema.maximum,
    extrema.minimum, meanings.mul_zero,
]  # fmt: skip


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    "function", FUNCTIONS, ids=lambda f: getattr(f, "__name__", "extremum")
)
def test_a_loop_has_the_bits_of_its_function(function: Any, kind: str) -> None:
    arrays = [samples(kind, (67,), seed) for seed in (1, 2)]
    if function is np.where:
        arrays.insert(0, samples(bool, (67,), 3))
    for many in (1, len(arrays)):
        given = arrays[:many]
        try:
            with np.errstate(all="ignore"):
                expected = np.asarray(function(*given))
        except (TypeError, ValueError):
            continue
        name = loop_of(function, [x.dtype for x in given], expected.dtype)
        if name is not None:
            found = np.empty_like(expected)
            sides = [(x.ctypes.data, 1) for x in (*given, *given, *given)][:3]
            run_loop(name, found, sides)
            assert same_bits(found, expected)


def run_loop(name: str, out: Any, sides: Any) -> None:
    kinds = [ctypes.c_void_p, *(ctypes.c_void_p, ctypes.c_int64) * 3, ctypes.c_int64]
    function = ctypes.CFUNCTYPE(None, *kinds)(LOOPS.address(name))
    function(out.ctypes.data, *(word for side in sides for word in side), out.size)


def same_bits(found: Any, expected: Any) -> bool:
    """Equal bits, but for which NaN it is."""
    if expected.dtype.kind == "f":
        found, expected = (np.where(np.isnan(x), np.nan, x) for x in (found, expected))
    return found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("source", list(KINDS))
def test_a_cast_has_the_bits_of_its_converter(source: str) -> None:
    x = samples(source, (67,), 1)
    for target in set(KINDS) - {source}:
        dtype = np.dtype(target)
        function = converter(x.dtype, dtype)
        name = loop_of(function, [x.dtype, None], dtype)
        assert name is not None
        found = np.empty(x.shape, dtype)
        run_loop(name, found, [(x.ctypes.data, 1)] * 3)
        with np.errstate(all="ignore"):
            assert same_bits(found, function(x, dtype))


@pytest.mark.parametrize("processor", ["x86-64", "x86-64-v3", "here"])
def test_all_loops_are_code_of_all_processors(processor: str) -> None:
    here = host_target()
    if processor != "here" and not here.triple.startswith("x86_64"):
        pytest.skip("another architecture")
    chosen = here if processor == "here" else replace(here, cpu=processor, features="")
    for name in CODES:
        assert generate(loops_text([name]), chosen)
