"""Functions, wrapped in transformations that are told apart, and their arguments.

It is `jax.extend.linear_util`, and `jax.api_util`: arguments as flat lists, for who
writes transforms.

A transformation is a function of the function that it wraps; one with an auxiliary
output stores that when the function is called. In the older form it is a generator: it
yields arguments, is sent the results, and yields those.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from ftrace import tree_util
from ftrace.errors import ArgumentError, FtraceError, StaticArgumentError, TreeError
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.custom_call import signature_of as fun_signature
from ftrace.trace.effects import Same
from ftrace.trace.flatten_arguments import read_argnums, type_of
from ftrace.trace.pytree import tree
from ftrace.trace.pytree.treedef import PyTreeDef
from ftrace.trace.tracing.tracer import Function


class StoreException(FtraceError):
    """An auxiliary output is read before the call, or stored twice."""


class DebugInfo(NamedTuple):
    """What messages and jaxprs say of a function.

    Attributes:
      traced_for: the transform: "jit".
      func_src_info: "name at file:line".
      arg_names, result_paths: of the leaves; None where they are not known.
    """

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None = None
    result_paths: tuple[str, ...] | None = None

    @property
    def func_name(self) -> str:
        return self.func_src_info.split(" ")[0]


_UNKNOWN = DebugInfo("unknown", "<unknown>")


class Store:
    """A place for one value, which is stored once."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def store(self, value: Any) -> None:
        if self._values:
            raise StoreException("Store occupied")
        self._values.append(value)

    def reset(self) -> None:
        self._values.clear()

    @property
    def val(self) -> Any:
        if not self._values:
            raise StoreException("Store empty")
        return self._values[0]

    def __bool__(self) -> bool:
        return bool(self._values)


@dataclass(frozen=True)
class WrappedFun:
    """A function in transformations.

    Attributes:
      f: the function itself.
      f_transformed: in all transformations.
      transforms: (transformation, its static arguments), the outermost first.
      stores: of their auxiliary outputs, or None.
      params: keyword arguments of `f`.
    """

    f: Function
    f_transformed: Function
    transforms: tuple[tuple[Function, tuple[Any, ...]], ...] = ()
    stores: tuple[Store | None, ...] = ()
    params: tuple[tuple[str, Any], ...] = ()
    in_type: Any = None
    debug_info: DebugInfo = _UNKNOWN

    @property
    def __name__(self) -> str:
        return getattr(self.f, "__name__", "<unnamed wrapped function>")

    def wrap(
        self, transform: Function, static: tuple[Any, ...], store: Store | None
    ) -> WrappedFun:
        """The function in one more transformation."""
        kept = () if store is None else (store,)
        return WrappedFun(
            self.f,
            partial(transform, self.f_transformed, *kept, *static),
            ((transform, static), *self.transforms),
            (store, *self.stores),
            self.params,
            None,
            self.debug_info,
        )

    def populate_stores(self, stores: tuple[Store | None, ...]) -> None:
        for mine, other in zip(self.stores, stores, strict=True):
            if mine is not None and other is not None:
                mine.store(other.val)

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        return self.f_transformed(*args, **kwargs)

    def _identity(self) -> tuple[Any, ...]:
        return self.f, self.transforms, self.params, self.in_type

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WrappedFun) and self._identity() == other._identity()


