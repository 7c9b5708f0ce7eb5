"""What is known of a processor: vectors, features, caches, and the cores to use.

`host_target()` describes this machine, or one of fewer features that `FTRACE_CPU`
names; `Target.of(triple, …)` any other that LLVM knows, so that its code can be
generated and looked at here.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache

from ftrace.backends.llvm.object_cache import machine
from ftrace.errors import DeviceError
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.ground.fork_safe import cached_property
from ftrace.ground.settings import MAX_THREADS

#: Caches of a core that Linux numbers, at most.
_MOST_CACHES = 8


@dataclass(frozen=True)
class Costs:
    """What single steps of a product take on a core, in cycles.

    They decide between ways to cut, whose counts of these steps differ: which benchmark
    rows hang on which of them, `python -m tests.lower.vary_constants costs` prints.
    Measured on a server's core with AVX-512, with its code and with that of AVX2; other
    makers' cores differ by less than the choices do.

    Attributes:
      sum_latency: from one addition to a sum to the next.
      fetch: to get a vector of a panel from L2 for a step of a tile.
      add_lanes: to add up the lanes of a vector.
      begin_tile: to begin and end a tile of registers.
      finish: to read a result from its panel again, and to store it.
      line: of a tile, for each line of the left operand that is no longer in L1.
      fill, fill_l3, fill_memory: to put a vector into a panel: from L2, from a part of
        L3, from further away.
      stream, stream_far: to read a vector of the left operand, of which the next part
        is fetched ahead, from L2 and from beyond it.
      add_again, add_far: to add to a vector of a panel of sums in L2, and beyond it.
      again, resume: to begin a tile of a shallow block; for each vector of its sums.
      read, read_far, read_across: to wait for a vector that is read where it stands:
        from L2, from beyond it, and from there in columns.
      pushed_out: to wait for a line whose neighbours push it out of L1.
      begin_block: to begin and end a block of a convolution.
    """

    sum_latency: float = 4.25
    fetch: float = 0.25
    add_lanes: float = 8.0
    begin_tile: float = 40.0
    finish: float = 6.0
    line: float = 1.0
    fill: float = 4.0
    fill_l3: float = 11.0
    fill_memory: float = 30.0
    stream: float = 0.5
    stream_far: float = 1.0
    add_again: float = 2.0
    add_far: float = 4.0
    again: float = 1.0
    resume: float = 0.15
    read: float = 1.0
    read_far: float = 2.0
    read_across: float = 12.0
    pushed_out: float = 1.0
    begin_block: float = 2000.0


@dataclass(frozen=True)
class Target:
    """A processor, as far as the shape of the code depends on it.

    Attributes:
      triple, cpu, features: what LLVM calls it.
      vector_bytes: size of a vector register.
      registers: how many there are.
      fma: multiplies and adds in one instruction with one rounding.
      half: converts float16 in hardware.
      native_maximum: has a maximum where NaN wins.
      masked: masks of loads and stores cost nothing.
      avx512: has AVX-512, so scalef, range and permutations of two registers.
      pairs: multiplies pairs of bfloat16 and adds them to float32 (AVX512-BF16).
      groups: multiplies groups of small integers and adds them to int32 (AVX512-VNNI).
      l1, l2: bytes of the caches of one core.
      l3: bytes of the last cache.
      cores: how many threads can run.
      cache_line: bytes of a line of the caches.
      l1_way, l1_ways: bytes between places that share a set of L1; lines of a set.
      from_l3, from_memory: bytes that come to a core in a cycle.
      look_ahead: instructions among which a core finds those that can begin.
      costs: of single steps.
      without: decisions of `codegen_options.py` that are switched off, in order.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    fma: bool
    half: bool
    native_maximum: bool
    masked: bool
    avx512: bool
    pairs: bool = False
    groups: bool = False
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 8 << 20
    cores: int = 1
    cache_line: int = 64
    l1_way: int = 4096
    l1_ways: int = 8
    from_l3: float = 14.0
    from_memory: float = 7.0
    look_ahead: int = 200
    costs: Costs = Costs()
    without: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """All of it, as keys of caches have it."""
        return repr(self)

    @property
    def most_strided(self) -> int:
        """Elements of vectors side by side are picked where they are so far apart.

        As many vectors are put together from each other: more where each of them holds
        a whole line of the cache.
        """
        return 8 if self.vector_bytes < 64 else 12

    def rows_cached(self, pitch: int) -> int:
        """How many rows that begin so many bytes apart L1 holds beside each other."""
        return self.l1_ways * self.l1_way // math.gcd(pitch, self.l1_way)

    def decides(self, name: str) -> bool:
        """Is a decision of `codegen_options.py` left to us?"""
        return name not in self.without

    @staticmethod
    def of(
        triple: str,
        cpu: str = "",
        features: str = "",
        caches: tuple[int, int, int] = (32 << 10, 512 << 10, 8 << 20),
        cores: int = 1,
    ) -> Target:
        """The target that LLVM calls `triple`, `cpu`, with `features` (`+avx2,…`)."""
        names = {f[1:] for f in features.split(",") if f.startswith("+")}
        level = _LEVELS.get(cpu, frozenset())
        names |= level
        l1, l2, l3 = caches
        arm = triple.startswith(("aarch64", "arm64"))
        wide = {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= names
        middle = "avx2" in names
        return Target(
            triple, cpu, features,
            vector_bytes=64 if wide else 32 if middle else 16,
            registers=32 if wide or arm else 16,
            fma=arm or "fma" in names,
            half=arm or "f16c" in names,
            native_maximum=arm,
            masked=wide,
            avx512=wide,
            pairs=wide and "avx512bf16" in names,
            groups=wide and "avx512vnni" in names,
            l1=l1, l2=l2, l3=l3, cores=cores,
        )  # fmt: skip


_V2 = frozenset({"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16"})
_V3 = _V2 | {"avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
#: The levels of x86-64: what processors have that are said to be of that level.
_LEVELS = {
    "x86-64": frozenset[str](),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
}


@lru_cache(maxsize=1)
def host_target() -> Target:
    """The processor that code is generated for: this one, or what `FTRACE_CPU` says.

    Raises:
      DeviceError: this machine cannot run code for the processor that was asked for.
    """
    here = machine()
    triple, cpu, features = here.triple, here.cpu, here.features
    if chosen := settings.current().cpu:
        found = {f[1:]: f[0] == "+" for f in features.split(",") if f}
        cpu, features = restrict(chosen, triple, found), ""
    return Target.of(triple, cpu, features, host_caches(), _usable_cores())


def restrict(chosen: str, triple: str, features: dict[str, bool]) -> str:
    """LLVM's name of a kind of processor, if this machine can run code for it."""
    if not triple.startswith("x86_64"):
        if chosen == "generic":
            return chosen
        raise DeviceError(
            f"FTRACE_CPU={chosen} asks for code of x86-64, but this machine is "
            f"{triple.partition('-')[0]}; unset it, or set it to generic"
        )
    level = "x86-64" if chosen == "generic" else chosen
    missing = sorted(name for name in _LEVELS[level] if not features.get(name, False))
    if missing:
        raise DeviceError(
            f"FTRACE_CPU={chosen} asks for code with {', '.join(missing)}, which this "
            f"processor does not have; choose a lower level, or unset it"
        )
    return level


def has_threads() -> bool:
    """Workers need POSIX threads; elsewhere every job runs on its caller's thread."""
    return os.name == "posix"


def available_cores() -> int:
    """The cores that this process may use, by affinity and by its share of time."""
    return max(1, min(_usable_cores(), _share_of_time(), MAX_THREADS))


def _share_of_time() -> int:
    """What a container's quota allows (cgroup v2: "quota period", or "max")."""
    try:
        with open("/sys/fs/cgroup/cpu.max", "rb", buffering=0) as file:
            quota, period = file.read().split()
        return max(1, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        return MAX_THREADS


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@lru_cache(maxsize=1)
def host_caches() -> tuple[int, int, int]:
    """Sizes of the three caches as Linux tells them; modest guesses elsewhere."""
    sizes = {1: 32 << 10, 2: 512 << 10, 3: 8 << 20}
    units = {"K": 1 << 10, "M": 1 << 20}
    for number in range(_MOST_CACHES):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{number}"
        try:
            if _line(f"{folder}/type") == "Instruction":
                continue
            level, size = int(_line(f"{folder}/level")), _line(f"{folder}/size")
        except (OSError, ValueError):
            continue
        if size[-1:] in units and size[:-1].isdigit():
            sizes[level] = int(size[:-1]) * units[size[-1]]
    return sizes[1], sizes[2], sizes[3]


def _line(path: str) -> str:
    with open(path, "rb", buffering=0) as file:
        return file.read().decode().strip()
