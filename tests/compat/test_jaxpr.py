"""Jaxprs: what they say of a function, and that they compute what it computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax, nn
from ftrace.compat import linear_util as lu
from ftrace.compat.jax import core
from ftrace.compat.jax.interpreters import ad, batching, mlir, partial_eval as pe
from ftrace.compat.jaxpr import Literal, eval_jaxpr, jaxpr_as_fun, subjaxprs
from ftrace.compat.primitive import Primitive


def test_what_no_unknown_argument_reaches_is_known() -> None:
    def f(x: Any, y: Any) -> Any:
        fun = lu.wrap_init(lambda a, b: [a * y, y + 1, 3, b])
        unknown = [pe.PartialVal.unknown(core.get_aval(x)), pe.PartialVal.known(7.0)]
        jaxpr, found, consts = pe.trace_to_jaxpr_nounits(fun, unknown)
        assert [p.is_known() for p in found] == [False, True, True, True]
        assert found[2].get_known() == 3
        assert found[3].get_known() == 7.0
        assert len(jaxpr.outvars) == 1
        fixed = pe.trace_to_jaxpr_nounits(fun, unknown, instantiate=True)[1]
        assert not any(p.is_known() for p in fixed)
        return eval_jaxpr(jaxpr, consts, x)[0] + found[1].get_known()

    assert float(f(2.0, 5.0)) == float(ft.jit(f)(2.0, 5.0)) == 16.0


X = np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4)
W = np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)

#: Functions of X and W; of some the text of their jaxpr.
FUNCTIONS: list[tuple[Callable[..., Any], str]] = [
    (
        lambda x, w: fnp.sin(x),
        "{ lambda ; a:f32[3,4] b:f32[4,5]. let c:f32[3,4] = sin a in (c,) }",
    ),
    (
        lambda x, w: fnp.tanh(x @ w) * 2,
        """{ lambda ; a:f32[3,4] b:f32[4,5]. let
    c:f32[3,5] = dot_general[dimension_numbers=(((1,), (0,)), ((), ())) \
preferred_element_type=float32] a b
    d:f32[3,5] = tanh c
    e:f32[3,5] = mul d 2.0:f32[]
  in (e,) }""",
    ),
    (
        lambda x, w: lax.scan(lambda c, a: (c + a, c * 2), x[0], x)[0],
        """{ lambda ; a:f32[3,4] b:f32[4,5]. let
    c:f32[1,4] = slice[limit_indices=(1, 4) start_indices=(0, 0) strides=None] a
    d:f32[4] = squeeze[dimensions=(0,)] c
    e:f32[4] _:f32[3,4] = scan[
      jaxpr={ lambda ; f:f32[4] g:f32[4]. let
          h:f32[4] = add f g
          i:f32[4] = mul f 2.0:f32[]
        in (h, i) }
      length=3
      num_carry=1
      num_consts=0
      reverse=False
      unroll=1
    ] d a
  in (e,) }""",
    ),
    (
        lambda x, w: (x.sum(0), x.T, x[:, None], x[::-1], x.max(), x[1:, ::2]),
        """{ lambda ; a:f32[3,4] b:f32[4,5]. let
    c:f32[4] = reduce_sum[axes=(0,) out_sharding=None] a
    d:f32[4,3] = transpose[permutation=(1, 0)] a
    e:f32[3,1,4] = broadcast_in_dim[broadcast_dimensions=(0, 2)] a
    f:f32[3,4] = rev[dimensions=(0,)] a
    g:f32[] = reduce_max[axes=(0, 1) out_sharding=None] a
    h:f32[2,2] = slice[limit_indices=(3, 3) start_indices=(1, 0) strides=(1, 2)] a
  in (c, d, e, f, g, h) }""",
    ),
    (
        lambda x, w: fnp.square(x),
        "{ lambda ; a:f32[3,4] b:f32[4,5]. let c:f32[3,4] = square a in (c,) }",
    ),
    (lambda x, w: fnp.einsum("ij,jk,il->lk", x, w, x), ""),
    (lambda x, w: fnp.einsum("bij,bjk->bik", x[None] * 2, w[None]), ""),
    (lambda x, w: nn.softmax(x - x.mean(1, keepdims=True)) @ w, ""),
    (lambda x, w: (fnp.where(x > 0, x, 1), x**3, x.argmax(1), fnp.sort(x)), ""),
    (lambda x, w: (x.at[1].set(7), x[fnp.array([2, 0])], fnp.cumsum(x, 1)), ""),
    (lambda x, w: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + w[0, 1], x), ""),
    (lambda x, w: lax.cond(x[0, 0] > 0, fnp.sin, lambda v: v * w[0, 0], x), ""),
    (lambda x, w: ft.checkpoint(lambda v: fnp.exp(v) * v)(x), ""),
    (lambda x, w: ft.grad(lambda v: (nn.gelu(v @ w) ** 2).sum())(x), ""),
    (lambda x, w: (x.astype(int), fnp.round(x), ~(x > 0), fnp.arange(3) + 1), ""),
    (lambda x, w: fnp.linalg.cholesky(x @ x.T + 9 * fnp.eye(3)), ""),
]


@pytest.mark.parametrize(("function", "text"), FUNCTIONS)
def test_equations_say_and_compute_what_the_function_does(
    function: Callable[..., Any], text: str
) -> None:
    closed = ft.make_jaxpr(function)(X, W)
    assert not text or str(closed) == text
    wanted = ft.tree.leaves(function(fnp.asarray(X), fnp.asarray(W)))
    assert [(a.shape, a.dtype) for a in closed.out_avals] == [
        (fnp.shape(x), fnp.asarray(x).dtype) for x in wanted
    ]
    rewritten = closed.jaxpr.replace()  # equation by equation, without the graph
    for found in (
        jaxpr_as_fun(closed)(X, W),
        eval_jaxpr(rewritten, closed.consts, X, W),
        ft.jit(lambda *a: eval_jaxpr(rewritten, closed.consts, *a))(X, W),
    ):
        for got, want in zip(found, wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def test_what_a_function_closes_over_are_constants() -> None:
    big = fnp.asarray(W[0, :3]) * 1

    def loss(w: Any) -> Any:
        closed = ft.make_jaxpr(lambda x: fnp.sin(x * w) + big)(fnp.ones(3))
        assert [fnp.shape(c) for c in closed.consts] == [(), (3,)]
        assert closed.jaxpr.constvars[0].aval.shape == ()
        return eval_jaxpr(closed.jaxpr, closed.consts, fnp.ones(3))[0].sum()

    np.testing.assert_allclose(ft.grad(loss)(2.0), 3 * np.cos(2.0), rtol=1e-6)
    np.testing.assert_allclose(ft.jit(ft.grad(loss))(2.0), 3 * np.cos(2.0), rtol=1e-6)


def test_arguments_static_ones_shapes_and_traces() -> None:
    struct = ft.ShapeDtypeStruct((3,), np.float32)
    closed, shape = ft.make_jaxpr(
        lambda n, d: {"y": d["x"] * n}, static_argnums=0, return_shape=True
    )(2, {"x": struct})
    assert str(closed.in_avals) == "[f32[3]]"
    assert shape == {"y": struct}
    traced = ft.jit(lambda x: fnp.sin(x)).trace(struct).jaxpr
    assert str(traced) == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    assert closed.jaxpr.debug_info.arg_names == ("d['x']",)


def test_an_interpreter_of_the_user_inverts_a_function() -> None:
    inverses = {lax.exp_p: fnp.log, lax.tanh_p: fnp.arctanh}

    def inverse(function: Callable[..., Any]) -> Callable[..., Any]:
        def inverted(y: Any) -> Any:
            jaxpr = ft.make_jaxpr(function)(y).jaxpr
            known: dict[Any, Any] = dict(zip(jaxpr.outvars, [y], strict=True))
            for eqn in jaxpr.eqns[::-1]:
                assert not eqn.primitive.multiple_results
                found = inverses[eqn.primitive](known[eqn.outvars[0]])
                known[eqn.invars[0]] = found
            return known[jaxpr.invars[0]]

        return inverted

    back = inverse(lambda x: fnp.exp(fnp.tanh(x)))
    np.testing.assert_allclose(back(np.exp(np.tanh(0.3))), 0.3, rtol=1e-6)
    np.testing.assert_allclose(
        ft.jit(ft.grad(back))(1.2), 1 / 1.2 / (1 - np.log(1.2) ** 2), rtol=1e-5
    )


def test_what_is_not_needed_is_left_out() -> None:
    jaxpr = ft.make_jaxpr(lambda x, y: (fnp.sin(x), fnp.cos(y)))(1.0, 2.0).jaxpr
    smaller, used = pe.dce_jaxpr(jaxpr, [False, True])
    assert used == [False, True]
    assert [e.primitive for e in smaller.eqns] == [lax.cos_p]
    loop = ft.make_jaxpr(lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x))(1.0)
    assert len(list(subjaxprs(loop.jaxpr))) == 1
    assert any(isinstance(v, Literal) for e in loop.eqns for v in e.invars)


def multiply_add() -> Primitive:
    """A library's primitive x·y + z, with all rules."""
    op = Primitive("multiply_add")
    op.def_impl(lambda x, y, z, *, times: (np.multiply(x, y) + z) * times)
    op.def_abstract_eval(lambda x, y, z, *, times: core.ShapedArray(x.shape, x.dtype))

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        x, y, z = primals
        dx, dy, dz = map(ad.instantiate_zeros, tangents)
        zero = fnp.zeros_like(x)
        moved = op.bind(dx, y, op.bind(x, dy, zero, times=1), **params)
        return op.bind(x, y, z, **params), moved + dz * params["times"]

    def transpose(ct: Any, x: Any, y: Any, z: Any, *, times: int) -> Any:
        undefined = ad.is_undefined_primal
        return (
            ct * y * times if undefined(x) else None,
            ct * x * times if undefined(y) else None,
            ct * times if undefined(z) else None,
        )

    def batch(args: Any, axes: Any, **params: Any) -> Any:
        size = next(
            fnp.shape(x)[a] for x, a in zip(args, axes, strict=True) if a is not None
        )
        fronts = [
            batching.bdim_at_front(x, a, size) for x, a in zip(args, axes, strict=True)
        ]
        return op.bind(*fronts, **params), 0

    ad.primitive_jvps[op] = jvp
    ad.primitive_transposes[op] = transpose
    batching.primitive_batchers[op] = batch
    return op


