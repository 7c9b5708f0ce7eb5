"""The transforms of a program, what executes them, and the values that come out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.lax
import ftrace.nn
import ftrace.numpy
from tests.fuzz.program import SAMPLES, Program, dtype_of, is_float

Library = dict[str, Any]
Function = Callable[..., Any]

#: Names that a program's text uses. Its own names are JAX's in both libraries.
OURS: Library = {"jax": ft, "jnp": ft.numpy, "lax": ft.lax, "nn": ft.nn, "np": np}

TRANSFORMS = ("plain", "vmap", "grad", "vmap(grad)")


def peer_library() -> Library:
    """JAX, told to compile quickly rather than well."""
    warnings.simplefilter("ignore")  # it warns of what it truncates
    flags = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags}"
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_disable_most_optimizations", True)
    return {"jax": jax, "jnp": jax.numpy, "lax": jax.lax, "nn": jax.nn, "np": np}


@contextmanager
def setting(x64: bool | None) -> Iterator[None]:
    with ft.config(enable_x64=x64):
        yield


def function(program: Program, library: Library, noise: Any = None) -> Function:
    """The program as a function of a library."""
    scope = dict(library)
    if noise is not None:
        scope["noise"] = noise
    exec(program.body(noise is not None), scope)
    return scope["f"]


def loss(f: Function, library: Library) -> Function:
    """A real number of what f returns, in which each element has a weight."""
    jnp = library["jnp"]

    def weighted(*args: Any) -> Any:
        total = jnp.zeros((), jnp.float32)
        for value in f(*args):
            dtype = np.dtype(value.dtype)
            if not is_float(dtype):
                continue
            weights = (4 + np.arange(value.size, dtype="f4") % 9) / 8  # sums are exact
            weights = weights.reshape(value.shape)
            value = jnp.real(value) + jnp.imag(value) if dtype.kind == "c" else value
            wide = "f8" if dtype in ("f8", "c16") else "f4"
            total = total + jnp.sum(value.astype(wide) * weights.astype(wide))
        return total

    return weighted


def applies(transform: str, program: Program) -> bool:
    if "vmap" in transform and not any(i.mapped for i in program.inputs):
        return False
    return "grad" not in transform or bool(program.differentiable())


def apply(transform: str, f: Function, program: Program, library: Library) -> Function:
    """The transformed function; it returns a tuple of arrays."""
    jax = library["jax"]
    if "grad" in transform:
        f = jax.grad(loss(f, library), program.differentiable())
    if "vmap" in transform:
        f = jax.vmap(f, in_axes=program.axes())
    return f


def given(transform: str, program: Program) -> list[Any]:
    """The arguments as NumPy's arrays."""
    values = program.batch() if "vmap" in transform else program.arguments()
    return [np.asarray(v) for v in values]


def arguments(transform: str, program: Program, library: Library) -> list[Any]:
    return [library["jnp"].asarray(v) for v in given(transform, program)]


def arrays(results: Any) -> list[Any]:
    return [np.asarray(r) for r in results]


def one_by_one(transform: str, f: Function, program: Program) -> list[Any]:
    """What vmap must give: the results of the single samples, stacked."""
    single = "grad" if "grad" in transform else "plain"
    inner = apply(single, f, program, OURS)
    each = [
        arrays(inner(*map(OURS["jnp"].asarray, program.arguments(n))))
        for n in range(SAMPLES)
    ]
    return [np.stack(values) for values in zip(*each, strict=True)]


def dtype_name(array: Any) -> str:
    return dtype_of(array.dtype.name).name
