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

from ftrace.transforms.custom.callbacks import effects_barrier

Names = Mapping[str, Any]


#: Files whose frames libraries leave out of the tracebacks that they write themselves.
#: Messages of ftrace name the user's line, whatever is here.
_excluded: set[str] = {os.path.dirname(os.path.dirname(__file__))}


def _include_frame(frame: FrameType) -> bool:
    return not frame.f_code.co_filename.startswith(tuple(_excluded))


#: Private module -> the public one that has its names, or names by themselves.
MODULES: dict[str, str | Names] = {
    "jax._src": {},
    "jax._src.ad_util": "jax.interpreters.ad",
    "jax._src.api_util": "jax.api_util",
    "jax._src.checkify": "jax.experimental.checkify",
    "jax._src.core": "jax.core",
    "jax._src.dispatch": {"wait_for_tokens": effects_barrier},
    "jax._src.dtypes": "jax.dtypes",
    "jax._src.interpreters": {},
    "jax._src.interpreters.ad": "jax.interpreters.ad",
    "jax._src.traceback_util": {
        "include_frame": _include_frame,
        "register_exclusion": _excluded.add,
    },
    "jax._src.tree_util": "jax.tree_util",
}


def fill(module: ModuleType) -> None:
    """Gives a new module the names of its row."""
    row = MODULES[module.__name__]
    if isinstance(row, str):
        home = import_module(row)
        module.__dict__["__getattr__"] = partial(getattr, home)
    else:
        module.__dict__.update(row)


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
    return (
        f"{module}: what runs in the place of {whose} here is ftrace, which has no "
        f"such module; docs/{page} lists what is missing"
    )
