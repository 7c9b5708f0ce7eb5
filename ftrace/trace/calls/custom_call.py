"""Calls of functions that have rules: their arguments, and what the rules return.

What a user's rule returned is held against what it must return. A message names the
leaf, what was expected, what came back, and the user's line: that which made the leaf,
or else that of the rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial, update_wrapper
from typing import Any, Generic, TypeVar

import numpy as np

from ftrace import dtypes, errors
from ftrace.trace import flatten_arguments as flat
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.custom_derivative import Ruled
from ftrace.trace.calls.rule_graphs import Called, Rule, bind_call
from ftrace.trace.effects import Same
from ftrace.trace.flatten_arguments import P, R, Travels
from ftrace.trace.primitives.primitive import Compound
from ftrace.trace.primitives.sources import const, is_variable
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.scopes import current_scope
from ftrace.trace.tracing.tracer import Function, Tracer, Value, aval_of, is_value

T = TypeVar("T")


class Invocation:
    """One call of a function that has rules.

    Attributes:
      name: of the function.
      args: all positional arguments, defaults included.
      fixed: the positions of those that are no part of derivatives.
      values, treedef: the leaves and the structure of the tuple of the others.
      output: calls the function on such leaves.
    """

    def __init__(
        self, fun: Function, kind: str, args: Sequence[Any], fixed: Sequence[int]
    ) -> None:
        self.name = flat.name_of(fun)
        self.args = list(args)
        self.fixed = self._positions(kind, fixed)
        chosen = tuple(x for i, x in enumerate(args) if i not in self.fixed)
        what = f"{kind}: the argument of {self.name} "
        self.values, self.treedef = flat.flatten_values(chosen, what)
        self.avals = [aval_of(x) for x in self.values]
        self.output = flat.Output(lambda *xs: fun(*self.with_fixed(xs)), kind, False)
        self.output.function.__name__ = self.name
        self._fun = fun
        self._done: tuple[Any, ...] = ()

    def run(self) -> Any:
        """What the function returns; it runs once."""
        self._done = self._done or (self._fun(*self.args),)
        return self._done[0]

    def _positions(self, kind: str, fixed: Sequence[int]) -> list[int]:
        count = len(self.args)
        for i in fixed:
            if not -count <= i < count:
                raise errors.StaticArgumentError(
                    f"{kind}: nondiff_argnums names the argument {i} of {self.name}, "
                    f"which was called with {count}"
                )
        return sorted({i % count for i in fixed})

    def forget(self) -> None:
        """Lets go of the values: rules that are kept remember the call."""
        self.values = []
        self._done = ()
        self.args = [x if i in self.fixed else None for i, x in enumerate(self.args)]

    @property
    def constants(self) -> list[Any]:
        """The arguments that are no part of derivatives."""
        return [self.args[i] for i in self.fixed]

    def key(self, *functions: Any) -> Any:
        """Tells the rules of this call from others."""
        try:
            fixed, structure = tree.flatten(self.constants)
        except errors.TreeError:  # a dictionary whose keys have no order is no pytree
            fixed, structure = self.constants, len(self.constants)
        structures = _hashable((structure, self.treedef))
        return (*map(Same.of, functions), *map(Same.of, fixed), structures)

    def without_fixed(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments that take part in derivatives, with other leaves."""
        return tree.unflatten(self.treedef, leaves)

    def with_fixed(self, leaves: Sequence[Any]) -> list[Any]:
        """All arguments, with other leaves."""
        rest = iter(self.without_fixed(leaves))
        return [x if i in self.fixed else next(rest) for i, x in enumerate(self.args)]


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:  # static data of a user's container
        return object()
    return value


def signature_of(fun: Function) -> inspect.Signature | None:
    """The signature of a function; None where it has none that can be seen."""
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):
        return None


def resolve_arguments(
    fun: Function,
    signature: inspect.Signature | None,
    kind: str,
    args: Sequence[Any],
    kwargs: dict[str, Any],
) -> list[Any]:
    """All arguments by position, defaults included; not those by name only.

    Raises:
      ArgumentError: an argument that is given has no position.
    """
    if signature is None:
        rest = kwargs
    else:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise errors.ArgumentError(
                f"{kind}: {flat.name_of(fun)}: {error}"
            ) from None
        bound.apply_defaults()
        args, rest = bound.args, kwargs.keys() & bound.kwargs.keys()
    if rest:
        raise errors.ArgumentError(
            f"{kind}: the rules of {flat.name_of(fun)} take positional "
            f"arguments, and {', '.join(rest)} can be given by name only; make it "
            "positional, or bind it with functools.partial"
        )
    return list(args)


