"""Rows of rules on movement alone: chains of it, and its order."""

from __future__ import annotations

from ftrace.trace.primitives import elementwise as e, movement as m
from tests.support.rule_sample import (
    Row,
    V,
    cube,
    expand,
    pad,
    permute,
    reshape,
    row,
    shrink,
    stride,
    x,
)

CHAINS = {
    "fold_permute_of_ones": Row(
        lambda: [permute(row, 1, 0), permute(V(2, 1, 3), 1, 0, 2)],
        lambda: permute(V(2, 1, 3), 2, 1, 0),
    ),
    "merge_reshapes": Row(
        lambda: reshape(reshape(x, 24), 2, 12), lambda: reshape(permute(x, 1, 0), 24)
    ),
    "merge_expands": Row(
        lambda: expand(expand(V(1, 1), 4, 1), 4, 6),
        lambda: expand(reshape(V(4), 4, 1), 4, 6),
    ),
    "merge_permutes": Row(
        lambda: permute(permute(cube, 1, 2, 0), 2, 1, 0),
        lambda: permute(reshape(permute(cube, 1, 0, 2), 6, 4), 1, 0),
    ),
    "merge_pads": Row(
        lambda: [
            pad(pad(V(3), (1, 2, 1)), (0, 1, 2)),
            pad(pad(row, (1, 0, 3), (0, 1, 0)), (0, 0, 1), (2, 0, 2)),
        ],
        lambda: pad(e.exp(pad(V(3), (1, 0, 0))), (1, 0, 0)),
    ),
    "merge_shrinks": Row(
        lambda: shrink(shrink(x, (1, 4), (0, 6)), (1, 2), (3, 5)),
        lambda: shrink(shrink(x, (1, 1), (0, 6)), (0, 0), (3, 5)),
    ),
    "merge_strides": Row(
        lambda: [
            stride(stride(V(11), a), b) for a in (2, 3, -2, -3) for b in (2, -1, -2, 3)
        ],
        lambda: stride(shrink(stride(V(11), 2), (0, 4)), 2),
    ),
    "merge_shrink_of_pad": Row(
        lambda: [
            shrink(pad(V(3), (2, 1, g)), (lo, hi))
            for g in (0, 1, 2)
            for lo in (0, 1, 3)
            for hi in (3, 4, 6)
            if lo < hi
        ],
        lambda: shrink(m.reshape(pad(V(3), (2, 1, 0)), (2, 3)), (0, 1), (0, 2)),
    ),
}

EXCHANGES = {
    "shrink_before_stride": Row(
        lambda: [
            shrink(stride(V(11), s), (lo, hi))
            for s in (2, -1, -3)
            for lo, hi in ((0, 2), (1, 3), (2, 3))
        ],
        lambda: shrink(stride(V(11), 2), (2, 2)),
    ),
    "shrink_before_permute": Row(
        lambda: shrink(permute(cube, 2, 0, 1), (1, 3), (0, 1), (0, 3)),
        lambda: permute(shrink(cube, (1, 2), (0, 1), (0, 3)), 2, 0, 1),
    ),
    "shrink_before_reshape": Row(
        lambda: [
            shrink(reshape(cube, 2, 12), (1, 2), (0, 12)),
            shrink(reshape(V(24), 2, 3, 4), (1, 2), (0, 3), (0, 4)),
            shrink(reshape(x, 4, 1, 6), (1, 2), (0, 1), (3, 5)),
        ],
        lambda: [
            shrink(reshape(cube, 6, 4), (1, 3), (0, 4)),
            shrink(reshape(V(24), 6, 4), (0, 6), (0, 2)),
        ],
    ),
    "shrink_before_expand": Row(
        lambda: shrink(expand(row, 4, 6), (1, 3), (2, 5)),
        lambda: expand(shrink(row, (0, 1), (2, 5)), 4, 3),
    ),
    "stride_before_permute": Row(
        lambda: stride(permute(cube, 2, 0, 1), -1, 2, 1),
        lambda: permute(stride(cube, 2, 1, -1), 2, 0, 1),
    ),
    "permute_before_reshape": Row(
        lambda: [
            permute(reshape(x, 2, 2, 6), 2, 0, 1),
            permute(reshape(x, 1, 4, 6), 2, 0, 1),
            permute(reshape(V(2, 3, 4), 6, 4), 1, 0),
        ],
        lambda: permute(reshape(x, 2, 2, 6), 1, 0, 2),
    ),
    "permute_before_pad": Row(
        lambda: permute(pad(x, (1, 0, 0), (0, 0, 2)), 1, 0),
        lambda: pad(permute(x, 1, 0), (0, 0, 2), (1, 0, 0)),
    ),
    "permute_before_expand": Row(
        lambda: permute(expand(row, 4, 6), 1, 0),
        lambda: expand(permute(row, 1, 0), 6, 4),
    ),
    "reshape_before_pad": Row(
        lambda: reshape(pad(cube, (0, 0, 0), (0, 0, 0), (1, 2, 0)), 6, 1, 7),
        lambda: reshape(pad(cube, (0, 0, 0), (0, 0, 0), (1, 1, 0)), 2, 18),
    ),
    "reshape_before_expand": Row(
        lambda: [
            reshape(expand(row, 4, 6), 2, 2, 3, 2),
            reshape(expand(V(1, 1, 6), 2, 3, 6), 6, 6),
        ],
        lambda: reshape(expand(row, 4, 6), 24),
    ),
    "pad_before_expand": Row(
        lambda: pad(expand(row, 4, 6), (0, 0, 0), (1, 2, 1)),
        lambda: pad(expand(row, 4, 6), (0, 1, 0), (1, 2, 1)),
    ),
}
