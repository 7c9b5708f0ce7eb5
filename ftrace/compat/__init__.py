"""Programs and libraries that were written for others run on ftrace as they are.

primitive, linear_util                    what libraries bring, and what they wrap
jaxpr, lax_primitives, library_view       jaxprs, and JAX's primitives by their names
view         the jaxpr of a graph; of a function
sparsify, hijax, jax/dtypes               names that lower modules offer

These know nothing of the package `ftrace`, which loads them. What follows does:

alias        `install_as_jax`: `import jax` is ftrace from then on; so for autograd
autograd/    programs written for autograd
private      of JAX's private modules what its libraries import
jax/         what has a place in JAX's layout, and none in that of ftrace
jaxlib/      the version that libraries ask for
"""

from ftrace.compat.alias import (
    install_as_autograd as install_as_autograd,
    install_as_jax as install_as_jax,
)

__all__ = ["install_as_autograd", "install_as_jax"]
