"""Products: contractions in blocks that fit in the caches, by tiles of sums.

contraction     which reduces are products; windows, factors: of their operands
schedule        how a product runs, as data; emitter: carries it out
matrix          products of rows and columns; product: all in blocks
sharing         how large blocks are; register_tiles: how large a tile is
unit_blocks     operands in panels; filling: an expression over a panel
microkernel     the innermost loops
dots            few columns: vectors along the sum; groups: short numbers
"""
