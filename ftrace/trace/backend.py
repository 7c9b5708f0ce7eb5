"""What stands above and is used from below: it runs graphs as programs of a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ftrace.ground.fast_dataclasses import dataclass

if TYPE_CHECKING:
    from ftrace.trace.arrays.array import Array
    from ftrace.trace.avals import ShapedArray
    from ftrace.trace.graph import Graph
    from ftrace.trace.primitives.primitive import Compound
    from ftrace.trace.symbolic import Dim

Program = Callable[..., "list[Array]"]


@dataclass(frozen=True)
class Backend:
    """What stands above.

    Attributes:
      run_graph: runs a graph on the device of its arguments.
      compiles: are eager calls compiled: is the default device the processor?
      program_of: a graph without effects, compiled when it is first called with values.
      has_compiled: has this process compiled anything?
      run_call: does a call outside of all traces, if its arrays are large: given the
        function, whether numbers are operands of it, and its arguments. It returns
        None where NumPy shall compute the result.
      run_operation: does an operation with several results, likewise: given it, its
        argument and the operands.
      make_native: lets eager calls be native, where there is such code.
      call_placed: does a call of which an argument is divided over devices, or which
        the default device shall do; NotImplemented for all others.
      value_of_dim: a dynamic dimension as a value of the innermost trace.
      aval_of, device_of, sharding_of, format_of, shards_of: what an array is asked for.
      typeof: the type of a traced value as users see it.
      html_of, jaxpr_of: a graph for notebooks; and as a jaxpr.
      devices: those of the default platform.
      device_put, block_until_ready: the functions of these names.
      vmap, reduce, scan, while_loop: the transform, and functions of `lax`.
    """

    run_graph: Callable[[Graph, Sequence[Array]], list[Array]]
    compiles: Callable[[], bool]
    program_of: Callable[[Graph], Program]
    has_compiled: Callable[[], bool]
    run_call: Callable[[Callable[..., Any], bool, Any, Any], Any]
    run_operation: Callable[[Compound, Any, Sequence[Array]], Any]
    make_native: Callable[[], None]
    call_placed: Callable[[Callable[..., Any], Any, Any], Any]
    value_of_dim: Callable[[Dim], Any]
    aval_of: Callable[[Array], ShapedArray]
    typeof: Callable[[Any], Any]
    html_of: Callable[[Graph], str]
    jaxpr_of: Callable[[Graph], Any]
    device_of: Callable[[Array], Any]
    sharding_of: Callable[[Array | ShapedArray], Any]
    format_of: Callable[[Array], Any]
    shards_of: Callable[[Array], list[Any]]
    devices: Callable[[], list[Any]]
    device_put: Callable[[Any, Any], Any]
    block_until_ready: Callable[[Any], Any]
    vmap: Callable[..., Callable[..., Any]]
    reduce: Callable[..., Any]
    scan: Callable[..., Any]
    while_loop: Callable[..., Any]


_registered: list[Backend] = []


def register(made: Backend) -> None:
    """From now on graphs run by it."""
    _registered[:] = [made]


def backend() -> Backend:
    """The one that is registered; `ftrace` does that when it is imported."""
    return _registered[0]
