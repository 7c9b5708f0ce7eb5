"""What `explain` says of a program is what the program is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import ArgumentError


def layer(w: Any, x: Any) -> Any:
    return fnp.tanh(x @ w)


W, X = fnp.ones((64, 32)), fnp.ones((96, 64))


def test_kernels_are_told_with_lines_work_and_times() -> None:
    found = ft.explain(ft.jit(layer))(W, X)
    assert len(found.kernels) == len(ft.jit(layer).lower(W, X).kernels)
    product = found.kernels[0]
    assert product.operations >= 2 * 96 * 64 * 32
    assert product.nbytes >= 4 * (96 * 64 + 64 * 32 + 96 * 32)
    assert product.seconds is not None
    assert product.seconds > 0
    assert {origin.function for origin in product.origins} == {"layer"}
    assert (found.arguments, found.results) == (W.nbytes + X.nbytes, 96 * 32 * 4)
    text = str(found)
    assert text.startswith("layer on cpu, ")
    assert f"0 {product.name} " in text
    assert "test_explain.py" in text
    assert "limits of this machine: " in text
    assert " of arithmetic" in text or " of memory" in text


def test_code_and_schedule_can_be_asked_for() -> None:
    found = ft.explain(layer)(W, X)
    kernel = found.kernels[0]
    assert "for units of" in kernel.schedule
    assert "define void" in kernel.source
    assert "ret" in kernel.assembly
    assert kernel.schedule in str(kernel)
    assert "load buffer" in str(kernel)
    passes = ft.explain(lambda x: (x * 1 + x.T.T).sum(0))(X).passes
    assert passes[0][0] == "simplify"
    assert len(passes[0][1].nodes) < 9
    assert all(graph.outputs[0].shape == (64,) for _, graph in passes)


@pytest.mark.parametrize("name", ["interpreter", "opencl"])
def test_other_devices_tell_what_they_know(name: str) -> None:
    if name == "opencl":
        pytest.importorskip("pyopencl")
    found = ft.explain(ft.jit(layer, device=name))(W, X)
    assert found.device.name == name
    assert len(str(found).splitlines()) > 3


def test_memory_is_told_by_its_largest_values() -> None:
    found = ft.explain(lambda x: fnp.sort(fnp.sort(x, 0) + 1, 1))(fnp.ones((50, 70)))
    assert found.program.arena >= 50 * 70 * 4
    assert "float32[50,70] 14 kB of step " in str(found)


def test_nothing_runs_where_it_must_not(capsys: pytest.CaptureFixture[str]) -> None:
    struct = ft.ShapeDtypeStruct((96, 64), np.float32)
    found = ft.explain(layer)(W, struct)
    assert found.seconds is None
    assert "limits" not in str(found)

    def prints(x: Any) -> Any:
        ft.debug.print("{}", x)
        return x + 1

    assert ft.explain(prints)(1.0).seconds is None
    assert capsys.readouterr().out == ""


def test_arguments_are_not_given_up() -> None:
    x = fnp.ones(1000)
    ft.explain(ft.jit(lambda x: x * 2, donate_argnums=0))(x)
    assert x.sum() == 1000


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x,
        lambda x: {"a": fnp.linalg.svd(x)[1], "b": x[:0]},
        lambda x: ft.lax.scan(lambda c, v: (c * v, c), x[0], x),
        lambda x: ft.lax.cond(x.sum() > 0, lambda: x, lambda: -x),
        lambda x: ft.lax.while_loop(lambda c: c.sum() < 99, lambda c: c + x, x),
    ],
)
def test_any_program_is_told(fun: Any) -> None:
    found = ft.explain(fun)(fnp.ones((8, 8)))
    assert len(found.kernels) == len(found.program.steps)
    assert str(found).startswith("<lambda> on cpu")


def test_static_and_named_arguments() -> None:
    f = ft.jit(lambda x, n, *, y: x**n + y, static_argnums=1)
    assert ft.explain(f)(X, 3, y=1.0).kernels


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ArgumentError, match="explain"):
        ft.explain(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("x", [0.1, 3, True, np.float64(2), ft.random.key(0)])
def test_numbers_are_given_as_the_program_takes_them(x: Any) -> None:
    def fun(x: Any) -> Any:
        if x.ndim == 0 and fnp.issubdtype(x.dtype, ft.dtypes.prng_key):
            return ft.random.uniform(x, (3,))
        return x.astype("float64") * 2

    assert ft.explain(fun)(x).seconds is not None
