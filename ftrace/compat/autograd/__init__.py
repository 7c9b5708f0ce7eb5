"""autograd's programs: plain NumPy of float64, and ftrace where derivatives are taken.

    core                     `make_vjp`, `make_jvp`, functions with rules, spaces
    differential_operators   `grad` and its like
    lift                     NumPy's and SciPy's functions, which take boxes
    numpy/, scipy/, misc/    in autograd's layout, as all files beside them are

`ftrace.compat.install_as_autograd()` makes `import autograd` find this package, and
`core` in the place of `autograd.extend` and `autograd.tracer`.
"""

from ftrace.compat.autograd import builtins as _builtins, core, wrap_util
from ftrace.compat.autograd.core import primitive as primitive
from ftrace.compat.autograd.differential_operators import *  # noqa: F403

extend, tracer, util = core, core, wrap_util
dict, isinstance = _builtins.dict, _builtins.isinstance
list, tuple, type = _builtins.list, _builtins.tuple, _builtins.type
