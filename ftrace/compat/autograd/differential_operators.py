"""autograd's operators on functions, made of `make_vjp` and `make_jvp`."""

# What users give and get is of any type.
# pyright: basic

from __future__ import annotations

import inspect
from collections import OrderedDict
from typing import Any

import numpy as onp

import ftrace as ft
from ftrace.compat.autograd import core, numpy as np
from ftrace.compat.autograd.core import defvjp_argnum, primitive, vspace
from ftrace.compat.autograd.wrap_util import unary_to_nary
from ftrace.errors import ConcretizationTypeError, warn_user
from ftrace.trace.tracing.tracer import Function

__all__ = [
    "checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named",
    "hessian", "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad",
    "jacobian", "make_ggnvp", "make_hvp", "make_jvp", "make_vjp", "multigrad_dict",
    "tensor_jacobian_product", "value_and_grad", "vector_jacobian_product",
]  # fmt: skip

make_vjp = unary_to_nary(core.make_vjp)
make_jvp = unary_to_nary(core.make_jvp)


def _scalar_vjp(name: str, fun: Function, x: Any) -> tuple[Function, Any, Any]:
    vjp, ans = core.make_vjp(fun, x)
    space = vspace(ans)
    if space.size != 1:
        raise TypeError(
            f"{name} only applies to real scalar-output functions. Try jacobian, "
            "elementwise_grad or holomorphic_grad."
        )
    return vjp, ans, space.ones()


@unary_to_nary
def grad(fun: Function, x: Any) -> Any:
    """The gradient of a function whose value is one real number."""
    vjp, _, one = _scalar_vjp("Grad", fun, x)
    return vjp(one)


@unary_to_nary
def value_and_grad(fun: Function, x: Any) -> Any:
    """(value, gradient)."""
    vjp, ans, one = _scalar_vjp("value_and_grad", fun, x)
    return ans, vjp(one)


@unary_to_nary
def elementwise_grad(fun: Function, x: Any) -> Any:
    """The sum of the rows of the Jacobian: its diagonal, where it is diagonal."""
    vjp, ans = core.make_vjp(fun, x)
    if vspace(ans).iscomplex:
        raise TypeError("Elementwise_grad only applies to real-output functions.")
    return vjp(vspace(ans).ones())


@unary_to_nary
def deriv(fun: Function, x: Any) -> Any:
    """The derivative along ones, in forward mode."""
    return core.make_jvp(fun, x)(vspace(x).ones())[1]


@unary_to_nary
def jacobian(fun: Function, x: Any) -> Any:
    """The Jacobian of an array by an array: shape of the value, then of `x`."""
    vjp, ans = core.make_vjp(fun, x)
    space = vspace(ans)
    shape = (*space.shape, *vspace(x).shape)
    basis = list(space.standard_basis())
    if len(basis) > 1:
        try:  # rows at once, where no rule of the user's needs values
            return np.reshape(core.to_numpy(ft.vmap(vjp)(onp.stack(basis))), shape)
        except (ConcretizationTypeError, TypeError):
            pass
    return np.reshape(np.stack(list(map(vjp, basis))), shape)


@unary_to_nary
def holomorphic_grad(fun: Function, x: Any) -> Any:
    """The derivative of a holomorphic function of complex numbers."""
    if not vspace(x).iscomplex:
        warn_user("Input to holomorphic_grad is not complex")
    return grad(lambda x: np.real(fun(x)))(x)


def grad_named(fun: Function, argname: str) -> Function:
    """The gradient with respect to the argument of a name."""
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


@unary_to_nary
def hessian(fun: Function, x: Any) -> Any:
    """The exact Hessian."""
    return jacobian(jacobian(fun))(x)


@unary_to_nary
def make_hvp(fun: Function, x: Any) -> Any:
    """(product of a vector with the Hessian at x, gradient at x)."""
    return core.make_vjp(grad(fun), x)


@unary_to_nary
def make_jvp_reversemode(fun: Function, x: Any) -> Any:
    """The product of the Jacobian with a vector, by two reverse passes."""
    vjp, y = core.make_vjp(fun, x)
    return core.make_vjp(vjp, vspace(y).zeros())[0]


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """`f(*args, tensor)`: the Hessian times a tensor of the argument's shape."""
    gradient = grad(fun, argnum)

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, tensor = args
        return np.tensordot(gradient(*rest, **kwargs), tensor, np.ndim(tensor))

    return grad(product, argnum)


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """`f(*args, tensor)`: a tensor of the value's shape times the Jacobian."""

    def product(*args: Any, **kwargs: Any) -> Any:
        *rest, tensor = args
        return np.tensordot(tensor, fun(*rest, **kwargs), axes=np.ndim(tensor))

    return jacobian(product, argnum)


hessian_vector_product = hessian_tensor_product
vector_jacobian_product = tensor_jacobian_product


def _half_square(x: Any) -> Any:
    return 0.5 * np.sum(x**2, axis=-1)


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: int = 0) -> Function:
    """Products of vectors with the generalized Gauss-Newton matrix of g(f(x))."""

    @unary_to_nary
    def make(f: Function, x: Any) -> Function:
        f_vjp, f_x = core.make_vjp(f, x)
        g_hvp, slope = core.make_vjp(grad(g), f_x)
        f_jvp, _ = core.make_vjp(f_vjp, vspace(slope).zeros())
        return lambda v: f_vjp(g_hvp(f_jvp(v)))

    return make(f, f_argnum)


@unary_to_nary
def grad_and_aux(fun: Function, x: Any) -> Any:
    """(gradient of the first result, the second result as it is)."""
    vjp, (ans, aux) = core.make_vjp(fun, x)
    return vjp((vspace(ans).ones(), vspace(aux).zeros())), aux


def multigrad_dict(fun: Function) -> Function:
    """The gradients with respect to all arguments, by their names."""
    signature = inspect.signature(fun)

    def gradients(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()

        def by_name(values: dict[str, Any]) -> Any:
            again = inspect.BoundArguments(signature, OrderedDict(values))
            return fun(*again.args, **again.kwargs)

        found = grad(by_name)(dict(bound.arguments))
        return OrderedDict((name, found[name]) for name in signature.parameters)

    return gradients


def checkpoint(fun: Function) -> Function:
    """`fun`, computed again in the backward pass instead of being kept."""
    wrapped = primitive(fun)

    def again(argnum: int, ans: Any, args: Any, kwargs: Any) -> Function:
        return make_vjp(fun, argnum)(*args, **kwargs)[0]

    defvjp_argnum(wrapped, again)
    return wrapped
