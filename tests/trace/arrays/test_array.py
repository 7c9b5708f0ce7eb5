"""Array: an immutable value, with the manners of NumPy's."""

from __future__ import annotations

import ast
import copy
import gc
import operator
import pickle
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.backends.base import get_device
from ftrace.trace.arrays.array import HOST
from ftrace.trace.arrays.buffer import (
    ALIGNMENT,
    FENCED,
    LONG,
    HostAllocator,
)

VALUES = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
INTS = np.arange(1, 7, dtype=np.int32).reshape(2, 3)


def same(got: Any, want: Any) -> None:
    assert isinstance(got, ft.Array)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
    assert got.shape == np.shape(want)


# Operators, methods, properties.

ARITHMETIC = [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge",
    "eq", "ne",
]  # fmt: skip
BITS = ["and_", "or_", "xor", "lshift", "rshift", "floordiv", "mod"]


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("other", [2, 1.5, np.float32(2), VALUES[::-1], VALUES[0]])
def test_operators_and_their_reflections(name: str, other: Any) -> None:
    f = getattr(operator, name)
    x = fnp.asarray(VALUES)
    same(f(x, other), f(VALUES, other))
    same(f(other, x), f(other, VALUES))
    theirs = fnp.asarray(other) if isinstance(other, np.ndarray) else other
    same(f(x, theirs), f(VALUES, other))


@pytest.mark.parametrize("name", BITS)
def test_operators_of_integers(name: str) -> None:
    f = getattr(operator, name)
    same(f(fnp.asarray(INTS), 2), f(INTS, 2))
    same(f(3, fnp.asarray(INTS)), f(np.int32(3), INTS))


def test_unary_operators_and_matmul() -> None:
    x, i = fnp.asarray(VALUES), fnp.asarray(INTS)
    for f in (operator.neg, operator.pos, abs):
        same(f(x), f(VALUES))
    same(~i, ~INTS)
    same(x @ x.T, VALUES @ VALUES.T)
    same(VALUES @ x.T, VALUES @ VALUES.T)
    for got, want in zip(divmod(x, 2), divmod(VALUES, 2), strict=True):
        same(got, want)
    same(round(x * 0.3, 1), np.round(VALUES * np.float32(0.3), 1))


def test_an_operand_that_is_no_array_is_refused() -> None:
    x = fnp.asarray(VALUES)
    for wrong in ([1, 2, 3], "a", None, {}):
        with pytest.raises(TypeError):
            x + wrong
    assert (x == None) is False  # noqa: E711
    assert (x == "text") is False


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.sum(), lambda a: a.sum(0), lambda a: a.sum(axis=1, keepdims=True),
        lambda a: a.mean(-1), lambda a: a.prod(), lambda a: a.max(), lambda a: a.min(1),
        lambda a: a.std(), lambda a: a.var(0), lambda a: a.argmax(1),
        lambda a: a.argmin(), lambda a: (a > 2).any(1), lambda a: (a > 0).all(),
        lambda a: a.cumsum(1), lambda a: a.cumprod(0), lambda a: a.reshape(3, 2),
        lambda a: a.reshape((6,)), lambda a: a.reshape(-1, 2), lambda a: a.ravel(),
        lambda a: a.flatten(), lambda a: a.transpose(), lambda a: a.transpose(1, 0),
        lambda a: a.transpose((1, 0)), lambda a: a.T, lambda a: a.mT,
        lambda a: a.swapaxes(0, 1), lambda a: a[None].squeeze(0),
        lambda a: a.clip(2, 4),
        lambda a: a.round(), lambda a: a.repeat(2, 1),
        lambda a: a.take(np.array([1]), 1),
        lambda a: a.diagonal(), lambda a: a.trace(), lambda a: a.dot(a.T),
        lambda a: a.conj(), lambda a: a.real, lambda a: a.imag, lambda a: a.copy(),
        lambda a: a.astype("int32"), lambda a: a.view("int32"),
        lambda a: a[0], lambda a: a[:, ::-1], lambda a: a[..., 1], lambda a: a[a > 2],
        lambda a: a[np.array([1, 0, 1])], lambda a: a[None, :, None],
    ],
)  # fmt: skip
def test_methods_are_numpys(call: Any) -> None:
    same(call(fnp.asarray(VALUES)), call(VALUES))


