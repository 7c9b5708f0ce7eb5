"""Un-jitted transforms run what they derived before, also by native calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.trace.tiering import JIT_CALLS_BEFORE_RECORD
from ftrace.transforms.jit import eager_programs

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
#: So many calls that some of them are native where this interpreter allows it.
CALLS = JIT_CALLS_BEFORE_RECORD + 4


@pytest.fixture(autouse=True, params=["native", "plain"])
def calls(request: pytest.FixtureRequest) -> Any:
    ft.clear_caches()
    with ft.config(native_calls=request.param == "native"):
        yield request.param
    ft.clear_caches()


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The kinds of what was derived, or looked up by its graph."""
    kinds: list[Any] = []
    plain = eager_programs.derive_once

    def noted(kind: Any, *rest: Any) -> Any:
        kinds.append(kind[0])
        return plain(kind, *rest)

    monkeypatch.setattr(eager_programs, "derive_once", noted)
    return kinds


def value(params: Any, x: Any) -> Any:
    return fnp.sum(fnp.tanh(x * params["scale"] + params["shift"]) ** 2)


def params_of(kind: Any) -> Any:
    return {"scale": kind(X), "shift": kind(X[0])}


@pytest.mark.parametrize("kind", [np.array, fnp.asarray])
def test_each_call_gives_the_value_and_gradient(kind: Any, derivations: Any) -> None:
    both = ft.value_and_grad(value)
    for n in range(CALLS):
        params, x = params_of(kind), X + n
        found, slope = both(params, x)
        expected, steep = ft.jit(both)(params, x)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        for name in params:
            np.testing.assert_allclose(slope[name], steep[name], rtol=1e-5, atol=1e-6)
    looked_up = derivations.count("grad")
    both(params_of(kind), X)
    assert derivations.count("grad") == looked_up


