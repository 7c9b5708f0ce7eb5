"""`ftrace.numpy` is a namespace of the array API; its libraries take our arrays.

The standard's own suite is run from a checkout: docs/array-api.md has the commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp

INF, NAN = np.inf, np.nan
X = np.arange(6.0).reshape(2, 3)

#: What the standard has, beside linalg and fft: 2024.12.
NAMES = """
    abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype
    atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_to can_cast ceil
    clip complex128 complex64 concat conj copysign cos cosh count_nonzero
    cumulative_prod cumulative_sum diff divide e empty empty_like equal exp expand_dims
    expm1 eye finfo flip float32 float64 floor floor_divide from_dlpack full full_like
    greater greater_equal hypot iinfo imag inf int16 int32 int64 int8 isdtype isfinite
    isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and
    logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid
    min minimum moveaxis multiply nan negative newaxis nextafter nonzero not_equal ones
    ones_like permute_dims pi positive pow prod real reciprocal remainder repeat reshape
    result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze
    stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu trunc
    uint16 uint32 uint64 uint8 unique_all unique_counts unique_inverse unique_values
    unstack var vecdot where zeros zeros_like
"""
LINALG = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power
    matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace
    vecdot vector_norm
"""
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift"


def test_the_namespace_has_what_the_standard_has() -> None:
    spaces = {fnp: NAMES, fnp.linalg: LINALG, fnp.fft: FFT + " ifftshift"}
    for space, names in spaces.items():
        assert not set(names.split()) - set(dir(space))


def test_arrays_and_tracers_know_their_namespace() -> None:
    x = fnp.asarray(X)
    seen: list[Any] = []

    def function(y: Any) -> Any:
        seen.append(y.__array_namespace__())
        return y

    ft.jit(function)(x)
    assert [*seen, x.__array_namespace__(api_version="2023.12")] == [fnp, fnp]
    assert fnp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match=r"2024\.12.*got '2019"):
        x.__array_namespace__(api_version="2019.01")


@pytest.mark.parametrize("wide", [None, True, False])
def test_the_namespace_tells_what_it_does(wide: bool | None) -> None:
    with ft.config(jax_enable_x64=wide):
        info = fnp.__array_namespace_info__()
        defaults = info.default_dtypes()
        assert fnp.zeros(3).dtype == defaults["real floating"]
        assert fnp.arange(3).dtype == defaults["integral"] == defaults["indexing"]
        assert fnp.asarray([1j]).dtype == defaults["complex floating"]
        assert ("float64" in info.dtypes()) == (wide is not False)
        assert set(info.dtypes(kind=("bool", "real floating"))) <= {
            "bool", "float32", "float64",
        }  # fmt: skip
        for name, dtype in info.dtypes().items():
            assert fnp.zeros(1, dtype).dtype == getattr(fnp, name)
    assert info.default_device() in info.devices()
    assert info.capabilities()["data-dependent shapes"] is True
    moved = fnp.ones(2).to_device(info.default_device(), stream=None)
    assert moved.device == info.default_device()


def test_dtypes_compare_with_anything() -> None:
    for other in (None, "no dtype", 3, [], object, fnp.asarray(1.0)):
        assert fnp.float32 != other
    assert fnp.float32 == np.dtype("float32") == fnp.zeros(1).dtype


def test_memory_is_handed_over_with_and_without_a_copy() -> None:
    x = fnp.asarray(X) + 1

    class Old:
        """Asks as programs did before memory could be marked as read-only."""

        copy: bool | None = None

        def __dlpack__(self, **_: Any) -> Any:
            return x.__dlpack__(copy=self.copy)

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    old, shared = Old(), Old()
    shared.copy = False
    for source, same in ((x, True), (old, False), (shared, True)):
        view = np.from_dlpack(source)  # type: ignore[arg-type]
        np.testing.assert_array_equal(view, X + 1)
        assert np.shares_memory(view, x.numpy()) == same
    assert fnp.from_dlpack(x, copy=True).tolist() == x.tolist()


