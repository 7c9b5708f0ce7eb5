"""Runs a program in all ways, and says what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import ml_dtypes
import numpy as np

import ftrace as ft
from ftrace.ground.fork_safe import cached_property
from tests.fuzz.noise import Noise, distance, spreads
from tests.fuzz.program import Program
from tests.fuzz.ways import (
    OURS,
    TRANSFORMS,
    Library,
    applies,
    apply,
    arguments,
    arrays,
    dtype_name,
    function,
    given,
    one_by_one,
    setting,
)

#: Calls until a call is all native.
CALLS = 7
#: The spread of the noises is a sample: the difference may be this much greater.
SAFETY = 3.0
#: Noises of four times the units, before a difference counts as one.
THOROUGH = 120


@dataclass(frozen=True)
class Failure:
    """One difference.

    Attributes:
      transform: of the program; see `ways.TRANSFORMS`.
      way: what executed it: "eager", "jit", "interpreter", "loop", "peer", …
      kind: "error", "refused", "count", "shape", "dtype", "value", "zero" or "bits".
      detail: for people.
      apart: how far, in the distances of floats at 1.
    """

    transform: str
    way: str
    kind: str
    detail: str
    apart: float = 0

    def __str__(self) -> str:
        return f"{self.transform} by {self.way}: {self.kind}: {self.detail}"

    def of_terms(self) -> bool:
        """A sign of a zero that depends on the order of a sum's terms."""
        return (self.way, self.kind) == ("peer", "zero") and "grad" in self.transform

    def like(self, other: Failure) -> bool:
        """The same fault, as far as one can tell."""
        mine, theirs = self, other
        return (mine.transform, mine.way, mine.kind) == (
            theirs.transform,
            theirs.way,
            theirs.kind,
        )


class Growing:
    """What an iterator gives, which is kept for the next who asks."""

    def __init__(self, more: Iterator[Any]) -> None:
        self.known, self.more = list[Any](), more

    def __iter__(self) -> Iterator[Any]:
        for number in count():
            if number == len(self.known):
                try:
                    self.known.append(next(self.more))
                except StopIteration:
                    return
            yield self.known[number]


class Judge:
    """One program under one transform: its reference, and how sure that is."""

    def __init__(
        self, program: Program, transform: str, thorough: int = THOROUGH
    ) -> None:
        self.program, self.transform = program, transform
        self.thorough = thorough
        self.args = arguments(transform, program, OURS)
        self.f = function(program, OURS)

    @cached_property
    def reference(self) -> list[Any]:
        return arrays(apply(self.transform, self.f, self.program, OURS)(*self.args))

    @cached_property
    def noises(self) -> Growing:
        """How far rounding carries each element: ever more of it, at ever more cost."""
        backward = "grad" in self.transform
        noises = [Noise(seed, 1.0, backward) for seed in range(4)]
        noises += [Noise(seed, 4.0, backward) for seed in range(self.thorough)]
        moved = [(self.program, noise) for noise in noises]
        if (wide := self.program.widened()) is not None:  # 16 bits: rounded when stored
            moved.insert(2, (wide, Noise(0, 0)))
        return Growing(spreads(moved, self.transform, self.reference))

    @cached_property
    def flushed(self) -> Growing:
        """What becomes of each element where denormal numbers are taken for 0."""
        moved = [(self.program, Noise(0, flush=True))]
        return Growing(spreads(moved, self.transform, self.reference))

    def rooms(self, way: str) -> Iterator[list[Any]]:
        for number, room in enumerate(self.noises):
            if way == "peer" and number:
                (flushed,) = self.flushed
                every = zip(room, flushed, self.reference, strict=True)
                room = [np.maximum(*r[:2]) + denormal(r[2].dtype) for r in every]
            yield room

    def compare(self, way: str, got: list[Any]) -> Failure | None:
        """What rounding does not explain."""
        found = self.different(way, got, None)
        if found is None or found.kind not in ("value", "zero"):
            return found
        for room in self.rooms(way):
            found = self.different(way, got, room)
            if found is None or found.of_terms():
                break
        return found

    def different(
        self, way: str, got: list[Any], spreads: list[Any] | None
    ) -> Failure | None:
        def fail(*what: Any) -> Failure:
            return Failure(self.transform, way, *what)

        if len(got) != len(self.reference):
            return fail("count", f"{len(got)} results, not {len(self.reference)}")
        for place, (a, b) in enumerate(zip(got, self.reference, strict=True)):
            if a.shape != b.shape:
                return fail("shape", f"result {place}: {a.shape}, not {b.shape}")
            if dtype_name(a) != dtype_name(b):
                return fail("dtype", f"result {place}: {a.dtype}, not {b.dtype}")
        for check in outside, other_zeros:  # a value that differs says more
            for place, (a, b) in enumerate(zip(got, self.reference, strict=True)):
                found = check(a, b, None if spreads is None else spreads[place])
                if found is not None:
                    kind = "value" if check is outside else "zero"
                    return fail(kind, f"result {place} {found[0]}", found[1])
        return None


