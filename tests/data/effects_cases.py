"""Programs with effects, for any library with JAX's names, and what they print.

`M` has `jit`, `grad`, `vmap`, `lax`, `numpy`, `print` and `note`: the last one is
`debug.callback` of a function that keeps its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

f32 = np.float32
x = np.arange(6, dtype=f32).reshape(2, 3) / 4
n = np.arange(4, dtype=np.int32)

#: (format, positional arguments, keyword arguments), for print under jit.
FORMATS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("plain", (), {}),
    ("{}", (f32(1.5),), {}),
    ("{:.2f}", (f32(3.14159),), {}),
    ("{:>8.3f}|{:e}", (f32(1.5), f32(2)), {}),
    ("{:d}|{:5}|{:<4}|", (np.int32(4), np.int32(5), np.int32(-6)), {}),
    ("{x} and {y}", (), {"x": x, "y": n}),
    ("{0} {1} {0}", (n, f32(0.25)), {}),
    ("{} {}", ("name", None), {}),
    ("{x.shape} {x.dtype} {x.ndim}", (), {"x": x}),
    ("{0[1]}", (n,), {}),
    ("{}", (np.array([1 + 2j], np.complex64),), {}),
    ("{}", (np.array([True, False]),), {}),
    ("{}", (np.zeros((0, 2), f32),), {}),
    ("{s!r} {s}", (), {"s": "text"}),
    ("{}", (np.array([1e-8, 1e8, np.nan, np.inf], f32),), {}),
]


def straight(M: Any, a: Any) -> Any:
    M.note("first", a)
    b = M.numpy.sin(a)
    M.note("second", b)
    M.note("second", b)
    return b * a


def loop(M: Any, a: Any) -> Any:
    def body(c: Any, i: Any) -> Any:
        M.note("step", i, c)
        return M.numpy.sin(c) * (i + 1), c

    return M.lax.scan(body, a, M.numpy.arange(3, dtype=f32))[0]


def backwards(M: Any, a: Any) -> Any:
    def body(c: Any, i: Any) -> Any:
        M.note("step", i)
        return c + i, None

    return M.lax.scan(body, a, M.numpy.arange(3, dtype=f32), reverse=True)[0]


def branch(M: Any, a: Any) -> Any:
    def small(v: Any) -> Any:
        M.note("small", v)
        return v * v

    def large(v: Any) -> Any:
        M.note("large", v)
        return M.numpy.cos(v)

    return M.lax.cond(a < 1, small, large, a)


def silent_branch(M: Any, a: Any) -> Any:
    def small(v: Any) -> Any:
        return v * v

    def large(v: Any) -> Any:
        M.note("large", v)
        return M.numpy.cos(v)

    return M.lax.switch(M.numpy.int32(a > 1), [small, large], a)


def until(M: Any, a: Any) -> Any:
    def body(c: Any) -> Any:
        M.note("halved", c)
        return c / 2

    return M.lax.while_loop(lambda c: c > 0.25, body, a)


def counted(M: Any, a: Any) -> Any:
    def body(i: Any, c: Any) -> Any:
        M.note("count", i)
        return c * c

    return M.lax.fori_loop(0, 3, body, a)


def nested(M: Any, a: Any) -> Any:
    def outer(c: Any, i: Any) -> Any:
        M.note("outer", i, c)
        c = loop(M, c)
        M.note("between", c)
        return branch(M, c + i), c

    total, rows = M.lax.scan(outer, a, M.numpy.arange(2, dtype=f32))
    M.note("end", total)
    return total + rows.sum()


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    function.__name__: function
    for function in (
        straight, loop, backwards, branch, silent_branch, until, counted, nested
    )
}  # fmt: skip

#: What is done with a program; reverse mode of `until` is what JAX lacks.
WAYS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "plain": lambda M, f: f(f32(1.5)),
    "jit": lambda M, f: M.jit(f)(f32(0.75)),
    "grad": lambda M, f: M.grad(f)(f32(1.5)),
    "jit_grad": lambda M, f: M.jit(M.grad(f))(f32(0.75)),
    "grad_jit": lambda M, f: M.grad(M.jit(f))(f32(1.5)),
    "vmap": lambda M, f: M.vmap(f)(np.array([0.5, 1.5], f32)),
    "jit_vmap": lambda M, f: M.jit(M.vmap(f))(np.array([1.5, 0.5], f32)),
}
