"""What processes tell each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from ftrace.errors import ValueRangeError
from ftrace.ground import process_groups, processes
from ftrace.ground.missing_names import tell_missing
from ftrace.trace.arrays.array import is_array
from ftrace.trace.pytree import tree
from ftrace.trace.tracing.scopes import asarray
from ftrace.transforms.device_placement import device_put
from ftrace.transforms.meshes import PartitionSpec
from ftrace.transforms.partition.spanning import Spanning, of_process, own_shard, put
from ftrace.transforms.shardings import NamedSharding

__all__ = [
    "assert_equal", "broadcast_one_to_all", "global_array_to_host_local_array",
    "host_local_array_to_global_array", "process_allgather",
    "reached_preemption_sync_point", "sync_global_devices",
]  # fmt: skip


def _text(values: Any) -> str:
    leaves, treedef = tree.flatten(values)
    arrays = [x if is_array(x) else np.asarray(x) for x in leaves]
    types = [f"{x.dtype}{list(x.shape)}" for x in arrays]
    return "\n".join([str(treedef), *types])


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """The tree of the source, in NumPy's arrays.

    Args:
      in_tree: arrays, of the same shapes and dtypes in all processes.
      is_source: is it this process? By default that is number 0.

    Raises:
      ProcessError: the trees differ in structure, shapes or dtypes.
      ValueRangeError: there is not exactly one source.
    """
    everyone, own = process_groups.everyone(), processes.index() == 0
    everyone.agree("broadcast_one_to_all", lambda: _text(in_tree))
    flags = everyone.gather(np.array([own if is_source is None else is_source]))
    if flags.sum() != 1:
        raise ValueRangeError(
            f"broadcast_one_to_all: one process is the source, got {flags.ravel()}"
        )
    place = int(flags.argmax())

    def broadcast(x: Any) -> Any:
        return everyone.broadcast(np.asarray(x), place)

    return tree.map(broadcast, in_tree)


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The trees of all processes, in NumPy's arrays.

    Args:
      in_tree: arrays, of the same shapes and dtypes in all processes. Of one that is
        over several processes the whole is returned.
      tiled: they stand one behind the other, and not along a new axis; those without
        axes along one all the same, where there are several processes.

    Raises:
      ProcessError: the trees differ in structure, shapes or dtypes.
      ValueRangeError: an array over several processes has no rows of each: `tiled`.
    """
    everyone = process_groups.everyone()
    everyone.agree("process_allgather", lambda: _text(in_tree))

    def gather(x: Any) -> Any:
        if not getattr(x, "is_fully_addressable", True):
            if not tiled:
                raise ValueRangeError(
                    "Gathering global non-fully-addressable arrays only supports "
                    f"tiled=True, got one of shape {x.shape}"
                )
            return x.whole() if type(x) is Spanning else np.asarray(x)
        rows = everyone.gather(np.asarray(x))
        if tiled and len(rows) == 1:
            return rows[0]
        return np.concatenate(rows) if tiled and rows.ndim > 1 else rows

    return tree.map(gather, in_tree)


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Raises where processes have different trees.

    Raises:
      ProcessError: they have.
    """

    def text() -> str:
        leaves, treedef = tree.flatten(in_tree)
        return "\n".join(
            [tree.readable(treedef), *[f"{np.asarray(x)!r}" for x in leaves]]
        )

    process_groups.everyone().agree(fail_message or "assert_equal", text)


def host_local_array_to_global_array(
    local_inputs: Any, global_mesh: Any, pspecs: Any
) -> Any:
    """Arrays over a mesh, of what each process has of them.

    Args:
      local_inputs: a pytree of arrays: the parts of this process's devices, in order.
      pspecs: how they are divided; or a prefix of the tree of specs.

    Raises:
      ShapeError: a part cannot be divided between the devices of a process.
    """

    def place_local(x: Any, sharding: NamedSharding) -> Any:
        return of_process(asarray(x), sharding)

    return _by_specs(place_local, local_inputs, global_mesh, pspecs)


def global_array_to_host_local_array(
    global_inputs: Any, global_mesh: Any, pspecs: Any
) -> Any:
    """What this process has of arrays over a mesh, over that of its own devices.

    Args:
      global_inputs, global_mesh, pspecs: as of `host_local_array_to_global_array`.
    """

    def own(x: Any, sharding: NamedSharding) -> Any:
        made = put(x, sharding)
        if type(made) is Spanning:
            return own_shard(made)
        return device_put(made, NamedSharding(global_mesh.local_mesh, sharding.spec))

    return _by_specs(own, global_inputs, global_mesh, pspecs)


def _by_specs(function: Any, arrays: Any, mesh: Any, pspecs: Any) -> Any:
    def by_spec(x: Any, spec: Any) -> Any:
        return function(
            x, NamedSharding(mesh, PartitionSpec() if spec is None else spec)
        )

    return tree.map_prefix(by_spec, arrays, pspecs, "multihost_utils: pspecs")


def sync_global_devices(name: str) -> None:
    """Waits for all processes, which must give the same name.

    Raises:
      ProcessError: they have not.
    """
    process_groups.everyone().agree("sync_global_devices", lambda: name)


def reached_preemption_sync_point(step_id: int) -> bool:
    """Have all processes been told to stop? Nobody tells them."""
    return False


tell_missing(__name__)
