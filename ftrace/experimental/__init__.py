"""What JAX keeps under this name. Modules are imported by their names.

checkify         checks whose failure is a result
sparse           arrays of which only some elements are stored
ode              ordinary differential equations
jet              Taylor mode
rnn              LSTM
layout           how elements lie in memory
mesh_utils       devices in the shape of a mesh
pjit             jit, under the name of older programs
shard_map        shard_map, where older programs import it from
multihost_utils  what processes tell each other: there is one
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from ftrace.ground.missing_names import (
    no_attribute as _no_attribute,
    tell_missing as _tell_missing,
)
from ftrace.transforms.custom.callbacks import io_callback

__all__ = ["io_callback"]

#: What is served as JAX's alone.
_COMPAT = {"MutableArray": "private", "hijax": "hijax"}


def __getattr__(name: str) -> _Any:
    if name not in _COMPAT:
        raise _no_attribute(__name__, name)
    module = _import_module(f"ftrace.compat.{_COMPAT[name]}")
    return getattr(module, name, module)


_tell_missing(__name__, _COMPAT)
