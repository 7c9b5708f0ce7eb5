"""Flat vectors of containers; optimizers in `optimizers`."""

from functools import partial as _partial

from ftrace.compat.autograd.misc.flatten import flatten as flatten

#: `const_graph(fun, *args)`: calls are not recorded, as programs are kept by ftrace.
const_graph = _partial
