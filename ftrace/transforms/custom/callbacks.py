"""Calling Python functions from compiled programs, for their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftrace.errors import ArgumentError, warn_user
from ftrace.trace.effects import METHODS, call_back


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    vectorized: bool | None = None,
    **kwargs: Any,
) -> Any:
    """The result of a Python function, also in compiled programs.

    The function must compute its result from its arguments and nothing else: it may
    be called once, several times, or not at all where nobody uses the result.

    Args:
      callback: gets arrays with values, and returns arrays (of ftrace, of NumPy, or
        numbers) of the types that `result_shape_dtypes` says.
      result_shape_dtypes: a tree of objects with a shape and a dtype, such as
        `ftrace.ShapeDtypeStruct`.
      args, kwargs: its arguments: arrays and numbers, pytrees of them; other leaves
        (strings, objects) are passed on as they are.
      sharding: accepted, without effect: there is one device.
      vmap_method: what vmap makes of it: "sequential" (also for None) calls it once
        per lane; the others once for all lanes, with one more leading axis of each
        batched argument and each result. Arguments that are not batched then have
        size 1 there ("expand_dims"), are repeated ("broadcast_all"), or are as they
        were ("legacy_vectorized").
      vectorized: deprecated: True is "legacy_vectorized", False "sequential".

    Returns:
      Arrays in the structure of `result_shape_dtypes`.

    Raises:
      ArgumentError: `callback` is not callable; there is no such `vmap_method`.
      CallbackError: the function did not return what was promised; raised where the
        program runs.
      DerivativeError: a derivative is taken; give one with `ftrace.custom_jvp`.

    Example:
      >>> def host(x):  # any code: SciPy, a table, a file
      ...     return np.sort(np.asarray(x))
      >>> def f(x):
      ...     return ft.pure_callback(host, ft.ShapeDtypeStruct(x.shape, x.dtype), x)
      >>> ft.jit(f)(fnp.array([3.0, 1.0, 2.0]))
      Array([1., 2., 3.], dtype=float32)
    """
    if vectorized is not None:
        warn_user(
            "pure_callback: vectorized= is deprecated; write "
            f"vmap_method={'legacy_vectorized' if vectorized else 'sequential'!r}",
            DeprecationWarning,
        )
        if vmap_method is not None:
            raise ArgumentError(
                "pure_callback: vectorized and vmap_method say the same thing; give "
                "vmap_method alone"
            )
        vmap_method = "legacy_vectorized" if vectorized else "sequential"
    if vmap_method is not None and vmap_method not in METHODS:
        raise ArgumentError(
            f"pure_callback: vmap_method must be one of {', '.join(METHODS)}, got "
            f"{vmap_method!r}"
        )
    method = vmap_method or "sequential"
    return call_back(
        "pure_callback", callback, result_shape_dtypes, args, kwargs, method
    )


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """The result of a Python function that does something beside, such as reading.

    It is called once each time the program comes there, in the order of the program,
    whether its result is used or not. Under vmap it is called once per lane, one
    after the other.

    Args:
      callback: gets arrays with values, and returns arrays (of ftrace, of NumPy, or
        numbers) of the types that `result_shape_dtypes` says.
      result_shape_dtypes: a tree of objects with a shape and a dtype, such as
        `ftrace.ShapeDtypeStruct`; None for a function that returns None.
      args, kwargs: its arguments: arrays and numbers, pytrees of them; other leaves
        (strings, objects) are passed on as they are.
      sharding: accepted, without effect: there is one device.
      ordered: accepted, without effect: all calls are in the order of the program.

    Returns:
      Arrays in the structure of `result_shape_dtypes`.

    Raises:
      ArgumentError: `callback` is not callable.
      CallbackError: the function did not return what was promised; raised where the
        program runs.
      DerivativeError: a derivative is taken of what it returned, where that is float
        or complex; give one with `ftrace.custom_jvp`.

    Example:
      >>> seen = []
      >>> f = ft.jit(lambda x: ft.io_callback(lambda v: seen.append(float(v)), None, x))
      >>> f(2.5)
      >>> seen
      [2.5]
    """
    return call_back("io_callback", callback, result_shape_dtypes, args, kwargs)


def effects_barrier() -> None:
    """Waits until all effects have happened: they have.

    A program returns when its last effect has happened, so there is nothing to wait
    for; the function is there for programs that were written for JAX.
    """