def test_properties() -> None:
    x = fnp.asarray(VALUES)
    for name in ["shape", "dtype", "ndim", "size", "itemsize", "nbytes"]:
        assert getattr(x, name) == getattr(VALUES, name)
    assert x.device is get_device("cpu")
    assert x.devices() == {get_device("cpu")}
    assert x.weak_type is False
    assert fnp.asarray(2.0).weak_type is True
    assert x.block_until_ready() is x
    assert x.is_ready()


def test_iteration_length_and_scalars() -> None:
    x = fnp.asarray(VALUES)
    assert len(x) == 2
    for row, want in zip(x, VALUES, strict=True):
        same(row, want)
    _, b = x
    same(b, VALUES[1])
    assert x.tolist() == VALUES.tolist()
    assert x.item(0, 1) == 2.0
    assert x.tobytes() == VALUES.tobytes()
    one = fnp.asarray(np.int32(3))
    assert int(one) == 3
    assert float(one) == 3.0
    assert complex(one) == 3 + 0j
    assert [10, 20, 30, 40][one] == 40
    assert bool(one) is True
    assert list(range(one)) == [0, 1, 2]
    with pytest.raises(errors.ArgumentError, match="must be an integer, got float32"):
        [1, 2][fnp.asarray(np.float32(1))]
    with pytest.raises(errors.ArgumentError, match="array of one element"):
        float(x)
    with pytest.raises(errors.ArgumentError, match="without axes"):
        iter(one)


def test_text() -> None:
    x = fnp.asarray(VALUES[0])
    assert repr(x) == "Array([1., 2., 3.], dtype=float32)"
    assert repr(fnp.asarray(1.5)) == "Array(1.5, dtype=float32, weak_type=True)"
    assert str(x) == "[1. 2. 3.]"
    assert f"{fnp.asarray(1.2345):.2f}" == "1.23"
    assert f"{x}" == str(x)
    assert f"{fnp.asarray(7):>4d}" == "   7"
    assert f"{fnp.asarray(0.1)}" == f"{np.float32(0.1)}"  # all digits, as NumPy
    with pytest.raises(TypeError, match="of a number"):
        f"{fnp.ones(3):.2f}"
    assert "..." in repr(fnp.zeros(100_000))


# Copies and sharing.


def test_pickle_and_copies() -> None:
    for x in (fnp.asarray(VALUES), fnp.asarray(2.0), fnp.zeros((0, 3), "bfloat16")):
        for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), copy.copy(x)):
            np.testing.assert_array_equal(np.asarray(made), np.asarray(x))
            assert (made.dtype, made.weak_type) == (x.dtype, x.weak_type)
    x = fnp.asarray(VALUES)
    assert not np.shares_memory(np.asarray(copy.deepcopy(x)), VALUES)


def test_numpy_in_and_out_is_not_copied() -> None:
    source = VALUES.copy()
    x = fnp.asarray(source)
    assert np.shares_memory(np.asarray(x), source)
    assert np.shares_memory(np.asarray(x), np.asarray(x))
    out = ft.jit(lambda v: v * 2)(source)
    assert np.shares_memory(np.asarray(out), np.asarray(out))
    assert not np.asarray(out).flags.writeable
    assert np.array(x).flags.writeable
    assert np.asarray(x, np.float64).dtype == np.float64


@pytest.mark.parametrize("size", [0, 1, 5, 128, 129, 5000])
@pytest.mark.parametrize(
    "make",
    [
        fnp.ones, fnp.arange, lambda n: fnp.zeros(n) + 1, lambda n: fnp.arange(n)[::-1],
        ft.jit(lambda x: x * 2), lambda n: fnp.asarray(np.ones(n)),
        lambda n: ft.device_put(fnp.ones(n), "interpreter"),
        lambda n: fnp.ones(n, "bfloat16") + 1, lambda n: fnp.ones(n, bool),
    ],
)  # fmt: skip
def test_nothing_that_is_done_to_the_values_changes_an_array(
    make: Any, size: int
) -> None:
    x = make(size) if make(size).ndim else make(np.arange(size))
    shape, before, other = x.shape, np.array(x), x + 0
    for values in (x.numpy(), np.asarray(x), x.numpy()):
        assert not values.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 7
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.5
            values.shape = (1, size)
        assert x.shape == x.numpy().shape == shape
    np.testing.assert_array_equal(np.asarray(x), before)
    np.testing.assert_array_equal(np.asarray(other), before)


