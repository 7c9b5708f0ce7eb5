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
from typing import Any

from ftrace.errors import ArgumentError, TreeError
from ftrace.trace.calls import custom_call as calls
from ftrace.trace.calls.custom_call import SymbolicZero
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref, check_distinct, held, hold
from ftrace.trace.tracing.scopes import open_scopes


def call_with_references(custom: Any, args: Sequence[Any], unwrap: Any) -> Any:
    """The result of a call of `custom`, a function under `custom_jvp` or `custom_vjp`.

    Args:
      args: all of its arguments by position.
      unwrap: the values of a tree of `CustomVJPPrimal`s.
    """
    fixed = {i % len(args) for i in custom.nondiff_argnums}
    moving = tuple([x for i, x in enumerate(args) if i not in fixed])
    leaves, treedef = tree.flatten(moving)
    places = [i for i, x in enumerate(leaves) if type(x) is Ref]
    refs: list[Ref] = [leaves[i] for i in places]
    check_distinct(refs)
    if not open_scopes():
        result = custom.fun(*args)
        flatten_values(result, f"the result of {custom.__name__}")
        return result
    written: set[int] = set()
    number: dict[Ref, int] = {}  # of those that stand for them in forward rules
    constants = [args[i] for i in sorted(fixed)]

    def joined(refs: Sequence[Ref], others: Any) -> Any:
        full = list(others)
        for i, ref in zip(places, refs, strict=True):
            full.insert(i, ref)
        return tree.unflatten(treedef, full)

    def ended(own: Sequence[Ref], values: Any) -> list[Any]:
        found = held(own)
        pairs = enumerate(zip(found, values, strict=True))
        written.update([i for i, (last, first) in pairs if last is not first])
        return found

    def run(function: Callable[..., Any], values: Any, others: Any) -> Any:
        """Its result of references that hold these values, and these references."""
        own = list(map(Ref, values))
        rest = iter(joined(own, others))
        result = function(
            *[x if i in fixed else next(rest) for i, x in enumerate(args)]
        )
        return result, own, ended(own, values)

    def of_values(values: Any, others: Any) -> Any:
        result, _, last = run(custom.fun, values, others)
        return result, last

    def jvp(primals: Any, tangents: Any) -> Any:
        (values, others), (moved, rest) = primals, tangents
        own, along = list(map(Ref, values)), list(map(Ref, map(_array, moved)))
        answer = custom.jvp(*constants, joined(own, others), joined(along, rest))
        what = f"the jvp rule of {custom.__name__} must return a pair (result, tangent)"
        result, tangent = calls.pair_of(answer, what, custom.jvp)
        return (result, ended(own, values)), (tangent, held(along))

    def fun(backs: Any, values: Any, others: Any) -> Any:
        result, last = of_values(values, others)
        return result, backs, last

    def fwd(backs: Any, values: Any, others: Any) -> Any:
        answer, own, last = run(custom.fwd, unwrap(values), others)
        what = f"the fwd rule of {fun.__name__} must return a pair (result, residuals)"
        result, residuals = calls.pair_of(answer, what, custom.fwd)
        if any(type(x) is Ref and x not in own for x in tree.leaves(residuals)):
            raise ArgumentError(
                f"the custom_vjp fwd function of {fun.__name__} returned a reference "
                "that is none of its arguments; return those, or what it holds"
            )
        number.update({ref: i for i, ref in enumerate(own)})
        return (result, unwrap(backs), last), residuals

    def bwd(kept: Any, cotangents: Any) -> Any:
        ct, backs, _ = cotangents
        pairs = list(zip(refs, map(_array, backs), strict=True))
        own = [Ref(x.astype(ref.dtype)) for ref, x in pairs]
        residuals = tree.map(lambda x: own[number[x]] if type(x) is Ref else x, kept)
        found: Any = calls.as_tuple(custom.bwd(*constants, residuals, ct))
        grads = calls.aligned(moving, found) if type(found) is tuple else None
        if grads is None:
            raise TreeError(
                f"the bwd rule of {fun.__name__} must return a tuple with a cotangent "
                f"per argument, or None for zero, got {found!r:.80}"
            )
        last = [o.read().astype(x.dtype) for o, (_, x) in zip(own, pairs, strict=True)]
        others = [x for i, x in enumerate(grads) if i not in places]
        return last, [grads[i] for i in places], others

    fun.__name__ = of_values.__name__ = custom.__name__
    others = [x for x in leaves if type(x) is not Ref]
    if custom.kind == "custom_jvp":
        pure = type(custom)(of_values)
        pure.defjvp(jvp, symbolic_zeros=custom.symbolic_zeros)
        result, values = pure(held(refs), others)
        hold(refs, values, written)
        return result
    pure = type(custom)(fun)
    pure.defvjp(fwd, bwd, symbolic_zeros=custom.symbolic_zeros)
    backs = [ref.back for ref in refs]
    result, zeros, values = pure(held(backs), held(refs), others)
    hold(backs, zeros)
    hold(refs, values, written)
    return result


def _array(x: Any) -> Any:
    return x.instantiate() if isinstance(x, SymbolicZero) else x
