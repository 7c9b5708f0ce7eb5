"""jit: a function is traced once per shape signature, then runs as one program."""

from __future__ import annotations

import inspect
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, update_wrapper
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ftrace import errors, monitoring
from ftrace.backends.base import Device, get_device
from ftrace.ground import settings
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.spans import recorders, span
from ftrace.ground.tables import LIGHT, Table, on_limit
from ftrace.ground.weak_tables import OfFunctions
from ftrace.trace import flatten_arguments as flat, references
from ftrace.trace.arrays.array import Array
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.calls.varying import axes_and_names
from ftrace.trace.eager.function_objects import Record, RecordedCallable
from ftrace.trace.flatten_arguments import name_of
from ftrace.trace.graph import Graph
from ftrace.trace.primitives.sources import const
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import evaluate_shape
from ftrace.trace.tiering import JIT_CALLS_BEFORE_RECORD, KINDS_RECORDED, Tally
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.trace import has_free_variables, trace
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of, is_value, stack
from ftrace.transforms import device_placement as placement
from ftrace.transforms.jit import argument_kinds as arguments, misses, stages
from ftrace.transforms.jit.compiled_graph import (
    apply_graph,
    device_for,
    is_divided,
    place_results,
    weight_of,
)
from ftrace.transforms.jit.stages import OneTrace, Ready, run_across
from ftrace.transforms.structs import ShapeDtypeStruct, mesh_sharding

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ftrace.transforms.jit.signatures import JitOptions, Wrapped

#: Signatures of a function that are cached whatever they weigh.
SIGNATURES_CACHED = 64
#: Signatures of a function of which it is known why they are cached no more.
LOST_CACHED = 1024
#: Bytes of what is cached for one, besides its graph and its program, and of a class of
#: containers, which lives as long: measured with 6,000 of each, on Linux.
SIGNATURE_BYTES, CLASS_BYTES = 3600, 5600

#: Leaves that are no arrays of ours, and nothing that could hold leaves.
_FOREIGN_LEAVES = frozenset((np.ndarray, float, int, bool, complex))


@overload
def jit(
    fun: Callable[flat.P, flat.R], /, **options: Unpack[JitOptions]
) -> Wrapped[flat.P, flat.R]: ...
@overload
def jit(
    fun: None = None, /, **options: Unpack[JitOptions]
) -> Callable[[Callable[flat.P, flat.R]], Wrapped[flat.P, flat.R]]: ...
@flat.decorator
def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
    dynamic: Any = None,
) -> Any:
    """Compiles a function: traced once per signature of shapes and dtypes.

    Args:
      fun: a pure function of pytrees of arrays. Without it, `jit(**options)` is a
        decorator.
      static_argnums, static_argnames: arguments that are Python values, by position or
        by name; hashable, and a new value traces the function again. One of the two is
        enough: the other follows from the signature.
      donate_argnums, donate_argnames: arguments that the caller gives up: results may
        take their memory, and the arrays are deleted.
      keep_unused, inline, compiler_options: accepted for JAX's sake, options of XLA's
        alone; nothing to do here.
      device, backend: name of the device to run on; by default that of the arguments.
      in_shardings, out_shardings: how arguments and results lie on devices: a
        sharding, a `PartitionSpec` along the mesh of `set_mesh`, or None where nothing
        is said; or prefixes of the trees of positional arguments and of results.
      dynamic: the axes of arguments whose sizes the compiled code does not know, as
        {argument: {axis: name or Dim}}: it is compiled once for all their sizes. The
        inner dicts may be leaves of a prefix of the argument's pytree. JAX has no such
        option.

    Returns:
      The compiled function, of the same arguments. It has `lower(*args)` to see what it
      became, `trace_count`, `misses` (why it was traced, or compiled again),
      `cache_info()` and `clear_cache()`.

    Raises:
      StaticArgumentError: a static argument cannot be hashed, or does not exist.
      DeviceError: a sharding has several devices that share no memory, or there is no
        such device, or no such option.
      ShapeError: an argument or result cannot be divided so.
      ShardingError: shardings are over different devices.

    Example:
      >>> @ft.jit
      ... def norm(x):
      ...     return fnp.sqrt(fnp.sum(x * x))
      >>> norm(fnp.array([3.0, 4.0]))
      Array(5., dtype=float32)
      >>> power = ft.jit(lambda x, n: x**n, static_argnums=1)
      >>> float(power(2.0, 3)), float(power(2.0, 4)), power.trace_count
      (8.0, 16.0, 2)
      >>> total = ft.jit(fnp.sum, dynamic={"a": {0: "n"}})
      >>> total(fnp.ones(3)), total(fnp.ones(5)), total.trace_count
      (Array(3., dtype=float32), Array(5., dtype=float32), 1)
    """
    stages.check_options(compiler_options)
    if device is not None and backend is not None:
        raise errors.ArgumentError(
            f"jit: give device or backend, got device={device!r}, backend={backend!r}"
        )
    device = backend if device is None else device
    device = placement.lead_of(tree.leaves((in_shardings, out_shardings))) or device
    assert fun is not None, "flat.decorator waits for it"
    tree.check_callable(fun, "jit")
    if device is not None:
        device = get_device(device).name
    static = arguments.choose(fun, "static", static_argnums, static_argnames)
    donated = arguments.choose(fun, "donate", donate_argnums, donate_argnames)
    arguments.check_disjoint(fun, static, donated)
    spec = None if dynamic is None else arguments.Dynamic(fun, dynamic)
    if in_shardings is not None or out_shardings is not None:
        fun = _divide(fun, static, in_shardings, out_shardings)
    known = _traces_of(fun, (static, donated)) if spec is None else None
    return Jitted(fun, static, donated, device, spec, known)


