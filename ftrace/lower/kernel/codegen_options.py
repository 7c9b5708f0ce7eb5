"""What devices decide about the code of a kernel: names for `config.disabled_rules`."""

from __future__ import annotations

#: The figures: how many times as fast on one core of an AMD EPYC with AVX-512, float32
#: but where another dtype is named.
DECISIONS = {
    "functions_in_pieces": "tanh, erf and erfc look polynomials up in registers",
    "held_tables": "small tables are held in registers, which are permuted",
    # gelu 4M 1.2, black-scholes 1M 1.3, exp of float64 1.3; sin 0.9 to 1.05
    "interleaved_vectors": "steps of a long chain are done for several vectors in turn",
    "in_phases": "where only every n-th place meets an element, remainders are apart",
    "in_blocks": "sums of products are computed in blocks that fit into the caches",
    "in_panels": "blocks of matrices are copied into panels, in the order of the sums",
    # 4×1024 @ 1024² 1.9, 16×4096 @ 4096² 1.6, 32×1024 @ 1024² 1.1
    "few_rows": "products of few rows go through the sums a few terms at a time",
    "bfloat16_pairs": "products of bfloat16 are added two by two, in one instruction",
    "integer_groups": "products of small integers are added four by four, or in pairs",
    "few_columns": "vectors of products with few columns run along the sums",
    "sliding": "windows slide over lines of the image, which stand in a panel once",
    "sliding_sums": "gradients by the filters read each pixel of an image once",
    "sliding_rows": "windows of channels that lie side by side slide along rows",
    "in_squares": "operands that lie across are transposed in squares of registers",
    # 300×500 1.6, 3000×1000 and 64×100,000 1.4, 4096² 1.07
    "transposed_results": "where all operands lie across, results turn by squares",
    "short_axes": "short axes and sums over short windows are written out by steps",
    "cut_at_borders": "loops are cut where a position crosses a border",
    # softmax 4096×1000 1.25, 32,768×128 1.1
    "keep_rows": "values of a row stay in the cache for the work after a reduce",
    # softmax 2048² 1.14, 8×2048 @ 2048×8192 1.4, 16×4096 @ 4096² 1.34
    "prefetch": "memory is asked for before it is needed",
    "unrounded_products": "the products in a sum are not rounded",
    "past_caches": "large results that nobody reads soon are written past the caches",
    "several_vectors": "light work is done for several vectors at once",
    "short_code": "long work on sums that are computed seldom is written a few times",
    "tiles": "rows and columns of sums are computed together, in registers",
    # sums of columns of 2048² 2, of 10,000×1000 1.5, of 300×500 1.1
    "columns_by_rows": "sums of long columns are added up row by row",
}
