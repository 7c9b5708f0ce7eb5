"""Checks in functions that are traced: whether they failed is a result.

    check(x > 0, "got {x}", x=x)     an effect of the graph, which raises where it runs
    checkify(f)(x)                   (error, f(x)): the same graph without it

The graph that `checkify` makes carries a number along, that of the first check that
failed, 0 for none, through branches and loops; beside it what the messages tell. The
checks of NaN, of divisors and of indices are put into the graph where their operations
stand.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, product
from typing import Any

import numpy as np

from ftrace import dtypes, numpy as fnp
from ftrace.errors import ArgumentError, FtraceError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import graph as g
from ftrace.trace.arrays.array import ArrayLike
from ftrace.trace.body import close, trace_body
from ftrace.trace.calls.rule_graphs import Call
from ftrace.trace.control.conditional import Branches, While, cond_p, while_p
from ftrace.trace.control.scan import scan_p
from ftrace.trace.eager.checked_calls import without_checks
from ftrace.trace.effects import call_back, callback_p
from ftrace.trace.flatten_arguments import Output, put, wraps
from ftrace.trace.graph import Body, Graph, Node
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives.primitive import compound_of, items
from ftrace.trace.primitives.sources import const, stand_ins
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import Scope, current_scope, open_scopes
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of, is_value
from ftrace.transforms.jit.compiled_graph import apply_graph
from ftrace.transforms.jit.jit import disable_jit
from ftrace.tree_util import register_dataclass

__all__ = [
    "Error", "ErrorCategory", "JaxRuntimeError", "all_checks", "automatic_checks",
    "check", "check_error", "checkify", "debug_check", "div_checks", "float_checks",
    "index_checks", "init_error", "nan_checks", "user_checks",
]  # fmt: skip


class JaxRuntimeError(FtraceError, ValueError):
    """A check failed."""


class JaxException(Exception):
    """What went wrong; its text is the message."""


class FailedCheckError(JaxException):
    """A `check` failed."""


class NaNError(JaxException):
    """An operation gave NaN."""


class DivisionByZeroError(JaxException):
    """A divisor was zero."""


class OOBError(JaxException):
    """An index was out of bounds."""


ErrorCategory = type[JaxException]

user_checks = frozenset({FailedCheckError})
nan_checks = frozenset({NaNError})
div_checks = frozenset({DivisionByZeroError})
index_checks = frozenset({OOBError})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


@dataclass(frozen=True)
class Site:
    """A check in a program.

    Attributes:
      category: of its error.
      message: a text with places for values.
      treedef: of the values: (args, kwargs).
    """

    category: ErrorCategory
    message: str
    treedef: Any

    def error(self, payload: Sequence[Any]) -> JaxException:
        args, kwargs = tree.unflatten(self.treedef, payload)
        return self.category(string.Formatter().vformat(self.message, args, kwargs))


@partial(
    register_dataclass, data_fields=("_code", "_payloads"), meta_fields=("_sites",)
)
class Error:
    """Whether a check failed, and which was the first.

    It is a tree of arrays, and goes through `jit`, `vmap` and the like.
    """

    def __init__(self, code: Any, payloads: Sequence[Any], sites: tuple[Site, ...]):
        self._code = code
        self._payloads = [*payloads]
        self._sites = sites

    def get(self) -> str | None:
        """The message of the first check that failed; None if none did."""
        found = self.get_exception()
        return None if found is None else str(found)

    def get_exception(self) -> JaxException | None:
        """The same as an exception."""
        code = np.asarray(self._code)
        if code.dtype == dtypes.float0:  # a tangent of an error: there is none
            return None
        found: list[tuple[Any, JaxException]] = []
        for place in product(*map(range, code.shape)):
            if number := int(code[place]):
                values = [fnp.asarray(x)[place] for x in self._payloads[number - 1]]
                found.append((place, self._sites[number - 1].error(values)))
        if not found:
            return None
        if not code.ndim:
            return found[0][1]
        lines = [f"at mapped index {', '.join(map(str, p))}: {e}" for p, e in found]
        return type(found[0][1])("\n".join(lines))

    def throw(self) -> None:
        """Raises a `JaxRuntimeError` if a check failed; traced, it is checked."""
        check_error(self)

    def __str__(self) -> str:
        return f"Error({self.get()})"

    __repr__ = __str__


init_error = Error(np.int32(0), (), ())


class _Check:
    """What a check calls where nobody has made a result of it."""

    def __init__(self, site: Site, debug: bool = False) -> None:
        self.site = site
        self.debug = debug

    def __call__(self, failed: Any, *payload: Any) -> None:
        if not self.debug and np.any(failed):
            raise JaxRuntimeError(str(self.site.error([*map(fnp.asarray, payload)])))


def check(
    pred: Value, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any
) -> None:
    """Fails with a message unless `pred` holds.

    Under `checkify` the failure is a result; elsewhere it is raised, in a compiled
    program where that runs.

    Args:
      pred: a scalar bool.
      msg: a text, with places as `str.format` has them.
      fmt_args, fmt_kwargs: trees of arrays for these places.
      debug: without `checkify` it does nothing.

    Raises:
      ArgumentError: `pred` is no scalar, or a value for the message is no array.
      JaxRuntimeError: it does not hold.
    """
    name = "debug_check" if debug else "check"
    aval = aval_of(pred) if is_value(pred) else None
    if aval is None or aval.shape != () or aval.dtype != dtypes.bool_:
        raise ArgumentError(
            f"{name} takes a scalar pred of bool as argument, got {pred!r:.60}; compare"
        )
    leaves, treedef = tree.flatten((fmt_args, fmt_kwargs))
    for leaf in leaves:
        if not isinstance(leaf, (ArrayLike, np.ndarray, np.generic)):
            raise ArgumentError(
                f"Formatting arguments to {name} need to be arrays, got "
                f"{type(leaf).__name__}: {leaf!r:.60}; put it into the message"
            )
    site = Site(FailedCheckError, f"{msg} (`check` failed)", treedef)
    _record(_Check(site, debug), fnp.logical_not(pred), leaves)


def debug_check(pred: Value, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """`check`, which does nothing without `checkify`.

    Args:
      pred: a scalar bool.
      msg: a text, with places as `str.format` has them.
      *fmt_args, **fmt_kwargs: trees of arrays for these places.
    """
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """Fails as the check did that failed in `error`, if one did.

    Raises:
      ArgumentError: it is no error.
      JaxRuntimeError: as `check`.
    """
    given: Any = error
    if not isinstance(given, Error):
        raise ArgumentError(
            f"check_error takes an Error that checkify returned, got {given!r:.60}"
        )
    code = error._code  # pyright: ignore[reportPrivateUsage]
    if not isinstance(code, Tracer) and not _under_checkify():
        found = error.get_exception()
        if found is not None:
            raise JaxRuntimeError(str(found))
        return
    rows = zip(error._payloads, error._sites, strict=True)  # pyright: ignore[reportPrivateUsage]
    for number, (payload, site) in enumerate(rows, 1):
        failed = fnp.ravel(code == number)
        lane = fnp.argmax(failed)
        values = [x.reshape(failed.size, *x.shape[len(code.shape) :])[lane]
                  for x in map(fnp.asarray, payload)]  # fmt: skip
        _record(_Check(site), failed.any(), values)


def _under_checkify() -> bool:
    return any(s.transform == "checkify" for s in open_scopes())


def _record(made: _Check, failed: Any, payload: Sequence[Any]) -> None:
    args = (failed, *payload)
    call_back("check", made, None, args, {}, staged=_under_checkify())


def checkify(
    f: Callable[..., Any], errors: frozenset[ErrorCategory] = user_checks
) -> Callable[..., tuple[Error, Any]]:
    """`f`, which returns whether a check failed, and its result.

    Args:
      f: a function of arrays; other arguments are passed on.
      errors: which checks: `user_checks` are those that `check` writes; `nan_checks`
        hold of all that computes floats, `div_checks` of divisors, `index_checks` of
        arrays as indices; sets are joined by `|`.

    Returns:
      (*args, **kwargs) -> (error, result). `error.get()` is the message of the first
      check that failed, or None; `error.throw()` raises.

    Example:
      >>> from ftrace.experimental import checkify
      >>> def root(x):
      ...     checkify.check(x >= 0, "the root of {x}", x=x)
      ...     return fnp.sqrt(x)
      >>> error, y = ft.jit(checkify.checkify(root))(-1.0)
      >>> print(error.get())
      the root of -1.0 ...
    """
    tree.check_callable(f, "checkify")
    wanted = frozenset(errors)

    @wraps(f)
    def run(*args: Any, **kwargs: Any) -> tuple[Error, Any]:
        leaves, treedef = tree.flatten((args, kwargs))
        places = [i for i, x in enumerate(leaves) if is_value(x)]
        values = [leaves[i] for i in places]

        def call(*given: Any) -> Any:
            scope = current_scope()
            assert scope is not None
            if OOBError in wanted:
                scope.index_check = _check_indices
            mine, named = tree.unflatten(treedef, put(leaves, places, given))
            return f(*mine, **named)

        output = Output(call, "checkify", False)
        avals = [aval_of(x) for x in values]
        # A jitted function that was traced before would not tell of its indices.
        with disable_jit() if OOBError in wanted else nullcontext():
            graph = trace("checkify", output, avals, values)
        walk = _Walk(wanted)
        types = [n.aval for n in graph.inputs]
        made = trace("checkify", lambda *xs: walk.run(graph, xs), types)
        found = apply_graph(made, [*values, *graph.captured])
        count = len(graph.outputs)
        state = found[count:]
        payloads = [state[slot] for slot in walk.slots]
        error = Error(state[0], payloads, tuple(walk.sites))
        return error, output.build(found[:count])

    return run


@without_checks
def _check_indices(found: Sequence[tuple[Any, int, int]], shape: Any) -> None:
    """A check that positions lie within their axes: see `tell_of_indices`."""
    rows = fnp.broadcast_arrays(*[fnp.asarray(at) for at, _, _ in found])
    if not rows or not rows[0].size:
        return
    places = fnp.stack(rows, -1)
    limits = np.array([limit for _, _, limit in found])
    outside = fnp.ravel((places < 0) | (places >= limits))
    # By one-hot sums: to index with them would be checked again.
    here = fnp.arange(outside.size) == fnp.argmax(outside)
    axes = np.resize([axis for _, axis, _ in found], outside.size)
    sizes = np.resize([shape[axis] for _, axis, _ in found], outside.size)
    message = (
        f"out-of-bounds indexing for array of shape {shape}: index {{}} is out of "
        "bounds for axis {} with size {}. "
    )
    site = Site(OOBError, message, tree.structure(((0, 0, 0), {})))
    rows = (fnp.ravel(places), axes, sizes)
    positions = [fnp.where(here, row, 0).sum() for row in rows]
    _record(_Check(site), outside.any(), positions)


# The graph without checks.

#: Families of operations that compute, and so may give NaN.
_COMPUTES = ("unary", "binary", "reduction", "host")


#: The structure of no values.
_NOTHING = tree.structure(((), {}))
#: The number of the first failure so far, and what the messages of all checks tell.
_State = list[Any]
#: From a scope, the state and inputs, as nodes, to outputs.
_Run = Callable[[Scope, _State, list[Node]], list[Node]]


def _check_of(node: Node) -> _Check | None:
    called = node.arg.function.value if node.op is callback_p else None
    return called if isinstance(called, _Check) else None


def _nodes_within(outputs: Sequence[Node]) -> Iterator[Node]:
    return chain.from_iterable(map(g.nodes_of, g.graphs_within(outputs)))


class _Walk:
    """One graph, and all that is in it.

    Attributes:
      wanted: the categories.
      sites: of all checks that were met; the first has the number 1.
      slots: where in the state is what the message of each tells.
      zeros: what the state is at first.
    """

    def __init__(self, wanted: frozenset[ErrorCategory]) -> None:
        self.wanted = wanted
        self.sites: list[Site] = []
        self.slots: list[slice] = []
        self.zeros = [const(0, dtypes.int32)]
        self._numbers: dict[Node, int] = {}

    def run(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, and the state."""
        scope = current_scope()
        assert scope is not None
        # Checks that stand in the program come before those of what is computed then.
        ends = (*graph.effects[1:], *graph.outputs)
        self._find(ends)
        state = [scope.wrap(n) for n in self.zeros]
        names = zip(graph.inputs, [scope.lift(x) for x in inputs], strict=True)
        found = self._follow(scope, ends, dict(names), state)
        if graph.effects and found[0] is not graph.effects[0]:
            scope.tokens = (graph.effects[0], found[0])
        outputs = [scope.wrap(n) for n in found[len(graph.effects[1:]) :]]
        return [*outputs, *state]

    def _find(self, outputs: Sequence[Node]) -> None:
        """Gives the users' checks their numbers and places in the state."""
        for node in _nodes_within(outputs):
            made = _check_of(node)
            if made is not None and made.site.category in self.wanted:
                first = len(self.zeros)
                for i, x in enumerate(node.src[2:], 1):
                    lanes = sum(flags[i] for _, flags in node.arg.lanes)
                    self.zeros.append(const(0, x.dtype, x.shape[lanes:]))
                slot = slice(first, len(self.zeros))
                self._numbers[node] = self._number(made.site, slot)

    def _follow(
        self, scope: Scope, outputs: Sequence[Node], names: dict[Node, Node],
        state: _State,
    ) -> list[Node]:  # fmt: skip
        def change(node: Node, src: tuple[Node, ...]) -> Node | Sequence[Node]:
            if node in names:
                return names[node]
            arg = node.arg
            if _check_of(node) is not None:
                if node in self._numbers:
                    self._checks(scope, arg, src[1:], state, self._numbers[node])
                return [src[0]]
            if node.op in (cond_p, scan_p, while_p) and self._any(g.bodies_of(arg)):
                return self._control(node, scope, src, state)
            if isinstance(arg, Call) and self._any([arg.body]):
                return self._inside(arg.body, scope, state, src)
            new = g.rebuild(node, src)
            self._check_values(scope, new, state)
            return new

        return exchange(outputs, change)

    def _inside(
        self, body: Body, scope: Scope, state: _State, xs: Sequence[Node]
    ) -> list[Node]:
        names = dict(zip(body.inputs, xs, strict=True))
        return self._follow(scope, body.outputs, names, state)

    def _any(self, bodies: Sequence[Body]) -> bool:
        """Is there a check in them, or will there be?"""
        return bool(self.wanted & float_checks) or any(
            _check_of(n) for body in bodies for n in _nodes_within(body.outputs)
        )

    def _number(self, site: Site, slot: slice = slice(0, 0)) -> int:
        self.sites.append(site)
        self.slots.append(slot)
        return len(self.sites)

    def _fail(
        self, state: _State, number: int, failed: Any, payload: Sequence[Any] = ()
    ) -> None:
        """If the condition holds: only the first failure counts."""
        slot, first = self.slots[number - 1], state[0] == 0
        pairs = zip(payload, state[slot], strict=True)
        state[slot] = [fnp.where(first, x, old) for x, old in pairs]
        state[0] = fnp.where(first & failed, np.int32(number), state[0])

    def _checks(
        self, scope: Scope, arg: Any, src: Sequence[Node], state: _State, number: int
    ) -> None:
        """A user's check; of many lanes the first that failed is told of."""
        failed, *payload = (scope.wrap(n) for n in src)
        sizes = arg.sizes
        if sizes:
            rows = zip(*[flags for _, flags in arg.lanes], strict=True)
            full = [
                _with_lanes(x, flags, sizes)
                for x, flags in zip([failed, *payload], rows, strict=True)
            ]
            lane = fnp.argmax(full[0])
            failed, payload = full[0].any(), [x[lane] for x in full[1:]]
        self._fail(state, number, failed, payload)

    def _check_values(self, scope: Scope, node: Node, state: _State) -> None:
        """The automatic checks of an operation."""
        if DivisionByZeroError in self.wanted and node.op.name in ("div", "rem"):
            divisor: Any = scope.wrap(node.src[1])
            site = Site(DivisionByZeroError, "division by zero", _NOTHING)
            self._fail(state, self._number(site), (divisor == 0).any())
        if NaNError not in self.wanted or node.op.family not in _COMPUTES:
            return
        op = compound_of(node)
        several = items(node) if op is not None else [node]
        found = [n for n in several if dtypes.is_inexact(n.dtype)]
        if not found or (op is not None and op.calls_back):
            return
        failed: Any = False
        for n in found:
            value: Any = scope.wrap(n)
            failed = failed | fnp.isnan(value).any()
        message = f"nan generated by primitive: {node.op.name}."
        self._fail(state, self._number(Site(NaNError, message, _NOTHING)), failed)

    # Bodies: the state stands before all outputs, and the inputs that are no constants.

    def _control(
        self, node: Node, scope: Scope, src: Sequence[Node], state: _State
    ) -> list[Node]:
        """A branch or a loop; the state becomes that after it."""
        arg, size, at = node.arg, len(state), 1
        if node.op is cond_p:
            made: Any = Branches(tuple([self._body(body, 0) for body in arg.bodies]))
        elif node.op is scan_p:
            at, body = arg.consts, self._body(arg.body, arg.consts)
            made = replace(arg, body=body, carry=arg.carry + size)
        else:
            at, made = arg.consts, self._loop(arg, scope, src, state)
        given = [*src[:at], *map(scope.lift, state), *src[at:]]
        op: Any = node.op
        found = op.results(*given, arg=made)
        state[:] = [scope.wrap(n) for n in found[:size]]
        return list(found[size:])

    def _loop(
        self, arg: While, scope: Scope, src: Sequence[Node], state: _State
    ) -> While:
        tests, at, inputs = self._any([arg.cond]), arg.consts, arg.cond.inputs

        def run(scope: Scope, state: _State, xs: Sequence[Node]) -> list[Node]:
            found = self._inside(arg.body, scope, state, xs)
            if tests:  # before the next iteration
                self._inside(arg.cond, scope, state, [*xs[:at], *found[: arg.carry]])
            return found

        if tests:
            self._inside(arg.cond, scope, state, src)
        names = stand_ins(self.zeros, "unused")
        cond = close([*inputs[:at], *names, *inputs[at:]], arg.cond.outputs)
        return While(cond, self._body(arg.body, at, run), at)

    def _body(self, body: Body, consts: int, run: _Run | None = None) -> Body:
        """A body that runs so, by default with its own checks."""
        size, runs = len(self.zeros), run or partial(self._inside, body)

        def function(*xs: Any) -> list[Any]:
            scope = current_scope()
            assert scope is not None
            state = list(xs[:size])
            found = runs(scope, state, [scope.lift(x) for x in xs[size:]])
            return [*state, *[scope.wrap(n) for n in found]]

        avals = [n.aval for n in (*self.zeros, *body.inputs)]
        draft = trace_body("checkify", function, avals)
        assert not draft.free
        assert not draft.effects
        state, rest = draft.arguments[:size], draft.arguments[size:]
        return close([*rest[:consts], *state, *rest[consts:]], draft.outputs)


def _with_lanes(x: Any, flags: Sequence[bool], sizes: Sequence[int]) -> Any:
    """The value with one leading axis for all lanes."""
    given = iter(x.shape)
    lead = tuple([next(given) if has else 1 for has in flags])
    rest = tuple(given)
    full = fnp.broadcast_to(x.reshape(*lead, *rest), (*sizes, *rest))
    return full.reshape(-1, *rest)
