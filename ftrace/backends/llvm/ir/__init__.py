"""LLVM IR while it is written: types, functions, lines.

From the ground up:

    function_builder  A small helper to write functions of LLVM IR by hand
    symbols           Names of functions that the code of kernels calls and that stand
                      elsewhere
    types             LLVM's types for our dtypes, scalar or in vectors, and constants
                      of them
    writer            A function of LLVM IR while it is being written
"""
