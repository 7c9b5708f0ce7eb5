"""Large programs: what the compiler does grows with their length, no faster."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp


def chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = fnp.sin(x) * 1.25 + x
    return x.sum()


def mix(x: Any, length: int) -> Any:
    """Elementwise work, reductions, and movement between them."""
    for _ in range(length):
        x = fnp.tanh(x) * 0.5 + x
        x = (x - x.mean()).reshape(8, -1).T.reshape(-1)[::-1]
    return (x * x).sum()


def calls_of(function: Callable[[], Any]) -> int:
    """How many functions are called, those of C included."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def calls_for(way: Callable[[Any], Any], body: Any, length: int) -> int:
    """How many it takes to trace, differentiate, lower, compile and run a program."""
    x = np.linspace(0, 1, 64, dtype=np.float32)
    with ft.config(cache_size=0, cache_dir="/nonexistent", threads=1):
        ft.cache_clear()  # no kernel is known from before
        return calls_of(lambda: way(lambda x: body(x, length))(x))


@pytest.mark.parametrize("way", [ft.jit, ft.grad])
@pytest.mark.parametrize("body", [chain, mix])
def test_work_grows_with_the_length_of_a_program(way: Any, body: Any) -> None:
    calls_for(way, body, 10)
    short, long = calls_for(way, body, 40), calls_for(way, body, 80)
    assert long <= 2.4 * short


def layers(x: Any, length: int) -> Any:
    """Products of matrices, of two kinds in turn, as in a network."""
    weights = [np.full((8, 8), scale, np.float32) for scale in (0.1, 0.2)]
    for number in range(length):
        x = x + fnp.tanh(x.reshape(8, 8) @ weights[number % 2]).reshape(-1)
    return (x * x).sum()


#: Calls per node of a function whose gradient is taken without jit for the first time,
#: all included.
MOST_CALLS = {chain: 285, mix: 1500, layers: 800}


@pytest.mark.parametrize("body", MOST_CALLS)
def test_gradients_take_a_bounded_number_of_calls_per_node(body: Any) -> None:
    calls_for(ft.grad, body, 10)
    calls = calls_for(ft.grad, body, 200) - calls_for(ft.grad, body, 100)
    x = np.linspace(0, 1, 64, dtype=np.float32)
    nodes = [len(ft.make_graph(lambda x, n=n: body(x, n))(x).nodes) for n in (100, 200)]
    assert calls / (nodes[1] - nodes[0]) <= MOST_CALLS[body]
