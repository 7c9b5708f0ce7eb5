"""The rows, by family, in the order of the table."""

from benchmarks.rows import (
    cold,
    contractions,
    convolution,
    dispatch,
    elementwise,
    indexing,
    movement,
    reductions,
    training,
    transforms,
)

FAMILIES = (
    elementwise.FAMILY,
    movement.FAMILY,
    reductions.FAMILY,
    contractions.FAMILY,
    convolution.FAMILY,
    indexing.FAMILY,
    training.FAMILY,
    transforms.FAMILY,
    dispatch.FAMILY,
    cold.FAMILY,
)
