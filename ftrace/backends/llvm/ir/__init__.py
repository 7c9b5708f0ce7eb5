"""LLVM IR while it is written: types, functions, lines.

From the ground up:

    symbols           Names of functions that the code of kernels calls and that stand
                      elsewhere
    function_builder  A small helper to write functions of LLVM IR by hand
    writer            A function of LLVM IR while it is being written, and the types of
                      its values
"""
