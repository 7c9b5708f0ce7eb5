"""Arguments of the rows: the same numbers in every run and for every library."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> Array:
    """Standard normal float32, times `scale`."""
    drawn = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return drawn * np.float32(scale)


def uniform(*shape: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> Array:
    """Uniform float32 in low … high."""
    drawn = np.random.default_rng(seed).random(shape, np.float32)
    return np.float32(low) + drawn * np.float32(high - low)


def integers(*shape: int, high: int, seed: int = 0, dtype: Any = np.int32) -> Array:
    """Uniform integers in 0 … high − 1."""
    return np.random.default_rng(seed).integers(0, high, shape, dtype)


def weights(rows: int, columns: int, seed: int = 0) -> Array:
    """A dense layer's matrix, scaled so that activations keep their size."""
    return normal(rows, columns, seed=seed, scale=(2 / (rows + columns)) ** 0.5)
