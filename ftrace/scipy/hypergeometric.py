"""Hypergeometric functions, Bessel functions, spherical harmonics, numbers of ways."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

import ftrace.numpy as fnp
from ftrace import dtypes, errors
from ftrace.lax import gammas
from ftrace.lax.special import converge, rounding, with_slopes
from ftrace.numpy.axes import as_value, cast, choose, static_int
from ftrace.numpy.elementwise import promote_inexact, refuse_complex
from ftrace.trace.bind import bind
from ftrace.trace.eager.composite import run_fused
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracing.tracer import Tracer, Value
from ftrace.transforms.grad import jvp

__all__ = [
    "bernoulli", "bessel_jn", "comb", "hyp1f1", "hyp2f1", "lpmn", "lpmn_values",
    "sph_harm_y",
]  # fmt: skip


def _hypergeometric(upper: tuple[Any, ...], lower: Any, x: Any, wanted: Any) -> Any:
    """Σ Π(aᵢ)ₙ/(b)ₙ·xⁿ/n!, until a term is nothing beside the sum."""
    limit = rounding(x) / 4
    reach = fnp.maximum(1.0, -lower)
    for a in upper:
        reach = fnp.maximum(reach, choose(fnp.floor(a) == a, 1.0, -a))

    def step(n: Any, term: Any, total: Any) -> tuple[Any, ...]:
        k = n - 1
        ratio = x / (n * (lower + k))
        for a in upper:
            ratio = ratio * (a + k)
        term = term * ratio
        total = total + term
        large = fnp.abs(term) > limit * fnp.abs(total)
        return (term != 0) & (large | (n <= reach)), term, total

    one = fnp.ones_like(x)
    return converge(step, (one, one), wanted)[1]


def _differentiable(function: Any, along: Any, moving: Any, count: int) -> Any:
    """With slopes: of the last of `count` operands `along`, of others by `moving`."""

    def slope_of(number: int) -> Any:
        def slope(_: Any, *xs: Any) -> Any:
            def of_one(v: Any) -> Any:
                return moving(*xs[:number], v, *xs[number + 1 :])

            return jvp(of_one, (xs[number],), (fnp.ones_like(xs[number]),))[1]

        return slope

    return with_slopes(function, *[slope_of(k) for k in range(count - 1)], along)


# Kummer's function.


def _ends(a: Any) -> Any:
    """Has a series of (a)ₙ no more terms from some on?"""
    return (a <= 0) & (fnp.floor(a) == a)


def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    plain = (a == 0) | (a == b) | (b == 0) | (x != x)
    # Left of 0 terms would cancel: there M(a, b, x) = exp(x)·M(b - a, b, -x).
    flipped = (x < 0) & ~_ends(a)
    far = flipped & (-x > 40 + fnp.abs(a) * fnp.abs(1 + a - b)) & ~_ends(b - a)
    series = ~plain & ~far
    s, t, y = choose(series, a, 1.0), choose(series, b, 1.0), choose(series, x, 0.0)
    turned = flipped & series
    top = choose(turned, t - s, s)
    value = _hypergeometric((top,), t, choose(turned, -y, y), series)
    value = value * fnp.exp(choose(turned, y, 0.0))
    # Far left, DLMF 13.7.2, whose terms shrink long enough.
    s, t, y = choose(far, a, 1.0), choose(far, b, 2.5), choose(far, -x, 50.0)
    limit = rounding(x)

    def step(n: Any, term: Any, total: Any) -> tuple[Any, ...]:
        term = term * ((s + n - 1) * (s - t + n) / (n * y))
        return (fnp.abs(term) > limit * fnp.abs(total)) & (n < y), term, total + term

    one = fnp.ones_like(y)
    total = converge(step, (one, one), far)[1]
    ratio = gammas.any_gamma(t) / gammas.any_gamma(t - s) * fnp.power(y, -s)
    value = choose(far, ratio * total, value)
    value = choose(b == 0, math.inf, choose(a == b, fnp.exp(x), value))
    value = choose(a == 0, 1.0, value)
    return choose(x == x, value, x)


def _hyp1f1_slope(function: Any, a: Any, b: Any, x: Any) -> Any:
    return a / b * function(a + 1, b + 1, x)


_kummer = _differentiable(_hyp1f1, _hyp1f1_slope, _hyp1f1, 3)


@gammas.compose_real
def hyp1f1(a: Value, b: Value, x: Value) -> Any:
    """Kummer's function M(a, b, x) = Σ (a)ₙ/(b)ₙ·xⁿ/n!.

    Args:
      a, b, x: arrays of real numbers that broadcast; integers become floats.

    Example:
      >>> ft.scipy.special.hyp1f1(1.0, 2.0, 0.5)
      Array(1.2974426, dtype=float32, weak_type=True)
    """
    return _kummer(*fnp.broadcast_arrays(a, b, x))


# Gauss's function.


def _is_whole(x: Any) -> Any:
    return fnp.abs(x - fnp.rint(x)) < 50 * 2 * rounding(x)


def _near_one(a: Any, b: Any, c: Any, x: Any, wanted: Any) -> Any:
    """F(a, b; c; x) near x = 1 by powers of 1 - x, for c - a - b ≥ 0: DLMF 15.8."""
    d = c - a - b
    whole = _is_whole(d)
    rest = 1 - x
    apart = wanted & ~whole
    s, t, e = choose(apart, a, 0.3), choose(apart, b, 0.3), choose(apart, d, 0.5)
    r = choose(apart, rest, 0.1)
    total = s + t + e
    first = _gauss_sum(total, e, s + e, t + e)
    first = first * _hypergeometric((s, t), 1 - e, r, apart)
    second = _gauss_sum(total, -e, s, t)
    other = _hypergeometric((s + e, t + e), 1 + e, r, apart)
    value = first + fnp.power(r, e) * second * other
    # Where it is whole, m, the two have poles that cancel: DLMF 15.8.10.
    near = wanted & whole
    s, t, m = choose(near, a, 0.3), choose(near, b, 0.3), choose(near, fnp.rint(d), 0.0)
    r = choose(near, rest, 0.1)

    def finite(n: Any, term: Any, total: Any) -> tuple[Any, ...]:
        total = total + term
        k = n - 1
        gap = choose(n < m, m - n, 1.0)
        return n < m, term * (s + k) * (t + k) / (n * gap) * -r, total

    one = fnp.ones_like(r)
    start = gammas.any_gamma(choose(m > 0, m, 1.0)) * one
    sums = converge(finite, (start, fnp.zeros_like(r)), near & (m > 0))[1]
    log = fnp.log(r)
    limit = rounding(x) / 4

    def psi(v: Any) -> Any:
        return bind(p.digamma, v)

    def infinite(n: Any, term: Any, total: Any) -> tuple[Any, ...]:
        k = n - 1
        bracket = log - psi(n) - psi(n + m) + psi(s + k + m) + psi(t + k + m)
        more = term * bracket
        term = term * (s + m + k) * (t + m + k) / (n * (n + m)) * r
        return fnp.abs(more) > limit * fnp.abs(total), term, total + more

    start = one / gammas.any_gamma(m + 1)
    logs = converge(infinite, (start, fnp.zeros_like(r)), near)[1]
    head = gammas.any_gamma(s + t + m)
    sign = choose(fnp.remainder(m, 2) == 0, 1.0, -1.0)
    joined = head / (gammas.any_gamma(s + m) * gammas.any_gamma(t + m)) * sums
    below = gammas.any_gamma(s) * gammas.any_gamma(t)
    return choose(near, joined - sign * fnp.power(r, m) * head / below * logs, value)


def _gauss_sum(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Γ(a)·Γ(b) / (Γ(c)·Γ(d))."""
    top = gammas.any_gamma(a) * gammas.any_gamma(b)
    return top / (gammas.any_gamma(c) * gammas.any_gamma(d))


