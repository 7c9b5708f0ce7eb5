"""Why a jitted function was traced or compiled: what differed, how long that took.

    print(step.misses)

    train.py:41 (main): step was traced in 2.1 ms, lowered in 9.0 ms, compiled in
        26.4 ms: it is called for the first time
    train.py:44 (main): step was traced in 1.8 ms, lowered in 8.7 ms, compiled in
        25.0 ms: batch['x'] is f32[7,4] and was f32[8,4]

A call is compared with the one before it that differs in the fewest leaves. Under
`with ft.no_compiles():` such a call raises instead, with the same words.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from types import FunctionType
from typing import Any

from ftrace.errors import Origin, TracingError, is_internal, user_origin
from ftrace.ground import settings
from ftrace.ground.fast_dataclasses import NamedTuple, dataclass
from ftrace.ground.tables import Table
from ftrace.ground.text_tables import Shown
from ftrace.trace.avals import ShapedArray
from ftrace.trace.flatten_arguments import Parameters
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size

#: Misses of a function that are told, the latest ones.
MISSES_RETAINED = 64
#: Calls that a new one is compared with, the latest ones: more of them would take time
#: where there are a thousand leaves.
_COMPARED = 8
#: Seconds that a stage has to take to be told.
_LEAST_SECONDS = 5e-5
#: Leaves that a text names.
_NAMED = 4
#: Lines whose functions are counted, the latest ones.
_LINES_RETAINED = 256


@dataclass(eq=False, repr=False)
class Miss(Shown):
    """A call for which a jitted function was traced, or compiled for another device.

    Attributes:
      function: its name.
      why: in what the call differs from the nearest one before.
      origin: the user's line that made the call, where it is known.
      when: the time of the call, in seconds since the epoch.
      traced, lowered, compiled: seconds that the stages took. A program that is on disk
        is not lowered; what has not come to a stage, as under `jit(f).trace`, has 0.
    """

    function: str
    why: str
    origin: Origin | None = field(default_factory=user_origin)
    when: float = field(default_factory=time.time)
    traced: float = 0.0
    lowered: float = 0.0
    compiled: float = 0.0

    def note_compiled(self, seconds: float, lowered: float) -> None:
        """What it took to compile the graph, of which so much to lower it.

        That was at another call, where somebody had it already.
        """
        self.lowered = lowered if lowered < seconds else 0.0
        self.compiled = seconds - self.lowered

    def __str__(self) -> str:
        stages = [
            f"{name} in {1e3 * getattr(self, name):.1f} ms"
            for name in ("traced", "lowered", "compiled")
            if getattr(self, name) >= _LEAST_SECONDS
        ]
        did = ", ".join(stages) or "traced"
        return f"{self.origin or 'somewhere'}: {self.function} was {did}: {self.why}"


class Misses(Shown, list[Miss]):
    """Those of a function, the latest ones, each in a line."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))


class CacheInfo(NamedTuple):
    """What is kept of a jitted function.

    Attributes:
      misses: how often it was traced, or compiled again for what was traced.
      signatures: kinds of calls whose graph is cached.
      programs: that are compiled for them.
      native: kinds of calls that are native.
      nbytes: memory that it takes, roughly.
    """

    misses: int
    signatures: int
    programs: int
    native: int
    nbytes: int


#: Why what was traced before is so again.
CLEARED = "it was traced before, and the cache was cleared"
FORGOTTEN = "it was traced before, and forgotten: see cache_memory"
OPEN = "it was traced before, but with traced values that it captures"

#: How many functions of the same lines were traced, by these: a lambda in a loop is a
#: new function each time.
_functions_of: Table[Any, int] = Table(latest=_LINES_RETAINED)


