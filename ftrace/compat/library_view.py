"""Equations of indexing, of operations of a library, and of calls of Python.

    gather x i j      concatenate i j, then gather[dimension_numbers=…] x indices
    scatter x u i     scatter-add[dimension_numbers=…] x indices u
    argsort, top_k    sort of the keys and an iota; top_k; their values are not used
    eigh, svd, …      a row: the parameters of JAX's primitive, the order of results
    callbacks         pure_callback, io_callback, debug_callback, debug_print

Rules describe a node by steps. The token that keeps effects in order is not seen, as in
JAX.
"""

# The parameters of lambdas are Any.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftrace.compat import jaxpr, lax_primitives as jax
from ftrace.compat.primitive import Primitive
from ftrace.debug import Writer
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.lax import gather_scatter
from ftrace.lax.library import FftType
from ftrace.trace.avals import ShapedArray
from ftrace.trace.effects import Callback
from ftrace.trace.graph import Node
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.indexing import axes_and_kind
from ftrace.trace.primitives.movement import reshape_p
from ftrace.trace.primitives.primitive import compound_of, item_p
from ftrace.trace.primitives.sources import iota
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.treedef import PyTreeDef


class Step(NamedTuple):
    """One equation: a primitive, its parameters, the types of its results.

    Attributes:
      before, after: operands around what the step before it gives.
    """

    primitive: Primitive
    params: dict[str, Any]
    avals: tuple[ShapedArray, ...]
    before: tuple[Node, ...] = ()
    after: tuple[Node, ...] = ()


class Steps(NamedTuple):
    """The equations of a node: of these operands the first, of each the next one.

    Attributes:
      results: the nodes that the results of the last one are, None for what no node
        is; by default the node, or its parts in order.
      passed: nodes that are others.
    """

    operands: tuple[Node, ...]
    steps: tuple[Step, ...]
    results: Sequence[Node | None] | None = None
    passed: tuple[tuple[Node, Node], ...] = ()


def one_step(
    node: Node, primitive: Primitive, params: dict[str, Any], operands: Any = None
) -> Steps:
    """A node as one equation of its sources, or of other operands."""
    given = node.src if operands is None else operands
    return Steps(tuple(given), (Step(primitive, params, node.aval.items),))


# Indexing.

_UNKNOWN = {"indices_are_sorted": False, "unique_indices": False}


def _windows(x: Node, axes: Sequence[int]) -> tuple[int, ...]:
    """The windows of single elements along some axes."""
    return tuple(1 if a in axes else n for a, n in enumerate(x.shape))


def _along(
    node: Node, indices: Sequence[Node], last: Step, before: tuple[Node, ...]
) -> Steps:
    """A step that takes the indices along a last axis, side by side.

    In their widest dtype, and that without a sign: what is out of bounds stays so.
    """
    shape = indices[0].shape
    dtype = max([i.dtype for i in indices], key=lambda d: (d.itemsize, d.kind == "u"))
    columns = tuple(reshape_p(cast(i, dtype), arg=(*shape, 1)) for i in indices)
    if len(columns) == 1:
        return Steps((*before, *columns, *last.after), (last._replace(after=()),))
    types = (ShapedArray.of((*shape, len(columns)), dtype),)
    joined = Step(jax.NAMED["concatenate"], {"dimension": len(shape)}, types)
    return Steps(columns, (joined, last._replace(before=before)))


def _gather(node: Node) -> Steps | None:
    if 0 in node.shape:  # where an axis is empty, no window fits it
        return None
    axes: tuple[int, ...] = node.arg
    x, *indices = node.src
    offsets = tuple(range(indices[0].ndim, node.ndim))
    params = {
        "dimension_numbers": gather_scatter.GatherDimensionNumbers(offsets, axes, axes),
        "slice_sizes": _windows(x, axes),
        "mode": gather_scatter.GatherScatterMode.PROMISE_IN_BOUNDS,
        "fill_value": None,
        **_UNKNOWN,
    }
    last = Step(jax.NAMED["gather"], params, node.aval.items)
    return _along(node, indices, last, (x,))