def test_rules_of_a_library_serve_every_transform() -> None:
    op = multiply_add()

    def f(x: Any, y: Any) -> Any:
        return fnp.sin(op.bind(x, y, fnp.ones_like(x), times=2)).sum()

    def g(x: Any, y: Any) -> Any:
        return fnp.sin((x * y + 1) * 2).sum()

    x, y = X[0], X[1]
    for way in (
        lambda h: h(x, y),
        lambda h: ft.jit(h)(x, y),
        lambda h: ft.grad(h, (0, 1))(x, y),
        lambda h: ft.jit(ft.grad(h))(x, y),
        lambda h: ft.jvp(h, (x, y), (y, x)),
        lambda h: ft.jvp(lambda x: h(x, y), (x,), (y,)),
        lambda h: ft.vmap(h)(X, X + 1),
        lambda h: ft.jit(ft.vmap(ft.grad(h), (0, None)))(X, y),
        lambda h: ft.hessian(h)(x, y),
    ):
        for got, want in zip(*[ft.tree.leaves(way(h)) for h in (f, g)], strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
    jaxpr = ft.make_jaxpr(f)(x, y)
    assert jaxpr.eqns[1].primitive is op
    assert jaxpr.eqns[1].params == {"times": 2}
    np.testing.assert_allclose(jaxpr_as_fun(jaxpr)(x, y)[0], f(x, y), rtol=1e-6)


def test_symbolic_zeros_and_results_without_lanes() -> None:
    any_p = Primitive("any_of_all")
    any_p.def_impl(fnp.any)
    any_p.def_abstract_eval(lambda x: core.ShapedArray((), np.bool_))
    batching.primitive_batchers[any_p] = lambda args, axes: (any_p.bind(*args), None)
    mlir.register_lowering(any_p, mlir.lower_fun(fnp.any, multiple_results=False))
    found = ft.vmap(lambda x: any_p.bind(x > 1), out_axes=None)(X[0])
    assert found.shape == ()

    pair = Primitive("pair")
    pair.multiple_results = True
    pair.def_impl(lambda x, y: [x * 2, y * 3])
    pair.def_abstract_eval(lambda x, y: [x, y])
    seen: list[str] = []

    def jvp(primals: Any, tangents: Any) -> Any:
        seen.append("".join("0" if isinstance(t, ad.Zero) else "t" for t in tangents))
        a, b = tangents
        doubled = a if isinstance(a, ad.Zero) else a * 2
        return pair.bind(*primals), [doubled, b if isinstance(b, ad.Zero) else b * 3]

    ad.primitive_jvps[pair] = jvp
    assert ft.grad(lambda x: sum(pair.bind(x, 4.0)))(1.0) == 2
    assert ft.jit(ft.grad(lambda x: sum(pair.bind(4.0, x))))(1.0) == 3
    assert seen == ["t0", "0t"]


def test_linear_and_bilinear_primitives() -> None:
    twice, product = Primitive("twice"), Primitive("product")
    twice.def_impl(lambda x: x * 2)
    twice.def_abstract_eval(lambda x: x)
    product.def_impl(lambda x, y: x * y)
    product.def_abstract_eval(lambda x, y: x)
    ad.deflinear2(twice, lambda ct, x: [twice.bind(ct)])
    ad.defbilinear(product, lambda ct, x, y: ct * y, lambda ct, x, y: x * ct)
    batching.defvectorized(twice)
    batching.defbroadcasting(product)

    def f(x: Any) -> Any:
        return product.bind(twice.bind(x), x).sum()

    np.testing.assert_allclose(ft.grad(f)(X[0]), 4 * X[0], rtol=1e-6)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(X), 4 * X, rtol=1e-6)
    assert ft.linear_transpose(twice.bind, 1.0)(3.0)[0] == 6


