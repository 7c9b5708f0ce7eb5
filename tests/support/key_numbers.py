"""Values that may be random keys, as NumPy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace import dtypes, random


def numbers(x: Any) -> np.ndarray[Any, Any]:
    """The words of keys; other values as they are."""
    keys = dtypes.is_key(getattr(x, "dtype", None))
    return np.asarray(random.key_data(x) if keys else x)
