"""Reductions of segments: rows that share a number are combined, by scatter."""

from __future__ import annotations

from typing import Any

from ftrace import errors
from ftrace.numpy import axes as ax, logic
from ftrace.numpy.indexing import check_mode, widen
from ftrace.trace.bind import bind
from ftrace.trace.eager.dispatch import publish
from ftrace.trace.eager.function_objects import member
from ftrace.trace.eager.result_memory import place_result
from ftrace.trace.primitives.indexing import scatter_p
from ftrace.trace.primitives.reduction import identity_of
from ftrace.trace.tracing.tracer import Value

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _segments(name: str, kind: str):
    def segments(
        data: Value,
        segment_ids: Value,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
        out_sharding: Any = None,
    ) -> Any:
        """Rows that share a number, combined.

        Args:
          data: (rows, …), or one number that all rows hold.
          segment_ids: the segment of each row; (rows,), or more of the leading axes.
          num_segments: how many segments there are; by default one more than the
            greatest id, which must then be known.
          indices_are_sorted, unique_indices, bucket_size: accepted, without effect.
          mode: what becomes of rows whose id is not from 0 to num_segments - 1: "fill"
            or "drop" (the default) leaves them out, "clip" takes the nearest segment.
            With "promise_in_bounds" there are none; if there are they are left out.
          out_sharding: where the result is, as `device_put` takes it.

        Returns:
          (num_segments, …), of the dtype of the data.

        Raises:
          ShapeError: the ids do not fit the data.
          ConcretizationTypeError: num_segments is not given and the ids are traced.
          ValueRangeError: num_segments is negative, or there is no such mode.
        """
        values, ids = (
            ax.as_value(data),
            ax.integers(segment_ids, f"{name}: segment_ids"),
        )
        if not values.shape:
            values = ax.broadcast_to(values, ids.shape)
        if values.shape[: ids.ndim] != ids.shape:
            raise errors.ShapeError(
                f"{name}: segment_ids of shape {ids.shape} must match the leading axes "
                f"of data of shape {values.shape}"
            )
        count = _count(name, ids, num_segments)
        if check_mode(name, mode) == "clip" and count:
            ids = logic.clip(widen(ids, count), 0, count - 1)
        shape = (count, *values.shape[ids.ndim :])
        start = ax.full(shape, identity_of(kind, values.dtype), values.dtype)
        result = bind(scatter_p, start, values, ids, arg=((0,), kind))
        return place_result(result, out_sharding)

    return segments


@member(_segments, "add")
def segment_sum():
    """The sums of the rows of each segment.

    An empty segment holds 0.

    Example:
      >>> ft.ops.segment_sum(fnp.array([1, 2, 3, 4]), fnp.array([0, 0, 2, 1]), 4)
      Array([3, 4, 3, 0], dtype=int32)
    """


@member(_segments, "mul")
def segment_prod():
    """The products of the rows of each segment.

    An empty segment holds 1.

    Example:
      >>> ft.ops.segment_prod(fnp.array([1, 2, 3, 4]), fnp.array([0, 0, 2, 2]), 3)
      Array([ 2,  1, 12], dtype=int32)
    """


@member(_segments, "max")
def segment_max():
    """The greatest of the rows of each segment.

    An empty segment holds -inf, or the least integer.

    Example:
      >>> ft.ops.segment_max(fnp.array([1.0, 5.0, 3.0]), fnp.array([0, 0, 2]), 3)
      Array([  5., -inf,   3.], dtype=float32)
    """


@member(_segments, "min")
def segment_min():
    """The least of the rows of each segment.

    An empty segment holds inf, or the greatest integer.

    Example:
      >>> ft.ops.segment_min(fnp.array([4, 5, 3]), fnp.array([0, 0, 1]), 2)
      Array([4, 3], dtype=int32)
    """


def _count(name: str, ids: Any, num_segments: int | None) -> int:
    """How many segments there are."""
    if num_segments is not None:
        return ax.check_count(num_segments, f"{name}: num_segments")
    ax.need_known(ids, f"{name}: the number of segments", "give num_segments=n")
    known = ids.__array__()
    return max(int(known.max()) + 1, 0) if known.size else 0


publish(__name__)
