"""Stacks: what iterations push whose number nobody knows before.

    header = count: i64, chunks: ptr, …       STACK_HEADER bytes in its slot
    chunk  = 2 ** (log + number) cells, each of `size` bytes and 64-aligned

A cell stays where it is, so that nothing is copied: pushing is computing into a cell,
and reading is computing from one.

Chunks are kept warm: fresh pages cost more than what is pushed. For a large one Python
is asked first whether there is room: see `out_of_memory`. A chunk that is given back
waits in a small table for the next one of its size. When the table is full, or holds
too much, all of it goes.
"""

from __future__ import annotations

from ftrace.backends.llvm.ir.function_builder import Function, Routines
from ftrace.backends.llvm.runtime.records import Record
from ftrace.lower.program import STACK_HEADER

#: Cells are aligned like every buffer.
CELL_ALIGNMENT = 64
#: A first chunk has about so many bytes.
FIRST_CHUNK = 4096
_CHUNKS = STACK_HEADER // 8 - 1

#: Smaller ones are kept warm by malloc itself.
LEAST_KEPT = 1 << 16
#: For chunks of so many bytes it is asked whether there is room.
LEAST_ASKED = 1 << 24
#: Chunks that are kept at the most.
PLACES = 64

VARIABLES = f"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)

@kept = internal global [{2 * PLACES} x i64] zeroinitializer, align 128
@kept_bytes = internal global i64 0, align 128
@kept_lock = internal global i32 0, align 128

