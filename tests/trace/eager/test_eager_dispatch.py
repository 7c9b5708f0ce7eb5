"""Eager calls: native ones and Python's give the same, and the n-th what the first did.

Every test runs twice: with native calls, where this interpreter has them, and without.
"""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device
from ftrace.backends.llvm.call import install, object_layout
from ftrace.trace import backend as backends, bind, tiering
from ftrace.trace.arrays.array import Array, ArrayLike
from ftrace.trace.eager import composite
from ftrace.trace.eager.function_objects import Eager, member
from ftrace.trace.primitives import elementwise
from tests.support.call_samples import plain

#: The eighth is learned, and two more are native.
CALLS = tiering.CALLS_BEFORE_RECORD + 3


@pytest.fixture(params=["native", "plain"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with ft.config(native_calls=request.param == "native", device="cpu"):
        get_device("cpu").make_native()
        yield request.param


def values(shape: Any, dtype: Any, seed: int) -> Array:
    draw = np.random.default_rng(seed)
    if np.dtype(dtype) == np.bool_:
        return fnp.asarray(draw.random(shape) < 0.5)
    if np.dtype(dtype).kind in "iu":
        return fnp.asarray(draw.integers(1, 9, shape).astype(dtype))
    numbers = draw.normal(size=shape)
    return (
        fnp.asarray((numbers + 1j * numbers[::-1]).astype(dtype))
        if np.dtype(dtype).kind == "c"
        else fnp.asarray(numbers.astype(dtype))
    )


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if not isinstance(expected, Array):
        assert found == expected
        return
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert found.weak_type == expected.weak_type
    assert found.numpy().shape == expected.shape
    assert found.numpy().dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def check(function: Callable[..., Any], make: Callable[[int], tuple[Any, ...]]) -> None:
    """Each call, with other values each time, gives what Python's code gives."""
    for seed in range(CALLS):
        args = make(seed)
        same(function(*args), plain(function, *args))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "<": lambda x, y: x < y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "maximum": fnp.maximum,
    "arctan2": fnp.arctan2,
    "logaddexp": fnp.logaddexp,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, "bfloat16"])
@pytest.mark.parametrize("name", BINARY)
def test_operators_are_those_of_python(name: str, dtype: Any) -> None:
    dtype = fnp.bfloat16.dtype if dtype == "bfloat16" else dtype
    function = BINARY[name]
    for left, right in [
        ((5,), (5,)),
        ((3, 1), (1, 4)),
        ((), (2,)),
        ((), ()),
        ((0,), 1),
    ]:
        check(
            function,
            lambda s, a=left, b=right: (values(a, dtype, s), values(b, dtype, s + 99)),
        )


@pytest.mark.parametrize("name", BINARY)
def test_numbers_are_operands(name: str) -> None:
    function = BINARY[name]
    check(function, lambda s: (values((4,), np.float32, s), s + 0.25))
    check(function, lambda s: (s - 2.5, values((4,), np.float32, s)))
    check(function, lambda s: (values((4,), np.float32, s), 3))
    check(function, lambda s: (values((4,), np.int32, s), 0.5 + s))
    check(
        function, lambda s: (values((4,), np.float64, s), values((4,), np.float32, s))
    )


def test_special_numbers_are_kept() -> None:
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e-300]
    for number in [float(x) for x in numbers * 3]:
        x = fnp.asarray(np.array([0.0, -0.0, np.inf, np.nan, 3e38], np.float32))
        with np.errstate(over="ignore"):  # casts of a number to the array's dtype
            for function in BINARY.values():
                same(function(x, number), plain(function, x, number))


UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "inverse": lambda x: x**-1,
    "tanh": fnp.tanh,
    "exp": fnp.exp,
    "sum": lambda x: x.sum(),
    "sum of columns": lambda x: fnp.sum(x, axis=0),
    "sum, kept": lambda x: x.sum(axis=-1, keepdims=True),
    "mean": fnp.mean,
    "var": lambda x: x.var(axis=0),
    "std": lambda x: fnp.std(x, ddof=1),
    "max": lambda x: x.max(),
    "min of rows": lambda x: x.min(axis=1),
    "argmax": lambda x: x.argmax(axis=1),
    "any": lambda x: (x > 0).any(),
    "reshape": lambda x: x.reshape(-1, 2),
    "transpose": lambda x: x.T + 1,
    "ravel": lambda x: x.ravel(),
    "int": lambda x: x.astype(int),
    "half": lambda x: x.astype(fnp.float16),
    "bool": lambda x: x.astype(bool),
    "item": lambda x: x[1],
    "last": lambda x: x[-1, -1],
    "rows": lambda x: x[1:3],
    "steps": lambda x: x[::-2, None, ..., 1:],
    "where": lambda x: fnp.where(x > 0, x, 0.0),
    "clip": lambda x: x.clip(-0.5, 0.5),
    "joined": lambda x: fnp.concatenate([x, x * 2], axis=1),
    "stacked": lambda x: fnp.stack([x, x]),
    "flipped": fnp.flip,
    "product": lambda x: x @ x.T,
    "outer": lambda x: fnp.outer(x[0], x[1]),
    "einsum": lambda x: fnp.einsum("ij,kj->ik", x, x),
    "positive": lambda x: +x,
    "twice": lambda x: x + x,
    "softmax": ft.nn.softmax,
    "norm": fnp.linalg.norm,
    "gelu": ft.nn.gelu,
    "cumsum": fnp.cumsum,
    "round": lambda x: round(x, 1),
    "zeros": fnp.zeros_like,
    "triu": fnp.triu,
    "tile": lambda x: fnp.tile(x, 2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64])
@pytest.mark.parametrize("name", UNARY)
def test_functions_are_those_of_python(name: str, dtype: Any) -> None:
    function = UNARY[name]
    x = values((4, 6), dtype, 0)
    try:
        plain(function, x)
    except ft.errors.FtraceError:
        for _ in range(CALLS):
            with pytest.raises(ft.errors.FtraceError):
                function(x)
        return
    check(function, lambda s: (values((4, 6), dtype, s),))


def entered(function: Callable[..., Any], *args: Any) -> set[str]:
    """The files of ftrace whose functions a call enters."""
    files: set[str] = set()

    def note(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    sys.setprofile(note)
    try:
        function(*args)
    finally:
        sys.setprofile(None)
    return {file.rpartition("ftrace/")[2] for file in files if "/ftrace/" in file}


NOT_NATIVE = (
    "softmax", "norm", "gelu", "cumsum", "zeros", "round", "item", "last", "rows",
    "steps", "outer", "transpose", "product",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in UNARY if name not in NOT_NATIVE])
@pytest.mark.skipif(object_layout.offsets() is None, reason="no native calls")
@pytest.mark.parametrize("mode", ["native"], indirect=True)
def test_calls_become_native(name: str) -> None:
    x = values((8, 6), np.float32, 0)
    for _ in range(3 * CALLS):
        UNARY[name](x)
    assert "numpy/axes.py" not in entered(UNARY[name], x)


# What is told apart.


def test_an_operand_given_twice_is_not_two() -> None:
    for seed in range(CALLS):
        x, y = values((3,), np.float32, seed), values((3,), np.float32, seed + 50)
        same(x + x, plain(lambda a, b: a + b, x, x))
        same(x + y, plain(lambda a, b: a + b, x, y))


def test_floats_that_decide_are_told_apart() -> None:
    x = values((5,), np.float32, 1)
    for slope in [0.1, 0.2] * CALLS:
        same(ft.nn.leaky_relu(x, slope), plain(ft.nn.leaky_relu, x, slope))
        found = fnp.nan_to_num(fnp.log(x), nan=slope)
        same(found, plain(lambda v, s=slope: fnp.nan_to_num(fnp.log(v), nan=s), x))


