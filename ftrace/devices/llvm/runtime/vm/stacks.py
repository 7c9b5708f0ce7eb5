"""Stacks: what iterations push whose number nobody knows before.

    header = count: i64, chunks: ptr, …       STACK_HEADER bytes in its slot
    chunk  = 2 ** (log + number) cells, each of `size` bytes and 64-aligned

A cell stays where it is, so that nothing is copied: pushing is computing into a cell,
and reading is computing from one.
"""

from __future__ import annotations

from ftrace.devices.llvm.ir.function_builder import Function
from ftrace.lower.program.ir import STACK_HEADER

#: Cells are aligned like every buffer.
CELL_ALIGNMENT = 64
#: A first chunk has about so many bytes.
FIRST_CHUNK = 4096
_CHUNKS = STACK_HEADER // 8 - 1

_DECLARATIONS = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
"""


def cell_bytes(nbytes: int) -> int:
    """The bytes of a cell that holds so many."""
    return -(-max(nbytes, 1) // CELL_ALIGNMENT) * CELL_ALIGNMENT


def first_log(size: int) -> int:
    """How many cells of that size the first chunk has, as a power of two."""
    return max(FIRST_CHUNK // size, 1).bit_length() - 1


def stacks_ir() -> str:
    """The text of `cell`, `empty_stacks` and `free_stacks`."""
    functions = (_cell(), _empty_stacks(), _free_stacks())
    return _DECLARATIONS + "\n".join(f.text for f in functions)


def _cell() -> Function:
    """The address of a cell; its chunk is made if need be. Null: there is no memory."""
    parameters = ("ptr %header", "i64 %number", "i64 %size", "i64 %log")
    f = Function("cell", "ptr", *parameters)
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
        made = f.let(f"call ptr @take_chunk(i64 {nbytes})")
        with f.when(f.let(f"icmp eq ptr {made}, null")):
            f.give("null")
        f.store("ptr", made, at)
    start = f.let(f"ptrtoint ptr {f.load('ptr', at)} to i64")
    up = f.let(f"add i64 {start}, {CELL_ALIGNMENT - 1}")
    aligned = f.let(f"and i64 {up}, {-CELL_ALIGNMENT}")
    address = f.let(f"add i64 {aligned}, {f.let(f'mul i64 {within}, %size')}")
    f.give(f.let(f"inttoptr i64 {address} to ptr"))
    return f


def _empty_stacks() -> Function:
    """Makes so many headers, one after the other, those of empty stacks."""
    f = Function("empty_stacks", "void", "ptr %header", "i64 %count")
    nbytes = f.let(f"mul i64 %count, {STACK_HEADER}")
    f.do(f"call void @llvm.memset.p0.i64(ptr %header, i8 0, i64 {nbytes}, i1 false)")
    f.give()
    return f


def _free_stacks() -> Function:
    """Gives back the chunks of so many stacks."""
    parameters = ("ptr %header", "i64 %count", "i64 %size", "i64 %log")
    f = Function("free_stacks", "void", *parameters)
    with f.repeat("%count") as i:
        header = f.beyond("%header", f.let(f"mul i64 {i}, {STACK_HEADER}"))
        with f.repeat(_CHUNKS) as number:
            chunk = f.slot(header, f.let(f"add i64 {number}, 1"))
            # A loop that fills a stack from its top may end before the bottom.
            with f.when(f.let(f"icmp ne ptr {chunk}, null")):
                nbytes = _chunk_bytes(f, number)
                f.do(f"call void @give_chunk(ptr {chunk}, i64 {nbytes})")
    f.give()
    return f


def _chunk_bytes(f: Function, number: str) -> str:
    """The bytes of a chunk, for cells of %size and a first chunk of 2 ** %log."""
    doublings = f.let(f"add i64 {number}, %log")
    nbytes = f.let(f"shl i64 %size, {doublings}")
    return f.let(f"add i64 {nbytes}, {CELL_ALIGNMENT}")
