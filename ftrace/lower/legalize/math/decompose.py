"""Rewriting of the functions that a device lacks, until only known ones are left."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from ftrace.lower.legalize.math import (
    argument_reduction,
    basic,
    error,
    exponential,
    gamma,
    inverse,
    logarithm,
    power,
    trigonometry,
)
from ftrace.lower.legalize.math.table_functions import (
    TABLES,
    TABLES_OF_32,
    erf_in_pieces,
    erfc_in_pieces,
    tanh_in_pieces,
)
from ftrace.lower.legalize.math.term import Term
from ftrace.trace.graph import Node, inherited_origin, rebuild, toposort

Decomposition = Callable[[Node], Node]


def _formula(function: Callable[..., Term]) -> Decomposition:
    """A function of terms as a function of the node that it replaces."""

    def expand(node: Node) -> Node:
        return function(*map(Term, node.src)).node

    expand.__name__ = function.__name__
    expand.__doc__ = function.__doc__
    return expand


#: Each function, of terms.
FORMULAS: Final = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "logistic": exponential.logistic,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log1p": logarithm.log1p,
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "tan": trigonometry.tan,
    "asin": inverse.asin,
    "acos": inverse.acos,
    "atan": inverse.atan,
    "atan2": inverse.atan2,
    "cbrt": power.cbrt,
    "pow": power.power,
    "erf": error.erf,
    "erfc": error.erfc,
    "erf_inv": error.erf_inv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "far_quadrant": argument_reduction.far_quadrant,
    "far_remainder": argument_reduction.far_remainder,
    "far_rest": argument_reduction.far_rest,
    "ldexp": exponential.scale_by_power,
    "mantissa": logarithm.mantissa_by_bits,
    "exponent": logarithm.exponent_by_bits,
    "rsqrt": basic.rsqrt,
    "sign": basic.sign,
    "nextafter": basic.nextafter,
    "is_finite": basic.is_finite,
    "mul_zero": basic.mul_zero,
    "popcount": basic.popcount,
}

#: Those that a device takes instead which can look numbers up in the tables.
BY_TABLES: Final = {
    "pow": (power.power_by_tables, TABLES.keys()),
    "tanh": (tanh_in_pieces, TABLES_OF_32.keys()),
    "erf": (erf_in_pieces, TABLES_OF_32.keys()),
    "erfc": (erfc_in_pieces, TABLES_OF_32.keys()),
}

#: For each operation that a device may lack, what computes it from simpler ones; users
#: add more (`extend.py`), for one process.
DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "fma": basic.fused_multiply_add,
} | {name: _formula(function) for name, function in FORMULAS.items()}


def formula(name: str, has: Collection[str]) -> Callable[..., Term]:
    """The function of terms that computes `name` for a device that has these."""
    function, tables = BY_TABLES.get(name, (FORMULAS[name], ()))
    return function if _has_all(has, tables) else FORMULAS[name]


def _has_all(has: Collection[str], tables: Iterable[str]) -> bool:
    return all(name in has for name in tables)


_TABULATED: Final = {
    name: (_formula(function), tables) for name, (function, tables) in BY_TABLES.items()
}


def _decompositions(has: Collection[str]) -> dict[str, Decomposition]:
    """By name, for a device that has these."""
    found = {n: f for n, (f, tables) in _TABULATED.items() if _has_all(has, tables)}
    return DECOMPOSITIONS | found


def decompose(roots: Sequence[Node], has: Collection[str]) -> list[Node]:
    """The roots with every operation decomposed that is not in `has`.

    Operations in neither `has` nor `DECOMPOSITIONS` stay. Linear in the number of
    nodes that result.
    """
    known = _decompositions(has)
    if not any(n.op.name in known and n.op.name not in has for n in toposort(roots)):
        return list(roots)
    finished: dict[Node, Node] = {}
    expansion: dict[Node, Node] = {}
    pending = list(roots)
    with inherited_origin() as take:
        while pending:
            node = pending[-1]
            if node in finished:
                pending.pop()
                continue
            expanded = expansion.get(node)
            if expanded is not None:
                if expanded in finished:
                    finished[node] = finished[expanded]
                    pending.pop()
                else:
                    pending.append(expanded)
                continue
            missing = [s for s in node.src if s not in finished]
            if missing:
                pending.extend(missing)
                continue
            take(node)
            new = rebuild(node, tuple(finished[s] for s in node.src))
            name = new.op.name
            if name in has or name not in known:
                finished[node] = finished[new] = new
                pending.pop()
                continue
            for source in new.src:
                finished[source] = source
            expansion[node] = known[name](new)
    return [finished[root] for root in roots]
