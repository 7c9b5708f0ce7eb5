"""The rewrite engine: fixed point, linear time, no recursion, rules that never end."""

from __future__ import annotations

import cProfile
import sys
from typing import Any

import pytest

from ftrace import dtypes
from ftrace.errors import GraphError
from ftrace.ground import settings
from ftrace.lower.pipeline import MOVEMENT, SIMPLIFY
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Node, toposort
from ftrace.trace.primitives.broadcast import expand_p, reduce_sum_p
from ftrace.trace.primitives.elementwise import (
    add,
    cast_p,
    copy,
    cos,
    exp,
    mul,
    neg,
    sin,
    sub,
    tanh,
)
from ftrace.trace.primitives.movement import permute_p, reshape_p, stride_p
from ftrace.trace.primitives.sources import const, variable
from ftrace.trace.rewrite import Pat, PatternMatcher, Rule, Spec, rewrite

X = Pat(name="x")
NEG_NEG = Rule("neg_neg", Pat(neg, Pat(neg, X)), lambda x: x)
SIN_TO_COS = Rule("sin_to_cos", Pat(sin, X), lambda x: cos(x))
COS_TO_SIN = Rule("cos_to_sin", Pat(cos, X), lambda x: sin(x))
ALL = SIMPLIFY + MOVEMENT


def var(*shape: int, number: int = 0, dtype: Any = dtypes.float32) -> Node:
    return variable(ShapedArray.of(shape, dtype), 0, number)


def only(*rules: Rule) -> PatternMatcher:
    return PatternMatcher(rules)


# Patterns.


def test_a_condition_on_types_is_asked_once_for_each_of_a_graph() -> None:
    asked: list[Node] = []

    def is_float(node: Node) -> bool:
        asked.append(node)
        return dtypes.is_float(node.dtype)

    rule = Rule("sin_to_cos", Pat(sin, X, aval=is_float), lambda x: cos(x))
    node = other = var(3)
    for _ in range(10):
        node, other = sin(exp(node)), cos(exp(other))
    assert rewrite([node], only(rule)) == [other]
    assert len(asked) <= 2 * len({n.aval for n in asked})


def test_pattern_captures_by_name() -> None:
    found: dict[str, Node] = {}

    def note(outer: Node, x: Node) -> None:
        found.update(outer=outer, x=x)

    node = neg(exp(var(3)))
    rewrite([node], only(Rule("note", Pat(neg, Pat(exp, X), name="outer"), note)))
    assert found == {"outer": node, "x": var(3)}


def test_one_name_matches_one_node() -> None:
    double = Rule("double", Pat(add, X, X), lambda x: neg(x))
    x, y = var(3), var(3, number=1)
    assert rewrite([add(x, x)], only(double)) == [neg(x)]
    assert rewrite([add(x, y)], only(double)) == [add(x, y)]


def test_commuting_pattern_matches_both_orders_at_any_depth() -> None:
    inner = Pat(mul, Pat(exp), Pat(name="y"), commutes=True)
    rule = Rule("r", Pat(add, inner, X, commutes=True), lambda x, y: sub(x, y))
    x, y, z = (var(3, number=i) for i in range(3))
    for product in (mul(exp(z), y), mul(y, exp(z))):
        for total in (add(product, x), add(x, product)):
            assert rewrite([total], only(rule)) == [sub(x, y)]
    assert rewrite([sub(x, mul(exp(z), y))], only(rule)) != [sub(x, y)]


def test_condition_and_number_of_sources_are_part_of_the_pattern() -> None:
    small = Pat(exp, X, where=lambda n: n.size < 4)
    rule = Rule("r", small, lambda x: neg(x))
    assert rewrite([exp(var(3))], only(rule)) == [neg(var(3))]
    assert rewrite([exp(var(5))], only(rule)) == [exp(var(5))]
    unary = Rule("u", Pat((add, exp), Pat()), lambda: None)  # type: ignore[arg-type]
    assert rewrite([add(var(3), var(3))], only(unary)) == [add(var(3), var(3))]


def test_alternatives_are_tried_in_order() -> None:
    rule = Rule("r", (Pat(sin, X), Pat(cos, X)), lambda x: tanh(x))
    assert rewrite([sin(var(3)), cos(var(3))], only(rule)) == [tanh(var(3))] * 2


