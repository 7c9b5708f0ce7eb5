"""Results own their elements: what NumPy does to an operand later changes none."""

# Its lambdas have no types.
# pyright: basic

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
import ftrace.scipy.linalg
from ftrace import lax, nn
from ftrace.backends.base import get_device
from ftrace.trace import tiering
from ftrace.trace.arrays.array import Array
from ftrace.trace.eager.result_memory import own

#: The eighth is learned, and two more are native.
CALLS = tiering.CALLS_BEFORE_RECORD + 2
#: With axes of one element, and large enough for calls that are compiled.
SHAPES = [(3, 3), (1, 3), (3, 1), (1, 1), (40, 40)]

Function = Callable[[Any], Any]

OWNING: list[Function] = [
    lambda x: fnp.cumsum(x, axis=0),
    lambda x: fnp.cumprod(x, axis=0),
    lambda x: fnp.nancumsum(x, axis=0),
    lambda x: fnp.cumulative_sum(x, axis=0),
    lambda x: fnp.roll(x, 0),
    lambda x: fnp.roll(x, 1, axis=1),
    lambda x: fnp.concatenate([x]),
    lambda x: fnp.concatenate((x, x[:0])),
    lambda x: fnp.hstack([x]),
    lambda x: fnp.vstack([x]),
    lambda x: fnp.dstack([x]),
    lambda x: fnp.stack([x]),
    lambda x: fnp.column_stack([x]),
    lambda x: fnp.block([[x]]),
    lambda x: fnp.append(x, x[:0], axis=0),
    lambda x: fnp.pad(x, 0),
    lambda x: fnp.pad(x, ((0, 0), (0, 0)), mode="edge"),
    lambda x: fnp.tile(x, 1),
    lambda x: fnp.repeat(x, 1, axis=0),
    lambda x: fnp.resize(x, x.shape),
    lambda x: fnp.einsum("ij->ij", x),
    lambda x: fnp.einsum("ij->ji", x),
    lambda x: fnp.clip(x),
    lambda x: fnp.delete(x, [], axis=0),
    lambda x: fnp.diff(x, n=0),
    lambda x: fnp.power(x, 1),
    lambda x: fnp.linspace(x, x, 1),
    lambda x: fnp.meshgrid(x[0]),
    lambda x: fnp.polyder(x[0], 0),
    lambda x: fnp.linalg.matrix_power(x[:1, :1], 1),
    lambda x: fnp.sum(x, axis=()),
    lambda x: fnp.max(x, axis=0),
    lambda x: fnp.take(x, 0, axis=0),
    lambda x: fnp.fft.fftshift(x),
    lambda x: fnp.c_[x],
    lambda x: fnp.r_[x],
    lambda x: fnp.apply_along_axis(lambda v: v, 0, x),
    lambda x: fnp.apply_over_axes(lambda v, _: v, x, [0]),
    lambda x: fnp.vectorize(lambda v: v)(x),
    lambda x: fnp.ones(x.shape, x.dtype).at[:].set(x),
    lambda x: ftrace.scipy.linalg.block_diag(x),
    lambda x: lax.cummax(x),
    lambda x: lax.dynamic_slice(x, (0, 0), x.shape),
    lambda x: lax.dynamic_slice(x, (0, 0), (1, 1)),
    lambda x: lax.dynamic_index_in_dim(x, 0, 0),
    lambda x: lax.dynamic_update_slice(x * 2, x, (0, 0)),
    lambda x: lax.pad(x, x.dtype.type(0), ((0, 0, 0), (0, 0, 0))),
    lambda x: lax.concatenate([x], 0),
    lambda x: lax.reduce_sum(x, axes=()),
    lambda x: lax.reduce_max(x, axes=()),
    lambda x: lax.reduce(x, x.dtype.type(0), lax.add, ()),
    lambda x: lax.associative_scan(fnp.add, x),
    lambda x: lax.optimization_barrier((x, [x])),
    lambda x: lax.integer_pow(x, 1),
    lambda x: lax.tile(x, (1, 1)),
    lambda x: nn.logsumexp(x, axis=()),
]

