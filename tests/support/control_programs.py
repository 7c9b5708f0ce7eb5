"""Random programs of loops and branches, and their meaning in plain Python.

`Unrolled` has the names of `ftrace.lax`, and runs loops and branches by Python's own:
a program written with one of them runs with the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax

Function = Callable[[Any], Any]


class Unrolled:
    """Loops and branches that Python runs, on values that are known."""

    @staticmethod
    def scan(f: Any, init: Any, xs: Any, reverse: bool = False) -> Any:
        carry, ys = init, []
        order = range(xs.shape[0])
        for t in reversed(order) if reverse else order:
            carry, y = f(carry, xs[t])
            ys.append(y)
        return carry, fnp.stack(ys[::-1] if reverse else ys)

    @staticmethod
    def fori_loop(low: int, high: int, f: Any, init: Any) -> Any:
        for i in range(low, high):
            init = f(i, init)
        return init

    @staticmethod
    def while_loop(test: Any, f: Any, init: Any) -> Any:
        while bool(test(init)):
            init = f(init)
        return init

    @staticmethod
    def cond(pred: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return yes(*operands) if bool(pred) else no(*operands)

    @staticmethod
    def switch(index: Any, branches: Any, *operands: Any) -> Any:
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)

    @staticmethod
    def vmap(f: Any) -> Any:
        return lambda xs: fnp.stack([f(xs[i]) for i in range(xs.shape[0])])

    @staticmethod
    def checkpoint(f: Any) -> Any:
        return f


class Compiled:
    """The same names as operations of a graph."""

    scan = staticmethod(lax.scan)
    fori_loop = staticmethod(lax.fori_loop)
    while_loop = staticmethod(lax.while_loop)
    cond = staticmethod(lax.cond)
    switch = staticmethod(lax.switch)
    vmap = staticmethod(ft.vmap)
    checkpoint = staticmethod(ft.checkpoint)


#: From the names of one of the above to a function of a vector of three numbers.
Program = Callable[[Any], Function]


def _elementwise(kind: int, scale: float) -> Program:
    def make(_: Any) -> Function:
        return [
            lambda x: fnp.sin(x * scale),
            lambda x: x * x * scale - x,
            lambda x: fnp.tanh(x) + scale,
            lambda x: x[::-1] * scale + x,
            lambda x: x - fnp.mean(x),
            lambda x: x.at[1].add(x[0] * scale),
        ][kind]

    return make


def _loop(body: Program, count: int) -> Program:
    def make(k: Any) -> Function:
        f = body(k)
        return lambda x: k.fori_loop(0, count, lambda i, c: f(c) * 0.5 + 0.1 * i, x)

    return make


def _scan(body: Program, length: int, reverse: bool) -> Program:
    def make(k: Any) -> Function:
        f = body(k)

        def run(x: Any) -> Any:
            xs = fnp.stack([x * (i + 1) * 0.3 for i in range(length)])

            def step(c: Any, e: Any) -> Any:
                c = f(c * 0.5 + e) + x * 0.1
                return c, c * e

            c, ys = k.scan(step, x, xs, reverse=reverse)
            return c * 0.5 + ys.sum(0) * 0.2

        return run

    return make


def _while(body: Program, limit: float) -> Program:
    def make(k: Any) -> Function:
        f = body(k)

        def run(x: Any) -> Any:
            def test(s: Any) -> Any:
                return (s[0] < 4) & (fnp.sum(s[1] * s[1]) < limit)

            def step(s: Any) -> Any:
                return s[0] + 1, f(s[1]) * 0.7 + x * 0.5

            return k.while_loop(test, step, (0, x))[1]

        return run

    return make


def _cond(yes: Program, no: Program, limit: float) -> Program:
    def make(k: Any) -> Function:
        a, b = yes(k), no(k)
        return lambda x: k.cond(x[0] > limit, a, lambda y: b(y) + x[1], x)

    return make


def _switch(first: Program, second: Program, third: Program) -> Program:
    def make(k: Any) -> Function:
        branches = [p(k) for p in (first, second, third)]
        return lambda x: k.switch((x[1] * 2).astype(int), branches, x)

    return make


def _vmap(body: Program) -> Program:
    def make(k: Any) -> Function:
        f = body(k)

        def run(x: Any) -> Any:
            lanes = fnp.stack([x, x * 0.5, -x])
            return k.vmap(f)(lanes).sum(0) * 0.4

        return run

    return make


def _grad(body: Program) -> Program:
    def make(k: Any) -> Function:
        f = body(k)
        return lambda x: ft.grad(lambda y: fnp.sum(f(y) * 0.3))(x)

    return make


def _checkpoint(body: Program) -> Program:
    def make(k: Any) -> Function:
        f = k.checkpoint(body(k))
        return lambda x: f(x) + f(x * 0.5)

    return make


def programs(depth: int) -> st.SearchStrategy[Program]:
    """Programs in which constructs stand at most `depth` deep in each other."""
    scales = st.sampled_from([0.5, -0.7, 0.9])
    leaf = st.builds(_elementwise, st.integers(0, 5), scales)
    if depth == 0:
        return leaf
    inner = programs(depth - 1)
    return st.one_of(
        st.builds(_loop, inner, st.integers(0, 3)),
        st.builds(_scan, inner, st.integers(1, 3), st.booleans()),
        st.builds(_while, inner, st.sampled_from([0.5, 3.0, 100.0])),
        st.builds(_cond, inner, leaf, st.sampled_from([-0.2, 0.4])),
        st.builds(_switch, inner, leaf, inner),
        st.builds(_vmap, inner),
        st.builds(_grad, inner),
        st.builds(_checkpoint, inner),
        leaf,
    )
