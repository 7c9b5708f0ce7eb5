"""Corners that JAX's own tests look into: options, traced operands, bits, errors."""

from __future__ import annotations

import copy
import warnings
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.scipy import fft, linalg

_DTYPES = "bool int8 uint16 float16 int32 float32 uint64 float64 complex64 complex128"


def _rows() -> Any:
    return np.arange(96, dtype=np.uint8).reshape(2, 48) % 2


@pytest.mark.parametrize("old", _DTYPES.split())
def test_views_are_those_of_numpy(old: str) -> None:
    x = _rows().view(old)
    for new in [*_DTYPES.split(), ml_dtypes.bfloat16]:
        want = x.view(new)
        for got in (fnp.array(x).view(new), ft.jit(lambda a, t=new: a.view(t))(x)):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            assert np.array_equal(np.asarray(got).view("u1"), want.view("u1"))
    if x.dtype.itemsize == 8:
        assert fnp.array(x[0, :1]).reshape(()).view("complex64").shape == ()
    if x.dtype.itemsize < 16:
        with pytest.raises(ft.errors.ShapeError, match="no whole elements"):
            fnp.array(x[:, :1]).view("complex128")


def test_bytes_are_swapped_as_in_numpy() -> None:
    for dtype in ("uint8", "int16", "float32"):
        x = np.arange(5).astype(dtype)
        got = np.asarray(fnp.array(x).byteswap())
        assert np.array_equal(got.view("u1"), x.byteswap().view("u1"))


def test_directives_of_joined_ranges() -> None:
    a, b = np.arange(3), np.arange(3, 6)
    for text in ("0,2", "1,2,0", "-1", "0,3,1", "0"):
        want = np.r_[text, a, b]
        assert np.array_equal(fnp.r_[text, fnp.array(a), fnp.array(b)], want), text
    assert np.array_equal(fnp.r_["0,2", 0:3, 3:6], np.r_["0,2", 0:3, 3:6])
    assert fnp.mgrid[()].shape == (0,)
    row, column = fnp.r_["r", a, b], fnp.r_["c", a, b]
    assert (row.shape, column.shape) == ((1, 6), (6, 1))
    for text in ("x", "1,-1", "2,2", "0,0,0,0"):
        with pytest.raises(ft.errors.ValueRangeError, match="directive"):
            fnp.r_[text, a]


def test_positions_that_differ_may_be_traced_in_delete() -> None:
    x = np.arange(24.0).reshape(4, 6)
    for axis, places in ((1, [5, 0, -3]), (0, [2]), (None, [3, -1, 7]), (0, [])):
        at = np.array(places, np.int32)

        def without(i: Any, axis: Any = axis) -> Any:
            return fnp.delete(x, i, axis, assume_unique_indices=True)

        assert np.array_equal(ft.jit(without)(at), np.delete(x, at, axis))


def test_take_along_axis_by_a_product() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for axis in range(3):
        at = np.arange(2 * 3 * 4).reshape(2, 3, 4) % x.shape[axis] - 1
        want = np.take_along_axis(x, at, axis)
        got = fnp.take_along_axis(x, at, axis, mode="one_hot")
        assert np.array_equal(got, want)
    got = fnp.take_along_axis(x[0, 0], np.array([4, -5]), 0, mode="one_hot")
    assert np.array_equal(got, [0, 0])


def test_sizes_of_unravel_index_may_be_traced() -> None:
    at = np.array([0, 5, -1, 11, 40])
    for known, traced in zip(
        fnp.unravel_index(at, (3, 4)),
        ft.jit(fnp.unravel_index)(at, (3, 4)),
        strict=True,
    ):
        assert np.array_equal(known, traced)
    far = fnp.ravel_multi_index((np.array([3, 9]), np.array([5, 1])), (7, 6), "ignore")
    assert np.array_equal(far, [23, 55])
    assert fnp.ravel_multi_index(fnp.array([[1, 2], [0, 3]]), (3, 4)).tolist() == [
        4,
        11,
    ]


def test_of_conditions_that_hold_the_last_counts() -> None:
    x = np.arange(6.0)
    lists = [x > 0, x > 2, x > 4], [1.0, lambda v: v * 10, 3.0, -1.0]
    assert np.array_equal(fnp.piecewise(x, *lists), np.piecewise(x, *lists))


