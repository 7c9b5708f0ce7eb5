"""Samplers of one kind outside of jit: NumPy's code first, compiled code if it pays.

    gauss(key)   ->   threefry, shifts, u - 1     exact: compiled, after some calls
                      u * 2 - 1, erf_inv          NumPy, or all of it compiled

A process that draws a few numbers shall not wait for a compiler. But the numbers of a
key must not change from one call to the next: so what is rounded is done by NumPy at
each call, or compiled from the first one on, which the size alone decides.
"""

from __future__ import annotations

from typing import Any

from ftrace.trace.evaluate import Plan, numpy_time
from ftrace.trace.exact import exact_part
from ftrace.trace.graph import Graph
from ftrace.trace.hooks import Compiled, Program, hooks

#: From so many elements on what rounds is compiled: NumPy needs longer for one call
#: than other libraries for theirs, and a program is compiled in the time of some 30.
LARGE = 1 << 8
#: Up to so many a call that is repeated is fastest step by step, with no program.
SMALL = 1 << 9
#: From so many on everything is, at the first call.
HUGE = 1 << 19
#: µs that NumPy may take for one kind before its exact part is compiled, and for all of
#: them before the compiler is loaded.
SPENT, SPENT_IN_ALL = 20_000, 250_000


class _Budget:
    """What NumPy has needed in this process, in µs."""

    spent: int = 0


_budget = _Budget()


class Sampler:
    """One sampler for operands of certain types, evaluated at once.

    Attributes:
      graph: what it computes, of one output.
      is_huge: it is compiled at the first call.
      is_small: its steps are quicker than a program, where they are done natively.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        ends, self._is_exact = exact_part(graph)
        #: The exact part, and how NumPy goes on from there, and from the beginning.
        self._part = Graph(graph.inputs, tuple(ends))
        self._rest: Plan | None = None
        self._all: Plan | None = None
        size = max([n.size for n in (*ends, *graph.outputs)])
        self._price = len(graph.nodes) * numpy_time(size)
        self._spent = 0
        self.is_huge = size >= HUGE
        self.is_small = size <= SMALL
        # Compiled at the first call, or never: its last bits depend on it.
        self._at_once = size >= LARGE and not self._is_exact and len(ends) > 0
        self._is_whole = self._is_exact or self._at_once
        self._compiled: Compiled | None = None

    @property
    def is_of_numpy(self) -> bool:
        """Does NumPy give these numbers, to the bit?"""
        return not self._at_once and not self.is_huge

    @property
    def plan(self) -> Plan:
        """How NumPy computes it."""
        if self._all is None:
            self._all = Plan(self.graph.outputs, self.graph.inputs)
        return self._all

    def values(self, *given: Any) -> Any:
        """The values for those of the operands, all of NumPy."""
        program = self.program()
        if program is not None and self._is_whole:
            return program(*given)[0].numpy()
        if program is None:
            return self.plan(given)[0]
        if self._rest is None:
            known = (*self.graph.inputs, *self._part.outputs)
            self._rest = Plan(self.graph.outputs, known)
        return self._rest([*given, *[x.numpy() for x in program(*given)]])[0]

    def program(self) -> Program | None:
        """Compiled code of the whole or of its exact part; None if it is too soon."""
        if self._compiled is None:
            if hooks.prepare is None or not self._pays():
                self._spent += self._price
                _budget.spent += self._price
                return None
            self._compiled = Compiled(self.graph if self._is_whole else self._part)
        return self._compiled.program()

    def _pays(self) -> bool:
        """Is it time to compile, and to load the compiler if that has not been done?"""
        if self._at_once or self.is_huge:
            return True
        if self._spent < SPENT or not self._part.outputs:
            return False
        return hooks.has_compiled() or _budget.spent >= SPENT_IN_ALL
