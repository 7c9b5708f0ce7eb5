"""Programs of several processes: there is one."""

from __future__ import annotations

from typing import Any

from ftrace.errors import DeviceError
from ftrace.ground.missing_names import tell_missing


class _State:
    initialized = False


def initialize(
    coordinator_address: str | None = None, num_processes: int | None = None,
    process_id: int | None = None, local_device_ids: Any = None,
    cluster_detection_method: str | None = None, initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100, shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None, slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:  # fmt: skip
    """Joins the other processes of the program: it must be the only one.

    Raises:
      DeviceError: there are to be several processes, or it has been called before.
    """
    if num_processes not in (None, 1) or process_id not in (None, 0):
        raise DeviceError(
            f"distributed.initialize: programs run in one process, got {num_processes} "
            f"processes and number {process_id}; several are not there yet"
        )
    if _State.initialized:
        raise DeviceError(
            "distributed.initialize should only be called once. Call shutdown first"
        )
    _State.initialized = True


def is_initialized() -> bool:
    """Has `initialize` been called?"""
    return _State.initialized


def shutdown() -> None:
    """Leaves the other processes."""
    _State.initialized = False


tell_missing(__name__)
