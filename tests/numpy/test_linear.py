"""Products and norms of ftrace.numpy: recorded values, derivatives, messages."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import AxisError, FtraceError, ShapeError, ValueRangeError
from ftrace.testing import check_grads
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from tests.support import recorded_surface

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("expression", recorded_surface.expressions("linear"))
def test_product_agrees_with_jax_eager_and_traced(expression: str) -> None:
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_eager(expression)
    )
    recorded_surface.check_value(
        expression, recorded_surface.evaluate_traced(expression)
    )


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", ["matmul", "dot", "inner", "vdot"])
def test_a_summed_axis_of_one_element_does_not_repeat(name: str, jitted: bool) -> None:
    product = ft.jit(getattr(fnp, name)) if jitted else getattr(fnp, name)
    for shapes in (((7,), (1,)), ((1,), (7,))):
        with pytest.raises(ShapeError, match="of the axis that they share"):
            product(*[np.ones(shape, np.float32) for shape in shapes])
    einsum = fnp.einsum("i,i->", np.ones(7), np.ones(1))  # it does in NumPy's einsum
    assert float(einsum) == 7


def repeating(rows: int, columns: int) -> list[Any]:
    """Matrices with and without strides of 0."""
    row = RNG.normal(size=columns).astype(np.float32)
    column = RNG.normal(size=(rows, 1)).astype(np.float32)
    shape = rows, columns
    return [
        fnp.ones(shape), fnp.broadcast_to(fnp.array(row), shape),
        fnp.broadcast_to(fnp.array(column), shape), fnp.array(column * row),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "subscripts", ["ij,jk->ik", "ij,jk->ki", "ij,jk->j", "ij,jk->", "ij,jk->i"]
)
def test_operands_that_repeat_one_element_are_matrices(subscripts: str) -> None:
    for left, right in itertools.product(repeating(5, 7), repeating(7, 4)):
        for dtype in (np.float32, np.float16, np.int32, np.bool_):
            x, y = fnp.astype(left, dtype), fnp.astype(right, dtype)
            wide = {np.bool_: np.int64, np.float16: np.float32}.get(dtype, dtype)
            want = np.einsum(
                subscripts, np.asarray(x).astype(wide), np.asarray(y).astype(wide)
            ).astype(dtype)
            close = (
                {"rtol": 1e-2, "atol": 3e-2} if dtype == np.float16 else {"rtol": 1e-4}
            )
            got = np.asarray(fnp.einsum(subscripts, x, y))
            np.testing.assert_allclose(got, want, **{"atol": 1e-4, **close})


def test_a_product_with_ones_stores_no_product_of_elements() -> None:
    x = fnp.array(RNG.normal(size=(300, 300)).astype(np.float32))
    for left, right in ((fnp.ones((300, 300)), x), (x, fnp.ones((300, 300)))):
        for operand in (right, fnp.ones((300, 300))):
            left @ operand  # what compiles it needs memory as well
            tracemalloc.start()
            left @ operand
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 4_000_000  # 300³ of them are 108 MB


SUBSCRIPTS = [
    ("ij,jk->ik", (3, 4), (4, 5)),
    ("ij,jk", (3, 4), (4, 5)),
    ("ba,b", (3, 4), (3,)),
    ("...i,i", (2, 3, 4), (4,)),
    ("i...,i...->...", (3, 2), (3, 2)),
    ("...ij,...jk->...ik", (2, 1, 3, 4), (5, 4, 2)),
    ("iij,j->i", (3, 3, 2), (2,)),
    ("iji->j", (3, 2, 3)),
    ("ijk,ljm,mn->kln", (2, 3, 4), (5, 3, 2), (2, 3)),
    ("a,b,c,d->dcba", (2,), (3,), (4,), (5,)),
    ("ij,i,j->", (3, 4), (3,), (4,)),
    ("ij,kl->", (3, 4), (2, 2)),
    ("->", ()),
    ("...->...", (2, 3)),
    ("abcd,cd->ab", (2, 3, 4, 5), (4, 5)),
]


@pytest.mark.parametrize("optimize", [True, False, "greedy", "optimal"])
@pytest.mark.parametrize("row", range(len(SUBSCRIPTS)))
def test_einsum_agrees_with_numpy_in_any_order(row: int, optimize: Any) -> None:
    text, *shapes = SUBSCRIPTS[row]
    arrays = [RNG.standard_normal(shape) for shape in shapes]
    wanted = np.einsum(text, *arrays)
    np.testing.assert_allclose(
        fnp.einsum(text, *arrays, optimize=optimize), wanted, atol=1e-12
    )
    (value,) = recorded_surface.traced(lambda *xs: fnp.einsum(text, *xs), *arrays)
    np.testing.assert_allclose(value, wanted, atol=1e-12)
    if optimize is True and "..." not in text:  # where a size of 1 may repeat
        product = fnp.einsum(text, *arrays, _dot_general=lax.dot_general)
        np.testing.assert_allclose(product, wanted, atol=1e-12)


def test_labels_need_not_be_letters() -> None:
    x, y = RNG.standard_normal((2, 2, 3)), RNG.standard_normal((3, 2))
    wanted = np.einsum("...ab,bc", x, y)
    np.testing.assert_allclose(fnp.einsum("...a1,1_->...a_", x, y), wanted)


def test_a_product_of_the_callers_is_told_the_dtype_that_is_wanted() -> None:
    seen: list[Any] = []

    def product(*args: Any, preferred_element_type: Any) -> Any:
        seen.append(np.dtype(preferred_element_type).name)
        return lax.dot_general(*args, preferred_element_type=preferred_element_type)

    x, y = np.ones((2, 3), np.float32), np.ones((3, 2), np.float16)
    for wanted in (None, np.float64):
        fnp.einsum("ij,jk", x, y, preferred_element_type=wanted, _dot_general=product)
    assert seen == ["float32", "float64"]


def test_einsum_without_opt_einsum_finds_a_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ftrace.numpy.einstein._opt_einsum", lambda: None)
    x, y, z = (RNG.standard_normal(s) for s in ((9, 3), (3, 8), (8, 2)))
    np.testing.assert_allclose(fnp.einsum("ij,jk,kl", x, y, z), x @ y @ z, atol=1e-12)
    path, _ = fnp.einsum_path("ij,jk,kl", x, y, z)
    np.testing.assert_allclose(
        fnp.einsum("ij,jk,kl", x, y, z, optimize=path), x @ y @ z, atol=1e-12
    )


@pytest.mark.parametrize(
    "dtype", ["int8", "int32", "uint64", "float16", "bfloat16", "complex64"]
)
def test_matmul_keeps_dtype(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = (RNG.standard_normal((40, 30)) * 3).astype(kind)
    y = (RNG.standard_normal((30, 50)) * 3).astype(kind)
    wide = np.complex128 if kind.kind == "c" else np.float64
    found = fnp.matmul(x, y)
    assert found.dtype == kind
    if kind.kind in "iu":
        np.testing.assert_array_equal(found, x @ y)
    else:
        tolerance = 1e-5 if kind.kind == "c" else 2e-2
        wanted = x.astype(wide) @ y.astype(wide)
        np.testing.assert_allclose(
            np.asarray(found).astype(wide), wanted, tolerance, tolerance * 10
        )


def test_integer_products_wrap_like_numpy() -> None:
    x = RNG.integers(-(2**62), 2**62, (70, 70))
    np.testing.assert_array_equal(fnp.matmul(x, x), x @ x)


@pytest.mark.parametrize(
    "shapes", [((600, 400), (400, 500)), ((8, 90, 80), (8, 80, 70))]
)
def test_product_is_never_stored(shapes: Any) -> None:
    x, y = (RNG.standard_normal(shape).astype(np.float32) for shape in shapes)
    fnp.matmul(x, y)  # what is kept between calls
    tracemalloc.start()
    result = fnp.matmul(x, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * (x.nbytes + y.nbytes + result.nbytes)


def test_matmul_is_a_sum_of_a_product() -> None:
    x, y = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    graph = trace("test", lambda a, b: [fnp.matmul(a, b)], [aval_of(x), aval_of(y)])
    names = [node.op.name for node in graph.nodes]
    assert names.count("mul") == names.count("reduce_sum") == 1
    assert set(names) <= {
        "variable",
        "reshape",
        "permute",
        "expand",
        "mul",
        "reduce_sum",
    }


def test_norm_has_derivative_zero_at_zero() -> None:
    for order in (None, 1, 2, 3, np.inf):
        (slope,) = recorded_surface.gradient(
            lambda x, o=order: fnp.linalg.norm(x, o), np.zeros(3)
        )
        assert np.isfinite(slope).all()
    (slope,) = recorded_surface.gradient(
        lambda x: fnp.sum(fnp.linalg.norm(x, axis=1)),
        np.array([[0.0, 0.0], [3.0, 4.0]]),
    )
    np.testing.assert_allclose(slope, [[0, 0], [0.6, 0.8]])


DIFFERENTIABLE: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "matmul": (fnp.matmul, [(3, 4), (4, 5)]),
    "batched": (fnp.matmul, [(2, 1, 3, 4), (5, 4, 2)]),
    "matvec": (fnp.matvec, [(2, 3, 4), (4,)]),
    "einsum": (lambda x, y: fnp.einsum("ijk,kj->ik", x, y), [(2, 3, 4), (4, 3)]),
    "diagonal": (lambda x: fnp.einsum("iij->ij", x), [(3, 3, 2)]),
    "trace": (lambda x: fnp.trace(x, 1), [(3, 4)]),
    "kron": (fnp.kron, [(2, 3), (2, 2)]),
    "cross": (fnp.cross, [(4, 3), (4, 3)]),
    "norm 3": (lambda x: fnp.linalg.norm(x, 3, axis=1), [(3, 4)]),
    "norm 1": (lambda x: fnp.linalg.norm(x, 1), [(3, 4)]),
    "power": (lambda x: fnp.linalg.matrix_power(x, 3), [(3, 3)]),
    "chain": (lambda x, y, z: fnp.linalg.multi_dot([x, y, z]), [(2, 3), (3, 4), (4,)]),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_product_derivative_agrees_with_differences(name: str) -> None:
    function, shapes = DIFFERENTIABLE[name]
    arrays = [RNG.standard_normal(s) for s in shapes]
    check_grads(function, arrays, 1, atol=1e-6, rtol=1e-6, eps=1e-6)


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


MESSAGES: list[tuple[Callable[[], Any], type[FtraceError], str]] = [
    (
        lambda: fnp.matmul(_ones(2, 3), _ones(4, 5)),
        ShapeError,
        "matmul: the shapes (2, 3) and (4, 5) do not fit",
    ),
    (lambda: fnp.matmul(_ones(2, 2, 3), _ones(3, 3, 5)), ShapeError, "sizes 2 and 3"),
    (lambda: fnp.matmul(_ones(), _ones(3)), ShapeError, "at least 1 axis"),
    (lambda: fnp.dot(_ones(2, 3), _ones(2)), ShapeError, "dot: the shapes"),
    (lambda: fnp.vdot(_ones(2), _ones(3)), ShapeError, "vdot"),
    (
        lambda: fnp.matvec(_ones(3), _ones(3)),
        ShapeError,
        "first operand must have at least 2",
    ),
    (lambda: fnp.vecdot(_ones(3), _ones(4)), ShapeError, "sizes 3 and 4"),
    (
        lambda: fnp.tensordot(_ones(2, 3), _ones(2, 3), 1),
        ShapeError,
        "differ along the axes (1,) and (0,)",
    ),
    (lambda: fnp.tensordot(_ones(2), _ones(2), 3), ValueRangeError, "from 0 to 1"),
    (
        lambda: fnp.tensordot(_ones(2), _ones(2), (1,)),
        FtraceError,
        "axes=((1, 2), (0, 1))",
    ),
    (
        lambda: fnp.einsum("ij,jk", _ones(2, 3)),
        ValueRangeError,
        "names 2 operands, got 1",
    ),
    (lambda: fnp.einsum("ij", _ones(2)), ShapeError, "'ij'"),
    (lambda: fnp.einsum("i.", _ones(2, 2)), ValueRangeError, "must consist of labels"),
    (
        lambda: fnp.einsum("ij->ik", _ones(2, 2)),
        ValueRangeError,
        "['k'] stand in no operand",
    ),
    (
        lambda: fnp.einsum("ij->ii", _ones(2, 2)),
        ValueRangeError,
        "a label stands twice",
    ),
    (lambda: fnp.einsum("ii", _ones(2, 3)), ShapeError, "sizes 2 and 3"),
    (
        lambda: fnp.einsum("ij,jk", _ones(2, 3), _ones(4, 2)),
        ShapeError,
        "einsum: the shapes",
    ),
    (lambda: fnp.einsum(_ones(2), 3), TypeError, "arrays and lists of labels"),
    (lambda: fnp.trace(_ones(3)), ShapeError, "at least 2 axes"),
    (lambda: fnp.trace(_ones(3, 3), 0, 1, -1), ShapeError, "must differ"),
    (lambda: fnp.trace(_ones(3, 3), 0, 0, 2), AxisError, "axis 2 is out of bounds"),
    (lambda: fnp.cross(_ones(4), _ones(4)), ShapeError, "2 or 3 components"),
    (
        lambda: fnp.linalg.norm(_ones(2, 2), "max"),
        ValueRangeError,
        "ord='max' is not a norm of matrices",
    ),
    (lambda: fnp.linalg.norm(_ones(2, 2, 2), 2), ShapeError, "two that of matrices"),
    (
        lambda: fnp.linalg.vector_norm(_ones(2), ord="inf"),
        ValueRangeError,
        "ord must be a number",
    ),
    (lambda: fnp.linalg.matrix_power(_ones(2, 3), 2), ShapeError, "square matrices"),
    (
        lambda: fnp.linalg.multi_dot([_ones(2, 2)]),
        ValueRangeError,
        "at least two arrays",
    ),
    (
        lambda: fnp.linalg.multi_dot([_ones(2, 2), _ones(2), _ones(2, 2)]),
        ShapeError,
        "array 1 must have two axes",
    ),
    (lambda: fnp.linalg.outer(_ones(2, 2), _ones(2)), ShapeError, "must be a vector"),
]


@pytest.mark.parametrize("case", range(len(MESSAGES)))
def test_product_says_what_is_wrong(case: int) -> None:
    recorded_surface.check_message(*MESSAGES[case])
