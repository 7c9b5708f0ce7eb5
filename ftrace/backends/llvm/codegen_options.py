"""What the CPU decides about the code of a kernel: names for `config.disabled_rules`.

They are known before anything else of this device is loaded.
"""

from __future__ import annotations

#: The figures of the row below them: how many times as fast on one core of an AMD EPYC
#: with AVX-512, float32 but where another dtype is named.
DECISIONS = {
    "piecewise_polynomials": "tanh, erf and erfc are polynomials in pieces (AVX-512)",
    "register_tables": "small tables are held in registers, permuted (AVX-512)",
    # gelu 4M 1.2, black-scholes 1M 1.3, exp of float64 1.3; sin 0.9 to 1.05
    "interleave_vectors": "steps of a long chain are done for several vectors in turn",
    "split_strides": "where every n-th place meets an element, phases are apart",
    "block_for_cache": "sums of products run in blocks that fit into the caches",
    "pack_panels": "blocks of matrices are packed into panels",
    # 4×1024 @ 1024² 1.9, 16×4096 @ 4096² 1.6, 32×1024 @ 1024² 1.1
    "few_rows": "products of few rows go through the sums a few terms at a time",
    "bfloat16_dot_product": "products of bfloat16 are added in pairs",
    "integer_dot_product": "products of small integers are added by fours",
    "few_columns": "vectors of products with few columns run along the sums",
    "direct_convolution_nchw": "windows slide over lines of an image, in a panel once",
    "direct_filter_gradient": "gradients by the filters read each pixel once",
    "direct_convolution_nhwc": "windows of channels side by side slide along rows",
    "register_transpose": "elementwise operands that lie across turn in registers",
    # 300×500 1.6, 3000×1000 and 64×100,000 1.4, 4096² 1.07
    "transpose_results": "where all operands lie across, results are transposed so",
    "unroll_short_axes": "loops over short axes and windows are unrolled",
    "split_index_sets": "loops are split where a position crosses a border",
    # softmax 4096×1000 1.25, 32,768×128 1.1
    "cache_rows": "values of a row stay in the cache for the work after a reduce",
    # softmax 2048² 1.14, 8×2048 @ 2048×8192 1.4, 16×4096 @ 4096² 1.34
    "prefetch": "memory is asked for before it is needed",
    "fuse_multiply_add": "the products in a sum are not rounded",
    "nontemporal_stores": "large results that nobody reads soon bypass the caches",
    "unroll_vectors": "light work is unrolled over several vectors",
    "limit_unrolling": "long work on sums that run seldom is unrolled a few times",
    "register_tiles": "rows and columns of sums are tiles in registers",
    # sums of columns of 2048² 2, of 10,000×1000 1.5, of 300×500 1.1
    "interchange_column_sums": "sums of long columns are added up row by row",
}
