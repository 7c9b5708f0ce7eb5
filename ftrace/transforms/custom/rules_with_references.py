"""`custom_vjp` of functions that are given references.

Such a call is one of a function of what they hold (see `trace.references`):

    pure(backs, values, others) -> result, backs, values

A backward rule reads and writes the references: what they hold then is the cotangent of
the backs that `pure` returns, and what it leaves in them that of those it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, TreeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.calls import custom_call as calls
from ftrace.trace.calls.custom_call import SymbolicZero
from ftrace.trace.pytree import tree
from ftrace.trace.references import Ref, held, hold


@dataclass(frozen=True)
class _Place:
    """Stands for a reference among residuals.

    Attributes:
      number: which of those that the call was given.
    """

    number: int


def call_with_references(custom: Any, args: Sequence[Any], unwrap: Any) -> Any:
    """The result of a call of `custom`, a function under `custom_vjp`.

    Args:
      args: all of its arguments by position.
      unwrap: the values of a tree of `CustomVJPPrimal`s.
    """
    fixed = {i % len(args) for i in custom.nondiff_argnums}
    moving = tuple([x for i, x in enumerate(args) if i not in fixed])
    leaves, treedef = tree.flatten(moving)
    places = [i for i, x in enumerate(leaves) if type(x) is Ref]
    refs: list[Ref] = [leaves[i] for i in places]
    varying = [i for i, ref in enumerate(refs) if dtypes.is_inexact(ref.dtype)]
    written: set[int] = set()

    def run(function: Callable[..., Any], values: Any, others: Any) -> Any:
        """Its result of references that hold these values, and these references."""
        full, own = list(others), [Ref(value) for value in values]
        for i, ref in zip(places, own, strict=True):
            full.insert(i, ref)
        rest = iter(tree.unflatten(treedef, full))
        full = [x if i in fixed else next(rest) for i, x in enumerate(args)]
        result = function(*full)
        pairs = enumerate(zip(own, values, strict=True))
        written.update([i for i, (ref, value) in pairs if ref.read() is not value])
        return result, own

    def fun(backs: Any, values: Any, others: Any) -> Any:
        result, own = run(custom.fun, values, others)
        return result, backs, held(own)

    def fwd(*given: Any) -> Any:
        backs, values, others = unwrap(given)
        answer, own = run(
            custom.fwd, values, given[2] if custom.symbolic_zeros else others
        )
        what = f"the fwd rule of {fun.__name__} must return a pair (result, residuals)"
        result, residuals = calls.pair_of(answer, what, custom.fwd)
        kept = tree.map(lambda x: _place_of(x, own), residuals)
        return (result, backs, held(own)), kept

    def bwd(kept: Any, cotangents: Any) -> Any:
        ct, backs, _ = cotangents
        if all(isinstance(x, SymbolicZero) for x in tree.leaves(ct)):
            return backs, [None] * len(refs), [None] * (len(leaves) - len(refs))
        if not custom.symbolic_zeros:
            ct = tree.map(_instantiated, ct)
        own = [Ref(ref.zeros) for ref in refs]
        hold([own[i] for i in varying], map(_instantiated, backs))
        before = held(own)
        residuals = tree.map(
            lambda x: own[x.number] if isinstance(x, _Place) else x, kept
        )
        constants = [args[i] for i in sorted(fixed)]
        found = calls.as_tuple(custom.bwd(*constants, residuals, ct))
        grads = calls.aligned(moving, found) if type(found) is tuple else None
        if grads is None:
            raise TreeError(
                f"the bwd rule of {fun.__name__} must return a tuple with a cotangent "
                f"per argument, or None for zero, got {found!r:.80}"
            )
        after = held(own)
        for i, ref in enumerate(refs):
            if i not in varying and after[i] is not before[i]:
                raise ArgumentError(
                    f"the bwd rule of {fun.__name__} writes a reference of dtype "
                    f"{ref.dtype}; it may write those of floats"
                )
        return (
            [after[i] for i in varying],
            [grads[i] for i in places],
            [x for i, x in enumerate(grads) if i not in places],
        )

    fun.__name__ = custom.__name__
    pure = type(custom)(fun)
    pure.defvjp(fwd, bwd, symbolic_zeros=True)
    backs = [refs[i].back for i in varying]
    others = [x for x in leaves if type(x) is not Ref]
    result, zeros, values = pure(held(backs), held(refs), others)
    hold(backs, zeros)
    hold(refs, values, written)
    return result


def _place_of(leaf: Any, own: Sequence[Ref]) -> Any:
    if type(leaf) is not Ref:
        return leaf
    if leaf not in own:
        raise ArgumentError(
            "a custom_vjp fwd function returned a reference that is none of its "
            "arguments; return those, or what it holds"
        )
    return _Place(own.index(leaf))


def _instantiated(x: Any) -> Any:
    return x.instantiate() if isinstance(x, SymbolicZero) else x
