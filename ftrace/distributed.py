"""Programs of several processes: the ranks that `mpirun` has started.

    mpirun -n 4 python train.py        which begins with ft.distributed.initialize()

Each process runs the same program. `ft.devices()` are those of all of them, and what is
over a mesh of these is computed by all together.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np

from ftrace.backends.base import own_devices, set_system
from ftrace.errors import DeviceError
from ftrace.ground import VERSION, process_groups, processes, settings
from ftrace.ground.missing_names import tell_missing

#: Platforms that are seen as one system.
_PLATFORMS = ("cpu", "interpreter")


def initialize(
    coordinator_address: str | None = None, num_processes: int | None = None,
    process_id: int | None = None, local_device_ids: Any = None,
    cluster_detection_method: str | None = None, initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100, shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None, slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:  # fmt: skip
    """Joins the other processes of the program, which MPI has started.

    Without `mpirun` the program has one process. A process that then ends by an
    exception ends the others, with its name; none waits longer than the setting
    `distributed_timeout` says.

    Args:
      num_processes, process_id: what they are to be, if given.
      initialization_timeout: seconds for which a process waits for the others, and
        then ends; 300, the default, stands for what `distributed_timeout` says.
      coordinator_address, coordinator_bind_address, cluster_detection_method: accepted
        for JAX's sake: MPI knows.
      local_device_ids, slice_index, partition_index: likewise.
      heartbeat_timeout_seconds, shutdown_timeout_seconds: likewise.

    Raises:
      MissingExtraError: mpi4py or an MPI library is missing.
      DeviceError: there are not as many processes, or it has been called before.
      ProcessError: the processes have other versions or settings.
    """
    if processes.is_joined():
        raise DeviceError(
            "distributed.initialize should only be called once. Call shutdown first"
        )
    given = None if initialization_timeout == 300 else initialization_timeout
    processes.join(num_processes, process_id, given)
    if processes.count() > 1:
        everyone, key = process_groups.everyone(), settings.current().trace_key
        lines = f"ftrace {VERSION}\nnumpy {version('numpy')}\nsettings {key}"
        everyone.agree("versions and settings", lambda: lines)
        own = np.array([len(own_devices(name)) for name in _PLATFORMS])
        counts = everyone.gather(own).T.tolist()
        set_system(dict(zip(_PLATFORMS, counts, strict=True)))


def is_initialized() -> bool:
    """Has `initialize` been called?"""
    return processes.is_joined()


def shutdown() -> None:
    """Leaves the other processes; waits until all have come here.

    Raises:
      ProcessError: not all came within the time.
    """
    set_system({})
    processes.leave()


tell_missing(__name__)
