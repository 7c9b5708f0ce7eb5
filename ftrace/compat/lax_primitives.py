"""The primitives of JAX's `lax` by their names: `add_p`, `reduce_sum_p` and the like.

Each is a row: a name, and the function of `lax` that it is. They are what equations of
jaxprs name, keys for interpreters that users write, and they can be bound. What has no
counterpart in JAX has a primitive of its own, under the name that graphs print.
"""

# What rows and rules take and return is Any, and so are the parameters of lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ftrace import debug, dtypes, lax, numpy as fnp
from ftrace.compat.jaxpr import ClosedJaxpr, Jaxpr, eval_jaxpr, jaxpr_as_fun
from ftrace.compat.linear_util import wrap_init
from ftrace.compat.primitive import CallPrimitive, Primitive
from ftrace.ground import settings
from ftrace.numpy import axes as ax
from ftrace.numpy.floats import reinterpret
from ftrace.trace.bind import bind, bind_compound, elementwise
from ftrace.trace.calls.checkpoint import checkpoint
from ftrace.trace.graph import Op
from ftrace.trace.primitives.primitive import Compound, Primitive as Record
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import scope_of
from ftrace.trace.tracing.trace import record_compound
from ftrace.trace.tracing.tracer import Function
from ftrace.transforms.custom.callbacks import io_callback, pure_callback
from ftrace.transforms.environment import typeof
from ftrace.transforms.jit.jit import eval_shape
from ftrace.transforms.structs import ShapeDtypeStruct

#: By name, without the suffix.
NAMED: dict[str, NamedPrimitive] = {}


class NamedPrimitive(Primitive):
    """A primitive that is a function of operands and parameters."""

    def __init__(self, name: str, function: Function, several: bool = False) -> None:
        super().__init__(name)
        self.multiple_results = several
        self._impl = function

    def bind(self, *args: Any, **params: Any) -> Any:
        if _has_64_bits(args) or _has_64_bits(params.values()):
            with settings.config(enable_x64=True):  # an equation means what it says
                found = self.impl(*args, **params)
        else:
            found = self.impl(*args, **params)
        return list(found) if self.multiple_results else found

    def abstract_eval(self, *avals: Any, **params: Any) -> Any:
        structs = _structs(avals)
        found = eval_shape(lambda *xs: self.bind(*xs, **params), *structs)
        types = [typeof(t) for t in tree.leaves(found)]
        return (types if self.multiple_results else types[0]), frozenset[Any]()


def _has_64_bits(values: Iterable[Any]) -> bool:
    """Is one of them such a dtype, or of one?"""
    found = [
        x if isinstance(x, np.dtype) else getattr(x, "dtype", None) for x in values
    ]
    return any(dtype in dtypes.OF_32_BITS for dtype in found)


def _row(name: str, function: Function, several: bool = False) -> NamedPrimitive:
    NAMED[name] = NamedPrimitive(name, function, several)
    return NAMED[name]


# Elementwise: of operands of one shape, or scalars.

_ELEMENTWISE = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "cbrt",
    "ceil", "clamp", "clz", "complex", "conj", "cos", "cosh", "digamma", "div", "eq",
    "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "imag",
    "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul",
    "ne", "neg", "nextafter", "population_count", "pow", "real", "rem", "rsqrt",
    "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign",
    "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh",
    "bessel_i0e", "bessel_i1e", "igamma", "igammac", "polygamma", "zeta",
    "regularized_incomplete_beta",
)  # fmt: skip


#: What `lax` calls by another name than the primitive has.
_OTHERWISE = {"regularized_incomplete_beta": "betainc"}


def _bind_names(function: Function, names: str) -> Function:
    """A function of operands and of parameters, by their names.

    Args:
      names: of what follows the operands; those with "?" by keyword, where given.
    """
    optional = [n[:-1] for n in names.split() if n.endswith("?")]
    required = [n for n in names.split() if not n.endswith("?")]

    def call(*operands: Any, **params: Any) -> Any:
        chosen = {n: params[n] for n in optional if n in params}
        return function(*operands, *[params[n] for n in required], **chosen)

    return call


