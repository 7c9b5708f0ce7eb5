"""JAX's `scipy.cluster`."""

from ftrace.scipy.cluster import vq as vq
