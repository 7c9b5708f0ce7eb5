"""The text of functions: basic blocks, and squares of registers that are turned."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ftrace.backends.llvm.compile import generate
from ftrace.backends.llvm.emit.module import module_for
from ftrace.backends.llvm.ir.writer import Constant, Type, Writer, first_lanes
from ftrace.backends.llvm.scalar.ops import Operations
from ftrace.backends.llvm.target import host_target


def lanes_of(lines: list[str], rows: dict[str, list[int]]) -> dict[str, list[int]]:
    """What is in each lane of each register that shuffles of `rows` come to."""
    known = dict(rows)
    for line in lines:
        found = re.match(
            r"  (\S+) = shufflevector <.*?> (\S+), <.*?> (\S+), .*<(.*)>$", line
        )
        if found is not None:
            both = known[found[2]] + known[found[3]]
            known[found[1]] = [both[int(p.split()[1])] for p in found[4].split(", ")]
    return known


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint16, np.float32, "f8"])
@pytest.mark.parametrize("value", [0, 1, -1, 2.5, 300])
def test_a_constant_knows_the_number_that_its_text_says(dtype: Any, value: Any) -> None:
    one = Type.of(np.dtype(dtype), 0)
    expected = np.asarray(value).astype(np.int64 if one.kind in "iu" else dtype)
    bits = 1 << one.bits
    if one.kind in "iu":  # LLVM's integers have a sign
        expected = (int(expected) + bits // 2) % bits - bits // 2
    scalar, vector = one.constant(value), one.with_lanes(4).constant(value)
    assert scalar.value == vector.value == expected
    assert (
        vector
        == f"splat ({one} {scalar})"
        == Operations(Writer(), host_target()).splat(scalar, one.with_lanes(4))
    )
    assert (one.zero.value, one.with_lanes(4).zero.value) == (0, 0)


def test_a_constant_whose_lanes_differ_knows_each_of_them() -> None:
    mask = first_lanes(4, 1)
    assert mask == "<i1 true, i1 false, i1 false, i1 false>"
    assert (mask.value, mask.lanes) == (None, (True, False, False, False))
    writer = Writer()
    assert isinstance(mask, Constant)
    assert not isinstance(writer.pure("add i64 %begin, 1"), Constant)


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
def test_turning_exchanges_rows_and_lanes(lanes: int, dtype: type) -> None:
    writer = Writer()
    ops = Operations(writer, host_target())
    rows = [f"%r{n}" for n in range(lanes)]
    columns = ops.transpose(Type.of(np.dtype(dtype), lanes), rows)
    square = {row: [100 * n + e for e in range(lanes)] for n, row in enumerate(rows)}
    known = lanes_of(writer.level.lines, square)
    expected = [[100 * n + c for n in range(lanes)] for c in range(lanes)]
    assert [known[column] for column in columns] == expected


def _accepted(writer: Writer) -> None:
    module = module_for(host_target(), writer.declared, writer.function)
    assert generate(module.text)


def test_a_cut_may_stand_around_open_loops_and_scopes() -> None:
    writer = Writer()
    with writer.units() as unit:
        value = writer.pure(f"mul i64 {unit}, 3", unit)
        writer.open_scope()
        writer.open_scope()
        writer.cut(value)
        with writer.fold("0", "4", 1, [("i64", value)]) as loop:
            writer.cut(value)
            total = writer.here(f"add i64 {loop.values[0]}, {loop.index}")
            writer.cut(total)
            loop.following = [total]
        writer.close_scope()
        writer.close_scope()
    text = writer.function("cut")
    assert text.count("br label %cut") == 3
    _accepted(writer)


def test_no_cut_where_a_scope_already_names_the_block() -> None:
    writer = Writer()
    value = writer.pure("add i64 %begin, %end")
    writer.open_scope()
    with writer.fold("0", "4", 1, [("i64", value)]) as loop:
        loop.following = [writer.here(f"add i64 {loop.values[0]}, 1")]
    writer.cut(value)
    writer.close_scope()
    assert "br label %cut" not in writer.function("cut")
    _accepted(writer)


def test_the_steps_of_turning_are_blocks_of_their_own() -> None:
    writer = Writer()
    ops, lanes = Operations(writer, host_target()), 8
    t = Type.of(np.dtype(np.float32), lanes)
    base = writer.pure("load ptr, ptr %buffers, align 8")
    rows: list[str] = []
    for n in range(lanes):
        p = writer.pure(f"getelementptr i8, ptr {base}, i64 {32 * n}", base)
        rows.append(writer.here(f"load {t}, ptr {p}, align 4"))
    for n, column in enumerate(ops.transpose(t, rows)):
        p = writer.pure(f"getelementptr i8, ptr {base}, i64 {32 * n}", base)
        writer.effect(f"store {t} {column}, ptr {p}, align 4")
    assert writer.function("cut").count("br label %cut") == 3
    _accepted(writer)