def test_trapezoids_of_many_distances() -> None:
    y = np.arange(12.0).reshape(3, 4) ** 2
    x = np.cumsum(np.arange(12.0).reshape(3, 4), 1)
    rows: list[dict[str, Any]] = [
        {"dx": np.ones((3, 1))}, {"dx": np.arange(3.0)},
        {"dx": np.ones((2, 1)), "axis": 0},
        {"x": x}, {"x": x[1]}, {"x": x[:, 2], "axis": 0}, {"x": x, "axis": 0},
    ]  # fmt: skip
    for row in rows:
        assert np.allclose(fnp.trapezoid(y, **row), np.trapezoid(y, **row)), row


def test_ints_of_any_size_go_into_the_dtype_that_is_asked_for() -> None:
    with ft.config(jax_enable_x64=False):
        assert int(fnp.array([0, 2**32 - 1], "uint32")[1]) == 2**32 - 1
        with pytest.raises(OverflowError):
            fnp.array([2**32], "uint32")


def test_strict_promotion_counts_operands_only() -> None:
    x = fnp.ones(3)
    with ft.config(numpy_dtype_promotion="strict"):
        assert fnp.isclose(x, x, equal_nan=True).all()
        assert fnp.array_equal(x, x, equal_nan=True)
        assert fnp.ldexp(x, fnp.ones(3, int))[0] == 2
        assert fnp.tensordot(x, x, axes=1) == 3
        with pytest.raises(ft.errors.TypePromotionError):
            fnp.isclose(x, fnp.ones(3, int))


def test_without_checks_what_is_out_of_bounds_is_filled() -> None:
    x, at = fnp.arange(5.0), fnp.array([0, 7, -9])
    with ft.config(check_static_indices=False):
        for got in (fnp.take(x, at), fnp.take_along_axis(x, at, 0)):
            assert np.array_equal(got, [0, np.nan, np.nan], equal_nan=True)
        assert fnp.take(x, at, fill_value=9.0)[1] == 9


@pytest.mark.parametrize(
    "call",
    [
        lambda: fnp.clip(1j, 0, 1),
        lambda: fnp.ones((-1, 1)),
        lambda: fnp.array([None]),
        lambda: fnp.pad(fnp.ones(3), 1, end_values=0),
        lambda: fnp.size(fnp.ones((2, 3)), (0, 0)),
        lambda: fnp.arange(2) in fnp.arange(2),
        lambda: None in fnp.arange(2),
        lambda: ft.jit(lambda n: lax.fori_loop(0, n, max, 1, unroll=3))(4),
    ],
)
def test_what_is_wrong_with_an_argument_is_a_type_error_and_a_value_error(
    call: Any,
) -> None:
    for kind in (TypeError, ValueError):
        with pytest.raises(kind):
            call()


def test_what_a_body_only_hands_on_is_not_batched() -> None:
    def branch(x: Any, y: Any) -> Any:
        return lax.cond(x < 1, lambda x, y: (x * 2, y), lambda x, y: (x, y), x, y)

    def loop(x: Any, y: Any) -> Any:
        def body(c: Any) -> Any:
            return c[0] + 1, c[1] @ c[2], c[2]

        return lax.while_loop(lambda c: c[0] < 3, body, (x, fnp.ones(2), y))[::2]

    def steps(x: Any, y: Any) -> Any:
        return lax.scan(lambda c, _: ((c[0] + 1, c[1]), None), (x, y), None, 2)[0]

    y = np.ones((2, 2), np.float32)
    for f in (branch, loop, steps):
        assert np.array_equal(ft.vmap(f, (0, None), (0, None))(np.arange(3), y)[1], y)


def test_slopes_of_powers_at_the_exponent_zero() -> None:
    both = ft.jacfwd(ft.jacrev(lax.pow, (0, 1)), (0, 1))(4.0, 0.0)
    assert np.allclose(both, [[0, 0.25], [0.25, np.log(4) ** 2]])


def test_windows_are_reduced_by_any_function() -> None:
    def greatest(a: Any, b: Any) -> Any:
        less = a[0] < b[0]
        return fnp.where(less, b[0], a[0]), fnp.where(less, b[1], a[1])

    x = np.array([3.0, 1, 4, 1, 5, 9, 2, 6])
    places = np.arange(8)

    def windows(x: Any) -> Any:
        start = -np.inf, 0
        return lax.reduce_window((x, places), start, greatest, (3,), (2,), "VALID")

    for run in (windows, ft.jit(windows)):
        values, at = run(x)
        assert np.array_equal(values, [4, 5, 9])
        assert np.array_equal(at, [2, 4, 5])
    assert np.array_equal(ft.vmap(windows)(np.stack([x, x]))[0][1], [4, 5, 9])
    slopes = ft.grad(lambda x: windows(x)[0].sum())(x)
    assert np.array_equal(slopes, [0, 0, 1, 0, 1, 1, 0, 0])


