"""`jax.experimental.sparse.sparsify`: functions of dense arrays, of sparse ones.

    f(mat, v) = mat.T @ v         traced with dense arrays in the place of sparse ones
    transpose, dot_general        its equations, done by `RULES` where they meet these

The functions are read as jaxprs, in which products are products.
"""

# What rows and rules take and return is Any, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace import lax, numpy as fnp
from ftrace.compat import jaxpr as jaxprs, lax_primitives
from ftrace.compat.view import make_jaxpr
from ftrace.errors import MissingRuleError
from ftrace.experimental.sparse import bcoo, compressed, movement, products
from ftrace.experimental.sparse.bcoo import BCOO, OPERATORS, JAXSparse, replace
from ftrace.experimental.sparse.compressed import as_bcoo
from ftrace.trace.eager.checked_calls import without_checks
from ftrace.trace.flatten_arguments import wraps
from ftrace.trace.pytree import tree
from ftrace.transforms.structs import ShapeDtypeStruct

__all__ = ["sparsify"]

#: What is zero at zero, and what is linear as well: done to the elements.
_OF_ZERO = (
    "abs", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "erf", "expm1", "floor",
    "integer_pow", "log1p", "round", "sign", "sin", "sinh", "sqrt", "square", "tan",
    "tanh",
)  # fmt: skip
_LINEAR = (
    "conj", "convert_element_type", "copy", "imag", "neg", "real", "stop_gradient",
)  # fmt: skip

Rule = Callable[..., Any]


def _is_sparse(x: Any) -> bool:
    return isinstance(x, JAXSparse)


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """A function of dense arrays that takes sparse ones, and gives them.

    Args:
      f: a function of arrays, traced with dense ones.
      use_tracer: accepted, without effect.

    Raises:
      MissingRuleError: at the call, where a sparse array comes to an operation that
        would give a dense one, or that has no rule.
    """

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs), is_leaf=_is_sparse)
        shown = [
            ShapeDtypeStruct(x.shape, x.dtype) if _is_sparse(x) else x for x in leaves
        ]
        kept: list[Any] = []

        def call_dense(*flat: Any) -> Any:
            given, named = tree.unflatten(treedef, flat)
            results, structure = tree.flatten(f(*given, **named))
            kept[:] = [structure]
            return results

        closed = make_jaxpr(call_dense)(*shown)
        return tree.unflatten(kept[0], evaluate(closed, *leaves))

    return call


@without_checks
def evaluate(jaxpr: jaxprs.ClosedJaxpr | jaxprs.Jaxpr, *args: Any) -> list[Any]:
    """The results of a jaxpr of sparse and dense values."""
    closed = lax_primitives.close(jaxpr)
    return jaxprs.interpret(closed.jaxpr, closed.consts, args, _apply)


def _apply(eqn: jaxprs.JaxprEqn, values: Sequence[Any]) -> Any:
    if not any(map(_is_sparse, values)):
        return jaxprs.bind_equation(eqn, values)
    name = eqn.primitive.name
    rule = RULES.get(name)
    if rule is None:
        raise MissingRuleError(
            f"sparse rule for {name} is not implemented: there is none for what may "
            "be dense; call x.todense() before"
        )
    return rule(eqn, *(values if name in _LINEAR else map(as_bcoo, values)))


# Rules: of an equation and of the values of its operands.


def _params(function: Rule, *names: str) -> Rule:
    """What a function does with these parameters of the equation."""

    def rule(eqn: jaxprs.JaxprEqn, *values: Any) -> Any:
        return function(*values, **{name: eqn.params[name] for name in names})

    return rule


def _operator(name: str, swapped: str = "") -> Rule:
    def rule(eqn: jaxprs.JaxprEqn, x: Any, y: Any) -> Any:
        found = OPERATORS[name](x, y) if _is_sparse(x) else NotImplemented
        if swapped and not _is_sparse(x):
            found = OPERATORS[swapped](y, x)
        if found is NotImplemented:
            raise MissingRuleError(f"sparse rule for {name} of {x!r} and {y!r}: none")
        return found

    return rule


def _of_elements(eqn: jaxprs.JaxprEqn, x: Any) -> Any:
    if isinstance(x, compressed.Format):
        data = eqn.primitive.bind(x.data, **eqn.params)
        rest = [getattr(x, name) for name in x.components[1:]]
        return type(x)((data, *rest), shape=x.shape, **x.known)
    if eqn.primitive.name in _OF_ZERO and not x.unique_indices:
        x = bcoo.bcoo_sum_duplicates(x, x.nse)
    return replace(x, eqn.primitive.bind(x.data, **eqn.params))


