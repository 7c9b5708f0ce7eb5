"""`custom_jvp` and `custom_vjp` of functions that are given references.

Such a call is one of a function of what they hold (see `trace.references`):

    pure(values, others)        -> result, values           of custom_jvp
    pure(backs, values, others) -> result, backs, values    of custom_vjp

A jvp rule is given references that hold tangents, too. A backward rule reads and writes
the references: what they hold then is the cotangent of the backs that `pure` returns,
and what it leaves in them that of those it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ftrace.errors import ArgumentError, TreeError
from ftrace.trace.calls import custom_call
from ftrace.trace.calls.custom_call import SymbolicZero
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref, check_distinct, hold, read_all
from ftrace.trace.tracing.scopes import open_scopes


def call_with_references(custom: Any, args: Sequence[Any], unwrap: Any) -> Any:
    """The result of a call of `custom`, a function under `custom_jvp` or `custom_vjp`.

    Args:
      args: all of its arguments by position.
      unwrap: the values of a tree of `CustomVJPPrimal`s.
    """
    call = _Call(custom, args, unwrap)
    if open_scopes():
        return call.of_jvp() if custom.kind == "custom_jvp" else call.of_vjp()
    result = custom.fun(*args)
    flatten_values(result, f"the result of {custom.__name__}")
    return result


class _Call:
    """A call, as one of a function of what its references hold.

    Attributes:
      fixed, constants: the arguments without derivatives: where, and what.
      moving, treedef: the other arguments, and their structure.
      places, refs: the references among their leaves.
      others: the leaves beside them.
      written: the numbers of the references that the function has written.
      number: that of each reference that stood for one in the forward rule.
    """

    def __init__(self, custom: Any, args: Sequence[Any], unwrap: Any) -> None:
        self.custom, self.args, self.unwrap = custom, args, unwrap
        self.fixed = {i % len(args) for i in custom.nondiff_argnums}
        self.constants = [args[i] for i in sorted(self.fixed)]
        self.moving = tuple([x for i, x in enumerate(args) if i not in self.fixed])
        leaves, self.treedef = tree.flatten(self.moving)
        self.places = [i for i, x in enumerate(leaves) if type(x) is Ref]
        self.refs: list[Ref] = [leaves[i] for i in self.places]
        self.others = [x for x in leaves if type(x) is not Ref]
        self.written: set[int] = set()
        self.number: dict[Ref, int] = {}
        check_distinct(self.refs)

    def of_jvp(self) -> Any:
        pure = self._rules(partial(self._of_values))
        pure.defjvp(self._jvp, symbolic_zeros=self.custom.symbolic_zeros)
        result, values = pure(read_all(self.refs), self.others)
        hold(self.refs, values, self.written)
        return result

    def of_vjp(self) -> Any:
        def fun(backs: Any, *given: Any) -> Any:
            result, last = self._of_values(*given)
            return result, backs, last

        pure = self._rules(fun)
        pure.defvjp(self._fwd, self._bwd, symbolic_zeros=self.custom.symbolic_zeros)
        backs = [ref.back for ref in self.refs]
        result, zeros, values = pure(read_all(backs), read_all(self.refs), self.others)
        hold(backs, zeros)
        hold(self.refs, values, self.written)
        return result

    def _rules(self, function: Any) -> Any:
        function.__name__ = self.custom.__name__
        return type(self.custom)(function)

    def _join(self, refs: Sequence[Ref], others: Any) -> Any:
        full = list(others)
        for i, ref in zip(self.places, refs, strict=True):
            full.insert(i, ref)
        return tree.unflatten(self.treedef, full)

    def _end(self, own: Sequence[Ref], values: Any) -> list[Any]:
        found = read_all(own)
        pairs = enumerate(zip(found, values, strict=True))
        self.written.update([i for i, (last, first) in pairs if last is not first])
        return found

    def _run(self, function: Callable[..., Any], values: Any, others: Any) -> Any:
        """Its result of references that hold these values, and these references."""
        own = list(map(Ref, values))
        rest, given = iter(self._join(own, others)), enumerate(self.args)
        result = function(*[x if i in self.fixed else next(rest) for i, x in given])
        return result, own, self._end(own, values)

    def _of_values(self, values: Any, others: Any) -> Any:
        result, _, last = self._run(self.custom.fun, values, others)
        return result, last

    def _jvp(self, primals: Any, tangents: Any) -> Any:
        (values, others), (moved, rest) = primals, tangents
        own, along = list(map(Ref, values)), list(map(Ref, map(_array, moved)))
        name, rule = self.custom.__name__, self.custom.jvp
        whole = self._join(own, others), self._join(along, rest)
        what = f"the jvp rule of {name} must return a pair (result, tangent)"
        result, tangent = custom_call.pair_of(rule(*self.constants, *whole), what, rule)
        return (result, self._end(own, values)), (tangent, read_all(along))

    def _fwd(self, backs: Any, values: Any, others: Any) -> Any:
        name, rule = self.custom.__name__, self.custom.fwd
        answer, own, last = self._run(rule, self.unwrap(values), others)
        what = f"the fwd rule of {name} must return a pair (result, residuals)"
        result, residuals = custom_call.pair_of(answer, what, rule)
        if any(type(x) is Ref and x not in own for x in tree.leaves(residuals)):
            raise ArgumentError(
                f"the custom_vjp fwd function of {name} returned a reference that is "
                "none of its arguments; return those, or what it holds"
            )
        self.number.update({ref: i for i, ref in enumerate(own)})
        return (result, self.unwrap(backs), last), residuals

    def _bwd(self, saved: Any, cotangents: Any) -> Any:
        ct, backs, _ = cotangents
        pairs = list(zip(self.refs, map(_array, backs), strict=True))
        own = [Ref(x.astype(ref.dtype)) for ref, x in pairs]
        residuals = tree.map(
            lambda x: own[self.number[x]] if type(x) is Ref else x, saved
        )
        answer = self.custom.bwd(*self.constants, residuals, ct)
        found: Any = custom_call.as_tuple(answer)
        grads = custom_call.align(self.moving, found) if type(found) is tuple else None
        if grads is None:
            raise TreeError(
                f"the bwd rule of {self.custom.__name__} must return a tuple with a "
                f"cotangent per argument, or None for zero, got {found!r:.80}"
            )
        last = [o.read().astype(x.dtype) for o, (_, x) in zip(own, pairs, strict=True)]
        others = [x for i, x in enumerate(grads) if i not in self.places]
        return last, [grads[i] for i in self.places], others


def _array(x: Any) -> Any:
    return x.instantiate() if isinstance(x, SymbolicZero) else x
