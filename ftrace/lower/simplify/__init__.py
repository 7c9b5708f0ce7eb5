"""Rules that make a graph smaller.

From the ground up:

    expand_linalg      Operations of linear algebra that are others, put together
    fold_constants     Rules on constants and on values without elements
    identities         Identities of arithmetic, truth values, bits, comparisons,
                       selects and casts, for every value
    one_hot_to_gather  Rules on comparisons with positions: sums that pick one element
                       become indexed loads
    reductions         Rules on reductions: fewer and smaller ones
    scatter            Rules on gathers and scatters: those that are something else, and
                       those in parts
"""
