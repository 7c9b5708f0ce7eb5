"""What a program computes depends on the program alone, and not on what ran before.

Nodes are interned: where another program has made some of the nodes before, and is
still alive, they are older than those that this program makes. Nothing may follow
from that: no order in which cotangents are added, no kernel, no bit.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.trace.autodiff import gradient_nodes
from ftrace.trace.avals import ShapedArray
from ftrace.trace.graph import Graph, Node, nodes_of, render_graph, toposort
from ftrace.trace.primitives.elementwise import add, mul, sin, tanh
from ftrace.trace.primitives.sources import variable

SHAPE = (3, 4)
X = np.random.default_rng(5).normal(size=SHAPE).astype(np.float32) * 2
T = np.random.default_rng(6).normal(size=SHAPE).astype(np.float32)

UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": fnp.sin,
    "tanh": fnp.tanh,
    "root": lambda x: fnp.sqrt(abs(x) + 1),
    "flip": lambda x: x[::-1],
    "share": lambda x: x - fnp.mean(x, axis=1, keepdims=True),
    "turn": lambda x: x.T.reshape(SHAPE) * 0.7,
    "total": lambda x: fnp.broadcast_to(fnp.sum(x, axis=0) * 0.3, SHAPE),
    "running": lambda x: fnp.cumsum(x, axis=1) * 0.4,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "less": lambda x, y: fnp.where(x < y, x, y * 1.1),
    "over": lambda x, y: x / (1 + y * y),
    "dot": lambda x, y: x @ (y.T @ y) * 0.01,
}
#: (name, numbers of the operands among the argument and the values before).
Step = tuple[str, int, int]


@dataclass(frozen=True)
class Program:
    """A function of one array: steps, of which the last ones are added up."""

    steps: tuple[Step, ...]

    def values(self, x: Any, order: Sequence[int]) -> dict[int, Any]:
        """The values of all steps, made in an order in which operands come first."""
        found = {-1: x}
        for number in order:
            name, i, j = self.steps[number]
            if name in UNARY:
                found[number] = UNARY[name](found[i])
            else:
                found[number] = BINARY[name](found[i], found[j])
        return found

    def __call__(self, x: Any) -> Any:
        found = self.values(x, range(len(self.steps)))
        return sum((found[k] for k in range(len(self.steps))[-3:]), start=x * 0.1)

    def other(self, rank: Sequence[int]) -> Callable[[Any], Any]:
        """One with some of these values, made in another order and weighted."""
        order: list[int] = []
        waiting = sorted(range(len(self.steps)), key=rank.__getitem__)
        while waiting:
            ready = [
                k
                for k in waiting
                if all(n == -1 or n in order for n in self.steps[k][1:])
            ]
            order.append(ready[0])
            waiting.remove(ready[0])

        def function(x: Any) -> Any:
            found = self.values(x, order)
            kept = [k for k in order if rank[k] % 2] or order
            return sum((found[k] for k in reversed(kept)), start=x)

        return function


@st.composite
def programs(draw: st.DrawFn) -> Program:
    count = draw(st.integers(2, 7))
    names = st.sampled_from([*UNARY, *BINARY, *BINARY])
    steps: list[Step] = []
    for k in range(count):
        operand = st.integers(-1, k - 1)
        steps.append((draw(names), draw(operand), draw(operand)))
    return Program(tuple(steps))


def gradient(f: Any) -> Any:
    return ft.grad(lambda x: fnp.sum(f(x) * T))


def forwards(f: Any) -> Any:
    return lambda x: ft.jvp(f, (x,), (fnp.asarray(T),))


def backwards(f: Any) -> Any:
    def function(x: Any) -> Any:
        value, pull = ft.vjp(f, x)
        return value, pull(fnp.asarray(T))

    return function


def by_rows(f: Any) -> Any:
    many = ft.vmap(gradient(f))
    return lambda x: many(fnp.stack([x, x * 0.5]))


DERIVED: dict[str, Callable[[Any], Any]] = {
    "grad": gradient,
    "jvp": forwards,
    "vjp": backwards,
    "vmap": by_rows,
}


def bits(f: Any, jitted: bool) -> list[bytes]:
    function = ft.jit(f) if jitted else f
    return [np.asarray(a).tobytes() for a in ft.tree.leaves(function(fnp.asarray(X)))]


def forget() -> None:
    ft.clear_caches()
    gc.collect()


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", DERIVED)
@given(programs(), st.permutations(range(7)))
@settings(max_examples=3)
def test_bits_do_not_depend_on_what_was_traced_before(
    name: str, jitted: bool, program: Program, rank: list[int]
) -> None:
    derive = DERIVED[name]
    forget()
    alone = bits(derive(program), jitted)
    forget()
    other = program.other(rank)
    alive = ft.make_graph(gradient(other))(X), ft.make_graph(other)(X)
    assert bits(derive(program), jitted) == alone
    bits(derive(other), jitted)  # in the caches, too
    assert bits(derive(program), jitted) == alone
    del alive


def test_gradients_after_a_part_of_the_program() -> None:
    """The example with which this was found."""

    def f(x: Any, c: Any) -> Any:
        y = x.reshape(-1)[: c + 1].sum() if isinstance(c, int) else x
        first = abs(fnp.sqrt(abs(y) + 1))
        return fnp.sum((first + fnp.sqrt(abs((x * 0.5 + x) ** 2) + 1)) * 1.0)

    x = fnp.asarray(np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32) * 2)
    forget()
    alone = np.asarray(ft.grad(f)(x, -1.0)).tobytes()
    forget()
    ft.grad(f)(x, 100)
    assert np.asarray(ft.grad(f)(x, -1.0)).tobytes() == alone


def _leaf(number: int) -> Node:
    return variable(ShapedArray.of((4,), np.dtype(np.float32)), 77, number)


def test_the_order_of_nodes_follows_from_the_graph() -> None:
    x, y = _leaf(0), _leaf(1)
    late = tanh(y)  # made first, read last
    early = sin(x)
    whole = add(mul(early, early), late)
    assert toposort([whole]) == [x, early, whole.src[0], y, late, whole]
    assert toposort([late, whole])[:2] == [y, late]
    assert toposort([whole], [early, late]) == [whole.src[0], whole]
    assert nodes_of([whole]) == set(toposort([whole]))


def test_a_sum_of_cotangents_follows_from_the_graph() -> None:
    """Its text is the same whichever use of a value was traced first."""

    def text(first_sine: bool) -> str:
        x, ct = _leaf(2), _leaf(3)
        uses = (sin(x), tanh(x)) if first_sine else (tanh(x), sin(x))[::-1]
        (found,) = gradient_nodes([add(*uses)], [x], [ct])
        return render_graph(Graph((x, ct), (found,)), source_lines=False)

    forget()
    first = text(True)
    gc.collect()
    assert text(False) == first


def test_no_walk_is_longer_than_linear() -> None:
    """Every node is a source twice; each pair of values has 2ⁿ paths to it."""
    node = _leaf(4)
    for _ in range(2000):
        node = add(node, node)
    assert len(toposort([node, node])) == 2001
    wide = [sin(_leaf(k)) for k in range(1000)]
    assert len(toposort(wide + wide)) == 2000
