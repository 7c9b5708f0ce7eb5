"""Jaxprs: functions as lists of equations, in JAX's classes and JAX's grammar.

    { lambda constvars ; invars . let outvars = primitive[params] operands … in (…) }

They can be built by hand; those that are made of a function are views of its graph
(`view.py`), whose equations are written when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace as _replace
from functools import partial
from operator import attrgetter
from typing import Any

from ftrace import dtypes
from ftrace.compat.primitive import Primitive
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace.avals import ShapedArray
from ftrace.trace.flatten_arguments import type_of
from ftrace.trace.graph import Graph, variable_names
from ftrace.transforms.jit.compiled_graph import apply_graph

#: What is longer than a line of so many columns is broken.
_WIDTH = 100
NO_EFFECTS: frozenset[Any] = frozenset()
NO_RULES: Mapping[Any, Any] = {}


class Var:
    """A variable of a jaxpr, which equals itself alone.

    Attributes:
      aval: its type.
    """

    __slots__ = ("__weakref__", "aval")

    def __init__(self, aval: ShapedArray, *_: Any, **__: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var(id={id(self)}):{self.aval.str_short()}"


class DropVar(Var):
    """A result that nobody uses."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "_"


class Literal:
    """A scalar that stands in the place of a variable.

    Attributes:
      val: its value.
      aval: its type.
    """

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapedArray | None = None) -> None:
        self.val = val
        self.aval = type_of(val) if aval is None else aval

    def __repr__(self) -> str:
        plain = hasattr(self.val, "item")
        value: Any = self.val.item() if plain else self.val
        return f"Literal({value})"


Atom = Var | Literal


@dataclass(frozen=True, eq=False, repr=False)
class JaxprEqn:
    """An equation of a jaxpr: outvars = primitive[params] invars."""

    invars: list[Atom]
    outvars: list[Var]
    primitive: Primitive
    params: dict[str, Any]
    effects: frozenset[Any] = NO_EFFECTS
    source_info: Any = None
    ctx: Any = None

    def replace(self, **changes: Any) -> JaxprEqn:
        """The equation with other fields."""
        return _replace(self, **changes)

    def __repr__(self) -> str:
        return "\n".join(_Printer().equation(self))


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Any = NO_EFFECTS,
    source_info: Any = None,
    ctx: Any = None,
) -> JaxprEqn:
    """An equation."""
    return JaxprEqn(
        list(invars), list(outvars), primitive, params, frozenset(effects), source_info,
        ctx,
    )  # fmt: skip


class Jaxpr:
    """A function as a list of equations.

    Attributes:
      constvars, invars: the variables of what it closes over, and of its arguments.
      outvars: its results: variables or literals.
      eqns: the equations in order.
      effects: what it does beside.
      debug_info: the name of the function and of its arguments.
      graph: that it is the view of, or None.
    """

    graph: Graph | None = None

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        outvars: Sequence[Atom],
        eqns: Sequence[JaxprEqn],
        effects: Any = NO_EFFECTS,
        debug_info: Any = None,
        is_high: bool = False,
    ) -> None:
        self.constvars = list(constvars)
        self.invars = list(invars)
        self.effects = frozenset(effects)
        self.debug_info = debug_info
        self._body = list(outvars), list(eqns)

    @property
    def outvars(self) -> list[Atom]:
        return self._body[0]

    @property
    def eqns(self) -> list[JaxprEqn]:
        return self._body[1]

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.outvars]

    def replace(self, **changes: Any) -> Jaxpr:
        """The jaxpr with other fields."""
        names = ("constvars", "invars", "outvars", "eqns", "effects", "debug_info")
        return Jaxpr(**{**{n: getattr(self, n) for n in names}, **changes})

    def pretty_print(self, **_: Any) -> str:
        """The jaxpr as text."""
        return str(self)

    def __str__(self) -> str:
        return "\n".join(_Printer().jaxpr(self))

    __repr__ = __str__


