"""Operations of elements in LLVM IR, a row for each.

From the ground up:

    casts             Casts in LLVM IR: between dtypes, and the 16-bit floats by
                      integers
    avx512            Instructions of AVX-512 that LLVM has no operation of its own for
    fmod              Remainders of floats, a vector at a time: exact, as C's fmod
    ops               The scalar operations in LLVM IR: a row each; the same rows serve
                      vectors
    straight_line     Expressions of scalars as straight code, each once, given what
                      their loads read
    called_functions  Which functions a kernel calls, and of what they consist
"""