def _pad(eqn: jaxprs.JaxprEqn, x: BCOO, value: Any) -> BCOO:
    """Elements in their new places; the rest is zero, new lanes are out of bounds."""
    config, shape = eqn.params["padding_config"], eqn.outvars[0].aval.shape
    k, last = x.n_batch, x.ndim - x.n_dense
    data, indices = bcoo.full_batch(x)
    limits, keep = shape[k:last], bcoo.inside(indices, x.sparse_shape)
    pairs = zip(bcoo.columns(indices), config[k:last], strict=True)
    rows = [row * (inner + 1) + low for row, (low, _, inner) in pairs]
    for row, size in zip(rows, limits, strict=True):
        keep = keep & (row >= 0) & (row < size)
    indices = bcoo.stack(rows, keep, limits, indices.dtype)
    none = (0, 0, 0)
    outside = fnp.asarray(max(limits, default=0), indices.dtype)
    indices = lax.pad(indices, outside, [*config[:k], none, none])
    data = lax.pad(data, fnp.zeros((), data.dtype), [*config[:k], none, *config[last:]])
    return BCOO((data, indices), shape=shape)


def _select(eqn: jaxprs.JaxprEqn, which: Any, *cases: Any) -> BCOO:
    if _is_sparse(which) or len(cases) != 2 or not all(map(_is_sparse, cases)):
        raise MissingRuleError("sparse rule for select_n: of two sparse arrays alone")
    parts = [
        replace(x, products.bcoo_multiply_dense(x, mask))
        for x, mask in zip(cases, (~which, which), strict=True)
    ]
    return OPERATORS["add"](*parts)


def _with_bodies(eqn: jaxprs.JaxprEqn, *values: Any) -> Any:
    """A loop or a branch, whose bodies are evaluated like the whole."""
    if eqn.primitive.name == "scan":
        first = eqn.params["num_consts"] + eqn.params["num_carry"]
        if any(map(_is_sparse, values[first:])):
            raise MissingRuleError("sparse rule for scan: none over sparse arrays")
    operands = [x if _is_sparse(x) else fnp.asarray(x) for x in values]
    return eqn.primitive.impl(*operands, **eqn.params, evaluate=evaluate)


RULES: dict[str, Rule] = {
    **dict.fromkeys((*_OF_ZERO, *_LINEAR), _of_elements),
    "add": _operator("add", "radd"), "sub": _operator("sub", "rsub"),
    **dict.fromkeys(("mul", "mul_zero"), _operator("mul", "rmul")),
    "div": _operator("truediv"),
    "pow": _operator("pow"),
    "dot_general": _params(
        products.bcoo_dot_general, "dimension_numbers", "preferred_element_type"
    ),
    "transpose": _params(movement.bcoo_transpose, "permutation"),
    "reduce_sum": lambda eqn, x: OPERATORS["sum"](x, eqn.params["axes"]),
    "reshape": _params(movement.bcoo_reshape, "new_sizes", "dimensions"),
    "squeeze": _params(movement.bcoo_squeeze, "dimensions"),
    "rev": _params(movement.bcoo_rev, "dimensions"),
    "slice": _params(movement.bcoo_slice, "start_indices", "limit_indices", "strides"),
    "broadcast_in_dim": _params(
        movement.bcoo_broadcast_in_dim, "shape", "broadcast_dimensions"
    ),
    "dynamic_slice": lambda eqn, x, *starts: movement.bcoo_dynamic_slice(
        x, starts, eqn.params["slice_sizes"]
    ),
    "gather": _params(
        movement.bcoo_gather, "dimension_numbers", "slice_sizes", "mode", "fill_value"
    ),
    "concatenate": lambda eqn, *xs: movement.bcoo_concatenate(
        xs, dimension=eqn.params["dimension"]
    ),
    "pad": _pad, "select_n": _select,
    **dict.fromkeys(("cond", "while", "scan"), _with_bodies),
    "name": lambda eqn, x: (
        x.todense() if eqn.params["arg"] == compressed.TO_DENSE else x
    ),
    **dict.fromkeys(
        ("custom_jvp_call", "custom_vjp_call"),
        lambda eqn, *xs: evaluate(eqn.params["call_jaxpr"], *xs),
    ),
    "remat2": lambda eqn, *xs: evaluate(eqn.params["jaxpr"], *xs),
}  # fmt: skip
