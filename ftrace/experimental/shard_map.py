"""`shard_map` where older programs import it from."""

from __future__ import annotations

from typing import Any

from ftrace.transforms import mapped

__all__ = ["shard_map"]


def shard_map(
    f: Any, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Any:
    """`ftrace.shard_map`, whose arguments may be given by their places.

    Args:
      f, mesh, in_specs, out_specs: as there.
      check_rep: `check_vma` there.

    Raises:
      ValueRangeError, ShapeError: as there.
    """
    return mapped.shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep
    )
