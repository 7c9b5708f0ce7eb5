"""Records what JAX computes for the programs of `control_cases`.

python -m tests.data.record_control
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np

from tests.data.control_cases import CASES

TARGET = Path(__file__).parent / "control.npz"


def main() -> None:
    found: dict[str, np.ndarray] = {}
    for name, function in CASES.items():
        leaves = jax.tree.leaves(function(jax))
        found |= {f"{name}/{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
    np.savez_compressed(TARGET, **found)  # pyright: ignore[reportArgumentType]
    sys.stdout.write(f"{len(CASES)} programs with jax {jax.__version__}\n")


if __name__ == "__main__":
    main()