@pytest.mark.parametrize(
    "make",
    [
        fnp.array, fnp.copy,
        ft.jit(lambda v: v), ft.jit(lambda v: v.reshape(-1)), ft.vmap(lambda v: v),
        lambda a: ft.vjp(lambda v: v, a)[0],
        lambda a: ft.jvp(lambda v: v, (a,), (a,))[1],
        lambda a: ft.grad(lambda v: (fnp.sum(v), v), has_aux=True)(a)[1],
    ],
)  # fmt: skip
def test_results_do_not_change_with_the_numpy_array_they_came_from(make: Any) -> None:
    source = VALUES.copy()
    made = make(source)
    before = np.array(made)
    source[:] = -1
    np.testing.assert_array_equal(np.asarray(made), before)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: ft.jit(lambda v: v * a),
        lambda a: ft.jit(lambda v: ft.vmap(lambda row: row * a[0])(v)),
        lambda a: ft.jit(ft.grad(lambda v: fnp.sum(v * v * a))),
        lambda a: ft.vjp(lambda v: v * v, a)[1],
        lambda a: ft.vjp(lambda v: v * a, VALUES)[1],
        lambda a: ft.linearize(lambda v: v * v * a, a)[1],
    ],
)
def test_functions_keep_the_values_that_they_were_made_with(make: Any) -> None:
    source = VALUES.copy()
    function = make(source)
    before = [np.array(x) for x in ft.tree.leaves(function(VALUES))]
    source[:] = -1
    after = ft.tree.leaves(function(VALUES))
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(np.asarray(two), one)


def test_results_do_not_change_when_memory_is_reused() -> None:
    f = ft.jit(lambda v: fnp.sin(v) + 1)
    x = np.linspace(0, 1, 50_000, dtype=np.float32)
    kept = [f(x + k) for k in range(4)]
    views = [np.asarray(k) for k in kept]
    wanted = [v.copy() for v in views]
    del kept  # the views hold the memory
    gc.collect()
    for k in range(20):
        f(x * k)
    for view, want in zip(views, wanted, strict=True):
        np.testing.assert_array_equal(view, want)


def test_dlpack_both_ways() -> None:
    x = fnp.asarray(VALUES)
    there = np.from_dlpack(x)
    np.testing.assert_array_equal(there, VALUES)
    assert np.shares_memory(there, np.asarray(x))
    source = VALUES.copy()
    here = fnp.from_dlpack(source)
    same(here, VALUES)
    assert np.shares_memory(np.asarray(here), source)
    same(fnp.from_dlpack(ft.jit(lambda v: v * 2)(x)), VALUES * 2)
    assert x.__dlpack_device__() == (1, 0)


# Devices.


def test_arrays_are_shared_as_device_put_is_told() -> None:
    pair = ft.device_put((fnp.ones(2), fnp.ones(2)))
    shared, copied = ft.device_put(pair, may_alias=(True, False))
    assert (shared is pair[0], copied is pair[1]) == (True, False)
    with pytest.raises(errors.ArgumentError, match="donated cannot be shared"):
        ft.device_put(pair, donate=True, may_alias=True)


def test_arrays_move_between_devices(device: Any) -> None:
    tree = ft.device_put({"a": VALUES, "b": (2.0, None)}, device)
    a = tree["a"]
    assert a.device is device
    out = ft.jit(lambda t: t["a"] * t["b"][0])(tree)
    assert out.device is device
    same(ft.block_until_ready(out), VALUES * 2)
    same(a + a, VALUES * 2)
    same(a[1], VALUES[1])
    same(a.to_device("cpu"), VALUES)
    got = ft.device_get(tree)
    assert type(got["a"]) is np.ndarray
    same(copy.deepcopy(a), VALUES)
    same(pickle.loads(pickle.dumps(a)), VALUES)


