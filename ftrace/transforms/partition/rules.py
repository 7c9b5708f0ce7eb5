"""Sharding rules: the factors of an operation's axes, a row for each family.

A rule names what each axis of the operands and results is made of, as einsum does:

    add        i j, i j -> i j
    sum        i j -> i 1           j is reduced: a local sum, and a psum
    expand     i 1 -> i j
    reshape    (i j) k -> i (j k)   an axis of several factors, the outermost first
    sort       i *j -> i *j         a factor with a star must be whole
    x[2:]      i j -> i j           slides: a device reads places of its neighbours, too

If a factor is divided, so are all axes that have it, and each device does the operation
on its parts. A matrix product is an expand, a product and a sum, and needs no rule.
(The idea: sharding rules of Shardy, https://openxla.org/shardy/propagation.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from math import gcd
from typing import Any

import numpy as np

from ftrace import dtypes
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.trace.avals import Shape, ShapedArray
from ftrace.trace.evaluate import evaluate
from ftrace.trace.graph import Node, make_node, nodes_of
from ftrace.trace.primitives import (
    elementwise as p,
    movement as mv,
    reduction as red,
    sources,
)
from ftrace.trace.primitives.broadcast import broadcast_leading, expand
from ftrace.trace.primitives.indexing import axes_and_kind, read_back
from ftrace.trace.primitives.library.library_op import batch_along
from ftrace.trace.primitives.library.scan import Running
from ftrace.trace.primitives.primitive import ELEMENTWISE, Compound, items
from ftrace.trace.symbolic import is_dynamic, same_size
from ftrace.transforms.partition.specs import Names, Sizes, Spec, divides, shards
from ftrace.transforms.partition.windows import Slide, Window, even, is_even

#: The factors of an axis, the outermost first.
Axis = tuple[int, ...]
Axes = tuple[Axis, ...]
#: For each factor the axes of the mesh that divide it.
Division = Mapping[int, Names]


class Want(NamedTuple):
    """How a value is wanted: its spec, and for axes in no even parts their windows."""

    spec: Spec
    windows: tuple[tuple[int, Window], ...] = ()


class Way(NamedTuple):
    """How the factors of an operation are divided, and which have windows."""

    division: Division
    windows: Mapping[int, Window] = {}


@dataclass(frozen=True)
class Part:
    """What the local operation is told of the device that it is for.

    Attributes:
      shapes: of the results there.
      begin: of a factor, where the part of the device begins: an int32 scalar, or None
        where it is not divided.
      window: of a factor that slides, that of the result and that of the operand; None
        where it is not divided.
      first: is this device the first along the axes that divide these factors?
      before: of a factor and what each device has, the values of those before it
        (behind it: reverse), others as zeros, along a new leading axis.
    """

    shapes: Sequence[Shape]
    begin: Callable[[int], Node | None]
    window: Callable[[int], tuple[Window, Window] | None]
    first: Callable[[Sequence[int]], Node | None]
    before: Callable[[int, Node, Node, bool], Node]


#: (node, its local operands, the device) -> the node for the parts
Local = Callable[[Node, Sequence[Node], Part], Node]


def _as_it_is(node: Node, src: Sequence[Node], part: Part) -> Node:
    return node.op(*src, arg=node.arg)


def _of_shape(node: Node, src: Sequence[Node], part: Part) -> Node:
    return node.op(*src, arg=part.shapes[0])


@dataclass(frozen=True)
class Rule:
    """How the axes of an operation hang together.

    Attributes:
      operands, results: of each the factors of its axes.
      sizes: of the factors.
      whole: factors that may not be divided.
      reduced: factors over which the parts are combined, and by which collective.
      local: the operation on parts.
      view: it costs nothing, and is done again for each way in which it is needed.
      again: axes that are whole, after which a result may be divided as the first
        operand was.
      optional: factors that are left whole where that moves less.
      nested: an axis has several factors.
      loose: factors of which the parts may be windows.
      slides: of these, those of which the operand has other places than the result.
      reads: of these, the sizes in the operand.
      fill: what stands for places beyond an axis; None where they are not read.
      totals: factors along which devices tell each other one element each.
    """

    operands: tuple[Axes, ...]
    results: tuple[Axes, ...]
    sizes: tuple[int, ...]
    whole: frozenset[int] = frozenset()
    reduced: Mapping[int, Compound] = field(default_factory=dict[int, Compound])
    local: Local = _as_it_is
    view: bool = False
    again: frozenset[int] = frozenset()
    optional: frozenset[int] = frozenset()
    nested: bool = False
    loose: frozenset[int] = frozenset()
    slides: Mapping[int, Slide] = field(default_factory=dict[int, Slide])
    reads: Shape = ()
    fill: Callable[[Node], Node] | None = None
    totals: frozenset[int] = frozenset()

    def __str__(self) -> str:
        def axis(factors: Axis) -> str:
            names = [("*" if f in self.whole else "") + _letter(f) for f in factors]
            text = " ".join(names) or "1"
            return f"({text})" if len(names) > 1 else text

        def side(values: Sequence[Axes]) -> str:
            return ", ".join([" ".join(map(axis, axes)) or "·" for axes in values])

        combined = [f"{op} over {_letter(f)}" for f, op in self.reduced.items()]
        end = f"; {', '.join(combined)}" if combined else ""
        return f"{side(self.operands)} -> {side(self.results)}{end}".lstrip()


def _letter(factor: int) -> str:
    alphabet = "ijklmnopqrstuvwxyzabcdefgh"
    return alphabet[factor % 26] + (str(factor // 26) if factor > 25 else "")


# From specs to factors, and back.


def _fits(rule: Rule, factor: int, names: Names, sizes: Sizes) -> bool:
    n = rule.sizes[factor]
    return divides(names, n, sizes) or (
        factor in rule.loose and not is_dynamic(n) and 2 * n > shards(names, sizes)
    )


def divide(rule: Rule, axes: Axes, spec: Spec, sizes: Sizes) -> dict[int, Names]:
    """How a spec of a value with these axes divides the factors; what fits."""
    found: dict[int, Names] = {}
    for factors, names in zip(axes, spec, strict=True):
        rest = list(names)
        for factor in factors if rest else ():
            if factor in rule.whole:
                break
            taken: list[Any] = []
            while rest and _fits(rule, factor, (*taken, rest[0]), sizes):
                taken.append(rest.pop(0))
            if taken:
                found[factor] = tuple(taken)
            if shards(taken, sizes) != rule.sizes[factor]:
                break
    return found


def spec_for(rule: Rule, axes: Axes, division: Division, sizes: Sizes) -> Spec:
    """The spec of a value with these axes, of which the factors are divided so."""
    spec: list[Names] = []
    for factors in axes:
        names: Names = ()
        for factor in factors:
            own = division.get(factor, ())
            names += own
            if shards(own, sizes) != rule.sizes[factor]:
                break
        spec.append(names)
    return tuple(spec)


def feasible(rule: Rule, division: Division, sizes: Sizes) -> dict[int, Names]:
    """Without those that an operand or result cannot have: inner factors of an axis."""
    kept = {
        f: names
        for f, names in division.items()
        if f not in rule.slides or slid(rule, f, names, sizes) is not None
    }
    if not rule.nested:
        return kept
    values = [*rule.operands, *rule.results]
    while True:
        wrong: set[int] = set()
        for axes in values:
            own = divide(rule, axes, spec_for(rule, axes, kept, sizes), sizes)
            there = {f for factors in axes for f in factors}
            wrong |= {f for f in there & kept.keys() if own.get(f) != kept[f]}
        if not wrong:
            return kept
        kept = {f: names for f, names in kept.items() if f not in wrong}


def slid(
    rule: Rule, factor: int, names: Names, sizes: Sizes, window: Window | None = None
) -> tuple[Window, Window] | None:
    """The windows of result and operand along a factor that slides."""
    n, read, slide = rule.sizes[factor], rule.reads[factor], rule.slides[factor]
    if window is None and names:
        window = even(n, shards(names, sizes), slide.grain)
    window = window or Window(0, 0, n, 0, n)
    operand = slide.into(window, read)
    if operand is not None and not names:  # of what all have nothing is beyond it
        low, high = max(operand.start, 0), min(operand.start + operand.size, read)
        operand = operand._replace(start=low, size=high - low) if low < high else None
    return operand and (window, operand)


def windows_of(
    rule: Rule, factor: int, way: Way, sizes: Sizes
) -> tuple[Window, Window] | None:
    """`slid`; None where neither of the two is divided or a part of the axis."""
    if factor not in rule.loose:
        return None
    names, window = way.division.get(factor, ()), way.windows.get(factor)
    found = slid(rule, factor, names, sizes, window)
    plain = not names and window is None
    if plain and found and is_even(found[1], rule.reads[factor], 1):
        return None
    return found


def want_of(
    rule: Rule, axes: Axes, shape: Shape, way: Way, sizes: Sizes, into: bool = True
) -> Want:
    """How an operand (a result: not `into`) is wanted, where the factors are so."""
    spec = spec_for(rule, axes, way.division, sizes)
    windows: list[tuple[int, Window]] = []
    for axis, names in enumerate(spec):
        factor = axes[axis][0] if axes[axis] else -1
        if factor in rule.loose:
            count, window = shards(names, sizes), way.windows.get(factor)
            if into and factor in rule.slides:
                found = windows_of(rule, factor, way, sizes)
                window = found and found[1]
            window = window or even(shape[axis], count)
            if not is_even(window, shape[axis], count):
                windows.append((axis, window))
    return Want(spec, tuple(windows))


def wants_of(node: Node, rule: Rule, way: Way, sizes: Sizes) -> list[tuple[Node, Want]]:
    """The operands of a node, and how each is wanted."""
    rows = zip(node.src, rule.operands, strict=True)
    return [(x, want_of(rule, axes, x.shape, way, sizes)) for x, axes in rows]


def way_for(rule: Rule, want: Want, sizes: Sizes) -> Way | None:
    """How the factors are divided for a result that is wanted so; None: they cannot."""
    (axes,), windows = rule.results, dict(want.windows)
    spec = tuple([() if d in windows else names for d, names in enumerate(want.spec)])
    division = feasible(rule, divide(rule, axes, spec, sizes), sizes)
    if spec_for(rule, axes, division, sizes) != spec:
        return None
    found: dict[int, Window] = {}
    for axis, window in windows.items():
        factor = axes[axis][0] if len(axes[axis]) == 1 else -1
        names = want.spec[axis]
        if factor not in rule.loose or (
            factor in rule.slides and not slid(rule, factor, names, sizes, window)
        ):
            return None
        division[factor], found[factor] = names, window
    return Way(division, found)


# The families.


def results_of(node: Node) -> tuple[ShapedArray, ...]:
    """The types of what a node gives."""
    return node.aval.items if isinstance(node.op, Compound) else (node.aval,)


def _number(shape: Shape, first: int = 0) -> Axes:
    """A factor for each axis."""
    return tuple([(first + d,) for d in range(len(shape))])


def _share(node: Node, passes: Callable[[int], bool]) -> Rule:
    """Axes that pass are the same in all operands and results, the others whole."""
    avals = [*[source.aval for source in node.src], *results_of(node)]
    longest = max(avals, key=lambda aval: len(aval.shape), default=node.aval).shape
    sizes, values = list(longest), list[Axes]()
    for aval in avals:
        axes: list[Axis] = []
        for d, n in enumerate(aval.shape):
            if not passes(d):
                sizes.append(n)
            axes.append((d,) if passes(d) else (len(sizes) - 1,))
        values.append(tuple(axes))
    starred = frozenset(range(len(longest), len(sizes)))
    count = len(node.src)
    operands, results = tuple(values[:count]), tuple(values[count:])
    again = frozenset([d for d in range(len(longest)) if not passes(d)])
    return Rule(operands, results, tuple(sizes), starred, again=again)


def whole(node: Node) -> Rule:
    """What holds of an operation without a rule: nothing is divided."""
    return _share(node, lambda d: False)


def _alike(node: Node, local: Local = _as_it_is, **more: Any) -> Rule:
    """Each axis of the result is that of all operands."""
    axes = _number(node.shape)
    return Rule((axes,) * len(node.src), (axes,), node.shape, local=local, **more)


def _every(node: Node) -> frozenset[int]:
    """The factor of each axis."""
    return frozenset(range(node.ndim))


def _elementwise(node: Node) -> Rule:
    return _alike(node, view=node.op.family == "identity", loose=_every(node))


def _constraint(node: Node) -> Rule:
    return _alike(node, local=lambda node, src, part: src[0])


def _barrier(node: Node) -> Rule:
    sizes, values = list[int](), list[Axes]()
    for source in node.src:
        values.append(_number(source.shape, len(sizes)))
        sizes += source.shape
    return Rule(tuple(values), tuple(values), tuple(sizes))


def _source(node: Node) -> Rule:
    return _alike(node, local=_local_source, view=True, loose=_every(node))


def _local_source(node: Node, src: Sequence[Node], part: Part) -> Node:
    (shape,) = part.shapes
    if node.op is not sources.iota_p:
        return make_node(node.op, node.aval.with_shape(shape), (), node.arg)
    return _move(sources.iota(node.dtype, shape, node.arg), part.begin(node.arg), p.add)


def _move(x: Node, begin: Node | None, move: Callable[[Node, Node], Node]) -> Node:
    """`x + begin`, or minus it, in the dtype of `x`."""
    if begin is None:
        return x
    return move(x, broadcast_leading(p.cast(begin, x.dtype), x.shape))


def _expand(node: Node) -> Rule:
    sizes = zip(node.src[0].shape, node.shape, strict=True)
    operand = [(d,) if same_size(n, m) else () for d, (n, m) in enumerate(sizes)]
    return Rule(
        (tuple(operand),), (_number(node.shape),), node.shape, local=_of_shape,
        view=True, loose=_every(node),
    )  # fmt: skip


#: By which collective the parts of a reduction, or of a scatter, are combined.
_COMBINED = {
    "reduce_sum": red.psum_p, "reduce_max": red.pmax_p, "reduce_min": red.pmin_p,
    "add": red.psum_p, "max": red.pmax_p, "min": red.pmin_p,
}  # fmt: skip


def _reduction(node: Node) -> Rule:
    (x,) = node.src
    axes: tuple[int, ...] = node.arg
    result = tuple([() if d in axes else (d,) for d in range(x.ndim)])
    combine = _COMBINED.get(node.op.name)
    return Rule(
        (_number(x.shape),), (result,), x.shape,
        frozenset() if combine else frozenset(axes),
        dict.fromkeys(axes, combine) if combine else {},
        loose=_every(x),
        fill=lambda x: red.identity_like(node.op, x),
    )  # fmt: skip


def _permute(node: Node) -> Rule:
    (x,) = node.src
    order: tuple[int, ...] = node.arg
    result = tuple([(d,) for d in order])
    return Rule((_number(x.shape),), (result,), x.shape, view=True, loose=_every(x))


class _Reshape:
    """The factors of a reshape, found from the outermost on."""

    def __init__(self, x: Shape, y: Shape) -> None:
        self.sides = [list(x), list(y)]
        self.axes: list[list[list[int]]] = [[[] for _ in x], [[] for _ in y]]
        self.sizes: list[int] = []
        self.whole: set[int] = set()
        ends = [len(x), len(y)]
        while min(ends) and same_size(x[ends[0] - 1], y[ends[1] - 1]):
            ends = [ends[0] - 1, ends[1] - 1]
            self._add(x[ends[0]], ((0, ends[0]), (1, ends[1])))
        self._outer(ends)

    def _add(self, size: int, places: Sequence[tuple[int, int]]) -> None:
        if same_size(size, 1):
            return
        for side, axis in places:
            self.axes[side][axis].append(len(self.sizes))
        if len(places) == 1 or same_size(size, 0):
            self.whole.add(len(self.sizes))
        self.sizes.append(size)

    def _outer(self, ends: Sequence[int]) -> None:
        """Those of the axes before the ends."""
        at = [0, 0]
        while at[0] < ends[0] and at[1] < ends[1]:
            pair = [self.sides[side][at[side]] for side in (0, 1)]
            common = _common(*pair)
            if common == 1 and 1 not in pair:
                break  # 6 4 -> 4 6 has the factor 2, and no other
            self._add(common, ((0, at[0]), (1, at[1])))
            for side in (0, 1):
                left = 1 if same_size(pair[side], common) else pair[side] // common
                self.sides[side][at[side]] = left
                at[side] += same_size(left, 1)
        for side in (0, 1):
            for axis in range(at[side], ends[side]):
                self._add(self.sides[side][axis], ((side, axis),))


def _common(a: int, b: int) -> int:
    if same_size(a, b):
        return a
    return 1 if is_dynamic(a) or is_dynamic(b) or not a * b else gcd(a, b)


def _reshape(node: Node) -> Rule:
    found = _Reshape(node.src[0].shape, node.shape)
    operand, result = [tuple(map(tuple, side)) for side in found.axes]
    nested = {f for axis in (*operand, *result) if len(axis) > 1 for f in axis}
    return Rule(
        (operand,), (result,), tuple(found.sizes), frozenset(found.whole),
        local=_of_shape,
        view=True,
        nested=bool(nested),
        loose=frozenset(range(len(found.sizes))) - nested - found.whole,
    )  # fmt: skip


# What slides: a device reads edges of its neighbours' parts.


def _sliding(node: Node, slides: Mapping[int, Slide], local: Local) -> Rule:
    (x,) = node.src
    able = {
        d: slide
        for d, slide in slides.items()
        if not (is_dynamic(x.shape[d]) or is_dynamic(node.shape[d]))
    }
    starred = frozenset([d for d in slides if d not in able or not node.shape[d]])
    return _alike(
        node, whole=starred, local=local, view=True,
        loose=_every(node) - starred, slides=able, reads=x.shape,
        fill=None if node.op.name in ("shrink", "stride") else sources.zeros_like,
    )  # fmt: skip


def _pad(node: Node) -> Rule:
    rows = enumerate(node.arg)
    slides = {
        d: Slide(gap + 1, low, spread=True) for d, (low, high, gap) in rows
        if low or high or gap
    }  # fmt: skip

    def local(node: Node, src: Sequence[Node], part: Part) -> Node:
        pads = list(node.arg)
        for d, slide in slides.items():
            windows = part.window(d)
            if windows is not None:
                low, gap = slide.lead(*windows), slide.step - 1
                used = low + (windows[1].size - 1) * slide.step + 1
                pads[d] = low, windows[0].size - used, gap
        return mv.pad(src[0], tuple(pads))

    return _sliding(node, slides, local)


def _shrink(node: Node) -> Rule:
    rows = enumerate(zip(node.arg, node.src[0].shape, strict=True))
    slides = {d: Slide(1, b[0]) for d, (b, n) in rows if not same_size(b, (0, n))}

    def local(node: Node, src: Sequence[Node], part: Part) -> Node:
        rows = enumerate(zip(node.arg, src[0].shape, strict=True))
        cuts = [
            b if d in slides and part.window(d) is None else (0, n)
            for d, (b, n) in rows
        ]
        return mv.shrink(src[0], tuple(cuts))

    return _sliding(node, slides, local)


def _stride(node: Node) -> Rule:
    rows = enumerate(zip(node.arg, node.src[0].shape, strict=True))
    slides = {d: Slide(s, 0 if s > 0 else n - 1) for d, (s, n) in rows if s != 1}
    return _sliding(node, slides, _as_it_is)


def _shear(node: Node) -> Rule:
    arg: mv.Shear = node.arg
    axis, window, stride, dilation, _ = arg
    reach, back = (node.shape[window] - 1) * dilation, node.op is mv.unshear_p
    slide = Slide(stride, 0, reach, back)
    rule = _sliding(node, {axis: slide}, partial(_local_shear, slide))
    one = frozenset([window])
    return replace(rule, whole=rule.whole | one, loose=rule.loose - one)


def _local_shear(slide: Slide, node: Node, src: Sequence[Node], part: Part) -> Node:
    (x,) = src
    arg: mv.Shear = node.arg
    windows, size = part.window(arg.axis), part.shapes[0][arg.axis]
    lead = slide.lead(*windows) if windows is not None and slide.spread else 0
    x = node.op(x, arg=arg._replace(size=size - lead))
    pads = [(max(lead, 0) * (d == arg.axis), 0, 0) for d in range(x.ndim)]
    return mv.pad(mv.shrink_axis(x, arg.axis, max(-lead, 0), size - lead), tuple(pads))


# Indexing. An index that counts the places along an axis of indices, as `arange` does
# in `x[arange(n), labels]`, makes the indexed axis and that one the same.


def _lanes(x: Node, indices: Sequence[Node], axes: Sequence[int]) -> dict[int, int]:
    """The axes of `x` of which the index is the place along an axis of the indices."""
    found: dict[int, int] = {}
    for index, axis in zip(indices, axes, strict=True):
        values: Any = _known_value(index)
        for d, n in enumerate(index.shape) if values is not None else ():
            if d in found.values() or not same_size(n, x.shape[axis]):
                continue
            places: Any = np.arange(n)
            places = places.reshape([-1, *[1] * (index.ndim - d - 1)])
            if (values == places).all():
                found[axis] = d
                break
    return found


#: Indices of more elements are not looked at.
_LOOKED_AT = 1 << 20


def _known_value(node: Node) -> Any:
    """The value of an index that depends on nothing; None where it does."""
    if is_dynamic(node.size) or node.size > _LOOKED_AT:
        return None
    families = (*ELEMENTWISE, "movement")
    plain = (sources.const_p, sources.iota_p)
    if all(n.op in plain or n.op.family in families for n in nodes_of([node])):
        return evaluate([node], {})[0]
    return None


def _factors_of_index(
    node: Node, axes: Sequence[int], indices: Sequence[Node]
) -> tuple[Axes, Axes, tuple[int, ...], dict[int, int]]:
    """What gather and scatter share.

    Returns:
      The axes of x and of what is at the indices, the sizes of the factors, the lanes.
    """
    x, batch = node.src[0], indices[0].shape
    lanes = _lanes(x, indices, axes)
    first = len(batch)
    of_x = [(lanes[d],) if d in lanes else (first + d,) for d in range(x.ndim)]
    rest = [of_x[d] for d in range(x.ndim) if d not in axes]
    return tuple(of_x), (*_number(batch), *rest), (*batch, *x.shape), lanes


def _local_indices(
    axes: Sequence[int], of_x: Axes, indices: Sequence[Node], part: Part
) -> list[Node]:
    """The indices, which count from where the part of the device begins."""
    found: list[Node] = []
    for axis, index in zip(axes, indices, strict=True):
        begin = part.begin(of_x[axis][0])
        if begin is not None:
            if dtypes.kind(index.dtype) != "i" or index.dtype.itemsize < 4:
                wide = dtypes.int64 if index.dtype.itemsize > 4 else dtypes.int32
                index = p.cast(index, wide)
            index = _move(index, begin, p.sub)
        found.append(index)
    return found


def _gather(node: Node) -> Rule:
    axes: tuple[int, ...] = node.arg
    indices = node.src[1:]
    of_x, result, sizes, lanes = _factors_of_index(node, axes, indices)
    looked_up = [of_x[d][0] for d in axes if d not in lanes]
    sums = dtypes.kind(node.dtype) in "iufc"

    def local(node: Node, src: Sequence[Node], part: Part) -> Node:
        x, *indices = src
        found = _local_indices(axes, of_x, indices, part)
        if all(part.begin(factor) is None for factor in looked_up):
            return node.op(x, *found, arg=axes)
        return read_back(x, found, axes)  # zeros, where another device has it

    return Rule(
        (of_x, *[_number(indices[0].shape)] * len(indices)), (result,), sizes,
        frozenset() if sums else frozenset(looked_up),
        dict.fromkeys(looked_up, red.psum_p) if sums else {}, local,
        optional=frozenset(looked_up),
    )  # fmt: skip


def _scatter(node: Node) -> Rule:
    axes, kind = axes_and_kind(node)
    indices = node.src[2:]
    of_x, updates, sizes, lanes = _factors_of_index(node, axes, indices)
    combine = _COMBINED.get(kind)
    others = [d for d in range(indices[0].ndim) if d not in lanes.values()]

    def local(node: Node, src: Sequence[Node], part: Part) -> Node:
        x, u, *indices = src
        first = part.first(others) if kind == "add" else None
        if first is not None:  # what was there counts once
            x = p.select(broadcast_leading(first, x.shape), x, sources.zeros_like(x))
        found = _local_indices(axes, of_x, indices, part)
        return node.op(x, u, *found, arg=node.arg)  # drops what others have

    return Rule(
        (of_x, updates, *[_number(indices[0].shape)] * len(indices)), (of_x,), sizes,
        frozenset() if combine else frozenset(others),
        dict.fromkeys(others, combine) if combine else {}, local,
    )  # fmt: skip


# What the host does: along an axis, or of the last axes.


def _along(node: Node) -> Rule:
    axis: int = node.arg if isinstance(node.arg, int) else node.arg.axis
    return _share(node, lambda d: d != axis)


def _running(node: Node) -> Rule:
    arg: Running = node.arg
    kind, axis, reverse = arg
    total = red.BY_NAME.get(kind)
    if total is None:
        return _along(node)

    def local(node: Node, src: Sequence[Node], part: Part) -> Node:
        (y,) = items(node.op(*src, arg=node.arg))
        if part.begin(axis) is None:
            return y
        end = 0 if reverse else y.shape[axis] - 1
        last = mv.shrink_axis(y, axis, end, end + 1)
        rows = part.before(axis, last, red.identity_like(total, last), reverse)
        before = mv.reshape(total(rows, arg=(0,)), last.shape)
        return red.COMBINES[total](expand(before, y.shape), y)

    axes = _number(node.src[0].shape)
    totals = frozenset([axis])
    return Rule((axes,), (axes,), node.src[0].shape, local=local, totals=totals)


def _leading(node: Node, op: Compound) -> Rule:
    core = op.core or len(node.arg.lengths)
    count = node.src[0].ndim - core
    return _share(node, lambda d: d < count)


def _host(node: Node) -> Rule:
    op = node.op
    assert isinstance(op, Compound)
    if op.calls_back:
        return whole(node)
    return _along(node) if op.batch is batch_along else _leading(node, op)


@dataclass(frozen=True)
class Row:
    """A row of the table of rules.

    Attributes:
      what: families and names of operations that it is for.
      rule: the factors of one of them.
      example: such an operation, in words of einsum.
      means: what is done where a factor is divided.
    """

    what: tuple[str, ...]
    rule: Callable[[Node], Rule]
    example: str
    means: str


RULES = (
    Row((*ELEMENTWISE, "identity"), _elementwise, "i j, i j -> i j", "as it is"),
    Row(("sharding_constraint",), _constraint, "i j -> i j", "moved as it says"),
    Row(("barrier",), _barrier, "i j, k -> i j, k", "as it is"),
    Row(("source",), _source, "-> i j", "each device makes its part"),
    Row(("expand",), _expand, "i 1 -> i j", "as it is"),
    Row(("permute",), _permute, "i j -> j i", "as it is"),
    Row(
        ("reshape",), _reshape, "(i j) k -> i (j k)",
        "as it is; of an axis of several factors the outermost is divided first",
    ),
    Row(
        ("pad",), _pad, "i j -> i j",
        "as it is, with edges of other parts that it needs (ppermute); what does not "
        "divide evenly is computed as its readers need it",
    ),
    Row(
        ("shrink",), _shrink, "i j -> i j",
        "likewise. Few places that all need, as of `x[5]`, go from those who have them "
        "to all by a psum",
    ),
    Row(("stride",), _stride, "i j -> i j", "likewise; flipped, parts change places"),
    Row(
        ("shear", "unshear"), _shear, "i j *k -> i j *k",
        "likewise: windows slide along j, in convolutions and pooling",
    ),
    Row(
        ("reduction",), _reduction, "i j -> i 1",
        "locally; over j then psum, pmax or pmin. Of `prod` j is whole",
    ),
    Row(
        ("gather",),
        _gather,
        "i j, k -> k j",
        "as it is. Over i, which is indexed, zeros where another device has it, then "
        "psum, or i is whole, whichever moves less; i of `arange` in `x[arange(n), k]` "
        "is as k",
    ),
    Row(
        ("scatter",),
        _scatter,
        "i j, k j, k -> i j",
        "as it is: each device takes what is its own. Over k psum, pmax or pmin of "
        "add, max and min; else k is whole",
    ),
    Row(
        ("cumulate",), _running, "i j -> i j",
        "locally, and over j then with the totals of the parts before (all_gather)",
    ),
    Row(
        ("host",), _host, "i *j -> i *j",
        "as it is: sorts along an axis that is whole, FFT and linear algebra of last "
        "axes that are. Callbacks are of whole arrays",
    ),
    Row(
        ("control",), whole, "",
        "bodies of loops and branches are programs by themselves, of which the carry "
        "keeps its sharding; the axis that a scan runs over is whole",
    ),
    Row(
        ("exchange", "shard", "whole"), whole, "*i *j -> *i *j",
        "of what processes have: `shard_map` has divided it already",
    ),
    Row((), whole, "*i *j -> *i *j", "of whole arrays"),
)  # fmt: skip

_BY_WHAT = {what: row for row in RULES for what in row.what}


def rule_of(node: Node) -> Rule:
    """The rule of an operation; of one that has none that it must be whole."""
    row = _BY_WHAT.get(node.op.name) or _BY_WHAT.get(node.op.family, RULES[-1])
    return row.rule(node)
