"""Asks JAX for the values of the expressions of names_cases.py.

    python tests/data/record_names.py

needs JAX, which ftrace and its tests do not: they read the file that this writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import jax.image
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

sys.path.insert(0, str(Path(__file__).parent))

from names_cases import FILE, SECTIONS, expressions, outcome

NAMES = {"jax": jax, "jnp": jnp, "lax": lax, "nn": nn, "image": jax.image}


def main() -> None:
    """Writes names.npz: the values, one after the other as bytes."""
    found = {e: outcome(e, NAMES) for section in SECTIONS for e in expressions(section)}
    index = {e: v if v is None else (v.dtype.name, v.shape) for e, v in found.items()}
    values = b"".join(v.tobytes() for v in found.values() if v is not None)
    np.savez_compressed(
        FILE,
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        values=np.frombuffer(values, np.uint8),
    )


if __name__ == "__main__":
    main()
