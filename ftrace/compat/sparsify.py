"""`jax.experimental.sparse.sparsify`: functions of dense arrays, of sparse ones.

    f(mat, v) = mat.T @ v         traced with dense arrays in the place of sparse ones
    transpose, dot_general        its equations, done by `RULES` where they meet these

The functions are read as jaxprs, in which products are products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ftrace import lax, numpy as fnp
from ftrace.compat.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Literal
from ftrace.compat.view import make_jaxpr
from ftrace.errors import MissingRuleError
from ftrace.experimental.sparse import bcoo, compressed, movement, products
from ftrace.experimental.sparse.bcoo import BCOO, OPERATORS, JAXSparse, replaced
from ftrace.trace.eager.checked_calls import unchecked
from ftrace.trace.flatten_arguments import wraps
from ftrace.trace.pytree import tree
from ftrace.transforms.jit.structs import ShapeDtypeStruct

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
    def sparsified(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs), is_leaf=_is_sparse)
        shown = [
            ShapeDtypeStruct(x.shape, x.dtype) if _is_sparse(x) else x for x in leaves
        ]
        kept: list[Any] = []

        def dense(*flat: Any) -> Any:
            given, named = tree.unflatten(treedef, flat)
            results, structure = tree.flatten(f(*given, **named))
            kept[:] = [structure]
            return results

        closed = make_jaxpr(dense)(*shown)
        return tree.unflatten(kept[0], evaluate(closed, *leaves))

    return sparsified


@unchecked
def evaluate(closed: ClosedJaxpr | Jaxpr, *args: Any) -> list[Any]:
    """The results of a jaxpr of sparse and dense values."""
    jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
    consts = closed.consts if isinstance(closed, ClosedJaxpr) else ()
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= dict(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        found = _apply(eqn, [read(atom) for atom in eqn.invars])
        known |= dict(zip(eqn.outvars, found, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(eqn: JaxprEqn, values: Sequence[Any]) -> Sequence[Any]:
    name, primitive = eqn.primitive.name, eqn.primitive
    if not any(map(_is_sparse, values)):
        found = primitive.bind(*values, **primitive.get_bind_params(eqn.params))
        return found if primitive.multiple_results else [found]
    rule = RULES.get(name)
    if rule is None:
        raise MissingRuleError(
            f"sparse rule for {name} is not implemented: there is none for what may "
            "be dense; call x.todense() before"
        )
    found = rule(eqn, *(values if name in _LINEAR else map(_as_bcoo, values)))
    return found if primitive.multiple_results else [found]


# Rules: of an equation and of the values of its operands.


def _params(function: Rule, *names: str) -> Rule:
    """What a function does with these parameters of the equation."""

    def rule(eqn: JaxprEqn, *values: Any) -> Any:
        return function(*values, **{name: eqn.params[name] for name in names})

    return rule


def _operator(name: str, swapped: str = "") -> Rule:
    def rule(eqn: JaxprEqn, x: Any, y: Any) -> Any:
        found = OPERATORS[name](x, y) if _is_sparse(x) else NotImplemented
        if swapped and not _is_sparse(x):
            found = OPERATORS[swapped](y, x)
        if found is NotImplemented:
            raise MissingRuleError(f"sparse rule for {name} of {x!r} and {y!r}: none")
        return found

    return rule


def _as_bcoo(x: Any) -> Any:
    return x.to_bcoo() if isinstance(x, compressed.Format) else x


def _of_elements(eqn: JaxprEqn, x: Any) -> Any:
    if isinstance(x, compressed.Format):
        data = eqn.primitive.bind(x.data, **eqn.params)
        rest = [getattr(x, name) for name in x.parts[1:]]
        return type(x)((data, *rest), shape=x.shape, **x.known)
    if eqn.primitive.name in _OF_ZERO and not x.unique_indices:
        x = bcoo.bcoo_sum_duplicates(x, x.nse)
    return replaced(x, eqn.primitive.bind(x.data, **eqn.params))


def _sum(eqn: JaxprEqn, x: BCOO) -> Any:
    return OPERATORS["sum"](x, eqn.params["axes"])


def _named(eqn: JaxprEqn, x: BCOO) -> Any:
    return x.todense() if eqn.params["arg"] == compressed.TO_DENSE else x


def _broadcast(eqn: JaxprEqn, x: BCOO) -> BCOO:
    return movement.bcoo_broadcast_in_dim(
        x, shape=eqn.outvars[0].aval.shape,
        broadcast_dimensions=eqn.params["broadcast_dimensions"],
    )  # fmt: skip


def _dynamic_slice(eqn: JaxprEqn, x: BCOO, *starts: Any) -> BCOO:
    sizes = eqn.params["slice_sizes"]
    return movement.bcoo_dynamic_slice(x, starts, sizes)


def _concatenate(eqn: JaxprEqn, *values: BCOO) -> BCOO:
    return movement.bcoo_concatenate(values, dimension=eqn.params["dimension"])


def _pad(eqn: JaxprEqn, x: BCOO, value: Any) -> BCOO:
    """Elements in their new places; the rest is zero, new lanes are out of bounds."""
    config, shape = eqn.params["padding_config"], eqn.outvars[0].aval.shape
    k, last = x.n_batch, x.ndim - x.n_dense
    data, indices = bcoo.full_batch(x)
    limits, keep = shape[k:last], bcoo.inside(indices, x.sparse_shape)
    pairs = zip(bcoo.columns(indices), config[k:last], strict=True)
    rows = [row * (inner + 1) + low for row, (low, _, inner) in pairs]
    for row, size in zip(rows, limits, strict=True):
        keep = keep & (row >= 0) & (row < size)
    indices = bcoo.joined(rows, keep, limits, indices.dtype)
    none = (0, 0, 0)
    outside = fnp.asarray(max(limits, default=0), indices.dtype)
    indices = lax.pad(indices, outside, [*config[:k], none, none])
    data = lax.pad(data, fnp.zeros((), data.dtype), [*config[:k], none, *config[last:]])
    return BCOO((data, indices), shape=shape)


def _select(eqn: JaxprEqn, which: Any, *cases: Any) -> BCOO:
    if _is_sparse(which) or len(cases) != 2 or not all(map(_is_sparse, cases)):
        raise MissingRuleError("sparse rule for select_n: of two sparse arrays alone")
    parts = [
        replaced(x, products.bcoo_multiply_dense(x, mask))
        for x, mask in zip(cases, (~which, which), strict=True)
    ]
    return OPERATORS["add"](*parts)


def _call(part: str) -> Rule:
    def rule(eqn: JaxprEqn, *values: Any) -> Any:
        return evaluate(eqn.params[part], *values)

    return rule


def _cond(eqn: JaxprEqn, index: Any, *operands: Any) -> Any:
    branches = [partial(evaluate, branch) for branch in eqn.params["branches"]]
    return lax.switch(index, branches, *operands)


def _while(eqn: JaxprEqn, *values: Any) -> Any:
    first = eqn.params["cond_nconsts"]
    last = first + eqn.params["body_nconsts"]
    ask, step = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]

    def go_on(carry: Any) -> Any:
        return evaluate(ask, *values[:first], *carry)[0]

    def body(carry: Any) -> Any:
        return evaluate(step, *values[first:last], *carry)

    return lax.while_loop(go_on, body, [*map(_settled, values[last:])])


def _scan(eqn: JaxprEqn, *values: Any) -> Any:
    first, count = eqn.params["num_consts"], eqn.params["num_carry"]
    consts, carry, xs = values[:first], values[first:][:count], values[first + count :]
    if any(map(_is_sparse, xs)):
        raise MissingRuleError("sparse rule for scan: none over sparse arrays")

    def step(carry: Any, xs: Any) -> Any:
        found = evaluate(eqn.params["jaxpr"], *consts, *carry, *xs)
        return found[:count], found[count:]

    options = {name: eqn.params[name] for name in ("length", "reverse")}
    last, ys = lax.scan(step, [*map(_settled, carry)], xs, **options)
    return [*last, *ys]


def _settled(x: Any) -> Any:
    return x if _is_sparse(x) else fnp.asarray(x)


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
    "reduce_sum": _sum,
    "reshape": _params(movement.bcoo_reshape, "new_sizes", "dimensions"),
    "squeeze": _params(movement.bcoo_squeeze, "dimensions"),
    "rev": _params(movement.bcoo_rev, "dimensions"),
    "slice": _params(movement.bcoo_slice, "start_indices", "limit_indices", "strides"),
    "broadcast_in_dim": _broadcast, "dynamic_slice": _dynamic_slice,
    "concatenate": _concatenate, "pad": _pad, "select_n": _select,
    "cond": _cond, "while": _while, "scan": _scan, "name": _named,
    "custom_jvp_call": _call("call_jaxpr"), "custom_vjp_call": _call("call_jaxpr"),
    "remat2": _call("jaxpr"),
}  # fmt: skip
