"""Calls under settings that check them: promotions refused, numbers that are none.

    numpy_dtype_promotion = "strict"    x + y of two dtypes is a TypePromotionError
    numpy_rank_promotion = "raise"      x + y of two numbers of axes is a ShapeError
    debug_nans, debug_infs              what is computed is looked at, and the operation
                                        that gave the first NaN is named

The settings say what users may write: they hold for the public function that is called,
and not for what it is composed of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from time import perf_counter
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from ftrace import dtypes, errors
from ftrace.errors import NonFiniteError, ShapeError, TypePromotionError, warn_user
from ftrace.ground import settings, spans
from ftrace.trace.arrays.array import is_array
from ftrace.trace.avals import Shape
from ftrace.trace.eager.nonfinite import find_nonfinite
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.tracer import aval_of, is_value, stack

Function = TypeVar("Function", bound=Callable[..., Any])
_UFUNC: type[Any] = np.ufunc
#: Functions that promote their first operands, beside the ufuncs of two, and how many.
_PROMOTING = {
    name: most
    for most, names in (
        (1, "concatenate hstack stack vstack"),
        (2, """allclose array_equal cross dot inner isclose kron matmul outer
            promote_types tensordot vdot vecdot"""),
        (3, "clip where"),
        (None, "einsum result_type"),
    )
    for name in names.split()
}  # fmt: skip
#: Functions that broadcast them.
_BROADCASTING = frozenset(("clip", "isclose"))
_LOOSE: dict[str, Any] = {
    "numpy_dtype_promotion": "standard", "numpy_rank_promotion": "allow",
}  # fmt: skip
_UNCHECKED = _LOOSE | dict.fromkeys(("debug_nans", "debug_infs", "no_execution"), False)
#: Kinds that a weak type of a kind may become.
_GROWS = {"i": "iufc", "f": "fc", "c": "c", "b": "b", "u": "u"}


def _is_ufunc(name: str) -> bool:
    """Does it take two operands, element by element?"""
    found: Any = getattr(np, name, None)
    pairs = isinstance(found, _UFUNC) and found.nin == 2 and not found.signature
    return pairs and name != "ldexp"


def call_checked(function: Function, call: Function, args: Any, kwargs: Any) -> Any:
    """A call of a public function, checked as the settings say."""
    config, name = settings.current(), function.__name__
    if config.no_execution and not stack.scopes:
        raise errors.TracingError(
            f"{name} was to be executed, and 'no_execution' is set"
        )
    promotes = not function.__module__.startswith("ftrace.lax")
    if promotes and (name in _PROMOTING or _is_ufunc(name)):
        named = [value for value in kwargs.values() if hasattr(value, "dtype")]
        check_types([*args[name == "where" : _PROMOTING.get(name, 2)], *named])
    if name in _BROADCASTING or _is_ufunc(name):
        shapes = [aval_of(x).shape for x in args if is_value(x)]
        check_ranks(name, shapes)
    with settings.config(**_UNCHECKED):
        result = call(*args, **kwargs)
    if not (config.debug_nans or config.debug_infs):
        return result
    for value in tree.leaves(result):
        found = is_array(value) and find_nonfinite(value.numpy())
        if found:
            raise NonFiniteError(
                f"invalid value ({found}) encountered in {name}, whose result has type "
                f"{aval_of(value)!r}; debug_{found}s is set"
            )
    return result


def call_recorded(function: Function, call: Function, args: Any, kwargs: Any) -> Any:
    """A call of a public function, of which those who record a profile are told."""
    start = perf_counter()
    block = spans.span("eager", function.__name__, None)
    with settings.standing(settings.observing_steps()), block:
        result = call(*args, **kwargs)
    spans.note_overhead(perf_counter() - start - block.seconds)
    return result


def without_checks(function: Function) -> Function:
    """A composition whose own calls are not checked for promotions."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not settings.current().checks_calls:
            return function(*args, **kwargs)
        with settings.config(**_LOOSE):
            return function(*args, **kwargs)

    return cast(Function, call)


def uncheck(module: str) -> None:
    """`without_checks` of all public functions of a module, so far."""
    space = vars(sys.modules[module])
    for name in space["__all__"]:
        if isinstance(space.get(name), FunctionType):
            space[name] = without_checks(space[name])


def check_types(operands: Iterable[Any]) -> None:
    """Raises, if the settings say so, where the dtypes of operands differ.

    Raises:
      TypePromotionError: `numpy_dtype_promotion` is "strict".
    """
    if settings.current().numpy_dtype_promotion != "strict":
        return
    leaves = tree.leaves(list(operands))
    avals = [aval_of(x) for x in leaves if is_value(x)]
    strong: set[Any] = {a.dtype for a in avals if not a.weak_type}
    strong |= {x for x in leaves if isinstance(x, np.dtype)}
    kinds = {dtypes.kind(dtype) for dtype in strong}
    weak = {dtypes.kind(a.dtype) for a in avals if a.weak_type}
    fits = all(k in _GROWS[w] for w in weak for k in kinds)
    if len(strong) > 1 or (strong and not fits):
        names = *sorted(d.name for d in strong), *sorted(f"{w}*" for w in weak)
        raise TypePromotionError(
            f"Input dtypes {names} have no available implicit dtype promotion path "
            "when jax_numpy_dtype_promotion=strict. Convert one of them with .astype, "
            "or set jax_numpy_dtype_promotion=standard"
        )


def check_ranks(name: str, shapes: Sequence[Shape]) -> None:
    """Raises or warns, as the settings say, where arrays have several numbers of axes.

    Raises:
      ShapeError: `numpy_rank_promotion` is "raise".
    """
    policy = settings.current().numpy_rank_promotion
    if policy == "allow" or len({len(shape) for shape in shapes if shape}) <= 1:
        return
    listed = " ".join(map(str, shapes))
    if policy == "raise":
        raise ShapeError(
            f"Operands could not be broadcast together for {name} on shapes {listed} "
            "and with the config option jax_numpy_rank_promotion='raise'; give them "
            "the same number of axes, by reshape or x[None]"
        )
    warn_user(
        f"Following NumPy automatic rank promotion for {name} on shapes {listed}; set "
        "jax_numpy_rank_promotion to 'allow' to have no warning"
    )
