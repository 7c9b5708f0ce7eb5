"""debug.print and debug.callback run once, with values, under every transform."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import debug, errors


def printing(x: Any) -> Any:
    y = x * x
    debug.print("{:.2f} and {y}", x, y=y, ordered=True)
    return y


def test_print_where_values_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    runs = (
        lambda: printing(fnp.asarray(3.0)),
        lambda: ft.grad(printing)(3.0),
        lambda: ft.jvp(printing, (3.0,), (1.0,)),
        lambda: ft.vjp(printing, 3.0),
        lambda: ft.hessian(printing)(3.0),
    )
    for run in runs:
        run()
        assert capsys.readouterr().out == "3.00 and 9.0\n"
    with ft.disable_jit():
        ft.jit(printing)(3.0)
    assert capsys.readouterr().out == "3.00 and 9.0\n"
    debug.print("{{{}}}", {"a": fnp.arange(2)})
    assert "[0, 1]" in capsys.readouterr().out


def test_callback_gets_arrays() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        debug.callback(lambda *args, **kw: seen.append((args, kw)), [x], "name", k=1)
        return fnp.sum(x)

    ft.grad(f)(np.arange(3.0))
    ((values, name), kw) = seen[0]
    assert isinstance(values[0], ft.Array)
    np.testing.assert_array_equal(values[0], np.arange(3.0))
    assert (name, kw) == ("name", {"k": 1})
    with pytest.raises(errors.ArgumentError, match="takes a function"):
        debug.callback(3)  # pyright: ignore[reportArgumentType]


def test_options_of_an_effect_come_first_if_there_is_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[Any] = []
    debug.print(ordered=True)("{ordered}", ordered=1)  # pyright: ignore[reportOptionalCall]
    debug.callback(ordered=True)(seen.append, 2)  # pyright: ignore[reportOptionalCall]
    assert (capsys.readouterr().out, seen) == ("1\n", [2])
    for call in (debug.print, debug.log, debug.callback):
        with pytest.raises(errors.ArgumentError, match="got NoneType"):
            call(ordered=True, x=1)


def test_print_checks_its_format() -> None:
    with pytest.raises(errors.ArgumentError, match="asks for the argument 1"):
        debug.print("{} {}", 1)
    with pytest.raises(errors.ArgumentError, match="does not use"):
        debug.print("{}", 1, y=2)