def _divide(
    fun: Callable[..., Any], static: arguments.Chosen, in_shardings: Any,
    out_shardings: Any,
) -> Callable[..., Any]:  # fmt: skip
    """`fun`, of which arguments and results lie on devices as shardings say."""

    @flat.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if in_shardings is not None:
            named = kwargs.keys() - static.names
            if named:
                raise errors.ArgumentError(
                    f"jit of {name_of(fun)}: in_shardings are those of positional "
                    f"arguments, got {', '.join(named)} by name; give them by position"
                )
            fixed = static.positions(len(args))
            places = [i for i in range(len(args)) if i not in fixed]
            traced = tuple([args[i] for i in places])
            found = placement.place_tree(traced, in_shardings, "jit: in_shardings")
            given = {**dict(enumerate(args)), **dict(zip(places, found, strict=True))}
            args = tuple(given.values())
        result = fun(*args, **kwargs)
        if out_shardings is None:
            return result
        return placement.place_tree(result, out_shardings, "jit: out_shardings")

    return call


_NO_ARGUMENTS = arguments.Chosen()


class Traces(Table[Any, OneTrace]):
    """What a function was traced to, by signature.

    All that `jit` gives of a function has the same, so that `jit(f)(x)` in a loop
    traces once.

    Attributes:
      count: how often it was traced.
      misses: the calls that it was traced or compiled for, the latest ones.
      missed: how many there were.
      lost: why what was traced before is no more, by the hash of its signature.
    """

    def __init__(self) -> None:
        super().__init__(latest=SIGNATURES_CACHED, is_needed=_has_records)
        self.count = self.missed = 0
        self.lost: dict[int, str] = {}
        self.misses: deque[misses.Miss] = deque(maxlen=misses.MISSES_RETAINED)
        self.lock = fresh_after_fork(threading.RLock())

    def put(self, key: Any, value: OneTrace, nbytes: int = LIGHT) -> OneTrace:
        found = super().put(key, value, nbytes)
        self.lost.pop(hash(key), None)
        return found

    def drop(self, key: Any) -> None:
        super().drop(key)
        self.lose(key, misses.FORGOTTEN)

    def clear(self) -> None:
        keys = [key for key, _ in self.by_age()]
        super().clear()
        for key in keys:
            self.lose(key, misses.CLEARED)

    def lose(self, key: Any, why: str) -> None:
        """Notes why what was traced for a signature is not there."""
        self.lost[hash(key)] = why
        if len(self.lost) > LOST_CACHED:
            self.lost.pop(next(iter(self.lost)))


_traces: OfFunctions[dict[Any, Traces]] = OfFunctions()
# A rule or a callback in a trace may hold the function.
on_limit(lambda: _traces.forget(lambda known: all(t.idle for t in known.values())))


def _traces_of(fun: Any, options: Any) -> Traces | None:
    """Those of a function under these options, if it is one of Python's."""
    if type(fun) is not FunctionType:
        return None
    by_options = _traces.get(fun) or _traces.keep(fun, {})
    known = by_options.get(options)
    return by_options.setdefault(options, Traces()) if known is None else known


