"""What a jitted function has been called with before, found without optree.

    Jitted -> Known, one per structure of arguments and configuration
           -> Call, one per types of the leaves: how it becomes native
           -> Ready: the program and the result's layout

Whatever is not found here takes the long way, which has all the messages.
"""

# This is the path of every call: the properties of an Array would cost as much again.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ftrace.arrays.array import Array, is_array
from ftrace.devices.base import Bound, Device, Expected, Fixed, Signature
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.settings import Config
from ftrace.ground.tables import Entry, Table
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Graph
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.structure_cache import (
    Container,
    Finder,
    Part,
    build,
    layout_of,
)
from ftrace.trace.pytree.tree import TreeDef
from ftrace.trace.symbolic.bounds import Sizes
from ftrace.trace.tiering import CALLS_BEFORE_BOUND
from ftrace.trace.tracing.scopes import as_input, asarray
from ftrace.trace.tracing.tracer import aval_of
from ftrace.trace.tracing.weak_constants import is_exact
from ftrace.transforms.flatten_arguments import Output
from ftrace.transforms.jit.compiled_graph import CompiledGraph, compile_graph

#: Structures of arguments that a function keeps.
STRUCTURES_KEPT = 8
#: Signatures of a function that are kept whatever they weigh.
SIGNATURES_KEPT = 64
#: Bytes of what is kept for one, besides its graph and its program, and of a class of
#: containers, which lives as long: measured with 6,000 of each, on Linux.
SIGNATURE_BYTES, CLASS_BYTES = 3600, 5600
#: Leaves that are no arrays of ours, and nothing that could hold leaves.
_PLAIN = frozenset((np.ndarray, float, int, bool, complex))


@dataclass(eq=False)
class Call:
    """Calls of one kind, which become native where they come often and it can be.

    Attributes:
      ready: what runs.
      left: so many more come before that is decided; then less than 0.
      bound: the native call, while it is one of the latest of what is called.
    """

    ready: Ready
    left: int = CALLS_BEFORE_BOUND
    bound: Bound | None = None


@dataclass(eq=False)
class Ready:
    """What runs for certain types of the leaves.

    Attributes:
      compiled: the program, on a device of the host.
      captured: the arrays that it takes besides.
      output: how the result is built.
      layout: the same, quickly, if its structure has one.
      donated: the numbers of the leaves that the caller gives up.
      exact: of leaves that the program takes at 64 bits, number and type.
      entry: it, in the table of a function.
      places: where it is found without optree, and under which types.
    """

    compiled: CompiledGraph
    captured: tuple[Array, ...]
    output: Output
    layout: Part | None
    donated: tuple[int, ...]
    exact: tuple[tuple[int, ShapedArray], ...]
    entry: Entry[Ready] | None = None
    places: list[tuple[Known, tuple[Any, ...]]] = field(
        default_factory=list[tuple["Known", tuple[Any, ...]]]
    )

    @staticmethod
    def of(
        graph: Graph, device: Device, donated: tuple[int, ...], output: Output
    ) -> Ready:
        """A graph, ready to be compiled, compiled for a device."""
        assert output.treedef is not None
        compiled = compile_graph(graph, device, donated)
        layout = layout_of(output.treedef)
        leaves = graph.inputs[: len(graph.inputs) - len(graph.captured)]
        captured = tuple(graph.captured)
        exact = tuple([(i, n.aval) for i, n in enumerate(leaves) if is_exact(n.aval)])
        return Ready(compiled, captured, output, layout, donated, exact)

    def arrays(self, values: Sequence[Any]) -> list[Array]:
        """The leaves as the program takes them."""
        if not self.exact:
            return [x if type(x) is Array else asarray(x) for x in values]
        exact = dict(self.exact)
        return [
            as_input(x, exact[i]) if i in exact else asarray(x)
            for i, x in enumerate(values)
        ]

    def run(self, values: Sequence[Any], sizes: Sizes | None = None) -> list[Array]:
        """The results for the leaves."""
        arrays = self.arrays(values)
        if self.compiled.shares_inputs:  # NumPy may change what a result would share
            arrays = [owned(x, a) for x, a in zip(values, arrays, strict=True)]
        return self.compiled([*arrays, *self.captured], sizes)

    def build(self, results: list[Array]) -> Any:
        """The function's result."""
        if self.layout is None:
            return self.output.build(results)
        return build(self.layout, results)

    def _calls(self) -> list[tuple[Known, tuple[Any, ...], Call]]:
        found = [(k, types, k.calls.get(types)) for k, types in self.places]
        return [(k, t, c) for k, t, c in found if c is not None and c.ready is self]

    def is_native(self) -> bool:
        """May native calls run it? They do not tell when."""
        return any(call.bound is not None for _, _, call in self._calls())

    def forget(self) -> None:
        """From now on it is nowhere found."""
        for known, types, _ in self._calls():
            known.calls.pop(types, None)


