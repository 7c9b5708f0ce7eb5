"""JAX's `scipy.spatial`: rotations."""

from ftrace.scipy.spatial import transform as transform
