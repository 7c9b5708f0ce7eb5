"""Asks JAX for the values of the expressions of surface_cases.py.

    python tests/data/record_surface.py

needs JAX, which ftrace and its tests do not: they read the file that this writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.scipy.signal
import jax.scipy.special
import jax.scipy.stats.norm
import numpy as np
from jax import lax, nn, ops

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from surface_cases import SECTIONS, expressions, inputs  # noqa: E402

NAMES = {
    "lax": lax,
    "jnp": jnp,
    "nn": nn,
    "ops": ops,
    "np": np,
    "special": jax.scipy.special,
    "norm": jax.scipy.stats.norm,
    "signal": jax.scipy.signal,
}


def main() -> None:
    """Writes surface.npz: the inputs and the values, one after the other as bytes."""
    arrays = inputs()
    scope = NAMES | {name: jnp.asarray(value) for name, value in arrays.items()}
    found = dict(arrays)
    for section in SECTIONS:
        for expression in expressions(section):
            try:
                found[expression] = np.asarray(eval(expression, dict(scope)))
            except Exception as error:  # say which one, and go on
                sys.stderr.write(
                    f"{expression}: {type(error).__name__}: {error}\n"[:300]
                )
    index = {name: (v.dtype.name, v.shape) for name, v in found.items()}
    values = b"".join(v.tobytes() for v in found.values())
    np.savez_compressed(
        HERE / "surface.npz",
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        values=np.frombuffer(values, np.uint8),
    )


if __name__ == "__main__":
    main()
