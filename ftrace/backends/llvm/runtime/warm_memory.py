"""Memory kept warm from one run to the next: stacks of loops, scratch of kernels.

Stacks are what iterations push whose number nobody knows before:

    header = count: i64, chunks: ptr, …       STACK_HEADER bytes in its slot
    chunk  = 2 ** (log + number) cells, each of `size` bytes and 64-aligned

A cell stays where it is, so that nothing is copied: pushing is computing into a cell,
and reading is computing from one.

Chunks are kept warm: fresh pages cost more than what is pushed. For a large one Python
is asked first whether there is memory: see `out_of_memory`. A chunk that is given back
waits in a small table for the next one of its size. When the table is full, or holds
too much, all of it goes.

Kernels ask for blocks of scratch memory:

    take_scratch(bytes) -> address        aligned to a cache line; null without memory
    give_scratch(address)

Here too fresh pages would cost more than what is computed with them: a block is in a
chunk, and begins with the size and the address of that.

Behind a fence (see `ftrace/trace/arrays/buffer.py`) each block has pages of its
own, and the next one is not there: no more than a cache line may lie between.
"""

from __future__ import annotations

import mmap
import sys

from ftrace.backends.llvm.ir.function_builder import Function, Routines
from ftrace.backends.llvm.ir.symbols import GIVE, TAKE
from ftrace.backends.llvm.runtime.records import Record
from ftrace.lower.program import STACK_HEADER

# Stacks of loops.

#: Cells are aligned like every buffer.
CELL_ALIGNMENT = 64
#: A first chunk has about so many bytes, and each other one twice those of the one
#: before: with 4 times as many a stack has two chunks less, with a quarter two more.
FIRST_CHUNK = 4096
_CHUNKS = STACK_HEADER // 8 - 1

#: Smaller ones are kept warm by malloc itself.
LEAST_CACHED = 1 << 16
#: For chunks of so many bytes it is asked whether there is memory.
LEAST_ASKED = 1 << 24
#: Chunks that are cached at the most: there may be one for each thread with kernels.
SLOTS = 64
#: Advice to the system: huge pages.
_HUGE = 14

VARIABLES = f"""
@kept = internal global [{2 * SLOTS} x i64] zeroinitializer, align 128
@kept_bytes = internal global i64 0, align 128
@kept_lock = internal global i32 0, align 128

; A Python object: ask_memory(bytes) -> is there so much? null until the runtime sets it
@ask_memory = global ptr null, align 8
"""