def test_wrapped_functions_compose_and_store() -> None:
    @lu.transformation_with_aux
    def counted(*args: Any) -> Any:
        result = yield tuple(x + 1 for x in args), {}
        yield result, len(args)

    fun, count = counted(lu.wrap_init(lambda *xs: sum(xs)))
    with pytest.raises(lu.StoreException):
        count()
    assert fun.call_wrapped(1, 2) == 5
    assert count() == 2
    jaxpr, _, consts = pe.trace_to_jaxpr_dynamic(
        lu.wrap_init(lambda x: [x * 2]), [core.ShapedArray((), np.float32)]
    )
    assert eval_jaxpr(jaxpr, consts, 3.0)[0] == 6


def test_a_rule_that_is_missing_is_named() -> None:
    op = Primitive("bare")
    op.def_impl(lambda x: x)
    op.def_abstract_eval(lambda x: x)
    with pytest.raises(NotImplementedError, match="Differentiation rule for 'bare'"):
        ft.grad(op.bind)(1.0)
    with pytest.raises(NotImplementedError, match="Batching rule for 'bare'"):
        ft.vmap(op.bind)(X[0])
    with pytest.raises(NotImplementedError, match="Abstract evaluation for 'other'"):
        ft.jit(Primitive("other").bind)(1.0)


