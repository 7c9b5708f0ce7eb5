"""Chains in memory, as functions: see `chains`.

Their code is compiled when the first one is made, the loops that it calls when one
first needs them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ftrace.devices.llvm.calling.chains import (
    BLOCK,
    Chain,
    Input,
    Operation,
    Output,
    chains_ir,
)
from ftrace.devices.llvm.calling.element_loops import ElementLoops
from ftrace.devices.llvm.calling.lanes import LANES
from ftrace.devices.llvm.calling.links import BLOCKS, NUMBERS, Base, Done, Links
from ftrace.devices.llvm.calling.methods import FASTCALL, Method, builtin
from ftrace.devices.llvm.compiling.compile import emit_object, link
from ftrace.devices.llvm.runner.records import Block, Place

#: Bytes of the widest element.
_WIDEST = 8
_ALIGNED = 64


class Linking:
    """Makes functions of links.

    Args:
      state: the address of the words of the native code.
      immortal: some objects have a count that must stay as it is.
      imports: what native code calls that is nowhere else.
      loops: the operations on elements.
    """

    def __init__(
        self, state: int, immortal: bool, imports: dict[str, int], loops: ElementLoops
    ) -> None:
        self._given = state, immortal, imports
        self._method: Method | None = None
        self._loops = loops
        self._kept: list[Any] = []
        self._rooms = 0

    def function(self, links: Links, fallback: Any) -> Any:
        """A function of arrays of NumPy's that does what links say.

        Args:
          fallback: does the same in Python.
        """
        if self._method is None:
            self._load()
        named = (*links.once, *links.several, *links.last)
        self._loops.take(links.own)
        self._loops.load([done.loop for done in named])
        block, keeps = Block(), [fallback]
        place = block.add(*self._chain(links, block, keeps, id(fallback)))
        block.freeze()
        assert self._method is not None, "it is loaded"
        # The function holds what it refers to.
        held = block.settle(place), block, tuple(keeps)
        return builtin(self._method, held)

    def _load(self) -> None:
        state, immortal, imports = self._given
        code = link(
            emit_object(chains_ir(immortal)), ["run_chain", "set_state"], imports
        )
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("set_state"))(state)
        nbytes = BLOCKS * BLOCK * _WIDEST + NUMBERS * LANES * _WIDEST + _ALIGNED
        rooms = np.zeros(nbytes, np.uint8)
        self._kept += [code, rooms]
        self._rooms = -(-rooms.ctypes.data // _ALIGNED) * _ALIGNED
        self._method = Method(b"chain", code.address("run_chain"), FASTCALL, None)

    def _chain(
        self, links: Links, block: Block, keeps: list[Any], fallback: int
    ) -> Chain:
        inputs = [_input(x, keeps) for x in links.inputs]
        made: list[Output] = []
        for place, dtype, shape in links.made:
            keeps.append(dtype)
            sizes = block.add(*shape or (0,))
            made.append(Output(place, id(dtype), len(shape), sizes))
        bases = [self._address(base, keeps) for base in links.bases]

        def operations(done: Sequence[Done]) -> tuple[int, Place]:
            return block.rows([self._operation(x) for x in done] or [[0]])

        once, first = operations(links.once)
        several, then = operations(links.several)
        single, last = operations(links.last)
        given = block.add(*[word for row in inputs for word in row] or [0])
        outputs = block.add(*[word for row in made for word in row] or [0])
        return Chain(
            links.elements, len(inputs), given, len(bases), block.add(*bases),
            block.add(*links.strides), once if links.once else 0, first,
            several if links.several else 0, then, single if links.last else 0, last,
            len(made), outputs, fallback,
        )  # fmt: skip

    def _operation(self, done: Done) -> Operation:
        sides = [word for spot in done.operands for word in spot]
        padded = (*sides, *[0] * (6 - len(sides)))
        return Operation(self._loops.address(done.loop), done.out, *padded)

    def _address(self, base: Base, keeps: list[Any]) -> int:
        if base.kind == "constant":
            keeps.append(base.values)
            return int(base.values.ctypes.data)
        if base.kind == "block":
            return self._rooms + base.number * BLOCK * _WIDEST
        if base.kind == "number":
            blocks = BLOCKS * BLOCK * _WIDEST
            return self._rooms + blocks + base.number * LANES * _WIDEST
        return 0


def _input(given: Any, keeps: list[Any]) -> Input:
    keeps += [given.dtype, given.dtype.type]
    return Input(
        given.argument,
        id(given.dtype),
        id(given.dtype.type),
        given.place,
        given.width,
        given.offset,
    )
