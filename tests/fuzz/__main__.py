"""The command line of the fuzzer; see the package."""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ftrace as ft
from tests.fuzz.generate import generate
from tests.fuzz.judge import THOROUGH, Failure, judge
from tests.fuzz.program import Program, written
from tests.fuzz.purposes import purpose
from tests.fuzz.shrink import shrink
from tests.fuzz.ways import Library, peer_library

#: Seconds that one program may take before the process says where it hangs.
PATIENCE = 300
#: Seconds that one failure may take until it is small.
SHRINKING = 30
#: Programs until the caches are emptied: each has its own shapes.
CACHED = 100


@dataclass
class Session:
    """What has been run in a folder of states; it goes on where it stopped."""

    folder: Path
    first: int
    peer: Library | None = None
    programs: int = 0
    begun: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def file(self) -> Path:
        return self.folder / f"fuzz-{self.first}{'-peer' if self.peer else ''}.json"

    def load(self) -> None:
        if self.file.exists():
            state = json.loads(self.file.read_text())
            self.programs = self.begun = state["programs"]
            self.explained = Counter(state["explained"])
            self.failures = state["failures"]
            if state["begun"] > self.programs:  # the process ended in it
                self.programs = self.begun = state["begun"]
                seed = self._seed(self.programs - 1)
                program = generate(seed, self.peer is not None)
                text = written(program, program.arguments(), [])
                self._report(seed, f"# the process ended\n{text}")

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "programs": self.programs,
            "begun": self.begun,
            "explained": dict(self.explained),
            "failures": self.failures,
        }
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(state, indent=1))
        part.replace(self.file)

    def _seed(self, number: int) -> int:
        return self.first * 1_000_000_000 + number

    def step(self, verbose: bool = False) -> None:
        """The next program."""
        seed = self._seed(self.programs)
        self.begun = self.programs + 1
        self.save()
        faulthandler.dump_traceback_later(PATIENCE, exit=True, file=sys.__stderr__)
        try:
            self._judge(generate(seed, self.peer is not None), verbose)
        except Exception:
            self._report(seed, f"# no program\n{traceback.format_exc()}")
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.programs += 1
        if self.programs % CACHED == 0:
            ft.clear_caches()
            if self.peer is not None:
                self.peer["jax"].clear_caches()

    def _judge(self, program: Program, verbose: bool) -> None:
        failure = judge(program, self.peer)
        if failure is None:
            return
        small, reason = program, purpose(program, failure, shrunk=False)
        if reason is None:
            small, failure = reduced(program, failure, self.peer)
            reason = purpose(small, failure)
        if reason is not None:
            self.explained[reason] += 1
            if not verbose:
                return
            print(f"# on purpose: {reason}")
        self._report(program.seed, text_of(small, failure))

    def _report(self, seed: int, text: str) -> None:
        print(f"# seed {seed}\n{text}", flush=True)
        self.failures.append(str(seed))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"failure-{seed}.py").write_text(text)


def reduced(
    program: Program, failure: Failure, peer: Library | None
) -> tuple[Program, Failure]:
    """The smallest program found that fails in the same way, and how it does."""
    found = failure

    def fails(smaller: Program, thorough: int = 4) -> bool:
        nonlocal found
        ways = (failure.transform,), failure.way
        now = judge(smaller, peer, *ways, thorough)
        if now is None or not now.like(failure):
            return False
        found = now
        return True

    def enough(smaller: Program) -> bool:
        return len(smaller.statements) == 1 and purpose(smaller, found) is not None

    small = shrink(program, fails, SHRINKING, enough)
    if enough(small) or fails(small, THOROUGH):
        return small, found
    return program, failure


def text_of(program: Program, failure: Failure) -> str:
    """The failure as a Python program: what was seen, and what shows it."""
    names = ", ".join(i.name for i in program.inputs)
    axes, argnums = program.axes(), program.differentiable()
    batched = "vmap" in failure.transform
    values = program.batch() if batched else program.arguments()
    call = "f"
    if "grad" in failure.transform:
        call = f"jax.grad(lambda *a: sum(o.real.sum() for o in f(*a)), {argnums})"
    if batched:
        call = f"jax.vmap({call}, {axes})"
    calls = [f"g = {call}", f"print(g({names}))", f"print(jax.jit(g)({names}))"]
    return f"# {failure}\n{written(program, values, calls)}"


def default_state() -> Path:
    return Path(tempfile.gettempdir()) / "ftrace-fuzz"


def main(arguments: Sequence[str] | None = None) -> int:
    faulthandler.enable(sys.__stderr__)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--programs", type=int, help="at most so many in this run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", choices=["jax"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--state", type=Path, default=default_state())
    parser.add_argument(
        "--only", type=int, help="the program of this seed, and no more"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="what is on purpose, too"
    )
    options = parser.parse_args(arguments)
    peer: Any = peer_library() if options.peer else None
    session = Session(options.state, options.seed, peer)
    with ft.config(device=options.device, cache_size=0):
        if options.only is not None:
            program = generate(options.only, peer is not None)
            print(program.body())
            session._judge(program, True)
            return bool(session.failures)
        return run(session, options.seconds, options.programs, options.verbose)


def run(session: Session, seconds: float, programs: int | None, verbose: bool) -> int:
    session.load()
    began, start = session.programs, time.monotonic()
    failed = len(session.failures)
    while time.monotonic() - start < seconds:
        if programs is not None and session.programs - began >= programs:
            break
        session.step(verbose)
    session.save()
    count, spent = session.programs - began, time.monotonic() - start
    print(
        f"{count} programs in {spent:.0f} s, {session.programs} of seed {session.first}"
    )
    for reason, times in session.explained.most_common():
        print(f"  {times} on purpose: {reason}")
    print(f"  {len(session.failures) - failed} not explained")
    return int(len(session.failures) > failed)


if __name__ == "__main__":
    sys.exit(main())