@pytest.mark.parametrize("value", ["a", {"x": "b"}, [object()], len])
def test_what_is_no_array_is_put_nowhere(value: Any) -> None:
    with pytest.raises(errors.ArgumentError, match="an array or a number is required"):
        ft.device_put(value)


def test_a_default_device_is_looked_for_at_once() -> None:
    with pytest.raises(errors.DeviceError, match="there is no device 'foo'"):
        ft.default_device("foo")


def test_the_default_device_is_that_of_the_block() -> None:
    f = ft.jit(lambda v: v * 2)
    with ft.default_device("interpreter"):
        assert f(VALUES).device.name == "interpreter"
    assert f(VALUES).device.name == "cpu"
    assert ft.devices()[0].name == "cpu"
    assert ft.device_count() == 1


def test_counters_count() -> None:
    device = get_device("interpreter")
    f = ft.jit(lambda v: fnp.sum(fnp.sin(v) * 3 + 0.125))
    with ft.default_device(device):
        before = copy.copy(ft.counters())
        f(VALUES)
        f(VALUES)
    after = ft.counters("interpreter")
    assert after.kernels_run == before.kernels_run + 2
    assert after.kernels_compiled + after.kernels_cached > (
        before.kernels_compiled + before.kernels_cached
    )
    assert after.operations > before.operations
    assert after.bytes >= before.bytes + 2 * VALUES.nbytes
    assert "interpreter" in ft.all_counters()


# The allocator.


