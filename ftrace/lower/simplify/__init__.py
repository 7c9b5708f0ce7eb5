"""Rules that make a graph smaller.

From the ground up:

    expand_linalg   Operations of linear algebra that are others, put together
    fold_constants  Rules on constants and on values without elements
    identities      Identities of arithmetic, truth values, bits, comparisons, selects
                    and casts, for every value
    indexing        Rules on gathers and scatters, and on comparisons with positions
                    that are such
    reductions      Rules on reductions: fewer and smaller ones
"""