def owned(value: Any, array: Array) -> Array:
    """The array; a copy where NumPy may change it."""
    if not isinstance(value, np.ndarray):
        return array
    return Array.of(np.array(array.numpy(), order="C"))


def signatures() -> Table[Any, Ready]:
    """What runs for the signatures of one function."""
    return Table(
        latest=SIGNATURES_KEPT,
        is_needed=Ready.is_native,
        forgotten=lambda _, ready: ready.forget(),
        own=True,
    )


@dataclass(eq=False)
class Known:
    """Arguments of one structure, under one configuration.

    Attributes:
      config: the configuration.
      static: the static arguments, as a key.
      treedef: the structure of the others.
      finder: finds their leaves.
      calls: by the types of the leaves.
    """

    config: Config
    static: Any
    treedef: TreeDef
    finder: Finder
    calls: dict[tuple[Any, ...], Call] = field(
        default_factory=dict[tuple[Any, ...], Call]
    )

    @staticmethod
    def of(config: Config, static: Any, treedef: TreeDef) -> Known | None:
        """None if arguments of this structure have no layout."""
        root = layout_of(treedef)
        if not isinstance(root, Container):
            return None
        return Known(config, static, treedef, Finder(root))

    def has_order_of(self, treedef: TreeDef) -> bool:
        """Is a structure this one, also in the order of the keys of dicts?"""
        if treedef != self.treedef:
            return False
        example = tree.unflatten(treedef, range(treedef.num_leaves))
        return self.finder.leaves(example) is not None

    def is_for(self, config: Config, static: Any) -> bool:
        return (self.config is config or self.config == config) and (
            self.static is static or self.static == static
        )

    def bind(
        self,
        ready: Ready,
        types: tuple[Any, ...],
        leaves: Sequence[Any],
        names: Sequence[str],
    ) -> Bound | None:
        """Calls of this kind without Python's code, where the device can do them.

        Args:
          leaves, types: those of one such call.
          names: of the arguments that are given by name, in this order.
        """
        if ready.layout is None:
            return None
        rest, others = self.finder.root.children
        assert isinstance(rest, Container)
        assert isinstance(others, Container)
        assert others.keys is not None
        parts: dict[int | str, Expected] = dict(zip(others.keys, others.children))  # noqa: B905
        count, fixed = len(rest.children), tuple[Any, ...]()
        if self.static is not None:
            count, fixed = self.static
        parts.update((place, Fixed(value)) for place, _, value in fixed)
        remaining = iter(rest.children)
        positional = [parts[i] if i in parts else next(remaining) for i in range(count)]
        kinds: list[type[Any]] = [x.__class__ for x in leaves]
        avals = [*types]
        for i, aval in ready.exact:
            avals[i] = aval
        signature = Signature(
            self.config,
            tuple(positional),
            {name: parts[name] for name in names},
            tuple(zip(kinds, avals, strict=True)),
            ready.captured,
            tuple([i for i in ready.donated if kinds[i] is Array]),
            ready.compiled.overwritten,
            ready.layout,
            tuple(ready.compiled.avals),
        )
        return ready.compiled.executable.bind(signature)


def types_of(leaves: Sequence[Any]) -> tuple[Any, ...] | None:
    """The types of leaves; None if one is traced, or perhaps no leaf at all."""
    try:
        return tuple([x._aval for x in leaves])
    except AttributeError:  # some are no arrays, or have not been asked before
        pass
    for x in leaves:
        if type(x) not in _PLAIN and not is_array(x) and not isinstance(x, np.generic):
            return None
    return tuple([aval_of(x) for x in leaves])


def is_on_host(leaves: Sequence[Any]) -> bool:
    """Are all arrays among them in the host's memory?"""
    for x in leaves:
        if type(x) is Array:
            buffer = x._buffer
            if buffer is not None and not buffer.device.host:
                return False
    return True