@pytest.mark.skipif(FENCED, reason="memory ends at a fence")
@pytest.mark.parametrize("nbytes", [LONG, LONG + 24])
@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_long_copies_start_at_a_cache_line(nbytes: int, dtype: str) -> None:
    room = np.arange(nbytes // 8 + 8).astype(dtype)
    whole = room[1 : 1 + nbytes // 8]  # one element behind the memory of another
    for x in (whole, whole[::-1]):
        makes: list[Any] = [
            lambda v: fnp.array(v),
            lambda v: fnp.asarray(v, copy=True),
            lambda v: fnp.copy(fnp.asarray(v)),
            lambda v: ft.device_put(v, may_alias=False),
            lambda v: copy.deepcopy(fnp.asarray(v)),
        ]
        for make in makes:
            found = make(x)
            np.testing.assert_array_equal(found, x)
            values = found.numpy()
            assert values.ctypes.data % ALIGNMENT == 0
            assert not np.shares_memory(values, x)
    found = fnp.array(whole.astype(whole.dtype.newbyteorder()))
    np.testing.assert_array_equal(found, whole)
    assert found.numpy().ctypes.data % ALIGNMENT == 0


def test_freed_memory_is_used_again() -> None:
    allocator = HostAllocator(HOST)
    first = allocator.allocate(1000)
    place = first.memory.ctypes.data
    assert place % ALIGNMENT == 0
    assert allocator.in_use >= 1000
    del first
    assert allocator.in_use == 0
    assert allocator.cached >= 1000
    again = allocator.allocate(1000)
    assert again.memory.ctypes.data == place
    assert allocator.cached == 0
    other = allocator.allocate(1000)
    assert other.memory.ctypes.data != place
    assert allocator.peak >= 2000


def test_large_buffers_begin_apart_in_their_pages() -> None:
    """Where a load and a store of the last moments differ by pages, the load waits."""
    allocator = HostAllocator(HOST)
    buffers = [allocator.allocate(1 << 18) for _ in range(4)]
    places = sorted(b.memory.ctypes.data % 4096 for b in buffers)
    assert all(place % ALIGNMENT == 0 for place in places)
    ends = zip(places, [*places[1:], places[0] + 4096], strict=True)
    assert all(end - place >= 512 for place, end in ends)


def test_memory_that_somebody_sees_is_not_used_again() -> None:
    allocator = HostAllocator(HOST)
    buffer = allocator.allocate(4096)
    view = buffer.memory[:16]
    view[:] = 7
    del buffer
    allocator.allocate(4096).memory[:] = 0
    assert (view == 7).all()
    assert allocator.cached <= 4096


def test_the_least_recently_freed_memory_goes_first() -> None:
    allocator = HostAllocator(HOST, limit=10_000)
    sizes = (2048, 3072, 4096)
    buffers = [allocator.allocate(n) for n in sizes]
    while buffers:
        buffers.pop(0)
    assert allocator.cached == sum(sizes)
    allocator.allocate(5120)  # 2048 is dropped, then 3072: only 10,000 bytes are kept
    assert allocator.cached <= 10_000
    kept = allocator.cached
    hold = allocator.allocate(5120)
    assert allocator.cached == kept - 5120
    del hold
    allocator.trim()
    assert allocator.cached == 0


def test_what_is_kept_is_given_up_when_memory_runs_out() -> None:
    class Small(HostAllocator):
        room = 10_000

        def _obtain(self, nbytes: int) -> Any:
            if nbytes + self.cached + self.in_use > self.room:
                raise MemoryError
            return super()._obtain(nbytes)

    allocator = Small(HOST)
    del [allocator.allocate(6000)][:]
    gc.collect()
    assert allocator.cached >= 6000
    big = allocator.allocate(8000)
    assert allocator.cached == 0
    used_up = r"no memory for .* bytes are in use"
    with pytest.raises(errors.OutOfMemoryError, match=used_up):
        allocator.allocate(8000)
    del big
    assert allocator.allocate(8000) is not None


def test_threads_share_an_allocator() -> None:
    allocator = HostAllocator(HOST)

    def work(k: int) -> None:
        for i in range(300):
            buffer = allocator.allocate(64 * (1 + (i + k) % 5))
            buffer.memory[:] = k
            assert (buffer.memory == k).all()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert allocator.in_use == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda z: z + 1, lambda z: fnp.sin(z), lambda z: z.copy(), lambda z: z.cumsum(),
        lambda z: fnp.concatenate([z, z]), lambda z: fnp.arange(1 << 50),
        lambda z: ft.jit(lambda v: v + 1)(z), lambda z: ft.device_put(z, "cpu"),
        lambda z: ft.jit(lambda: fnp.zeros((1 << 50,)) + 1)(),
        lambda z: ft.random.normal(ft.random.key(0), (1 << 48,)),
    ],
)  # fmt: skip
def test_absurd_sizes_raise_ours(call: Any) -> None:
    z = fnp.zeros((1 << 50,))  # one element, shown at every position
    with pytest.raises(errors.OutOfMemoryError, match="no memory for"):
        call(z)
    assert float(fnp.sum(fnp.ones(3))) == 3.0


def test_traced_values_are_instances_of_array() -> None:
    found: list[bool] = []

    def f(x: Any) -> Any:
        found.extend([isinstance(x, ft.Array), isinstance(x * 2, fnp.ndarray)])
        found.append(isinstance(x, (int, ft.Array)) and not isinstance(x, np.ndarray))
        return (x * x).sum()

    x = fnp.arange(3.0)
    f(x), ft.jit(f)(x), ft.grad(f)(x), ft.vmap(f)(x[None]), ft.jvp(f, (x,), (x,))
    ft.eval_shape(f, x), ft.jit(ft.vmap(ft.grad(f)))(x[None])
    assert len(found) == 21
    assert all(found)
    assert fnp.ndarray is ft.Array
    assert issubclass(ft.Array, ft.Array)
    for other in (np.ones(3), np.float32(1), 1.0, [x], None, ft.Array, fnp.float32):
        assert not isinstance(other, ft.Array)


def test_no_isinstance_of_ours_asks_for_the_class_of_arrays() -> None:
    """It would hold for traced values, and take a call of Python's."""
    for path in Path(ft.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if "isinstance(" not in text or "Array" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                names = {ast.unparse(x) for x in ast.walk(node.args[1])}
                assert "Array" not in names, (path, node.lineno)