def _scatter(node: Node) -> Steps | None:
    axes, kind = axes_and_kind(node)
    x, updates, *indices = node.src
    if 0 in updates.shape:
        return None
    through = tuple(range(indices[0].ndim, updates.ndim))
    params = {
        "dimension_numbers": gather_scatter.ScatterDimensionNumbers(
            through, axes, axes
        ),
        "mode": gather_scatter.GatherScatterMode.FILL_OR_DROP,
        "update_jaxpr": None if kind == "set" else _combining(kind, x.aval),
        "update_consts": (),
        **_UNKNOWN,
    }
    name = "scatter" if kind == "set" else f"scatter-{kind}"
    last = Step(jax.NAMED[name], params, node.aval.items, after=(updates,))
    return _along(node, indices, last, (x,))


def _combining(kind: str, aval: ShapedArray) -> jaxpr.Jaxpr:
    """The function of two elements that a scatter combines them by."""
    scalar = aval.with_shape(()).strong()
    x, y, z = (jaxpr.Var(scalar) for _ in range(3))
    eqn = jaxpr.new_jaxpr_eqn([x, y], [z], jax.NAMED[kind], {})
    return jaxpr.Jaxpr([], [x, y], [z], [eqn])


# Sorts.


def _argsort(node: Node) -> Steps:
    keys, axis = node.src, node.arg
    places = iota(node.aval.items[0].dtype, keys[0].shape, axis)
    types = (*[k.aval for k in keys], *node.aval.items)
    params = {"dimension": axis, "is_stable": True, "num_keys": len(keys)}
    made = Step(jax.NAMED["sort"], params, types)
    results = (*[None] * len(keys), item_p(node, arg=0))
    return Steps((*keys, places), (made,), results)


def _top_k(node: Node) -> Steps | None:
    if not node.arg.largest:
        return None
    places = node.aval.items[0]
    types = (node.src[0].aval.with_shape(places.shape), places)
    params = {"k": node.arg.k, "axis": node.arg.axis}
    made = Step(jax.NAMED["top_k"], params, types)
    return Steps(node.src, (made,), (None, item_p(node, arg=0)))


# What LAPACK does, and the like.


_NOTHING: Mapping[str, Any] = {}


class Row(NamedTuple):
    """How JAX has an operation.

    Attributes:
      name: that of the primitive; of the argument of the operation in braces.
      params: its parameters, or what gives them for a node.
      order: for each result of the primitive, which one of the operation it is.
    """

    name: str
    params: Mapping[str, Any] | Callable[[Node], Mapping[str, Any]] = _NOTHING
    order: Callable[[Any], tuple[int, ...]] | None = None


def _svd(node: Node) -> dict[str, Any]:
    return {
        "full_matrices": node.arg != "reduced", "compute_uv": node.arg != "values",
        "subset_by_index": None, "algorithm": None,
    }  # fmt: skip


def _eig(vectors: bool) -> dict[str, Any]:
    return {
        "compute_left_eigenvectors": vectors, "compute_right_eigenvectors": vectors,
        "enable_eigvec_derivs": vectors, "implementation": None,
    }  # fmt: skip


def _qr(pivoting: bool) -> Callable[[Node], dict[str, Any]]:
    rest = {"pivoting": pivoting, "use_magma": None}
    return lambda n: {**rest, "full_matrices": n.arg}


def _cast(node: Node) -> dict[str, Any]:
    weak = node.aval.weak_type
    return {"new_dtype": node.dtype, "weak_type": weak, "sharding": None}


def _iota(node: Node) -> dict[str, Any]:
    place = {"shape": node.shape, "dimension": node.arg, "sharding": None}
    return {"dtype": node.dtype, **place}


def _fft(node: Node) -> dict[str, Any]:
    kind, lengths = node.arg.kind.upper(), node.arg.lengths
    return {"fft_type": FftType[kind], "fft_lengths": lengths}


_SORT = {"is_stable": True, "num_keys": 1}
_EIGH = {"sort_eigenvalues": True, "subset_by_index": None, "algorithm": None}
_SCHUR = {
    "compute_schur_vectors": True, "sort_eig_vals": False, "select_callable": None,
}  # fmt: skip
_EVEN = {"rounding_method": jax.lax.RoundingMethod.TO_NEAREST_EVEN}

