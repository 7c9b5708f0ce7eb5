"""Spectra, interpolation, rotations, functions of matrices: against SciPy."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import errors
from ftrace.scipy import cluster, integrate, interpolate, linalg, signal
from ftrace.scipy.spatial.transform import Rotation, Slerp
from ftrace.test_util import check_grads

scipy_signal = pytest.importorskip("scipy.signal")
scipy_transform = pytest.importorskip("scipy.spatial.transform")
scipy_interpolate = pytest.importorskip("scipy.interpolate")
scipy_linalg = pytest.importorskip("scipy.linalg")
scipy_vq = pytest.importorskip("scipy.cluster.vq")

RNG = np.random.default_rng(5)


def close(found: Any, wanted: Any, rtol: float = 1e-9) -> None:
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol, rtol)


# Signals.

WINDOWS: list[dict[str, Any]] = [
    {"window": "hann", "nperseg": 16},
    {"window": "hamming", "nperseg": 17, "noverlap": 5, "nfft": 32},
    {"window": ("kaiser", 3.0), "nperseg": 8, "noverlap": 7},
    {"window": np.hanning(20), "nperseg": None, "fs": 2.5},
]
SIGNALS = [
    (RNG.normal(size=100), -1),
    (RNG.normal(size=(50, 2)), 0),
    (RNG.normal(size=(2, 64)) + 1j * RNG.normal(size=(2, 64)), -1),
]


@pytest.mark.parametrize("options", WINDOWS)
def test_spectra_are_those_of_scipy(options: dict[str, Any]) -> None:
    for (x, axis), detrend in itertools.product(SIGNALS, (False, "constant", "linear")):
        y = np.roll(x, 3, axis)[::-1]
        given = {
            "axis": axis,
            "detrend": detrend,
            "return_onesided": x.dtype != complex,
        }
        for boundary in (None, "zeros", "even", "odd", "constant"):
            more = {**given, **options, "boundary": boundary, "padded": bool(boundary)}
            for found, wanted in zip(
                signal.stft(x, **more), scipy_signal.stft(x, **more), strict=True
            ):
                close(found, wanted)
        for average, scaling in (("mean", "density"), ("median", "spectrum")):
            more = {**given, **options, "average": average, "scaling": scaling}
            for name, args in (("csd", (x, y)), ("welch", (x,))):
                pairs = zip(
                    getattr(signal, name)(*args, **more),
                    getattr(scipy_signal, name)(*args, **more),
                    strict=True,
                )
                for found, wanted in pairs:
                    close(found, wanted)


def test_istft_is_the_inverse_of_stft_and_has_a_derivative() -> None:
    for options, (x, axis) in itertools.product(WINDOWS[:2], SIGNALS[:2]):
        _, _, z = signal.stft(x, axis=axis, **options)
        freq = axis if axis >= 0 else -2
        _, found = signal.istft(z, freq_axis=freq, **options)
        close(found[..., : x.shape[axis]], np.moveaxis(x, axis, -1))
    x = SIGNALS[0][0][:24].astype(np.float32)
    power = ft.jit(lambda x: (fnp.abs(signal.stft(x, nperseg=8)[2]) ** 2).sum())
    check_grads(power, (x,), 1, ["rev"], atol=0.02, rtol=0.02)


def test_detrend_is_that_of_scipy() -> None:
    x = RNG.normal(size=(3, 40, 2))
    for options in ({"type": "constant"}, {"bp": [10, 25]}, {"bp": 0}):
        close(signal.detrend(x, 1, **options), scipy_signal.detrend(x, 1, **options))
    with pytest.raises(errors.ValueRangeError):
        signal.detrend(x, bp=[100])


def test_spectra_refuse_lengths_that_do_not_fit() -> None:
    x = SIGNALS[0][0]
    for options in ({"noverlap": 8}, {"nfft": 4}, {"boundary": "other"}):
        with pytest.raises(errors.ValueRangeError):
            signal.stft(x, nperseg=8, **options)
    with pytest.warns(UserWarning, match="nperseg"):
        signal.stft(x)
    with pytest.raises(errors.ShapeError):
        signal.csd(np.ones((2, 9)), np.ones((3, 9)), nperseg=4)


# Grids.


def test_regular_grid_interpolator_is_that_of_scipy() -> None:
    grid = (np.array([0.0, 1, 3]), np.array([1.0, 2, 5, 6]))
    values, xi = RNG.normal(size=(3, 4, 2)), RNG.uniform(-1, 7, (20, 2))
    for method, fill in itertools.product(("linear", "nearest"), (math.nan, None, 3.0)):
        options = {"method": method, "bounds_error": False, "fill_value": fill}
        f = interpolate.RegularGridInterpolator(grid, values, **options)
        wanted = scipy_interpolate.RegularGridInterpolator(grid, values, **options)(xi)
        close(f(xi), wanted)
        close(f((xi[:, 0], xi[:, 1])), wanted)
        close(ft.jit(lambda f, x: f(x))(f, xi), wanted)
    refusing = interpolate.RegularGridInterpolator(grid, values, bounds_error=True)
    with pytest.raises(errors.ValueRangeError):
        refusing(xi)
    assert integrate.trapezoid(np.arange(3.0), dx=2.0) == 4.0


def test_vq_finds_the_nearest_code() -> None:
    obs, codes = RNG.normal(size=(10, 3)), RNG.normal(size=(4, 3))
    for x, y in ((obs, codes), (obs[:, 0], codes[:, 0])):
        for found, wanted in zip(cluster.vq.vq(x, y), scipy_vq.vq(x, y), strict=True):
            close(found, wanted)
    with pytest.raises(errors.ShapeError):
        cluster.vq.vq(obs, codes[0])


def test_funm_is_the_function_of_the_matrix() -> None:
    a = RNG.normal(size=(5, 5))
    for x in (a, a + 1j * a.T, np.eye(3)):
        found, error = linalg.funm(x, fnp.exp, disp=False)
        close(found, scipy_linalg.expm(x), 1e-10)
        assert error <= 1


# Rotations.


def test_rotations_are_those_of_scipy() -> None:
    q = RNG.normal(size=(7, 4))
    many, wanted = Rotation.from_quat(q), scipy_transform.Rotation.from_quat(q)
    for mine, other in ((many, wanted), (many[0], wanted[0])):
        for name in ("as_matrix", "as_mrp", "as_rotvec", "magnitude", "as_quat"):
            close(getattr(mine, name)(), getattr(other, name)())
        close(mine.apply(np.ones(3), True), other.apply(np.ones(3), True))
        close((mine * many[1]).as_matrix(), (other * wanted[1]).as_matrix())
        canonical = other.as_quat(canonical=True, scalar_first=True)
        close(mine.as_quat(True, True), canonical)
        for name in ("matrix", "mrp", "rotvec"):
            made = getattr(Rotation, f"from_{name}")(getattr(other, f"as_{name}")())
            close(made.as_quat(True, True), canonical)
    weights = np.arange(7.0)
    close(many.mean(weights).as_matrix(), wanted.mean(weights).as_matrix())
    times, when = np.arange(7.0), np.array([0, 0.5, 3.2, 6])
    close(Slerp.init(times, many)(when).as_matrix(),
          scipy_transform.Slerp(times, wanted)(when).as_matrix())  # fmt: skip


def test_euler_angles_are_those_of_scipy() -> None:
    angles = RNG.normal(size=(4, 3))
    locked = [[0.3, 0, 0.2], [0.3, math.pi / 2, 0.4], [0.1, -math.pi / 2, 0.2]]
    for seq in ("xyz", "zxz", "ZYX", "YXY", "xzy", "XZX"):
        wanted = scipy_transform.Rotation.from_euler(seq, [*angles, *locked])
        found = Rotation.from_euler(seq, np.array([*angles, *locked]))
        close(found.as_matrix(), wanted.as_matrix())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            close(Rotation(wanted.as_quat()).as_euler(seq), wanted.as_euler(seq), 1e-6)
    for wrong in ("", "xyxy", "xx", "xY", "abc"):
        with pytest.raises(errors.ValueRangeError):
            Rotation.from_euler(wrong, angles)


def test_rotations_are_smooth_where_nothing_turns() -> None:
    def there_and_back(v: Any) -> Any:
        return Rotation.from_rotvec(v).as_rotvec()

    close(ft.jit(ft.jacobian(there_and_back))(np.zeros(3)), np.eye(3))
    assert ft.vmap(there_and_back)(np.zeros((2, 3))).shape == (2, 3)
    random = Rotation.random(ft.random.PRNGKey(0), 3)
    close(np.linalg.det(random.as_matrix()), np.ones(3), 1e-5)
