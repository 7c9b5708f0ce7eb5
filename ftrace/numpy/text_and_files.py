"""Arrays as text, and in files, as NumPy writes and reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

from ftrace import dtypes
from ftrace.numpy.creation import Dtype, asarray

__all__ = [
    "array_repr", "array_str", "fromfile", "fromiter", "fromstring",
    "get_printoptions", "iterable", "load", "printoptions", "save", "savez",
    "set_printoptions",
]  # fmt: skip

# How arrays are printed is a setting of NumPy's, for its arrays and ours.
array_repr = np.array_repr
array_str = np.array_str
get_printoptions = np.get_printoptions
iterable = np.iterable
printoptions = np.printoptions
set_printoptions = np.set_printoptions

save = np.save
savez = np.savez

File = IO[bytes] | str | os.PathLike[Any]


def load(file: File, *args: Any, **kwargs: Any) -> Any:
    """What `save` or `savez` wrote: an array, or NumPy's dictionary of arrays.

    NumPy has no name for bfloat16, and so writes two bytes without a meaning: they are
    read as bfloat16.

    Args:
      file: a file, or its name.
      args, kwargs: those of `numpy.load`.
    """
    found: Any = np.load(file, *args, **kwargs)
    if not hasattr(found, "dtype"):
        return found
    return asarray(found.view(dtypes.bfloat16) if found.dtype == "V2" else found)


def fromfile(
    file: File, dtype: Dtype = float, count: int = -1, sep: str = "", offset: int = 0
) -> Any:
    """The numbers in a file, as bytes or, with a separator, as text.

    It is read now: in a traced function once, when that is traced.
    """
    return asarray(np.fromfile(file, dtypes.as_dtype(dtype), count, sep, offset))


def fromiter(iter: Iterable[Any], dtype: Dtype = float, count: int = -1) -> Any:
    """A vector of what an iterator gives, all of it or `count` elements.

    It is asked now: in a traced function once, when that is traced.
    """
    return asarray(np.fromiter(iter, dtypes.as_dtype(dtype), count))


def fromstring(string: str, dtype: Dtype = float, count: int = -1, *, sep: str) -> Any:
    """The numbers in a text, which a separator divides."""
    return asarray(np.fromstring(string, dtypes.as_dtype(dtype), count, sep=sep))
