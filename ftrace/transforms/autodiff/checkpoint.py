"""checkpoint: a derivative that computes again instead of remembering.

What a function under `checkpoint` computes on the way is not kept for its derivative:
only its arguments are, and what a policy says. The backward pass computes the rest
again, when it gets there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

from ftrace import dtypes
from ftrace.errors import ArgumentError, NestingError, StaticArgumentError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.autodiff import jvp_nodes, split_known, tangent_variable
from ftrace.trace.bind import bind
from ftrace.trace.calls import checkpoint as remat
from ftrace.trace.calls.checkpoint import Checkpoint, Policy, checkpoint_p
from ftrace.trace.calls.rule_graphs import bind_call, called
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.trace import trace
from ftrace.trace.tracing.tracer import aval_of
from ftrace.transforms import flatten_arguments


def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool | Sequence[bool] = True,
    policy: Policy | None = None,
    static_argnums: int | tuple[int, ...] = (),
    static_argnames: str | Iterable[str] = (),
    concrete: Any = None,
) -> Callable[..., Any]:
    """`fun`, whose derivative computes again what lies between arguments and results.

    Args:
      fun: a function of arrays.
      prevent_cse: keep the second computation apart from the first. Without it equal
        parts are computed once and kept; that is right inside of `scan`, where the two
        are in different loops anyway, and saves a little there.
      policy: which values are kept all the same: one of `checkpoint_policies`, or a
        function (primitive, *avals, **params) -> bool. None keeps none.
      static_argnums, static_argnames: arguments that are Python values.
      concrete: accepted; where an argument has a value, Python may ask for it.

    Raises:
      ArgumentError: `policy` is no function.
      StaticArgumentError: there is no such argument.
    """
    if fun is None:
        return partial(
            checkpoint,
            prevent_cse=prevent_cse,
            policy=policy,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        )
    tree.check_callable(fun, "checkpoint")
    chosen = remat.policy_of(policy)
    numbers = flatten_arguments.read_argnums(
        "checkpoint", "static_argnums", static_argnums
    )
    barrier = prevent_cse if isinstance(prevent_cse, bool) else any(prevent_cse)
    names = (
        {static_argnames} if isinstance(static_argnames, str) else {*static_argnames}
    )

    @wraps(fun)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        fixed = _static_positions(numbers, args, flatten_arguments.name_of(fun))
        dynamic = [x for i, x in enumerate(args) if i not in fixed]
        static = {k: v for k, v in kwargs.items() if k in names}
        named = {k: v for k, v in kwargs.items() if k not in names}
        values, treedef = flatten_arguments.flatten_values(
            (dynamic, named),
            f"checkpoint: the argument of {flatten_arguments.name_of(fun)} ",
        )

        def call(*inner: Any, **others: Any) -> Any:
            rest = iter(inner)
            full = [x if i in fixed else next(rest) for i, x in enumerate(args)]
            return fun(*full, **others, **static)

        call.__name__ = flatten_arguments.name_of(fun)
        output = flatten_arguments.Output.of_leaves(
            call, treedef, "checkpoint", keywords=True
        )
        found = called("checkpoint", output, values, [])
        if found is None:
            try:
                return fun(*args, **kwargs)
            except NestingError:
                raise
            except RecursionError:
                raise _too_deep() from None
        arg = Checkpoint(found.body, found.effects, chosen, barrier)
        return output.build(bind_call(checkpoint_p, found, arg))

    return checkpointed


def _too_deep() -> NestingError:
    return NestingError(
        "functions under checkpoint stand in each other deeper than Python can call "
        f"({sys.getrecursionlimit()}); does one call itself without end? Wrap the "
        "whole, or each part by itself"
    )


def _static_positions(
    numbers: Sequence[int], args: Sequence[Any], name: str
) -> set[int]:
    count = len(args)
    if not all(-count <= i < count for i in numbers):
        raise StaticArgumentError(
            f"checkpoint: static_argnums={numbers!r} does not fit the {count} "
            f"positional arguments that {name} was called with"
        )
    return {i % count for i in numbers}


def checkpoint_name(x: Any, name: str) -> Any:
    """The arrays of a tree, with a name for the policies of `checkpoint`.

    Raises:
      ArgumentError: the name is no string.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"checkpoint_name: a string is required, got {name!r:.60}")
    return tree.map(lambda leaf: bind(remat.name_p, leaf, arg=name), x)


# Policies.

everything_saveable = remat.Constantly(True)
nothing_saveable = remat.Constantly(False)
dots_saveable = remat.Dots()
dots_with_no_batch_dims_saveable = remat.Dots(batched=False)


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keeps the values that have one of these names."""
    return remat.Names(_names(names_which_can_be_saved), named=True)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keeps the values that have a name, other than these."""
    return remat.Names(_names(names_not_to_save), named=False)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keeps all values but those with one of these names."""
    return remat.Names(_names(names_not_to_save), named=False, unnamed=True)


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keeps what one of the policies keeps."""
    return remat.Either(remat.policy_of(policy_1), remat.policy_of(policy_2))


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """Keeps contractions without batch axes, where they are.

    There is one memory: nothing is moved from `offload_src` to `offload_dst`.
    """
    return remat.Dots(batched=False)


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Sequence[str],
    names_which_can_be_offloaded: Sequence[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keeps the values that have one of all these names, where they are.

    There is one memory: nothing is moved from `offload_src` to `offload_dst`.
    """
    both = (*names_which_can_be_saved, *names_which_can_be_offloaded)
    return remat.Names(_names(both), named=True)


def _names(names: Sequence[str]) -> frozenset[str]:
    for name in names:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentError(f"a policy by names takes strings, got {name!r:.60}")
    return frozenset(names)


#: JAX's names of the policies.
checkpoint_policies = SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=dots_saveable,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=dots_with_no_batch_dims_saveable,
    offload_dot_with_no_batch_dims=offload_dot_with_no_batch_dims,
    save_anything_except_these_names=save_anything_except_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_only_these_names=save_only_these_names,
    save_from_both_policies=save_from_both_policies,
    save_and_offload_only_these_names=save_and_offload_only_these_names,
)


@dataclass(frozen=True)
class Residual:
    """A value that the derivative of a function keeps.

    Attributes:
      aval: its type.
      what: the operation that makes it, and the user's line.
    """

    aval: Any
    what: str

    def __str__(self) -> str:
        return f"{self.aval!r} {self.what}"


def saved_residuals(
    fun: Callable[..., Any], *args: Any, **kwargs: Any
) -> list[Residual]:
    """What the derivative of `fun` keeps of the first computation."""
    tree.check_callable(fun, "saved_residuals")
    values, treedef = flatten_arguments.flatten_values(
        (args, kwargs), "saved_residuals: the argument "
    )
    output = flatten_arguments.Output.of_leaves(
        fun, treedef, "saved_residuals", keywords=True
    )
    graph = trace("saved_residuals", output, [aval_of(x) for x in values], values)
    tangents = {
        n: tangent_variable(n.aval, i)
        for i, n in enumerate(graph.inputs[: len(values)])
        if dtypes.is_inexact(n.dtype)
    }
    found = [t for t in jvp_nodes(graph.outputs, tangents) if t is not None]
    inputs = set(graph.inputs)
    return [
        Residual(
            n.aval,
            "an argument or captured"
            if n in inputs
            else f"of {n.src[0].op if n.op.name == 'item' else n.op} at {n.origin}",
        )
        for n in split_known(found, list(tangents.values()))
    ]


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints what the derivative of `fun` keeps of the first computation."""
    for residual in saved_residuals(fun, *args, **kwargs):
        print(residual)  # noqa: T201
