"""Sparse arrays, of which only some elements are stored.

bcoo      the array, and its layouts
movement  its axes
products  products, sums, indexing; operators
compressed  COO, CSR, CSC and BCSR: other ways to write indices; arrays that are made,
            and derivatives with respect to sparse ones
linalg    lobpcg_standard, spsolve; imported by its name
"""

# ruff: noqa: F403

from importlib import import_module as _import_module
from typing import Any as _Any

from ftrace.experimental.sparse.bcoo import *
from ftrace.experimental.sparse.compressed import *
from ftrace.experimental.sparse.movement import *
from ftrace.experimental.sparse.products import *
from ftrace.ground.missing_names import no_attribute as _no_attribute

#: JAX's modules that are not loaded, or have another name.
_MODULES = {"linalg": "linalg", **dict.fromkeys(("bcsr", "coo", "csr"), "compressed")}


def __getattr__(name: str) -> _Any:
    if name == "sparsify":  # which stands above: it reads jaxprs
        return _import_module("ftrace.compat.sparsify").sparsify
    if name in _MODULES:
        return _import_module(f"{__name__}.{_MODULES[name]}")
    raise _no_attribute(__name__, name)