for _name in _ELEMENTWISE:
    _found = getattr(lax, _OTHERWISE.get(_name, _name), None)
    if _found is not None:
        _row(_name, _bind_names(_found, ""))
for _name in ("and", "or", "xor", "not"):
    _row(_name, _bind_names(getattr(fnp, f"bitwise_{_name}"), ""))
_row("copy", _bind_names(fnp.array, ""))
_row("add_any", _bind_names(lambda x, y: x + y, ""))

#: Names of parameters -> the functions of `lax` that take them.
_PARAMETERS = {
    "y": "integer_pow",
    "rounding_method": "round",
    "exponent_bits mantissa_bits": "reduce_precision",
    "axes": "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or "
            "reduce_xor",
    "axis reverse?": "cumsum cumprod cummax cummin cumlogsumexp",
    "shape broadcast_dimensions": "broadcast_in_dim",
    "new_sizes dimensions?": "reshape",
    "dimensions": "squeeze rev",
    "permutation": "transpose",
    "start_indices limit_indices strides": "slice",
    "padding_config": "pad",
    "dimension_numbers slice_sizes unique_indices? indices_are_sorted? mode? "
    "fill_value?": "gather",
    "dimension_numbers mode?": "scatter scatter-add scatter-sub scatter-mul "
                               "scatter-min scatter-max",
    "dimension_numbers precision? preferred_element_type?": "dot_general",
    "fft_type fft_lengths": "fft",
}  # fmt: skip

for _names, _functions in _PARAMETERS.items():
    for _name in _functions.split():
        _row(_name, _bind_names(getattr(lax, _name.replace("-", "_")), _names))


def _convert(x: Any, *, new_dtype: Any, weak_type: bool = False, **_: Any) -> Any:
    """A weak result as an equation asks for it, whatever the operand is."""
    found = lax.convert_element_type(x, new_dtype)
    return ax.cast(found, found.dtype, weak_type)


_row("convert_element_type", _convert)


def _bitcast(x: Any, *, new_dtype: Any) -> Any:
    """Also of what `lax` has no bits of: complex numbers and random keys."""
    target = np.dtype(new_dtype)
    if any(dtypes.is_key(t) or dtypes.is_complex(t) for t in (x.dtype, target)):
        return reinterpret(x, target)
    return lax.bitcast_convert_type(x, target)


_row("bitcast_convert_type", _bitcast)


def _position(name: str) -> Function:
    function = getattr(lax, name)
    return lambda x, *, axes, index_dtype, **_: function(x, axes[0], index_dtype)


for _name in ("argmax", "argmin"):
    _row(_name, _position(_name))


def _iota(*_: Any, dtype: Any, shape: Any, dimension: int, sharding: Any = None) -> Any:
    return lax.broadcasted_iota(dtype, shape, dimension)


def _cut(x: Any, *starts: Any, slice_sizes: Any) -> Any:
    return lax.dynamic_slice(x, starts, slice_sizes)


def _put(x: Any, update: Any, *starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, starts)


_row("concatenate", lambda *xs, dimension: lax.concatenate(xs, dimension))
_row("split", _bind_names(lax.split, "sizes axis"), several=True)
_row("iota", _iota)
_row("dynamic_slice", _cut)
_row("dynamic_update_slice", _put)


# Products, sorts, and what LAPACK does.


def _sort(*xs: Any, dimension: int, is_stable: bool = True, num_keys: int = 1) -> Any:
    return lax.sort(list(xs), dimension, is_stable, num_keys)


_row("conv_general_dilated", lambda x, y, **kw: lax.conv_general_dilated(x, y, **kw))
_row("sort", _sort, several=True)
_row("top_k", _bind_names(lax.top_k, "k axis?"), several=True)
_row("optimization_barrier", lambda *xs: lax.optimization_barrier(xs), several=True)
_row("cholesky", lambda x, **_: lax.linalg.cholesky(x, symmetrize_input=False))
_row("triangular_solve", lambda a, b, **kw: lax.linalg.triangular_solve(a, b, **kw))


