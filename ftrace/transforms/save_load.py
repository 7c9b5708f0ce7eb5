"""Arrays on disk and back: `ft.save` and `ft.load`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace.backends.base import Device, get_device
from ftrace.trace.arrays import array_files
from ftrace.trace.arrays.array import is_array
from ftrace.trace.pytree import tree as trees
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Tracer, concrete
from ftrace.transforms.device_placement import device_put

PathLike = array_files.PathLike


def save(path: PathLike, tree: Any) -> None:
    """Writes a pytree of arrays to a `.safetensors` or `.npz` file: all or nothing.

    Args:
      path: its ending chooses the format.
      tree: dicts with text keys, lists, tuples and None, of arrays and numbers.

    Raises:
      ValueRangeError: the name has another ending.
      TreeError, DtypeError: the tree holds something else; the message says where.
      FileFormatError: the file cannot be written.
    """
    array_files.save(path, trees.map(_as_numpy, tree))


def _as_numpy(value: Any) -> Any:
    if isinstance(value, Tracer):
        return concrete(value)
    return np.asarray(value) if is_array(value) else value


def load(path: PathLike, device: str | Device | None = None) -> Any:
    """Reads a pytree of arrays: what `save` wrote, or another program's arrays by name.

    The file is mapped: on the host's devices an array is read when it is used; to any
    other device it is copied straight from the file.

    Raises:
      FileFormatError: the file is missing, damaged, or of another format.
    """
    found = trees.map(asarray, array_files.load(path))
    return found if get_device(device).host else device_put(found, device)