def _hyp2f1(a: Any, b: Any, c: Any, x: Any, apart: bool = False) -> Any:
    """F; `apart`: by a formula that holds also beside whole c - a - b."""
    finite = ((a <= 0) & _is_whole(a)) | ((b <= 0) & _is_whole(b))
    pole = (c <= 0) & (fnp.floor(c) == c)
    d = c - a - b
    trivial = (x == 0) | (a == 0) | (b == 0)
    series = ~trivial & ~pole & (finite | (x < 1))
    s, t, u = choose(series, a, 0.5), choose(series, b, 0.5), choose(series, c, 1.5)
    y = choose(series, x, 0.0)
    # Left of 0 Pfaff's transformation, DLMF 15.8.1, to between 0 and 1.
    left = series & ~finite & (y < 0)
    t = choose(left, u - t, t)
    scale = choose(left, fnp.power(choose(left, 1 - y, 1.0), -s), 1.0)
    z = choose(left, y / (y - 1), y)
    ends = finite | (left & (t <= 0) & _is_whole(t))
    # Euler's, DLMF 15.8.1: so that c - a - b is not negative near 1.
    near = series & ~ends & (z > 0.9)
    gap = u - s - t
    turned = near & (gap < 0)
    scale = scale * choose(turned, fnp.power(choose(turned, 1 - z, 1.0), gap), 1.0)
    s, t = choose(turned, u - s, s), choose(turned, u - t, t)
    ends = ends | (turned & (_is_whole(s) & (s <= 0) | _is_whole(t) & (t <= 0)))
    near = near & ~ends
    near = near & ~_is_whole(gap) if apart else near
    plain = series & ~near
    args = [choose(plain, v, w) for v, w in ((s, 0.5), (t, 0.5), (u, 1.5), (z, 0.0))]
    value = _hypergeometric((args[0], args[1]), args[2], args[3], plain)
    s, t, u = choose(near, s, 0.5), choose(near, t, 0.5), choose(near, u, 1.5)
    beside_one = _near_one(s, t, u, choose(near, z, 0.95), near)
    value = scale * choose(near, beside_one, value)
    # At 1 by Gauss's sum, if there is one.
    at_one = (x == 1) & ~finite & ~trivial & ~pole
    s, t, u = choose(at_one, a, 0.3), choose(at_one, b, 0.3), choose(at_one, c, 1.5)
    e = choose(at_one & (d > 0), u - s - t, 1.0)
    total = _gauss_sum(u, e, u - s, u - t)
    value = choose(at_one, choose(d > 0, total, math.inf), value)
    value = choose((x > 1) & ~finite, math.inf, value)
    value = choose(trivial, 1.0, choose(pole, math.inf, value))
    lost = (a != a) | (b != b) | (c != c) | (x != x)
    return choose(lost, np.nan, value)


