"""`jax.ad`: what becomes of cotangents, for `with_refs` of what `vjp` returns."""

from ftrace.transforms.tangents import (
    DidntWant as DidntWant,
    DontWant as DontWant,
    GradRef as GradRef,
    GradValue as GradValue,
)