def test_options_of_lax() -> None:
    x = fnp.arange(6.0).reshape(2, 3)
    wide = lax.broadcast_in_dim(x, (3, 4, 2), (2, 0))
    assert np.array_equal(wide[:, 1], x.T)
    assert lax.mul(
        x.astype("bfloat16"), x.astype("bfloat16"), out_dtype="f4"
    ).dtype == (np.float32)
    assert lax.convert_element_type(300, "int8") == 44
    assert lax.convert_element_type(2**100, "float32") == 2.0**100
    assert lax.convert_element_type(-(2**70) - 3, "int32") == -3
    assert lax.convert_element_type(2**40 + 5, "uint16") == 5
    assert all(
        type(n) is int for n in lax.padtype_to_pads([np.int8(4)], [2], [1], "same")[0]
    )

    class Weighted(NamedTuple):  # a tuple with arithmetic of its own
        x: float

        def __rmul__(self, other: Any) -> Any:
            return other * fnp.asarray(self.x)

    assert (fnp.ones(2) * Weighted(3.0)).tolist() == [3, 3]
    assert ft.jit(lambda x: x * Weighted(3.0))(fnp.ones(2)).tolist() == [3, 3]
    with pytest.raises(TypeError, match="convert it with"):
        fnp.ones(2) * (1, 2)
    with ft.config(jax_enable_x64=False):
        assert int(lax.full((2,), 2**32 - 1, "uint32")[0]) == 2**32 - 1


def test_one_number_is_a_polynomial_without_roots() -> None:
    for p in (3, np.float32(2), fnp.array(0.5)):
        for roots in (fnp.roots, lambda p: fnp.roots(p, strip_zeros=False)):
            assert roots(p).shape == ft.jit(roots)(p).shape == (0,)


def test_none_goes_through_vectorize() -> None:
    def add(x: Any, y: Any, z: Any) -> Any:
        assert y is None
        return x + z

    assert np.array_equal(fnp.vectorize(add)(np.arange(3.0), None, 1.0), [1, 2, 3])
    inner = fnp.vectorize(add, signature="(n),(),(n)->(n)")
    assert inner(np.ones((2, 3)), None, np.ones(3)).shape == (2, 3)
    with pytest.raises(ft.errors.ArgumentError, match="no core"):
        fnp.vectorize(add, signature="(n),(n),(n)->(n)")(np.ones(3), None, np.ones(3))
    for wrong in ({-1}, {1.5}):
        with pytest.raises(ValueError, match="exclude"):
            fnp.vectorize(add, excluded=wrong)  # type: ignore[arg-type]


def test_matrices_in_stacks() -> None:
    a = np.array([[1.0, 3, 2, 5, 4], [2, 1, 1, 1, 3]])
    want = [linalg.fiedler_companion(row) for row in a]
    assert np.array_equal(linalg.fiedler_companion(a), want)
    b = np.stack([np.eye(2), 2 * np.eye(2)])
    x = linalg.solve_sylvester(np.eye(2), b, np.ones((2, 2)))
    assert np.allclose(x, np.ones((2, 2)) / np.array([2.0, 3.0])[:, None, None])
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])  # ±i, as of itself
    for a, c, bad in ((b[0], -b[1], False), (b[0], -b[0], True), (turn, turn, True)):
        for method in ("schur", "eigen"):
            x = linalg.solve_sylvester(a, c, np.ones((2, 2)), method=method)
            assert np.isnan(x).tolist() == [[bad] * 2] * 2
    z = np.arange(4) * (1 + 2j)
    assert np.allclose(fft.dct(z), fft.dct(z.real) + 1j * fft.dct(z.imag))
    with pytest.raises(ft.errors.DtypeError, match="complex"):
        linalg.dft(4, dtype="float32")
    with pytest.raises(ft.errors.ArgumentError, match="only one"):
        fnp.linalg.matrix_rank(b, 1e-3, tol=1e-3)