def test_arguments_may_change_their_kind() -> None:
    slope = ft.grad(lambda x, y: fnp.sum(x * x * y), (0, 1))
    kinds = [np.array, fnp.asarray, lambda x: X[1] * 0 + x, lambda x: x[::1]]
    for n in range(4 * CALLS):
        x, y = kinds[n % 3](X), kinds[n // CALLS](X[0])
        dx, dy = slope(x, y)
        np.testing.assert_allclose(dx, 2 * X * np.asarray(y), rtol=1e-6)
        np.testing.assert_allclose(dy, (X * X).sum(0), rtol=1e-6)


def test_python_numbers_are_arguments() -> None:
    slope = ft.grad(lambda x, y: x * x * y)
    for n in range(CALLS):
        assert float(slope(float(n), 3.0)) == 6 * n
        assert float(slope(float(n), 3)) == 6 * n


def test_arrays_with_strides_and_no_elements() -> None:
    slope = ft.grad(lambda x: fnp.sum(x**3))
    for _ in range(CALLS):
        np.testing.assert_allclose(slope(X.T[::2]), 3 * X.T[::2] ** 2, rtol=1e-6)
        assert slope(X[:0]).shape == (0, 4)


def test_results_share_nothing_with_what_numpy_may_change() -> None:
    for _ in range(CALLS):
        x, t = X.copy(), X.copy()
        same, tangent = ft.jvp(lambda x: x, (x,), (t,))
        x[:] = t[:] = 7
        np.testing.assert_array_equal(same, X)
        np.testing.assert_array_equal(tangent, X)


def test_settings_may_change_between_calls(calls: str) -> None:
    slope = ft.grad(lambda x: fnp.sum(fnp.sin(x)))
    for _ in range(CALLS):
        for device in ("cpu", "interpreter"):
            with ft.config(device=device):
                found = slope(fnp.asarray(X))
                np.testing.assert_allclose(found, np.cos(X), rtol=1e-5)
                assert next(iter(found.devices())).name == device
        with ft.config(disable_jit=True):
            np.testing.assert_allclose(slope(X), np.cos(X), rtol=1e-5)
        with ft.config(enable_x64=True):
            assert slope(X.astype(np.float64)).dtype == np.float64


def test_arrays_of_another_device_stay_there() -> None:
    slope = ft.grad(lambda x: fnp.sum(x * x))
    there = ft.device_put(X, ft.devices("interpreter")[0])
    for _ in range(CALLS):
        np.testing.assert_allclose(slope(X), 2 * X)
        np.testing.assert_allclose(slope(there), 2 * X)


def test_captured_arrays_are_those_of_the_call() -> None:
    for n in range(CALLS):
        weights = X + n
        found = ft.grad(lambda x, w=weights: fnp.sum(x * w))(X)
        np.testing.assert_array_equal(found, weights)


def test_deleted_arrays_are_refused() -> None:
    slope = ft.grad(lambda x: fnp.sum(x * x))
    for _ in range(CALLS):
        slope(fnp.asarray(X))
    gone = fnp.array(X)
    gone.delete()
    with pytest.raises(ft.errors.DeletedArrayError):
        slope(gone)


def test_within_other_transforms_nothing_is_run() -> None:
    slope = ft.grad(lambda x: fnp.sum(x**3))
    for _ in range(CALLS):
        slope(X)
        np.testing.assert_allclose(ft.jit(slope)(X), 3 * X**2, rtol=1e-5)
        twice = ft.grad(lambda x: fnp.sum(slope(x)))(X)
        np.testing.assert_allclose(twice, 6 * X, rtol=1e-5)
        np.testing.assert_allclose(ft.vmap(slope)(X), 3 * X**2, rtol=1e-5)


def test_threads_share_what_was_prepared() -> None:
    slope = ft.grad(lambda x: fnp.sum(fnp.exp(x)))
    wrong: list[Any] = []

    def work(n: int) -> None:
        for k in range(4 * CALLS):
            x = X + n + k
            if not np.allclose(slope(x), np.exp(x), rtol=1e-5):
                wrong.append((n, k))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_jitted_functions_are_called_beside() -> None:
    slope, jitted = ft.grad(lambda x: fnp.sum(x * x)), ft.jit(lambda x: x + 1)
    for n in range(2 * CALLS):
        x = fnp.asarray(X + n)
        np.testing.assert_array_equal(slope(x), 2 * (X + n))
        np.testing.assert_array_equal(jitted(x), X + n + 1)


def curved(x: Any) -> Any:
    return fnp.sum(fnp.sin(x[1:]) * x[:-1] ** 2) * fnp.stack([x[0], x[-1]])


TRANSFORMS: dict[str, Any] = {
    "vmap": ft.vmap(curved),
    "vmap of columns": ft.vmap(curved, 1, 1),
    "vmap of some": lambda x: ft.vmap(lambda a, b: a * b, (0, None))(x, x[0]),
    "vmap of grad": ft.vmap(ft.grad(lambda x: fnp.sum(curved(x)))),
    "vjp": lambda x: ft.vjp(lambda y: curved(y[0]), x)[1](fnp.ones(2))[0],
    "vjp in part": lambda x: ft.vjp(curved, x[1])[1](x[2, :2])[0],
    "linearize": lambda x: ft.linearize(curved, x[0])[1](x[1]),
    "jacfwd": lambda x: ft.jacfwd(curved)(x[0]),
    "jacrev": lambda x: ft.jacrev(curved)(x[0]),
    "hessian": lambda x: ft.hessian(curved)(x[0]),
    "jvp of grad": lambda x: ft.jvp(ft.grad(lambda y: curved(y)[0]), (x[0],), (x[1],)),
    "transpose": lambda x: ft.linear_transpose(lambda y: x @ y, x[0])(x[:, 0])[0],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_repeat_what_jit_does_once(name: str) -> None:
    function = TRANSFORMS[name]
    jitted = ft.jit(function)
    for n in range(CALLS):
        x = fnp.asarray(X + n / 8)
        for got, want in zip(
            ft.tree.leaves(function(x)), ft.tree.leaves(jitted(x)), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_vmaps_that_differ_in_axes_are_two() -> None:
    square = X[:3, :3]
    for _ in range(2):
        for out_axes in (0, 1):
            for in_axes in (0, 1):
                got = ft.vmap(lambda x: x + x[0], in_axes, out_axes)(square)
                rows = square if in_axes == 0 else square.T
                want = rows + rows[:, :1]
                np.testing.assert_array_equal(got, want if out_axes == 0 else want.T)


def test_mistakes_of_vmap_are_told_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ft.errors.AxisError, match="out_axes"):
            ft.vmap(lambda x: x, out_axes=3)(X)
        with pytest.raises(ValueError, match="out_axes is None"):
            ft.vmap(lambda x: x, out_axes=None)(X)


def test_a_rule_of_the_user_runs_at_each_call() -> None:
    runs: list[int] = []

    @ft.custom_vjp
    def double(x: Any) -> Any:
        return x * 2

    def backward(_: Any, ct: Any) -> Any:
        runs.append(1)
        return (ct * 3,)

    double.defvjp(lambda x: (double(x), None), backward)
    for n in range(3):
        _, pull = ft.vjp(double, X)
        np.testing.assert_array_equal(pull(X)[0], 3 * X)
        np.testing.assert_array_equal(ft.grad(lambda x: fnp.sum(double(x)))(X), 3)
        assert len(runs) >= 2 * (n + 1)


_CLOSURES: list[Callable[[Any, Any], Any]] = [
    lambda w, b: w * b,
    lambda w, b: w @ b,
    lambda w, b: fnp.einsum("ij,ij->", w, b),
    lambda w, b: fnp.ravel(b) * w.ravel(),
    lambda w, b: w * fnp.asarray(b),
    lambda w, b: w + fnp.roll(b, 0),
]


def _derivative(transform: str, function: Any, w: Any) -> Any:
    """What gives the derivative, now and later."""
    if transform == "jit":
        slope = ft.jit(ft.grad(function))
        return lambda: slope(w)
    if transform == "vjp":
        pull = ft.vjp(function, w)[1]
        return lambda: pull(np.float32(1))[0]
    if transform == "linearize":
        push = ft.linearize(function, w)[1]
        return lambda: push(w)
    found = ft.grad(function)(w)
    return lambda: found


@pytest.mark.parametrize("function", _CLOSURES)
@pytest.mark.parametrize("transform", ["jit", "vjp", "linearize", "grad"])
def test_what_a_function_closed_over_may_change(function: Any, transform: str) -> None:
    """A loop may read each batch into the same memory."""
    for n in range(CALLS):
        b = np.full((3, 3), 1 + n, np.float32)

        def closed(w: Any, b: Any = b) -> Any:
            return fnp.sum(function(w, b))

        later = _derivative(transform, closed, fnp.ones((3, 3)))
        before = np.array(later())
        b[:] = 77
        np.testing.assert_array_equal(later(), before)
