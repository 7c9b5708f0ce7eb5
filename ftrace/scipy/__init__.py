"""JAX's `scipy`: special functions, distributions, signals, matrices, minima."""

from ftrace.scipy import fft as fft
from ftrace.scipy import linalg as linalg
from ftrace.scipy import ndimage as ndimage
from ftrace.scipy import optimize as optimize
from ftrace.scipy import signal as signal
from ftrace.scipy import special as special
from ftrace.scipy import stats as stats
