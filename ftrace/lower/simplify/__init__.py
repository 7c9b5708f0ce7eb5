"""Rules that make a graph simpler.

From the ground up:

    algebra   Rules on constants, on values without elements, and on reductions;
              identities of arithmetic, comparisons, selects and casts
    indexing  Rules on gathers and scatters, and on comparisons with positions that are
              such
"""
