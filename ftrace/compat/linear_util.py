"""`jax.extend.linear_util`: functions, wrapped in transformations that are told apart.

A transformation is a function of the function that it wraps; one with an auxiliary
output stores that when the function is called. In the older form it is a generator: it
yields arguments, is sent the results, and yields those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ftrace.ground.fast_dataclasses import dataclass

Function = Callable[..., Any]


class StoreException(Exception):
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

    def with_unknown_names(self) -> DebugInfo:
        return self._replace(arg_names=None, result_paths=None)


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


def _driven(gen: Function, f: Function, args: Any, kwargs: Any) -> Any:
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
            return _driven(self.gen, f, args, kwargs)
        store, *rest = args
        results, aux = _driven(self.gen, f, rest, kwargs)
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

    def cached(fun: WrappedFun, *args: Any) -> Any:
        key = fun, args
        if key in known:
            answer, called = known[key]
            fun.populate_stores(called.stores)
            return answer
        answer = call(fun, *args)
        known[key] = answer, fun
        return answer

    cached.__dict__["cache_clear"] = known.clear
    return cached
