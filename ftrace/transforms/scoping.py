"""Blocks that change how functions are run or shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ftrace import settings


@contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Inside the block jitted functions run operation by operation, in NumPy."""
    with settings.config(disable_jit=disable):
        yield


@contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A block with a name. Origins name the user's lines, so that it changes nothing."""
    yield


def named_call(
    fun: Callable[..., Any] | None = None, *, name: str | None = None
) -> Callable[..., Any]:
    """`fun` under a name; see `named_scope`."""
    if fun is None:
        return lambda f: named_call(f, name=name)
    return fun