def test_values_that_decide_are_asked_each_time() -> None:
    base = values((3,), np.int32, 1)
    x = values((3, 3), np.float32, 2)
    for step in range(2 * CALLS):
        exponent = fnp.asarray(np.int32(step % 3))
        same(base**exponent, plain(lambda b, e: b**e, base, exponent))
        same(x**exponent, plain(lambda b, e: b**e, x, exponent))
        axis = fnp.asarray(np.int32(step % 2))
        same(fnp.sum(x, axis), plain(fnp.sum, x, axis))
        same(x.max(axis=axis), plain(lambda v, a: v.max(axis=a), x, axis))


def test_settings_are_told_apart() -> None:
    x = fnp.asarray(np.array([1, 2, 3], np.int32))
    for x64 in [None, True, False] * CALLS:
        with ft.config(enable_x64=x64):
            same(x / 2, plain(lambda v: v / 2, x))


def test_shapes_and_weak_types_are_told_apart() -> None:
    weak = fnp.asarray(2.0)
    for n in range(2 * CALLS):
        x = values((n % 3 + 1,), np.float16, n)
        same(x * weak, plain(lambda a, b: a * b, x, weak))
        same(weak * weak, plain(lambda a: a * a, weak))


# What is not done natively.


def test_traced_values_are_recorded() -> None:
    x = values((4,), np.float32, 3)
    for _ in range(CALLS):
        fnp.sin(x) * 2.0 + x.sum()
    function = ft.jit(lambda v: fnp.sin(v) * 2.0 + v.sum())
    assert len(function.trace(x).graph.outputs) == 1
    np.testing.assert_allclose(function(x), fnp.sin(x) * 2.0 + x.sum(), 1e-5)
    slope = ft.grad(lambda v: fnp.sum(fnp.sin(v) * x))(x)
    np.testing.assert_allclose(slope, fnp.cos(x) * x, 1e-5)


def test_constants_of_a_trace_are_the_same_each_time() -> None:
    x = values((4,), np.float32, 3)
    for _ in range(CALLS):
        x.max(initial=0.0)
    graphs = [str(ft.make_graph(lambda v: v + x.max())(x)) for _ in range(CALLS)]
    assert len(set(graphs)) == 1


def test_errors_are_those_of_python() -> None:
    x, y = values((3,), np.float32, 1), values((4,), np.float32, 2)
    for _ in range(2 * CALLS):
        with pytest.raises(ft.errors.ShapeError, match="add: shapes"):
            x + y
        with pytest.raises(ft.errors.IndexBoundsError):
            x[3]
        with pytest.raises(TypeError):
            x + object()  # type: ignore[operator]
        with pytest.raises(TypeError):
            fnp.sin()
        with pytest.raises(TypeError):
            fnp.sum(x, axes=0)
    with pytest.raises(ft.errors.ImmutableError):
        x[0] = 1


def test_deleted_arrays_are_refused() -> None:
    for _ in range(CALLS):
        x = values((3,), np.float32, 1)
        x + 1.0
        x.delete()
        with pytest.raises(ft.errors.DeletedArrayError):
            x + 1.0


def test_floating_point_errors_pass_and_settings_of_numpy_stay() -> None:
    x = fnp.asarray(np.array([0.0, 1.0, -1.0], np.float32))
    with np.errstate(all="raise"):
        for _ in range(CALLS):
            result = fnp.log(x) / x
        assert np.geterr()["divide"] == "raise"
    assert np.isnan(result.numpy()[2])


def test_others_operands_decide() -> None:
    class Other:
        def __radd__(self, other: Any) -> str:
            return "theirs"

        def __eq__(self, other: object) -> Any:
            return "equal"

    x = values((3,), np.float32, 1)
    for _ in range(CALLS):
        assert x + Other() == "theirs"  # type: ignore[operator]
        assert (x == Other()) == "equal"
        same(np.ones(3, np.float32) + x, plain(lambda v: 1.0 + v, x))
        same(x + np.float32(2), plain(lambda v: v + 2.0, x))


