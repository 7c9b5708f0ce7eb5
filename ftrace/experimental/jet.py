"""Taylor mode: all derivatives along a curve at once.

A curve x(s) with x(0) = x₀ and the derivatives x₁, …, x_K; what are those of f(x(s))?
Of a node and all that it is made of the derivative along the curve is one node,
whatever asks for it:

    D x₀ = x₁, D x₁ = x₂, …, D x_K = 0       D op(u, …) = the rule for tangents of op

Applied K times to f this gives its K derivatives, by the rules that first derivatives
have, for every primitive. Equal nodes are one, so that K derivatives of a product are
of the order of K² nodes, as in Leibniz's rule, and not 2ᴷ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ftrace import dtypes, numpy as fnp
from ftrace.errors import ArgumentError, TreeError
from ftrace.ground.missing_names import tell_missing
from ftrace.lax.elementwise import exp
from ftrace.numpy.axes import cast
from ftrace.scipy.special import gammaln
from ftrace.trace.autodiff import extend_tangents
from ftrace.trace.calls.inline import follow_rules
from ftrace.trace.flatten_arguments import Output, flatten_values
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.elementwise import cast as cast_node
from ftrace.trace.primitives.primitive import Results
from ftrace.trace.primitives.sources import zeros_like
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of, is_value
from ftrace.transforms.jit.eager_programs import apply_derived

__all__ = ["fact", "jet", "jet2", "zero_series", "zero_term"]


class _Zero:
    """A term, or all terms of an argument, that are zero."""


zero_term, zero_series = _Zero(), _Zero()


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Any],
    factorial_scaled: bool = True, **_: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The value of `fun`, and its derivatives along a curve.

    Args:
      fun: a function of arrays.
      primals: its arguments at the beginning of the curve, each an array.
      series: for each argument the derivatives of the curve, as many for each: the
        first, the second, and so on. `zero_series` is zeros.
      factorial_scaled: False: series hold the coefficients of Taylor's polynomials,
        which are the derivatives over k!; so do the results.
      **_: accepted, without effect.

    Returns:
      (the value, its derivatives); in the latter each leaf is a list of so many.

    Raises:
      ArgumentError: an argument is no array, or their series differ in length.

    Example:
      >>> from ftrace.experimental.jet import jet
      >>> value, series = jet(lambda x: x**3, (2.0,), ([1.0, 0.0],))
      >>> print(value, *series)  # x³, 3x², 6x
      8.0 12.0 12.0
    """
    tree.check_callable(fun, "jet")
    values = list(primals)
    order = _order(values, series)
    avals = [aval_of(x) for x in values]
    given: list[Any] = []
    for terms, aval in zip(series, avals, strict=True):
        if not dtypes.is_inexact(aval.dtype):
            continue
        for k, term in enumerate(
            [zero_term] * order if terms is zero_series else terms
        ):
            scale = 1 if factorial_scaled else math.factorial(k + 1)
            zero = isinstance(term, _Zero)
            full = fnp.zeros(aval.shape, aval.dtype) if zero else scale * term
            given.append(fnp.broadcast_to(cast(full, aval.dtype), aval.shape))
    output = Output.of_leaves(fun, tree.structure(tuple(values)), "jet")
    types = [*avals, *[aval_of(x) for x in given]]
    graph = trace("jet", output, types, [*values, *given])
    kind = ("jet", len(avals), order)
    derive = partial(_differentiate, graph, len(avals), order)
    found = apply_derived(kind, graph, derive, [*values, *given])
    rest = iter(found[len(graph.outputs) :])
    rows: list[list[Any]] = []
    for node in graph.outputs:
        if dtypes.is_inexact(node.dtype):
            terms = [next(rest) for _ in range(order)]
            if not factorial_scaled:
                terms = [t / math.factorial(k + 1) for k, t in enumerate(terms)]
        else:
            terms = [fnp.zeros(node.shape, node.dtype)] * order
        rows.append(terms)
    return output.build(found[: output.count]), tree.unflatten(output.structure, rows)


#: `jet` of Taylor's coefficients.
jet2 = partial(jet, factorial_scaled=False)


def fact(n: Any) -> Any:
    """n!"""
    return exp(gammaln(n + 1.0))


def _order(primals: Sequence[Any], series: Sequence[Any]) -> int:
    """The number of derivatives that all series have."""
    for i, x in enumerate(primals):
        if not is_value(x):
            raise ArgumentError(
                f"jet: argument {i} must be an array, got {type(x).__name__}; close "
                "over trees, or take them apart"
            )
    lengths = {len(terms) for terms in series if terms is not zero_series}
    if len(series) != len(primals) or len(lengths) != 1:
        raise TreeError(
            "jet: every argument needs a series, all of the same length, got "
            f"{len(primals)} arguments and the lengths {sorted(lengths)}"
        )
    for i, terms in enumerate(series):
        if terms is not zero_series:
            several = [t for t in terms if not isinstance(t, _Zero)]
            flatten_values(several, f"jet: the series of argument {i} ")
    return lengths.pop()


def _differentiate(graph: Graph, count: int, order: int) -> Graph:
    """The graph, and the derivatives of its outputs: all of the first output first."""
    known: dict[Node, Node | None] = {}
    terms = iter(graph.inputs[count:])
    for x in graph.inputs[:count]:
        last = x
        if dtypes.is_inexact(x.dtype):
            for _ in range(order):
                known[last] = term = next(terms)
                last = term
        known[last] = None
    several: dict[Node, Results] = {}
    rows: list[list[Node]] = []
    for output in graph.outputs:
        if not dtypes.is_inexact(output.dtype):
            continue
        node: Node | None = output
        row: list[Node] = []
        for _ in range(order):
            if node is not None:
                extend_tangents([node], known, several)
                node = known[node]
            found = zeros_like(output) if node is None else node
            row.append(cast_node(found, output.dtype, output.aval.weak_type))
        rows.append(row)
    outputs = [*graph.outputs, *[n for row in rows for n in row]]
    size = len(outputs)
    found = follow_rules((*outputs, *graph.effects[1:]), graph.inputs)
    effects = (*graph.effects[:1], *found[size:])
    return Graph(graph.inputs, tuple(found[:size]), graph.captured, effects)


tell_missing(__name__)