def _first_call(fun: Any) -> str:
    """What is said of a function that has not been called before."""
    first, lines = "it is called for the first time", list[Any]()
    if type(fun) is not FunctionType or is_internal(fun.__code__):
        return first  # of a transform: it stands around any function
    inner: Any = fun
    while type(inner) is FunctionType:
        lines.append((inner.__code__.co_filename, inner.__code__))
        inner = getattr(inner, "__wrapped__", None)
    key = tuple(lines)
    count = _functions_of.get(key) or 0
    _functions_of.put(key, count + 1)
    if not count:
        return first
    others = "another function" if count == 1 else f"{count} other functions"
    return (
        f"{first}, and {others} made by the same line came before it; "
        "call jit once, outside of the loop or function that repeats it"
    )


def why_missed(
    fun: Callable[..., Any], signature: Sequence[Any], before: Collection[Sequence[Any]]
) -> str:
    """In what a signature differs from the nearest one before it.

    Args:
      fun: the function.
      signature: as `Jitted` makes it: the tree, static arguments, settings, axes around
        it, and the types of its leaves.
      before: those that are cached, the latest last.
    """
    if not before:
        return _first_call(fun)
    parameters = Parameters.of(fun)
    latest = [*before][: -_COMPARED - 1 : -1]
    rows = _rows(parameters, signature)
    nearest = min(latest, key=lambda old: _far(rows, _rows(parameters, old)))
    return _difference(parameters, signature, nearest)


def _far(new: dict[Any, Any], old: dict[Any, Any]) -> tuple[int, int, int]:
    """How far apart two signatures are: in how many parts, other than leaves, axes."""
    found = [(new.get(k, _NOTHING), old.get(k, _NOTHING)) for k in {**new, **old}]
    diffs = [pair for pair in found if _differ(*pair)]
    types = [[x for x in pair if isinstance(x, ShapedArray)] for pair in diffs]
    axes = sum(_count_differences(*pair) for pair in types if len(pair) == 2)
    return len(diffs), sum(not pair for pair in types), axes


def _differ(a: Any, b: Any) -> bool:
    return type(a) is not type(b) or a != b  # True is 1, and traced otherwise


def _count_differences(a: ShapedArray, b: ShapedArray) -> int:
    """In how many axes two types differ, all if the ranks do; a dtype is one more."""
    ranks = len(a.shape), len(b.shape)
    if ranks[0] != ranks[1]:
        return max(ranks) + 1 + (a.dtype != b.dtype)
    same = sum(map(same_size, a.shape, b.shape))
    return len(a.shape) - same + (a.dtype != b.dtype)


#: What stands where a signature has no such part.
_NOTHING = object()


def _static_values(signature: Sequence[Any]) -> dict[int | str, Any]:
    """The static arguments, by position or name."""
    fixed: Any = signature[1][1] if signature[1] else ()
    return {place: value for place, _, value in fixed}


def _difference(parameters: Parameters, new: Sequence[Any], old: Sequence[Any]) -> str:
    diff = _changes(_rows(parameters, new), _rows(parameters, old))
    ways, former = _ways(parameters, new), _ways(parameters, old)
    diff += [
        f"{name} is passed by {way} and was by {former[name]}"
        for name, way in ways.items()
        if former.get(name, way) != way
    ]
    if new[0] != old[0] and not diff:
        diff = _changes(_containers(parameters, new), _containers(parameters, old))
    if not diff:
        return FORGOTTEN
    more = f", and {len(diff) - _NAMED} more" if len(diff) > _NAMED else ""
    return "; ".join(diff[:_NAMED]) + more


