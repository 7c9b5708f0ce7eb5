"""`check`: what it holds functions to, and what it says of those that do not hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import test_util, testing
from ftrace.errors import ArgumentError, DeviceError, ValueRangeError
from ftrace.testing import available_devices, check, missing_reason

X = np.linspace(0.1, 2, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
NOISE = np.random.default_rng(0)
FEW = ("interpreter",)  # compiling for the others takes long


def said(f: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
    """The first lines of what fails."""
    with pytest.raises(AssertionError) as caught:
        check(f, *args, **{"devices": FEW, **options})
    return [x for x in str(caught.value).split("\n") if x.startswith("check: ")]


def layer(params: Any, x: Any) -> Any:
    y = fnp.tanh(x @ params["w"]) * params["scale"]
    return {"y": y, "largest": fnp.argmax(y, 1)}


GOOD: dict[str, tuple[Any, ...]] = {
    "a layer": (layer, {"w": W, "scale": 0.5}, X),
    "a whole power": (lambda x, n: x**n, 0.5, 3),
    "a choice": (lambda x, fast: fnp.sin(x) if fast else x, np.float64(0.3), True),
    "integers alone": (lambda i: i * 2, np.arange(3)),
    "complex numbers": (lambda z: z * z * 1j, np.array([1 + 2j, 3])),
    "draws": (lambda key, x: ft.random.normal(key, (3,)) * x, ft.random.key(0), 2.0),
}


@pytest.mark.parametrize("name", GOOD)
def test_functions_that_hold_pass(name: str) -> None:
    check(*GOOD[name], devices=FEW)


def test_all_devices_are_asked_by_default() -> None:
    ran: list[str] = []

    def f(x: Any) -> Any:
        ran.append(ft.config.device)
        return x * 2

    check(f, X)
    assert set(ran) == {*available_devices(), ft.config.device}
    assert {"cpu", "interpreter"} <= {*ran}


@ft.custom_vjp
def wrong_rule(x: Any) -> Any:
    return fnp.sin(x)


wrong_rule.defvjp(
    lambda x: (wrong_rule(x), x), lambda x, ct: (ct * fnp.cos(x) * 1.1,)
)  # fmt: skip


@ft.custom_jvp
def two_rules(x: Any) -> Any:
    return fnp.sin(x)


@two_rules.defjvp
def two_rules_jvp(primals: Any, tangents: Any) -> Any:
    return two_rules(*primals), tangents[0] * fnp.sin(*primals)


@ft.custom_batching.custom_vmap
def wrong_lanes(x: Any) -> Any:
    return fnp.sin(x)


@wrong_lanes.def_vmap
def wrong_lanes_rule(size: int, batched: Any, x: Any) -> Any:
    return fnp.sin(x[::-1]), True


def on_one_device(x: Any) -> Any:
    return x * (2 if ft.config.device == "interpreter" else 1)


BAD: dict[str, tuple[Any, str, str]] = {
    "a wrong vjp": (wrong_rule, "grads", r"the vjp of wrong_rule by leaf\[0\] is"),
    "a wrong jvp": (two_rules, "grads", r"the jvp of two_rules by leaf\[0\] is"),
    "a wrong lane": (wrong_lanes, "vmap", r"vmap\(in_axes=\(0,\)\) of wrong_lanes"),
    "another device": (on_one_device, "ways", "jit on 'interpreter' of on_one_device"),
    "noise": (lambda x: x * NOISE.random(), "bits", "call 2 beside the first"),
    "a fixed dtype": (
        lambda x: fnp.sin(x).astype("float32"), "dtypes",
        "the result is float32 where arguments are float64",
    ),
    "Python's control flow": (
        lambda x: x if x.sum() > 0 else -x, "bits", "raises TracerBoolConversionError"
    ),
    "numbers that are no arrays": (
        lambda x: x.astype("float32") * 2, "numbers", "raises AttributeError"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_functions_that_do_not_hold_fail(name: str) -> None:
    f, kind, message = BAD[name]
    x = np.float32(0.5) if kind == "numbers" else X
    lines = said(f, x, modes="rev" if f is wrong_rule else ("fwd", "rev"))
    told = [line for line in lines if line.startswith(f"check: {kind}")]
    assert any(re.search(message, line) for line in told), lines


def test_a_rule_for_reverse_mode_only_is_told_how_it_is_checked() -> None:
    f = ft.custom_vjp(fnp.sin)
    f.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (ct * fnp.cos(x),))
    told = said(f, X)
    assert 'write check(…, modes="rev")' in "\n".join(told)
    check(f, X, modes="rev", devices=FEW)


def test_checks_can_be_left_out() -> None:
    check(wrong_rule, X, modes="rev", skip=["grads"], devices=FEW)
    check(BAD["a fixed dtype"][0], X, skip={"dtypes"}, devices=FEW)


def test_what_the_function_itself_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        check(lambda x: 1 // 0, X)


def test_there_is_one_check_of_gradients() -> None:
    for name in ("check_grads", "check_jvp", "check_vjp"):
        assert getattr(testing, name) is getattr(test_util, name)


def test_a_missing_device_has_a_reason() -> None:
    assert missing_reason("cpu") is None
    with pytest.raises(DeviceError, match="device must be 'cpu'"):
        missing_reason("tpu")
    assert "interpreter has 1" in (missing_reason("interpreter:3") or "")


def test_wrong_uses_are_errors_of_ours() -> None:
    with pytest.raises(ValueRangeError, match="check: skip must be 'bits'"):
        check(fnp.sin, X, skip=["speed"])
    with pytest.raises(ValueRangeError, match="check: modes must be 'fwd' or 'rev'"):
        check(fnp.sin, X, modes="both")
    with pytest.raises(DeviceError):
        check(fnp.sin, X, devices=["tpu"])
    with pytest.raises(ArgumentError, match="needs an argument that varies"):
        check(lambda n: n, 3)
    with pytest.raises(ArgumentError, match="check"):
        check(3, X)  # type: ignore[arg-type]


def test_check_grads_names_the_function_and_the_leaf() -> None:
    @ft.custom_vjp
    def wrong(p: Any, x: Any) -> Any:
        return fnp.sin(p["b"]) * p["a"] + x

    def backwards(saved: Any, ct: Any) -> Any:
        return {"a": ct * fnp.sin(saved["b"]), "b": ct}, ct

    wrong.defvjp(lambda p, x: (wrong(p, x), p), backwards)
    args = {"a": fnp.ones(9), "b": fnp.ones(9)}, fnp.ones(9)
    for order in (1, 2):
        with pytest.raises(
            AssertionError, match=r"the vjp of wrong by p\['b'\] is not"
        ):
            ft.testing.check_grads(wrong, args, order, modes="rev")
    squared = lambda p, x: fnp.sin(x) * ft.grad(lambda x: wrong(p, x).sum())(x)  # noqa: E731
    ft.testing.check_grads(squared, args, 2)