def outside(a: Any, b: Any, room: Any) -> tuple[str, float] | None:
    """The first element of a that is not b's, within the room."""
    apart, limit = distance(a, b), limits_of(b, room)
    with np.errstate(invalid="ignore"):
        bad = apart > limit
    if not bad.any():
        return None
    missing = bad & (a != a)  # other differences say more
    return _first(a, b, bad if (bad == missing).all() else bad & ~missing, limit)


def denormal(dtype: Any) -> float:
    """What is lost where some denormal numbers on the way are taken for 0."""
    if dtype.kind in "biu" or dtype == np.float16:  # float32 holds these
        return 0.0
    return 2 * float(ml_dtypes.finfo(dtype).tiny)


def limits_of(b: Any, room: Any) -> Any:
    """How far from each element of b another value may be."""
    if room is None:
        return np.zeros(b.shape)
    limit = SAFETY * room
    if b.dtype.kind in "biu":
        return limit
    limits = ml_dtypes.finfo(b.dtype)
    with np.errstate(all="ignore"):
        size = np.abs(b.astype("c16" if b.dtype.kind == "c" else "f8"))
        size = np.where(np.isfinite(size), size, 0)
    moved = room > 0
    limit = limit + np.where(moved, 4 * float(limits.eps) * size, 0)
    return limit + np.where(moved, 4 * float(limits.smallest_subnormal), 0)


def other_zeros(a: Any, b: Any, room: Any) -> tuple[str, float] | None:
    """The first exact zero of a that has not the sign of b's."""
    if a.dtype.kind in "biuc":
        return None
    limit = limits_of(b, room)
    zero = (a == 0) & (b == 0) & (limit == 0)
    bad = zero & (np.signbit(a.astype("f8")) != np.signbit(b.astype("f8")))
    return _first(a, b, bad, limit) if bad.any() else None


def _first(a: Any, b: Any, bad: Any, limit: Any) -> tuple[str, float]:
    where = tuple(int(i[0]) for i in np.nonzero(bad)) if bad.ndim else ()
    more = f" ({int(bad.sum())} of {bad.size})"
    unit = 1 if a.dtype.kind in "biu" else float(ml_dtypes.finfo(a.dtype).eps)
    apart = float(distance(a, b)[where]) / unit
    text = f"at {where}: {a[where]!r}, not {b[where]!r} ± {limit[where]:.2g}{more}"
    return text, apart


Way = Callable[[Judge], "list[Any] | Failure"]


