"""Tangents and cotangents that users give, held against the values they belong to.

A tangent has the shape of its value and its dtype, weak or not; that of an integer or
a bool has dtype float0 and holds nothing. Without `enable_x64` 64 bits stand for 32,
as they do in JAX: what differs only in that is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import ShapedArray
from ftrace.trace.bind import bind
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.elementwise import cast, cast_p
from ftrace.trace.primitives.sources import const_p
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.trace import has_free_variables
from ftrace.trace.tracing.tracer import Value, aval_of, in_rule
from ftrace.trace.tracing.weak_constants import default_bits
from ftrace.transforms.jit.eager_programs import apply_again


def tangent_type(aval: ShapedArray) -> ShapedArray:
    """The type of a value's tangents."""
    if dtypes.is_inexact(aval.dtype):
        return aval
    return ShapedArray.of(aval.shape, dtypes.float0)


def holds_numbers(tangent: ShapedArray) -> bool:
    """Is it not float0?"""
    return tangent.dtype != dtypes.float0


def with_float0(
    results: Sequence[Value], count: int, types: Iterable[ShapedArray]
) -> Sequence[Value]:
    """The results that hold numbers, and between them those that hold nothing.

    Args:
      count: how many there are in all.
      types: of all; asked for where some hold nothing.
    """
    if len(results) == count:
        return results
    rest = iter(results)
    return [
        next(rest) if holds_numbers(t) else np.zeros(t.shape, dtypes.float0)
        for t in types
    ]


def tangents_of(
    what: str,
    given: Sequence[Value],
    found: Sequence[ShapedArray],
    types: Sequence[ShapedArray],
    any_for_float0: bool = False,
) -> list[Value]:
    """The tangents that hold numbers, in the dtypes that are required.

    Args:
      what: for messages: "jvp: the tangent".
      given: what the user gave, flat.
      found: the types of that.
      types: what is required.
      any_for_float0: where float0 is required any dtype will do, as JAX has it for
        cotangents.

    Raises:
      DtypeError, ShapeError: one is of another type.
    """
    kept: list[Value] = []
    for value, got, aval in zip(given, found, types, strict=True):
        same = got.dtype == aval.dtype and same_size(got.shape, aval.shape)
        if same and holds_numbers(aval):
            kept.append(value)
            continue
        fits = dtypes.narrow(got.dtype) == dtypes.narrow(aval.dtype)
        if not fits and (holds_numbers(aval) or not any_for_float0):
            raise DtypeError(
                f"{what}: {aval!r} is required, got {got!r}; {_advice(value, aval)}"
            )
        if not same_size(got.shape, aval.shape):
            raise ShapeError(f"{what}: {aval!r} is required, got {got!r}")
        if not holds_numbers(aval):
            continue
        if type(value) in (float, complex):  # with all its bits
            value = Array.of(np.asarray(value, aval.dtype), True)
        else:
            value = bind(cast_p, value, arg=(aval.dtype, got.weak_type))
        kept.append(value)
    return kept


def _advice(value: Value, aval: ShapedArray) -> str:
    if not holds_numbers(aval):
        return f"write numpy.zeros({aval.shape}, ftrace.float0) for an integer or bool"
    if isinstance(value, (bool, int, float, complex)):
        return f"write ftrace.numpy.{aval.dtype}({value!r})"
    return f"convert it with .astype({str(aval.dtype)!r})"


