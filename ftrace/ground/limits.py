"""What a device can do, as far as lowering asks."""

from __future__ import annotations

from ftrace.ground.fast_dataclasses import NamedTuple


class Limits(NamedTuple):
    """Limits of a device.

    Attributes:
      max_buffers: how many buffers one kernel can take; 0 is no limit.
      recurrences: it runs small loops in registers, and library operations as kernels.
      cache: bytes of the cache that a core has for itself; 0 where that is no help.
    """

    max_buffers: int = 0
    recurrences: bool = False
    cache: int = 0


#: Of a device of which nothing is known.
ANY_DEVICE = Limits()