#: What a closed jaxpr shows of its jaxpr.
_SHOWN = "in_avals", "out_avals", "eqns", "effects", "constvars", "invars", "outvars"


@dataclass(frozen=True, eq=False, repr=False)
class ClosedJaxpr:
    """A jaxpr, and the values of what it closes over."""

    jaxpr: Jaxpr
    consts: list[Any] = field(default_factory=list[Any])

    literals = property(attrgetter("consts"))
    in_avals, out_avals, eqns, effects, constvars, invars, outvars = (
        property(attrgetter(f"jaxpr.{name}")) for name in _SHOWN
    )

    def replace(self, **changes: Any) -> ClosedJaxpr:
        """The closed jaxpr with other fields."""
        return _replace(self, **changes)

    def pretty_print(self, **_: Any) -> str:
        """The jaxpr as text."""
        return str(self)

    def __str__(self) -> str:
        return str(self.jaxpr)

    __repr__ = __str__


# What they do.


def eval_jaxpr(
    jaxpr: Jaxpr | ClosedJaxpr,
    consts: Sequence[Any],
    *args: Any,
    propagate_source_info: bool = True,
) -> list[Any]:  # fmt: skip
    """The results of a jaxpr.

    Args:
      consts: the values of its constvars.
      args: those of its invars.
    """
    jaxpr = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    if jaxpr.graph is not None:
        return apply_graph(jaxpr.graph, [*args, *consts])
    return interpret(jaxpr, consts, args, bind_equation)


def bind_equation(eqn: JaxprEqn, values: Sequence[Any]) -> Any:
    """What the primitive of an equation gives for values of its operands."""
    return eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))


