"""JAX's `scipy`: special functions, distributions, signals, matrices, minima."""

from ftrace.scipy import (
    fft as fft,
    linalg as linalg,
    ndimage as ndimage,
    optimize as optimize,
    signal as signal,
    special as special,
    stats as stats,
)