def strong(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes, none of them weak but those that do not vary, which are zero."""
    return tuple([n if n.op is const_p else cast(n, n.dtype) for n in nodes])


def are_weak(values: Sequence[Value]) -> bool:
    """Are all of them weak? Then what is linear in them may be."""
    return all(aval_of(x).weak_type for x in values)


class ResidualGraph:
    """A graph of residuals, whose values are known, and of arguments."""

    def __init__(self, graph: Graph, residuals: Sequence[Value]) -> None:
        self.graph = graph
        self.residuals = residuals

    @cached_property
    def strong(self) -> Graph:
        """The graph, with results none of which is weak."""
        graph, outputs = self.graph, strong(self.graph.outputs)
        if outputs == graph.outputs:
            return graph
        return Graph(graph.inputs, outputs, graph.captured)

    @cached_property
    def closed(self) -> bool:
        """Does it use no traced values but the residuals?"""
        return not (self.graph.effects or has_free_variables(self.graph))

    def __call__(self, values: Sequence[Value]) -> list[Any]:
        graph = self.strong
        if graph is not self.graph and are_weak(values):
            graph = self.graph
        return apply_again(graph, [*self.residuals, *values])


@dataclass(frozen=True)
class GradValue:
    """An entry of `with_refs`: the cotangent is returned."""


@dataclass(frozen=True)
class DontWant:
    """An entry of `with_refs`: the cotangent is not wanted."""


class GradRef(NamedTuple):
    """What is returned in the place of a cotangent that a reference has got."""


class DidntWant(NamedTuple):
    """What is returned in the place of a cotangent that was not wanted."""


def _settle(cotangent: Any, entry: Any) -> Any:
    """What is returned for a cotangent, which a reference may get."""
    if isinstance(entry, Ref):
        entry.write(entry.read().at[...].add(cotangent))
        return GradRef()
    return DidntWant() if isinstance(entry, DontWant) else cotangent


class Linear:
    """A function that is linear in its arguments, with what it needs already computed.

    It is a container of these values, so that functions under `jit` take and return it.

    Args:
      name: of the transform, for messages.
      run: computes it where it holds numbers.
      types, in_tree: of the arguments.
      results, out_tree: of what it returns.
      single: it is called with one argument, of that structure; otherwise with several.
    """

    def __init__(
        self, name: str, run: Callable[[Sequence[Value]], list[Any]],
        types: Sequence[ShapedArray], in_tree: tree.TreeDef,
        results: Sequence[ShapedArray], out_tree: tree.TreeDef, single: bool,
    ) -> None:  # fmt: skip
        self.name = name
        self._what = f"{name}: the argument "
        self.run = run
        self.types = types
        self._numbers = [t for t in types if holds_numbers(t)]
        self._in_tree = in_tree
        self.results = results
        self._out_tree = out_tree
        self.single = single
        # Rules that run with values get numbers of Python's with all their bits.
        self._default = [default_bits(t) for t in results if holds_numbers(t)]
        self._has_exact = any(t not in results for t in self._default) and in_rule()

    def __repr__(self) -> str:
        taken = ", ".join(map(repr, self.types))
        given = ", ".join(map(repr, self.results))
        return f"<the linear function of {self.name}: {taken} -> {given}>"

    def __call__(self, *args: Any) -> Any:
        if self.single and len(args) != 1:
            raise ArgumentError(
                f"{self.name}: its function takes one argument, of the structure "
                f"{tree.readable(self._in_tree)}, got {len(args)}; write f((a, b)) "
                "for a tuple"
            )
        given = args[0] if self.single else args
        leaves, treedef = flatten_values(given, self._what)
        if treedef != self._in_tree:
            raise TreeError(
                f"{self.name}: the structure must be {tree.readable(self._in_tree)}, "
                f"got {tree.readable(treedef)}"
            )
        found = [aval_of(x) for x in leaves]
        if found != self._numbers:  # most are as required
            leaves = tangents_of(self.name, leaves, found, self.types, self.single)
        values = self.run(leaves)
        if self._has_exact and all(default_bits(t).dtype == t.dtype for t in found):
            values = [
                bind(cast_p, x, arg=(t.dtype, aval_of(x).weak_type))
                for x, t in zip(values, self._default, strict=True)
            ]
        results = with_float0(values, len(self.results), self.results)
        return tree.unflatten(self._out_tree, results)

    def with_refs(self, *entries: Any) -> Callable[..., Any]:
        """The function, of which some results are added to references.

        Args:
          entries: for each argument, or for parts of its tree: a `Ref`, to which its
            cotangent is added; GradValue(), it is returned; DontWant(), it is not.
        """

        def call(*args: Any) -> Any:
            return tree.map_prefix(_settle, self(*args), entries, "with_refs")

        return call

    def flatten(self) -> tuple[Sequence[Value], Any]:
        """The values that it holds, and all else; with rules of users it holds none."""
        run = self.run
        if not isinstance(run, ResidualGraph) or not run.closed:
            return (), self
        return run.residuals, (
            self.name, run.graph, tuple(self.types), self._in_tree,
            tuple(self.results), self._out_tree, self.single,
        )  # fmt: skip

    @staticmethod
    def unflatten(aux: Any, values: Iterable[Value]) -> Linear:
        """The same function of other values."""
        if isinstance(aux, Linear):
            return aux
        name, graph, *rest = aux
        return Linear(name, ResidualGraph(graph, list(values)), *rest)


tree.register_pytree_node(Linear, Linear.flatten, Linear.unflatten)
