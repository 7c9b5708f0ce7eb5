"""Programs of loops and branches, in the names that ftrace and JAX share.

Each takes the library and returns a pytree of arrays. `M` has numpy, lax, jit, grad,
vmap, jvp, vjp, jacfwd, jacrev, hessian, checkpoint and tree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

X = np.array([0.3, -0.6, 0.8], np.float32)
XS = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
W = np.array([[0.2, -0.5, 0.1], [0.4, 0.3, -0.2], [-0.3, 0.6, 0.5]], np.float32)

CASES: dict[str, Callable[[Any], Any]] = {}


def case(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    CASES[function.__name__] = function
    return function


# Scan.


@case
def scan_sum(M: Any) -> Any:
    return M.lax.scan(lambda c, x: (c + x, c * x), np.zeros(3, np.float32), XS)


@case
def scan_reverse(M: Any) -> Any:
    step = lambda c, x: (c * 0.5 + x, c)  # noqa: E731
    return M.lax.scan(step, np.zeros(3, np.float32), XS, reverse=True)


@case
def scan_no_xs(M: Any) -> Any:
    return M.lax.scan(lambda c, _: (c * 2, c + 1), 1.5, None, length=5)


@case
def scan_empty(M: Any) -> Any:
    return M.lax.scan(lambda c, x: (c + x, c), X, np.zeros((0, 3), np.float32))


@case
def scan_trees(M: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        a = c["a"] * x[0] + c["b"][0]
        return {"a": a, "b": (x[1], c["b"][1] + 1)}, {"y": a, "n": None}

    init = {"a": X, "b": (X * 0, 0)}
    return M.lax.scan(step, init, (XS, XS[::-1]))


@case
def scan_weak_carry(M: Any) -> Any:
    """A weak carry takes the dtype that it becomes."""
    return M.lax.scan(lambda c, x: (c + x.sum(), c), 0, XS)


@case
def scan_unrolled(M: Any) -> Any:
    return M.lax.scan(lambda c, x: (M.numpy.sin(c) + x, x * 2), X, XS, unroll=2)


@case
def scan_closes_over(M: Any) -> Any:
    def f(w: Any) -> Any:
        return M.lax.scan(lambda c, x: (M.numpy.tanh(c @ w + x), c), X, XS)

    return M.jit(f)(W)


@case
def scan_gradient(M: Any) -> Any:
    def loss(w: Any, c: Any, xs: Any) -> Any:
        c, ys = M.lax.scan(lambda c, x: (M.numpy.tanh(c @ w + x), c * x), c, xs)
        return (c * c).sum() + ys.sum()

    return M.jit(M.grad(loss, (0, 1, 2)))(W, X, XS)


@case
def scan_hessian(M: Any) -> Any:
    def loss(c: Any) -> Any:
        return M.lax.scan(lambda c, x: (M.numpy.sin(c) * x, c), c, XS)[0].sum()

    return M.hessian(loss)(X)


@case
def scan_jvp(M: Any) -> Any:
    def f(c: Any, xs: Any) -> Any:
        return M.lax.scan(lambda c, x: (c * x + M.numpy.cos(c), c), c, xs)

    return M.jvp(f, (X, XS), (X * 2, XS * 0.1))


@case
def scan_checkpointed(M: Any) -> Any:
    @M.checkpoint
    def step(c: Any, x: Any) -> Any:
        return M.numpy.sin(M.numpy.sin(c * x) + c), c

    def loss(c: Any, xs: Any) -> Any:
        c, ys = M.lax.scan(step, c, xs)
        return c.sum() + (ys * ys).sum()

    return M.grad(loss, (0, 1))(X, XS)


@case
def scan_of_scan(M: Any) -> Any:
    def outer(c: Any, x: Any) -> Any:
        inner = lambda d, y: (d * 0.5 + y, d * y)  # noqa: E731
        return M.lax.scan(inner, c.sum(), x)[0] + c, x.sum()

    def f(c: Any) -> Any:
        return M.lax.scan(outer, c, XS)

    return f(X), M.jacrev(lambda c: f(c)[0])(X), M.jacfwd(lambda c: f(c)[1])(X)


@case
def scan_over_lanes(M: Any) -> Any:
    def f(c: Any, xs: Any) -> Any:
        return M.lax.scan(lambda c, x: (c + M.numpy.sin(x), c * x), c, xs)

    both = np.stack([XS, XS * 2])
    return (
        M.vmap(f, (None, 0))(X, both),
        M.vmap(f, (0, None))(np.stack([X, -X]), XS),
        M.vmap(f)(np.stack([X, -X]), both),
        M.vmap(f, (0, 2), (0, 1))(np.stack([X, -X]), np.stack([XS, XS], 2)),
    )


# Counted loops.


@case
def fori(M: Any) -> Any:
    return M.lax.fori_loop(2, 7, lambda i, c: c * 0.9 + i, X)


@case
def fori_empty(M: Any) -> Any:
    return M.lax.fori_loop(5, 2, lambda i, c: c * 0.9 + i, X)


@case
def fori_traced_bounds(M: Any) -> Any:
    def f(low: Any, high: Any) -> Any:
        return M.lax.fori_loop(low, high, lambda i, c: (c[0] * 1.1 + i, i), (X, 0))

    return (
        M.jit(f)(3, 8),
        M.jit(f)(3, 3),
        M.vmap(f)(np.arange(3, dtype=np.int32), np.array([2, 5, 4], np.int32)),
    )


@case
def fori_gradient(M: Any) -> Any:
    def f(x: Any) -> Any:
        return M.lax.fori_loop(0, 6, lambda i, c: M.numpy.sin(c * x) + i, x).sum()

    return M.grad(f)(X), M.grad(lambda x: M.grad(f)(x).sum())(X)


@case
def fori_indexes(M: Any) -> Any:
    def step(i: Any, t: Any) -> Any:
        return t.at[i + 1].add(t[i] * 0.5)

    return M.lax.fori_loop(0, 3, step, M.numpy.asarray(XS))


# While.


@case
def while_counts(M: Any) -> Any:
    return M.lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 3, c[1] * 2), (0, X))


@case
def while_never(M: Any) -> Any:
    return M.lax.while_loop(lambda c: c[0] > 10, lambda c: (c[0] + 3, c[1] * 2), (0, X))


@case
def while_jvp(M: Any) -> Any:
    def f(x: Any) -> Any:
        test = lambda c: (c * c).sum() > 0.01  # noqa: E731
        return M.lax.while_loop(test, lambda c: M.numpy.sin(c) * x, x)

    return M.jvp(f, (X,), (X * 0 + 1,)), M.jacfwd(f)(X)


@case
def while_lanes(M: Any) -> Any:
    def f(n: Any, x: Any) -> Any:
        step = lambda c: (c[0] - 1, M.numpy.cos(c[1]))  # noqa: E731
        return M.lax.while_loop(lambda c: c[0] > 0, step, (n, x))

    n = np.array([0, 3, 1, 7], np.int32)
    return M.vmap(f)(n, XS), M.vmap(f, (0, None))(n, X), M.vmap(f, (None, 0))(3, XS)


@case
def while_lanes_jvp(M: Any) -> Any:
    def f(n: Any, x: Any) -> Any:
        step = lambda c: (c[0] - 1, M.numpy.sin(c[1] * x))  # noqa: E731
        return M.lax.while_loop(lambda c: c[0] > 0, step, (n, x))[1]

    n = np.array([0, 3, 1, 7], np.int32)
    return M.vmap(lambda n, x: M.jvp(lambda x: f(n, x), (x,), (x * 0 + 1,)))(n, XS)


# Branches.


def _branches(M: Any) -> Any:
    return (
        lambda x: M.numpy.sin(x) * 2,
        lambda x: x * x - 1,
        lambda x: M.numpy.flip(x) + x.sum(),
    )


@case
def cond_known(M: Any) -> Any:
    f, g, _ = _branches(M)
    return M.lax.cond(True, f, g, X), M.lax.cond(False, f, g, X)


@case
def cond_number(M: Any) -> Any:
    f, g, _ = _branches(M)
    return M.lax.cond(2, f, g, X), M.lax.cond(0, f, g, X)


@case
def cond_traced(M: Any) -> Any:
    f, g, _ = _branches(M)
    h = M.jit(lambda x: M.lax.cond(x[0] > 0, f, g, x))
    return h(X), h(-X)


@case
def cond_gradient(M: Any) -> Any:
    f, g, _ = _branches(M)

    def loss(x: Any) -> Any:
        return M.lax.cond(x[0] > 0, f, g, x * x).sum()

    return M.jit(M.grad(loss))(X), M.grad(loss)(-X), M.hessian(loss)(X)


@case
def cond_lanes(M: Any) -> Any:
    f, g, _ = _branches(M)

    def h(p: Any, x: Any) -> Any:
        return M.lax.cond(p, f, g, x)

    p = np.array([True, False, True, False])
    return M.vmap(h)(p, XS), M.vmap(h, (0, None))(p, X), M.vmap(h, (None, 0))(True, XS)


@case
def cond_lanes_gradient(M: Any) -> Any:
    def h(x: Any) -> Any:
        return M.lax.cond(x > 0, lambda: M.numpy.sqrt(x), lambda: x * 3)

    return M.vmap(M.grad(h))(X)


@case
def cond_closes_over(M: Any) -> Any:
    def h(x: Any, w: Any) -> Any:
        return M.lax.cond(x[1] > 0, lambda: x @ w, lambda: w @ x + x)

    return M.jit(M.grad(lambda x, w: h(x, w).sum(), (0, 1)))(X, W)


@case
def switch_clamps(M: Any) -> Any:
    branches = _branches(M)
    h = M.jit(lambda i: M.lax.switch(i, branches, X))
    return [h(i) for i in (-5, 0, 1, 2, 9)]


@case
def switch_lanes(M: Any) -> Any:
    branches = _branches(M)
    h = lambda i, x: M.lax.switch(i, branches, x)  # noqa: E731
    i = np.array([2, 0, -1, 7], np.int32)
    return M.vmap(h)(i, XS), M.vmap(M.grad(lambda i, x: h(i, x).sum(), 1))(i, XS)


# Compositions.


@case
def map_of_rows(M: Any) -> Any:
    return M.lax.map(lambda x: (x.sum(), M.numpy.sin(x)), XS)


@case
def map_in_batches(M: Any) -> Any:
    return [M.lax.map(lambda x: x * x.sum(), XS, batch_size=n) for n in (1, 3, 4, 9)]


@case
def loops_in_branches_in_loops(M: Any) -> Any:
    def f(x: Any) -> Any:
        def step(c: Any, e: Any) -> Any:
            many = lambda: M.lax.fori_loop(0, 3, lambda i, d: d * 0.5 + e, c)  # noqa: E731
            c = M.lax.cond(e.sum() > 0, many, lambda: c - e)
            return c, c.sum()

        return M.lax.scan(step, x, XS)

    return f(X), M.jit(M.grad(lambda x: f(x)[1].sum()))(X)


@case
def newton(M: Any) -> Any:
    def root(a: Any) -> Any:
        def test(c: Any) -> Any:
            return M.numpy.abs(c[0] * c[0] - a) > 1e-5 * a

        def step(c: Any) -> Any:
            return (c[0] + a / c[0]) / 2, c[1] + 1

        return M.lax.while_loop(test, step, (a, 0))

    return M.vmap(root)(np.array([1.0, 2.0, 30.0, 1e4], np.float32))


@case
def gradient_in_a_loop(M: Any) -> Any:
    loss = lambda w: ((XS @ w - 1) ** 2).sum() * 0.05  # noqa: E731
    step = lambda w, _: (w - 0.3 * M.grad(loss)(w), loss(w))  # noqa: E731
    return M.lax.scan(step, X, None, length=10)