def test_results_can_be_donated() -> None:
    step = ft.jit(lambda v: v + 1, donate_argnums=0)
    x = values((1000,), np.float32, 1)
    expected = x.numpy().copy()
    for _ in range(CALLS):
        y = x * 1.0
        view = y[2:5]
        kept = view.numpy().copy()
        np.testing.assert_array_equal(step(y), expected + 1)
        np.testing.assert_array_equal(view, kept)
    np.testing.assert_array_equal(x, expected)


# Objects.


def test_public_functions_look_like_functions() -> None:
    assert isinstance(fnp.exp, Eager)
    assert fnp.exp.__name__ == "exp"
    assert (fnp.exp.__doc__ or "").startswith("e to the power x")
    assert "axis" in inspect.signature(fnp.sum).parameters
    assert pickle.loads(pickle.dumps(fnp.concatenate)) is fnp.concatenate
    assert copy.deepcopy(fnp.exp) is fnp.exp
    assert fnp.abs is fnp.absolute


@pytest.mark.parametrize("indented", [True, False], ids=["python<3.13", "python>=3.13"])
def test_a_member_tells_what_its_family_shares(indented: bool) -> None:
    def kept(function: Any) -> Any:
        if not indented:
            function.__doc__ = inspect.cleandoc(function.__doc__)
        return function

    def family(name: str) -> Any:
        def function(x: Any) -> Any:
            """Whatever it is.

            Args:
              x: an array,
                or a number.
            """
            return x

        return kept(function)

    @kept
    def one() -> None:
        """1.

        Example:
          >>> 1
        """

    made = inspect.getdoc(member(family)(one))
    assert made == (
        "1.\n\nArgs:\n  x: an array,\n    or a number.\n\nExample:\n  >>> 1"
    )
    assert repr(fnp.exp) == "<function ftrace.numpy.exp>"
    np.testing.assert_array_equal(ft.vmap(fnp.sin)(fnp.zeros(3)), np.zeros(3))


@pytest.mark.skipif(not hasattr(sys, "getrefcount"), reason="no counts of references")
def test_nothing_is_held_after_a_call() -> None:
    x, y = values((3,), np.float32, 1), values((3,), np.float32, 2)
    number, marked = 1.5, values((3,), np.float32, 5)
    for _ in range(CALLS):
        x + y, x * number, fnp.stack([x, y]), x[0:2], marked.sum()
    objects = (x, y, x.numpy(), number, x.dtype, None)
    before = [sys.getrefcount(thing) for thing in objects[:4]]
    for _ in range(100):
        x + y, x * number, fnp.stack([x, y]), x[0:2], x.sum(), +x
        with pytest.raises(ft.errors.ShapeError):
            x + fnp.zeros(2)
    assert [sys.getrefcount(thing) for thing in objects[:4]] == before
    gone = weakref.ref(marked)
    del marked
    gc.collect()
    assert gone() is None


def test_many_kinds_of_calls_share_the_table() -> None:
    for n in range(1, 700):
        x = fnp.asarray(np.arange(n, dtype=np.float32))
        for _ in range(CALLS):
            y = x + 1.0
        assert y.shape == (n,)
        assert float(y[-1]) == n


def test_threads_do_not_disturb_each_other() -> None:
    failures: list[Any] = []

    def work(seed: int) -> None:
        x = values((17,), np.float32, seed)
        expected = (x.numpy() * np.float32(seed) + x.numpy()).sum()
        for _ in range(300):
            found = (x * float(seed) + x).sum()
            if found.numpy() != expected:
                failures.append((seed, found))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_names_of_methods_are_methods() -> None:
    for name in install.method_names():
        value = vars(ArrayLike)[name]
        assert callable(value.fget if isinstance(value, property) else value)


