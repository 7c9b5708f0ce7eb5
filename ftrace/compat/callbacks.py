"""Callbacks, whose exceptions are JAX's where a compiled program has called them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import ftrace
from ftrace.errors import FtraceError, JaxRuntimeError


def _reported(callback: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(callback)
    def reported(*args: Any, **kwargs: Any) -> Any:
        try:
            return callback(*args, **kwargs)
        except (FtraceError, JaxRuntimeError):
            raise
        except Exception as error:
            raise JaxRuntimeError(f"{type(error).__name__}: {error}") from error

    return reported


def _reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that takes a callback first; what that raises is a JaxRuntimeError."""

    @wraps(function)
    def call(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        known = _reported(callback) if callable(callback) else callback
        return function(known, *args, **kwargs)

    return call


pure_callback = _reporting(ftrace.pure_callback)
io_callback = _reporting(ftrace.io_callback)
