"""Interpreters of users: loops over equations that bind primitives again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn, random
from ftrace.compat.jaxpr import Literal
from ftrace.experimental import io_callback

Function = Callable[..., Any]

DRAWN = np.random.default_rng(0)
X = DRAWN.random((4, 5), np.float32)
I = np.array([2, 0, 3], np.int32)  # noqa: E741
A = DRAWN.random((4, 4), np.float32) + 4 * np.eye(4, dtype=np.float32)
IMAGE = DRAWN.random((2, 6, 6, 3), np.float32)
KERNEL = DRAWN.random((3, 3, 3, 4), np.float32)
LAYOUT = ("NHWC", "HWIO", "NHWC")


@ft.custom_jvp
def doubled(x: Any) -> Any:
    return fnp.sin(x) * 2


doubled.defjvp(lambda p, t: (doubled(p[0]), 3 * fnp.cos(p[0]) * t[0]))


def of_numpy(x: Any) -> Any:
    struct = ft.ShapeDtypeStruct(x.shape, x.dtype)
    called = ft.pure_callback(lambda a: np.sin(a), struct, x, vmap_method="expand_dims")
    return io_callback(lambda a: np.cos(a), struct, called)


#: Functions of x, of indices, of a matrix or of a key, by their argument.
PROGRAMS: dict[str, tuple[Any, Function]] = {
    "softmax": (X, nn.softmax),
    "gelu": (X, nn.gelu),
    "layers": (X, lambda x: fnp.tanh(x @ x.T) @ x - x.mean(1, keepdims=True)),
    "attention": (X[None, :, None], lambda q: nn.dot_product_attention(q, q, q)),
    "scan": (X, lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x)),
    "while": (X, lambda x: lax.while_loop(lambda c: c.sum() < 99, lambda c: c * 2, x)),
    "cond": (X, lambda x: lax.cond(x.sum() > 3, fnp.sin, fnp.cos, x)),
    "custom": (X, lambda x: lax.scan(lambda c, a: (doubled(c) + a, c), x[0], x)),
    "checkpoint": (X, ft.checkpoint(lambda x: fnp.sin(fnp.exp(x)))),
    "gradient": (X, ft.grad(lambda x: (nn.silu(x) ** 2).sum())),
    "fft": (X, lambda x: fnp.abs(fnp.fft.rfft(fnp.fft.fft(x).real))),
    "cholesky": (A, lambda a: fnp.linalg.cholesky(a @ a.T)),
    "qr": (A, fnp.linalg.qr),
    "svd": (X, lambda x: fnp.linalg.svd(x, full_matrices=False)[1]),
    "eigh": (A, lambda a: fnp.linalg.eigh(a + a.T)[0]),
    "eig": (A, lambda a: fnp.abs(fnp.linalg.eig(a)[0])),
    "solve": (A, lambda a: fnp.linalg.solve(a, a[0])),
    "tridiagonal": (A, lambda a: lax.linalg.tridiagonal_solve(a[0], a[1] + 9, a[2], a)),
    "sort": (X, lambda x: (fnp.sort(x, 0), fnp.argsort(x) * x)),
    "lexsort": (X, lambda x: x[:, fnp.lexsort((x[0], x[1]))]),
    "top_k": (X, lambda x: lax.top_k(x, 2)),
    "cumulate": (X, lambda x: (fnp.cumsum(x, 1), lax.cummax(x), lax.cumlogsumexp(x))),
    "conv": (IMAGE, lambda a: lax.conv_general_dilated(
        a, KERNEL, (2, 1), "SAME", dimension_numbers=LAYOUT)),
    "pool": (IMAGE, lambda a: lax.reduce_window(
        a, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")),
    "gather": (X, lambda x: (x[I], x[:, I], x[I, I], x.at[I + 3].get(mode="fill"))),
    "along": (X, lambda x: fnp.take_along_axis(x, x.argsort(0), 0)),
    "nothing": (X, lambda x: (x[:0][np.zeros(0, int)], x.at[:0].add(1))),
    "set": (X, lambda x: x.at[I].set(7).at[I + 2].set(1, mode="drop")),
    "add": (X, lambda x: x.at[I, I].add(x[I, I]).at[:, I].multiply(2)),
    "extremes": (X, lambda x: x.at[I].max(0.5).at[I, 0].min(0.2)),
    "slices": (X, lambda x: lax.dynamic_update_slice(x, x[:2] * 2, (I[0], I[1]))),
    "barrier": (X, lax.optimization_barrier),
    "callbacks": (X, lambda x: of_numpy(lax.stop_gradient(x)) * x),
    "key": (I[0], lambda s: random.key_data(random.key(s))),
    "normal": (I[0], lambda s: random.normal(random.key(s), (3,))),
    "closed": (X, lambda x: x + random.normal(random.key(0), (5,))),
    "bits": (random.key(3), lambda k: random.bits(k, (3,), np.uint8)),
    "split": (random.key(3), lambda k: random.uniform(random.split(k, 3)[1], (3,))),
    "fold": (random.key(3), lambda k: random.gamma(random.fold_in(k, 4), 2.0)),
    "integers": (random.key(3), lambda k: random.randint(k, (7,), 0, 10)),
    "permutation": (random.key(3), lambda k: random.permutation(k, 10)),
    "raw": (random.PRNGKey(3), lambda k: random.bernoulli(k, 0.3, (7,))),
    "rbg": (I[0], lambda s: random.normal(random.key(s, impl="rbg"), (3,))),
    "keys": (random.key(3), lambda k: lax.scan(
        lambda k, a: (random.split(k)[0], random.normal(k)), k, X)[1]),
}  # fmt: skip


def walked(function: Function) -> Function:
    """A function, equation by equation."""

    def evaluate(*args: Any) -> list[Any]:
        closed = ft.make_jaxpr(function)(*args)
        known = dict(zip(closed.jaxpr.invars, args, strict=True))
        known |= dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
        read = lambda v: v.val if isinstance(v, Literal) else known[v]  # noqa: E731
        for eqn in closed.eqns:
            params = eqn.primitive.get_bind_params(eqn.params)
            found = eqn.primitive.bind(*map(read, eqn.invars), **params)
            results = found if eqn.primitive.multiple_results else [found]
            known |= dict(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in closed.outvars]

    return evaluate


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("x64", [None, False])
def test_a_loop_over_equations_computes_what_the_function_does(
    name: str, x64: bool | None
) -> None:
    given, function = PROGRAMS[name]

    def loss(h: Function) -> Function:
        return lambda x: sum((abs(y) ** 2).sum() for y in ft.tree.leaves(h(x)))

    def check(way: Callable[[Function], Function], *args: Any) -> None:
        both = [way(h)(*args) for h in (walked(function), function)]
        for got, want in zip(*map(ft.tree.leaves, both), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)

    with ft.config(enable_x64=x64):
        x = fnp.asarray(given)
        check(lambda h: h, x)
        check(lambda h: ft.jit(ft.vmap(h)), fnp.stack([x, x]))
        if np.issubdtype(x.dtype, np.floating) and name not in ("while", "nothing"):
            check(lambda h: ft.jit(ft.grad(loss(h))), x)


#: The text of an equation, as JAX 0.10.2 has it, of a function of x, or i and x.
EQUATIONS: list[tuple[Function, str]] = [
    (
        lambda x: x[I],
        "gather[\n"
        "  dimension_numbers=GatherDimensionNumbers(offset_dims=(1,), "
        "collapsed_slice_dims=(0,), start_index_map=(0,), operand_batching_dims=(), "
        "start_indices_batching_dims=())\n"
        "  fill_value=None\n"
        "  indices_are_sorted=False\n"
        "  mode=GatherScatterMode.PROMISE_IN_BOUNDS\n"
        "  slice_sizes=(1, 5)\n"
        "  unique_indices=False\n]",
    ),
    (
        lambda x: x.at[I].add(1),
        "scatter-add[\n"
        "  dimension_numbers=ScatterDimensionNumbers(update_window_dims=(1,), "
        "inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,), "
        "operand_batching_dims=(), scatter_indices_batching_dims=())\n"
        "  indices_are_sorted=False\n"
        "  mode=GatherScatterMode.FILL_OR_DROP\n"
        "  unique_indices=False\n"
        "  update_consts=()\n"
        "  update_jaxpr={ lambda ; b:f32[] c:f32[]. let d:f32[] = add b c in (d,) }\n]",
    ),
    (lambda x: lax.top_k(x, 2), "top_k[axis=1 k=2]"),
    (fnp.argsort, "sort[dimension=1 is_stable=True num_keys=1]"),
    (
        lambda x: lax.linalg.eigh(x[:, :4]),
        "eigh[algorithm=None lower=True sort_eigenvalues=True subset_by_index=None]",
    ),
    (
        lambda x: lax.linalg.svd(x),
        "svd[algorithm=None compute_uv=True full_matrices=True subset_by_index=None]",
    ),
    (fnp.linalg.qr, "qr[full_matrices=False pivoting=False use_magma=None]"),
    (fnp.fft.fft, "fft[fft_lengths=(5,) fft_type=0]"),
    (lambda x: fnp.full_like(x, 2), "broadcast_in_dim"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "text"), EQUATIONS)
def test_an_equation_has_the_parameters_of_jax(function: Function, text: str) -> None:
    name = text.split("[")[0]
    eqns = ft.make_jaxpr(function)(X).eqns
    (eqn,) = [e for e in eqns if e.primitive.name == name]
    assert str(eqn).split(" = ", 1)[1].startswith(f"{text} ")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint32, np.int64, np.uint64])
def test_indices_of_several_dtypes_stand_side_by_side(dtype: Any) -> None:
    i = fnp.asarray(np.array([1, 0, 2], dtype))
    functions: list[Function] = [
        ft.vmap(lambda x, i: x[i]),
        ft.vmap(lambda x, i: x.at[i].set(9)),
        lambda x, i: x[i, i.astype(np.int32)],
        lambda x, i: x.at[i.astype(np.int32) - 7, i + 2].add(1, mode="drop"),
    ]
    for function in functions:
        found = walked(function)(fnp.asarray(X[:3]), i)[0]
        np.testing.assert_array_equal(found, function(fnp.asarray(X[:3]), i))


def test_callbacks_have_no_tokens_and_happen_in_order() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        ft.debug.print("x {} of {}", x, 3)
        ft.debug.callback(lambda v: seen.append(float(v)), x)
        return io_callback(lambda v: v + 1, ft.ShapeDtypeStruct((), x.dtype), x)

    closed = ft.make_jaxpr(f)(1.0)
    assert [e.primitive.name for e in closed.eqns] == [
        "debug_print", "debug_callback", "io_callback",
    ]  # fmt: skip
    assert all(len(e.invars) == 1 and e.effects for e in closed.eqns)
    printed = closed.eqns[0].params
    assert printed["fmt"] == "x {} of {}"
    assert printed["static_args"] == ((1, 3),)
    called = closed.eqns[2].params
    assert called["result_avals"] == (closed.out_avals[0],)
    assert "callback_func=<lambda>" in repr(called["callback"])


def test_callbacks_that_are_bound_again_are_called_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        ft.debug.print("{} of {n}", x, n=3)
        ft.debug.callback(lambda v: seen.append(float(v)), x)
        return x * 2

    assert walked(f)(fnp.float32(1))[0] == 2
    np.testing.assert_array_equal(ft.jit(walked(f))(fnp.float32(2))[0], 4)
    np.testing.assert_array_equal(ft.vmap(walked(f))(fnp.arange(2.0))[0], [0, 2])
    assert seen == [1, 2, 0, 1]
    assert capsys.readouterr().out == "1.0 of 3\n2.0 of 3\n0.0 of 3\n1.0 of 3\n"


@pytest.mark.parametrize("way", [lambda h: h, ft.jit])
def test_loops_and_branches_with_callbacks_have_no_tokens(
    way: Callable[[Function], Function],
) -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        ft.debug.callback(lambda v: seen.append(float(v)), x)
        return x * 2

    x = fnp.float32(1)
    for function, last, order in (
        (lambda x: lax.fori_loop(0, 2, lambda i, c: f(c), x), 4, [1, 2]),
        (lambda x: lax.scan(lambda c, a: (f(c), a), x, fnp.ones(2))[0], 4, [1, 2]),
        (lambda x: lax.while_loop(lambda c: c < 4, f, x), 4, [1, 2]),
        (lambda x: lax.cond(x > 0, f, lambda x: x, x), 2, [1]),
        (ft.checkpoint(f), 2, [1]),
        (lambda x: f(lax.fori_loop(0, 2, lambda i, c: f(c), f(x))), 16, [1, 2, 4, 8]),
    ):
        found: Any = way(walked(function))(x)
        assert found[0] == last
        assert seen == order
        assert "u8[]" not in str(ft.make_jaxpr(function)(x))
        seen.clear()
