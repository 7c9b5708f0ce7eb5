"""NumPy evaluation of a graph, node by node: the reference, and eager operations.

A `NumpyPlan` is made once from nodes and may be run often: the steps in order, the
places of their operands, and what is let go after each. The product that a sum over
expanded operands would add up is never made (`primitives/numpy_sums.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ftrace.errors import OutOfMemoryError, called_function
from ftrace.trace.arrays.buffer import has_memory
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.graph import Graph, Node, Op, toposort, walk
from ftrace.trace.primitives import broadcast as bc, elementwise as p
from ftrace.trace.primitives.movement import pad_p, reshape_p, shear_p
from ftrace.trace.primitives.numpy_sums import PreparedProduct
from ftrace.trace.primitives.primitive import compound_of, item_p, primitive_of
from ftrace.trace.primitives.sources import const_p
from ftrace.trace.symbolic import same_size
from ftrace.trace.tiering import ASKED

# Operations that are done at once ask first whether there is memory for the result.


def no_memory(name: str, aval: ShapedArray) -> OutOfMemoryError:
    """The exception for a result that NumPy has no memory for."""
    return OutOfMemoryError(
        f"{called_function(name)}: the host has no memory for a result of type "
        f"{aval!r}, which takes {nbytes_of(aval)} bytes, or for what leads to it; "
        "compute it in parts, or under jit, where intermediate results are not stored"
    )


def nbytes_of(aval: ShapedArray) -> int:
    return aval.size * aval.dtype.itemsize


def require_memory(name: str, aval: ShapedArray) -> None:
    """Raises OutOfMemoryError where there is no memory for a result."""
    if aval.size >= ASKED and not has_memory(nbytes_of(aval)):
        raise no_memory(name, aval)


def require_memory_for(op: Op, aval: ShapedArray, operands: Sequence[Any]) -> None:
    """The same for the result of a primitive, which may be a view of its operand."""
    if aval.size < ASKED:
        return
    moves = op.family == "movement" and op is not pad_p
    if not moves or (op is reshape_p and not _is_view(operands[0], aval.shape)):
        require_memory(op.name, aval)


def _is_view(x: Any, shape: tuple[int, ...]) -> bool:
    """Are the elements of an array seen in another shape where they are?"""
    kept = [[n for n in sizes if not same_size(n, 1)] for sizes in (x.shape, shape)]
    if same_size(*kept):
        return True
    return x.flags.c_contiguous or not any(x.strides)


# Plans.


def evaluate_graph(graph: Graph, *arguments: Any) -> list[Any]:
    """The outputs of a graph for NumPy arrays, one per input that is not captured."""
    captured = [np.asarray(value) for value in graph.captured]
    return NumpyPlan(graph.outputs, graph.inputs)([*arguments, *captured])


def evaluate(outputs: Sequence[Node], known: Mapping[Node, Any]) -> list[Any]:
    """The values of nodes, given those of the variables that they need.

    Args:
      outputs: what to evaluate.
      known: values of variables, and of any other nodes that were evaluated before.
    """
    return NumpyPlan(outputs, tuple(known))(list(known.values()))


_observer: ContextVar[Callable[[Node, Any, Any], Any] | None] = ContextVar(
    "observer", default=None
)
_iterations: ContextVar[tuple[tuple[str, int], ...]] = ContextVar(
    "iterations", default=()
)
#: The loops that NumPy is in, outermost first: their names, and iterations from 0.
current_iterations = _iterations.get


@contextmanager
def observe(observer: Callable[[Node, Any, Any], Any]) -> Generator[None]:
    """A block in which `observer(node, operands, value)` is told of each step.

    What it returns, if that is not None, takes the place of the value.
    """
    token, around = _observer.set(observer), _iterations.set(())
    try:
        yield
    finally:
        _observer.reset(token)
        _iterations.reset(around)


def number_iterations(name: str, numbers: Iterable[int]) -> Generator[int]:
    """The numbers of a loop's iterations, each of them current while that is done.

    Args:
      name: of the loop's operation.
      numbers: in the order in which they are done.
    """
    outer = _iterations.get()
    try:
        for number in numbers:
            _iterations.set((*outer, (name, number)))
            yield number
    finally:
        _iterations.set(outer)


class NumpyPlan:
    """The steps that lead from the values of some nodes to those of others.

    Args:
      outputs: the nodes whose values a call returns.
      given: the nodes whose values a call gets; `NumpyPlan(...)(values)`.

    Attributes:
      constants: the values that need no computing, (slot, value).
    """

    __slots__ = ("_large", "_outputs", "_size", "_steps", "constants")

    @property
    def output(self) -> int:
        """The slot of the only output."""
        (slot,) = self._outputs
        return slot

    @property
    def steps(self) -> list[tuple[Node, PreparedProduct | None, tuple[int, ...], int]]:
        """(node, the sum of a product that it is, slots of operands and value)."""
        return [step[:4] for step in self._steps]

    def __init__(self, outputs: Sequence[Node], given: Sequence[Node]) -> None:
        known = set(given)
        deferred = _products_to_defer(_needed_nodes(outputs, known, set()), outputs)
        nodes = _needed_nodes(outputs, known, deferred)
        slots = {node: i for i, node in enumerate(given)}
        self._size = len(given)
        self.constants: list[tuple[int, Any]] = []
        steps: list[tuple[Node, PreparedProduct | None, tuple[int, ...], int]] = []
        repeated_by_numpy = _repeated_by_numpy(nodes, deferred, outputs)
        for node in nodes:
            if node in repeated_by_numpy:
                slots[node] = slots[node.src[0]]
                continue
            slots[node] = slot = self._size
            self._size += 1
            if node.op is const_p:
                self.constants.append((slot, apply(node, ())))
                continue
            is_product = node.op is bc.reduce_sum_p and node.src[0] in deferred
            contracts = _product(node) if is_product else None
            sources = tuple(slots[s] for s in _sources(node, known, deferred))
            steps.append((node, contracts, sources, slot))
        self._outputs = [slots[node] for node in outputs]
        self._large = frozenset(slot for node, _, _, slot in steps if _is_large(node))
        self._steps = _with_releases(steps, {*self._outputs, *range(len(given))})

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return self.run_with_errstate(values)

    def run_with_errstate(self, values: Sequence[Any]) -> list[Any]:
        """The same; floating-point errors are told as NumPy is set to tell them."""
        slots: list[Any] = [*values, *[None] * (self._size - len(values))]
        for slot, value in self.constants:
            slots[slot] = value
        large = self._large
        observer = _observer.get()
        for node, contracts, sources, slot, finished in self._steps:
            operands = [slots[s] for s in sources]
            if slot in large:
                _require_memory(node, operands)
            if contracts is not None:
                slots[slot] = contracts(*operands)
            else:
                slots[slot] = apply(node, operands)
            if observer is not None:
                other = observer(node, operands, slots[slot])
                slots[slot] = slots[slot] if other is None else other
            for last in finished:
                slots[last] = None
        return [slots[slot] for slot in self._outputs]


def _product(node: Node) -> PreparedProduct:
    """The value of a sum over a product, from the operands of the product."""
    return PreparedProduct(node.src[0].shape, node.arg, node.aval)


def _is_large(node: Node) -> bool:
    """Is it asked whether there is memory for its results?"""
    return any(a.size >= ASKED for a in _types(node))


def _types(node: Node) -> Sequence[ShapedArray]:
    """Of the results; stacks are none of this memory."""
    if compound_of(node) is None:
        return (node.aval,)
    return [a for a in node.aval.items if not isinstance(a, Stack)]


def _require_memory(node: Node, operands: Sequence[Any]) -> None:
    for aval in _types(node):
        require_memory_for(node.op, aval, operands)


def _sources(node: Node, known: set[Node], deferred: set[Node]) -> tuple[Node, ...]:
    """What a step reads: a contraction its factors, and these before they repeat."""
    if node.op is not bc.reduce_sum_p or node.src[0] not in deferred:
        return node.src
    factors = node.src[0].src
    return tuple(
        s.src[0] if s.op is bc.expand_p and s not in known else s for s in factors
    )


def _needed_nodes(
    outputs: Sequence[Node], known: set[Node], deferred: set[Node]
) -> list[Node]:
    """The nodes that must be computed, sources first."""
    ordered = toposort(outputs, known)
    if not deferred:
        return ordered

    def below(node: Node) -> list[Node]:
        return [s for s in _sources(node, known, deferred) if s not in known]

    needed = set(walk([n for n in outputs if n not in known], below))
    return [n for n in ordered if n in needed]


def _products_to_defer(nodes: Sequence[Node], outputs: Sequence[Node]) -> set[Node]:
    """Products that nothing but one sum uses, and that may be matrix products."""
    sums = {n.src[0] for n in nodes if n.op is bc.reduce_sum_p and n.src[0].op is p.mul}
    computed = set(nodes) if sums else set[Node]()
    sums = {n for n in sums if not any(_is_whole(s, n, computed) for s in n.src)}
    found = sums.difference(outputs).intersection(nodes)
    if not found:
        return found
    uses = dict.fromkeys(found, 0)
    for node in nodes:
        for source in node.src:
            if source in uses:
                uses[source] += 1
    return {product for product in found if uses[product] == 1}


def _is_whole(factor: Node, product: Node, computed: set[Node]) -> bool:
    """Does a factor surely hold each element that the product has, in its own place?"""
    is_new = factor.op in _BROADCASTING and factor in computed
    return is_new and same_size(factor.shape, product.shape)


#: Functions of two operands whose shapes NumPy itself makes equal.
_BROADCASTING = frozenset(
    (p.add, p.sub, p.mul, p.div, p.eq, p.ne, p.lt, p.le, p.gt, p.ge)
)


def _repeated_by_numpy(
    nodes: Sequence[Node], deferred: set[Node], outputs: Sequence[Node]
) -> set[Node]:
    """Expansions that need not be made: each meets an operand of its full shape."""
    found = {n for n in nodes if n.op is bc.expand_p}.difference(outputs)
    if not found:
        return found
    for node in nodes:
        if node.op is bc.reduce_sum_p and node.src[0] in deferred:
            continue
        if node.op not in _BROADCASTING or not any(
            s not in found and same_size(s.shape, node.shape) for s in node.src
        ):
            found.difference_update(node.src)
    return found


def _with_releases(
    steps: Sequence[tuple[Node, PreparedProduct | None, tuple[int, ...], int]],
    outputs: set[int],
) -> list[tuple[Node, PreparedProduct | None, tuple[int, ...], int, tuple[int, ...]]]:
    """Adds to each step the slots that no later step reads."""
    alive_later = set(outputs)
    found: list[Any] = []
    for node, contracts, sources, slot in reversed(steps):
        finished = tuple({s for s in (*sources, slot) if s not in alive_later})
        alive_later.update(sources)
        found.append((node, contracts, sources, slot, finished))
    return found[::-1]


def apply(node: Node, operands: Sequence[Any]) -> Any:
    """The value of one node: of a compound a tuple with one per result."""
    if node.op is shear_p and (window := _window_view(node, operands[0])) is not None:
        return window
    if node.op is item_p:
        return operands[0][node.arg]
    compound = compound_of(node)
    if compound is not None:
        avals = node.aval.items
        values = compound.numpy(avals, node.arg, *operands)
        return tuple(
            v if isinstance(a, Stack) else settle(v, a.dtype)
            for v, a in zip(values, avals, strict=True)
        )
    value = primitive_of(node).numpy(node.aval, node.arg, *operands)
    return settle(value, node.dtype)


def settle(value: Any, dtype: np.dtype[Any]) -> Any:
    """A result of NumPy as an array of the dtype that the record promises."""
    array = np.asarray(value)
    return array if array.dtype == dtype else array.astype(dtype)


def _window_view(node: Node, z: Any) -> Any:
    """The sliding window as a view, where every element of it is inside."""
    arg: Any = node.arg
    axis, window, stride, dilation, size = arg
    reach = (size - 1) * stride + (z.shape[window] - 1) * dilation
    if same_size(node.size, 0) or z.strides[window] != 0 or reach >= z.shape[axis]:
        return None
    strides = list(z.strides)
    strides[window] = dilation * strides[axis]
    strides[axis] *= stride
    return np.lib.stride_tricks.as_strided(z, node.shape, strides, writeable=False)