def _has_records(traced: OneTrace) -> bool:
    """Are there native calls of it, which do not tell when they are made?"""
    programs = list(traced.programs.values())
    return any(record.in_use for ready in programs for record in ready.records)


def _says_its_own(fun: Any) -> bool:
    """Is the signature of `fun` not just that of what it wraps?"""
    return type(fun) not in (Jitted, FunctionType) or "__signature__" in vars(fun)


def _why_compiled(key: tuple[str, Any], others: Collection[tuple[str, Any]]) -> str:
    """Why what is compiled, for devices and settings, is so for another."""
    device, _ = key
    names = sorted({name for name, _ in others})
    if device not in names:
        return f"it runs on {device} and ran on {', '.join(names)}"
    return "the settings of compilation are others"


class Jitted(RecordedCallable, flat.Travels):
    """A function under jit. Call it; `lower(*args)` shows what becomes of it.

        arguments -> signature: structure, types, static values
            -> OneTrace: the graph, traced at the first call
            -> Ready: its program for a device and settings, compiled then
            -> Record: of such calls in native code, made when some have come

    Attributes:
      trace_count: how often the function was traced.
      known: of a function that applies a graph, that graph: it need not be traced.
    """

    # Not in its dict, which `functools.wraps` copies to what stands around it.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "_device",
        "_donated",
        "_dynamic",
        "_fun",
        "_latest",
        "_signature",
        "_static",
        "_traced",
        "_with_refs",
        "known",
    )  # fmt: skip

    entry = "call"

    def __init__(
        self,
        fun: Callable[..., Any],
        static: arguments.Chosen = _NO_ARGUMENTS,
        donated: arguments.Chosen = _NO_ARGUMENTS,
        device: Any = None,
        dynamic: arguments.Dynamic | None = None,
        traces: Traces | None = None,
    ) -> None:
        super().__init__()
        self._traced = Traces() if traces is None else traces
        update_wrapper(self, fun)
        self._fun = fun
        self._static = static
        self._donated = donated
        self._device = device
        self._dynamic = dynamic
        self._latest: Any = None  # the signature that was traced last
        self._signature: inspect.Signature | None = None
        # Functions that calls with references are done by: each holds this one.
        self._with_refs: Table[Any, Any] = Table(SIGNATURES_CACHED)
        self.known: OneTrace | None = None

    @property
    def trace_count(self) -> int:
        return self._traced.count

    @property
    def misses(self) -> misses.Misses:
        """The calls for which the function was traced, why, and what that took."""
        return misses.Misses(self._traced.misses)

    def cache_info(self) -> misses.CacheInfo:
        """What is cached of the function."""
        traced = [entry.value for _, entry in self._traced.by_age()]
        programs = [ready for each in traced for ready in each.programs.values()]
        native = sum(len(ready.records) for ready in programs)
        nbytes = sum(x.nbytes for x in (*traced, *[p.compiled for p in programs]))
        counts = self._traced.missed, len(traced), len(programs), native
        return misses.CacheInfo(*counts, nbytes)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Methods: the instance is the first argument."""
        return self if instance is None else MethodType(self, instance)

    def plain_call(self, *args: Any, **kwargs: Any) -> Any:
        """A call in Python's code, whether or not calls like it could be native."""
        if recorders:
            with span("call", name_of(self._fun), None):
                found = self._try_with_refs(args, kwargs, self._call)
                return found() if type(found) is references.Threaded else found
        found = self._try_with_refs(args, kwargs, self._call)
        return found() if type(found) is references.Threaded else found

    def _try_with_refs(
        self, args: Any, kwargs: Any, attempt: Callable[[Any, Any], Any]
    ) -> Any:
        """What is tried with a call, or a call of another function in its place.

        That is one that has references as arguments, or uses some from around it.
        """
        if not references.live:
            return attempt(args, kwargs)
        given, static = arguments.split(self._fun, self._static, args, kwargs)
        leaves, treedef = tree.flatten(given)
        places = [i for i, x in enumerate(leaves) if type(x) is references.Ref]
        others = [x for x in leaves if type(x) is not references.Ref]
        key = treedef, static, tuple(places)
        known = self._with_refs.get(key)
        if known is None:

            def call(*given: Any) -> Any:
                args, kwargs = arguments.join(given, static)
                return self._fun(*args, **kwargs)

            def of_leaves(leaves: Sequence[Any]) -> Any:
                return call(*tree.unflatten(treedef, leaves))

            call.__name__ = of_leaves.__name__ = name_of(self._fun)
            written: set[int] = set()
            if places:
                run = references.with_parameters(call, places, treedef, written)
                around = ()
            else:
                try:
                    return attempt(args, kwargs)
                except references.Written as error:
                    around = error.refs_of("jit")
                run = references.thread(of_leaves, around, written)
            known = Jitted(run, device=self._device), around, written
            self._with_refs.put(key, known)
        run, around, written = known
        refs = [leaves[i] for i in places]
        return references.Threaded(run, refs or around, others, written, bool(places))

    def _call(self, args: Any, kwargs: Any) -> Any:
        config = settings.current()
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        signature, values, given = self._signature_of(args, kwargs, aval_of)
        treedef, static, *_ = signature
        traced = self._traced.get(signature)
        if traced is None:
            traced = self._trace(signature, values, args, kwargs, given)
        reads = traced.output.reads
        if any(ref.read() is not held for ref, held in reads.items()):
            raise references.Written("jit", reads)
        if not traced.closed or Tracer in map(type, values):
            return traced.output.build(apply_graph(traced.graph, values, traced.closed))
        place = None
        fixed = traced.whole is None  # sizes that are open are not divided
        looks = fixed and (Array.any_placed or traced.graph.effects)
        if looks and is_divided(traced.graph, values):
            place = partial(place_results, traced.graph, values, device=self._device)
        elif self._device is not None and placement.is_choice(get_device(self._device)):
            place = self._stay
        arrays = [asarray(x) for x in values if type(x) not in _FOREIGN_LEAVES]
        device = self.target(arrays, traced.graph)
        key = device.name, config.compile_key
        ready: Ready | None = traced.programs.get(key)
        if ready is None:
            if not isinstance(device, Device):  # arrays over several processes
                if traced.whole is not None:  # what is divided has a size
                    traced = self._trace_types(signature, values)
                donated = arguments.leaves_of(self._donated, given, static)
                return run_across(traced, values, values, donated)
            with self._traced.lock:
                donated = arguments.leaves_of(self._donated, given, static)
                ready = self._compile(traced, key, device, donated)
                self._keep(signature, traced)
        elif config.checks_calls or config.observed or reads or place is not None:
            pass  # each call is looked at
        elif ready.records and ready.records[-1] not in self._records:
            for record in ready.records:  # which others of this function have made
                self.add_record(record)
        elif ready.unrecorded is not None and device.host:
            call = config, static, treedef, values, tuple(kwargs)
            self._count(ready, partial(ready.record, *call))
        return ready.run(values, place)

    #: Native, once a device has native calls.
    __call__ = plain_call

    def _compile(
        self, traced: OneTrace, key: Any, device: Device, donated: tuple[int, ...]
    ) -> Ready:
        """What runs a graph for a device; for sizes, as the program has them open."""
        ready = traced.programs.get(key)
        if ready is None and traced.whole is not None:
            whole = self._compile(traced.whole, key, device, donated)
            ready = whole.at(traced.sizes)
        elif ready is None:
            name, miss = name_of(self._fun), traced.miss
            if miss is not None and traced.programs:
                why = _why_compiled(key, traced.programs)
                miss = self._note_miss(misses.Miss(flat.display_name(self._fun), why))
            took = list[float]()
            with monitoring.stage(monitoring.COMPILED, "compiled", name, took.append):
                graph = ready_graph(traced.graph)
                ready = Ready.of(graph, device, donated, traced.output)
            if miss is not None:
                miss.note_compiled(took[0], ready.compiled.lowered_in)
        return traced.programs.setdefault(key, ready)

    def _count(self, ready: Ready, record: Callable[[], Record | None]) -> None:
        """Counts a call; after some, those like it are native, where they can be."""
        with self._traced.lock:
            calls = ready.unrecorded
            if calls is None or not calls.reaches(JIT_CALLS_BEFORE_RECORD):
                return
            ready.unrecorded, made = None, record()
            if made is None:
                return
            ready.records.append(made)
            if len(ready.records) < KINDS_RECORDED:
                ready.unrecorded = Tally()
            self.add_record(made)

    def _stay(self, results: Sequence[Any]) -> list[Any]:
        """The results, on the device that the function was given."""
        return [placement.put_by(x, self._device) for x in results]

    def target(
        self, arrays: Sequence[Array], graph: Graph | None = None,
        places: Sequence[Any] = (),
    ) -> Any:  # fmt: skip
        """The device that the function was given, else that of its arguments.

        Args:
          graph, places: what it was traced to, and shardings of arguments, which may
            name devices of several processes.
        """
        if self._device is not None:
            return get_device(self._device)
        return device_for(arrays, graph, places)

    def _signature_of(
        self, args: Any, kwargs: Any, kind: Callable[[Any], ShapedArray]
    ) -> tuple[Any, list[Any], Any]:
        """The signature of a call, its leaves, and the arguments that are traced.

        Args:
          kind: the type of a leaf.
        """
        given, static = arguments.split(self._fun, self._static, args, kwargs)
        leaves, treedef = tree.flatten(given)
        try:
            types = tuple([kind(x) for x in leaves])
        except errors.ArgumentError:
            fixed = {*self._static.positions(len(args)), *self._static.names}
            flat.check_arguments(self._fun, args, kwargs, fixed)
            raise
        # Sizes are open where there are no tracers: these are of another kind.
        known = Tracer if self._dynamic and Tracer in map(type, leaves) else None
        chosen = settings.current().trace_key, known
        axes = stack.axes and axes_and_names(leaves)
        return (treedef, static, chosen, axes, types), leaves, given

    def _trace(
        self,
        signature: Any,
        values: Sequence[Value],
        args: Any,
        kwargs: Any,
        given: Any,
    ) -> OneTrace:
        """The graph for a signature; of dynamic dimensions at the sizes of a call."""
        *rest, types = signature
        if self._dynamic is None or Tracer in map(type, values):
            return self._trace_types(signature, values)
        types, sizes = self._dynamic.resolve(args, kwargs, given, self._static, types)
        traced = self._trace_types((*rest, types), values)
        if not sizes:
            return traced
        return replace(traced, nbytes=0, programs={}, whole=traced, sizes=sizes)

    def _trace_types(self, signature: Any, values: Sequence[Value]) -> OneTrace:
        """The graph for a signature: from the cache, or traced now."""
        with self._traced.lock:
            found = self._traced.get(signature)
            if found is not None:
                return found
            treedef, static, _, _, avals = signature
            known = self.known
            if known and avals == tuple([n.aval for n in known.graph.inputs]):
                return known

            def call(*tracers: Value) -> Any:
                args, kwargs = arguments.join(tree.unflatten(treedef, tracers), static)
                return self._fun(*args, **kwargs)

            output = flat.Output(call, "jit", False)
            output.function.__name__ = name_of(self._fun)
            miss = self._miss_of(signature)
            took = partial(setattr, miss, "traced")
            name = output.function.__name__
            with monitoring.stage(monitoring.TRACED, "traced", name, took):
                graph = trace("jit", output, avals, exact=True, meant=values)
            output.forget()
            own = CLASS_BYTES * len(tree.classes_of(treedef)) + SIGNATURE_BYTES
            nbytes = weight_of(graph) + own
            closed = not has_free_variables(graph)
            traced = OneTrace(graph, output, closed, nbytes, miss=miss)
            if traced.closed:
                self._keep(signature, traced)
            else:  # it is good for this call only
                self._traced.lose(signature, misses.OPEN)
            return traced

    def _miss_of(self, signature: Any) -> misses.Miss:
        """Notes that a trace is about to come, and tells of it if it is asked for.

        Raises:
          TracingError: there must be none.
        """
        config, name = settings.current(), flat.display_name(self._fun)
        before = [key for key, _ in self._traced.by_age()]
        before += [self._latest] if self._latest is not None else []
        why = self._traced.lost.get(hash(signature))
        why = why or misses.why_missed(self._fun, signature, before)
        misses.check_allowed(lambda: f"{name} would be traced: {why}")
        if config.no_tracing:
            raise errors.TracingError(
                f"re-tracing function {name_of(self._fun)} for `jit`, but 'no_tracing' "
                "is set"
            )
        self._latest = signature
        self._traced.count += 1
        return self._note_miss(misses.Miss(name, why), "traced")

    def _note_miss(
        self, miss: misses.Miss, what: str = "compiled again"
    ) -> misses.Miss:
        """Notes a miss, and tells of it if that is asked for."""
        if settings.current().explain_misses:
            sys.stderr.write(f"ftrace: {miss.function} is {what}: {miss.why}\n")
        self._traced.misses.append(miss)
        self._traced.missed += 1
        return miss

    def _keep(self, signature: Any, traced: OneTrace) -> None:
        programs = sum(ready.compiled.nbytes for ready in traced.programs.values())
        self._traced.put(signature, traced, traced.nbytes + programs)

    def trace(self, *args: Any, **kwargs: Any) -> stages.Traced:
        """The graph for these arguments; arrays or shapes with dtypes."""
        found = self._try_with_refs(args, kwargs, self._trace_at)
        if type(found) is references.Threaded:
            return found.run.trace(*found.arguments).called_by(self)
        given, static = arguments.split(self._fun, self._static, args, kwargs)
        leaves, in_tree = tree.flatten(given)
        places = tuple(map(mesh_sharding, leaves))
        call = stages.Call(
            name_of(self._fun), found.whole or found, in_tree,
            tuple([flat.type_of(x) for x in leaves]),
            arguments.leaves_of(self._donated, given, static),
            self.target((), found.graph, places),
            self if self._dynamic or found.output.reads else None, places,
        )  # fmt: skip
        return stages.Traced(call)

    def leaves(self, args: Any, kwargs: Any) -> list[Any]:
        """The leaves of the arguments of a call, without the static ones."""
        given, _ = arguments.split(self._fun, self._static, args, kwargs)
        return tree.leaves(given)

    def leaf_names(self, args: Any, kwargs: Any) -> list[str]:
        """What the user calls each of these leaves: x, batch['x']."""
        given, static = arguments.split(self._fun, self._static, args, kwargs)
        return misses.leaf_names(self._fun, tree.structure(given), static)

    def _trace_at(self, args: Any, kwargs: Any) -> OneTrace:
        """The graph; compiled it is at the first call."""
        signature, leaves, given = self._signature_of(args, kwargs, flat.type_of)
        return self._trace(signature, leaves, args, kwargs, given)

    def lower(
        self, *args: Any, lowering_platforms: Any = None, **kwargs: Any
    ) -> stages.Lowered:
        """What becomes of the function for these arguments, stage by stage."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result, without computing it."""
        found = self._try_with_refs(args, kwargs, self._trace_at)
        if type(found) is references.Threaded:
            return found.run.eval_shape(*found.arguments)[0]
        types = [
            ShapeDtypeStruct(
                evaluate_shape(n.shape, found.sizes),
                n.dtype,
                weak_type=n.aval.weak_type,
            )
            for n in found.graph.outputs
        ]
        return found.output.build(types)

    def clear_cache(self) -> None:
        """Forgets all that was traced and compiled for this function."""
        self._traced.clear()
        self._with_refs.clear()
        self.forget_records()

    def _cache_size(self) -> int:
        """How many kinds of calls have been traced: JAX's private name is in use."""
        return len(self._traced)

    def reduce_for_pickle(self, protocol: Any) -> Any:
        parts = self._fun, self._static, self._donated, self._device, self._dynamic
        return Jitted, parts

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__":  # for those who do not follow __wrapped__
            # Kept: `inspect` asks twice, so each jit within would double the work.
            if self._signature is None:
                inner = inspect.unwrap(self._fun, stop=_says_its_own)
                self._signature = inspect.signature(inner)
            return self._signature
        # Not its text, which is as long as functions stand in each other.
        text = f"{name_of(self._fun)}, a function under jit, has no attribute {name!r}"
        raise AttributeError(text, name=name)

    def __repr__(self) -> str:
        # The word by which chex knows it, that of an older JAX.
        return f"<CompiledFunction of {self._fun!r}>"


