"""Contractions in blocks that fit in the caches, by tiles of sums in registers.

From the ground up:

    block_sizes               How large the blocks of a matrix product are: a small
                              model of what they cost
    find                      Contractions: sums of products whose operands each lack an
                              axis of the other
    dot_product_instructions  Products of short numbers by instructions that multiply
                              groups of them
    find_windows              Windows: an axis and a range of a sum that an operand has
                              only together
    microkernel               Tiles of sums in registers: what runs in the innermost
                              loops of a product
    schedule                  How a product runs, as data
    blocked                   Contractions in blocks that fit in the caches
    few_columns               Products with few columns: vectors run along what is
                              summed over
    matmul                    Matrix products: contractions with one axis of rows and
                              one of columns in a block
    unit_blocks               The operands of a unit of a product: where they stand in
                              panels
    emitter                   Carries out the schedule of a product: see `schedule.py`
"""
