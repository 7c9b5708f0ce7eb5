"""When what processes do together starts and is waited for, in the list of steps.

Nothing is sent: what a program does is looked at, and not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ftrace as ft
from ftrace.lower import lower
from ftrace.lower.assembly.overlap import BUCKET, SMALL
from ftrace.lower.program import CallHost, Program, RunExchange, RunKernel
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Graph, Node
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.broadcast import reduce_sum_p
from ftrace.trace.primitives.exchange import Ranks, communicate, process_rank
from ftrace.trace.primitives.sources import variable

RANKS = Ranks("data", ((0, 1, 2, 3),))
LARGE = (SMALL // 4,)  # elements of float32, which are as many bytes as need no bucket


def inputs(*shapes: Any) -> list[Node]:
    avals = [ShapedArray.of(shape, np.dtype(np.float32)) for shape in shapes]
    return [variable(aval, 0, i) for i, aval in enumerate(avals)]


def program(given: Sequence[Node], outputs: Sequence[Node]) -> Program:
    return lower(Graph(tuple(given), tuple(outputs))).program


def total(x: Node) -> Node:
    return communicate(x, "sum", RANKS)


def stored(x: Node) -> Node:
    """What only a kernel by itself computes."""
    return reduce_sum_p(p.mul(x, x), arg=(0,))


def exchanges(found: Program, part: str = "") -> list[RunExchange]:
    steps = [s for s in found.steps if isinstance(s, RunExchange)]
    return [s for s in steps if part in ("", s.phase)]


def check_places(found: Program) -> None:
    """Each starts once its operands are written, and is waited for before their use."""
    started: dict[Any, RunExchange] = {}
    written = {n for n, slot in enumerate(found.slots) if slot.storage == "input"}
    for step in found.steps:
        own = {slot for s in started.values() for slot in s.results}
        if isinstance(step, RunExchange):
            if step.phase == "wait":
                begun = started.pop(step.nodes)
                assert begun.operands == step.operands
                assert begun.results == step.results
            else:
                assert written >= {*step.operands}
                assert own.isdisjoint((*step.operands, *step.results))
            if step.phase == "start":
                started[step.nodes] = step
            written |= {*step.results}
            continue
        assert isinstance(step, RunKernel)
        pairs = [*zip(step.slots, step.buffers, strict=True)]
        assert own.isdisjoint(step.slots), "it is under way"
        writes = {slot for slot, spec in pairs if spec.written}
        sent = {slot for s in started.values() for slot in s.operands}
        assert sent.isdisjoint(writes), "it is read"
        written |= writes
    assert not started


def test_what_is_sent_lies_in_rows() -> None:
    (x,) = given = inputs((4, 8, 16))
    for kind in ("gather", "scatter", "all_to_all"):
        for axis in range(3):
            found = program(given, [communicate(x, kind, RANKS, axis)])
            (step,) = exchanges(found)
            assert (step.nodes[0].arg.kind, step.nodes[0].arg.axis) == (kind, 0)
            kernels = [s for s in found.steps if isinstance(s, RunKernel)]
            assert len(kernels) == (2 if axis else 0)  # there and back
    (step,) = exchanges(program(given, [communicate(x, "max", RANKS, 1)]))
    assert step.operands == (0,)  # it moves nothing


def test_kernels_that_need_no_sum_run_while_it_is_sent() -> None:
    x, y = given = inputs(LARGE, LARGE)
    summed = total(p.mul(x, x))
    found = program(given, [p.mul(summed, y), stored(p.sin(y))])
    check_places(found)
    kinds = [getattr(step, "phase", "kernel") for step in found.steps]
    assert kinds == ["kernel", "start", "kernel", "wait", "kernel"]
    assert [step.meanwhile for step in exchanges(found)] == [True, False]


def test_a_sum_that_is_needed_at_once_is_one_step() -> None:
    (x,) = given = inputs(LARGE)
    found = program(given, [p.sin(total(total(p.mul(x, x))))])
    check_places(found)
    assert [step.phase for step in exchanges(found)] == ["whole", "whole"]


def test_small_sums_are_one_message() -> None:
    given = inputs(*[(5 + i,) for i in range(6)], LARGE, LARGE)
    found = program(given, [p.sin(total(p.mul(x, x))) for x in given])
    check_places(found)
    starts = [*exchanges(found, "start"), *exchanges(found, "whole")]
    assert sorted(len(step.nodes) for step in starts) == [1, 1, 6]
    most = BUCKET // (SMALL - 4)
    given = inputs(*[(SMALL // 4 - 1,)] * (2 * most + 1))
    found = program(given, [total(p.mul(x, x)) for x in given])
    assert sorted(len(step.nodes) for step in exchanges(found, "start")) == [
        1, most, most,
    ]  # fmt: skip


def test_only_alike_is_one_message() -> None:
    x, y = given = inputs((4,), (4,))
    other = Ranks("model", ((0, 1),))
    kinds = [
        total(x), communicate(x, "max", RANKS), communicate(x, "sum", other),
        total(p.cast(x, np.dtype(np.int32))), communicate(x, "scatter", RANKS),
        communicate(y, "all_to_all", RANKS),
    ]  # fmt: skip
    found = program(given, kinds)
    check_places(found)
    assert all(len(step.nodes) == 1 for step in exchanges(found))
    gathered = program(given, [communicate(n, "gather", RANKS) for n in given])
    assert [len(step.nodes) for step in exchanges(gathered)] == [2]


def test_what_waits_for_one_sum_is_not_kept_by_another() -> None:
    given = inputs(LARGE, LARGE, LARGE, LARGE)
    w, v, x, y = given
    sums = total(p.mul(x, x)), total(p.mul(y, y))
    found = program(given, [p.sub(w, sums[0]), p.sub(v, sums[1])])
    check_places(found)
    assert len(found.kernels) == 3  # not two, of which the last waits for both sums


def test_what_grows_is_gathered_little_ahead() -> None:
    given = inputs((1,), *[(SMALL,)] * 7)  # each in a kernel of its own
    carry, *weights = given
    for w in weights:
        whole = communicate(w, "gather", RANKS)
        carry = p.mul(carry, reduce_sum_p(p.sin(whole), arg=(0,)))
    found = program(given, [carry])
    check_places(found)
    ahead = most = 0
    for step in exchanges(found):
        ahead += {"start": 1, "wait": -1, "whole": 0}[step.phase]
        most = max(most, ahead)
    assert most == 2
    assert len(exchanges(found, "start")) >= len(weights) - 2


def test_what_overwrites_an_operand_waits_for_its_end() -> None:
    x, y = given = inputs(LARGE, LARGE)
    graph = Graph(tuple(given), (total(x), p.add(x, y)))
    found = lower(graph, donated=[x]).program
    check_places(found)
    assert found.outputs[1] == found.inputs[0]


def test_it_can_be_switched_off() -> None:
    given = inputs((4,), LARGE)
    outputs = [*map(total, given), stored(p.sin(given[1]))]
    with ft.config(disabled_rules={"overlap_exchanges"}):
        found = program(given, outputs)
    assert not exchanges(found)
    assert sum(isinstance(step, CallHost) for step in found.steps) == 2


def test_what_a_process_knows_is_not_sent() -> None:
    (x,) = given = inputs((8,))
    found = program(given, [communicate(x, "own", RANKS), process_rank(RANKS)])
    assert not exchanges(found)


def test_the_order_is_the_same_each_time() -> None:
    """Processes that trace the same program start the same exchanges in one order."""
    given = inputs(LARGE, (3,), (4,), LARGE, LARGE)
    texts = {
        str(program(given, [p.sin(total(p.mul(x, x))) for x in given]))
        for _ in range(3)
    }
    assert len(texts) == 1