def by_jit(judge: Judge) -> list[Any] | Failure:
    """The first call and those after it, which take other paths: all the same bits."""
    jitted = ft.jit(apply(judge.transform, judge.f, judge.program, OURS))
    first = arrays(jitted(*judge.args))
    plain = [np.asarray(a) for a in judge.args]
    for call in range(1, CALLS):
        again = arrays(jitted(*(plain if call % 3 == 2 else judge.args)))
        if not same_bits(first, again):
            return Failure(judge.transform, "jit", "bits", f"call {call} differs")
    with ft.config(threads=1):
        if not same_bits(first, arrays(jitted(*judge.args))):
            return Failure(judge.transform, "jit", "bits", "one thread differs")
    return first


def by_interpreter(judge: Judge) -> list[Any]:
    with ft.default_device("interpreter"):
        f = apply(judge.transform, judge.f, judge.program, OURS)
        return arrays(ft.jit(f)(*judge.args))


def by_inner_jit(judge: Judge) -> list[Any]:
    f = apply(judge.transform, ft.jit(judge.f), judge.program, OURS)
    return arrays(f(*judge.args))


def by_repetition(judge: Judge) -> list[Any] | Failure:
    """Eagerly again: from some call on in native code."""
    f = apply(judge.transform, judge.f, judge.program, OURS)
    for call in range(1, CALLS):
        if not same_bits(judge.reference, arrays(f(*judge.args))):
            return Failure(judge.transform, "eager", "bits", f"call {call} differs")
    return judge.reference


def by_loop(judge: Judge) -> list[Any]:
    return one_by_one(judge.transform, judge.f, judge.program)


def same_bits(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True))


def ways_of(transform: str) -> dict[str, Way]:
    ways: dict[str, Way] = {"jit": by_jit}
    if transform == "plain":
        ways |= {"interpreter": by_interpreter, "eager": by_repetition}
    if "vmap" in transform:
        ways["loop"] = by_loop
    if transform != "plain":
        ways["inner jit"] = by_inner_jit
    return ways


def by_peer(peer: Library) -> Way:
    def way(judge: Judge) -> list[Any]:
        f = function(judge.program, peer)
        f = apply(judge.transform, f, judge.program, peer)
        with peer["jax"].enable_x64(judge.program.x64):
            args = given(judge.transform, judge.program)
            return arrays(peer["jax"].jit(f)(*args))

    return way


def judge(
    program: Program,
    peer: Library | None = None,
    transforms: Sequence[str] = TRANSFORMS,
    only: str = "",
    thorough: int = THOROUGH,
) -> Failure | None:
    """The first difference, or None."""
    with setting(program.x64), np.errstate(all="ignore"):
        for transform in transforms:
            if not applies(transform, program):
                continue
            found = _under(Judge(program, transform, thorough), peer, only)
            if found is not None:
                return found
    return None


def _under(case: Judge, peer: Library | None, only: str) -> Failure | None:
    program, transform = case.program, case.transform
    ways = ways_of(transform)
    if peer is not None and (only == "peer" or transform == _of_peer(program)):
        ways["peer"] = by_peer(peer)
    refused = _error(lambda: case.reference)
    for name, way in ways.items():
        if only and name != only:
            continue
        got: Any = None

        def run(way: Way = way) -> None:
            nonlocal got
            got = way(case)

        error = _error(run)
        if error is not None or refused is not None:
            if (error is None) != (refused is None):
                who = f"eager raises {refused}" if refused else f"raises {error}"
                return Failure(transform, name, "error", who)
            continue
        found = got if isinstance(got, Failure) else case.compare(name, got)
        if found is not None:
            return found
    return None


def _of_peer(program: Program) -> str:
    """The one transform under which a peer runs the program: it compiles slowly."""
    found = [t for t in TRANSFORMS if applies(t, program)]
    return found[program.seed % len(found)]


def _error(run: Callable[[], Any]) -> str | None:
    try:
        run()
    except (Exception, RecursionError) as error:
        text = str(error).strip().split("\n")[0]
        return f"{type(error).__name__}: {text[:200]}"
    return None
