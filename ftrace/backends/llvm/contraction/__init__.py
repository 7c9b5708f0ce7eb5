"""Contractions in blocks that fit in the caches, by tiles of sums in registers.

From the ground up:

    block_sizes               How large the blocks of a matrix product are: a small
                              model of what they cost
    find                      Contractions: sums of products whose operands each lack an
                              axis of the other
    dot_product_instructions  Products of short numbers by instructions that multiply
                              groups of them
    strategies                Strategies for products: how a contraction runs on a
                              processor
"""