def cell_bytes(nbytes: int) -> int:
    """The bytes of a cell that holds so many."""
    return -(-max(nbytes, 1) // CELL_ALIGNMENT) * CELL_ALIGNMENT


def first_log(size: int) -> int:
    """How many cells of that size the first chunk has, as a power of two."""
    return max(FIRST_CHUNK // size, 1).bit_length() - 1


class CachedBlock(Record):
    """A place of the table; it is free where `size` is 0."""

    fields = ("size", "chunk")


stacks = Routines(Function)


@stacks("ptr", "ptr %header", "i64 %number", "i64 %size", "i64 %log")
def cell(f: Function) -> None:
    """The address of a cell; its chunk is made if need be. Null: there is no memory."""
    block = f.let("lshr i64 %number, %log")  # numbered in first chunks
    one_more = f.let(f"add i64 {block}, 1")
    zeros = f.outside("i64 llvm.ctlz.i64(i64, i1)", one_more, "true")
    chunk = f.let(f"sub i64 63, {zeros}")
    blocks_before = f.let(f"sub i64 {f.let(f'shl i64 1, {chunk}')}, 1")
    within = f.let(f"sub i64 %number, {f.let(f'shl i64 {blocks_before}, %log')}")
    place = f.let(f"add i64 {chunk}, 1")
    at = f.word("%header", place)
    with f.when(f.let(f"icmp eq ptr {f.load('ptr', at)}, null")):
        nbytes = _chunk_bytes(f, chunk)
        made = take_chunk(f, nbytes)
        f.ret_if(f.let(f"icmp eq ptr {made}, null"), "null")
        f.store("ptr", made, at)
    start = f.let(f"ptrtoint ptr {f.load('ptr', at)} to i64")
    up = f.let(f"add i64 {start}, {CELL_ALIGNMENT - 1}")
    aligned = f.let(f"and i64 {up}, {-CELL_ALIGNMENT}")
    address = f.let(f"add i64 {aligned}, {f.let(f'mul i64 {within}, %size')}")
    f.ret(f.let(f"inttoptr i64 {address} to ptr"))


@stacks("void", "ptr %header", "i64 %count")
def empty_stacks(f: Function) -> None:
    """Makes so many headers, one after the other, those of empty stacks."""
    nbytes = f.let(f"mul i64 %count, {STACK_HEADER}")
    f.clear("%header", nbytes)
    f.ret()


@stacks("void", "ptr %header", "i64 %count", "i64 %size", "i64 %log")
def free_stacks(f: Function) -> None:
    """Gives back the chunks of so many stacks."""
    with f.repeat("%count") as i:
        header = f.beyond("%header", f.let(f"mul i64 {i}, {STACK_HEADER}"))
        with f.repeat(_CHUNKS) as number:
            chunk = f.slot(header, f.let(f"add i64 {number}, 1"))
            # A loop that fills a stack from its top may end before the bottom.
            with f.when(f.let(f"icmp ne ptr {chunk}, null")):
                nbytes = _chunk_bytes(f, number)
                give_chunk(f, chunk, nbytes)
    f.ret()


def _chunk_bytes(f: Function, number: str) -> str:
    """The bytes of a chunk, for cells of %size and a first chunk of 2 ** %log."""
    doublings = f.let(f"add i64 {number}, %log")
    nbytes = f.let(f"shl i64 %size, {doublings}")
    return f.let(f"add i64 {nbytes}, {CELL_ALIGNMENT}")


@stacks("i1", "i64 %size")
def has_memory(f: Function) -> None:
    """Is there memory? What Python raises stays with the thread: then there is none."""
    ask = f.load("ptr", "@ask_memory")
    small = f.let(f"icmp ult i64 %size, {LEAST_ASKED}")
    f.ret_if(f.let(f"or i1 {small}, {f.let(f'icmp eq ptr {ask}, null')}"), "true")
    state = f.outside("i32 PyGILState_Ensure()")
    fits = f.variable("i32", 0)
    raised = f.outside("ptr PyErr_Occurred()")
    with f.when(f.let(f"icmp eq ptr {raised}, null")):
        operands = f"ptr {ask}, ptr @one_number, i64 %size"
        call = f"call ptr (ptr, ptr, ...) @PyObject_CallFunction({operands})"
        answer = f.let(call)
        with f.when(f.let(f"icmp ne ptr {answer}, null")):
            f.store("i32", f.outside("i32 PyObject_IsTrue(ptr)", answer), fits)
            f.outside("void Py_DecRef(ptr)", answer)
    f.outside("void PyGILState_Release(i32)", state)
    f.ret(f.let(f"icmp ne i32 {f.load('i32', fits)}, 0"))


@stacks("ptr", "i64 %size")
def take_chunk(f: Function) -> None:
    found = f.variable("ptr", "null")
    large = f.let(f"icmp uge i64 %size, {LEAST_CACHED}")
    with f.when(large), f.hold_lock("@kept_lock"), f.repeat(SLOTS) as i:
        place = f.view("@kept", CachedBlock, i)
        fits = f.let(f"icmp eq i64 {place.number('size')}, %size")
        with f.when(fits):
            f.store("ptr", place.pointer("chunk"), found)
            place.set("size", 0)
            less = f.let(f"sub i64 {f.load('i64', '@kept_bytes')}, %size")
            f.store("i64", less, "@kept_bytes")
        f.stop_if(fits)
    for again in (False, True):
        cached = f.load("ptr", found)
        with f.when(f.let(f"icmp eq ptr {cached}, null")):
            if again:
                forget_chunks(f)
            with f.when(has_memory(f, "%size")):
                made = f.outside("ptr malloc(i64)", "%size")
                f.store("ptr", made, found)
                if sys.platform.startswith("linux"):
                    with f.when(f.let(f"icmp uge i64 %size, {2 * PAGE}")):
                        pages, inside = _first_page(f, made), f.sum("%size", -PAGE)
                        f.outside("i32 madvise(ptr, i64, i32)", pages, inside, _HUGE)
    f.ret(f.load("ptr", found))


@stacks("void", "ptr %chunk", "i64 %size")
def give_chunk(f: Function, limit: int) -> None:
    small = f.let(f"icmp ult i64 %size, {LEAST_CACHED}")
    large = f.let(f"icmp ugt i64 %size, {limit}")
    with f.when(f.let(f"or i1 {small}, {large}")):
        f.outside("void free(ptr)", "%chunk")
        f.ret()
    with f.hold_lock("@kept_lock"):
        more = f.let(f"add i64 {f.load('i64', '@kept_bytes')}, %size")
        with f.when(f.let(f"icmp ugt i64 {more}, {limit}")):
            release_cached(f)
        used = f.let(f"load i64, ptr {f.word('@kept', 2 * (SLOTS - 1))}")
        with f.when(f.let(f"icmp ne i64 {used}, 0")):
            release_cached(f)
        with f.rows("@kept", CachedBlock, SLOTS) as place:
            free = f.let(f"icmp eq i64 {place.number('size')}, 0")
            with f.when(free):
                place.set("chunk", "%chunk", "ptr")
                place.set("size", "%size")
                now = f.let(f"add i64 {f.load('i64', '@kept_bytes')}, %size")
                f.store("i64", now, "@kept_bytes")
            f.stop_if(free)
    f.ret()


@stacks("void")
def release_cached(f: Function) -> None:
    """Frees all that is cached; the lock is held."""
    with f.rows("@kept", CachedBlock, SLOTS) as place:
        used = f.let(f"icmp ne i64 {place.number('size')}, 0")
        with f.when(used):
            f.outside("void free(ptr)", place.pointer("chunk"))
            place.set("size", 0)
    f.store("i64", 0, "@kept_bytes")
    f.ret()


@stacks("void", visible=True)
def forget_chunks(f: Function) -> None:
    with f.hold_lock("@kept_lock"):
        release_cached(f)
    f.ret()


@stacks("void", visible=True)
def reset_chunks(f: Function) -> None:
    """After a fork: a thread that is no more may have held the lock."""
    with f.repeat(SLOTS) as i:
        f.view("@kept", CachedBlock, i).set("size", 0)
    f.store("i64", 0, "@kept_bytes")
    f.do("store atomic i32 0, ptr @kept_lock release, align 4")
    f.ret()


# Scratch memory of kernels.

#: Blocks are made of whole huge pages.
PAGE = 2 << 20
#: Bytes of a block before what is used of it.
_HEAD = 128

warm, fenced = Routines(Function), Routines(Function)


@warm("ptr", "i64 %bytes", visible=True, name=TAKE)
def take(f: Function) -> None:
    size = f.sum(_whole(f, f.sum("%bytes", _HEAD), PAGE), PAGE)
    chunk = take_chunk(f, size)
    f.ret_if(f.let(f"icmp eq ptr {chunk}, null"), "null")
    block = _first_page(f, chunk)
    f.store("i64", size, block)
    f.set_slot(block, 1, chunk)
    f.ret(f.beyond(block, _HEAD))


@warm("void", "ptr %memory", visible=True, name=GIVE)
def give(f: Function) -> None:
    block = f.beyond("%memory", -_HEAD)
    give_chunk(f, f.slot(block, 1), f.load("i64", block))
    f.ret()


def _first_page(f: Function, chunk: str) -> str:
    """Where the first huge page in a chunk begins."""
    start = _whole(f, f.let(f"ptrtoint ptr {chunk} to i64"), PAGE)
    return f.let(f"inttoptr i64 {start} to ptr")


def _whole(f: Function, nbytes: str, unit: int) -> str:
    """So many bytes as whole units."""
    return f.let(f"and i64 {f.sum(nbytes, unit - 1)}, {-unit}")


@fenced("ptr", "i64 %bytes", visible=True, name=TAKE)
def take_fenced(f: Function) -> None:
    """A block that ends at a page which is not there."""
    small, flags = mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    used = _whole(f, "%bytes", _HEAD)
    total = f.sum(_whole(f, used, small), 2 * small)
    raw = f.outside(
        "ptr mmap(ptr, i64, i32, i32, i32, i64)", "null", total, 3, flags, -1, 0
    )
    failed = f.let(f"icmp eq i64 {f.let(f'ptrtoint ptr {raw} to i64')}, -1")
    f.ret_if(failed, "null")
    f.store("i64", total, raw)
    end = f.beyond(raw, f.sum(total, -small))
    f.outside("i32 mprotect(ptr, i64, i32)", end, small, 0)
    f.ret(f.beyond(end, f.let(f"sub i64 0, {used}")))


@fenced("void", "ptr %memory", visible=True, name=GIVE)
def give_fenced(f: Function) -> None:
    small = mmap.PAGESIZE
    page = f.let(f"and i64 {f.let('ptrtoint ptr %memory to i64')}, {-small}")
    raw = f.let(f"inttoptr i64 {f.sum(page, -small)} to ptr")
    f.outside("i32 munmap(ptr, i64)", raw, f.load("i64", raw))
    f.ret()
