"""Nested containers of numbers as one vector."""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

from ftrace.compat.autograd import numpy as np
from ftrace.compat.autograd.core import to_numpy
from ftrace.trace.pytree import tree


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    """(a vector of all numbers in tuples, lists and dicts, the way back)."""
    leaves, structure = tree.flatten(value)
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = onp.cumsum([int(onp.prod(shape)) for shape in shapes])

    def unflatten(vector: Any) -> Any:
        parts = np.split(vector, ends[:-1]) if leaves else []
        shaped = [np.reshape(x, s) for x, s in zip(parts, shapes, strict=True)]
        return tree.unflatten(
            structure, [to_numpy(x) if np.ndim(x) else x[()] for x in shaped]
        )

    flat = np.concatenate([np.ravel(x) for x in leaves]) if leaves else onp.zeros(0)
    return flat, unflatten


def flatten_func(func: Callable[..., Any], example: Any) -> tuple[Any, ...]:
    """(`func` of a vector, with a vector as its value; `unflatten`; the example)."""
    flat, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, flat