SHOWING: list[Function] = [
    lambda x: fnp.asarray(x),
    lambda x: fnp.reshape(x, (-1,)),
    lambda x: fnp.ravel(x),
    lambda x: fnp.transpose(x),
    lambda x: fnp.squeeze(x),
    lambda x: fnp.expand_dims(x, 0),
    lambda x: fnp.flip(x),
    lambda x: fnp.rot90(x),
    lambda x: fnp.broadcast_to(x, (2, *x.shape)),
    lambda x: fnp.split(x, 1),
    lambda x: fnp.unstack(x),
    lambda x: fnp.diagonal(x),
    lambda x: fnp.astype(x, x.dtype),
    lambda x: fnp.positive(x),
    lambda x: lax.reshape(x, (x.size,)),
    lambda x: lax.slice(x, (0, 0), x.shape),
    lambda x: lax.rev(x, (0,)),
    lambda x: ft.device_put(x),
]


@pytest.fixture(params=["native", "plain"], autouse=True)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    with ft.config(native_calls=request.param == "native", device="cpu"):
        get_device("cpu").make_native()
        yield request.param


def _text(function: Function) -> str:
    return inspect.getsource(function).strip().removeprefix("lambda x: ").rstrip(",")


def _operand(shape: tuple[int, ...], dtype: str = "float32") -> Any:
    return np.arange(2, 2 + np.prod(shape)).reshape(shape).astype(dtype)


def _found(function: Function, x: Any) -> list[Any]:
    return [leaf for leaf in ft.tree.leaves(function(x)) if isinstance(leaf, Array)]


def _changes(function: Function, x: Any) -> bool:
    """Do the results change when NumPy changes the operand?"""
    results = _found(function, x)
    assert results
    before = [np.asarray(result).tobytes() for result in results]
    x[...] = 1
    return before != [np.asarray(result).tobytes() for result in results]


@pytest.mark.parametrize("function", OWNING, ids=_text)
def test_results_own_their_elements_for_all_sizes_and_at_each_call(
    function: Function,
) -> None:
    for dtype in ("float32", "int32"):
        for shape in SHAPES:
            for call in range(CALLS):
                x = _operand(shape, dtype)
                assert not _changes(function, x), (dtype, shape, call)


@pytest.mark.parametrize("function", SHOWING, ids=_text)
def test_what_shows_an_operand_shares_its_memory_for_all_sizes(
    function: Function,
) -> None:
    for shape in SHAPES:
        for _ in range(CALLS):
            assert _changes(function, _operand(shape))


@pytest.mark.parametrize("function", [fnp.roll, lambda x, n: fnp.concatenate([x])])
def test_elements_of_an_array_of_ours_may_be_shared(function: Any) -> None:
    x = fnp.asarray(_operand((3, 3)))
    result = function(x, 0)
    np.testing.assert_array_equal(result, np.asarray(x))


def test_operands_are_found_in_containers_and_by_name() -> None:
    x = _operand((2, 2))
    for function in (
        lambda x: fnp.stack(arrays=[x]),
        lambda x: fnp.block([[x]]),
        lambda x: fnp.roll(a=x, shift=0),
        lambda x: lax.optimization_barrier({"a": (x,)}),
    ):
        assert not _changes(function, x.copy())


def test_what_a_traced_function_makes_of_an_array_of_numpy_is_its_own() -> None:
    x = np.ones(3, np.float32)
    times = ft.jit(lambda w: w * fnp.concatenate([x]))
    _, pull = ft.vjp(lambda w: w * fnp.roll(x, 0), fnp.ones(3))
    assert times(fnp.ones(3)).tolist() == [1.0] * 3
    x[:] = 7
    assert times(fnp.ones(3)).tolist() == [1.0] * 3
    assert pull(fnp.ones(3))[0].tolist() == [1.0] * 3


def test_a_result_that_shares_nothing_is_the_very_one() -> None:
    x = _operand((2, 2))
    made = [fnp.ones(3), fnp.zeros(2)]
    assert own(made, (x,), {}) is made
    assert own(made[0], (x,), {}) is made[0]
    shared = fnp.asarray(x)
    first, second = own([shared, made[1]], (), {"x": x})
    assert first is not shared
    assert second is made[1]
