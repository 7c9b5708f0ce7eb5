"""Operations of elements in LLVM IR, a row for each.

From the ground up:

    instructions  Instructions of LLVM IR for a target, of which operations of elements
                  are made
    avx512        Instructions of AVX-512 that LLVM has no operation of its own for
    ops           The scalar operations in LLVM IR: a row of `OPERATIONS` each, also for
                  vectors
"""
