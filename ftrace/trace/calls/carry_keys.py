"""Random keys and numbers of few bits in programs: devices move their bits.

    key<fry>[3] = reshape x   ->   u64[3] = reshape x
    f8_e5m2[3] = reshape x    ->   u8[3] = reshape x

Only moving operations take keys, and beside them casts numbers of few bits, so that all
that is left of them is their dtype. It goes before a graph is compiled; its arguments
and results keep it. The casts become arithmetic on codes:

    f8_e4m3fn -> f32    the sign, exponent and fraction in the places of float32
    f32 -> f8_e4m3fn    (k << M) + rint(|x| / 2^(e - M)); e the exponent, k = e - least

A float of few bits has M bits of fraction behind the leading one, and as many of its
numbers lie between two powers of two: the code of the next power is the code of the
last number plus 1, so that rounding up carries by itself, also into the first normal
number. Which code means infinity or NaN is asked of ml_dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple
from ftrace.trace import graph as g
from ftrace.trace.avals import ShapedArray, Stack
from ftrace.trace.calls.inline import inline_calls
from ftrace.trace.effects import Callback
from ftrace.trace.graph_map import exchange
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const, const_like, const_p, iota_p

Dtype = np.dtype[Any]
_finfo: Callable[[Any], Any] = ml_dtypes.finfo


class _Layout(NamedTuple):
    """Of a float of few bits.

    Attributes:
      fraction: bits of fraction.
      least: the exponent of the first normal number.
      sign: the code of the sign alone; 0 where there are none.
      most: the code of the greatest number.
      beyond: the code of what is greater; infinity's, or NaN's.
      nan, infinity: their codes; -1 where there is none.
      signed_zero: is there a -0?
    """

    fraction: int
    least: int
    sign: int
    most: int
    beyond: int
    nan: int
    infinity: int
    signed_zero: bool


@cache
def _layout(dtype: Dtype) -> _Layout:
    info = _finfo(dtype)
    given: Any = np.array([info.max, 3e38, np.nan, -0.0], np.float32)
    most, beyond, nan, zero = map(int, given.astype(dtype).view(np.uint8))
    codes: Any = np.arange(256, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float32)
    return _Layout(
        info.nmant, info.minexp + (info.nmant == 0),
        1 << (dtypes.bits_of(dtype) - 1) if info.nmant else 0, most, beyond, nan,
        beyond if np.isinf(values[beyond]) else -1, zero != 0,
    )  # fmt: skip


def widen(codes: g.Node, dtype: Dtype) -> g.Node:
    """The numbers that codes (uint8) of a dtype stand for: float32, int8 or uint8."""
    unused = 8 - dtypes.bits_of(dtype)
    if dtypes.kind(dtype) != "f":
        kind = dtypes.int8 if dtypes.kind(dtype) == "i" else dtypes.uint8
        x, shift = p.cast(codes, kind), const_like(p.cast(codes, kind), unused)
        back = p.shift_right_arithmetic if kind == dtypes.int8 else (
            p.shift_right_logical
        )  # fmt: skip
        return back(p.shift_left(x, shift), shift)
    layout = _layout(dtype)
    code = p.cast(codes, dtypes.int32)
    size = p.bit_and(code, const_like(code, (layout.sign or 256) - 1))
    bits = p.shift_left(size, const_like(size, 23 - layout.fraction))
    normal = p.bitcast(
        p.add(bits, const_like(bits, (layout.least + 126) << 23)), arg=dtypes.float32
    )
    if not layout.fraction:  # the exponent is that of float32; its 0 means 2^-127
        normal = p.bitcast(bits, arg=dtypes.float32)
    low = p.cast(size, dtypes.float32)
    unit = 2.0 ** (layout.least - layout.fraction)
    small = p.mul(low, const_like(low, unit)) if layout.fraction else (
        const_like(low, 2.0**-127)
    )  # fmt: skip
    first = const_like(size, 1 << layout.fraction)
    value = p.select(p.lt(size, first), small, normal)
    past = p.gt(size, const_like(size, layout.most))
    if layout.infinity >= 0:
        infinite = p.eq(size, const_like(size, layout.infinity))
        value = p.select(infinite, const_like(value, np.inf), value)
        past = p.gt(size, const_like(size, layout.infinity))
    if layout.sign:
        value = p.select(p.ge(code, const_like(code, layout.sign)), p.neg(value), value)
    if not layout.signed_zero:  # its code is that of NaN
        past = p.eq(code, const_like(code, layout.nan))
    return p.select(past, const_like(value, np.nan), value)


def narrow(x: g.Node, dtype: Dtype) -> g.Node:
    """The codes (uint8) of numbers in a dtype: floats round to nearest, ties to even.

    Integers wrap, and floats saturate in them.
    """
    bits = dtypes.bits_of(dtype)
    if dtypes.kind(dtype) != "f":
        if dtypes.is_inexact(x.dtype):
            low, high = dtypes.limits(dtype)
            x = p.minimum(p.maximum(x, const_like(x, low)), const_like(x, high))
        x = p.cast(p.cast(x, dtypes.int32), dtypes.uint8)
        return p.bit_and(x, const_like(x, (1 << bits) - 1))
    layout, x = _layout(dtype), p.cast(x, dtypes.float32)
    info = _finfo(dtype)
    size, raw = p.absolute(x), p.bitcast(x, arg=dtypes.int32)
    limit = float(np.float32(info.max)) * (1 if layout.sign else 1.5)
    inside = p.minimum(size, const_like(size, min(2 * limit, 3e38)))
    held = p.bitcast(inside, arg=dtypes.int32)
    first = const_like(raw, layout.least + 127)
    exponent = p.maximum(p.shift_right_logical(held, const_like(held, 23)), first)
    places = p.sub(exponent, const_like(raw, layout.fraction))
    unit = p.bitcast(p.shift_left(places, const_like(raw, 23)), arg=dtypes.float32)
    steps = p.cast(p.round_even(p.div(inside, unit)), dtypes.int32)
    above = p.shift_left(p.sub(exponent, first), const_like(raw, layout.fraction))
    code = p.add(above, steps)
    past = p.gt(code, const_like(code, layout.most))
    code = p.select(past, const_like(code, layout.beyond), code)
    if layout.sign:
        negative = p.lt(raw, const_like(raw, 0))
        if not layout.signed_zero:
            negative = p.bit_and(negative, p.ne(code, const_like(code, 0)))
        signed = p.bit_or(code, const_like(code, layout.sign))
        code = p.select(negative, signed, code)
        lost = p.ne(x, x)
    else:
        lost = p.bit_not(p.gt(x, const_like(x, 0)))
    return p.cast(p.select(lost, const_like(code, layout.nan), code), dtypes.uint8)


def carry_keys(graph: g.Graph) -> g.Graph:
    """The graph over numbers: what they carry has the dtype of its `carrier`."""
    if not _has_carried(graph):
        return graph
    inputs = tuple(map(_source, graph.inputs))
    outputs = tuple(_convert(inline_calls(graph.outputs)))
    return g.Graph(inputs, outputs, graph.captured)


def _has_carried(graph: g.Graph) -> bool:
    """Inputs of bodies are operands, or elements of them, of what holds these."""
    found = {node.aval.dtype for node in graph.inputs}  # few, for all the nodes
    for outputs in g.graphs_within(graph.outputs):
        found |= {node.aval.dtype for node in g.nodes_of(outputs)}
    return any(map(dtypes.is_carried, found))


def _convert(outputs: Sequence[g.Node]) -> list[g.Node]:
    bodies: dict[g.Body, g.Body] = {}

    def change(node: g.Node, src: tuple[g.Node, ...]) -> g.Node | None:
        if isinstance(node.arg, Callback):
            return node.op(*src, arg=replace(node.arg, carried=True))
        if not node.src:
            return _source(node)
        if node.op is p.bitcast:
            kind = dtypes.carrier(node.dtype)
            return src[0] if src[0].dtype == kind else p.bitcast(*src, arg=kind)
        if node.op is p.cast_p:
            return _cast(node, src[0])
        found = g.bodies_of(node.arg) if node.op.family in g.HOLDERS else ()
        if not found:
            return g.rebuild(node, src)
        for body in found:
            if body not in bodies:
                inputs = tuple(map(_source, body.inputs))
                bodies[body] = g.Body(inputs, tuple(_convert(body.outputs)))
        return g.rebuild_with(node, src, [bodies[body] for body in found])

    return exchange(outputs, change)


def _cast(node: g.Node, x: g.Node) -> g.Node:
    """A cast from or to a dtype of few bits, of the codes of its numbers."""
    source, target = node.src[0].dtype, node.dtype
    if source == target:
        return x
    wide = widen(x, source) if dtypes.is_narrow(source) else x
    if dtypes.is_narrow(target):
        return narrow(wide, target)
    return p.cast(wide, target, node.aval.weak_type)


def _source(node: g.Node) -> g.Node:
    """A node without operands, of numbers that programs move."""
    aval = _carrier_type(node.aval)
    if aval is node.aval:
        return node
    if dtypes.is_narrow(node.dtype) and node.op is const_p:
        code: Any = g.constant_value(node).view(aval.dtype)
        return const(code, aval.dtype, aval.shape)
    if dtypes.is_narrow(node.dtype) and node.op is iota_p:
        wide = g.make_node(node.op, aval.with_dtype(dtypes.float32), (), node.arg)
        return narrow(wide, node.dtype)
    return g.make_node(node.op, aval, (), node.arg)


def _carrier_type(aval: ShapedArray) -> Any:
    if isinstance(aval, Stack):
        return Stack.of_element(_carrier_type(aval.element), aval.lanes)
    if dtypes.is_carried(aval.dtype):
        return aval.with_dtype(dtypes.carrier(aval.dtype))
    return aval
