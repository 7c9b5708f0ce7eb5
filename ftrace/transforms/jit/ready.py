"""What a jitted function has become for one signature: traced, and ready to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.backends.base import Device, Expected, Fixed, Signature
from ftrace.errors.user_line import warn_user
from ftrace.ground.fast_dataclasses import OfProcess, dataclass
from ftrace.ground.settings import Config
from ftrace.trace.arrays.array import Array, is_array
from ftrace.trace.avals import ShapedArray
from ftrace.trace.eager.dispatch import Record
from ftrace.trace.flatten_arguments import Output
from ftrace.trace.graph import Graph, toposort
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import Container, layout_of
from ftrace.trace.symbolic.bounds import Sizes
from ftrace.trace.tiering import Tally
from ftrace.trace.tracing.scopes import as_input, asarray
from ftrace.trace.tracing.tracer import aval_of
from ftrace.trace.tracing.weak_constants import is_exact
from ftrace.transforms.jit import argument_kinds as arguments
from ftrace.transforms.jit.compiled_graph import CompiledGraph, compile_graph


@dataclass(eq=False)
class OneTrace(OfProcess):
    """A function traced for one signature.

    Attributes:
      graph: what it computes.
      output: the structure of its result.
      closed: it uses no tracers of transforms around it.
      nbytes: what it weighs without its programs.
      programs: what runs it, by device and settings of compilation.
    """

    graph: Graph
    output: Output
    closed: bool
    nbytes: int = 0
    programs: dict[Any, Ready] = field(default_factory=dict[Any, Any])


@dataclass(eq=False)
class Ready:
    """What runs for one signature.

    Attributes:
      compiled: the program.
      captured: the arrays that it takes besides the leaves.
      output: how the result is built.
      donated: the numbers of the leaves that the caller gives up.
      exact: of leaves that the program takes at 64 bits, number and type.
      hollow: the results of dtype float0, which are arrays of NumPy, as in `grad`.
      unbound: calls in Python, before those like them become native; None where no
        more of them do.
      records: of native calls, one for each kind of leaves.
    """

    compiled: CompiledGraph
    captured: tuple[Array, ...]
    output: Output
    donated: tuple[int, ...]
    exact: tuple[tuple[int, ShapedArray], ...]
    hollow: tuple[int, ...] = ()
    unbound: Tally | None = None
    records: list[Record] = field(default_factory=list[Record])

    @staticmethod
    def of(
        graph: Graph, device: Device, donated: tuple[int, ...], output: Output
    ) -> Ready:
        """A graph, ready to be compiled, compiled for a device."""
        if donated:
            _tell_of_useless(graph, donated)
        compiled = compile_graph(graph, device, donated)
        leaves = graph.inputs[: len(graph.inputs) - len(graph.captured)]
        captured = tuple(graph.captured)
        exact = tuple([(i, n.aval) for i, n in enumerate(leaves) if is_exact(n.aval)])
        hollow = [i for i, a in enumerate(compiled.avals) if a.dtype == dtypes.float0]
        return Ready(compiled, captured, output, donated, exact, (*hollow,), Tally())

    def arrays(self, values: Sequence[Any]) -> list[Array]:
        """The leaves as the program takes them."""
        if not self.exact:
            return [x if type(x) is Array else asarray(x) for x in values]
        exact = dict(self.exact)
        return [
            as_input(x, exact[i]) if i in exact else asarray(x)
            for i, x in enumerate(values)
        ]

    def run(self, values: Sequence[Any], sizes: Sizes | None = None) -> Any:
        """The function's result for the leaves; donated arrays are deleted."""
        given = self.arrays(values)
        if self.compiled.shares_inputs:  # NumPy may change what a result would share
            given = [owned(x, a) for x, a in zip(values, given, strict=True)]
        for i in self.donated:  # one that is given twice is copied
            if any(x is given[i] for k, x in enumerate(given) if k != i):
                given[i] = Array.of(np.array(given[i].numpy()), given[i].weak_type)
            given[i] = owned(values[i], given[i])
        try:
            results: list[Any] = self.compiled([*given, *self.captured], sizes)
        finally:
            for i in self.donated:
                value = values[i]
                if is_array(value):
                    value.delete()
        for i in self.hollow:
            results[i] = results[i].numpy()
        return self.output.build(results)

    def bind(
        self,
        config: Config,
        static: Any,
        treedef: tree.TreeDef,
        leaves: Sequence[Any],
        names: Sequence[str],
    ) -> Record | None:
        """Calls like this one without Python's code, where the device can do them.

        Args:
          static, treedef, leaves: the arguments of the call.
          names: of those that are given by name, in this order.
        """
        assert self.output.treedef is not None
        result, root = layout_of(self.output.treedef), layout_of(treedef)
        if result is None or not isinstance(root, Container) or self.hollow:
            return None
        rest, others = root.children
        assert isinstance(rest, Container)
        assert isinstance(others, Container)
        assert others.keys is not None
        by_name: dict[str, Expected] = dict(zip(others.keys, others.children))  # noqa: B905
        if static is not None:
            count, fixed = static
            static = count, [(place, kind, Fixed(x)) for place, kind, x in fixed]
        positional, parts = arguments.join((rest.children, by_name), static)
        kinds: list[type[Any]] = [x.__class__ for x in leaves]
        avals = [aval_of(x) for x in leaves]
        for i, aval in self.exact:
            avals[i] = aval
        signature = Signature(
            config,
            tuple(positional),
            {name: parts[name] for name in names},
            tuple(zip(kinds, avals, strict=True)),
            self.captured,
            tuple([i for i in self.donated if kinds[i] is Array]),
            self.compiled.overwritten,
            result,
            tuple(self.compiled.avals),
        )
        return self.compiled.executable.bind(signature)


def _tell_of_useless(graph: Graph, donated: tuple[int, ...]) -> None:
    """Warns of donated leaves that are used, and that no result is as large as."""
    used = {*toposort(graph.outputs)} & {graph.inputs[i] for i in donated}
    given = Counter([n.aval.strong() for n in graph.inputs if n in used])
    useless = given - Counter([n.aval.strong() for n in graph.outputs])
    if useless:
        warn_user(
            f"Some donated buffers were not usable: {[*useless.elements()]}. No result "
            "of this shape and dtype is left to take them; do not donate them"
        )


def owned(value: Any, array: Array) -> Array:
    """The array; a copy where NumPy may change it."""
    if not isinstance(value, np.ndarray):
        return array
    return Array.of(np.array(array.numpy(), order="C"))