def _changes(new: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """In words what some parts are and were, by their names."""
    diff: list[str] = []
    for name in {**new, **old}:
        if name not in old:
            diff.append(f"{name} is new")
        elif name not in new:
            diff.append(f"{name} is no more")
        elif _differ(new[name], old[name]):
            diff.append(f"{name} is {_text(new[name])} and was {_text(old[name])}")
    return diff


def _rows(parameters: Parameters, signature: Sequence[Any]) -> dict[str, Any]:
    """The parts of a signature, under the names that the user has for them."""
    treedef, static, (trace_key, open_sizes), axes, types = signature
    found: dict[str, Any] = {
        f"the static argument {_argument(place, parameters)}": value
        for place, value in _static_values(signature).items()
    }
    found |= zip(_leaf_names(parameters, treedef, static), types, strict=True)
    found |= settings.settings_of(trace_key)
    found["whether it is called with traced values"] = open_sizes is not None
    found["what is mapped around it"] = axes
    return found


def _ways(parameters: Parameters, signature: Sequence[Any]) -> dict[str, str]:
    """How each argument that has a leaf, or is static, is passed."""
    treedef, static, *_ = signature
    places = _arguments_of_leaves(treedef, static)
    return {
        _argument(place, parameters): "keyword" if type(place) is str else "position"
        for place in (*_static_values(signature), *places)
    }


def _containers(parameters: Parameters, signature: Sequence[Any]) -> dict[str, Any]:
    """The class of each container among the arguments, and what is static in it."""
    treedef, static, *_ = signature
    args, kwargs = treedef.children()
    places = _positions(static, args.num_children)
    pending: list[tuple[str, Any]] = [
        *[
            (_argument(p, parameters), x)
            for p, x in zip(places, args.children(), strict=True)
        ],
        *zip(kwargs.entries(), kwargs.children(), strict=True),
    ]
    found: dict[str, Any] = {}
    while pending:
        name, node = pending.pop()
        if node.type is not None:  # no leaf
            found[f"the container {name}"] = node.type
            found |= {name + key: x for key, x in tree.static_fields(node).items()}
            keys = map(tree.keystr, tree.paths(node.one_level()))
            pending += zip([name + key for key in keys], node.children(), strict=True)
    return found


def leaf_names(fun: Callable[..., Any], treedef: Any, static: Any) -> list[str]:
    """What the user calls each leaf of the arguments: x, batch['x'].

    Args:
      treedef: the structure of the arguments that are not static: (args, kwargs).
      static: as `argument_kinds.split` gives it.
    """
    return _leaf_names(Parameters.of(fun), treedef, static)


def _leaf_names(parameters: Parameters, treedef: Any, static: Any) -> list[str]:
    places = _arguments_of_leaves(treedef, static)
    return [
        _argument(place, parameters) + tree.keystr(path[2:])
        for place, path in zip(places, tree.paths(treedef), strict=True)
    ]


def _arguments_of_leaves(treedef: Any, static: Any) -> list[int | str]:
    """The argument of each leaf, by position or name."""
    places = _positions(static, treedef.child(0).num_children)
    return [places[p[1]] if p[0] == 0 else p[1] for p in treedef.paths()]


def _positions(static: Any, count: int) -> list[int]:
    """The positions of the arguments that are traced and given by position."""
    if not static:
        return [*range(count)]
    taken = {place for place, _, _ in static[1]}
    return [i for i in range(static[0]) if i not in taken]


def _text(value: Any) -> str:
    """A value in some words; of a class of the user's that has none its name."""
    if isinstance(value, type):
        return value.__name__
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"<{type(value).__name__}>"


def _argument(place: int | str, parameters: Parameters) -> str:
    if isinstance(place, str):
        return place
    names = parameters.positional
    if place < len(names):
        return names[place]
    rest = parameters.nameless.difference(names)  # that of *args
    return f"{min(rest)}[{place - len(names)}]" if rest else f"argument {place}"


def check_allowed(what: Callable[[], str]) -> None:
    """Raises where nothing may be traced or compiled: see `no_compiles`.

    Args:
      what: says what would be, and why.
    """
    if settings.current().no_compiles:
        raise TracingError(
            f"{what()}, and no_compiles forbids it; call it before with arguments of "
            "these types, or name axes whose sizes change in jit(…, dynamic=…)"
        )


@contextmanager
def no_compiles() -> Generator[None]:
    """A block in which nothing may be traced under `jit`, and nothing compiled.

    For loops that must not stall: the first call that would be compiled raises.

    Raises:
      TracingError: within it, with the words of `misses`.

    Example:
      >>> f = ft.jit(lambda x: x + 1)
      >>> warm = f(fnp.ones(3))
      >>> with ft.no_compiles():
      ...     f(fnp.zeros(3))
      Array([1., 1., 1.], dtype=float32)
    """
    with settings.config(no_compiles=True):
        yield
