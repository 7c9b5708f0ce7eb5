"""What threads do again and again, and what it must give."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from random import Random
from time import monotonic
from typing import Any

import numpy as np

import ftrace as ft
import ftrace.numpy as fnp
from tests.fuzz.generate import generate
from tests.fuzz.judge import judge
from tests.fuzz.purposes import purpose
from tests.fuzz.ways import OURS, arguments, arrays, function, setting


class Interrupted(BaseException):
    """Arrives at any point of a step."""


@dataclass
class Record:
    """What happened so far, in all threads.

    Attributes:
      counts: of steps and of disturbances, by name.
      faults: what must not be.
      beats: when each thread last finished something.
    """

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    beats: dict[str, float] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)

    def fault(self, text: str) -> None:
        self.faults.append(text)

    def beat(self) -> None:
        self.beats[threading.current_thread().name] = monotonic()


@dataclass(frozen=True)
class Known:
    """A compiled program, and the bits that it gives."""

    seed: int
    x64: bool | None
    call: Callable[..., Any]
    args: tuple[Any, ...]
    bits: tuple[bytes, ...]

    @staticmethod
    def of(seed: int) -> Known:
        program = generate(seed)
        with setting(program.x64):
            call = ft.jit(function(program, OURS))
            args = tuple(arguments("plain", program, OURS))
            return Known(seed, program.x64, call, args, bits_of(call(*args)))

    def check(self) -> str | None:
        with setting(self.x64):
            now = bits_of(self.call(*self.args))
        return None if now == self.bits else f"program {self.seed} gives other bits"


def bits_of(results: Any) -> tuple[bytes, ...]:
    return tuple(r.tobytes() for r in arrays(results))


@dataclass
class Worker:
    """Steps of one thread; each in a context of its own, which dies with it."""

    record: Record
    known: list[Known]
    seed: int
    programs: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)

    def step(self) -> None:
        name = self.random.choice(("program", "program", "again", "again", "shapes"))
        fault = Context().run(getattr(self, name))
        if fault is not None:
            self.record.fault(fault)
        self.record.counts[name] += 1
        self.record.beat()

    def program(self) -> str | None:
        self.programs += 1
        seed = self.seed * 1_000_000_000 + self.programs
        program = generate(seed)
        failure = judge(program)
        if failure is None or purpose(program, failure) is not None:
            return None
        return f"program {seed}: {failure}"

    def again(self) -> str | None:
        return self.random.choice(self.known).check()

    def shapes(self) -> str | None:
        """A function, called with shapes that are new, and deleted."""
        factor = self.random.randrange(1 << 20)

        def scale(x: Any) -> Any:
            return fnp.sum(x * 2 + factor, axis=-1)

        jitted = ft.jit(scale)
        for _ in range(3):
            shape = (self.random.randrange(1, 60), self.random.randrange(1, 60))
            x = np.ones(shape, np.int32)
            if np.any(np.asarray(jitted(x)) != shape[1] * (2 + factor)):
                return f"sum of shape {shape} is wrong"
        return None
