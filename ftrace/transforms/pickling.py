"""How functions with state of their own are pickled and copied: as Python's are.

One that stands in a module under its name, as `@ft.jit def step(x)` does, goes by that
name; another one, as `self.step = ft.jit(step)`, by what it is made of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import attrgetter
from types import FrameType
from typing import Any

from ftrace.ground.fast_dataclasses import Immutable

_getframe: Callable[[int], FrameType] = sys._getframe  # pyright: ignore[reportPrivateUsage]


class Travels(Immutable):
    """What stands for a function of the user's, whose name it has."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: Any) -> Any:
        name, module = getattr(self, "__qualname__", ""), self.__module__
        if module != "__main__" or not _pickles_functions(_getframe(1)):
            try:
                if attrgetter(name)(sys.modules[module]) is self:
                    return name
            except (AttributeError, KeyError):
                pass
        return self.reduced(protocol)

    def reduced(self, protocol: Any) -> Any:
        """What pickle makes it of, where it cannot be found by its name."""
        return object.__reduce_ex__(self, protocol)


def _pickles_functions(caller: FrameType) -> bool:
    """Is it cloudpickle that asks, or a copy of it as other packages have one?

    It sends functions of `__main__` whole, for those who read them have another one.
    """
    return "cloudpickle" in caller.f_globals.get("__name__", "")
