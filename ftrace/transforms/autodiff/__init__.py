"""Derivatives of functions: forwards, backwards, and with less memory.

From the ground up:

    checkpoint  checkpoint: a derivative that computes again instead of remembering
    grad        grad, jvp, vjp and the like: JAX's names, arguments and meanings
    jacobian    Jacobians and Hessians: vmap of a derivative over the standard basis
"""
