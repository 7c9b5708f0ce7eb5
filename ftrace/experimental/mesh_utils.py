"""Devices in the shape of a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.errors import ValueRangeError
from ftrace.ground.missing_names import tell_missing
from ftrace.transforms.device_placement import devices as all_devices

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int], devices: Sequence[Any] | None = None, *,
    contiguous_submeshes: bool = False, allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """An array of devices, as many as the shape has places.

    Args:
      mesh_shape: the shape.
      devices: by default all.
      contiguous_submeshes, allow_split_physical_axes: accepted, without effect: no
        device is nearer to another.

    Raises:
      ValueRangeError: there are more or less devices.
    """
    given = list(all_devices() if devices is None else devices)
    shape = tuple([int(n) for n in mesh_shape])
    if math.prod(shape) != len(given):
        raise ValueRangeError(
            f"create_device_mesh: a mesh of shape {shape} needs {math.prod(shape)} "
            f"devices, got {len(given)}"
        )
    found: Any = np.empty(shape, object)
    found.flat[:] = given
    return found


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int], dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None, *, process_is_granule: bool = False,
    should_sort_granules_by_key: bool = True, allow_split_physical_axes: bool = False,
) -> np.ndarray[Any, Any]:  # fmt: skip
    """`create_device_mesh` of the product of both shapes: there is one process."""
    if math.prod(dcn_mesh_shape) != 1:
        raise ValueRangeError(
            "create_hybrid_device_mesh: there is one process, so dcn_mesh_shape must "
            f"be of ones, got {tuple(dcn_mesh_shape)}"
        )
    pairs = zip(mesh_shape, dcn_mesh_shape, strict=True)
    return create_device_mesh([n * m for n, m in pairs], devices)


tell_missing(__name__)
