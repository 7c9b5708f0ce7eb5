"""`jax.errors`: those of `ftrace.errors`, and that of a program which fails."""

from __future__ import annotations

from typing import Any

from ftrace import errors
from ftrace.compat.callbacks import JaxRuntimeError as JaxRuntimeError


def __getattr__(name: str) -> Any:
    return getattr(errors, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(errors)})
