"""Blocks that change how functions are run or shown."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ftrace.ground import settings


@contextmanager
def disable_jit(disable: bool = True) -> Generator[None, None, None]:
    """Inside the block jitted functions run operation by operation, in NumPy."""
    with settings.config(disable_jit=disable):
        yield


@contextmanager
def named_scope(name: str) -> Generator[None, None, None]:
    """A block with a name. It changes nothing: origins name the user's lines."""
    yield


def named_call(
    fun: Callable[..., Any] | None = None, *, name: str | None = None
) -> Callable[..., Any]:
    """`fun` under a name; see `named_scope`."""
    if fun is None:
        return partial(named_call, name=name)
    return fun
