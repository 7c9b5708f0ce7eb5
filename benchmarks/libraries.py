"""The libraries that are compared, each behind the same few names."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import ftrace
from benchmarks.options import THREADS


class MissingPeerError(Exception):
    """A library that was asked for is not installed."""


@dataclass(frozen=True)
class Api:
    """What ftrace and JAX have in common: a row written with it serves both."""

    np: Any
    lax: Any
    nn: Any
    random: Any
    tree: Any
    jit: Any
    grad: Any
    value_and_grad: Any
    vmap: Any
    jvp: Any
    vjp: Any
    hessian: Any

    @classmethod
    def of(cls, module: Any) -> Api:
        return cls(
            module.numpy, module.lax, module.nn, module.random, module.tree,
            module.jit, module.grad, module.value_and_grad, module.vmap,
            module.jvp, module.vjp, module.hessian,
        )  # fmt: skip


@dataclass(frozen=True)
class Library:
    """One library.

    Attributes:
      api: what a row's builder is given: an `Api`, or the module of torch or NumPy.
      jit: compiles a function; None where there is nothing of the kind.
      put: a NumPy array as an array of this library.
      get: the inverse.
      wait: waits until a result, an array or a tree, has been computed.
      session: entered while a row of this library is prepared or timed.
      written_as: the library in whose names a row is written; None for its own.
    """

    name: str
    version: str
    api: Any
    jit: Callable[..., Any] | None
    put: Callable[[Any], Any]
    get: Callable[[Any], Any]
    wait: Callable[[Any], Any]
    session: Callable[[], AbstractContextManager[Any]] = nullcontext
    written_as: str | None = None

    @property
    def dialect(self) -> str:
        return self.written_as or self.name

    def arguments(self, inputs: Any) -> Any:
        """A tree of NumPy arrays as this library's arrays."""
        return map_tree(self.put, inputs)


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """The tree with every leaf replaced; dicts, lists, tuples and None."""
    if tree is None:
        return None
    if isinstance(tree, dict):
        return {key: map_tree(function, value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(map_tree(function, value) for value in tree)
    return function(tree)


def leaves(tree: Any) -> Iterator[Any]:
    """The leaves of a tree; those of a dict in the order of its sorted keys."""
    if isinstance(tree, dict):
        for key in sorted(tree):
            yield from leaves(tree[key])
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from leaves(value)
    elif tree is not None:
        yield tree


def load_library(name: str, device: str = "cpu") -> Library:
    """A library by name.

    Args:
      name: "ftrace", "jax", "torch", "inductor" or "numpy".
      device: where ftrace runs; the peers always use the CPU.

    Raises:
      MissingPeerError: it is not installed in this environment.
      DeviceError: ftrace cannot use this device here.
    """
    try:
        return _LOADERS[name](device)
    except ImportError as error:
        raise MissingPeerError(
            f"the peer {name!r} cannot be imported in this environment ({error}); "
            f"leave out --peer {name}, or run the benchmarks with a Python that has it"
        ) from error


def _load_ftrace(device: str) -> Library:
    chosen = ftrace.devices(device)[0]

    @contextmanager
    def session() -> Iterator[None]:
        with ftrace.config(device=chosen.name, threads=THREADS):
            yield

    return Library(
        "ftrace",
        f"{ftrace.__version__} on {chosen.name}",
        Api.of(ftrace),
        ftrace.jit,
        lambda x: ftrace.device_put(x, chosen),
        np.asarray,
        _waiter(ftrace.block_until_ready),
        session,
    )


def _load_jax(_: str) -> Library:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = importlib.import_module("jax")
    for part in ("numpy", "lax", "nn", "random", "tree"):
        importlib.import_module(f"jax.{part}")
    wait = _waiter(jax.block_until_ready)
    return Library(
        "jax", jax.__version__, Api.of(jax), jax.jit, jax.device_put, np.asarray, wait
    )


def _load_torch(_: str) -> Library:
    torch: Any = importlib.import_module("torch")

    @contextmanager
    def session() -> Iterator[None]:
        torch.set_num_threads(THREADS)
        with torch.no_grad():
            yield

    return Library(
        "torch",
        f"{torch.__version__} eager",
        torch,
        None,
        lambda x: torch.from_numpy(np.array(x)),
        lambda x: x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x),
        _no_wait,
        session,
    )


def _load_inductor(device: str) -> Library:
    """torch again, with every function compiled by torch.compile."""
    # Processes that compile beside the measured one would disturb it.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    eager = _load_torch(device)
    torch = eager.api

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        torch.compiler.reset()  # the limit of recompilations is one for all rows
        torch._dynamo.config.recompile_limit = 64
        return torch.compile(function, dynamic=False)

    return replace(
        eager,
        name="inductor",
        version=f"torch.compile of {torch.__version__}",
        jit=compiled,
        written_as="torch",
    )


def _load_numpy(_: str) -> Library:
    return Library("numpy", np.__version__, np, None, np.array, np.asarray, _no_wait)


_LOADERS: dict[str, Callable[[str], Library]] = {
    "ftrace": _load_ftrace,
    "jax": _load_jax,
    "torch": _load_torch,
    "inductor": _load_inductor,
    "numpy": _load_numpy,
}


def _no_wait(result: Any) -> Any:
    return result


def _waiter(wait_for_tree: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Waits by the array's own method where the result is one array: it is quicker."""

    def wait(result: Any) -> Any:
        method = getattr(result, "block_until_ready", None)
        return wait_for_tree(result) if method is None else method()

    return wait
