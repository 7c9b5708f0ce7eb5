"""One frozen configuration, read from the environment once.

It is changed for a block, or for good:

    with ft.config(debug=1, disabled_rules={"merge_reshapes"}):
        step(params, batch)

    ft.config.update("jax_enable_x64", True)
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from typing import Any

from ftrace.errors import ArgumentError


@dataclass(frozen=True)
class Config:
    """Settings of one thread at one time.

    Attributes:
      enable_x64: None honours the dtype of every input and creates 32-bit arrays;
        True and False give JAX's behaviour with that switch.
      device: name of the default device.
      debug: 0 silent, 1 a line per kernel compiled, 2 a line per kernel run,
        3 the source of every kernel.
      disabled_rules: names of rewrite rules that are not applied.
      disable_jit: run jitted functions operation by operation.
      check_specs: check the graph against its specification between passes.
      threads: number of threads of the CPU device; 0 takes all cores.
      cache_dir: folder of the disk cache; empty for the platform's own.
    """

    enable_x64: bool | None = None
    device: str = "cpu"
    debug: int = 0
    disabled_rules: frozenset[str] = frozenset()
    disable_jit: bool = False
    check_specs: bool = False
    threads: int = 0
    cache_dir: str = ""

    def __post_init__(self) -> None:
        if self.enable_x64 not in (None, True, False):
            raise ArgumentError(f"enable_x64 must be None or bool: {self.enable_x64!r}")
        if self.threads < 0:
            raise ArgumentError(f"threads must be 0 or more, got {self.threads}")
        object.__setattr__(self, "disabled_rules", frozenset(self.disabled_rules))


def _from_environment() -> Config:
    def flag(name: str) -> bool | None:
        text = os.environ.get(name)
        return None if text is None else text.lower() not in ("", "0", "false", "no")

    def number(name: str) -> int:
        text = os.environ.get(name) or "0"
        if not text.isdecimal():
            raise ArgumentError(
                f"the environment variable {name} must be a number, got {text!r}"
            )
        return int(text)

    return Config(
        enable_x64=flag("FTRACE_ENABLE_X64"),
        device=os.environ.get("FTRACE_DEVICE", "cpu"),
        debug=number("FTRACE_DEBUG"),
        disable_jit=bool(flag("FTRACE_DISABLE_JIT")),
        check_specs=bool(flag("FTRACE_CHECK_SPECS")),
        threads=number("FTRACE_THREADS"),
        cache_dir=os.environ.get("FTRACE_CACHE_DIR", ""),
    )


_default = _from_environment()
_local: ContextVar[Config | None] = ContextVar("ftrace_config", default=None)
_names = {field.name for field in fields(Config)}


def current() -> Config:
    """The configuration in force for this thread."""
    return _local.get() or _default


def _canonical(name: str) -> str:
    short = name.removeprefix("jax_")
    if short not in _names:
        known = ", ".join(sorted(_names))
        raise ArgumentError(f"unknown setting {name!r}; the settings are {known}")
    return short


class ConfigHandle:
    """`ft.config`: call it for a `with` block, or `update` the default for good."""

    @contextmanager
    def __call__(self, **changes: Any) -> Generator[Config, None, None]:
        changed = replace(current(), **{_canonical(k): v for k, v in changes.items()})
        token = _local.set(changed)
        try:
            yield changed
        finally:
            _local.reset(token)

    def update(self, name: str, value: Any) -> None:
        """Sets the default for all threads; JAX's names (`jax_enable_x64`) work."""
        global _default
        _default = replace(_default, **{_canonical(name): value})
        if (local := _local.get()) is not None:
            _local.set(replace(local, **{_canonical(name): value}))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(current(), _canonical(name))


config = ConfigHandle()
