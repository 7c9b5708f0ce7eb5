"""`jax`: the names of `ftrace`, with those that are JAX's own.

version     of the JAX whose names are served
core        tracers, and the state of tracing
lib         the version of jaxlib
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

import ftrace
from ftrace.backends.base import Device as Device
from ftrace.compat.alias import home_of
from ftrace.compat.jax.version import (
    __version__ as __version__,
    __version_info__ as __version_info__,
)
from ftrace.compat.private import MODULES
from ftrace.errors import FtraceError, JaxRuntimeError
from ftrace.ground.missing_names import names_of_jax, no_attribute


# What its function raises is a JaxRuntimeError.
@wraps(ftrace.pure_callback)
def pure_callback(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    known = _raise_as_jax(callback) if callable(callback) else callback
    return ftrace.pure_callback(known, *args, **kwargs)


def _raise_as_jax(callback: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(callback)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return callback(*args, **kwargs)
        except (FtraceError, JaxRuntimeError):
            raise
        except Exception as error:
            raise JaxRuntimeError(f"{type(error).__name__}: {error}") from error

    return call


def __getattr__(name: str) -> Any:
    if f"jax.{name}" in MODULES:
        return import_module(f"jax.{name}")
    home = None if name.startswith("__") else home_of(f"jax.{name}")
    try:
        own = home is not None and home.startswith(__name__)
        found = import_module(home) if home and own else getattr(ftrace, name)
    except AttributeError:
        if home is None:
            raise no_attribute(__name__, name) from None
        found = import_module(home)
    globals()[name] = found  # whose home is looked for in folders
    return found


def __dir__() -> list[str]:
    return sorted({*dir(ftrace), *(globals().keys() & {*names_of_jax()[""]})})