def test_eigenvalues_stand_in_one_order() -> None:
    a = np.random.RandomState(0).randn(12, 8, 8)
    values = fnp.linalg.eigvals(a)
    assert np.allclose(values, fnp.linalg.eig(a).eigenvalues)
    t, step = np.random.RandomState(1).randn(12, 8, 8), 1e-6
    _, slopes = ft.jvp(fnp.linalg.eigvals, (a,), (t,))
    ends = [fnp.linalg.eigvals(a + h * t) for h in (step, -step)]
    ends = [
        np.take_along_axis(
            np.asarray(e), _nearest(np.asarray(e), np.asarray(values)), 1
        )
        for e in ends
    ]
    assert np.allclose(slopes, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-4)


def _nearest(values: Any, wanted: Any) -> Any:
    return abs(values[:, None, :] - wanted[:, :, None]).argmin(-1)


def test_small_options() -> None:
    half = fnp.ones(3, "bfloat16")
    assert lax.dot(half, fnp.ones(3, "int8")).dtype == half.dtype
    z = fnp.ones((2, 3), "complex64")
    assert np.array_equal(lax.fft(z, "fft", ()), z)
    with pytest.raises(TypeError, match="negative"):
        fnp.broadcast_shapes((-1, 2), (1, 2))
    weights = np.array([True, False, True, True])
    x = np.arange(8.0).reshape(2, 4) ** 2
    assert np.allclose(fnp.cov(x, aweights=weights), np.cov(x, aweights=weights))
    with ft.enable_x64():
        assert fnp.ones(1).dtype == np.float64


def test_copies_are_arrays_of_their_own() -> None:
    x = fnp.ones(10)
    for made in (copy.copy(x), copy.deepcopy(x), x.astype(x.dtype, copy=True)):
        assert made.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
        made.delete()
    assert x.astype(x.dtype) is x
    assert x.sum() == 10
    with pytest.raises(ft.errors.ConcretizationTypeError, match="tobytes"):
        ft.jit(lambda x: fnp.array(len(x.tobytes())))(x)


def test_modes_of_pad_hold_under_checked_ranks() -> None:
    x = np.arange(6.0).reshape(2, 3)
    with ft.config(numpy_rank_promotion="raise"):
        got = fnp.pad(x, 2, mode="linear_ramp", end_values=1)
    assert np.allclose(got, np.pad(x, 2, mode="linear_ramp", end_values=1))


def test_what_takes_the_place_of_nan_is_looked_at_again() -> None:
    x = fnp.array([np.nan, np.inf, 1.0])
    for call in (fnp.nan_to_num, ft.jit(fnp.nan_to_num)):
        low = call(x, nan=-np.inf, posinf=2.0)
        assert low.tolist() == [np.finfo(np.float32).min, 2, 1]


def test_a_product_of_two_dtypes_has_the_one_that_holds_more() -> None:
    pairs = {
        "float16 bfloat16": "bfloat16", "int8 bfloat16": "bfloat16",
        "int32 uint32": "int32", "uint8 uint16": "uint16", "bool int8": "int8",
        "complex64 float32": "complex64", "int4 float32": "float32",
        "float8_e4m3fn float8_e5m2": "float8_e5m2",
    }  # fmt: skip
    for both, dtype in pairs.items():
        x, y = (fnp.ones((2, 2), name) for name in both.split())
        with ft.numpy_dtype_promotion("strict"):
            got = lax.dot(x, y), lax.dot(y, x)
        assert [str(product.dtype) for product in got] == [dtype] * 2
        assert np.all(got[0].astype("float32") == 2)


def test_operands_of_lax_that_do_not_fit_are_refused() -> None:
    x, pair = fnp.ones((3, 4)), (np.int32(1), np.int16(2))
    with pytest.raises(TypeError, match="int32, int16"):
        lax.dynamic_slice(x, pair, (2, 2))
    with pytest.raises(TypeError, match="int32, int16"):
        lax.dynamic_update_slice(x, x[:2, :2], pair)
    for start in ({"y": 0.0}, {"x": np.ones(3, np.float32)}):
        with pytest.raises(ValueError, match="in a tree like that of the operands"):
            lax.reduce({"x": x}, start, lambda x, y: x, [0])


def test_eigenvectors_are_those_under_jit() -> None:
    x = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    for f in (fnp.linalg.eigh, fnp.linalg.svd):
        for got, want in zip(f(x), ft.jit(f)(x), strict=True):
            assert np.array_equal(got, want)


