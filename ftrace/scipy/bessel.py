"""Modified Bessel functions of the first kind, of orders 0 and 1."""

from __future__ import annotations

from typing import Any

import ftrace.numpy as fnp
from ftrace.numpy.axes import choose
from ftrace.numpy.floats import scaled_i0
from ftrace.trace.fused import run_fused
from ftrace.trace.operations import elementwise
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.tracer import Value

__all__ = ["i0", "i0e", "i1", "i1e"]

# Chebyshev series of exp(-x)·I₁(x)/x in x/4 - 1 on [0, 8], and of sqrt(x)·exp(-x)·I₁(x)
# in 16/x - 1 beyond. Computed with 40 digits by Chebyshev interpolation at 120 nodes.
_I1_NEAR = (
    0.12629359322181683, -0.17641651835783406, 0.1026436586898471,
    -0.052945981208094991, 0.024726449030626517, -0.010564084894626198,
    0.0041564229443128882, -0.0015135724506312531, 0.00051228595616857577,
    -0.00016176081582589675, 4.7815651075500542e-5, -1.3273163656039436e-5,
    3.4702513081376785e-6, -8.5687202646954547e-7, 2.0032947535521353e-7,
    -4.4450591287963281e-8, 9.3815373864957718e-9, -1.8872497517228293e-9,
    3.625590281552117e-10, -6.6634897235020277e-11, 1.1736186298890902e-11,
    -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14,
    7.6006842947354069e-15, -1.1055969477353863e-15, 1.5536319577362005e-16,
    -2.1114212143581661e-17, 2.7779141127610464e-18, -3.5415817725421362e-19,
)  # fmt: skip
_I1_FAR = (
    0.38928811750914006, -0.0097610974913614684, -0.00011058893876262372,
    -3.8825648088776904e-6, -2.5122362378702089e-7, -2.6314688468895195e-8,
    -3.835380385964237e-9, -5.5897434621965838e-10, -1.8974958123505412e-11,
    3.2526035830154882e-11, 1.4125807436613781e-11, 2.0356285441470895e-12,
    -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14,
    4.2724400167119514e-14, 1.0420276984128803e-14, -3.8144030724370078e-15,
    -1.8803547755107824e-15, 3.3082023109209283e-16, 2.9626289976459501e-16,
    -3.209525921993424e-17, -4.6503053684893583e-17, 4.4143483230717079e-18,
    7.5172963108421048e-18,
)  # fmt: skip


def i0(x: Value) -> Any:
    """I₀(x)."""
    return fnp.i0(x)


def i0e(x: Value) -> Any:
    """exp(-|x|)·I₀(x)."""
    return scaled_i0(x)


def i1(x: Value) -> Any:
    """I₁(x)."""
    return i1e(x) * fnp.exp(fnp.abs(x))


def i1e(x: Value) -> Any:
    """exp(-|x|)·I₁(x)."""
    return run_fused(_scaled_i1, [elementwise(p.add, x, 0, inexact=True)])


def _scaled_i1(x: Any) -> Any:
    size = fnp.abs(x)
    small = size < 8
    near = choose(small, size, 8.0)
    far = choose(small, 8.0, size)
    low = _chebyshev(_I1_NEAR, near / 4 - 1) * near
    high = _chebyshev(_I1_FAR, 16 / far - 1) / fnp.sqrt(far)
    return fnp.sign(x) * choose(small, low, high)


def _chebyshev(coefficients: tuple[float, ...], y: Any) -> Any:
    """Clenshaw's recurrence for Σ c_k T_k(y)."""
    newer: Any = 0.0
    older: Any = 0.0
    for c in coefficients[:0:-1]:
        newer, older = 2 * y * newer - older + c, newer
    return y * newer - older + coefficients[0]