#: By the names of graphs.
ROWS: dict[str, Row] = {
    "barrier": Row("optimization_barrier"),
    "bitcast": Row("bitcast_convert_type", lambda n: {"new_dtype": n.dtype}),
    "cast": Row("convert_element_type", _cast),
    "cholesky": Row("cholesky"),
    "cumulate": Row("cum{.kind}", lambda n: {"axis": n.arg[1], "reverse": n.arg[2]}),
    "eig": Row("eig", _eig(True)),
    "eigh": Row("eigh", lambda n: {"lower": n.arg, **_EIGH}),
    "eigvals": Row("eig", _eig(False)),
    "fft": Row("fft", _fft),
    "hessenberg": Row("hessenberg"),
    "iota": Row("iota", _iota),
    "lu": Row("lu"),
    "permutation": Row(
        "lu_pivots_to_permutation", lambda n: {"permutation_size": n.arg}
    ),
    "permute": Row("transpose", lambda n: {"permutation": n.arg}),
    "qr": Row("qr", _qr(pivoting=False)),
    "qr_pivoted": Row("qr", _qr(pivoting=True)),
    "round": Row("round", _EVEN),
    "schur": Row("schur", _SCHUR),
    "sort": Row("sort", lambda n: {"dimension": n.arg, **_SORT}),
    "svd": Row("svd", _svd, lambda arg: (0,) if arg == "values" else (1, 0, 2)),
    "triangular_solve": Row("triangular_solve", lambda n: n.arg._asdict()),
    "tridiagonal": Row("tridiagonal", lambda n: {"lower": n.arg}),
    "tridiagonal_solve": Row("tridiagonal_solve", {"perturb_singular": False}),
}


def describe_row(node: Node, row: Row) -> Steps:
    """An operation as the primitive of its row."""
    primitive = jax.NAMED[row.name.format(node.arg)]
    params = dict(row.params(node) if callable(row.params) else row.params)
    if compound_of(node) is None:
        return one_step(node, primitive, params)
    types = node.aval.items
    order = range(len(types)) if row.order is None else row.order(node.arg)
    made = Step(primitive, params, tuple([types[i] for i in order]))
    return Steps(node.src, (made,), [item_p(node, arg=i) for i in order])


# Calls of Python.


@dataclass(frozen=True)
class FlatCallback:
    """The function of a callback, of flat operands for flat results.

    Where vmap made it one call per lane, these are the operands of all lanes.
    """

    callback: Callback

    def __call__(self, *operands: Any) -> list[Any]:
        if self.callback.lanes:
            return self.callback(operands)
        return tree.leaves(self.callback.result_of(operands))

    def __repr__(self) -> str:
        name, structure = self.callback.name, PyTreeDef(self.callback.arguments)
        return f"FlatCallback(callback_func={name}, in_tree={structure})"


def _callback(node: Node) -> Steps:
    """An effect; the token that it takes is the one that it gives."""
    token, *operands = node.src
    arg: Callback = node.arg
    writes = arg.function.value
    name, params = "io_callback", dict[str, Any](callback=FlatCallback(arg))
    if arg.kind == "debug.print" and isinstance(writes, Writer) and not arg.lanes:
        name, params = "debug_print", _printing(arg, writes)
    elif arg.drops_result:
        name = "debug_callback"
        params |= {"effect": "OrderedDebug", "partitioned": False}
    else:
        params |= {"result_avals": arg.types, "sharding": None, "ordered": True}
    parts = [item_p(node, arg=i) for i in range(1 + len(arg.types))]
    made = Step(jax.NAMED[name], params, node.aval.items[1:])
    return Steps(tuple(operands), (made,), parts[1:], ((parts[0], token),))


def _printing(arg: Callback, writer: Writer) -> dict[str, Any]:
    leaves = enumerate(arg.leaves)
    return {
        "fmt": writer.fmt,
        "has_placeholders": "{" in writer.fmt,
        "in_tree": PyTreeDef(arg.arguments),
        "static_args": tuple([(i, s.value) for i, s in leaves if s is not None]),
        "np_printoptions": writer.options,
        "logging_record": None,
        "ordered": True,
        "partitioned": False,
    }


def _pure_callback(node: Node) -> Steps:
    arg: Callback = node.arg
    params = {
        "callback": FlatCallback(arg), "result_avals": arg.types, "sharding": None,
        "vmap_method": arg.method,
    }  # fmt: skip
    return one_step(node, jax.NAMED["pure_callback"], params)


#: By the names of graphs; None is what JAX has no equation for.
RULES: dict[str, Callable[[Node], Steps | None]] = {
    "gather": _gather,
    "scatter": _scatter,
    "argsort": _argsort,
    "top_k": _top_k,
    "callback": _callback,
    "pure_callback": _pure_callback,
}