def _svd(
    x: Any, *, compute_uv: bool = True, full_matrices: bool = True, **_: Any
) -> Any:
    if not compute_uv:
        return [lax.linalg.svd(x, compute_uv=False)]
    u, values, vh = lax.linalg.svd(x, full_matrices=full_matrices)
    return values, u, vh


#: Of `lax.linalg`: names of parameters as in `_PARAMETERS`.
_FACTORS = {
    "lu": "", "hessenberg": "", "tridiagonal": "lower?",
    "eig": "compute_left_eigenvectors? compute_right_eigenvectors?",
    "qr": "pivoting? full_matrices?",
    "schur": "compute_schur_vectors? sort_eig_vals? select_callable?",
}  # fmt: skip

for _name, _names in _FACTORS.items():
    _row(_name, _bind_names(getattr(lax.linalg, _name), _names), several=True)
_hermitian = partial(lax.linalg.eigh, symmetrize_input=False)
_row("eigh", _bind_names(_hermitian, "lower? subset_by_index?"), several=True)
_row("svd", _svd, several=True)
_row("tridiagonal_solve", lambda *xs, **kw: lax.linalg.tridiagonal_solve(*xs, **kw))
_row(
    "lu_pivots_to_permutation",
    _bind_names(lax.linalg.lu_pivots_to_permutation, "permutation_size"),
)


# Calls of Python: of flat operands, for flat results.


def _structs(avals: Iterable[Any]) -> list[Any]:
    return [ShapeDtypeStruct.of(a) for a in avals]


def _pure_callback(
    *args: Any, callback: Function, result_avals: Any, vmap_method: Any = None, **_: Any
) -> Any:
    types = _structs(result_avals)
    return pure_callback(callback, types, *args, vmap_method=vmap_method)


def _io_callback(*args: Any, callback: Function, result_avals: Any, **_: Any) -> Any:
    return io_callback(callback, _structs(result_avals), *args)


def _debug_callback(*args: Any, callback: Function, **_: Any) -> Any:
    debug.callback(callback, *args)
    return ()


def _debug_print(
    *args: Any, fmt: str, in_tree: Any, static_args: Any = (),
    np_printoptions: Any = (), **_: Any,
) -> Any:  # fmt: skip
    leaves = list(args)
    for place, value in static_args:
        leaves.insert(place, value)
    given, named = tree.unflatten(in_tree, leaves)
    with np.printoptions(**dict(np_printoptions)):
        debug.print(fmt, *given, skip_format_check=True, **named)
    return ()


_row("pure_callback", _pure_callback, several=True)
_row("io_callback", _io_callback, several=True)
_row("debug_callback", _debug_callback, several=True)
_row("debug_print", _debug_print, several=True)


# What holds jaxprs.


def close(jaxpr: Any) -> ClosedJaxpr:
    """A jaxpr as a closed one."""
    return ClosedJaxpr(jaxpr, []) if isinstance(jaxpr, Jaxpr) else jaxpr


def call_jaxpr(jaxpr: Any, *args: Any) -> list[Any]:
    """The results of a jaxpr, which may be closed."""
    found = close(jaxpr)
    return eval_jaxpr(found.jaxpr, found.consts, *args)


# Bodies are evaluated by `evaluate`: those of sparse values in another way.


def _scan(
    *args: Any, jaxpr: Any, length: int, num_consts: int, num_carry: int,
    reverse: bool = False, unroll: int = 1, evaluate: Function = call_jaxpr, **_: Any,
) -> list[Any]:  # fmt: skip
    first = num_consts + num_carry
    consts, init, xs = args[:num_consts], args[num_consts:first], args[first:]

    def body(carry: Any, x: Any) -> Any:
        found = evaluate(jaxpr, *consts, *carry, *x)
        return tuple(found[:num_carry]), tuple(found[num_carry:])

    last, ys = lax.scan(body, tuple(init), tuple(xs), length, reverse, unroll)
    return [*last, *ys]


