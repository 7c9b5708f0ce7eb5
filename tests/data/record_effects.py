"""Records what JAX prints and calls back.

    python -m tests.data.record_effects

Order is compared where JAX promises one: everywhere but under vmap.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from tests.data.effects_cases import FORMATS, PROGRAMS, WAYS

TARGET = Path(__file__).parent / "effects.json"


def printed(fmt: str, args: Any, kwargs: Any) -> str:
    leaves, treedef = jax.tree.flatten((args, kwargs))
    numeric = [i for i, leaf in enumerate(leaves) if not isinstance(leaf, str)]

    def call(*values: Any) -> None:
        full = list(leaves)
        for i, value in zip(numeric, values, strict=True):
            full[i] = value
        given, named = jax.tree.unflatten(treedef, full)
        jax.debug.print(fmt, *given, **named)

    with contextlib.redirect_stdout(io.StringIO()) as out:
        jax.jit(call)(*[leaves[i] for i in numeric])
        jax.effects_barrier()
    return out.getvalue()


def events(way: str, name: str) -> list[Any] | None:
    found: list[Any] = []

    def keep(*args: Any, what: str) -> None:
        found.append([what, *(np.asarray(a).tolist() for a in args)])

    def note(what: str, *args: Any) -> None:
        ordered = "vmap" not in way
        jax.debug.callback(keep, *args, what=what, ordered=ordered)

    M = SimpleNamespace(
        jit=jax.jit, grad=jax.grad, vmap=jax.vmap, lax=jax.lax, numpy=jax.numpy,
        note=note,
    )  # fmt: skip
    try:
        WAYS[way](M, lambda a: PROGRAMS[name](M, a))
    except (ValueError, NotImplementedError) as error:  # what JAX refuses
        sys.stderr.write(f"{way} {name}: {error}\n"[:200])
        return None
    jax.effects_barrier()
    return found


def main() -> None:
    recorded = {
        "formats": [printed(*case) for case in FORMATS],
        "events": {
            f"{way}/{name}": events(way, name) for way in WAYS for name in PROGRAMS
        },
    }
    lines = [
        f'"formats": {json.dumps(recorded["formats"])}',
        *(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in recorded["events"].items()),
    ]
    TARGET.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
