"""Functions of functions, and functions that numbers stand for.

functional   Functions of slices, of elements and of places: vectorize, piecewise
ufuncs       Functions of elements as objects: add.reduce, add.outer
curves       Functions given by numbers: convolution, interpolation, polynomials
"""
