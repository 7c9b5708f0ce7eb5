"""Asks JAX for the values and gradients of the expressions of indexing_cases.py.

    python tests/data/record_indexing.py

needs JAX, which ftrace and its tests do not: they read the file that this writes.
Expressions are evaluated under jit with all arrays traced where JAX can, else eagerly.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, ops

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import indexing_cases as cases  # noqa: E402

NAMES = cases.names(lax, jnp, ops, jax.nn.one_hot)


def function_of(expression: str, free: list[str]) -> Callable[..., Any]:
    fixed = {k: jnp.asarray(v) for k, v in cases.inputs().items()}

    def function(*values: Any) -> Any:
        return eval(expression, NAMES | fixed | dict(zip(free, values, strict=True)))

    return function


def value_of(expression: str) -> np.ndarray:
    free = cases.used(expression)
    arrays = [jnp.asarray(cases.inputs()[name]) for name in free]
    try:
        return np.asarray(jax.jit(function_of(expression, free))(*arrays))
    except jax.errors.JAXTypeError:
        return np.asarray(function_of(expression, [])())


def slopes(expression: str, value: np.ndarray) -> dict[str, np.ndarray]:
    free = cases.varying(expression)
    if not free or value.dtype.kind != "f":
        return {}
    arrays = [jnp.asarray(cases.inputs()[name]) for name in free]
    try:
        _, pull = jax.vjp(function_of(expression, free), *arrays)
    except (NotImplementedError, jax.errors.NonConcreteBooleanIndexError) as error:
        sys.stderr.write(f"no derivative: {expression}: {error}\n"[:200])
        return {}
    found = pull(jnp.asarray(cases.weights(value.shape)))
    pairs = zip(free, found, strict=True)
    return {cases.slope_name(expression, n): np.asarray(s) for n, s in pairs}


def main() -> None:
    """Writes indexing.npz: inputs, values, slopes, one after the other as bytes."""
    warnings.simplefilter("ignore")
    found = dict(cases.inputs())
    for section in cases.SECTIONS:
        for expression in cases.expressions(section):
            try:
                found[expression] = value_of(expression)
            except Exception as error:  # say which one, and go on
                text = f"{expression}: {type(error).__name__}: {error}"
                sys.stderr.write(text[:300] + "\n")
                continue
            found |= slopes(expression, found[expression])
    index = {name: (v.dtype.name, v.shape) for name, v in found.items()}
    values = b"".join(v.tobytes() for v in found.values())
    np.savez_compressed(
        cases.DATA,
        index=np.frombuffer(json.dumps(index).encode(), np.uint8),
        values=np.frombuffer(values, np.uint8),
    )


if __name__ == "__main__":
    main()
