"""What the array API standard asks of a namespace beside its functions.

    xp = x.__array_namespace__()
    xp.__array_namespace_info__().default_dtypes()

Source: data-apis.org/array-api, version 2024.12. Differences: docs/array-api.md.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ftrace import dtypes, errors
from ftrace.ground import settings
from ftrace.trace.arrays.array import surface

#: The version of the standard that the namespace follows.
VERSION = "2024.12"
#: The versions that a program may ask for: each contains those before it.
VERSIONS = ("2021.12", "2022.12", "2023.12", VERSION)

#: NumPy's arrays have no more axes.
_MAX_DIMENSIONS = 64

#: The dtypes of the standard; there are others, such as bfloat16.
_NAMED = {
    dtypes.name_of(dtype): dtype
    for dtype in dtypes.ALL
    if dtype not in (dtypes.float16, dtypes.bfloat16)
}


class NamespaceInfo:
    """What this namespace can do; its methods answer.

    In JAX's modes, with `jax_enable_x64` on or off, the answers are those of the mode.
    """

    def capabilities(self) -> dict[str, Any]:
        """Masks index arrays, sizes may depend on values; both outside of `jit`."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _MAX_DIMENSIONS,
        }

    def devices(self) -> list[Any]:
        """The devices that arrays can be made on: those of `ftrace.devices()`."""
        return surface["devices"]()

    def default_device(self) -> Any:
        """The device of arrays that are made without one."""
        return self.devices()[0]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays that are made without one, by kind."""
        integer = dtypes.default_dtype("i")
        return {
            "real floating": dtypes.default_dtype("f"),
            "complex floating": dtypes.default_dtype("c"),
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(
        self, *, device: Any = None, kind: Any = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes, of one kind or of several: see `isdtype`."""
        narrow = settings.current().enable_x64 is False
        return {
            name: dtype
            for name, dtype in _NAMED.items()
            if not (narrow and dtypes.canonicalize(dtype) != dtype)
            and (kind is None or surface["isdtype"](dtype, kind))
        }


def array_namespace(*, api_version: str | None = None) -> Any:
    """`ftrace.numpy`, which `x.__array_namespace__()` gives.

    Raises:
      ValueRangeError: it does not follow that version of the standard.
    """
    if api_version is not None:
        errors.one_of("__array_namespace__: api_version", api_version, VERSIONS)
    return sys.modules["ftrace.numpy"]


surface["array_namespace"] = array_namespace