; A Python object: ask_memory(bytes) -> is there room? null until the runtime sets it
@ask_memory = global ptr null, align 8
"""


def cell_bytes(nbytes: int) -> int:
    """The bytes of a cell that holds so many."""
    return -(-max(nbytes, 1) // CELL_ALIGNMENT) * CELL_ALIGNMENT


def first_log(size: int) -> int:
    """How many cells of that size the first chunk has, as a power of two."""
    return max(FIRST_CHUNK // size, 1).bit_length() - 1


class Kept(Record):
    """A place of the table; it is free where `size` is 0."""

    fields = ("size", "chunk")


stacks = Routines(Function)


@stacks("ptr", "ptr %header", "i64 %number", "i64 %size", "i64 %log")
def cell(f: Function) -> None:
    """The address of a cell; its chunk is made if need be. Null: there is no memory."""
    block = f.let("lshr i64 %number, %log")  # numbered in first chunks
    one_more = f.let(f"add i64 {block}, 1")
    zeros = f.let(f"call i64 @llvm.ctlz.i64(i64 {one_more}, i1 true)")
    chunk = f.let(f"sub i64 63, {zeros}")
    blocks_before = f.let(f"sub i64 {f.let(f'shl i64 1, {chunk}')}, 1")
    within = f.let(f"sub i64 %number, {f.let(f'shl i64 {blocks_before}, %log')}")
    place = f.let(f"add i64 {chunk}, 1")
    at = f.word("%header", place)
    with f.when(f.let(f"icmp eq ptr {f.load('ptr', at)}, null")):
        nbytes = _chunk_bytes(f, chunk)
        made = take_chunk(f, nbytes)
        f.give_if(f.let(f"icmp eq ptr {made}, null"), "null")
        f.store("ptr", made, at)
    start = f.let(f"ptrtoint ptr {f.load('ptr', at)} to i64")
    up = f.let(f"add i64 {start}, {CELL_ALIGNMENT - 1}")
    aligned = f.let(f"and i64 {up}, {-CELL_ALIGNMENT}")
    address = f.let(f"add i64 {aligned}, {f.let(f'mul i64 {within}, %size')}")
    f.give(f.let(f"inttoptr i64 {address} to ptr"))


@stacks("void", "ptr %header", "i64 %count")
def empty_stacks(f: Function) -> None:
    """Makes so many headers, one after the other, those of empty stacks."""
    nbytes = f.let(f"mul i64 %count, {STACK_HEADER}")
    f.do(f"call void @llvm.memset.p0.i64(ptr %header, i8 0, i64 {nbytes}, i1 false)")
    f.give()


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
    f.give()


def _chunk_bytes(f: Function, number: str) -> str:
    """The bytes of a chunk, for cells of %size and a first chunk of 2 ** %log."""
    doublings = f.let(f"add i64 {number}, %log")
    nbytes = f.let(f"shl i64 %size, {doublings}")
    return f.let(f"add i64 {nbytes}, {CELL_ALIGNMENT}")


@stacks("i1", "i64 %size")
def has_room(f: Function) -> None:
    """Is there room? What Python raises stays with the thread: then there is none."""
    ask = f.load("ptr", "@ask_memory")
    small = f.let(f"icmp ult i64 %size, {LEAST_ASKED}")
    f.give_if(f.let(f"or i1 {small}, {f.let(f'icmp eq ptr {ask}, null')}"), "true")
    state = f.outside("i32 PyGILState_Ensure")
    room = f.variable("i32", 0)
    raised = f.outside("ptr PyErr_Occurred")
    with f.when(f.let(f"icmp eq ptr {raised}, null")):
        operands = f"ptr {ask}, ptr @one_number, i64 %size"
        call = f"call ptr (ptr, ptr, ...) @PyObject_CallFunction({operands})"
        answer = f.let(call)
        with f.when(f.let(f"icmp ne ptr {answer}, null")):
            f.store("i32", f.outside("i32 PyObject_IsTrue", f"ptr {answer}"), room)
            f.outside("void Py_DecRef", f"ptr {answer}")
    f.outside("void PyGILState_Release", f"i32 {state}")
    f.give(f.let(f"icmp ne i32 {f.load('i32', room)}, 0"))


@stacks("ptr", "i64 %size")
def take_chunk(f: Function) -> None:
    found = f.variable("ptr", "null")
    large = f.let(f"icmp uge i64 %size, {LEAST_KEPT}")
    with f.when(large), f.locked("@kept_lock"), f.repeat(PLACES) as i:
        place = f.view("@kept", Kept, i)
        fits = f.let(f"icmp eq i64 {place.number('size')}, %size")
        with f.when(fits):
            f.store("ptr", place.pointer("chunk"), found)
            place.set("size", 0)
            less = f.let(f"sub i64 {f.load('i64', '@kept_bytes')}, %size")
            f.store("i64", less, "@kept_bytes")
        f.stop_if(fits)
    for again in (False, True):
        kept = f.load("ptr", found)
        with f.when(f.let(f"icmp eq ptr {kept}, null")):
            if again:
                forget_chunks(f)
            with f.when(has_room(f, "%size")):
                f.store("ptr", f.outside("ptr malloc", "i64 %size"), found)
    f.give(f.load("ptr", found))


@stacks("void", "ptr %chunk", "i64 %size")
def give_chunk(f: Function, limit: int) -> None:
    small = f.let(f"icmp ult i64 %size, {LEAST_KEPT}")
    large = f.let(f"icmp ugt i64 %size, {limit}")
    with f.when(f.let(f"or i1 {small}, {large}")):
        f.outside("void free", "ptr %chunk")
        f.give()
    with f.locked("@kept_lock"):
        more = f.let(f"add i64 {f.load('i64', '@kept_bytes')}, %size")
        with f.when(f.let(f"icmp ugt i64 {more}, {limit}")):
            release_kept(f)
        used = f.let(f"load i64, ptr {f.word('@kept', 2 * (PLACES - 1))}")
        with f.when(f.let(f"icmp ne i64 {used}, 0")):
            release_kept(f)
        with f.rows("@kept", Kept, PLACES) as place:
            free = f.let(f"icmp eq i64 {place.number('size')}, 0")
            with f.when(free):
                place.set("chunk", "%chunk", "ptr")
                place.set("size", "%size")
                now = f.let(f"add i64 {f.load('i64', '@kept_bytes')}, %size")
                f.store("i64", now, "@kept_bytes")
            f.stop_if(free)
    f.give()


@stacks("void")
def release_kept(f: Function) -> None:
    """Frees all that is kept; the lock is held."""
    with f.rows("@kept", Kept, PLACES) as place:
        used = f.let(f"icmp ne i64 {place.number('size')}, 0")
        with f.when(used):
            f.outside("void free", f"ptr {place.pointer('chunk')}")
            place.set("size", 0)
    f.store("i64", 0, "@kept_bytes")
    f.give()


@stacks("void", visible=True)
def forget_chunks(f: Function) -> None:
    with f.locked("@kept_lock"):
        release_kept(f)
    f.give()


@stacks("void", visible=True)
def reset_chunks(f: Function) -> None:
    """After a fork: a thread that is no more may have held the lock."""
    with f.repeat(PLACES) as i:
        f.view("@kept", Kept, i).set("size", 0)
    f.store("i64", 0, "@kept_bytes")
    f.do("store atomic i32 0, ptr @kept_lock release, align 4")
    f.give()
