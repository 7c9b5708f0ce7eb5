"""JAX's `scipy`: special functions, distributions, signals."""

from ftrace.scipy import signal as signal
from ftrace.scipy import special as special
from ftrace.scipy import stats as stats
