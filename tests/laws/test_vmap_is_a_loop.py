"""vmap is a loop over examples, whatever it is nested with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.errors import (
    ArgumentError,
    AxisError,
    BatchSizeError,
    TracerBoolConversionError,
    TreeError,
)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-6)


def test_axes_in_and_out() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    for axis in (0, 1, 2, -1, -3):
        for out in (0, 1, -1):
            want = np.stack(
                [np.cumsum(np.sin(s), 0) for s in np.moveaxis(x, axis, 0)], out
            )
            got = ft.vmap(lambda a: fnp.cumsum(fnp.sin(a), 0), axis, out)(x)
            close(got, want)


def test_axes_as_trees() -> None:
    tree = {"a": np.ones((5, 3)), "b": (np.arange(15.0).reshape(3, 5),)}
    f = ft.vmap(
        lambda t, c: {"s": fnp.sum(t["a"]) + t["b"][0] * c, "c": c},
        in_axes=({"a": 0, "b": (1,)}, None),
        out_axes={"s": 1, "c": None},
    )
    out = f(tree, 2.0)
    close(out["s"], 3 + tree["b"][0] * 2)
    close(out["c"], 2.0)


def test_nested_and_with_other_transforms() -> None:
    a = np.random.default_rng(1).normal(size=(4, 3, 3)).astype(np.float32)
    x = np.random.default_rng(2).normal(size=(5, 3)).astype(np.float32)
    f = lambda m, v: fnp.sum(fnp.tanh(m @ v) ** 2)  # noqa: E731
    both = ft.vmap(ft.vmap(f, (None, 0)), (0, None))
    want = np.array([[np.sum(np.tanh(m @ v) ** 2) for v in x] for m in a])
    close(both(a, x), want)
    close(ft.jit(both)(a, x), want)
    per_example = ft.vmap(ft.grad(f, argnums=1), (None, 0))(a[0], x)
    loop = np.stack([np.asarray(ft.grad(f, argnums=1)(a[0], v)) for v in x])
    close(per_example, loop)
    close(ft.grad(lambda m: fnp.sum(ft.vmap(f, (None, 0))(m, x)))(a[0]),
          sum(np.asarray(ft.grad(f)(a[0], v)) for v in x))  # fmt: skip
    hessians = ft.jit(ft.vmap(ft.hessian(lambda v: f(a[0], v))))(x)
    close(hessians[2], ft.hessian(lambda v: f(a[0], v))(x[2]))


def test_an_int_that_all_examples_share_is_an_int() -> None:
    def power(x: Any, n: int) -> Any:
        assert type(n) is int
        return x**n

    x = np.arange(3.0, dtype=np.float32)
    for n in (2, 3):
        close(ft.vmap(power, (0, None))(x, n), x**n)
        close(ft.vmap(ft.grad(power), (0, None))(x, n), n * x ** (n - 1))
        close(ft.vmap(lambda y, n=n: ft.vmap(power, (0, None))(y, n))(x[None]), [x**n])


def test_size_without_mapped_arguments() -> None:
    out = ft.vmap(lambda: fnp.arange(3), axis_size=4)()
    close(out, np.tile(np.arange(3), (4, 1)))


def test_keyword_arguments_are_mapped_over_the_first_axis() -> None:
    close(ft.vmap(lambda x, y: x + y)(np.arange(3.0), y=np.ones(3)), np.arange(3.0) + 1)


def test_python_control_flow_on_a_batched_value_is_refused() -> None:
    with pytest.raises(TracerBoolConversionError, match="is batched"):
        ft.vmap(lambda x: x if x > 0 else -x)(np.ones(3))


def test_bad_axes_say_what_to_do() -> None:
    f = lambda x, y: x + y  # noqa: E731
    with pytest.raises(BatchSizeError, match=r"3 of .*, 4 of"):
        ft.vmap(f)(np.ones(3), np.ones(4))
    with pytest.raises(BatchSizeError, match="no argument is mapped"):
        ft.vmap(f, (None, None))(1.0, 2.0)
    with pytest.raises(AxisError, match="no axis 0"):
        ft.vmap(f)(1.0, np.ones(3))
    with pytest.raises(TreeError, match="in_axes has 1 entries"):
        ft.vmap(f, (0,))(np.ones(3), np.ones(3))
    with pytest.raises(TreeError, match="prefix"):
        ft.vmap(f, ({"a": 0}, 0))(np.ones(3), np.ones(3))
    for axes in (True, (0, False), ({"a": True}, 0), (1.5, 0)):
        with pytest.raises(ArgumentError, match="in_axes must"):
            ft.vmap(f, axes)
        with pytest.raises(ArgumentError, match="out_axes must hold ints or None"):
            ft.vmap(f, out_axes=axes)
    with pytest.raises(ValueError, match="out_axes is None"):
        ft.vmap(f, out_axes=None)(np.ones(3), np.ones(3))