def interpret(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    args: Sequence[Any],
    apply: Callable[[JaxprEqn, Sequence[Any]], Any],
) -> list[Any]:
    """The results of a jaxpr whose equations are `apply(equation, operands)`."""
    known: dict[Var, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= dict(zip(jaxpr.invars, args, strict=True))

    def read(atom: Atom) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        found = apply(eqn, [read(atom) for atom in eqn.invars])
        results = found if eqn.primitive.multiple_results else [found]
        known |= dict(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """A closed jaxpr as a function of flat values."""
    return partial(eval_jaxpr, closed_jaxpr.jaxpr, closed_jaxpr.consts)


def drop_unused(
    eqns: Sequence[JaxprEqn],
    results: Sequence[Atom],
    rules: Mapping[Primitive, Callable[..., Any]] = NO_RULES,
) -> tuple[list[JaxprEqn], set[Any]]:
    """The equations without what the results do not need, and all variables used.

    Args:
      rules: (used results, equation) -> (used operands, equation or None).
    """
    live: set[Any] = {v for v in results if isinstance(v, Var)}
    kept: list[JaxprEqn] = []
    for eqn in reversed(eqns):
        used = [v in live for v in eqn.outvars]
        if not any(used) and not eqn.effects:
            continue
        rule = rules.get(eqn.primitive)
        operands: Sequence[bool] = [True] * len(eqn.invars)
        found: JaxprEqn | None = eqn
        if rule is not None:
            operands, found = rule(used, eqn)
        if found is None:
            continue
        dropped = [v if v in live else DropVar(v.aval) for v in found.outvars]
        kept.append(found.replace(outvars=dropped))
        pairs = zip(eqn.invars, operands, strict=True)
        live |= {v for v, wanted in pairs if wanted and isinstance(v, Var)}
    return kept[::-1], live


# What is within.


def _items(value: Any) -> list[Any]:
    """What a tuple holds, or the value itself."""
    return [*value] if type(value) is tuple else [value]


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """The jaxprs among the parameters of an equation."""
    for value in params.values():
        for one in _items(value):
            if isinstance(one, Jaxpr):
                yield one
            elif isinstance(one, ClosedJaxpr):
                yield one.jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """The jaxprs in the equations of one, but not in theirs."""
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


# Printing.

#: Parameters that are not shown where they say nothing.
_QUIET = {
    "broadcast_in_dim": ("shape", "sharding"),
    "convert_element_type": ("sharding",),
    "dot_general": ("precision", "out_sharding"),
    "scan": ("linear", "_split_transpose"),
}
#: Parameters that are not shown where they are empty.
_QUIET_IF_EMPTY = {"broadcast_in_dim": ("broadcast_dimensions",)}


def type_str(aval: ShapedArray) -> str:
    """`f32[3,4]`; weakness is not shown."""
    short = dtypes.SHORT.get(aval.dtype)
    return f"{short or aval.dtype}[{','.join(map(str, aval.shape))}]"


class _Printer:
    """Names variables in the order in which they come; lists of lines."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}
        self.letters = variable_names()

    def name(self, var: Var) -> str:
        if isinstance(var, DropVar):
            return "_"
        if var not in self.names:
            self.names[var] = next(self.letters)
        return self.names[var]

    def atom(self, atom: Atom) -> str:
        if not isinstance(atom, Literal):
            return self.name(atom)
        value = atom.val.item() if hasattr(atom.val, "item") else atom.val
        return f"{value}:{type_str(atom.aval)}"

    def show_types(self, variables: Sequence[Var]) -> str:
        return " ".join([f"{self.name(v)}:{type_str(v.aval)}" for v in variables])

    def jaxpr(self, jaxpr: Jaxpr) -> list[str]:
        consts = self.show_types(jaxpr.constvars)
        head = f"{{ lambda {consts}{'' if consts else ' '}; ".replace("  ;", " ;")
        head += f"{self.show_types(jaxpr.invars)}. let"
        body = [self.equation(eqn) for eqn in jaxpr.eqns]
        results = ", ".join(map(self.atom, jaxpr.outvars))
        tail = f"in ({results}{',' if len(jaxpr.outvars) == 1 else ''}) }}"
        if len(body) <= 1:
            only = body[0] if body else [""]
            line = f"{head} {only[0]} {tail}"
            if len(only) == 1 and len(line) <= _WIDTH:
                return [line]
        return [head, *["    " + line for eqn in body for line in eqn], "  " + tail]

    def equation(self, eqn: JaxprEqn) -> list[str]:
        left = self.show_types(eqn.outvars)
        head = f"{left} = {eqn.primitive.name}" if left else eqn.primitive.name
        names = {*eqn.params} - {*_QUIET.get(eqn.primitive.name, ())}
        may_be_empty = _QUIET_IF_EMPTY.get(eqn.primitive.name, ())
        names -= {name for name in may_be_empty if not eqn.params[name]}
        order = sorted(names, key=lambda name: (name != "name", name))
        shown = [self.param(name, eqn.params[name]) for name in order]
        operands = " ".join(map(self.atom, eqn.invars))
        flat = " ".join([lines[0] for lines in shown])
        if not shown:
            return [f"{head} {operands}"]
        line = f"{head}[{flat}] {operands}"
        if all(len(lines) == 1 for lines in shown) and len(flat) <= _WIDTH - 25:
            return [line]
        inner = ["  " + line for lines in shown for line in lines]
        return [f"{head}[", *inner, f"] {operands}"]

    def param(self, name: str, value: Any) -> list[str]:
        if isinstance(value, ClosedJaxpr):
            value = value.jaxpr
        if isinstance(value, Jaxpr):
            first, *rest = self.jaxpr(value)
            return [f"{name}={first}", *rest]
        parts = _items(value)
        if any(isinstance(x, (Jaxpr, ClosedJaxpr)) for x in parts):
            opened = [x.jaxpr if isinstance(x, ClosedJaxpr) else x for x in parts]
            lines = [
                "  " + line
                for x in opened
                for line in (self.jaxpr(x) if isinstance(x, Jaxpr) else [str(x)])
            ]
            return [f"{name}=(", *lines, ")"]
        if callable(value) and hasattr(value, "__name__"):
            return [f"{name}={value.__name__}"]
        return [f"{name}={value}"]