def operations_at(
    what: str, fun: Callable[..., Any], args: Any, kwargs: Any
) -> tuple[Graph, list[Array], list[str]]:
    """The operations of a function at its arguments, these, and their names.

    Unless it is jitted it may branch on values: then the graph is of that way alone.

    Args:
      what: needs them, for messages.

    Raises:
      ArgumentError: an argument is a shape, or traced.
    """
    jitted = fun if isinstance(fun, Jitted) else Jitted(fun)
    leaves, names = jitted.leaves(args, kwargs), jitted.leaf_names(args, kwargs)
    try:
        graph = jitted.trace(*args, **kwargs).graph
    except errors.ConcretizationTypeError:
        known = all(is_value(x) and not isinstance(x, Tracer) for x in leaves)
        if jitted is fun or not known:
            raise
        output = flat.Output.of_leaves(
            fun, tree.structure((args, kwargs)), what, keywords=True
        )
        graph = trace(what, output, [aval_of(x) for x in leaves], leaves)
    graph = ready_graph(graph)
    return graph, stages.concrete_inputs(what, graph, leaves), names


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of what `fun` returns, without computing anything.

    Args:
      fun: a function of arrays.
      args, kwargs: its arguments: arrays, or anything with a shape and a dtype, such as
        `ShapeDtypeStruct`; pytrees of them.

    Returns:
      A tree like the result, of `ShapeDtypeStruct`s. What `fun` returns may be shapes
      with dtypes itself.

    Example:
      >>> a = ft.ShapeDtypeStruct((100_000, 8), np.float32)
      >>> ft.eval_shape(lambda x: x.T @ x, a)
      ShapeDtypeStruct(shape=(8, 8), dtype=float32)
    """
    tree.check_callable(fun, "eval_shape")

    @flat.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return tree.map(_of_struct, fun(*args, **kwargs))

    return Jitted(call).eval_shape(*args, **kwargs)


def _of_struct(leaf: Any) -> Any:
    """A value of the type that a struct tells; any other leaf as it is."""
    if not isinstance(leaf, ShapeDtypeStruct):
        return leaf
    return stack.scopes[-1].wrap(const(0, leaf.dtype, leaf.shape, leaf.weak_type))


def make_graph(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that returns the graph of `fun` for its arguments; print it.

    Args:
      fun: a function of arrays.
      static_argnums: arguments that are Python values.
      return_shape: also return the shapes and dtypes of the result.

    Returns:
      f(*args, **kwargs) -> the graph as it is traced, before any pass; a pair with
      `return_shape`. `make_jaxpr` shows it in JAX's notation, `explain` what runs.

    Example:
      >>> graph = ft.make_graph(lambda x, y: fnp.sin(x) * y)(1.0, 2.0)
      >>> len(graph.inputs), [node.op.name for node in graph.outputs]
      (2, ['mul'])
    """
    tree.check_callable(fun, "make_graph")
    numbers = flat.read_argnums("make_graph", "static_argnums", static_argnums)
    jitted = Jitted(fun, arguments.Chosen(numbers))

    def graph_of(*args: Any, **kwargs: Any) -> Any:
        traced = jitted.trace(*args, **kwargs)
        if not return_shape:
            return traced.graph
        return traced.graph, jitted.eval_shape(*args, **kwargs)

    return graph_of


