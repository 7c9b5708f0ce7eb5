"""autograd's programs: plain NumPy of float64, and ftrace where derivatives are taken.

    core                     `make_vjp`, `make_jvp`, functions with rules, spaces
    differential_operators   `grad` and its like
    lift                     NumPy's and SciPy's functions, which take boxes
    numpy/, scipy/, misc/    in autograd's layout, as all files beside them are

`ftrace.compat.install_as_autograd()` makes `import autograd` find this package.
"""

from ftrace.compat.autograd import builtins as _builtins
from ftrace.compat.autograd.core import primitive as primitive
from ftrace.compat.autograd.differential_operators import (
    checkpoint as checkpoint,
    deriv as deriv,
    elementwise_grad as elementwise_grad,
    grad as grad,
    grad_and_aux as grad_and_aux,
    grad_named as grad_named,
    hessian as hessian,
    hessian_tensor_product as hessian_tensor_product,
    hessian_vector_product as hessian_vector_product,
    holomorphic_grad as holomorphic_grad,
    jacobian as jacobian,
    make_ggnvp as make_ggnvp,
    make_hvp as make_hvp,
    make_jvp as make_jvp,
    make_vjp as make_vjp,
    multigrad_dict as multigrad_dict,
    tensor_jacobian_product as tensor_jacobian_product,
    value_and_grad as value_and_grad,
    vector_jacobian_product as vector_jacobian_product,
)

dict, isinstance = _builtins.dict, _builtins.isinstance
list, tuple, type = _builtins.list, _builtins.tuple, _builtins.type