def wrap_init(
    f: Function, params: dict[str, Any] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    """A function that transformations can wrap."""
    bound = params or {}
    return WrappedFun(
        f, partial(f, **bound), params=tuple(sorted(bound.items())),
        debug_info=debug_info or _UNKNOWN,
    )  # fmt: skip


def transformation2(gen: Function, *given: Any) -> Any:
    """Wraps a function: gen(f, *static, *args) -> results."""
    if not given:
        return partial(transformation2, gen)
    fun, *static = given
    return fun.wrap(gen, tuple(static), None)


def transformation_with_aux2(gen: Function, *given: Any, **_: Any) -> Any:
    """Wraps a function: gen(f, store, *static, *args); returns (fun, aux thunk)."""
    if not given:
        return partial(transformation_with_aux2, gen)
    fun, *static = given
    store = Store()
    return fun.wrap(gen, tuple(static), store), lambda: store.val


def _drive(gen: Function, f: Function, args: Any, kwargs: Any) -> Any:
    """What a generator yields at last, and it."""
    steps = gen(*args, **kwargs)
    inner_args, inner_kwargs = next(steps)
    return steps.send(f(*inner_args, **inner_kwargs))


@dataclass(frozen=True)
class _Generated:
    """A transformation in the older form; equal for equal generators.

    Attributes:
      has_aux: the generator yields a pair at last.
    """

    gen: Function
    has_aux: bool

    def __call__(self, f: Function, *args: Any, **kwargs: Any) -> Any:
        if not self.has_aux:
            return _drive(self.gen, f, args, kwargs)
        store, *rest = args
        results, aux = _drive(self.gen, f, rest, kwargs)
        store.store(aux)
        return results


def transformation(gen: Function, *given: Any) -> Any:
    """Wraps a function in a generator: yields (args, kwargs), then results."""
    return transformation2(_Generated(gen, False), *given)


def transformation_with_aux(gen: Function, *given: Any) -> Any:
    """`transformation` of a generator that yields (results, aux) at last."""
    return transformation_with_aux2(_Generated(gen, True), *given)


def merge_linear_aux(first: Function, second: Function) -> tuple[bool, Any]:
    """Which of two functions was called: (is it the first, its auxiliary output)."""
    try:
        found = first()
    except StoreException:
        return False, second()
    try:
        second()
    except StoreException:
        return True, found
    raise StoreException("neither store occupied")


def cache(call: Function, **_: Any) -> Function:
    """`call(fun, *args)`, done once for equal wrapped functions and arguments."""
    known: dict[Any, tuple[Any, WrappedFun]] = {}

    def look_up(fun: WrappedFun, *args: Any) -> Any:
        key = fun, args
        if key in known:
            answer, called = known[key]
            fun.populate_stores(called.stores)
            return answer
        answer = call(fun, *args)
        known[key] = answer, fun
        return answer

    look_up.__dict__["cache_clear"] = known.clear
    return look_up


# Arguments as flat lists.


def _flatten(
    f: Function, store: Store, in_tree: PyTreeDef, named: bool, *leaves: Any
) -> list[Any]:
    given = in_tree.unflatten(leaves)
    args, kwargs = given if named else (given, dict[str, Any]())
    results, out_tree = tree_util.tree_flatten(f(*args, **kwargs))
    store.store(out_tree)
    return results


def flatten_fun(fun: WrappedFun, in_tree: PyTreeDef) -> tuple[WrappedFun, Function]:
    """A function of the leaves of (args, kwargs), and the structure of its result."""
    return transformation_with_aux2(_flatten, fun, in_tree, True)


def flatten_fun_nokwargs(
    fun: WrappedFun, in_tree: PyTreeDef
) -> tuple[WrappedFun, Function]:
    """`flatten_fun` of positional arguments alone."""
    return transformation_with_aux2(_flatten, fun, in_tree, False)


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


def _call_fixed(f: Function, numbers: Any, fixed: Any, *given: Any, **kw: Any) -> Any:
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
    wrapped = transformation2(_call_fixed, fun, numbers, kept)
    return wrapped, tuple([args[i] for i in numbers])


def shaped_abstractify(x: Any) -> ShapedArray:
    """The type of a value."""
    return type_of(x)


def flatten_axes(name: str, treedef: PyTreeDef, axis_tree: Any, **_: Any) -> list[Any]:
    """An axis per leaf, where a prefix of the tree may stand for a part of it.

    Raises:
      TreeError: `axis_tree` is no prefix.
    """
    dummy = treedef.unflatten([object()] * treedef.num_leaves)
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
    in_tree: PyTreeDef,
    kws: bool = True,
) -> tuple[bool, ...]:
    """For each leaf of (args, kwargs) whether it is donated."""
    dummy = in_tree.unflatten(range(in_tree.num_leaves))
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
