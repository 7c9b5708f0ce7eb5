"""Records what JAX gives for the expressions of `numpy_expressions`, as JSON.

Run by a Python that has jax, in this folder: `python record_numpy.py`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy_expressions import GROUPS, variables

HERE = Path(__file__).parent


def encode(value: Any) -> Any:
    """A result as JSON: arrays with dtype, weakness, shape and values; sequences."""
    if isinstance(value, (tuple, list)):
        return [encode(part) for part in value]
    if isinstance(value, (jax.Array, np.ndarray, np.generic)):
        array = np.asarray(value)
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        values = [[v.real, v.imag] if array.dtype.kind == "c" else v for v in wide.flat]
        return {
            "dtype": array.dtype.name,
            "weak": bool(getattr(value, "weak_type", False)),
            "shape": list(array.shape),
            "values": values,
        }
    if isinstance(value, np.dtype) or hasattr(value, "dtype"):
        return {"name": np.dtype(value).name}
    return {"python": value}


def record(expression: str, names: dict[str, Any]) -> Any:
    try:
        return encode(eval(expression, dict(names)))
    except Exception as error:
        return {"error": [c.__name__ for c in type(error).__mro__]}


def main() -> None:
    warnings.simplefilter("ignore")
    for group, expressions in GROUPS.items():
        names = variables(jax.numpy, jax.jit)
        found = {e: record(e, names) for e in expressions}
        text = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found.items())
        (HERE / f"numpy_{group}.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()