def test_what_stands_above_the_diagonal_is_given() -> None:
    d, e = np.array([1.0, 2, 3]) + 0j, np.array([1 + 2j, 0.5j])
    w, v = linalg.eigh_tridiagonal(d, e)
    matrix = np.diag(d) + np.diag(e, 1) + np.diag(e.conj(), -1)
    assert np.allclose(matrix @ v, v * w)
    assert lax.linalg.tridiagonal(np.array([[2 + 3j]]))[0] == 2  # hermitian: real


def test_rotations_to_a_complex_form_are_those_of_scipy() -> None:
    scipy = pytest.importorskip("scipy.linalg")
    x = np.random.default_rng(0).standard_normal((3, 6, 6))
    forms = [scipy.schur(a) for a in x]
    want = [scipy.rsf2csf(*form) for form in forms]
    got = linalg.rsf2csf(*map(np.stack, zip(*forms, strict=True)))
    for a, b in zip(got, zip(*want, strict=True), strict=True):
        assert np.allclose(a, np.stack(b), atol=1e-12)


def test_numbers_of_which_a_part_is_nan_are_one_in_a_set() -> None:
    nan = np.nan
    x = np.array([complex(nan, 1), complex(0, nan), 1, complex(nan, nan), 0, 1j])
    assert fnp.unique(x).shape == np.unique(x).shape == (4,)
    repeated = np.array([1, 1, 2]), np.array([2, 3])
    got = fnp.setxor1d(*repeated, assume_unique=True)
    assert got.tolist() == np.setxor1d(*repeated, assume_unique=True).tolist() == [3]


def test_directives_make_matrices_of_vectors() -> None:
    vectors = [1, 2, 3], [4, 5, 6]
    for letter in "rc":
        for ours, theirs in ((fnp.c_, np.c_), (fnp.r_, np.r_)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PendingDeprecationWarning)
                want = theirs[letter, vectors[0], vectors[1]]
            assert np.array_equal(ours[letter, vectors[0], vectors[1]], want)


def test_spacing_is_that_of_numpy() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for every in (x, x.astype(np.float32)):
        with np.errstate(all="ignore"):
            assert np.array_equal(fnp.spacing(every), np.spacing(every), equal_nan=True)


def test_squares_of_great_complex_numbers_have_no_nan() -> None:
    for f in (fnp.square, ft.jit(fnp.square)):
        got = f(np.array([2e38 + 2e38j, 2e38 - 2e38j, 1 + 2j], np.complex64))
        assert got.real.tolist() == [0, 0, -3]
        assert got.imag.tolist() == [np.inf, -np.inf, 4]


def test_whole_results_have_no_cotangent_in_a_custom_gradient() -> None:
    seen: list[Any] = []

    @ft.custom_gradient
    def f(x: Any) -> Any:
        def pullback(ct: Any) -> Any:
            seen.append(ct[1].dtype)
            return ct[0] * 3

        return (x, fnp.round(x).astype(int)), pullback

    assert ft.grad(lambda x: f(x)[0])(1.5) == 3
    assert set(seen) == {ft.float0}


def test_updates_that_are_cut_warn() -> None:
    x = fnp.arange(3)
    for cut in (lambda: x.at[0].set(1.5), lambda: ft.jit(lambda x: x.at[1].add(1j))(x)):
        with pytest.warns(
            FutureWarning, match="scatter inputs have incompatible types"
        ):
            assert cut().dtype == x.dtype
    with pytest.warns(FutureWarning, match="float16 is cut to it, got float32"):
        x.astype("float16").at[0].set(np.float32(2))
    with ft.config(numpy_dtype_promotion="strict"):
        x.at[0].set(2)
        with pytest.raises(ft.errors.TypePromotionError, match="float32"):
            x.at[0].set(np.float32(2))
    x.astype("float32").at[0].set(np.array(2.0))  # NumPy's double bits alone
    with ft.config(jax_enable_x64=False):
        x.at[0].set(np.uint8(2))
        assert x[[0, 1]].shape == (2,)  # what programs written for autograd do
    refused = pytest.raises(TypeError, match="a list is no index")
    with ft.config(check_static_indices=False), refused:
        x[[0, 1]]
    assert x[[0, 1]].shape == (2,)


