"""Where a NaN or an infinity came from: the first operation that made one.

A graph is evaluated once more by NumPy, and each step looked at as it is done, those of
loops and branches too: the first one whose result holds what no operand held is it.

    sub made nan of inf and inf at element (2,) of its result, f32[3]
      at File "train.py", line 9, in loss …
    before it div made inf of 1.0 and 0.0 at element (2,) of its result, f32[3]
      at File "train.py", line 7, in loss …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.errors import NonFiniteError, Origin
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.text_tables import Shown
from ftrace.trace.evaluate import NumpyPlan, current_iterations, observe
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives.primitive import compound_of, item_p
from ftrace.trace.primitives.sources import const_p, is_variable
from ftrace.trace.symbolic import same_size

_NDARRAY: type[Any] = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class NonFinite(Shown):
    """An operation that made a NaN or an infinity.

    Attributes:
      name: of the operation.
      value: what it made.
      index: of the first element that is so.
      type: of its result, as text.
      operands: what it made that of: the elements at that place, where shapes agree.
      origin: the user's line; of a step of a derivative that of the function's step.
      sources: the lines that made the operands.
      before: the operation that made the infinity, where a NaN was made of one.
      holder: what holds it already, where no operation made it: an argument by its
        name, or one without.
      iterations: of the loops in which it stands, the outermost first: the loop's
        operation and the number of the iteration, from 0.
    """

    name: str
    value: Any
    index: tuple[int, ...]
    type: str
    operands: tuple[Any, ...]
    origin: Origin | None
    sources: tuple[Origin, ...] = ()
    before: NonFinite | None = None
    holder: str = ""
    iterations: tuple[tuple[str, int], ...] = ()

    @property
    def summary(self) -> str:
        """In one line, without the places in the source."""
        of = f" of {' and '.join(map(str, self.operands))}" if self.operands else ""
        place = f" at element {self.index}" if self.index else ""
        held = f"{self.holder} is not finite; first met: " if self.holder else ""
        made = f"{self.name} made {self.value}{of}{place} of its result, {self.type}"
        steps = [f", in {name} at iteration {n}" for name, n in self.iterations]
        return f"{held}{self._derived}{made}{''.join(steps)}"

    @property
    def _derived(self) -> str:
        """What it is the derivative of, if it is of one."""
        if self.origin is None or self.origin.derived_at is None:
            return ""
        name = self.origin.called.removesuffix("_backward")
        way = "" if name == self.origin.called else " (backward)"
        return f"the derivative of {name}{way}: "

    def __str__(self) -> str:
        lines = [self.summary]
        if self.origin is not None:
            lines.append(f"  at {self.origin.describe()}")
        shown = {str(self.origin)}
        taken = self.origin and self.origin.derived_at
        places = [("from", source) for source in self.sources]
        for what, place in [
            *places,
            *([("derivative taken at", taken)] if taken else []),
        ]:
            if str(place) not in shown:
                lines.append(f"  {what} {place.describe()}")
            shown.add(str(place))
        return "\n".join(lines) + (f"\nbefore it {self.before}" if self.before else "")


def is_nonfinite(value: Any) -> bool:
    """Is it an array that holds a NaN or an infinity?"""
    inexact = isinstance(value, _NDARRAY) and dtypes.is_inexact(value.dtype)
    return inexact and not np.isfinite(value).all()


class _Watch:
    """The first steps that made something: an infinity, and a NaN; or that met one."""

    def __init__(self) -> None:
        self.infinity: NonFinite | None = None
        self.nan: NonFinite | None = None
        self.met: NonFinite | None = None

    def __call__(self, node: Node, operands: Sequence[Any], value: Any) -> None:
        if self.nan is not None or compound_of(node) or node.op is const_p:
            return
        if not is_nonfinite(value):
            return
        nans, places = np.isnan(value), ~np.isfinite(value)
        held = [x for x in operands if is_nonfinite(x)]
        if nans.any() and not any(np.isnan(x).any() for x in held):
            before = self.infinity if held else None
            self.nan = _make_error(node, operands, value, nans, before)
        elif self.infinity is None and not held:
            self.infinity = _make_error(node, operands, value, places)
        elif self.met is None:
            self.met = _make_error(node, operands, value, places)


def _make_error(
    node: Node, operands: Sequence[Any], value: Any, places: Any,
    before: NonFinite | None = None,
) -> NonFinite:  # fmt: skip
    index = tuple(map(int, np.argwhere(places)[0]))
    elements: list[Any] = []
    same = all(same_size(s.shape, node.shape) for s in node.src)
    if same and node.op is not item_p:  # NumPy has not repeated all of them
        elements = [np.broadcast_to(x, value.shape)[index] for x in operands]
    made = [s for s in node.src if not is_variable(s)]
    sources = [s.origin for s in made if s.origin is not None]
    op = node.src[0].op if node.op is item_p else node.op
    return NonFinite(
        op.name, value[index], index, repr(node.aval), tuple(elements),
        node.origin, tuple(sources), before, iterations=current_iterations(),
    )  # fmt: skip


def first_nonfinite(
    graph: Graph, operands: Sequence[Any], names: Sequence[str] = ()
) -> NonFinite | None:
    """The first operation that made a NaN, or else an infinity.

    Where arguments or constants hold it already, the first one that met it. None where
    all results are finite.

    Args:
      graph: of pure operations.
      operands: arrays of NumPy's, one per input.
      names: of the first of them, for messages.
    """
    watch = _Watch()
    with observe(watch):
        results = NumpyPlan(graph.outputs, graph.inputs)(operands)
    if not any(map(is_nonfinite, results)):
        return None
    if watch.met is None or watch.nan or watch.infinity:
        return watch.nan or watch.infinity
    named = zip(names, operands, strict=False)
    held = [f"the argument {name}" for name, x in named if is_nonfinite(x)]
    return replace(watch.met, holder=(*held, "an argument or a constant")[0])


# The settings that want to know.


def find_nonfinite(value: Any) -> str:
    """What the settings refuse among the elements: "nan", "inf", or "" for nothing."""
    config = settings.current()
    if not isinstance(value, _NDARRAY) or not dtypes.is_inexact(value.dtype):
        return ""
    if config.debug_nans and np.isnan(value).any():
        return "nan"
    return "inf" if config.debug_infs and np.isinf(value).any() else ""


def check_program(
    graph: Graph, operands: Sequence[Any], results: Sequence[Any]
) -> None:
    """Raises where a program gave a NaN; the operation that did so first is named.

    Args:
      graph: what was compiled.
      operands: arrays of NumPy's, one per input; none where they are there no more.
      results: likewise.

    Raises:
      NonFiniteError: it did.
    """
    found = next((kind for x in results if (kind := find_nonfinite(x))), "")
    if not found:
        return
    ops = map(compound_of, graph.nodes)
    repeats = len(operands) > 0 and all(op is None or op.pure for op in ops)
    made = first_nonfinite(graph, operands) if repeats else None
    if made is not None:
        cause = f"{made.summary}; debug_{found}s is set"
        if made.before is not None:
            cause += f"; before it {made.before.summary}, at {made.before.origin}"
        raise NonFiniteError(
            f"invalid value ({found}) encountered in {made.name}: {cause}", made.origin
        )
    raise NonFiniteError(
        f"invalid value ({found}) encountered in a program, whose operations are not "
        f"done one by one; debug_{found}s is set"
    )
