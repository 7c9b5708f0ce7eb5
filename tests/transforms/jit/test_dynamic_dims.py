"""Dynamic dimensions: one trace and one compile, and the values of the static jit."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.backends.base import get_device
from ftrace.trace import tiering
from ftrace.trace.symbolic import bounds, common_divisor, evaluate, sample
from pytest_ftrace import require_device
from tests.support.dynamic_samples import SAMPLES, DynamicSample, floats

SIZES = (2, 7, 64, 1000, 4097)
#: OpenCL's compiler takes a third of a second for each of these.
SOME = [s for s in SAMPLES if not s.slow]
N = ft.Dim("n", min=2)


def reference(sample: DynamicSample, *arguments: Any) -> Any:
    # A product of NumPy's may warn of what its BLAS computed in unused lanes.
    with ft.config(device="interpreter"), np.errstate(all="ignore"):
        return sample.function(*arguments)


def agree(got: Any, want: Any, size: int) -> None:
    pairs = zip(ft.tree.leaves(got), ft.tree.leaves(want), strict=True)
    for x, y in pairs:
        x, y = np.asarray(x), np.asarray(y)
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        scale = max(1.0, float(np.abs(y).max())) if y.size else 1.0
        np.testing.assert_allclose(x, y, 2e-4, 1e-5 * scale, err_msg=f"size {size}")


def check(sample: DynamicSample, name: str, sizes: tuple[int, ...]) -> None:
    device = require_device(name)
    f = ft.jit(sample.function, dynamic=sample.dynamic, device=name)
    compiled: list[int] = []
    for size in sizes:
        arguments = sample.arguments(min(size, sample.most))
        got = f(*arguments)
        compiled.append(device.counters.kernels_compiled)
        agree(got, reference(sample, *arguments), size)
        if name != "interpreter":  # `reference` compiles for that one
            assert device.counters.kernels_compiled == compiled[0]
    assert f.trace_count == 1


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_one_compile_serves_all_sizes_on_the_cpu(sample: DynamicSample) -> None:
    check(sample, "cpu", SIZES)


@pytest.mark.parametrize("sample", SOME[::4], ids=str)
def test_one_compile_serves_all_sizes_on_opencl(sample: DynamicSample) -> None:
    check(sample, "opencl", SIZES)


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
def test_interpreter_gives_the_same_results(sample: DynamicSample) -> None:
    check(sample, "interpreter", (2, 7, 64))


def test_kernels_do_not_hold_the_size() -> None:
    f = ft.jit(lambda x: fnp.exp(x).sum(0), dynamic={"x": {0: "n"}}, device="cpu")
    texts = {f.lower(floats(n, 3)).sources for n in (5, 12345)}
    assert len(texts) == 1
    assert "12345" not in next(iter(texts))[0]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_threads(threads: int) -> None:
    f = ft.jit(lambda x: (fnp.sin(x).sum(1), x @ x.T), dynamic={"x": {0: "n"}})
    x = floats(777, 301)
    want = [np.asarray(part) for part in f(x)]
    with ft.config(threads=threads):
        for part, whole in zip(f(x), want, strict=True):
            np.testing.assert_array_equal(np.asarray(part), whole)


# Sizes 0 and 1, and ranges.


def test_sizes_0_and_1_are_compiled_apart(device: Any) -> None:
    f = ft.jit(lambda x: (x + x.shape[0]).sum(0), dynamic={"x": {0: "n"}})
    for size in (3, 1, 0, 5, 1, 0):
        np.testing.assert_allclose(f(np.ones((size, 2))), [size * (1.0 + size)] * 2)
    assert f.trace_count == 3


def test_each_dimension_may_be_1() -> None:
    f = ft.jit(lambda x: x * 2, dynamic={"x": {0: "n", 1: "m"}})
    for shape in ((3, 4), (1, 4), (3, 1), (1, 1), (5, 6), (1, 9)):
        np.testing.assert_array_equal(f(np.ones(shape)), 2 * np.ones(shape))
    assert f.trace_count == 4


def test_ranges_are_checked() -> None:
    f = ft.jit(lambda x: x[4:], dynamic={"x": {0: ft.Dim("n", min=5, max=9)}})
    assert f(np.ones(5)).shape == (1,)
    for size in (4, 10):
        with pytest.raises(errors.ValueRangeError, match=r"5\.\.9"):
            f(np.ones(size))


def test_a_name_has_one_size() -> None:
    f = ft.jit(lambda x, y: x + y, dynamic={"x": {0: "n"}, "y": {0: "n"}})
    f(np.ones(3), np.ones(3))
    with pytest.raises(errors.ShapeError, match="size 3 in one argument and 4"):
        f(np.ones(3), np.ones(4))


# What is given.


def test_arguments_by_position_keyword_and_default() -> None:
    f = ft.jit(lambda x, y=None: x if y is None else x + y.sum(),
               dynamic={0: {-1: "n"}, "y": {0: "m"}})  # fmt: skip
    for n in (4, 5):
        f(np.ones((2, n)))
        f(np.ones((2, n)), y=np.ones(n + 1))
        f(x=np.ones((2, n)), y=np.ones(n + 1))
    assert f.trace_count == 3


def test_static_arguments_stand_beside() -> None:
    f = ft.jit(lambda k, x: x * k, static_argnums=0, dynamic={"x": {0: "n"}})
    for n in (2, 3, 4):
        np.testing.assert_array_equal(f(3, np.ones(n)), 3 * np.ones(n))
    assert f.trace_count == 1


def test_one_spec_serves_a_whole_subtree() -> None:
    f = ft.jit(lambda d: d["a"] + d["b"][0], dynamic={"d": {0: "n"}})
    for n in (2, 3, 9):
        f({"a": np.ones(n), "b": [np.ones(n)]})
    assert f.trace_count == 1


@pytest.mark.parametrize(
    ("dynamic", "error"),
    [
        ("x", errors.ArgumentError),
        ({"z": {0: "n"}}, errors.ArgumentError),
        ({"x": "n"}, errors.ArgumentError),
        ({"x": {0: 3}}, errors.ArgumentError),
        ({"x": {0: "not a name"}}, errors.ArgumentError),
        ({"x": {0: N * 2}}, errors.ArgumentError),
        ({"x": {0: ft.Dim("n", 3), 1: ft.Dim("n", 4)}}, errors.ValueRangeError),
    ],
)
def test_bad_specs_are_refused(dynamic: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        ft.jit(lambda x: x, dynamic=dynamic)


def test_bad_ranges_are_refused() -> None:
    for least, most in ((-1, 5), (5, 4), (0, 1)):
        with pytest.raises(errors.ValueRangeError):
            ft.Dim("n", least, most)


def test_an_axis_must_exist() -> None:
    with pytest.raises(errors.AxisError, match="axis 2"):
        ft.jit(lambda x: x, dynamic={"x": {2: "n"}})(np.ones((2, 3)))


def test_a_spec_must_be_a_prefix() -> None:
    with pytest.raises(errors.TreeError, match="dynamic"):
        ft.jit(lambda x: x, dynamic={"x": {"a": {0: "n"}}})({"b": np.ones(3)})


def test_transforms_around_it_know_the_sizes() -> None:
    f = ft.jit(lambda x: (x**2).sum(), dynamic={"x": {0: "n"}})
    np.testing.assert_allclose(ft.grad(f)(np.ones(3)), 2 * np.ones(3))
    assert ft.vmap(f)(np.ones((4, 3))).shape == (4,)


def test_stages_show_the_names() -> None:
    f = ft.jit(lambda x: x[1:] * 2, dynamic={"x": {0: "batch"}})
    stages = f.lower(ft.ShapeDtypeStruct((7, 3), fnp.float32))
    assert "f32[batch - 1,3]" in str(stages.graph)
    assert "3*batch - 3" in str(stages.kernels[0])


def test_shapes_of_results_are_known_without_a_call() -> None:
    f = ft.jit(lambda x: {"y": x[1:], "n": x.shape[0]}, dynamic={"x": {0: "n"}})
    found = f.eval_shape(np.ones((7, 2)))
    assert (found["y"].shape, found["n"].shape) == ((6, 2), ())


def test_donated_arguments_give_their_memory(device: Any) -> None:
    f = ft.jit(lambda x: x.at[0].set(1.0), donate_argnums=0, dynamic={"x": {0: "n"}})
    for n in (2, 5):
        x = fnp.asarray(floats(n, 3))
        want = np.array(x)
        want[0] = 1
        np.testing.assert_array_equal(np.asarray(f(x)), want)
        assert x.is_deleted()
    assert f.trace_count == 1


def test_threads_may_call_with_different_sizes() -> None:
    f = ft.jit(lambda x: (x @ x.T).sum(1), dynamic={"x": {0: "n"}})

    def call(n: int) -> bool:
        x = floats(n, 4)
        return np.allclose(np.asarray(f(x)), (x @ x.T).sum(1), 1e-3, 1e-3)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(call, range(2, 120)))
    assert f.trace_count == 1


# What needs the number.


def uses_range(x: Any) -> Any:
    return sum(x[i] for i in range(x.shape[0]))


def uses_if(x: Any) -> Any:
    return x if x.shape[0] > 3 else x * 2


def uses_equal(x: Any) -> Any:
    return x if x.shape[0] == 3 else x * 2


def uses_len(x: Any) -> Any:
    return x * len(x)


def iterates(x: Any) -> Any:
    return [row * 2 for row in x]


def uses_int(x: Any) -> Any:
    return x * int(x.shape[0])


def uses_numpy(x: Any) -> Any:
    return x + np.zeros(x.shape)


def reshapes(x: Any) -> Any:
    return x.reshape(6, 2)


def reshapes_unevenly(x: Any) -> Any:
    return x.reshape(-1, 3)


def adds_fixed(x: Any) -> Any:
    return x + np.ones((5, 4))


def slices_beyond(x: Any) -> Any:
    return x[:5]


def slices_to_nothing(x: Any) -> Any:
    return x[2:]


def indexes_beyond(x: Any) -> Any:
    return x[5]


def squeezes(x: Any) -> Any:
    return fnp.squeeze(x[1:])


def halves(x: Any) -> Any:
    return fnp.split(x, 2)


def deletes(x: Any) -> Any:
    return fnp.delete(x, 0, 0)


def transforms(x: Any) -> Any:
    return ft.scipy.fft.idct(x, axis=0)


@pytest.mark.parametrize(
    "function",
    [
        uses_range, uses_if, uses_equal, uses_len, iterates, uses_int, uses_numpy,
        reshapes, reshapes_unevenly, adds_fixed, slices_beyond, slices_to_nothing,
        indexes_beyond, squeezes, halves, deletes,
        transforms,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_needs_the_number_names_the_line(function: Any) -> None:
    f = ft.jit(function, dynamic={"x": {0: "batch"}})
    with pytest.raises(errors.DynamicDimensionError) as caught:
        f(np.ones((3, 4), np.float32))
    last = inspect.getsource(function).strip().splitlines()[-1].strip()
    assert "batch" in caught.value.message
    assert caught.value.origin is not None
    assert caught.value.origin.text in last


def test_two_names_do_not_meet() -> None:
    f = ft.jit(lambda x, y: x + y, dynamic={"x": {0: "n"}, "y": {0: "m"}})
    with pytest.raises(errors.DynamicDimensionError, match="one name"):
        f(np.ones(3), np.ones(3))


def test_a_range_decides_comparisons() -> None:
    def f(x: Any) -> Any:
        return x if x.shape[0] >= 4 else x * 2

    g = ft.jit(f, dynamic={"x": {0: ft.Dim("n", min=4)}})
    np.testing.assert_array_equal(g(np.ones(5)), np.ones(5))


# The arithmetic of sizes.


def values_of(f: Any) -> None:
    """A Dim is what the numbers would be; its bounds hold them."""
    dim = f(N)
    for n in (2, 3, 4, 5, 16, 17, 1023, 1024):
        assert evaluate(dim, {"n": n}) == f(n)
    low, high = bounds(dim)
    assert low <= min(f(n) for n in range(2, 40))
    assert high >= max(f(n) for n in range(2, 40))


@pytest.mark.parametrize(
    "f",
    [
        lambda n: n + 3, lambda n: 3 - n, lambda n: n * n - n, lambda n: n // 2,
        lambda n: -(-n // 4), lambda n: n - n // 16 * 16, lambda n: (n * 6) // 3,
        lambda n: (n * 7 + 3) // n, lambda n: (n + 5) % 3, lambda n: -n // -3,
        lambda n: 100 // n, lambda n: (n - 1) // n, lambda n: n**3,
        lambda n: (n * n + n) // (n + 1), lambda n: -1 % n, lambda n: divmod(n, 5)[1],
    ],
)  # fmt: skip
def test_arithmetic_is_that_of_the_numbers(f: Any) -> None:
    values_of(f)


def test_what_is_known_becomes_a_number() -> None:
    assert (N - N) == 0
    assert (N * 6) // N == 6
    assert (N - 1) // N == 0
    assert -1 % N == N - 1
    assert (N * 8 + 7) // 8 == N
    assert type((N + 1) - N) is int


def test_comparisons_hold_for_all_sizes_or_raise() -> None:
    assert N > 1
    assert N * 2 > N
    assert N * N >= N * 2
    assert N != 1
    assert N + 1 != N
    for undecided in (lambda: N > 2, lambda: N == 7, lambda: N - 2 != 0,
                      lambda: bool(N - 2), lambda: N * 3 < N * N,
                      lambda: N * 1.5, lambda: 2.5 - N):  # fmt: skip
        with pytest.raises(errors.DynamicDimensionError):
            undecided()


def test_common_divisors_divide() -> None:
    assert common_divisor(12, 18) == 6
    assert common_divisor(N * 12, 18) == 6
    assert common_divisor(N * 12, N) == N
    assert common_divisor(N * 12, N * 18) == 6
    assert sample(ft.Dim("n", 4, 9)) == 9


def _sorted_column(x: Any) -> Any:
    return fnp.sort(x[:, 0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: fnp.searchsorted(_sorted_column(x), x[:, 1]),
        lambda x: fnp.searchsorted(_sorted_column(x), x[:, 1], side="right"),
        lambda x: fnp.roll(x, -3, 0),
        lambda x: fnp.roll(x, 5, 0),
        lambda x: fnp.roll(x, 7),
        lambda x: ft.lax.dynamic_update_slice(x, -x[:2], (x.shape[0], 0)),
        lambda x: ft.lax.dynamic_update_slice(x, -x[1:], (0, 0)),
    ],
)
def test_searches_rolls_and_updates_along_a_dynamic_axis(function: Any) -> None:
    found = ft.jit(function, dynamic={0: {0: "n"}})
    for size in (2, 3, 4, 5, 8, 17):  # rolls by more than the axis, too
        x = floats(size, 5)
        agree(found(x), function(fnp.asarray(x)), size)
    assert found.trace_count == 1


def test_calls_of_each_size_become_native() -> None:
    f = ft.jit(lambda x: fnp.sum(x * 2, 0), dynamic={"x": {0: "n"}}, device="cpu")
    get_device("cpu").make_native()
    for size in (3, 5, 3, 5):
        x = floats(size, 4)
        for _ in range(tiering.JIT_CALLS_BEFORE_RECORD + 2):
            np.testing.assert_allclose(f(x), np.sum(x * 2, 0), 1e-6)
    assert len(f._records) == 2
    assert f.trace_count == 1
