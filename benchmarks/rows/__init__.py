"""The rows, by family, in the order of the table."""

from benchmarks.rows import (
    attention,
    cold,
    contractions,
    control,
    convolution,
    dispatch,
    elementwise,
    host,
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
    attention.FAMILY,
    convolution.FAMILY,
    indexing.FAMILY,
    training.FAMILY,
    transforms.FAMILY,
    control.FAMILY,
    host.FAMILY,
    dispatch.FAMILY,
    cold.FAMILY,
)
