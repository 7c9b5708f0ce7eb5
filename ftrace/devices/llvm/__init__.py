"""The CPU: kernels as vector code of this machine, and a program as one native call.

The device and what it decides for a kernel:

    device       the CPU; tune, progress: schedules tried on the machine itself
    target       the processor; machine, cores: which one this is, and how many
    rendering    legal operations, then the writer: render, recurrence, running, …
    tiling       vectors, copies and units of each loop: tiles, vector_costs
    facts        what is known of index arithmetic; numbers, windows, work

A kernel as LLVM IR:

    writer       a function of IR; types, scalar, casts, avx512, remainders
    nest         loops, axes, reduces, stores; ranges, blocks, accumulators, phases,
                 pieces, polling
    values       expressions in registers; access, elements, expressions: what they read
    library      functions that are called: formulas, symbols, held_tables
    memory on the way: ahead, streaming, staging, scratch, scratch_text, filling,
        keeping

Loops of some forms:

    rows and columns     columns, turned, backwards, abreast, short_axes, short_reduces,
                         squares
    products             contraction, matrix, product, strips, sharing, microkernel,
                         register_tiles, next_rows, dots, groups, factors
    convolutions         sliding, sliding_plan; rows: sliding_rows, sliding_rows_plan;
                         padding, sliding_across, sliding_groups; gradients:
                         sliding_sums, sliding_dots
    running reductions   running, running_columns, running_lines
    loops in registers   recurrence, variation, lane_memory, while_writer
    Fourier transforms   fourier, fourier_steps, fourier_sides, fourier_real,
                         fourier_turns, fourier_waves, fourier_tables
    sorting              ordering, sorting, ordering_keys, ordering_networks,
                         ordering_places, ordering_text
    linear algebra       factorise, small_factors, decompositions, routines, blas

Code, programs and calls:

    compile      IR to object code to addresses; cache, loader, modules
    kernels      machine code of kernels; made: that on disk; wholes: whole programs
    runtime      the pool of threads (pool, seats) and the runner of programs: `runner`
    tables       programs as the runner reads them; host: what they call in Python
    memory       warm buffers
    calling      calls in native code, of jitted functions and eager ones
"""