def _hyp2f1_slope(function: Any, a: Any, b: Any, c: Any, x: Any) -> Any:
    return a * b / c * function(a + 1, b + 1, c + 1, x)


_gauss = _differentiable(_hyp2f1, _hyp2f1_slope, partial(_hyp2f1, apart=True), 4)


@gammas.compose_real
def hyp2f1(a: Value, b: Value, c: Value, x: Value) -> Any:
    """Gauss's function F(a, b; c; x) = Σ (a)ₙ(b)ₙ/(c)ₙ·xⁿ/n!, for x ≤ 1.

    Args:
      a, b, c, x: arrays of real numbers that broadcast; integers become floats.

    Example:
      >>> ft.scipy.special.hyp2f1(1.0, 2.0, 3.0, 0.5)
      Array(1.5451776, dtype=float32, weak_type=True)
    """
    return _gauss(*fnp.broadcast_arrays(a, b, c, x))


# Bessel functions of the first kind.


def bessel_jn(z: Value, *, v: int, n_iter: int = 50) -> Any:
    """J₀(z), …, Jᵥ(z), along a new first axis; by recurrence downwards.

    Args:
      z: real numbers.
      v: the greatest order.
      n_iter: where the recurrence begins: well beyond v and |z|.

    Raises:
      ValueRangeError: v is negative or greater than n_iter.

    Source: J. Miller's algorithm, as ratios of orders that follow one another:
    W. Gautschi, "Computational aspects of three-term recurrence relations", 1967.

    Example:
      >>> ft.scipy.special.bessel_jn(1.0, v=2)
      Array([0.7651977 , 0.4400506 , 0.11490349], dtype=float32, weak_type=True)
    """
    order = static_int(v, "bessel_jn: v")
    steps = static_int(n_iter, "bessel_jn: n_iter")
    if not 0 <= order <= steps:
        raise errors.ValueRangeError(
            f"bessel_jn: v must be from 0 to n_iter = {steps}, got {order}"
        )
    (x,) = promote_inexact(z)
    refuse_complex("bessel_jn", x)
    return gammas.run_wide(_bessel_jn, [x], order=order, steps=steps)


