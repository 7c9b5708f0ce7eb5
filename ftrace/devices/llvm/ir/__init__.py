"""LLVM IR while it is written: functions, types, and the operations of elements.

writer          a function of IR: blocks, lines, names; blocks: lists of ranges cut
in blocks
types           LLVM's types for our dtypes; numbers: constants that are data
scalar          a row for each operation of elements; casts between dtypes;
remainders of floats; avx512: instructions without an operation
library         functions that kernels call; formulas: which, and of what they
consist; symbols: their names; expressions: straight code
squares         registers with rows and lanes exchanged
"""