def test_first_rule_wins() -> None:
    to_exp = Rule("to_exp", Pat(sin, X), lambda x: exp(x))
    assert rewrite([sin(var(3))], only(SIN_TO_COS, to_exp)) == [cos(var(3))]
    assert rewrite([sin(var(3))], only(to_exp, SIN_TO_COS)) == [exp(var(3))]


def test_two_rules_cannot_share_a_name() -> None:
    with pytest.raises(GraphError, match="several rules share a name: neg_neg"):
        only(NEG_NEG) + only(NEG_NEG)


# Rewriting.


def test_rules_apply_until_none_does() -> None:
    node = var(3)
    for _ in range(7):
        node = neg(node)
    assert rewrite([exp(node)], only(NEG_NEG)) == [exp(neg(var(3)))]


def test_replacements_are_rewritten_too() -> None:
    to_sin = Rule("to_sin", Pat(tanh, X), lambda x: sin(neg(neg(x))))
    matcher = only(to_sin, SIN_TO_COS, NEG_NEG)
    assert rewrite([tanh(var(3))], matcher) == [cos(var(3))]


def test_untouched_nodes_stay_the_same_objects() -> None:
    shared = exp(var(3))
    outputs = [add(shared, neg(neg(shared))), shared]
    first, second = rewrite(outputs, only(NEG_NEG))
    assert second is shared
    assert first is add(shared, shared)


def test_disabled_rules_do_not_apply() -> None:
    node = neg(neg(sin(var(3))))
    matcher = only(NEG_NEG, SIN_TO_COS)
    with settings.config(disabled_rules={"neg_neg"}):
        assert rewrite([node], matcher) == [neg(neg(cos(var(3))))]
    assert rewrite([node], matcher) == [cos(var(3))]


def test_replacement_must_keep_the_type() -> None:
    wrong = Rule("wrong", Pat(neg, X), lambda x: reshape_p(x, arg=(3, 1)))
    with pytest.raises(GraphError, match=r"rule wrong turned <neg .*3.* into <reshape"):
        rewrite([neg(var(3))], only(wrong))


def test_new_nodes_take_the_origin_of_what_they_replace() -> None:
    node = neg(neg(exp(var(9, number=7))))
    (new,) = rewrite([sin(node)], only(NEG_NEG, SIN_TO_COS))
    assert new.origin is not None
    assert new.origin.function == "test_new_nodes_take_the_origin_of_what_they_replace"


# Rules that never end.


def test_cycle_of_rules_is_an_error() -> None:
    with pytest.raises(
        GraphError, match=r"the rules lead from <(sin|cos) .* back to it"
    ):
        rewrite([exp(sin(var(3)))], only(SIN_TO_COS, COS_TO_SIN))


def test_rule_that_contains_what_it_replaces_is_an_error() -> None:
    rule = Rule("wrap", Pat(sin, name="x"), lambda x: neg(x))
    with pytest.raises(GraphError, match="back to it"):
        rewrite([sin(var(3))], only(rule))


def test_growth_without_end_is_an_error() -> None:
    rule = Rule("grow", Pat(sin, X), lambda x: sin(exp(x)))
    with pytest.raises(GraphError, match="the rules do not end"):
        rewrite([sin(var(3))], only(rule))


# Users.

PAST_EXP = Rule(
    "past_exp",
    Pat(neg, Pat(exp, X, name="y")),
    lambda x, y: exp(neg(x)),
    single_use="y",
)


def test_single_use_keeps_work_from_being_doubled() -> None:
    x = var(3)
    once, both = neg(exp(x)), [neg(exp(x)), exp(x)]
    assert rewrite([once], only(PAST_EXP)) == [exp(neg(x))]
    assert rewrite(both, only(PAST_EXP)) == both
    assert rewrite([add(*both)], only(PAST_EXP)) == [add(*both)]


