"""What JAX's `lax` has to say how a function is compiled: marks, and choices."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ftrace.backends.base import get_device
from ftrace.errors import ArgumentError, DeviceError
from ftrace.trace.flatten_arguments import flatten_values
from ftrace.trace.pytree import tree

__all__ = ["composite", "dce_sink", "platform_dependent"]


def composite(
    decomposition: Callable[..., Any], name: str, version: int = 0
) -> Callable[..., Any]:
    """`decomposition`, which is known by a name: `f(*arrays, **attributes)`.

    Compilers that know an operation of that name may do it by themselves; this one
    does what the function does, and derives what the function derives.
    """
    tree.check_callable(decomposition, "lax.composite")

    @wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        return decomposition(*args, **attributes)

    return call


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Counts the arrays of a tree as used. Nothing is computed for it.

    Raises:
      ArgumentError: a leaf is no array.
    """
    flatten_values(val, "dce_sink: the operand ")


#: What JAX calls the platforms of our devices.
_PLATFORMS = {"cpu": "cpu", "interpreter": "cpu", "opencl": "opencl"}


def platform_dependent(
    *args: Any,
    default: Callable[..., Any] | None = None,
    **per_platform: Callable[..., Any],
) -> Any:
    """`per_platform[platform](*args)`, of the default device when this is called.

    Under jit that is when the function is traced: the branches must be ways to compute
    one and the same.

    Args:
      args: arrays, or pytrees of them.
      default: the branch of all other platforms.
      per_platform: branches by platform: "cpu", "opencl"; others are never taken.

    Raises:
      ArgumentError: a branch is no function.
      DeviceError: there is no branch for this platform.
    """
    for name, branch in {**per_platform, "default": default}.items():
        if branch is not None or name != "default":
            tree.check_callable(branch, f"lax.platform_dependent: {name}")
    if "gpu" in per_platform:
        raise ArgumentError(
            "lax.platform_dependent: write opencl= (in JAX cuda= or rocm=), not gpu="
        )
    device = get_device(None).name
    chosen = per_platform.get(_PLATFORMS.get(device, device), default)
    if chosen is None:
        raise DeviceError(
            f"lax.platform_dependent: no branch for the device {device!r}; give "
            "default="
        )
    return chosen(*args)
