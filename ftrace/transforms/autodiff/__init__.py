"""Derivatives of functions: forwards and backwards.

From the ground up:

    grad      grad, jvp, vjp and the like: JAX's names, arguments and meanings
    jacobian  Jacobians and Hessians: vmap of a derivative over the standard basis
"""
