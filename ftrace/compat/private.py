"""Of JAX's private modules what its libraries import, and no more.

A name that is not here is missing: the message says so, and names the library's line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import optree

from ftrace.backends.base import devices_in_use
from ftrace.compat.linear_util import infer_argnums_and_argnames, safe_map, safe_zip
from ftrace.ground.missing_names import explain, reason_of
from ftrace.ground.settings import config
from ftrace.trace.pytree.tree import NAMESPACE, is_registered
from ftrace.trace.references import AbstractRef
from ftrace.transforms.custom.callbacks import effects_barrier

Names = Mapping[str, Any]


class ExtendedDType:
    """The base of dtypes that libraries define: arrays of them are not made."""


class _Registered:
    """The classes of containers of pytrees, as far as `in` asks."""

    def __contains__(self, kind: type) -> bool:
        return is_registered(kind)


def _api_boundary(fun: Any = None, **_: Any) -> Any:
    """The function itself: no frame is hidden."""
    return _api_boundary if fun is None else fun


#: Files whose frames libraries leave out of the tracebacks that they write themselves.
#: Messages of ftrace name the user's line, whatever is here.
_excluded: list[str] = [os.path.dirname(os.path.dirname(__file__))]


def register_exclusion(path: str) -> None:
    """The frames of a file are none of the user's, for libraries that ask."""
    _excluded.append(path)


def _include_frame(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(tuple(_excluded))


#: Private module -> the public one that has its names, or names by themselves, or both.
MODULES: dict[str, str | Names | tuple[str, Names]] = {
    "jax._src": {},
    "jax._src.ad_util": "jax.interpreters.ad",
    "jax._src.api_util": (
        "jax.api_util",
        {"infer_argnums_and_argnames": infer_argnums_and_argnames},
    ),
    "jax._src.checkify": "jax.experimental.checkify",
    # chex names it when it is imported; what chex guards in it is XLA's.
    "jax._src.compiler": {},
    "jax._src.core": "jax.core",
    "jax._src.dispatch": {"wait_for_tokens": effects_barrier},
    "jax._src.dtypes": (
        "jax.dtypes",
        {"DType": np.dtype, "ExtendedDType": ExtendedDType},
    ),
    "jax._src.flatten_util": "jax.flatten_util",
    "jax._src.interpreters": {},
    "jax._src.interpreters.ad": "jax.interpreters.ad",
    "jax._src.public_test_util": "jax.test_util",
    "jax._src.state": {},
    "jax._src.state.types": {"AbstractRef": AbstractRef},
    "jax._src.traceback_util": {
        "_exclude_paths": _excluded,
        "api_boundary": _api_boundary,
        "include_frame": _include_frame,
        "register_exclusion": register_exclusion,
    },
    # flax.nnx names them when it is imported.
    "jax.experimental.hijax": "ftrace.compat.hijax",
    "jax.experimental.compilation_cache": {},
    "jax.experimental.compilation_cache.compilation_cache": {
        "set_cache_dir": partial(config.update, "cache_dir"),
        "reset_cache": partial(config.update, "cache_dir", ""),
    },
    "jax._src.xla_bridge": {"_backends": devices_in_use},
    "jax._src.tree_util": (
        "jax.tree_util",
        {
            "_registry": _Registered(),
            "prefix_errors": partial(optree.prefix_errors, namespace=NAMESPACE),
        },
    ),
    # JAX's page on primitives names them.
    "jax._src.api": "jax",
    "jax._src.lax": {},
    "jax._src.lax.lax": "jax.lax",
    # JAX's page on interpreters of jaxprs names them.
    "jax._src.util": {"safe_map": safe_map, "safe_zip": safe_zip},
}


def fill(module: ModuleType) -> None:
    """Gives a new module the names of its row."""
    row = MODULES[module.__name__]
    if row == {}:  # a package: what is in it is there without an import of its own
        module.__dict__["__getattr__"] = partial(_inner, module.__name__)
    for part in row if isinstance(row, tuple) else (row,):
        if isinstance(part, str):
            module.__dict__["__getattr__"] = partial(getattr, import_module(part))
        else:
            module.__dict__.update(part)


def _inner(package: str, name: str) -> ModuleType:
    if f"{package}.{name}" in MODULES:
        return import_module(f"{package}.{name}")
    raise AttributeError(missing(f"{package}.{name}"), name=name)


def missing(module: str) -> str:
    """What is said of a module that is not there."""
    if module.startswith("jax._src"):
        return (
            f"{module} is private to JAX; what runs in the place of JAX here is "
            "ftrace, which has its public modules and the few private names that "
            "known libraries use"
        )
    whose, page = (
        ("autograd", "from-autograd.md")
        if module.startswith("autograd")
        else ("JAX", "coming-from-jax.md")
    )
    if any(reason_of(inside := module.removeprefix("jax."))[1:]):
        return explain(inside)
    return (
        f"{module}: what runs in the place of {whose} here is ftrace, which has no "
        f"such module; docs/{page} lists what is missing"
    )