def test_two_ways_of_one_user_count_once() -> None:
    x = var(3)
    rule = Rule("r", Pat(mul, Pat(exp, X), Pat(exp, X)), lambda x: sin(x))
    counted = Rule(rule.name, Pat(mul, y := Pat(exp, X, name="y"), y),
                   lambda x, y: sin(x), single_use="y")  # fmt: skip
    assert rewrite([mul(exp(x), exp(x))], only(counted)) == [sin(x)]
    assert rewrite([mul(exp(x), exp(x)), exp(x)], only(counted))[0] is not sin(x)


def test_users_that_vanish_do_not_count() -> None:
    """Of two users the first is rewritten into one that does not need the value."""
    x = var(3)
    drop = Rule("drop", Pat(tanh, Pat(exp, X)), lambda x: tanh(x))
    outputs = [neg(exp(x)), tanh(exp(x))]  # the last is visited first
    assert rewrite(outputs, only(drop, PAST_EXP)) == [exp(neg(x)), tanh(x)]


def test_users_follow_a_value_that_is_rewritten() -> None:
    x = var(3)
    inner = exp(neg(neg(x)))
    outputs = [neg(inner), add(inner, x)]
    wanted = [neg(exp(x)), add(exp(x), x)]
    assert rewrite(outputs, only(NEG_NEG, PAST_EXP)) == wanted


# Size and time.

LENGTH = 20_000


def reshaped(x: Node, i: int) -> Node:
    return reshape_p(x, arg=(4, 6) if i % 2 else (6, 4))


CHAINS = {
    "work": (lambda x, i: add(sin(x), var(6, 4)) if i % 2 else exp(x)),
    "neg": lambda x, i: neg(x),
    "reshape": reshaped,
    "work and reshape": lambda x, i: reshaped(exp(x), i),
    "work and transpose": lambda x, i: permute_p(exp(x), arg=(1, 0)),
    "work, transpose and reshape": lambda x, i: reshape_p(
        permute_p(sin(x), arg=(1, 0)), arg=x.shape
    ),
    "work and flip": lambda x, i: stride_p(sin(x), arg=(-1, 1)),
    "work and copy": lambda x, i: copy(sin(x)),
    "cast": lambda x, i: cast_p(x, arg=(dtypes.float64 if i % 2 else x.dtype, False)),
    "sum and expand": lambda x, i: expand_p(reduce_sum_p(x, arg=(0,)), arg=x.shape),
    "shared": lambda x, i: mul(x, x),
}


def chain(kind: str, length: int) -> Node:
    node = var(6, 4)
    for i in range(length):
        node = CHAINS[kind](node, i)
    return node


def calls(kind: str, length: int) -> int:
    """How many calls of functions it takes: work that a busy machine cannot change."""
    node = chain(kind, length)
    profile = cProfile.Profile()
    profile.runcall(rewrite, [node], ALL)
    return sum(entry.callcount for entry in profile.getstats())


def test_deep_chains_need_no_recursion() -> None:
    node = chain("work", LENGTH)
    assert len(toposort([node])) > LENGTH > 10 * sys.getrecursionlimit()
    assert rewrite([node], ALL) == [node]
    assert rewrite([chain("neg", LENGTH)], only(NEG_NEG)) == [var(6, 4)]


def test_wide_trees_need_no_recursion() -> None:
    nodes = [var(6, 4, number=i) for i in range(4_000)]
    while len(nodes) > 1:
        nodes = [add(*nodes[i : i + 2]) for i in range(0, len(nodes) - 1, 2)] + nodes[
            len(nodes) - len(nodes) % 2 :
        ]
    (new,) = rewrite([permute_p(nodes[0], arg=(1, 0))], ALL)
    assert new.op is add


@pytest.mark.parametrize("kind", CHAINS)
def test_work_is_linear_in_the_length(kind: str) -> None:
    calls(kind, 100)  # what is kept for later is made
    assert calls(kind, 1200) < 5 * calls(kind, 300)


# Specs.


def test_spec_names_the_node_that_it_does_not_allow() -> None:
    spec = Spec(
        "no sums", (Pat((exp, mul)), Pat(var(3).op), Pat(const(1, var(3).dtype).op))
    )
    spec.check([mul(exp(var(3)), const(2, dtypes.float32, (3,)))])
    with pytest.raises(GraphError, match=r"no sums: <add .* is not allowed"):
        spec.check([exp(add(var(3), var(3)))])
