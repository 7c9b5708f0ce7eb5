"""NumPy's scalars of 64 bits: weak beside arrays, 64 bits alone."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors, lax, nn, optim, random
from ftrace.backends.base import get_device
from ftrace.backends.llvm.call.object_layout import offsets
from ftrace.scipy import special, stats
from tests.support.covering import covering

#: So often that calls have gone to native code.
CALLS = 12
SPACE = {
    "fnp": fnp, "ft": ft, "lax": lax, "nn": nn, "optim": optim, "stats": stats,
    "special": special, "key": random.PRNGKey(0), "random": random,
}  # fmt: skip
#: Of an array x and a number s.
EXPRESSIONS = """
x + s; s + x; x - s; s - x; x * s; s * x; x / s; s / x; x // s; x % s; x**s; s**x
divmod(x, s); divmod(s, x); x < s; s >= x; x == s; s != x; fnp.add(x, s)
fnp.maximum(s, x); fnp.arctan2(x, s); fnp.hypot(s, x); fnp.power(s, x)
fnp.where(x > 0, x, s); fnp.where(x > 0, s, x); fnp.select([x > 0, x < 0], [x, s], s)
fnp.clip(x, s); fnp.clip(x, s, s); x.clip(s, s); fnp.full_like(x, s)
lax.full_like(x, s); fnp.array([s, x[0]]); fnp.append(x, s); fnp.hstack([x, s])
fnp.insert(x, 1, s); fnp.pad(x, 1, constant_values=s); fnp.linspace(s, x[0], 3)
fnp.interp(x, x, x, left=s); fnp.dot(x, s); fnp.outer(x, s); fnp.einsum("i,->i", x, s)
fnp.sum(x, initial=s); fnp.isclose(x, s); fnp.searchsorted(x, s)
fnp.nan_to_num(x, nan=s); fnp.diff(x, append=s); fnp.quantile(x, s / 8)
fnp.average(x, weights=x * s); fnp.gradient(x, s); fnp.std(x) / s
fnp.unwrap(x, period=s); fnp.sqrt(s) * x; fnp.exp(s) * x; fnp.reshape(s, (1,)) * x
x.at[0].set(s); x.at[:2].add(s); x.at[x > 0].set(s); x.at[0].multiply(s)
x.at[0].max(s); lax.add(x, x.dtype.type(s))
lax.clamp(s, x, s) if x.dtype == "f4" else x
lax.fori_loop(0, 3, lambda i, c: c / s, x * 1.0)
lax.fori_loop(0, 3, lambda i, c: c * s, x)
lax.scan(lambda c, v: (c + v, c * v), s, x); lax.map(lambda v: v * s, x)
lax.while_loop(lambda c: c < 9, lambda c: c + x[1] + 1, s)
lax.cond(x[0] < 1, lambda v: v * s, lambda v: v * 1.0, x * 1.0)
lax.cond(x[0] < 1, lambda: s, lambda: x[0] * 1.0) if x.dtype == "f4" else x
lax.associative_scan(lambda a, b: a + b * s, x); ft.jit(lambda a, b: a * b)(x, s)
ft.vmap(lambda a, b: a * b, (0, None))(x, s); ft.vmap(lambda a: a / s)(x)
ft.jvp(lambda a: a * s, (x * 1.0,), (x * 1.0,))
ft.grad(lambda a: (a * s).sum())(x * 1.0)
ft.hessian(lambda a: (a**3 * s).sum())(x * 1.0)
ft.checkpoint(lambda a, b: a * b)(x, s)
ft.linearize(lambda a: a * s, x * 1.0)[1](x * 1.0); nn.leaky_relu(x, s); nn.elu(x, s)
nn.softmax(x / s); nn.squareplus(x, s); nn.initializers.normal(s)(key, (3,), "f4")
random.uniform(key, (3,), "f4", 0.0, s); special.xlogy(s, x); special.expit(s) * x
stats.norm.pdf(x, s, s); optim.adam(s, b1=s / 9).update(x, optim.adam(s).init(x))[0]
optim.clip(s).update(x, ())[0]
optim.sgd(s, momentum=s / 9).update(x * 1.0, optim.sgd(s, momentum=s / 9).init(x * 1.0))
""".replace("\n", ";")
#: Of a number s alone.
ALONE = """
fnp.square(s); fnp.power(s, 2); fnp.power(s, 2.0); fnp.multiply(s, 2); fnp.sin(s)
fnp.real(s); fnp.round(s, 1); fnp.clip(s, 0, 2); fnp.maximum(s, 2); fnp.mod(s, 2)
fnp.broadcast_to(s, (2,)); fnp.reshape(s, (1,)); fnp.expand_dims(s, 0); fnp.ravel(s)
fnp.atleast_2d(s); fnp.tile(s, 2); fnp.repeat(s, 2); fnp.stack([s, s]); fnp.squeeze(s)
fnp.hstack([s, 1]); fnp.append(s, 2); fnp.concatenate([fnp.ravel(s)]); fnp.transpose(s)
fnp.sort(fnp.ravel(s)); fnp.where(True, s, 2); fnp.nan_to_num(s); fnp.outer(s, 2)
fnp.sum(s); fnp.cumsum(s); fnp.mean(s); fnp.max(s); fnp.var(s); fnp.linspace(0, s, 3)
fnp.polyval(fnp.array([1.0, 2.0]), s); fnp.asarray(s); fnp.ones_like(s); fnp.copy(s)
nn.relu(s); nn.sigmoid(s); nn.gelu(s); nn.softplus(s); lax.square(s); lax.neg(s)
lax.integer_pow(s, 3); lax.broadcast(s, (2,)); lax.reshape(s, (1,)); special.expit(s)
""".replace("\n", ";")
_ROWS_ALONE = [e.strip() for e in ALONE.split(";") if e.strip()]
_ROWS = [e.strip() for e in EXPRESSIONS.split(";") if e.strip()]


def _seen(result: Any) -> list[Any]:
    return [(x.dtype, x.shape, np.asarray(x)) for x in ft.tree.leaves(result)]


def _same(found: Any, wanted: Any) -> None:
    assert [x[:2] for x in found] == [x[:2] for x in wanted]
    for (*_, one), (*_, other) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            one.astype(np.complex128), other.astype(np.complex128), 1e-2, 1e-3
        )


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible:FutureWarning")
@covering(1, dtype=["float32", "bfloat16", "int32", "uint8"], expression=_ROWS)
def test_beside_an_array_they_are_what_pythons_numbers_are(
    expression: str, dtype: str
) -> None:
    x = fnp.array([0, 1, 2], dtype)
    run = eval(f"lambda x, s: {expression}", SPACE)
    for number, scalar in ((2.0, np.float64(2)), (2, np.int64(2))):
        try:
            wanted = _seen(run(x, number))
        except (TypeError, ValueError, OverflowError) as error:
            with pytest.raises(type(error)):
                run(x, scalar)
            continue
        for _ in range(CALLS):
            found = run(x, scalar)
        _same(_seen(found), wanted)
        _same(_seen(ft.jit(lambda v, s=scalar: run(v, s))(x)), wanted)


@pytest.mark.parametrize("scalar", [np.float64(1.1), np.int64(70000)])
@pytest.mark.parametrize("expression", _ROWS_ALONE)
def test_alone_they_are_what_they_are_as_arguments(
    expression: str, scalar: Any
) -> None:
    run = eval(f"lambda s: {expression}", SPACE)
    wanted = _seen(ft.jit(run)(scalar))
    for _ in range(CALLS):
        found = _seen(run(scalar))
    _same(found, wanted)
    shapes = ft.tree.leaves(ft.eval_shape(run, scalar))
    assert [(x.dtype, x.shape) for x in shapes] == [x[:2] for x in wanted]
    if isinstance(scalar, np.floating):
        _same(_seen(ft.jvp(run, (scalar,), (scalar,))[0]), wanted)


@pytest.mark.parametrize("scalar", [np.float64(1.1), np.complex128(1.1)])
@pytest.mark.parametrize("make", ["array([s])", "full((2,), s)", "full_like(s, s)"])
def test_what_is_made_of_them_as_arguments_has_the_default_dtype(
    make: str, scalar: Any
) -> None:
    run = eval(f"lambda s: fnp.{make}", SPACE)
    wanted = fnp.asarray(scalar.item()).dtype
    for made in (run(scalar), ft.jit(run)(scalar), ft.eval_shape(run, scalar)):
        assert made.dtype == wanted


@pytest.mark.parametrize("x", [fnp.ones(3), fnp.ones(3, "bfloat16"), fnp.arange(3)])
def test_arguments_are_weak_too(x: Any) -> None:
    f = ft.jit(lambda v, s: (v / s, s * 2, fnp.where(v > 0, v, s)))
    for number, scalar in (
        (2.0, np.float64(2)),
        (2, np.int64(2)),
        (2j, np.complex128(2j)),
    ):
        for _ in range(CALLS):
            found, wanted = f(x, scalar), f(x, number)
            assert found[0].dtype == wanted[0].dtype
            assert found[2].dtype == wanted[2].dtype
            assert found[1].dtype == scalar.dtype


@pytest.mark.parametrize(
    "scalar", [np.float64(0.7), np.int64(3), np.complex128(1 + 2j)]
)
def test_alone_they_keep_64_bits(scalar: Any) -> None:
    dtype = scalar.dtype
    for _ in range(CALLS):
        made = fnp.asarray(scalar)
        assert (made.dtype, made.weak_type) == (dtype, False)
        assert (fnp.add(scalar, scalar).dtype, (made * scalar).dtype) == (dtype, dtype)
        assert fnp.multiply(scalar, 2).dtype == dtype
        assert ft.jit(lambda t: t * 2)(scalar).dtype == dtype
        assert ft.jit(lambda: fnp.add(scalar, 1))().dtype == dtype
        if dtype == np.float64:
            assert ft.grad(lambda t: t * t * 2.0)(scalar) == 4 * scalar
            assert ft.value_and_grad(fnp.sin)(scalar)[1].dtype == dtype
            assert ft.jvp(fnp.sin, (scalar,), (scalar,))[1].dtype == dtype


def test_arrays_and_scalars_of_other_widths_keep_their_dtype() -> None:
    x = fnp.ones(3, "bfloat16")
    for kind in (np.float32, np.float16, np.int32, np.uint8, np.uint64, np.complex64):
        for operand in (kind(2), np.array(2, kind), fnp.array(2, kind)):
            assert (x * operand).dtype == fnp.promote_types("bfloat16", kind)
    for kind in (np.float64, np.int64, np.complex128):
        for operand in (np.array(2, kind), fnp.array(2, kind), np.ones(3, kind)):
            assert (fnp.ones(3, "int8") * operand).dtype == kind
            assert (
                ft.jit(lambda v, s: v * s)(fnp.ones(3, "int8"), operand).dtype == kind
            )


@pytest.mark.parametrize(
    ("x64", "wide", "mixed"), [(True, "f8", "f8"), (False, "f4", "f4")]
)
def test_under_jaxs_rules_they_are_arrays_of_one_element(
    x64: bool, wide: str, mixed: str
) -> None:
    with ft.config(jax_enable_x64=x64):
        for _ in range(CALLS):
            assert (fnp.ones(3, "f4") * np.float64(2)).dtype == wide
            assert (fnp.ones(3, "bfloat16") * np.float64(2)).dtype == mixed
            assert ft.jit(fnp.multiply)(fnp.ones(3, "f4"), np.float64(2)).dtype == wide


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_an_int64_that_does_not_fit_raises(dtype: str) -> None:
    x = fnp.ones(3, dtype)
    for wrong in (np.int64(2**40), np.int64(-(2**40))):
        runs = [partial(fnp.add, wrong), lambda v, w=wrong: fnp.where(v > 0, v, w)]
        for run in runs:
            for _ in range(CALLS):
                assert (x + np.int64(3)).dtype == dtype
                with pytest.raises(
                    errors.DtypeOverflowError, match=f"{wrong} does not"
                ):
                    run(x)
            with pytest.raises(errors.DtypeOverflowError, match="does not fit"):
                ft.jit(run)(x)


def test_attention_in_a_scan_keeps_the_dtype_of_its_carry() -> None:
    def layer(h: Any, w: Any) -> Any:
        scores = (h @ w) @ h.T / np.sqrt(h.shape[-1]) * np.prod(h.shape)
        return nn.softmax(scores) @ h, None

    h, weights = fnp.ones((4, 8)), fnp.ones((2, 8, 8))
    assert lax.scan(layer, h, weights)[0].dtype == np.float32
    assert ft.jit(lax.scan, static_argnums=0)(layer, h, weights)[0].dtype == np.float32


#: Ways to `c * number` three times.
_LOOPS: dict[str, Any] = {
    "fori": lambda c, n: lax.fori_loop(0, 3, lambda i, c: c * n, c),
    "scan": lambda c, n: lax.scan(lambda c, _: (c * n, c), c, None, length=3)[0],
    "while": lambda c, n: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * n), (0, c)
    )[1],
    "traced": lambda c, n: ft.jit(
        lambda count: lax.fori_loop(0, count, lambda i, c: c * n, c)
    )(3),
    "swap": lambda c, n: lax.fori_loop(0, 3, lambda i, c: (c[1] * n, c[0] * n), (c, c))[
        0
    ],
    "cond": lambda c, n: lax.cond(True, lambda: c * n * n * n, lambda: n * c),
    "switch": lambda c, n: lax.switch(
        1, [lambda: n * c, lambda: c * n * n * n, lambda: n * c]
    ),
}
_NUMBERS = (
    np.float64(1.5), np.sqrt(2), np.int64(3), np.int64(2**20), np.complex128(1j),
    np.float32(1.5), 1.5, 3,
)  # fmt: skip


@covering(1, way=_LOOPS, first=[1, 2.0, 1j, np.int64(1), np.float64(0.1)])
def test_a_loop_makes_of_numbers_what_its_steps_make(way: str, first: Any) -> None:
    for number in _NUMBERS:
        run = lambda n=number: _LOOPS[way](first, n)  # noqa: E731
        wanted = np.asarray(first * number * number * number)
        for found in (*(run() for _ in range(3)), ft.jit(run)()):
            assert found.dtype.kind == wanted.dtype.kind
            np.testing.assert_allclose(found, wanted, 1e-6)
        lanes = ft.vmap(lambda x: x + run())(fnp.zeros(2, "float64"))  # noqa: B023
        np.testing.assert_allclose(lanes[1], wanted, 1e-6)
        if wanted.dtype.kind == "f":
            slope = ft.grad(lambda x: (x * run()) ** 2.0)(1.0)  # noqa: B023
            np.testing.assert_allclose(slope, 2 * wanted**2, 1e-5)


def test_branches_of_numbers_have_the_bits_of_all_of_them() -> None:
    x = np.array([0.3, 0.7])
    wide, half = np.int64(2**40), np.float64(0.5)

    def times(a: Any, which: Any) -> Any:
        return x * lax.cond(which, lambda a: a, lambda a: a * half, a)

    for which in (False, True):
        assert lax.cond(which, lambda: wide, lambda: 0) == which * 2**40
        for run in (times, ft.jit(times)):
            for _ in range(CALLS):
                assert (run(0.1, which) == x * 0.1 * (1 if which else 0.5)).all()


def test_weak_carries_may_swap() -> None:
    def three() -> Any:
        return lax.scan(lambda c, v: (c[::-1], v), (0, 1.0), fnp.ones(3))[0]

    for run in (three, ft.jit(three)):
        assert [(float(x), x.dtype) for x in run()] == [(1, "f4"), (0, "f4")]
    steps = lambda c: lax.fori_loop(0, 3, lambda i, c: c[::-1], c)  # noqa: E731
    assert [x.dtype for x in steps((fnp.int8(1), 2))] == ["int8", "int8"]
    with pytest.raises(errors.DtypeError, match=r"carry\[0\] of type i32\[\] became"):
        steps((fnp.int32(1), 2.0))
    with pytest.raises(errors.DtypeError, match=r"of type f32\[\] became i32~"):
        lax.scan(lambda c, _: (1, None), 1.0, None, length=3)


# Where another dtype comes in.

_DOUBLES = np.ones(3)


def _body(c: Any) -> Any:
    y = c + c
    z = y * _DOUBLES  # here
    return fnp.tanh(z)


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: lax.scan(lambda c, v: (_body(c), v), x, fnp.ones((4, 3))),
        lambda x: lax.while_loop(lambda c: c.sum() < 9, _body, x),
        lambda x: lax.fori_loop(0, 3, lambda i, c: _body(c), x),
        lambda x: lax.cond(x[0] > 0, _body, lambda v: v, x),
        lambda x: lax.switch(0, [lambda v: v, _body], x),
    ],
)
def test_a_carry_of_another_dtype_names_the_line_where_it_came_in(loop: Any) -> None:
    for run in (loop, ft.jit(loop)):
        with pytest.raises(errors.DtypeError) as caught:
            run(fnp.ones(3))
        assert caught.value.origin.text == "z = y * _DOUBLES  # here"


def _pythons_calls(call: Any) -> list[str]:
    """The functions of ours that a call runs in Python."""
    seen: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and "ftrace" in frame.f_globals.get("__name__", ""):
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


#: Extrema of zeros are not NumPy's alone.
EXTREMA = {"__call__", "_has_no_zero", "_with_signs"}


@pytest.mark.skipif(offsets() is None, reason="no native calls")
def test_their_calls_are_native_as_those_of_pythons_numbers_are() -> None:
    x = fnp.asarray(np.linspace(0, 1, 10, dtype=np.float32))
    mask, product = x > 0.5, ft.jit(lambda x, s: x * s)
    get_device("cpu").make_native()
    for scalar in (np.float64, np.int64):
        for call in (
            lambda s: x * s, lambda s: s - x, lambda s: fnp.maximum(x, s),
            lambda s: fnp.where(mask, x, s), lambda s: fnp.clip(x, 0, s),
            lambda s: fnp.asarray(s),
            lambda s: fnp.full((3,), s), lambda s: product(x, s),
        ):  # fmt: skip
            calls: list[list[str]] = []
            for number in (scalar(2), scalar(2).item()):
                for _ in range(CALLS):
                    call(number)
                calls.append(_pythons_calls(partial(call, number)))
            assert calls[0] == calls[1]
            assert {*calls[0]} <= EXTREMA
            for other in (scalar(3), scalar(-5)):
                for _ in range(CALLS):
                    got = call(other)
                np.testing.assert_array_equal(got, call(other.item()))


@pytest.mark.skipif(offsets() is None, reason="no native calls")
def test_calls_with_equal_keys_are_native() -> None:
    get_device("cpu").make_native()
    step, x = ft.jit(lambda tree: tree["layer 0"] * 2), fnp.ones(3)
    for number in [0] * CALLS:
        step({f"layer {number}": x})
    again = {f"layer {len([])}": x}
    assert _pythons_calls(partial(step, again)) == []


@pytest.mark.skipif(offsets() is None, reason="no native calls")
def test_an_argument_that_int32_does_not_hold_is_no_other_ones() -> None:
    f = ft.jit(lambda x, s: x + s)
    x = fnp.arange(3)
    for _ in range(CALLS):
        f(x, np.int64(1))
    with pytest.raises(OverflowError):
        f(x, np.int64(1 << 40))


@pytest.mark.parametrize("scalar", [np.float32, np.int32, np.float16, np.bool_])
def test_arguments_of_other_widths_are_what_they_are_in_native_calls(
    scalar: Any,
) -> None:
    f = ft.jit(lambda s: (s, s + s))
    for value in (0, 1) * CALLS:
        first, second = f(scalar(value))
        assert first.dtype == scalar
        assert first == scalar(value)
        assert second == scalar(value) + scalar(value)


#: What makes an array of a number s alone, with the default dtype.
MADE = """
fnp.array([s, 0]); fnp.asarray([[s, s], [0, 1]]); fnp.array([[s], [s]])
fnp.array((s, s)); fnp.full((2,), s); fnp.full_like(s, 1); fnp.arange(s)
fnp.arange(0, s, s); fnp.linspace(0, s, 4); fnp.linspace([s], [0], 4)
fnp.linspace(0, s, 3, retstep=True); fnp.logspace(0, s, 3); fnp.geomspace(1, s, 3)
fnp.sum(s); fnp.prod(s); fnp.max(s); fnp.min(s); fnp.ptp(s); fnp.nansum(s)
fnp.nanmax(s); fnp.mean(s); fnp.var(s); fnp.std(s); fnp.average(s); fnp.cov(s)
fnp.cumsum(s); fnp.cumprod(s); fnp.median(s); fnp.quantile(s, 0.5); fnp.nanmean(s)
fnp.nanmedian(s); fnp.eye(3) * s; fnp.trapezoid(fnp.array([s, s])); fnp.mgrid[0:s:1]
fnp.diag(fnp.array([s, s])); fnp.kron(s, fnp.array([s])); fnp.r_[s, 0]
fnp.piecewise(s, [True], [s, s]); fnp.vander(fnp.array([s])); lax.full_like(s, 1)
fnp.histogram(s); fnp.histogram_bin_edges([s, 1], 2); fnp.spacing(s)
special.beta(s, s); special.poch(s, s); stats.norm.ppf(s / 8, s); stats.norm.isf(s / 8)
""".replace("\n", ";")
_MADE = [e.strip() for e in MADE.split(";") if e.strip()]
_REAL = ("arange", "quant", "med", "mg", "hist", "spac", "beta", "poch", "norm", "lax")
_COMPLEX = [e for e in _MADE if not any(w in e for w in _REAL)]
#: What keeps an integer's 64 bits, as of one that is an argument.
_REDUCED = ("sum", "prod", "max", "min(", "ptp", "piecewise")


@pytest.mark.parametrize("expression", _MADE)
def test_what_is_made_of_them_has_the_default_dtype(expression: str) -> None:
    run = eval(f"lambda s: {expression}", SPACE)
    reduced = any(word in expression for word in _REDUCED)
    integer = fnp.asarray(3, "int64") if reduced else 3
    pairs: list[Any] = [(3.0, np.float64(3)), (integer, np.int64(3))]
    if expression in _COMPLEX:
        pairs.append((3 + 1j, np.complex128(3 + 1j)))
    for number, scalar in pairs:
        wanted = _seen(run(number))
        for _ in range(CALLS):
            found = run(scalar)
        _same(_seen(found), wanted)
        _same(_seen(ft.jit(lambda s=scalar: run(s))()), wanted)
        for x64 in (True, False):
            with ft.config(jax_enable_x64=x64):
                bits = [t.dtype for t in ft.tree.leaves(run(scalar))]
                again = run(scalar.item())
                assert bits == [t.dtype for t in ft.tree.leaves(again)]


@pytest.mark.parametrize("expression", [e for e in _MADE if "0:s" not in e])
def test_a_float_argument_makes_what_a_known_one_makes(expression: str) -> None:
    run = eval(f"lambda s: {expression}", SPACE)

    def beside(s: Any) -> Any:
        return [fnp.ones((), "float32") * x for x in ft.tree.leaves(run(s))]

    s = np.float64(3)
    _same(
        _seen(ft.grad(lambda s: (s * 0, beside(s)), has_aux=True)(s)[1]),
        _seen(beside(s)),
    )
    if "arange" not in expression:
        _same(_seen(ft.jit(beside)(s)), _seen(beside(s)))


def test_numbers_in_lists_keep_all_their_bits() -> None:
    tenth, large = np.float64(0.1), np.int64(2**40)
    for _ in range(CALLS):
        assert fnp.asarray(tenth) == tenth
        assert fnp.array([tenth, 1], "float64")[0] == tenth
        assert fnp.array([tenth, np.ones(())])[0] == tenth
        assert (fnp.array([large, 1]) == np.array([2**40, 1])).all()
        assert fnp.sum(large) == fnp.prod(large) == fnp.full((), large) == 2**40
        assert fnp.arange(large, large + 1) == 2**40
        with pytest.raises(errors.DtypeOverflowError):
            fnp.array([large, 1], "int32")
    assert ft.jit(lambda: fnp.array([tenth, np.ones(())]))()[0] == tenth


def test_loops_take_what_is_made_of_them() -> None:
    turn = lambda x: x @ fnp.array([[np.cos(1), -np.sin(1)], [np.sin(1), np.cos(1)]])  # noqa: E731
    add = lambda c, x: (c + x, None)  # noqa: E731
    for wrap in (lambda f: f, ft.jit):
        found = wrap(lambda: lax.fori_loop(0, 2, lambda i, x: turn(x), fnp.ones(2)))()
        assert found.dtype == np.float32
        found = wrap(lambda: lax.scan(add, 0.0, fnp.linspace(0, np.sqrt(4), 5)))()[0]
        assert (found, found.dtype) == (5, "f4")
        numbers = wrap(lambda: fnp.arange(np.prod((2, 3))))()
        found = lax.scan(add, fnp.zeros((), int), numbers)[0]
        assert (found, found.dtype) == (15, "i4")