def test_quotients_and_remainders_are_those_of_the_standard() -> None:
    rows = [  # x1, x2, floor_divide, remainder
        (-0.0, 1, -0.0, 0.0), (-0.0, -1, 0.0, -0.0), (0.0, -1, -0.0, -0.0),
        (INF, 2, INF, NAN), (INF, -2, -INF, NAN), (-INF, 2, -INF, NAN),
        (-INF, -2, INF, NAN), (INF, INF, NAN, NAN), (3, INF, 0.0, 3),
        (3, -INF, -1, -INF), (-3, INF, -1, INF), (-3, -INF, 0.0, -3),
        (-0.0, INF, -0.0, 0.0),
        (6, -3, -2, -0.0), (-6, 3, -2, 0.0), (7.5, -2, -4, -0.5), (1, 0.0, INF, NAN),
        (1, -0.0, -INF, NAN), (0.0, 0.0, NAN, NAN), (NAN, 1, NAN, NAN),
        (5e-5, 1, 0.0, 5e-5),
    ]  # fmt: skip
    x1, x2, *wanted = map(np.array, zip(*rows, strict=True))
    for dtype in (np.float32, np.float64):
        a, b = x1.astype(dtype), x2.astype(dtype)
        for way in (lambda f: f, ft.jit):
            for found, expected in zip(way(fnp.divmod)(a, b), wanted, strict=True):
                np.testing.assert_array_equal(found, expected.astype(dtype))
                kept = ~np.isnan(expected)
                signs = np.signbit(np.asarray(found))[kept]
                np.testing.assert_array_equal(signs, np.signbit(expected)[kept])
    slope = ft.grad(lambda x, y: fnp.remainder(x, y), argnums=(0, 1))
    for pair in ((6.0, -3.0), (-6.0, 3.0), (7.5, -2.0), (-0.5, 2.0), (6.0, 3.0)):
        assert [float(s) for s in slope(*pair)] == [1.0, -np.floor(pair[0] / pair[1])]


def test_offsets_and_ends_of_any_size_are_taken() -> None:
    assert not (fnp.eye(3, k=2**40) + fnp.tri(3, k=-(2**40))).any()
    assert fnp.tri(2, k=2**40).all()
    assert fnp.linspace(0.0, 1e300, 3, dtype="float64").tolist() == [0.0, 5e299, 1e300]
    assert fnp.cumulative_prod(fnp.full(3, 100, "int8")).tolist() == [100, 10**4, 10**6]


# Libraries that are written against the standard.


def test_array_api_compat_takes_our_arrays() -> None:
    compat = pytest.importorskip("array_api_compat")
    x = fnp.asarray(X)
    assert compat.is_array_api_obj(x)
    assert compat.array_namespace(x, x) is fnp
    assert (compat.size(x), compat.device(x)) == (6, x.device)
    assert ft.jit(lambda y: compat.array_namespace(y).sum(y))(x) == 15


def test_array_api_extra_takes_our_arrays() -> None:
    extra = pytest.importorskip("array_api_extra")
    x = fnp.asarray(X) ** 2
    np.testing.assert_allclose(extra.cov(x), np.cov(X**2))
    assert extra.one_hot(fnp.arange(2), 3, xp=fnp).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert (extra.nunique(x), extra.kron(x, x).shape) == (6, (4, 9))
    slope = ft.jit(ft.grad(lambda y: extra.cov(y)[0, 1]))(x)
    centred = X**2 - (X**2).mean(1, keepdims=True)
    np.testing.assert_allclose(slope, centred[::-1] / 2)


def _with(package: str, program: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed; no test extra brings it")
    start = "import numpy as np, ftrace as ft, ftrace.numpy as fnp\n"
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start + program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_scipy_takes_our_arrays() -> None:
    _with("scipy", """
from scipy import integrate, ndimage, special, stats
x = np.arange(6.0).reshape(2, 3) ** 2
a = fnp.asarray(x)
for f in (
    special.expit, lambda y: stats.ttest_1samp(y, 0.5, axis=1).statistic,
    lambda y: stats.skew(y, axis=1), integrate.trapezoid,
    lambda y: ndimage.gaussian_filter(y, 1.0),
):
    found = f(a)
    assert isinstance(found, ft.Array) and found.dtype == "float64", f
    np.testing.assert_allclose(found, f(x), 1e-12)
""")  # fmt: skip


def test_scikit_learn_takes_our_arrays() -> None:
    _with("sklearn", """
from sklearn import config_context, decomposition, metrics
x = np.sin(np.arange(60.0).reshape(15, 4) ** 2)
with config_context(array_api_dispatch=True):
    model = decomposition.PCA(2, svd_solver="full").fit(fnp.asarray(x))
    found = model.transform(fnp.asarray(x))
    y = fnp.asarray([0, 1, 1, 0])
    assert metrics.accuracy_score(y, 1 - y) == 0
assert isinstance(found, ft.Array)
expected = decomposition.PCA(2, svd_solver="full").fit_transform(x)
np.testing.assert_allclose(abs(np.asarray(found)), abs(expected), 1e-9)
""")  # fmt: skip
