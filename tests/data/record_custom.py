"""Asks JAX for the values of the cases of custom_cases.py.

    python tests/data/record_custom.py

needs JAX, which ftrace and its tests do not: they read the file that this writes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.custom_batching
import jax.custom_derivatives
import jax.numpy as jnp
import numpy as np
from jax import lax

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from custom_cases import CASES  # noqa: E402


def main() -> None:
    """Writes custom.npz: an array for each leaf of each case."""
    found: dict[str, np.ndarray] = {}
    for name, case in CASES.items():
        try:
            leaves = jax.tree.leaves(case(jax, jnp, lax))
        except Exception as error:  # say which one, and go on
            sys.stderr.write(f"{name}: {type(error).__name__}: {error}\n"[:600])
            continue
        for i, leaf in enumerate(leaves):
            found[f"{name}.{i}"] = np.asarray(leaf)
    np.savez_compressed(HERE / "custom.npz", **found)


if __name__ == "__main__":
    main()
