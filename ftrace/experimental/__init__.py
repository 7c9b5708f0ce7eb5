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

from ftrace.ground.missing_names import tell_missing as _tell_missing
from ftrace.trace.references import AbstractRef as _AbstractRef
from ftrace.transforms.custom.callbacks import io_callback

__all__ = ["io_callback"]

MutableArray = _AbstractRef

__getattr__ = _tell_missing(__name__, ("MutableArray",))
