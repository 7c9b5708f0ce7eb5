"""What can be said of index expressions: which are affine, and how large they get."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ftrace.lower.kernel import INDEX, axis_of, range_p
from ftrace.records import dataclass
from ftrace.trace.dims import bounds
from ftrace.trace.graph import Node, constant_value, toposort
from ftrace.trace.primitives.source import dim_p
from ftrace.trace.sizes import upper_bound

Bounds = tuple[int, int]


@dataclass(frozen=True)
class Affine:
    """offset + the sum of coefficient · range."""

    offset: int
    terms: dict[Node, int]

    def plus(self, other: Affine, factor: int) -> Affine:
        """The form of self + factor · other."""
        terms = dict(self.terms)
        for axis, coefficient in other.terms.items():
            terms[axis] = terms.get(axis, 0) + factor * coefficient
        return Affine(self.offset + factor * other.offset, terms)

    def bounds(self) -> Bounds:
        """The least and the greatest value over the whole ranges."""
        ends = [
            c * (upper_bound(axis_of(axis).size) - 1) for axis, c in self.terms.items()
        ]
        low = self.offset + sum(min(end, 0) for end in ends)
        return low, self.offset + sum(max(end, 0) for end in ends)


def affine_forms(roots: Iterable[Node]) -> dict[Node, Affine]:
    """Those expressions below the roots that are affine in the ranges."""
    forms: dict[Node, Affine] = {}
    for node in toposort(roots):
        sources = [forms[s] for s in node.src if s in forms]
        if node.op is range_p:
            forms[node] = Affine(0, {node: 1})
        elif node.dtype != INDEX or len(sources) != len(node.src):
            continue
        elif node.op.name == "const":
            forms[node] = Affine(int(constant_value(node)), {})
        elif node.op.name in ("add", "sub"):
            x, y = sources
            forms[node] = x.plus(y, 1 if node.op.name == "add" else -1)
        elif node.op.name == "mul":
            constant, other = sorted(sources, key=lambda form: len(form.terms))
            if not constant.terms:
                forms[node] = Affine(0, {}).plus(other, constant.offset)
    return forms


def index_bounds(roots: Iterable[Node]) -> dict[Node, Bounds]:
    """The least and greatest value of each expression made of ranges and constants."""
    known: dict[Node, Bounds] = {}
    for node in toposort(roots):
        if node.dtype != INDEX:
            continue
        if node.op is range_p:
            known[node] = 0, max(upper_bound(axis_of(node).size) - 1, 0)
        elif node.op.name == "const":
            value = int(constant_value(node))
            known[node] = value, value
        elif node.op is dim_p:
            known[node] = bounds(node.arg)
        else:
            sources = [known.get(s) for s in node.src if s.dtype == INDEX]
            rule = _BOUNDS.get(node.op.name)
            if rule is None or None in sources:
                continue
            found = rule(*sources)
            if found is not None:
                known[node] = found
    return known


def _bounds_add(x: Bounds, y: Bounds) -> Bounds:
    return x[0] + y[0], x[1] + y[1]


def _bounds_neg(x: Bounds) -> Bounds:
    return -x[1], -x[0]


def _bounds_sub(x: Bounds, y: Bounds) -> Bounds:
    return x[0] - y[1], x[1] - y[0]


def _bounds_max(x: Bounds, y: Bounds) -> Bounds:
    return max(x[0], y[0]), max(x[1], y[1])


def _bounds_min(x: Bounds, y: Bounds) -> Bounds:
    return min(x[0], y[0]), min(x[1], y[1])


def _bounds_either(x: Bounds, y: Bounds) -> Bounds:
    return min(x[0], y[0]), max(x[1], y[1])


def _bounds_mul(x: Bounds, y: Bounds) -> Bounds:
    corners = [a * b for a in x for b in y]
    return min(corners), max(corners)


def _bounds_div(x: Bounds, y: Bounds) -> Bounds | None:
    if y[0] <= 0:
        return None
    if x[0] >= 0:
        return x[0] // y[1], x[1] // y[0]
    reach = max(abs(x[0]), abs(x[1]))
    return -reach, reach


def _bounds_rem(x: Bounds, y: Bounds) -> Bounds | None:
    if y[0] <= 0:
        return None
    reach = min(max(abs(x[0]), abs(x[1])), y[1] - 1)
    return (0 if x[0] >= 0 else -reach), reach


_BOUNDS: dict[str, Callable[..., Bounds | None]] = {
    "add": _bounds_add,
    "sub": _bounds_sub,
    "neg": _bounds_neg,
    "mul": _bounds_mul,
    "div": _bounds_div,
    "rem": _bounds_rem,
    "max": _bounds_max,
    "min": _bounds_min,
    "select": _bounds_either,
}
