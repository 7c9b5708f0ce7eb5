"""Sizes that are not known while a function is traced: polynomials of dimensions.

From the ground up:

    polynomial      Polynomials with integer coefficients, as dicts: the arithmetic of
                    `dim.py`
    dim             Dynamic dimensions: sizes that a function is compiled without
                    knowing
    bounds          What lowering asks of sizes, which may be numbers or dynamic
                    dimensions
    symbolic_slice  Slices of axes whose sizes may be dynamic
"""
