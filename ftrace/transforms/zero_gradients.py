"""Why gradients are zero: where the ways from an argument to the results end.

    print(ft.zero_gradients(loss)(params, x))

    the gradient of loss is zero for 2 of 3 arguments
    params['w']: no way to the results has a slope:
      argmax has none, at File "train.py", line 7, in loss …
    params['scale']: the results do not depend on it

A way ends where the tangent does: at a rounding, a comparison, an integer. Where one
leads through, the gradient is computed in NumPy, and its zeros are followed back to the
first operation that made them of something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground.text_tables import Text
from ftrace.trace.autodiff import gradient_nodes, jvp_nodes, tangent_variable
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.control.conditional import While
from ftrace.trace.control.scan import Scan
from ftrace.trace.evaluate import NumpyPlan, observe
from ftrace.trace.flatten_arguments import P, display_name, wraps
from ftrace.trace.graph import Graph, Node, constant_value, dependents
from ftrace.trace.primitives.broadcast import expand_p
from ftrace.trace.primitives.elementwise import mul, mul_zero
from ftrace.trace.primitives.primitive import compound_of, item_p
from ftrace.trace.primitives.sources import const_p, is_variable
from ftrace.trace.pytree import tree
from ftrace.transforms.jit.jit import Jitted
from ftrace.transforms.jit.stages import concrete_inputs

#: Ends of ways that are told of one argument.
_REPORTED = 3
_PRODUCTS = (mul, mul_zero)


def zero_gradients(fun: Callable[P, Any]) -> Callable[P, str]:
    """A function that says of which arguments the gradient of `fun` is zero, and why.

    Args:
      fun: what would be differentiated, such as a loss: a function of arrays, under
        `jit` or not. Of results that are no scalars some sum is looked at.

    Returns:
      A function of the same arguments, whose text names each argument with a gradient
      that is zero everywhere, what makes it so, and the line.

    Raises:
      DerivativeError: the function has no derivative.
      ArgumentError: the arguments are shapes, or traced.

    Example:
      >>> print(ft.zero_gradients(lambda x, y: x.sum())(fnp.ones(3), 2.0))
      the gradient of <lambda> is zero for 1 of 2 arguments
      y: the results do not depend on it
    """
    tree.check_callable(fun, "zero_gradients")

    @wraps(fun)
    def report(*args: Any, **kwargs: Any) -> str:
        jitted = fun if isinstance(fun, Jitted) else Jitted(fun)
        graph = jitted.trace(*args, **kwargs).graph
        leaves = jitted.leaves(args, kwargs)
        arrays = concrete_inputs("zero_gradients", graph, leaves)
        names = jitted.leaf_names(args, kwargs)
        own = dict(zip(names, graph.inputs, strict=False))
        found = _reasons(graph, own, [x.numpy() for x in arrays])
        head = (
            f"the gradient of {display_name(jitted)} is zero for "
            f"{len(found) or 'none'} of {len(names)} arguments"
        )
        lines = [head, *[f"{name}: {why}" for name, why in found.items()]]
        return Text("\n".join(lines))

    return report


def _reasons(
    graph: Graph, leaves: dict[str, Node], values: Sequence[Any]
) -> dict[str, str]:
    """Why the gradients by some leaves are zero, by their names."""
    outputs, found = graph.outputs, dict[str, str]()
    through: dict[str, Node] = {}
    for name, leaf in leaves.items():
        if not dtypes.is_inexact(leaf.dtype):
            found[name] = f"{leaf.aval!r} has no gradient; give it in a float's dtype"
        elif not any(map(_moves, jvp_nodes(outputs, _tangent_of(leaf)))):
            found[name] = _describe_ends(_ends(outputs, leaf))
        else:
            through[name] = leaf
    if through:
        found |= _values(graph, through, values)
    return {name: found[name] for name in leaves if name in found}


def _tangent_of(leaf: Node) -> dict[Node, Node]:
    return {leaf: tangent_variable(leaf.aval, 0)}


def _moves(tangent: Node | None) -> bool:
    """Is it something else than zero, and than a product with 0?"""
    if tangent is None:
        return False
    factors = tangent.src if tangent.op in _PRODUCTS else ()
    return not any(map(_is_constant_zero, (tangent, *factors)))


def _is_constant_zero(node: Node) -> bool:
    while node.op is expand_p:
        node = node.src[0]
    return node.op is const_p and not np.any(constant_value(node))


def _ends(outputs: Sequence[Node], leaf: Node) -> list[Node]:
    """The nodes at which the tangent of a leaf ends."""
    nodes = [n for n in dependents(outputs, [leaf]) if compound_of(n) is None]
    tangents = zip(nodes, jvp_nodes(nodes, _tangent_of(leaf)), strict=True)
    moving = {node for node, tangent in tangents if _moves(tangent)}

    def is_moved(node: Node) -> bool:
        made = node.src[0] if node.op is item_p else node
        return not moving.isdisjoint(made.src)

    return [node for node in nodes if node not in moving and is_moved(node)]


def _describe_ends(ends: Sequence[Node]) -> str:
    if not ends:
        return "the results do not depend on it"
    texts = list(dict.fromkeys([_at(node, "has none") for node in ends]))
    more = len(texts) - _REPORTED
    rest = [f"  and {more} more"] if more > 0 else []
    return "\n".join(["no way to the results has a slope:", *texts[:_REPORTED], *rest])


def _at(node: Node, what: str) -> str:
    """What is to say of a node, with what the user called, and the line."""
    name = (node.src[0] if node.op is item_p else node).op.name
    if node.origin is None:
        return f"  {name} {what}"
    called = node.origin.called.removesuffix("_backward")
    return f"  {called or name} {what}, at {node.origin.describe()}"


# Zeros among values.


def _values(
    graph: Graph, leaves: dict[str, Node], values: Sequence[Any]
) -> dict[str, str]:
    """The same where a way leads through, and what is computed there is zero."""
    moved = [n for n in graph.outputs if dtypes.is_inexact(n.dtype)]
    cotangents = [tangent_variable(n.aval, i) for i, n in enumerate(moved)]
    made = gradient_nodes(moved, list(leaves.values()), cotangents)
    inputs = (*graph.inputs, *cotangents)
    ready = ready_graph(Graph(inputs, tuple(made), graph.captured))
    rng = np.random.default_rng(0)
    given = [_like(n, rng.uniform(1, 2, n.shape)) for n in moved]
    zeros = dict(zip(inputs, [not np.any(x) for x in values], strict=False))

    def note(node: Node, operands: Sequence[Any], value: Any) -> None:
        if compound_of(node) is None:
            zeros[node] = zeros.get(node, True) and not np.any(value)  # each time

    with observe(note):
        results = NumpyPlan(ready.outputs, inputs)([*values, *given])
    named = {leaf: name for name, leaf in leaves.items()}
    found: dict[str, str] = {}
    for leaf, node, x in zip(leaves.values(), ready.outputs, results, strict=True):
        if not np.any(x):
            ends = _ends(graph.outputs, leaf) if _is_constant_zero(node) else []
            found[named[leaf]] = (
                _describe_ends(ends) if ends else _describe_zero(node, zeros, named)
            )
    return found


def _like(node: Node, numbers: Any) -> Any:
    """Numbers of its dtype, no part of which is zero."""
    whole = numbers + 1j * numbers if dtypes.is_complex(node.dtype) else numbers
    return np.asarray(whole, node.dtype)


def _describe_zero(node: Node, zeros: dict[Node, bool], named: dict[Node, str]) -> str:
    """Where zeros that are the value of a node come from."""
    node = _follow_zeros(node, zeros)
    if is_variable(node):
        name = named.get(node)
        return f"as {name or 'what the function closes over'} is zero"
    return f"it is zero here:\n{_at(node, 'made zeros')}"


def _follow_zeros(node: Node, zeros: dict[Node, bool]) -> Node:
    """The node that made the zeros of a node of something else, in loops too."""
    while not is_variable(node):
        before = [s for s in _operands(node) if _is_zero(s, zeros)]
        if not before:
            break
        # What is multiplied by zero tells more than a choice among zeros.
        node = max(before, key=lambda s: dtypes.is_inexact(s.dtype))
        if not dtypes.is_inexact(node.dtype):
            break
    loop: object = node.src[0].arg if node.op is item_p else None
    if isinstance(loop, (Scan, While)):
        number: int = node.arg
        ends = loop.body.outputs[number], *loop.body.outputs
        made = [_follow_zeros(n, zeros) for n in ends if _is_zero(n, zeros)]
        return next((n for n in made if not is_variable(n)), node)
    return node


def _operands(node: Node) -> list[Node]:
    """What it is zero for, if that is; of what loops and branches give that is open."""
    made = () if node.op is item_p else node.src
    return [s for s in made if s.op is not const_p]


def _is_zero(node: Node, zeros: dict[Node, bool]) -> bool:
    """Is a value zero? NumPy does not make what it repeats, nor products it sums up."""
    pending = [node]
    for each in pending:  # which grows meanwhile
        if zeros.get(each, False):
            return True
        pending += () if each in zeros else _operands(each)
    return False
