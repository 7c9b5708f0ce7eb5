"""Functions with effects, and what they did: what their tests share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import debug, lax


class Log:
    """Keeps what it is called with, as Python numbers."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def keep(self, *args: Any, what: str) -> None:
        self.events.append([what, *(np.asarray(a).tolist() for a in args)])

    def note(self, what: str, *args: Any) -> None:
        debug.callback(self.keep, *args, what=what)

    @property
    def library(self) -> SimpleNamespace:
        return SimpleNamespace(
            jit=ft.jit, grad=ft.grad, vmap=ft.vmap, lax=lax, numpy=fnp, note=self.note
        )


class Counter:
    """A function with a memory: gives 0, then 1, and so on."""

    def __init__(self) -> None:
        self.count = 0

    def next(self, *_: Any) -> Any:
        self.count += 1
        return np.float32(self.count - 1)
