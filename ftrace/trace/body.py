"""Bodies: the closed graphs that loops, branches and calls hold.

trace_body      a user's function -> BodyDraft: its graph, and what it took from outside
close           inputs, outputs -> Body with canonical variables
linearize       body -> what it must remember, and its derivative as a linear graph
transpose_body  body -> (what is constant, cotangents) -> cotangents
batch_body      body -> the same for a batch
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeVar

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.tables import memo
from ftrace.trace.autodiff import jvp_nodes, split_known, transpose_nodes
from ftrace.trace.avals import TOKEN, ShapedArray, Stack
from ftrace.trace.batching import batch_nodes, place_axis
from ftrace.trace.effects import check_repeatable, rehearsal
from ftrace.trace.evaluate import NumpyPlan
from ftrace.trace.flatten_arguments import put
from ftrace.trace.graph import Body, Node, dependents, lines_in, substitute, toposort
from ftrace.trace.primitives.elementwise import cast
from ftrace.trace.primitives.sources import is_variable, stand_ins, variable, zeros_like
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.scopes import Scope, returning
from ftrace.trace.tracing.tracer import Value

T = TypeVar("T")
F = TypeVar("F", bool, frozenset[Any])


def close(inputs: Sequence[Node], outputs: Sequence[Node]) -> Body:
    """The body with these inputs: variables, of which the outputs use no others."""
    names = stand_ins(inputs, "body")
    mapping = {old: new for old, new in zip(inputs, names, strict=True) if old != new}
    found = substitute(outputs, mapping) if mapping else outputs
    if settings.current().check_specs:
        check_closed(names, found)
    return Body(tuple(names), tuple(found))


def check_closed(inputs: Sequence[Node], outputs: Sequence[Node]) -> None:
    """Raises GraphError where outputs use variables that are no inputs."""
    own = set(inputs)
    for node in toposort(outputs):
        if is_variable(node) and node not in own:
            raise GraphError(f"a body uses {node!r}, which is none of its inputs")


def apply_body(body: Body, operands: Sequence[Node]) -> list[Node]:
    """The outputs of a body for these operands, as nodes of the graph around it."""
    return substitute(body.outputs, dict(zip(body.inputs, operands, strict=True)))


def check_types(what: str, wanted: Iterable[Node], got: Iterable[ShapedArray]) -> None:
    """Raises GraphError where types are not those of these nodes, but for weakness."""
    types = [(n.shape, n.dtype) for n in wanted]
    found = [(a.shape, a.dtype) for a in got]
    if not same_size(types, found):
        raise GraphError(f"{what}: {types} is required, got {found}")


@memo(1024)
def plan_of(body: Body) -> NumpyPlan:
    """The NumPy evaluation of a body: call it on one array per input."""
    return NumpyPlan(body.outputs, body.inputs)


@dataclass(frozen=True)
class BodyDraft:
    """A function that was traced to become a body.

    Attributes:
      arguments: its variables.
      outputs: what it returned.
      free: variables that stand for values of scopes around it.
      values: these values.
      effects: the tokens before and after its effects, or ().
      wide: positions of arguments that are weak scalars, of which it wanted all bits.
    """

    arguments: tuple[Node, ...]
    outputs: tuple[Node, ...]
    free: tuple[Node, ...]
    values: tuple[Value, ...]
    effects: tuple[Node, ...]
    wide: tuple[int, ...] = ()

    @staticmethod
    def of(
        scope: Scope, function: Callable[..., Sequence[Value]], tracers: Sequence[Value]
    ) -> BodyDraft:
        """What a function does in a scope, whose only inputs are these tracers."""
        outputs = tuple(scope.lift(x) for x in function(*tracers))
        count, inputs = len(tracers), tuple(scope.inputs)
        values = tuple(scope.imported)
        return BodyDraft(inputs[:count], outputs, inputs[count:], values, scope.tokens)


def trace_body(
    transform: str,
    function: Callable[..., Sequence[Value]],
    avals: Sequence[ShapedArray],
    given: Sequence[Value] = (),
    meant: Sequence[Value] = (),
) -> BodyDraft:
    """Traces a function that will run at times of its own: all it uses is an input.

    Args:
      given: what the first arguments stand for.
      meant: what they stand for at first, if that is not the same each time.
    """
    with returning(), Scope(transform, isolated=True) as scope:
        scope.exact, scope.arguments = True, len(avals)
        scope.meant = given or meant
        rows = zip_longest(avals, given)
        tracers = [scope.input(aval, None, value) for aval, value in rows]
        draft = BodyDraft.of(scope, function, tracers)
        if not scope.wide:
            return draft
        rounded = {
            wide: cast(tracers[i].node, wide.dtype, True)
            for i, wide in scope.wide.items()
        }
        return replace(
            draft,
            outputs=tuple(substitute(draft.outputs, rounded)),
            effects=tuple(substitute(draft.effects, rounded)),
            wide=tuple(scope.wide),
        )


class Linearized(NamedTuple):
    """The derivative of a body.

    Attributes:
      tangents: for each input the variable of its tangent; None where it has none.
      outputs: for each output its tangent, linear in these; None is zero.
      residuals: what the tangents need of the body's own values: nodes of the body.
    """

    tangents: tuple[Node | None, ...]
    outputs: tuple[Node | None, ...]
    residuals: tuple[Node, ...]

    @property
    def names(self) -> list[Node]:
        """The variables of the tangents that there are."""
        return [n for n in self.tangents if n is not None]

    @property
    def moving(self) -> tuple[bool, ...]:
        """Which inputs have tangents."""
        return tuple([n is not None for n in self.tangents])

    @property
    def wanted(self) -> tuple[int, ...]:
        """The outputs that have tangents."""
        return tuple([k for k, t in enumerate(self.outputs) if t is not None])

    @property
    def moved(self) -> list[Node]:
        """These tangents."""
        return [t for t in self.outputs if t is not None]


def linearize(body: Body, varying: tuple[bool, ...]) -> Linearized:
    """The derivative of a body in those inputs that vary."""
    return _linearize(body, varying, lines_in(body.outputs))


@memo(4096)
def _linearize(body: Body, varying: tuple[bool, ...], lines: Any) -> Linearized:
    tangents = tuple(
        _tangent_of(node, i) if varies and dtypes.is_inexact(node.dtype) else None
        for i, (node, varies) in enumerate(zip(body.inputs, varying, strict=True))
    )
    leaves = {
        node: tangent
        for node, tangent in zip(body.inputs, tangents, strict=True)
        if tangent is not None
    }
    outputs = tuple(
        None if t is None else _strong(t, node)
        for t, node in zip(jvp_nodes(body.outputs, leaves), body.outputs, strict=True)
    )
    moving = [t for t in outputs if t is not None]
    residuals = split_known(moving, list(leaves.values()))
    again = {n: rehearsal() for n in residuals if n.aval is TOKEN}
    if again:  # what is run again for its stacks has had its effects
        moving = substitute(moving, again)
        check_repeatable(moving)
        rest = iter(moving)
        outputs = tuple(None if t is None else next(rest) for t in outputs)
    kept = tuple(n for n in residuals if n not in again)
    return Linearized(tangents, outputs, kept)


def _tangent_of(node: Node, position: int) -> Node:
    aval = node.aval if isinstance(node.aval, Stack) else node.aval.strong()
    return variable(aval, "body_tangent", position)


def _strong(tangent: Node, primal: Node) -> Node:
    if isinstance(tangent.aval, Stack):
        return tangent
    return cast(tangent, primal.dtype)


def select(values: Sequence[T | None], flags: Sequence[bool]) -> list[T]:
    """The values whose flag is set, all of which there are."""
    return [x for x, f in zip(values, flags, strict=True) if f and x is not None]


def spread_results(
    count: int, places: Iterable[int], found: Iterable[T | None]
) -> list[T | None]:
    """So many results: these in their places, and None in the others."""
    return put([None] * count, places, found)


def spread(flags: Sequence[bool], found: Iterable[T | None]) -> list[T | None]:
    """The results for those whose flag is set, and None for the others."""
    return spread_results(
        len(flags), [i for i, flag in enumerate(flags) if flag], found
    )


def flow_around_loop(
    flags: Sequence[F], carry: range, step: Callable[[list[F]], tuple[T, Any]]
) -> tuple[list[F], T]:
    """Which inputs of a loop's body something holds of, once the carry has gone around.

    Args:
      flags: of which it holds at first; or a set of each, of what does.
      carry: the inputs whose next values are the first outputs.
      step: flags -> what is made for them, and of which outputs it holds then.

    Returns:
      The flags, and what was made for them.
    """
    current = list(flags)
    while True:
        made, has = step(current)
        before = list(current)
        for k, i in enumerate(carry):
            current[i] |= has[k]
        if current == before:
            return current, made


def varying_carry(body: Body, flags: Sequence[bool], carry: range) -> Linearized:
    """The derivative of a loop's body once the carry has gone around.

    Args:
      body: its first outputs are the next values of the inputs `carry`.
      flags: which inputs vary at first.
    """

    def step(current: list[bool]) -> tuple[Linearized, list[bool]]:
        found = linearize(body, tuple(current))
        return found, [t is not None for t in found.outputs]

    return flow_around_loop(flags, carry, step)[1]


def depends_on(nodes: Sequence[Node], leaves: Sequence[Node]) -> set[Node]:
    """Those of the nodes, and what is below them, that use one of the leaves."""
    return set(dependents(nodes, leaves))


def or_zeros(node: Node | None, like: Node) -> Node:
    """The node, or zeros in the type of another one."""
    return node if node is not None else strong_zeros(like)


def strong_zeros(like: Node) -> Node:
    assert not isinstance(like.aval, Stack), "an empty stack is no value"
    return zeros_like(like)


# Reverse mode.


def transpose_body(body: Body, linear: Sequence[bool], known: Sequence[bool]) -> Body:
    """(inputs in which it is not linear, cotangents) -> cotangents of the others.

    Args:
      linear: which inputs these are.
      known: which outputs have cotangents.
    """
    wanted = select(body.inputs, linear)
    constant = [n for n, flag in zip(body.inputs, linear, strict=True) if not flag]
    outputs = select(body.outputs, known)
    given = [variable(n.aval.strong(), "cotangent", i) for i, n in enumerate(outputs)]
    found = transpose_nodes(outputs, wanted, given)
    parts = [
        cast(or_zeros(ct, n), n.dtype) for ct, n in zip(found, wanted, strict=True)
    ]
    return close([*constant, *given], parts)


def transposed_operands(
    operands: Sequence[Node], linear: Sequence[bool], cotangents: Sequence[Node | None]
) -> list[Node]:
    """What a body of `transpose_body` is applied to."""
    constant = [x for x, flag in zip(operands, linear, strict=True) if not flag]
    return [*constant, *[ct for ct in cotangents if ct is not None]]


# Batching.


def with_lanes(node: Node, has: bool, wanted: bool, size: int) -> Node:
    """The node, repeated along a leading axis where it shall have one and has none."""
    return place_axis(node, False, 0, size) if wanted and not has else node


def with_axis(aval: ShapedArray, size: int) -> ShapedArray:
    """The type with one more leading axis; of a stack its elements."""
    if isinstance(aval, Stack):
        return Stack.of_element(with_axis(aval.element, size), aval.lanes)
    return aval.with_shape((size, *aval.shape))


def batched_types(
    avals: Sequence[ShapedArray], flags: Sequence[bool], size: int
) -> list[ShapedArray]:
    """The types, with one more leading axis where the flag is set."""
    pairs = zip(avals, flags, strict=True)
    return [with_axis(aval, size) if flag else aval for aval, flag in pairs]


def batched_inputs(body: Body, flags: Sequence[bool], size: int) -> list[Node]:
    """The inputs of a body; with one more leading axis where the flag is set."""
    return [
        variable(with_axis(n.aval, size), "batch", i) if flag else n
        for i, (n, flag) in enumerate(zip(body.inputs, flags, strict=True))
    ]


def batch_body(
    body: Body, flags: Sequence[bool], size: int, wanted: Sequence[bool] = ()
) -> tuple[Body, list[bool]]:
    """A body whose inputs have one more leading axis where the flag is set.

    Args:
      wanted: which of its first outputs have that axis in any case.

    Returns:
      It, and which of its outputs have that axis.
    """
    inputs = batched_inputs(body, flags, size)
    leaves = {n: b for n, b, f in zip(body.inputs, inputs, flags, strict=True) if f}
    outputs = batch_nodes(body.outputs, leaves, size)
    for k, also in enumerate(wanted):
        node, has = outputs[k]
        outputs[k] = with_lanes(node, has, also, size), has or also
    return close(inputs, [n for n, _ in outputs]), [has for _, has in outputs]


def widen(body: Body, flags: Sequence[bool], size: int) -> Body:
    """`batch_body`, all of whose results have the axis."""
    return batch_body(body, flags, size, [True] * len(body.outputs))[0]


def batch_carry(
    body: Body, batched: Sequence[bool], carry: range, size: int
) -> tuple[list[bool], Body, list[bool]]:
    """A loop's body for batched inputs, once the carry has gone around.

    Returns:
      Which inputs are batched then; and as `batch_body`, where the outputs of the carry
      are as its inputs.
    """

    def step(flags: list[bool]) -> tuple[tuple[Body, list[bool]], list[bool]]:
        found = batch_body(body, flags, size, [flags[i] for i in carry])
        return found, found[1]

    flags, (made, has) = flow_around_loop(batched, carry, step)
    return flags, made, has