def _bessel_jn(x: Any, order: int, steps: int) -> Any:
    # r = Jₖ/Jₖ₋₁, downwards; J₀ + 2·(J₂ + J₄ + …) = 1 as J₀·(2·sum - 1).
    ratio, total, ratios = fnp.zeros_like(x), fnp.ones_like(x), [x]
    above = ratio
    for k in range(steps + steps % 2, 0, -1):
        above, ratio = ratio, x / (2 * k - x * ratio)
        ratios.append(ratio)
        if k % 2:
            total = 1 + ratio * above * total
    value = 1 / (2 * total - 1)
    values = [value]
    for k in range(1, order + 1):
        value = value * ratios[-k]
        values.append(value)
    return fnp.stack(values)


# Spherical harmonics.


def sph_harm_y(
    n: Value,
    m: Value,
    theta: Value,
    phi: Value,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Any:
    """The spherical harmonics Yₙᵐ(θ, φ), with the phase of Condon and Shortley.

    Args:
      n: the degree, integers from 0.
      m: the order, integers; 0 where |m| > n.
      theta: the angle from the pole.
      phi: the angle around it.
      diff_n: must be None.
      n_max: the greatest degree; by default that of `n`, whose values it then takes.

    Raises:
      ConcretizationTypeError: `n` is traced, and `n_max` is not given.
      UnsupportedError: `diff_n` is given.

    Example:
      >>> n, m = fnp.array([1]), fnp.array([0])
      >>> ft.scipy.special.sph_harm_y(n, m, fnp.array([0.5]), fnp.array([0.0]))
      Array([0.42878905+0.j], dtype=complex64)
    """
    if diff_n is not None:
        raise errors.UnsupportedError("sph_harm_y: diff_n must be None")
    if n_max is None:
        if isinstance(n, Tracer):
            raise errors.ConcretizationTypeError(
                "sph_harm_y: n_max, the greatest degree, must be given for a traced n"
            )
        n_max = int(np.max(np.asarray(n), initial=0))
    most = static_int(n_max, "sph_harm_y: n_max")
    theta, phi = promote_inexact(theta, phi)
    if theta.dtype.itemsize < 4:
        theta, phi = (cast(v, dtypes.float32, v.weak_type) for v in (theta, phi))
    operands = [as_value(n), as_value(m), fnp.atleast_1d(theta), phi]
    return run_fused(_harmonics, operands, most=most)


def _harmonics(n: Any, m: Any, theta: Any, phi: Any, most: int) -> Any:
    n, m, theta, phi = fnp.broadcast_arrays(n, m, theta, phi)
    degree, order = (cast(x, dtypes.int32) for x in (n, fnp.abs(m)))
    orders = np.arange(most + 1.0)[:, None].astype(theta.dtype)
    powers = fnp.abs(fnp.sin(theta)).ravel() ** orders
    table = _legendre(fnp.cos(theta).ravel(), powers, True)
    places = fnp.arange(theta.size).reshape(theta.shape)
    value = table[fnp.minimum(order, most), fnp.minimum(degree, most), places]
    value = choose(order > degree, 0.0, value)
    angle = order * phi
    odd = (fnp.remainder(order, 2) != 0) & (m < 0)
    real, imag = value * fnp.cos(angle), value * fnp.sin(angle)
    imag = choose(m < 0, -imag, imag)
    sign = choose(odd, -1.0, 1.0)
    return bind(p.make_complex, sign * real, sign * imag)


# Associated Legendre functions.


def lpmn(m: int, n: int, z: Value) -> tuple[Any, Any]:
    """Associated Legendre functions Pₙᵐ(z) of all orders and degrees, and their slopes.

    Args:
      m, n: the greatest order and the greatest degree, which must be equal.
      z: real numbers along one axis; beyond ±1 orders from 1 are NaN.

    Returns:
      Values and derivatives of shape (m + 1, n + 1, len(z)), with the phase of Condon
      and Shortley; 0 where the order is greater than the degree.

    Raises:
      ArgumentError: m and n differ.
      ShapeError: z has not one axis.

    Example:
      >>> values, slopes = ft.scipy.special.lpmn(1, 1, fnp.array([0.5]))
      >>> values[..., 0]
      Array([[ 1.       ,  0.5      ],
             [-0.       , -0.8660254]], dtype=float32)
    """
    x, most = _check_legendre("lpmn", m, n, z)
    function = partial(_legendre_on_line, most=most, normal=False)
    return jvp(function, (x,), (fnp.ones_like(x),))


def lpmn_values(m: int, n: int, z: Value, is_normalized: bool) -> Any:
    """The values of `lpmn`.

    Args:
      m, n, z: as of `lpmn`.
      is_normalized: times √((2n + 1)/4π·(n - m)!/(n + m)!), as spherical harmonics are.

    Raises:
      ArgumentError: m and n differ.
      ShapeError: z has not one axis.

    Example:
      >>> x = fnp.array([0.5])
      >>> ft.scipy.special.lpmn_values(1, 1, x, is_normalized=False)[..., 0]
      Array([[ 1.        ,  0.5       ],
             [-0.        , -0.86602545]], dtype=float32)
    """
    x, most = _check_legendre("lpmn_values", m, n, z)
    return _legendre_on_line(x, most, is_normalized)


def _check_legendre(name: str, m: int, n: int, z: Value) -> tuple[Any, int]:
    order, most = static_int(m, f"{name}: m"), static_int(n, f"{name}: n")
    if order != most or most < 0:
        raise errors.ArgumentError(
            f"{name}: m and n must be equal, got {order} and {most}"
        )
    (x,) = promote_inexact(z)
    refuse_complex(name, x)
    if x.ndim != 1:
        raise errors.ShapeError(f"{name}: z must have one axis, got shape {x.shape}")
    return x, most


def _legendre_on_line(z: Any, most: int, normal: bool) -> Any:
    orders = np.arange(most + 1.0)[:, None]
    inside = choose(fnp.abs(z) <= 1, 1 - z * z, math.nan)
    return _legendre(z, inside ** (orders / 2).astype(z.dtype), normal)


def _legendre(z: Any, powers: Any, normal: bool) -> Any:
    """By order, degree and place: degrees climb from the diagonal (DLMF 14.10.3).

    Args:
      z: the cosines of angles.
      powers: of their sines, from 0.
      normal: as spherical harmonics are.
    """
    most = len(powers) - 1
    orders = np.arange(most + 1.0)[:, None]
    ratios = (2 * orders[1:] - 1) / (2 * orders[1:])
    products = np.cumprod(np.concatenate([np.ones((1, 1)), ratios]), axis=0)
    start = (-1) ** orders * np.sqrt((2 * orders + 1) / (4 * math.pi) * products)
    diagonal = start.astype(z.dtype) * powers
    before = here = fnp.zeros_like(diagonal)
    degrees: list[Any] = []
    for k in range(most + 1):
        above = orders < k
        up = np.sqrt((4 * k * k - 1) / np.where(above, k * k - orders**2, np.inf))
        below = np.maximum((k - 1) ** 2 - orders**2, 0)
        down = np.sqrt(below / abs(4 * (k - 1) ** 2 - 1))
        climbed = up.astype(z.dtype) * (z * here - down.astype(z.dtype) * before)
        before, here = here, fnp.where(orders == k, diagonal, climbed)
        degrees.append(here)
        if normal:
            continue
        # (n + m)!/(n - m)!, 0 where m > n
        ways = [math.perm(k + m, 2 * m) or 1 for m in range(most + 1)]
        norms = [math.sqrt((2 * k + 1) / (4 * math.pi * way)) for way in ways]
        degrees[-1] = here / np.array(norms, z.dtype)[:, None]
    return fnp.stack(degrees, axis=1)


# The gamma function of complex numbers.


def complex_log_gamma(z: Any) -> Any:
    """log Γ(z), cut along the negative axis; NaN at its poles.

    Stirling's series to the right of 10, where log Γ(z) = log Γ(z + n) - Σ log(z + k).
    """
    x = z.real
    pole = (x <= 0) & (fnp.floor(x) == x) & (z.imag == 0)
    lost = pole | (z != z) | ~(fnp.abs(x) < math.inf)
    safe = choose(lost, 20.0 + 0 * fnp.ones_like(z), z)

    def shift(n: Any, w: Any, total: Any) -> tuple[Any, ...]:
        return w.real + 1 < 10, w + 1, total + fnp.log(w)

    start = (safe, fnp.zeros_like(safe))
    w, total = converge(shift, start, safe.real < 10, fnp.ones_like(x))
    value = (w - 0.5) * fnp.log(w) - w + 0.5 * math.log(2 * math.pi)
    value = value + gammas.stirling_rest(w) - total
    return choose(lost, complex(math.nan, math.nan), value)


# Numbers of ways.


@gammas.compose
def comb(N: Value, k: Value, *, repetition: bool = False) -> Any:
    """The number of ways to choose k of N things; with repetition: k of N kinds.

    Args:
      N, k: arrays of real numbers that broadcast; integers become floats.
      repetition: a thing may be chosen again.

    Example:
      >>> ft.scipy.special.comb(5.0, 2.0)
      Array(10., dtype=float32, weak_type=True)
    """
    if repetition:
        value = _ways(N + k - 1, k)
        return choose((k == 0) & (N >= 0), 1.0, value)
    return _ways(N, k)


def _ways(n: Any, k: Any) -> Any:
    n, k = fnp.broadcast_arrays(n, k)
    inside = (k >= 0) & (k <= n)
    m, j = choose(inside, n, 0.0), choose(inside, k, 0.0)
    value = fnp.exp(-gammas.log_beta(m - j + 1, j + 1)) / (m + 1)
    whole = (fnp.floor(m) == m) & (fnp.floor(j) == j) & (value < 0.1 / rounding(n))
    nearest = bind(p.stop_gradient, fnp.rint(value) - value)
    value = value + choose(whole, nearest, 0.0)
    return choose(inside, value, 0.0)


def bernoulli(n: int) -> Any:
    """The Bernoulli numbers B₀, …, Bₙ, where B₁ is -1/2.

    Raises:
      ValueRangeError: n is negative.

    Example:
      >>> ft.scipy.special.bernoulli(3)
      Array([ 1.        , -0.5       ,  0.16666667,  0.        ], dtype=float32)
    """
    last = static_int(n, "bernoulli: n", 0)
    numbers = np.zeros(last + 1)
    numbers[:2] = (1.0, -0.5)[: last + 1]
    # |B| = 2·n!·ζ(n)/(2π)ⁿ of even n.
    factor = 2.0
    for k in range(1, last + 1):
        factor *= k / (2 * math.pi)
        if k % 2 == 0:
            zeta = sum(j ** -float(k) for j in range(60, 0, -1)) if k > 8 else 0.0
            exact = {2: 1 / 6, 4: -1 / 30, 6: 1 / 42, 8: -1 / 30}
            numbers[k] = exact.get(k) or factor * zeta * (-1) ** (k // 2 + 1)
    return fnp.asarray(numbers.astype(dtypes.default_dtype("f")))
