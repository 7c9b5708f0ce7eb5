"""Every rewrite rule: an example that matches, one that must not, both evaluated.

The two sides of a rule have the same bits, NaN, infinities and signed zeros included.
Where a row says `SIGNLESS`, only the sign of a zero may differ; where it says `SMALL`,
the values are small integers, as the order of adding differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ftrace.errors import GraphError
from ftrace.ground import settings
from ftrace.lower.analysis import is_contraction
from ftrace.lower.blocking.split_reductions import LARGE_REDUCE
from ftrace.lower.pipeline import MOVEMENT, SIMPLIFY, SPLIT_REDUCTIONS
from ftrace.lower.spec import GRAPH_SPEC, check_after
from ftrace.trace.evaluate import evaluate
from ftrace.trace.graph import Node, make_node, toposort
from ftrace.trace.primitives import elementwise as e
from ftrace.trace.rewrite import PatternMatcher, rewrite
from tests.support.random_graphs import random_graph, values_for
from tests.support.rule_sample import (
    SIGNLESS,
    SMALL,
    C,
    V,
    assert_same,
    expand,
    f32,
    like,
    outputs_of,
    permute,
    reshape,
    row,
    shrink,
    total,
    x,
    y,
)
from tests.support.rule_samples_algebra import ARITHMETIC, CONSTANTS, LOGIC
from tests.support.rule_samples_movement import CHAINS, EXCHANGES
from tests.support.rule_samples_push import PUSHES
from tests.support.rule_samples_reduction import ONE_HOT, REDUCES, SCATTERS

RULES = {rule.name: rule for rule in SIMPLIFY + MOVEMENT + SPLIT_REDUCTIONS}

ROWS = {
    **CONSTANTS, **ARITHMETIC, **LOGIC, **ONE_HOT, **SCATTERS, **REDUCES, **CHAINS,
    **EXCHANGES, **PUSHES,
}  # fmt: skip


def test_every_rule_has_a_row() -> None:
    assert set(ROWS) == set(RULES)


@pytest.mark.parametrize("name", ROWS)
def test_rule_matches_and_keeps_the_value(name: str) -> None:
    row = ROWS[name]
    old = outputs_of(row.match)
    new = rewrite(old, PatternMatcher([RULES[name]]))
    for before, after in zip(old, new, strict=True):
        assert after is not before, f"{name} does not match {before!r}"
    GRAPH_SPEC.check(new)
    assert_same(old, new, row.values)


@pytest.mark.parametrize("name", ROWS)
def test_rule_leaves_the_other_example_alone(name: str) -> None:
    row = ROWS[name]
    old = outputs_of(row.other)
    assert rewrite(old, PatternMatcher([RULES[name]])) == old
    assert_same(old, rewrite(old, SIMPLIFY + MOVEMENT), SIGNLESS)


@pytest.mark.parametrize("name", ROWS)
def test_rule_can_be_switched_off(name: str) -> None:
    old = outputs_of(ROWS[name].match)
    with settings.config(disabled_rules={name}):
        assert rewrite(old, PatternMatcher([RULES[name]])) == old


@pytest.mark.parametrize("name", ROWS)
def test_rule_among_all_others_keeps_the_value(name: str) -> None:
    row = ROWS[name]
    old = outputs_of(row.match)
    values = SMALL if row.values == SMALL else SIGNLESS
    assert_same(old, rewrite(old, SIMPLIFY + MOVEMENT), values)


@pytest.mark.parametrize(
    "node",
    [
        e.mul(x, like(x, 0)),
        e.sub(x, x),
        e.sub(e.add(x, y), y),
        e.add(e.add(x, like(x, 0.1)), like(x, 0.2)),
        e.div(x, x),
        e.mul(e.div(x, y), y),
        e.add(x, like(x, 0)),
        e.eq(x, x),
        e.sqrt(e.mul(x, x)),
        e.power(x, like(x, 0.5)),
        total(e.mul(x, like(x, 3)), 0),
    ],
    ids=repr,
)
def test_no_algebra_that_is_wrong_for_floats(node: Node) -> None:
    assert rewrite([node], SIMPLIFY + MOVEMENT) == [node]


def test_sum_of_expand_is_near_the_sum() -> None:
    value = V(1, dtype=f32)
    old = total(expand(value, 1000), 0)
    (new,) = rewrite([old], SIMPLIFY)
    assert new.op is e.mul
    known = {value: np.array([0.1], np.float32)}
    before, after = evaluate([old, new], known)
    np.testing.assert_allclose(before, after, rtol=1e-6)


def test_contraction_is_recognised_after_all_rules() -> None:
    a, b = V(5, 7), V(7, 3, number=1)
    left = expand(reshape(e.neg(a), 5, 7, 1), 5, 7, 3)
    right = expand(reshape(b, 1, 7, 3), 5, 7, 3)
    made = permute(reshape(total(e.mul(left, right), 1), 5, 3), 1, 0)
    (new,) = rewrite([made], SIMPLIFY + MOVEMENT)
    assert any(is_contraction(n) for n in toposort([new]))
    assert_same([made], [new], SMALL)


def test_contraction_is_not_split() -> None:
    a, b = V(1, LARGE_REDUCE), V(LARGE_REDUCE, 1, number=1)
    left = expand(reshape(a, 1, LARGE_REDUCE, 1), 2, LARGE_REDUCE, 2)
    right = expand(reshape(b, 1, LARGE_REDUCE, 1), 2, LARGE_REDUCE, 2)
    made = total(e.mul(left, right), 1)
    assert rewrite([made], SPLIT_REDUCTIONS) == [made]


@pytest.mark.parametrize(
    ("size", "results", "blocks"),
    [
        (1 << 16, 1, 256), (1 << 20, 1, 256), (3 * 65536, 1, 256), (65537, 1, None),
        (1 << 20, 3, 64), (1 << 20, 16, 16), (1 << 20, 64, 8),
    ],
)  # fmt: skip
def test_blocks_are_a_divisor_of_which_all_results_have_some(
    size: int, results: int, blocks: int | None
) -> None:
    (made,) = rewrite([total(V(results, size), 1)], SPLIT_REDUCTIONS)
    sizes = {n.shape for n in toposort([made]) if n.op.name == "reduce_sum"}
    assert ((results, blocks, 1, 1) in sizes) == (blocks is not None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("columns", [2, 3, 17, 31])
def test_sums_of_narrow_rows_fit_registers(columns: int, dtype: Any) -> None:
    (made,) = rewrite(
        [total(V(1 << 18, columns, dtype=np.dtype(dtype)), 0)], SPLIT_REDUCTIONS
    )
    first = next(n for n in toposort([made]) if n.op.name == "reduce_sum")
    *_, lines, _ = first.shape
    assert lines == 1 or 128 <= lines * columns * first.dtype.itemsize <= 256


def test_spec_refuses_a_node_that_breaks_its_record() -> None:
    wrong = make_node(e.add, V(4).aval, (x, y))
    with pytest.raises(GraphError, match=r"graph: <add .* is not allowed"):
        GRAPH_SPEC.check([wrong])


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("simplify", e.stop_gradient(x)),
        ("simplify", e.exp(C(1, 4))),
        ("simplify", total(row, 0)),
        ("simplify", shrink(x, (1, 1), (0, 6))),
        ("movement", reshape(reshape(x, 24), 2, 12)),
        ("movement", permute(expand(row, 4, 6), 1, 0)),
    ],
    ids=repr,
)
def test_spec_of_a_pass_refuses_what_it_removes(name: str, node: Node) -> None:
    with pytest.raises(GraphError, match=rf"after {name}: .* is not allowed"):
        check_after(name, [node])
    check_after(name, rewrite([node], SIMPLIFY + MOVEMENT))
    with settings.config(disabled_rules={"merge_reshapes"}):
        check_after(name, [node])


@st.composite
def graphs(draw: Any) -> list[Node]:
    length = draw(st.integers(1, 14))
    return random_graph(lambda options: draw(st.sampled_from(options)), length)


@given(graphs(), st.integers(0, 5))
def test_random_graphs_keep_their_values(outputs: list[Node], seed: int) -> None:
    known = values_for(outputs, seed)
    wanted = evaluate(outputs, known)
    nodes = outputs
    GRAPH_SPEC.check(nodes)
    passes = {
        "simplify": SIMPLIFY,
        "movement": SIMPLIFY + MOVEMENT,
        "split_reductions": SPLIT_REDUCTIONS,
    }
    for name, matcher in passes.items():
        nodes = rewrite(nodes, matcher)
        check_after(name, nodes)
        for before, after in zip(wanted, evaluate(nodes, known), strict=True):
            np.testing.assert_array_equal(before, after)


@given(graphs(), st.sets(st.sampled_from(sorted(RULES)), max_size=30))
def test_random_graphs_keep_their_values_without_some_rules(
    outputs: list[Node], disabled: set[str]
) -> None:
    known = values_for(outputs)
    with settings.config(disabled_rules=disabled):
        nodes = rewrite(outputs, SIMPLIFY + MOVEMENT)
        GRAPH_SPEC.check(nodes)
    pairs = zip(evaluate(outputs, known), evaluate(nodes, known), strict=True)
    for before, after in pairs:
        np.testing.assert_array_equal(before, after)