def test_keys_of_old_and_offsets_of_seeds() -> None:
    key = ft.random.PRNGKey(3)
    with ft.legacy_prng_key("warn"), pytest.warns(UserWarning, match="Legacy uint32"):
        ft.random.uniform(key)
    with ft.legacy_prng_key("error"):
        ft.random.uniform(ft.random.key(3))
        with pytest.raises(ValueError, match=r"random\.uniform"):
            ft.random.uniform(key)
    make = ft.jit(lambda: ft.random.PRNGKey(1))
    assert not np.array_equal(make(), key)
    with ft.config(jax_random_seed_offset=2):
        assert np.array_equal(ft.random.PRNGKey(1), key)
        assert np.array_equal(make(), key)
    lam = np.array([np.inf, -1, np.nan, 0], np.float32)
    assert ft.random.poisson(key, lam).tolist() == [0, -1, -1, 0]


def test_dtypes_are_promoted_also_where_they_are_narrowed() -> None:
    with ft.config(jax_enable_x64=False):
        assert fnp.promote_types("int64", "float64") == np.float64
        assert fnp.result_type("int64", "float64") == np.float32


def test_ranks_are_checked_in_vectorize_and_orders_of_splines_are_named() -> None:
    add = fnp.vectorize(fnp.add, signature="(),()->()")
    x, y = fnp.zeros((3, 3)), fnp.zeros(3)
    with ft.numpy_rank_promotion("raise"):
        assert add(x, y[0]).shape == (3, 3)
        with pytest.raises(ValueError, match="same number of axes"):
            add(x, y)
    with ft.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="vectorize"):
        add(x, y)
    with pytest.raises(NotImplementedError, match="order must be 0 or 1, got 3"):
        ft.scipy.ndimage.map_coordinates(y, [y], order=3)


def test_trees_of_a_scan_may_be_of_another_class() -> None:
    class Pair(NamedTuple):
        a: Any
        b: Any

    pair = Pair(fnp.arange(4), fnp.ones(4))
    sums = lax.associative_scan(lambda x, y: (x[0] + y[0], x[1] * y[1]), pair)
    assert isinstance(sums, Pair)
    assert sums.a.tolist() == [0, 1, 3, 6]
    with pytest.raises(ft.errors.TreeError, match="as many leaves"):
        lax.associative_scan(lambda x, y: (x[0],), pair)


def test_kinds_of_calls_are_counted() -> None:
    f = ft.jit(lambda x: x + 1)
    for x in (1.0, 2.0, np.ones(3)):
        f(x)
    assert f._cache_size() == 2


def test_axes_that_gradients_are_summed_over_are_none() -> None:
    for transform in (ft.grad, ft.value_and_grad):
        assert transform(fnp.sum, reduce_axes=())(np.ones(2)) is not None
        with pytest.raises(NotImplementedError, match=r"lax\.psum"):
            transform(fnp.sum, reduce_axes=("batch",))
    for transform in (ft.vjp, ft.linear_transpose):
        with pytest.raises(NotImplementedError, match=r"lax\.psum"):
            transform(fnp.sum, np.ones(2), reduce_axes=("batch",))


def test_elements_one_after_the_other() -> None:
    x = fnp.arange(6.0).reshape(2, 3)
    assert list(x.flat) == [*range(6)]
    assert x.flat[-2] == 4
    with pytest.raises(ValueError, match="read-only"):
        x.flat[0] = 1.0
    for each in (x, x[1, 1], fnp.asarray(4.0)):  # pytest asks for what is flat
        assert each == pytest.approx(each, abs=1e-4)


def test_bytes_viewed_as_bools_are_bools() -> None:
    """JAX's are 0 or 1; NumPy keeps the byte."""
    x = fnp.array([0, 1, 24, 255], "uint8")
    for look in (lambda x: x.view(bool), ft.jit(lambda x: x.view(bool))):
        got = look(x)
        assert got.dtype == bool
        assert got.view("int8").tolist() == [0, 1, 1, 1]
        assert ft.vmap(look)(x).astype(int).tolist() == [0, 1, 1, 1]
    assert fnp.array([256, 0], "int32").view(bool).tolist() == [
        *[False, True, False, False], *[False] * 4
    ]  # fmt: skip


@pytest.mark.parametrize("mode", ["linear_ramp", "maximum", "mean", "median", "edge"])
def test_padded_arrays_stay_weakly_typed(mode: str) -> None:
    x = fnp.array(1.0)[None]
    assert x.weak_type
    assert fnp.pad(x, 1, mode=mode).weak_type
    assert not fnp.pad(x.astype("float32"), 1, mode=mode).weak_type