def test_calls_with_rules_are_bound_again_with_their_rules() -> None:
    @ft.custom_jvp
    def halved(x: Any) -> Any:
        return fnp.sin(x)

    halved.defjvp(lambda p, t: (halved(*p), t[0] / 2))
    closed = ft.make_jaxpr(halved)(1.0)
    assert closed.eqns[0].primitive is lax.custom_jvp_call_p
    again = closed.jaxpr.replace()
    assert ft.grad(lambda x: eval_jaxpr(again, [], x)[0])(1.0) == 0.5


def test_a_struct_is_the_type_of_a_result_and_numbers_stay_numbers() -> None:
    struct = ft.ShapeDtypeStruct((3,), np.float32)
    assert ft.eval_shape(lambda: {"x": struct}) == {"x": struct}
    value, _ = ft.vjp(lambda x: (x, 2.0), 1.0)
    assert type(value[1]) is float
    assert ft.value_and_grad(lambda x: 2.0)(1.0) == (2.0, 0.0)
    chosen = ft.vmap(lambda x, first: x if first else -x, (0, None))(X, True)
    np.testing.assert_array_equal(chosen, X)


def test_check_jaxpr_refuses_what_is_used_before_it_is_made() -> None:
    closed = ft.make_jaxpr(lambda x: fnp.sin(x) * 2)(1.0)
    for jaxpr in (closed, closed.jaxpr):
        core.check_jaxpr(jaxpr)
    broken = closed.jaxpr.replace(eqns=closed.jaxpr.eqns[1:])
    with pytest.raises(ft.errors.GraphError, match="before it is made"):
        core.check_jaxpr(broken)


def test_arrays_of_the_same_constant_are_several_values_of_a_jaxpr() -> None:
    @ft.jit
    def f(x: Any) -> Any:
        a, b = fnp.zeros(3), fnp.zeros(3)
        jaxpr = ft.make_jaxpr(lambda x: x + a - b * a)(x)
        assert len(jaxpr.consts) == 2
        return eval_jaxpr(jaxpr.jaxpr, [a + 2, b + 3], x)

    np.testing.assert_array_equal(f(fnp.ones(3))[0], [-3, -3, -3])


def test_a_loop_of_a_jaxpr_takes_arrays_of_the_same_constant_apart() -> None:
    @ft.jit
    def f(x: Any) -> Any:
        a, b = fnp.zeros(3), fnp.zeros(3)
        add = lambda i, c: c + a[i] - 2 * b[i]  # noqa: E731
        closed = ft.make_jaxpr(lambda x: lax.fori_loop(0, 3, add, x))(x)
        return eval_jaxpr(closed.jaxpr, [a + 3, b + 1], x)[0]

    assert f(0.0) == 3


def test_names_of_axes_are_bound_while_a_jaxpr_is_made() -> None:
    made = ft.make_jaxpr(
        lambda x: ft.lax.psum(x, ("i", "j")) / ft.lax.axis_size("j"),
        axis_env=[("i", 2), ("j", 3)],
    )(np.ones(3, np.float32))
    names = [eqn.primitive.name for eqn in made.jaxpr.eqns]
    assert names == ["psum", "psum", "div"]
    assert len(made.jaxpr.invars) == len(made.in_avals) == 1
