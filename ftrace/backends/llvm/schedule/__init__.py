"""How the loops of a kernel run: tiles, vectors, units. No LLVM IR is written.

From the ground up:

    index_facts         What is known of a kernel's index arithmetic before it runs
    cache_row_values    Values of a row, cached from a reduce for the work after it
    known_positions     Kernels in which the answers to questions of position are
                        known
    loop_tiling         How the loops of a kernel run, as a value, and the tiles
                        that follow from it
    layout              Ranges cut in blocks, windows, and what stands in memory of
                        a block
    schedule_tree       How a kernel runs: a tree of statements
    nontemporal_stores  Which results of a kernel have non-temporal stores, past the
                        caches
    prefetch            Memory that is asked for before it is needed
    fill                How an operand is put into memory of a block: along which
                        range, and from how far
    transposed_access   Elementwise kernels that read some operands the other way
                        round
    vector_cost         What a kernel costs in vectors along one range or another,
                        in vector instructions
    choose_tiling       How each loop of a kernel runs: one by one, unrolled, or in
                        the lanes of a vector
"""
