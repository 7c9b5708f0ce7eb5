"""Eager calls on large arrays: compiled, with the same bits at each call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.errors import FtraceError
from ftrace.scipy import special
from ftrace.testing import assert_close, assert_same_bits
from ftrace.trace import tiering
from ftrace.trace.symbolic import any_dynamic
from ftrace.transforms.jit.jit import Ready

rng = np.random.default_rng(5)
X = rng.standard_normal((40, 50)).astype(np.float32)
Y = rng.standard_normal((40, 50)).astype(np.float32)
X[0, :8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1.0]
Y[0, :8] = [-0.0, 0.0, 1.0, np.inf, 1.0, -1e-40, np.nan, 0.0]
K, J = (rng.integers(1, 9, (40, 50), np.int32) for _ in range(2))
U = rng.integers(0, 255, (40, 50), np.uint8)
P = X > 0
C = lax.complex(X, Y).numpy()
H = X.astype(np.float16)
D = X.astype(np.float64)

#: Functions of the arrays; of those in EXACT all bits are those of NumPy.
EXACT: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "number": lambda x, y: x - 1.5,
    "integer": lambda x, y: 3 - x,
    "double and a number": lambda x, y: fnp.asarray(D) + 0.1,
    "minimum": fnp.minimum,
    "clip": lambda x, y: fnp.clip(x, -0.5, 0.5),
    "where": lambda x, y: fnp.where(x > y, x, 0.0),
    "less": lambda x, y: x < y,
    "isnan": lambda x, y: fnp.isnan(x),
    "max": lambda x, y: fnp.nanmax(x),
    "integers": lambda x, y: fnp.asarray(K) * 3 + fnp.asarray(J),
    "shift": lambda x, y: fnp.asarray(K) << fnp.asarray(J),
    "bytes": lambda x, y: fnp.asarray(U) + fnp.asarray(U),
    "bools": lambda x, y: fnp.asarray(P) & ~fnp.asarray(P),
    "astype": lambda x, y: fnp.asarray(D).astype("float32"),
    "gcd": lambda x, y: fnp.gcd(fnp.asarray(K), fnp.asarray(J)),
    "sum of integers": lambda x, y: fnp.sum(fnp.asarray(K), axis=0),
    "tril": lambda x, y: fnp.tril(x, 2),
    "packbits": lambda x, y: fnp.packbits(fnp.asarray(P)),
}
ROUNDED: dict[str, Any] = {
    "exp": lambda x, y: fnp.exp(x),
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / 3.0,
    "power": lambda x, y: x**3,
    "root": lambda x, y: fnp.abs(x) ** 0.5,
    "gelu": lambda x, y: nn.gelu(x),
    "erf": lambda x, y: lax.erf(x),
    "gamma": lambda x, y: special.gamma(x),
    "betaln": lambda x, y: special.betaln(x, 2.5),
    "complex": lambda x, y: fnp.asarray(C) * fnp.asarray(C),
    "half": lambda x, y: fnp.exp(fnp.asarray(H)),
    "double": lambda x, y: fnp.tanh(fnp.asarray(D)),
    "double times a number": lambda x, y: fnp.asarray(D) * 0.1,
    "broadcast": lambda x, y: x + y[0] * x[:, :1],
    "sum": lambda x, y: fnp.sum(fnp.asarray(J), axis=0) + fnp.sum(x[1:], axis=1)[0],
    "mean": lambda x, y: fnp.mean(x[1:], axis=0, keepdims=True),
    "var": lambda x, y: x[1:].var(ddof=1),
    "matmul": lambda x, y: x[1:] @ y[1:].T,
    "einsum": lambda x, y: fnp.einsum("ij,ij->i", x[1:], y[1:]),
    "softmax": lambda x, y: nn.softmax(x[1:], axis=-1),
    "cumsum": lambda x, y: fnp.cumsum(x[1:], axis=1),
    "divmod": lambda x, y: divmod(x[1:], 0.7),
    "transposed": lambda x, y: x.T * 2.0 + y.T,
    "masked": lambda x, y: fnp.sum(x[1:], where=fnp.asarray(P)[1:]),
    "numpy": lambda x, y: fnp.hypot(X[1:], y[1:]),
    "convolve": lambda x, y: fnp.convolve(fnp.ravel(x[1:]), y[2]),
    "correlate": lambda x, y: fnp.correlate(fnp.ravel(x[1:]), y[2], "same"),
}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    ft.clear_caches()
    yield
    ft.clear_caches()


_ALL_COMPILE = {"ROUNDS": 1, "ELEMENTS_ROUND": 1, "EXACT": 1, "EXACT_SPENT": 12}


@pytest.fixture
def small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of 2,000 elements are large."""
    for name, value in _ALL_COMPILE.items():
        monkeypatch.setattr(tiering, name, value)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are compiled for one shape."""
    graphs: list[Any] = []
    run: Any = Ready.of

    def noted(graph: Any, *rest: Any) -> Any:
        if not any(any_dynamic(node.shape) for node in graph.inputs):
            graphs.append(graph)
        return run(graph, *rest)

    monkeypatch.setattr(Ready, "of", noted)
    return graphs


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_each_call_gives_the_same_bits(name: str, prepared: list[Any]) -> None:
    f = (EXACT | ROUNDED)[name]
    x, y = fnp.asarray(X), fnp.asarray(Y)
    with ft.disable_jit():
        want = f(x, y)
    first = f(x, y)
    weak = [z.weak_type for z in ft.tree.leaves(want)]
    assert [z.weak_type for z in ft.tree.leaves(first)] == weak
    for _ in range(30):
        assert_same_bits(f(x, y), first)
    assert prepared
    if name in EXACT:
        assert_same_bits(first, want)
    else:
        bound = {np.float16: 2e-3, np.float32: 2e-5}
        assert_close(first, want, rtol=bound, atol=bound)


def test_the_size_decides(prepared: list[Any]) -> None:
    few, many = fnp.ones(1000), fnp.ones(1 << 21)
    for _ in range(100):
        fnp.exp(few)
        fnp.var(few)
    assert not prepared
    for _ in range(100):
        fnp.exp(many)
    assert len(prepared) == 1


def test_lengths_that_change_are_not_compiled_one_by_one(prepared: list[Any]) -> None:
    x = fnp.ones((30, 10_000))
    before = ft.counters("cpu").kernels_compiled
    for n in range(9000, 9040):
        fnp.argmax(x[:, :n])
        fnp.var(x[:, :n], axis=1)
        fnp.isclose(x[0, :n], 1.0, rtol=n * 1e-9)
    assert not prepared
    assert ft.counters("cpu").kernels_compiled == before


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.T,
        lambda x: x.reshape(-1),
        lambda x: x[3:, ::2],
        lambda x: fnp.real(x),
        lambda x: fnp.broadcast_to(x, (3, 40, 50)),
        lambda x: fnp.squeeze(x[None]),
    ],
)
def test_views_stay_views(f: Any, prepared: list[Any]) -> None:
    x = fnp.asarray(X)
    for _ in range(40):
        got = f(x)
    assert not prepared
    assert np.shares_memory(np.asarray(got), np.asarray(x))


@pytest.mark.usefixtures("small_is_large")
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x + fnp.ones((3, 7)),
        lambda x: fnp.asarray(U) + 2**40,
        lambda x: x @ x,
        lambda x: fnp.sum(x, axis=5),
        lambda x: fnp.hypot(fnp.asarray(C), x),
        lambda x: fnp.clip(x, "a", 1),
    ],
)
def test_errors_are_those_of_small_arrays(f: Any) -> None:
    with ft.disable_jit(), pytest.raises(FtraceError) as plain:
        f(fnp.asarray(X))
    for _ in range(3):
        with pytest.raises(FtraceError) as error:
            f(fnp.asarray(X))
        assert str(error.value) == str(plain.value)
        assert type(error.value) is type(plain.value)


@pytest.mark.usefixtures("small_is_large")
def test_other_devices_and_disabled_jit_do_as_before(prepared: list[Any]) -> None:
    x = fnp.asarray(X)
    with ft.disable_jit():
        for _ in range(40):
            fnp.exp(x)
    with ft.default_device("interpreter"):
        before = ft.counters("interpreter").kernels_run
        for _ in range(40):
            fnp.exp(x)
    assert not prepared
    assert ft.counters("interpreter").kernels_run == before


@pytest.mark.usefixtures("small_is_large")
def test_functions_that_look_at_values_are_left_alone() -> None:
    x = fnp.asarray(K)
    for _ in range(30):
        assert bool(fnp.array_equal(x, x))
        assert not bool(fnp.array_equal(x, x + 1))
        assert fnp.allclose(x, x)


@pytest.mark.usefixtures("small_is_large")
def test_lists_may_change_between_calls() -> None:
    x, axes = fnp.asarray(X[1:]), [0]
    for k in range(60):
        axes[0] = k % 2
        got = fnp.flip(fnp.nanmax(x, axis=tuple(axes)))
        np.testing.assert_array_equal(got, np.nanmax(X[1:], axis=k % 2)[::-1])
        got = fnp.roll(x, [k % 3, 1], axis=[0, 1])
        np.testing.assert_array_equal(got, np.roll(X[1:], [k % 3, 1], axis=[0, 1]))


@pytest.mark.usefixtures("small_is_large")
def test_transforms_trace_as_before() -> None:
    x = fnp.asarray(X[1:])
    for _ in range(30):
        fnp.sin(x)
    np.testing.assert_allclose(
        ft.grad(lambda z: fnp.sum(fnp.sin(z)))(x), np.cos(X[1:]), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(ft.vmap(fnp.sin)(x), np.sin(X[1:]), rtol=1e-5, atol=1e-6)