# Blocks that change how functions are run or shown.


@contextmanager
def disable_jit(disable: bool = True) -> Generator[None, None, None]:
    """Inside the block jitted functions run operation by operation, in NumPy.

    For debuggers: values are there, `print` prints them, loops of `lax` call their
    bodies.

    Args:
      disable: False switches `jit` on again within such a block.

    Example:
      >>> @ft.jit
      ... def f(x):
      ...     print("x is", x)
      ...     return 2 * x
      >>> with ft.disable_jit():
      ...     y = f(fnp.array(1.5))
      x is 1.5
    """
    with settings.config(disable_jit=disable):
        yield


@contextmanager
def named_scope(name: str) -> Generator[None, None, None]:
    """A block with a name, which equations of jaxprs have in their `source_info`.

    Args:
      name: of the block; names of blocks within each other are joined by "/".

    Example:
      >>> with ft.named_scope("encoder"):
      ...     y = fnp.tanh(fnp.zeros(3))
    """
    before = errors.block_names.joined
    errors.block_names.joined = f"{before}/{name}" if before else name
    errors.open_blocks.append(None)
    try:
        yield
    finally:
        errors.open_blocks.pop()
        errors.block_names.joined = before


def named_call(
    fun: Callable[..., Any] | None = None, *, name: str | None = None
) -> Callable[..., Any]:
    """`fun` under a name: what it computes is in a `named_scope`.

    Args:
      fun: a function; without it `named_call(name=...)` is a decorator.
      name: by default that of `fun`.

    Example:
      >>> ft.named_call(fnp.sin, name="wave")(0.0)
      Array(0., dtype=float32, weak_type=True)
    """
    if fun is None:
        return partial(named_call, name=name)
    return named_scope(name or name_of(fun))(fun)
