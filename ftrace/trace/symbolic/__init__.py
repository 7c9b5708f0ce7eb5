"""Sizes that are not known while a function is traced: polynomials of dimensions.

From the ground up:

    dim     Dynamic dimensions: sizes that a function is compiled without knowing, as
            polynomials
    bounds  What is asked of sizes, which may be numbers or dynamic dimensions; slices
"""