# What NumPy does in one call, and the composition that it stands for.


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64])
def test_whole_quotients_are_those_of_the_composition(dtype: Any) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = np.array([low, low + 1, 0, 1, 2, 3, 7, high - 1, high], dtype)
    if low:
        numbers = np.concatenate([numbers, np.array([-1, -2, -3, -7], dtype)])
    x, y = fnp.asarray(numbers[:, None]), fnp.asarray(numbers)
    for function in (fnp.floor_divide, fnp.remainder):
        same(function(x, y), ft.jit(lambda a, b, f=function: f(a, b))(x, y))


@pytest.mark.parametrize("function", [fnp.argmax, fnp.argmin])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, bool])
def test_positions_are_those_of_the_composition(function: Any, dtype: Any) -> None:
    rows = [[0, 1, 1, 0], [2, 2, 1, 1], [0, 0, 0, 0], [3, 0, 3, 1]]
    numbers = np.array(rows).astype(dtype)
    if numbers.dtype.kind == "f":
        numbers[0] = [np.nan, np.inf, np.nan, -np.inf]
        numbers[1] = [-np.inf, np.inf, np.nan, np.inf]
        numbers[2] = [-0.0, 0.0, -0.0, 0.0]
    x = fnp.asarray(numbers)
    for axis in (None, 0, 1, -1):
        jitted = ft.jit(lambda v, a=axis: function(v, axis=a))
        same(function(x, axis=axis), jitted(x))


def test_positions_of_arrays_are_read() -> None:
    x = values((5, 3), np.float32, 1)
    for seed in range(2 * CALLS):
        places = values((4,), np.int32, seed) % 5 - 2
        same(x[places], plain(lambda v, p: v[p], x, places))
        np.testing.assert_array_equal(x[places], x.numpy()[places.numpy()])
    for _ in range(CALLS):
        with pytest.raises(ft.errors.IndexBoundsError):
            x[fnp.asarray(np.array([0, 5], np.int32))]
    assert x[fnp.zeros((0,), int)].shape == (0, 3)


