"""JAX's `scipy.sparse`: systems whose matrix is known as a function."""

from ftrace.scipy.sparse import linalg as linalg