def _while(
    *args: Any, cond_jaxpr: Any, body_jaxpr: Any, cond_nconsts: int, body_nconsts: int,
    evaluate: Function = call_jaxpr,
) -> list[Any]:  # fmt: skip
    first = cond_nconsts + body_nconsts
    of_cond, of_body = args[:cond_nconsts], args[cond_nconsts:first]
    found = lax.while_loop(
        lambda carry: evaluate(cond_jaxpr, *of_cond, *carry)[0],
        lambda carry: tuple(evaluate(body_jaxpr, *of_body, *carry)),
        tuple(args[first:]),
    )
    return [*found]


def _cond(
    index: Any, *args: Any, branches: Sequence[Any], evaluate: Function = call_jaxpr,
    **_: Any,
) -> list[Any]:  # fmt: skip
    functions = [lambda *xs, b=b: tuple(evaluate(b, *xs)) for b in branches]
    return [*lax.switch(index, functions, *args)]


def _remat(*args: Any, jaxpr: Any, policy: Any = None, **_: Any) -> list[Any]:
    function = checkpoint(lambda *xs: tuple(call_jaxpr(jaxpr, *xs)), policy=policy)
    return [*function(*args)]


_row("scan", _scan, several=True)
_row("while", _while, several=True)
_row("cond", _cond, several=True)
_row("jit", lambda *xs, jaxpr, **_: call_jaxpr(jaxpr, *xs), several=True)
remat_p = _row("remat2", _remat, several=True)


class RuledPrimitive(NamedPrimitive):
    """A call of a function with rules; these are in the parameter `rules`."""

    def __init__(self, name: str) -> None:
        super().__init__(name, self._call, several=True)

    @staticmethod
    def _call(*args: Any, call_jaxpr: Any, rules: Any = None, **_: Any) -> list[Any]:
        scope = scope_of(args)
        if scope is None or rules is None:
            return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args)
        nodes = [scope.lift(x) for x in args]
        return record_compound(scope, rules.op, nodes, rules.arg_for(call_jaxpr))

    def get_bind_params(self, params: dict[str, Any]) -> dict[str, Any]:
        fun = wrap_init(jaxpr_as_fun(params["call_jaxpr"]))
        return {**params, "subfuns": (fun,)}


custom_jvp_call_p = RuledPrimitive("custom_jvp_call")
custom_vjp_call_p = RuledPrimitive("custom_vjp_call")


# What is ours.


class OwnPrimitive(NamedPrimitive):
    """A primitive of the graph that JAX has none for; `arg` is its argument."""

    def __init__(self, op: Any) -> None:
        self.op = op
        several = isinstance(op, Compound)
        super().__init__(op.name, self._apply, several)

    def _apply(self, *args: Any, arg: Any = None) -> Any:
        if isinstance(self.op, Compound):
            return bind_compound(self.op, *args, arg=arg)
        if self.op.family in ("unary", "binary", "compare") and arg is None:
            return elementwise(self.op, *args)
        return bind(self.op, *args, arg=arg)


_own: dict[Op, OwnPrimitive] = {}


def own_primitive(op: Compound | Record) -> OwnPrimitive:
    """The primitive of an operation under the name that graphs print."""
    if op not in _own:
        _own[op] = OwnPrimitive(op)
    return _own[op]


#: The suffixed names that `lax` has of JAX's.
PUBLIC: dict[str, Primitive] = {
    **{f"{name.replace('-', '_')}_p": p for name, p in NAMED.items()},
    "call_p": CallPrimitive("call"),
    "closed_call_p": CallPrimitive("closed_call"),
    "custom_jvp_call_p": custom_jvp_call_p,
    "custom_vjp_call_p": custom_vjp_call_p,
    "remat_p": remat_p,
}
globals().update(PUBLIC)
