"""Creation: JAX's values and dtypes, constants under a trace, messages."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DtypeError,
    DtypeOverflowError,
    ShapeError,
    ValueRangeError,
)
from ftrace.trace.arrays.array import Array
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Tracer, aval_of
from tests.support.recorded_values import PARTS, check_part
from tests.support.refusals import refuses


@pytest.mark.parametrize("part", range(PARTS))
def test_creation_is_what_jax_gives_and_the_same_traced(part: int) -> None:
    check_part("creation", part)


def test_array_copies_and_asarray_shares() -> None:
    a = np.arange(3.0)
    shared, copied = fnp.asarray(a), fnp.array(a)
    a[0] = 7
    assert shared[0] == 7
    assert copied[0] == 0
    assert fnp.asarray(copied) is copied


def test_made_inside_a_trace_is_a_constant_of_the_graph() -> None:
    def function(x: Any) -> list[Any]:
        made = [
            fnp.zeros(3), fnp.arange(3.0), fnp.eye(3)[0], fnp.linspace(0, 1, 3),
            fnp.full(3, 2.0), fnp.array(2.0), fnp.float32(1), fnp.tri(3)[1],
        ]  # fmt: skip
        assert all(isinstance(value, Tracer) for value in made)
        return [x + value for value in made]

    graph = trace("jit", function, [aval_of(fnp.zeros(3))])
    assert not graph.captured


def test_sizes_may_come_from_constants_inside_a_trace() -> None:
    def function(x: Any) -> list[Any]:
        n = fnp.array(3)
        return [x[: int(n)], fnp.zeros(n)]

    graph = trace("jit", function, [aval_of(fnp.zeros(5))])
    assert [node.shape for node in graph.outputs] == [(3,), (3,)]


def test_arrays_of_traced_values() -> None:
    result = ft.jit(lambda x: fnp.array([[x, 1], [2.5, x * x]]))(3.0)
    np.testing.assert_array_equal(result, [[3, 1], [2.5, 9]])


def test_everything_that_is_an_array_is_taken() -> None:
    class Convertible:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.ones(2, dtype)

    class Ours:
        def __jax_array__(self) -> Any:
            return fnp.ones(3)

    assert fnp.asarray(Convertible()).shape == (2,)
    assert fnp.asarray(Ours()).shape == (3,)
    assert fnp.array([Ours(), Ours()]).shape == (2, 3)
    assert fnp.asarray(memoryview(b"abc")).dtype == "uint8"
    assert fnp.array(range(3)).dtype == "int32"
    big_endian = np.arange(3, dtype=">f4")
    assert fnp.asarray(big_endian).tolist() == [0, 1, 2]
    assert fnp.array([2**40]).dtype == "int64"
    assert fnp.from_dlpack(np.ones(2)).dtype == "float64"


def test_dtype_names_are_dtypes_and_functions() -> None:
    assert fnp.float32(2).dtype == fnp.float32
    assert fnp.ones(2).dtype == fnp.float32
    assert np.zeros(2, fnp.int8).dtype == "int8"
    assert {fnp.float32: 1}[fnp.float32] == 1
    assert pickle.loads(pickle.dumps(fnp.bfloat16)) == fnp.bfloat16
    assert fnp.bfloat16 != fnp.float16
    assert isinstance(np.float32(1), fnp.float32)
    assert not isinstance(fnp.zeros(()), fnp.float32)  # an array, as in JAX
    assert not isinstance(fnp.zeros(2), fnp.int32)
    assert fnp.finfo(fnp.bfloat16).bits == 16


def test_arrays_and_tracers_are_ndarrays() -> None:
    assert isinstance(fnp.ones(2), fnp.ndarray)
    trace("jit", lambda x: [x] * isinstance(x, fnp.ndarray), [aval_of(fnp.ones(2))])
    assert isinstance(fnp.array([1]), Array)


def test_functions_of_numpy_called_on_tracers_are_ours() -> None:
    def function(x: Any) -> list[Any]:
        return [
            np.exp(x),
            np.sum(x),
            np.concatenate([x, x]),
            np.float32(2) * x,
            np.where(x > 0, x, 0),
            np.divmod(x, 2)[0],
        ]  # type: ignore[call-overload]

    graph = trace("jit", function, [aval_of(fnp.ones(3))])
    assert [node.shape for node in graph.outputs] == [(3,), (), (6,), (3,), (3,), (3,)]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fnp.array([[1, 2], [3]]), ShapeError, "not rectangular"),
        (lambda: fnp.array(None), ArgumentError, "None of type NoneType"),
        (lambda: fnp.array("abc"), ArgumentError, "no number"),
        (lambda: fnp.array(np.array(["a"])), ArgumentError, "holds no numbers"),
        (lambda: fnp.array([300], "int8"), DtypeOverflowError, "300 does not fit int8"),
        (lambda: fnp.zeros(-1), ShapeError, "must not be negative"),
        (lambda: fnp.zeros(1.5), ArgumentError, "must be an integer"),
        (lambda: fnp.zeros(2, "no"), ArgumentError, "is not a dtype"),
        (lambda: fnp.zeros(2, "datetime64[s]"), DtypeError, "not supported"),
        (lambda: fnp.arange(0, 1, 0), ValueRangeError, "step must not be 0"),
        (lambda: fnp.arange(5, dtype=bool), DtypeError, "must be numeric, got bool"),
        (lambda: fnp.arange(0.0, 2.0, dtype="bool"), DtypeError, "must be numeric"),
        (lambda: fnp.arange(float("nan")), ValueRangeError, "finite real numbers"),
        (lambda: fnp.arange(float("inf")), ValueRangeError, "finite real numbers"),
        (lambda: fnp.arange(2j), ValueRangeError, "finite real numbers"),
        (lambda: fnp.indices((-1,)), ShapeError, "must not be negative"),
        (lambda: ft.lax.iota("float32", -1), ShapeError, "must not be negative"),
        (lambda: ft.lax.full((-1,), 0.0), ShapeError, "must not be negative"),
        (lambda: fnp.nonzero(fnp.ones(2), size=-1), ValueRangeError, "negative"),
        (lambda: fnp.unique(fnp.ones(2), size=-1), ValueRangeError, "negative"),
        (lambda: fnp.unique(fnp.ones(0), size=-1), ValueRangeError, "negative"),
        (lambda: fnp.bincount(fnp.array([1]), length=-1), ValueRangeError, "negative"),
        (
            lambda: fnp.repeat(fnp.ones(3), 2, total_repeat_length=-1),
            ValueRangeError,
            "total_repeat_length must not be negative",
        ),
        (lambda: fnp.array(2j, "int32"), ArgumentError, "holds real numbers"),
        (lambda: fnp.full(2, 10**400, "float32"), DtypeOverflowError, "1329 bits"),
        (lambda: fnp.arange("a"), ArgumentError, "arange takes numbers"),
        (lambda: fnp.linspace(0, 1, -1), ValueRangeError, "must not be negative"),
        (lambda: fnp.full((2, 3), fnp.ones(4)), ShapeError, "does not broadcast"),
        (
            lambda: fnp.triu(fnp.ones(3)),
            ShapeError,
            "triu: the array must have at least 2 axes",
        ),
        (
            lambda: fnp.isdtype("float32", "real"),
            ValueRangeError,
            "kind must be 'bool'",
        ),
        (lambda: ft.jit(fnp.arange)(3), ConcretizationTypeError, "static_argnums"),
        (lambda: ft.jit(fnp.zeros)(3), ConcretizationTypeError, "static_argnums"),
    ],
)
def test_bad_input_is_named(call: Any, error: type[Exception], message: str) -> None:
    with refuses(error, message):
        call()


def test_array_copies_so_that_the_original_may_be_donated() -> None:
    x = fnp.arange(10.0)
    copies = [fnp.array(x), fnp.array(x, copy=True), fnp.copy(x)]
    assert fnp.asarray(x) is x
    ft.jit(lambda x: x + 1, donate_argnums=0)(x)
    for y in copies:
        np.testing.assert_array_equal(y, np.arange(10.0))


ON_A_DEVICE: dict[str, Any] = {
    "arange": lambda d: fnp.arange(5, device=d),
    "arange of floats": lambda d: fnp.arange(0.0, 2.0, 0.5, device=d),
    "arange of nothing": lambda d: fnp.arange(3, 1, device=d),
    "linspace": lambda d: fnp.linspace(0, 1, 5, device=d),
    "linspace with its step": lambda d: fnp.linspace(0, 1, 5, retstep=True, device=d)[
        0
    ],
    "eye": lambda d: fnp.eye(3, device=d),
    "zeros": lambda d: fnp.zeros(3, device=d),
    "ones": lambda d: fnp.ones(3, device=d),
    "empty": lambda d: fnp.empty(3, device=d),
    "full": lambda d: fnp.full(3, 2.0, device=d),
    "zeros_like": lambda d: fnp.zeros_like(np.ones(3), device=d),
    "ones_like": lambda d: fnp.ones_like(np.ones(3), device=d),
    "empty_like": lambda d: fnp.empty_like(np.ones(3), device=d),
    "full_like": lambda d: fnp.full_like(np.ones(3), 2, device=d),
    "array": lambda d: fnp.array([1, 2], device=d),
    "asarray": lambda d: fnp.asarray([1, 2], device=d),
    "astype": lambda d: fnp.astype(fnp.ones(3), int, device=d),
    "from_dlpack": lambda d: fnp.from_dlpack(np.ones(3), device=d),
    "fftfreq": lambda d: fnp.fft.fftfreq(5, device=d),
    "rfftfreq": lambda d: fnp.fft.rfftfreq(5, device=d),
}


@pytest.mark.parametrize("name", ON_A_DEVICE)
def test_arrays_are_made_on_the_device_that_is_named(name: str) -> None:
    device = ft.devices("interpreter")[0]
    make = ON_A_DEVICE[name]
    for _ in range(2):  # also where the call is known from before
        assert make(device).devices() == {device}
        assert make(None).devices() == set(ft.devices("cpu"))
        np.testing.assert_array_equal(make(device), make(None))


def test_every_function_that_takes_a_device_is_asked() -> None:
    taking = {
        name
        for module, names in ((fnp, dir(fnp)), (fnp.fft, fnp.fft.__all__))
        for name in names
        if callable(f := getattr(module, name))
        and not isinstance(f, type)
        and name[0] != "_"
        and "device" in inspect.signature(f).parameters
    }
    assert taking == {name.split()[0] for name in ON_A_DEVICE}


def test_the_memory_of_a_numpy_array_is_shared_until_it_is_copied() -> None:
    """As docs/coming-from-jax.md says."""
    for share in (fnp.asarray, fnp.ravel, fnp.transpose, fnp.flip, fnp.positive):
        values = np.arange(3.0, dtype=np.float32)
        assert np.shares_memory(share(values), values)
    for copy in (fnp.array, fnp.copy, fnp.negative, ft.jit(lambda x: x)):
        values = np.arange(3.0, dtype=np.float32)
        assert not np.shares_memory(copy(values), values)


def test_a_range_of_truth_values_is_refused() -> None:
    for bounds in ((True,), (False, True), (np.bool_(True),), (fnp.asarray(True),)):
        with pytest.raises(DtypeError, match="the dtype must be numeric"):
            fnp.arange(*bounds)
    assert fnp.arange(0, True).tolist() == [0]
    assert fnp.arange(True, dtype="float32").tolist() == [0]


def test_arrays_of_any_dtype_are_exchanged() -> None:
    for dtype in ("bfloat16", "float32", "int8"):
        x = fnp.ones(2, dtype)
        assert fnp.from_dlpack(x).dtype == x.dtype
    assert fnp.isscalar(np.array(1))
    assert not fnp.isscalar(np.ones(1))


@pytest.mark.parametrize("name", ["hanning", "hamming", "blackman", "bartlett"])
def test_windows_are_numpys(name: str) -> None:
    for size in (0, 1, 2, 5, 6):
        window = getattr(fnp, name)(size)
        assert (window.dtype, window.weak_type) == (np.float32, False)
        np.testing.assert_allclose(window, getattr(np, name)(size), atol=1e-7)
        for beta in (0, 3, 8.6):
            for f in (fnp.kaiser, ft.jit(fnp.kaiser, static_argnums=0)):
                kaiser = f(size, beta)
                assert (kaiser.dtype, kaiser.weak_type) == (np.float32, False)
                np.testing.assert_allclose(kaiser, np.kaiser(size, beta), rtol=2e-6)
    with pytest.raises(ValueRangeError, match="must not be negative"):
        getattr(fnp, name)(-1)


def test_indices_of_masks_and_slices_are_numpys() -> None:
    for mine, numpys in ((fnp.triu, np.triu), (fnp.tril, np.tril)):
        found = fnp.mask_indices(4, mine, 1)
        np.testing.assert_array_equal(found, np.mask_indices(4, numpys, 1))
    x = fnp.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(x[fnp.s_[..., 1:]], np.asarray(x)[..., 1:])
    assert fnp.index_exp[1] == (1,)
