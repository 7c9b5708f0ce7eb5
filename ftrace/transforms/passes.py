"""Forward and backward pass of a function, as two functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ftrace.trace.flatten_arguments import Argnums
from ftrace.transforms.grad import vjp


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:  # fmt: skip
    """The forward and the backward pass of `fun`.

    Args:
      fun: a function of pytrees of arrays.
      argnums: the arguments that cotangents are wanted of.
      has_aux: `fun` returns a pair of its result and something more.
      jitted: accepted for JAX's sake: either pass runs as one program.

    Returns:
      (fwd, bwd): fwd(*args) -> (result, residuals), or (result, residuals, aux), and
      bwd(residuals, cotangent of the result) -> the cotangent of each argument, one
      alone if `argnums` is an int.

    Example:
      >>> fwd, bwd = ft.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
      >>> result, residuals = fwd(fnp.array([1.0, 2.0]), fnp.array([3.0, 4.0]))
      >>> bwd(residuals, fnp.ones(2))
      (Array([3., 4.], dtype=float32), Array([1., 2.], dtype=float32))
    """
    chosen = Argnums("fwd_and_bwd", argnums)

    def fwd(*args: Any) -> tuple[Any, ...]:
        def of_chosen(*moving: Any) -> Any:
            given = dict(zip(places, moving, strict=True))
            return fun(*[given.get(i, x) for i, x in enumerate(args)])

        places = chosen.positions(args)
        return vjp(of_chosen, *[args[i] for i in places], has_aux=has_aux)

    def bwd(residuals: Callable[[Any], Any], cotangent: Any) -> Any:
        found = residuals(cotangent)
        return found[0] if chosen.single else found

    return fwd, bwd
