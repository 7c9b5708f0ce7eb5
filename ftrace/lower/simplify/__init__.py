"""Rules that make a graph simpler.

All but `PRIVATIZED` in `indexing`, which makes a graph larger, so that threads can
share a scatter: it belongs to the stage `split`.

From the ground up:

    algebra   Rules on constants, on values without elements, and on reductions;
              identities of arithmetic, comparisons, selects and casts
    indexing  Rules on gathers and scatters, and on comparisons with positions that are
              such
"""
