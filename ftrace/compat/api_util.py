"""`jax.api_util`: arguments of functions as flat lists, for who writes transforms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ftrace import tree_util
from ftrace.compat import linear_util
from ftrace.compat.linear_util import DebugInfo, Store, WrappedFun
from ftrace.errors import ArgumentError, StaticArgumentError, TreeError
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.custom_call import signature_of as fun_signature
from ftrace.trace.effects import Same
from ftrace.trace.flatten_arguments import read_argnums, type_of
from ftrace.trace.pytree import tree

Function = Callable[..., Any]


def _flatten_fun(f: Function, store: Store, in_tree: Any, *leaves: Any) -> list[Any]:
    args, kwargs = tree_util.tree_unflatten(in_tree, leaves)
    results, out_tree = tree_util.tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return results


def _flatten_args(f: Function, store: Store, in_tree: Any, *leaves: Any) -> list[Any]:
    args = tree_util.tree_unflatten(in_tree, leaves)
    results, out_tree = tree_util.tree_flatten(f(*args))
    store.store(out_tree)
    return results


def flatten_fun(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Function]:
    """A function of the leaves of (args, kwargs), and the structure of its result."""
    return linear_util.transformation_with_aux2(_flatten_fun, fun, in_tree)


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Function]:
    """`flatten_fun` of positional arguments alone."""
    return linear_util.transformation_with_aux2(_flatten_args, fun, in_tree)


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Arguments by position and by name: what is None is what the other says."""
    if argnums is None and argnames is None:
        return (), ()
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    names = (argnames,) if isinstance(argnames, str) else argnames
    said = [
        (i, name)
        for i, (name, parameter) in enumerate(sig.parameters.items())
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        and (name in names if numbers is None else i in numbers)
    ]
    return (
        tuple(i for i, _ in said) if numbers is None else tuple(numbers),
        tuple(name for _, name in said) if names is None else tuple(names),
    )


def _with_fixed(f: Function, numbers: Any, fixed: Any, *given: Any, **kw: Any) -> Any:
    rest, moving = iter(fixed), iter(given)
    count = len(fixed) + len(given)
    args = [next(moving) if i in numbers else next(rest).value for i in range(count)]
    return f(*args, **kw)


def argnums_partial(
    fun: WrappedFun,
    dyn_argnums: int | Sequence[int],
    args: Sequence[Any],
    require_static_args_hashable: bool = True,
) -> tuple[WrappedFun, tuple[Any, ...]]:
    """The function of some of its arguments, and these.

    Raises:
      StaticArgumentError: one of the others cannot be hashed, and is required to be.
    """
    found = read_argnums("argnums_partial", "dyn_argnums", dyn_argnums)
    numbers = tuple([i % len(args) for i in found])
    fixed = [x for i, x in enumerate(args) if i not in numbers]
    for x in fixed if require_static_args_hashable else ():
        try:
            hash(x)
        except TypeError:
            raise StaticArgumentError(
                "Non-hashable static arguments are not supported: "
                f"{fun.__name__} got one of {type(x)}"
            ) from None
    kept = tuple(map(Same.of, fixed))
    wrapped = linear_util.transformation2(_with_fixed, fun, numbers, kept)
    return wrapped, tuple([args[i] for i in numbers])


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of a value."""
    return type_of(x)


def flatten_axes(name: str, treedef: Any, axis_tree: Any, **_: Any) -> list[Any]:
    """An axis per leaf, where a prefix of the tree may stand for a part of it.

    Raises:
      TreeError: `axis_tree` is no prefix.
    """
    dummy = tree.unflatten(treedef, [object()] * treedef.num_leaves)
    try:
        return tree.broadcast_prefix(axis_tree, dummy, name)
    except TreeError as error:
        raise TreeError(
            f"{name} specification must be a tree prefix of the corresponding value: "
            f"{error}"
        ) from None


def rebase_donate_argnums(
    donate_argnums: Sequence[int], static_argnums: Sequence[int]
) -> tuple[int, ...]:
    """The positions of donated arguments among those that are not static.

    Raises:
      ArgumentError: an argument is both.
    """
    static = set(static_argnums)
    if static & set(donate_argnums):
        raise ArgumentError(
            f"`static_argnums` {static_argnums} and `donate_argnums` "
            f"{donate_argnums} cannot intersect."
        )
    return tuple(sorted({i - sum(s < i for s in static) for i in donate_argnums}))


def donation_vector(
    donate_argnums: Sequence[int],
    donate_argnames: Sequence[str],
    in_tree: Any,
    kws: bool = True,
) -> tuple[bool, ...]:
    """For each leaf of (args, kwargs) whether it is donated."""
    dummy = tree.unflatten(in_tree, range(in_tree.num_leaves))
    whole: Any = dummy if kws else (dummy, {})
    args, kwargs = whole
    given = tuple([i in donate_argnums for i in range(len(args))])
    named = {name: name in donate_argnames for name in kwargs}
    return tuple(tree.broadcast_prefix((given, named), (args, kwargs), "donation"))


def fun_sourceinfo(fun: Function) -> str:
    """The name of a function, and where it was written."""
    while hasattr(fun, "func"):
        fun = fun.func  # type: ignore[attr-defined]
    fun = inspect.unwrap(fun)
    name = getattr(fun, "__name__", "<unknown>")
    code = getattr(fun, "__code__", None)
    return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name


def debug_info(
    traced_for: str,
    fun: Function,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    static_argnums: Sequence[int] = (),
    static_argnames: Sequence[str] = (),
    **_: Any,
) -> DebugInfo:
    """What is to be said of a function that is called with such arguments."""
    signature = fun_signature(fun)
    info = fun_sourceinfo(fun)
    try:
        bound = signature.bind(*args, **kwargs) if signature else None
    except TypeError:
        bound = None
    if bound is None or signature is None:
        return DebugInfo(traced_for, info)
    names = list(signature.parameters)
    static = {*static_argnames, *[names[i] for i in static_argnums if i < len(names)]}
    given = {k: v for k, v in bound.arguments.items() if k not in static}
    found: list[str] = []
    for name, value in given.items():
        for path, _leaf in tree_util.tree_leaves_with_path(value):
            found.append(f"{name}{tree_util.keystr(path)}")
    return DebugInfo(traced_for, info, tuple(found))


def safe_map(f: Function, *lists: Any) -> list[Any]:
    """`map` of lists of one length, as a list."""
    return [f(*xs) for xs in zip(*lists, strict=True)]


def safe_zip(*lists: Any) -> list[Any]:
    """`zip` of lists of one length, as a list."""
    return list(zip(*lists, strict=True))