def fixed_positions(
    fun: Function, kind: str, numbers: Any, names: str | Iterable[str]
) -> tuple[int, ...]:
    """Positions of the arguments that take no part in derivatives."""
    found = [*flat.read_argnums(kind, "nondiff_argnums", numbers)]
    for name in [names] if isinstance(names, str) else names:
        parameters = list(inspect.signature(fun).parameters)
        if name not in parameters:
            raise errors.StaticArgumentError(
                f"{kind}: nondiff_argnames names {name!r}, but "
                f"{flat.name_of(fun)} takes {', '.join(parameters)}"
            )
        found.append(parameters.index(name))
    return tuple(found)


class WithRules(Travels, Generic[P, R]):
    """A function with rules; `fun` is the function itself."""

    kind = ""

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Iterable[str] = (),
    ) -> None:
        tree.check_callable(fun, self.kind)
        wrapped: Any = self
        update_wrapper(wrapped, fun)
        self.fun = fun
        self._signature = signature_of(fun)
        self.nondiff_argnums = fixed_positions(
            fun, self.kind, nondiff_argnums, nondiff_argnames
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Methods: the instance is the first argument."""
        method: Any = self
        return self if instance is None else partial(method, instance)

    def __getattr__(self, name: str) -> Any:
        """The other kinds of rules are those of the function."""
        if name.startswith("def"):
            return getattr(self.fun, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def invocation(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Invocation:
        """A call with these arguments."""
        full = resolve_arguments(self.fun, self._signature, self.kind, args, kwargs)
        return Invocation(self.fun, self.kind, full, self.nondiff_argnums)

    def __repr__(self) -> str:
        return f"<{self.kind} of {flat.name_of(self.fun)}>"


def record(
    op: Compound, call: Invocation, found: Called, closed: int,
    rules: tuple[Rule, ...], spared: bool = False,
) -> Any:  # fmt: skip
    """The results of a call that is recorded with its rules."""
    avals = tuple(aval_of(x) for x in found.operands if x is not None)
    arg = Ruled(
        found.body, found.effects, call.name, avals, closed, rules, spared=spared
    )
    return call.output.build(bind_call(op, found, arg))


def result_types(found: Called | None) -> list[ShapedArray]:
    """The types of the results of a call; of one whose rules run now they will tell."""
    if found is None:
        return []
    outputs = found.body.outputs
    return [n.aval for n in (outputs[:-1] if found.effects else outputs)]


def no_rule(fun: Function, kind: str, subject: str, how: str) -> errors.FtraceError:
    """The exception for a call of a function that was given no rules."""
    name = flat.name_of(fun)
    return errors.NoCustomRuleError(
        f"{name} is a function under {kind} without a rule for its {subject}; give it "
        f"one with {name}.{how}"
    )


# What rules return.


class SymbolicZero:
    """Stands for a tangent or cotangent that is zero, in a rule with symbolic_zeros.

    Attributes:
      aval, shape, dtype: of the zero; dtype float0 for that of an integer.
    """

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        inexact = dtypes.is_inexact(self.aval.dtype)
        return self.aval.dtype if inexact else dtypes.float0

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    def instantiate(self) -> Value:
        """The zeros as an array."""
        return zeros_of(self.aval)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval!r})"


def zeros_of(aval: ShapedArray) -> Value:
    """Zeros, in the function that is being traced; float0 for an integer."""
    if not dtypes.is_inexact(aval.dtype):
        return np.zeros(aval.shape, dtypes.float0)
    scope = current_scope()
    if scope is None or scope.bound:  # rules there run with values
        return Array.of(np.zeros(aval.shape, aval.dtype))
    return scope.wrap(const(0, aval.dtype, aval.shape))


def origin_of(function: Any) -> errors.Origin | None:
    """Where a function was defined."""
    while hasattr(function, "func"):  # functools.partial
        function = function.func
    code = getattr(function, "__code__", None)
    return None if code is None else errors.Origin(code, -1)


class Promise:
    """What a rule must return: a structure, and a type for each leaf.

    Args:
      what: for messages: "the tangents that the jvp rule of f returned".
      like: "the results of f".
      rule: the user's function.
      treedef: that structure.
      avals: the types of its leaves.
    """

    def __init__(
        self, what: str, like: str, rule: Callable[..., Any],
        treedef: tree.TreeDef, avals: Sequence[ShapedArray],
    ) -> None:  # fmt: skip
        self.what = what
        self.like = like
        self.origin = origin_of(rule)
        self.treedef = treedef
        self.avals = avals

    def structure(self, got: Any) -> list[Any]:
        """The leaves of what came back.

        Raises:
          TreeError: it has another structure.
        """
        leaves, treedef = tree.flatten(got)
        if treedef != self.treedef:
            raise errors.TreeError(
                f"{self.what} must have the structure of {self.like}: expected "
                f"{tree.readable(self.treedef)}, got {tree.readable(treedef)}",
                self.origin,
            )
        return leaves

    def leaves(self, got: Any, tangents: bool = False) -> list[Any]:
        """The leaves of what came back; see `structure` and `check`."""
        return self.check(self.structure(got), tangents)

    def check(self, leaves: Sequence[Any], tangents: bool = False) -> list[Any]:
        """The leaves, each of the promised type; None for the tangent of an integer.

        Raises:
          ShapeError, DtypeError, ArgumentError: a leaf is of another type.
        """
        pairs = enumerate(zip(leaves, self.avals, strict=True))
        return [self._leaf(leaf, aval, i, tangents) for i, (leaf, aval) in pairs]

    def _leaf(self, leaf: Any, aval: ShapedArray, number: int, tangents: bool) -> Any:
        if isinstance(leaf, SymbolicZero):
            leaf = leaf.instantiate()
        if tangents and not dtypes.is_inexact(aval.dtype):
            return None
        if getattr(leaf, "dtype", None) == dtypes.float0 or not is_value(leaf):
            got = f"{type(leaf).__name__}: {leaf!r:.60}"
            raise errors.ArgumentError(
                self._differ(aval, got, number), self._origin(leaf)
            )
        found = aval_of(leaf)
        if not same_size(found.shape, aval.shape):
            differ = self._differ(aval, repr(found), number)
            raise errors.ShapeError(differ, self._origin(leaf))
        if found.dtype == aval.dtype or found.weak_type:
            return leaf
        # Without `enable_x64` 64 bits stand for 32, as of all tangents.
        if dtypes.narrow(found.dtype) != dtypes.narrow(aval.dtype):
            differ = self._differ(aval, repr(found), number)
            raise errors.DtypeError(
                f"{differ}; convert it with .astype", self._origin(leaf)
            )
        return leaf

    def _differ(self, aval: ShapedArray, got: str, number: int) -> str:
        at = tree.keystr(tree.paths(self.treedef)[number])
        what = f"{self.what}, at {at}" if at else self.what
        return f"{what}: expected {aval!r} as in {self.like}, got {got}"

    def _origin(self, leaf: Any) -> errors.Origin | None:
        if isinstance(leaf, Tracer) and not is_variable(leaf.node):
            return leaf.origin or self.origin
        return self.origin


def pair_of(result: Any, what: str, rule: Callable[..., Any]) -> tuple[Any, Any]:
    """The two things that a rule returns.

    Raises:
      ArgumentError: these are not two.
    """
    listed = as_tuple(result)
    if not isinstance(result, tree.SEQUENCES) or len(listed) != 2:
        raise errors.ArgumentError(
            f"{what}, got {type(result).__name__}: {result!r:.80}", origin_of(rule)
        )
    first, second = listed
    return first, second


def as_tuple(value: Any) -> Any:
    """A list as a tuple; anything else as it is."""
    return tuple(value) if isinstance(value, tree.SEQUENCES) else value


def align(example: Any, got: Any) -> list[Any] | None:
    """A leaf of `got` per leaf of `example`; None in `got` stands for any subtree.

    A leaf may stand for a container of one. Returns None if the structures differ.
    """
    try:
        pairs = tree.prefix_pairs(got, example)
    except (ValueError, TypeError):
        return None
    found: list[Any] = []
    for leaf, part in pairs:
        count = len(tree.leaves(part))
        if leaf is not None and count != 1 and tree.is_node(part):
            return None
        found += [leaf] * count
    return found
