"""Scratch memory of kernels, kept warm from one run to the next.

    take_scratch(bytes) -> address        aligned to a cache line; null without memory
    give_scratch(address)

Fresh pages cost more than what a block of a matrix product computes with them, so what
is given back waits in one of a few places. A place holds a block or null and is emptied
by exchanging it for null: no lock is held, and nothing is lost in a forked child. Each
block begins with its size and with the address that `malloc` gave.

Behind a fence (see `ftrace/trace/arrays/guard_pages.py`) each block has pages of its
own, and the next one is not there: no more than a cache line may lie between.
"""

from __future__ import annotations

import mmap
import sys
from functools import lru_cache

from ftrace.backends.llvm.compile import Code, emit_own, link
from ftrace.backends.llvm.ir.function_builder import Function, Routines, module_text
from ftrace.backends.llvm.ir.symbols import GIVE, TAKE
from ftrace.trace.arrays import guard_pages

#: Blocks that are kept: about as many as threads run kernels at the same time.
PLACES = 64
#: Blocks are made of whole huge pages.
PAGE = 2 << 20
#: Bytes of a block before what is used of it.
_HEAD = 128

_PLACES = f"""
@places = internal global [{PLACES} x ptr] zeroinitializer, align 128

"""


@lru_cache(maxsize=1)
def scratch() -> Code:
    """The functions, compiled at the first kernel that needs them."""
    facts = sys.platform, guard_pages.ON
    return link(emit_own("scratch", facts, scratch_ir), (TAKE, GIVE))


def scratch_ir() -> str:
    """The text of both functions, for this system."""
    if guard_pages.ON:
        return module_text("", fenced.functions())
    return module_text(_PLACES, warm.functions())


warm, fenced = Routines(Function), Routines(Function)


@warm("ptr", "i64 %bytes", visible=True, name=TAKE)
def take(f: Function) -> None:
    needed = f.sum("%bytes", _HEAD)
    with f.repeat(PLACES) as n:
        place = f.word("@places", n)
        with f.when(f.let(f"icmp ne ptr {_seen(f, place)}, null")):
            kept = f.let(f"atomicrmw xchg ptr {place}, ptr null acquire")
            with f.when(f.let(f"icmp ne ptr {kept}, null")):
                size = f.load("i64", kept)
                with f.when(f.let(f"icmp uge i64 {size}, {needed}")):
                    f.give(f.beyond(kept, _HEAD))
                f.outside("void free", f"ptr {f.slot(kept, 1)}")
    size = _whole(f, needed, PAGE)
    raw = f.outside("ptr malloc", f"i64 {f.sum(size, PAGE)}")
    f.give_if(f.let(f"icmp eq ptr {raw}, null"), "null")
    start = _whole(f, f.let(f"ptrtoint ptr {raw} to i64"), PAGE)
    block = f.let(f"inttoptr i64 {start} to ptr")
    if sys.platform.startswith("linux"):  # for huge pages
        f.outside("i32 madvise", f"ptr {block}, i64 {size}, i32 14")
    f.store("i64", size, block)
    f.set_slot(block, 1, raw)
    f.give(f.beyond(block, _HEAD))


@warm("void", "ptr %memory", visible=True, name=GIVE)
def give(f: Function) -> None:
    block = f.beyond("%memory", -_HEAD)
    with f.repeat(PLACES) as n:
        place = f.word("@places", n)
        with f.when(f.let(f"icmp eq ptr {_seen(f, place)}, null")):
            swap = f"cmpxchg ptr {place}, ptr null, ptr {block} release monotonic"
            f.give_if(f.let(f"extractvalue {{ ptr, i1 }} {f.let(swap)}, 1"))
    f.outside("void free", f"ptr {f.slot(block, 1)}")
    f.give()


def _seen(f: Function, place: str) -> str:
    return f.let(f"load atomic ptr, ptr {place} monotonic, align 8")


def _whole(f: Function, nbytes: str, unit: int) -> str:
    """So many bytes as whole units."""
    return f.let(f"and i64 {f.sum(nbytes, unit - 1)}, {-unit}")


@fenced("ptr", "i64 %bytes", visible=True, name=TAKE)
def take_fenced(f: Function) -> None:
    """A block that ends at a page which is not there."""
    small, flags = mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    used = _whole(f, "%bytes", _HEAD)
    total = f.sum(_whole(f, used, small), 2 * small)
    where = f"ptr null, i64 {total}, i32 3, i32 {flags}, i32 -1, i64 0"
    raw = f.outside("ptr mmap", f"{where}")
    failed = f.let(f"icmp eq i64 {f.let(f'ptrtoint ptr {raw} to i64')}, -1")
    f.give_if(failed, "null")
    f.store("i64", total, raw)
    end = f.beyond(raw, f.sum(total, -small))
    f.outside("i32 mprotect", f"ptr {end}, i64 {small}, i32 0")
    f.give(f.beyond(end, f.let(f"sub i64 0, {used}")))


@fenced("void", "ptr %memory", visible=True, name=GIVE)
def give_fenced(f: Function) -> None:
    small = mmap.PAGESIZE
    page = f.let(f"and i64 {f.let('ptrtoint ptr %memory to i64')}, {-small}")
    raw = f.let(f"inttoptr i64 {f.sum(page, -small)} to ptr")
    f.outside("i32 munmap", f"ptr {raw}, i64 {f.load('i64', raw)}")
    f.give()
