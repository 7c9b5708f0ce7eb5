"""Memory that is shared with other libraries: JAX's `dlpack`."""

from __future__ import annotations

from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError
from ftrace.ground.missing_names import tell_missing
from ftrace.numpy import from_dlpack as share

__all__ = ["from_dlpack", "is_supported_dtype"]


def from_dlpack(
    external_array: Any, device: Any = None, copy: bool | None = None
) -> Any:
    """An array that shares the memory of any array with `__dlpack__`.

    Args:
      external_array: an array of any library.
      device: where to, as `device_put` takes it.
      copy: True copies it.

    Raises:
      ArgumentError: it has no `__dlpack__`, as traced arrays have none.

    Example:
      >>> ft.dlpack.from_dlpack(np.arange(3, dtype=np.int32))
      Array([0, 1, 2], dtype=int32)
    """
    return share(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Can arrays of this dtype be shared? NumPy, which does it, has no bfloat16.

    Raises:
      ArgumentError: `dtype` is None.
    """
    if dtype is None:
        raise ArgumentError("is_supported_dtype takes a dtype, got None")
    try:
        return dtypes.named_dtype(dtype) in {*dtypes.ALL} - {dtypes.bfloat16}
    except DtypeError:
        return False


tell_missing(__name__)
