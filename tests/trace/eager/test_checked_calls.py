"""Settings that check calls: promotions, NaNs, traces."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax, monitoring

F, N, H, B = (fnp.ones(3, d) for d in ("float32", "int32", "float16", "bool"))
M = fnp.ones((2, 3))

REFUSED = [
    lambda: F + N, lambda: F + H, lambda: N + 1.5, lambda: B + 1, lambda: F + 1j,
    lambda: fnp.where(B, F, N), lambda: F @ N, lambda: fnp.stack([F, N]),
    lambda: fnp.promote_types(F.dtype, N.dtype), lambda: np.int32(1) > F,
    lambda: ft.jit(lambda x, y: x * y)(F, N),
    lambda: ft.grad(lambda x: (x * N).sum())(F),
]  # fmt: skip
TAKEN = [
    lambda: F + 1, lambda: F + np.float64(2), lambda: N + 1, lambda: N / N,
    lambda: fnp.where(B, F, 0), lambda: F**2, lambda: ft.nn.softmax(F),
    lambda: N.mean(),
    lambda: fnp.sqrt(N), lambda: fnp.var(N), lambda: fnp.linspace(0, 1, 3),
]  # fmt: skip


def test_strict_promotion_refuses_what_must_be_converted_and_nothing_else() -> None:
    for f in REFUSED:
        f()
    with ft.numpy_dtype_promotion("strict"):
        for f in TAKEN:
            f()
        for f in REFUSED:
            with pytest.raises(errors.TypePromotionError, match="strict"):
                f()
    F + N  # as before


def test_ranks_meet_as_the_settings_say() -> None:
    f = ft.jit(lambda m, x: m + x)
    f(M, F)
    with ft.numpy_rank_promotion("raise"):
        for call in (
            lambda: M + F, lambda: f(M, F), lambda: fnp.isclose(M, F),
            lambda: fnp.clip(M, F), lambda: fnp.arctan2(M, F),
        ):  # fmt: skip
            with pytest.raises(errors.ShapeError, match="rank_promotion"):
                call()
        M + 1, M + F[0], M @ F, fnp.where(M > 0, F, M), ft.nn.softmax(M), fnp.cov(M)
    with ft.numpy_rank_promotion("warn"):
        with pytest.warns(UserWarning, match="rank promotion for add") as told:
            M + F
        assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        M + F


def nan_ways() -> list[tuple[str, Any]]:
    x = fnp.asarray([-1.0, 1.0])
    ways: list[tuple[str, Any]] = [
        ("log", lambda: fnp.log(x)),
        ("divide", lambda: (x + 1) / (x + 1)),
        ("log", lambda: ft.jit(lambda x: fnp.log(x) * 2)(x)),
        ("log", lambda: ft.vmap(fnp.log)(x)),
        ("sub", lambda: ft.jit(lambda x: x / 0 - x / 0)(fnp.ones(2))),
        ("scan", lambda: lax.scan(lambda c, x: (fnp.sqrt(c), x), -1.0, x)),
        ("", lambda: ft.grad(lambda x: fnp.log(x).sum() * fnp.log(x).sum())(x)),
        ("", lambda: ft.jit(fnp.log, donate_argnums=0)(-fnp.ones(3))),
    ]
    return ways


def test_a_nan_is_an_error_at_the_operation_that_made_it() -> None:
    for name, f in nan_ways():
        f()
        with ft.debug_nans(True):
            for _ in range(9):  # also once calls like it would be native
                with pytest.raises(FloatingPointError, match="nan") as told:
                    f()
            assert name in str(told.value)
    with ft.debug_nans(True):
        assert fnp.isnan(np.nan)
        ft.jit(lambda x: fnp.nan_to_num(x / x))(fnp.zeros(2))
        with pytest.raises(FloatingPointError, match=r"(?s)in log.*test_checked_calls"):
            ft.jit(lambda x: fnp.log(x) + 1)(-fnp.ones(2))
    with ft.config(debug_infs=True), pytest.raises(FloatingPointError, match="inf"):
        1 / fnp.zeros(2)
    np.testing.assert_array_equal(1 / fnp.zeros(2), np.inf)


def test_the_name_of_every_setting_is_accepted(capsys: Any) -> None:
    values = ft.config.values
    assert values["jax_numpy_rank_promotion"] == "allow"
    for name, value in values.items():
        assert ft.config.read(name) is value or ft.config.read(name) == value
    before = ft.config.jax_use_shardy_partitioner
    with ft.config(jax_use_shardy_partitioner=False):
        assert ft.config.jax_use_shardy_partitioner is False
        with ft.config(jax_pprint_use_color=False):
            assert ft.config.jax_use_shardy_partitioner is False
    assert ft.config.jax_use_shardy_partitioner is before is True
    with ft.config(jax_use_shardy_partitioner=False):
        pass
    assert capsys.readouterr().err.count("jax_use_shardy_partitioner") == 1
    with ft.transfer_guard("disallow"), ft.default_matmul_precision("float32"):
        assert ft.transfer_guard.value == "disallow"
    assert capsys.readouterr().err == ""
    with pytest.raises(ValueError, match="transfer_guard must be one of"):
        ft.config.update("jax_transfer_guard", "foo")
    with pytest.raises(ValueError, match="default_matmul_precision must be one of"):
        ft.default_matmul_precision("foo").__enter__()
    highest = [ft.lax.Precision(name) for name in ("highest", "float32", 2)]
    assert list(map(str, highest)) == ["HIGHEST"] * 3
    assert ft.lax.Precision(None) is ft.lax.Precision("fastest")
    for wrong in (lambda: ft.config.jax_nonsense, lambda: ft.config.update("x", 1)):
        with pytest.raises(AttributeError, match="unknown setting"):
            wrong()
    with ft.enable_x64(True):
        assert fnp.zeros(1).dtype == np.float64
        assert ft.config.x64_enabled

    @ft.enable_x64(True)
    def f() -> Any:
        return fnp.zeros(1).dtype

    assert f() == f() == np.float64
    assert fnp.zeros(1).dtype == np.float32


def test_traces_are_told_and_forbidden(capsys: Any) -> None:
    heard: list[Any] = []

    def listener(event: str, seconds: float, **more: Any) -> None:
        heard.append((event, more["fun_name"], seconds >= 0))

    def double(x: Any) -> Any:
        return x * 2

    f = ft.jit(double)
    monitoring.register_event_duration_secs_listener(listener)
    try:
        with ft.log_compiles(True), ft.explain_cache_misses(True):
            f(F)
            f(M)
    finally:
        monitoring.unregister_event_duration_listener(listener)
    stages = [monitoring.TRACED, monitoring.COMPILED]
    assert heard == [(event, "double", True) for event in stages * 2]
    told = capsys.readouterr().err
    assert told.count("traced double") == told.count("compiled double") == 2
    assert "for the first time" in told
    assert "x is f32[2,3] and was f32[3]" in told
    with ft.no_tracing(True):
        f(F)
        with pytest.raises(RuntimeError, match="no_tracing"):
            f(fnp.ones(5))
    with ft.enable_x64(), ft.debug_nans(), ft.log_compiles(False):
        assert fnp.ones(1).dtype == np.float64
        assert ft.debug_nans.value is True
    one = fnp.ones(3)
    total: Any = ft.grad(lambda x: (x * x).sum())
    with ft.no_execution():
        eager: list[Any] = [
            lambda: F + fnp.ones(3),
            lambda: fnp.ones(3),
            lambda: one[0],
        ]
        for g in (lambda: f(F), lambda: total(F), lambda: one + 1, *eager):
            with pytest.raises(RuntimeError, match="no_execution"):
                g()
        assert len(ft.make_jaxpr(lambda x: fnp.sin(x) * 2)(F).eqns) == 2
    f(F)
    with ft.no_tracing():
        assert (one + 1 + ft.nn.softmax(one)).shape == (3,)
        for g in (total, ft.vmap(double), ft.make_jaxpr(double)):
            with pytest.raises(RuntimeError, match="no_tracing"):
                g(one)
    kept: list[Any] = []
    with ft.check_tracer_leaks(True):
        ft.jit(lambda x: x + 1)(F)
        with pytest.raises(errors.TracingError, match="Leaked trace"):
            ft.jit(lambda x: kept.append(x * 2))(F)


def test_what_functions_are_composed_of_is_not_refused() -> None:
    strict = {"numpy_dtype_promotion": "strict", "numpy_rank_promotion": "raise"}
    turned = np.stack([np.eye(3, dtype=np.float32)[[1, 2, 0]]] * 2)
    with ft.config(**strict):
        minimize = ft.scipy.optimize.minimize
        found = minimize(lambda x: (x * x).sum(), np.ones(2, np.float32), method="BFGS")
        rotation = ft.scipy.spatial.transform.Rotation.from_matrix(turned)
        np.testing.assert_allclose(rotation.as_matrix(), turned, atol=1e-6)
    np.testing.assert_allclose(found.x, 0, atol=1e-5)
