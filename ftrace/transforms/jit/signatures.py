"""What type checkers and editors know of a jitted function: its parameters stay.

@ft.jit
def step(weights: Array, rate: float = 0.1) -> Array: ...

step(weights, rate=0.2)          checked, and completed, as a call of `step` itself
step.lower(weights).as_text()    and what jit adds to it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ParamSpec, Protocol, TypedDict, TypeVar, overload

from ftrace.transforms.jit.misses import CacheInfo, Misses
from ftrace.transforms.jit.stages import Lowered, Traced

P = ParamSpec("P")
R = TypeVar("R")


class Wrapped(Protocol[P, R]):
    """A function under jit: see `Jitted`."""

    __name__: str
    __wrapped__: Callable[P, R]

    @property
    def trace_count(self) -> int: ...
    @property
    def misses(self) -> Misses: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __get__(self, instance: None, owner: Any = None) -> Wrapped[P, R]: ...
    @overload  # a method: of `partial(jit, …)` mypy knows not what is left
    def __get__(self, instance: Any, owner: Any = None) -> Callable[..., R]: ...
    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Traced: ...
    def lower(self, *args: Any, **kwargs: Any) -> Lowered: ...
    def eval_shape(self, *args: Any, **kwargs: Any) -> Any: ...
    def cache_info(self) -> CacheInfo: ...
    def clear_cache(self) -> None: ...


class JitOptions(TypedDict, total=False):
    """What `jit` takes besides the function."""

    in_shardings: Any
    out_shardings: Any
    static_argnums: int | Sequence[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Sequence[int] | None
    donate_argnames: str | Iterable[str] | None
    keep_unused: bool
    device: Any
    backend: str | None
    inline: bool
    compiler_options: dict[str, Any] | None
    dynamic: Any