def test_places_among_several_are_read() -> None:
    x = values((3, 4), np.float32, 1)
    for seed in range(2 * CALLS):
        rows, columns = (values((5,), np.int32, seed + k) % 3 for k in (0, 50))
        i, j = int(rows[0]), int(columns[0])
        for index in ((i, j), (rows, columns), (slice(1), columns), (..., rows[1]), i):
            same(fnp.getitem(x, index), plain(fnp.getitem, x, index))
        same(fnp.take(x, columns, 1), plain(fnp.take, x, columns, 1))
    for _ in range(CALLS):
        with pytest.raises(ft.errors.IndexBoundsError):
            fnp.take(x, fnp.asarray(np.array([0, 4], np.int32)), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("kind", ["set", "add", "multiply", "max"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_updates_are_those_of_python(kind: str, dtype: Any) -> None:
    x = values((3, 4), dtype, 1)

    def update(index: Any, value: Any) -> Any:
        return getattr(x.at[index], kind)(value)

    for seed in range(2 * CALLS):
        rows = values((5,), np.int32, seed) % 3
        i, low = int(rows[0]), seed % 4
        for index in (i, (i, low), slice(i), (slice(None), low), rows, (rows, rows)):
            for value in (i, low, 0.5 + low, x[0, 0], 2**24 + 1):
                same(update(index, value), plain(update, index, value))
    for _ in range(CALLS):
        with pytest.raises(ft.errors.IndexBoundsError):
            update(3, 1)
    with ft.config(check_static_indices=False):
        for i in (7, 3, 1) * CALLS:
            same(update(i, 1), plain(update, i, 1))
            same(x[i], plain(fnp.getitem, x, i))


_MADE: dict[str, Any] = {
    "zeros": lambda: fnp.zeros((3, 4)),
    "ones": lambda: fnp.ones(5, dtype="int32"),
    "negative zeros": lambda: fnp.full((4,), -0.0),
    "positive zeros": lambda: fnp.full((4,), 0.0),
    "nan": lambda: fnp.full((2, 2), np.nan),
    "empty": lambda: fnp.zeros((0, 3)),
    "range": lambda: fnp.arange(7),
    "range of floats": lambda: fnp.arange(0.0, 2.0, 0.3),
    "long range": lambda: fnp.arange(100_000),
    "eye": lambda: fnp.eye(4),
}


@pytest.mark.parametrize("name", _MADE)
def test_constants_are_made_anew(name: str) -> None:
    """Each call has its own Array; what becomes of one is nothing to the others."""
    donate = ft.jit(lambda x: x * 2, donate_argnums=0)
    with ft.config(native_calls=False):
        expected = _MADE[name]()
    for _ in range(CALLS):
        made = _MADE[name]()
        assert made.dtype == expected.dtype
        assert made.weak_type == expected.weak_type
        assert made.shape == expected.shape
        assert made.numpy().tobytes() == expected.numpy().tobytes()
        donate(made)


def test_masks_decide_the_shape_each_time() -> None:
    x = fnp.arange(6.0)
    for i in range(2 * CALLS):
        mask = np.arange(6) < i % 7
        found = x[fnp.asarray(mask)]
        np.testing.assert_array_equal(found.numpy(), x.numpy()[mask])


_SPECIAL = [-np.inf, -3.0e9, -129.0, -1.5, -0.0, 0.0, 0.5, 127.9, 2.0e9, 1e38, np.inf]


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "uint8", "uint32"])
@pytest.mark.parametrize("wide", [np.float32, np.float64])
def test_floats_saturate_whatever_stands_beside_them(dtype: str, wide: Any) -> None:
    """A few small floats take a shorter way than others, to the same integers."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for value in [*_SPECIAL, np.nan]:
        x = np.array([value, 1.75, -2.25], wide)
        inside = np.trunc(np.clip(x.astype(np.float64), low, high))
        expected = np.nan_to_num(inside).astype(dtype)
        for _ in range(CALLS):
            np.testing.assert_array_equal(fnp.asarray(x).astype(dtype), expected)


@pytest.mark.parametrize("beside", [4.0, np.inf, np.nan, 3e38])
def test_roots_by_power_have_its_special_values(beside: float) -> None:
    for first, expected in ((-0.0, 0.0), (-np.inf, np.inf), (9.0, 3.0)):
        x = fnp.asarray(np.array([first, beside], np.float32))
        for _ in range(CALLS):
            assert float((x**0.5)[0]).hex() == expected.hex()


@pytest.mark.parametrize("size", [0, 1, 5, 1000, 2000])
def test_sorts_keep_the_order_of_zeros(size: int) -> None:
    values = np.resize(np.array([0.0, -0.0, 2.0, np.nan, -1.0], np.float32), size)
    for x in (values, np.abs(values)):
        order = np.argsort(x, kind="stable")
        for _ in range(CALLS):
            found = fnp.sort(fnp.asarray(x)).numpy()
            assert (np.signbit(found) == np.signbit(x[order])).all()
            np.testing.assert_array_equal(found, x[order])


@pytest.mark.parametrize("shapes", [((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 3))])
@pytest.mark.parametrize("turned", [False, True])
def test_products_are_those_of_the_composition(shapes: Any, turned: bool) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s).astype(np.float32) for s in shapes)
    x, y = (fnp.asarray(v.T.copy()).T if turned else fnp.asarray(v) for v in (x, y))
    with ft.config(native_calls=False):
        expected = x @ y
    for _ in range(CALLS):
        assert (x @ y).numpy().tobytes() == expected.numpy().tobytes()


def test_products_bring_native_calls_like_other_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[bool] = []
    noting = replace(backends.backend(), make_native=lambda: made.append(True))
    monkeypatch.setattr(tiering, "backend", lambda: noting)
    monkeypatch.setattr(tiering.operations, "spent", tiering.CALLS_BEFORE_NATIVE - 3)
    x = fnp.ones((2, 2))
    for count in range(5):
        composite.run_fused(_sum_of_product, [x, x])
        assert made == [True] * (count >= 2)


def _sum_of_product(x: Any, y: Any) -> Any:
    return bind.bind(elementwise.mul, x, y)
