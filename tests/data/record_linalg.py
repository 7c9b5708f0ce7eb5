"""Asks JAX for the values of the expressions of linalg_cases.py.

    python -m tests.data.record_linalg

needs JAX, which ftrace and its tests do not: they read the file that this writes.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np

from tests.data.linalg_cases import DATA, SECTIONS, expressions, inputs

jax.config.update("jax_enable_x64", True)
warnings.simplefilter("ignore")


def main() -> None:
    """Writes linalg.npz: the inputs and the values, one after the other as bytes."""
    arrays = inputs()
    scope: dict[str, Any] = {
        "jnp": jnp, "lax": jax.lax, "sl": jax.scipy.linalg, "grad": jax.grad,
        "vmap": jax.vmap, **{name: jnp.asarray(x) for name, x in arrays.items()},
    }  # fmt: skip
    values = list(arrays.values())
    cases: dict[str, Any] = {}
    for section in SECTIONS:
        for expression in expressions(section):
            try:
                found = jax.tree.leaves(eval(expression, dict(scope)))
            except Exception as error:  # JAX refuses, and so must we
                sys.stderr.write(f"{expression}: {type(error).__name__}\n")
                cases[expression] = None
                continue
            parts = [np.asarray(x) for x in found]
            cases[expression] = [(x.dtype.name, x.shape) for x in parts]
            values += parts
    index = {
        "inputs": {name: (x.dtype.name, x.shape) for name, x in arrays.items()},
        "cases": cases,
    }
    np.savez_compressed(
        DATA,
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        values=np.frombuffer(b"".join(x.tobytes() for x in values), np.uint8),
    )


if __name__ == "__main__":
    main()
