"""jit: a function is traced once per shape signature, then runs as one program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from ftrace.arrays.array import Array, is_array
from ftrace.devices.base import Bound, Device, get_device
from ftrace.errors import ArgumentError
from ftrace.ground import settings
from ftrace.ground.fork_safe import fresh_after_fork
from ftrace.ground.settings import Config
from ftrace.ground.tables import Table
from ftrace.trace.avals import ShapedArray
from ftrace.trace.calls.inline import ready_graph
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic.bounds import Sizes, evaluate_shape
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.trace import has_free_variables, trace
from ftrace.trace.tracing.tracer import Tracer, Value, aval_of
from ftrace.transforms.flatten_arguments import (
    Output,
    Travels,
    check_arguments,
    name_of,
    read_argnums,
    type_of,
)
from ftrace.transforms.jit.argument_kinds import (
    Chosen,
    Dynamic,
    Resolved,
    check_disjoint,
    chosen_arguments,
    join,
    leaves_of,
    split,
)
from ftrace.transforms.jit.compiled_graph import apply_graph, device_for, weight_of
from ftrace.transforms.jit.inspect_stages import ShapeDtypeStruct, Stages, Traced
from ftrace.transforms.jit.signature_cache import (
    CLASS_BYTES,
    SIGNATURE_BYTES,
    SIGNATURES_KEPT,
    STRUCTURES_KEPT,
    Call,
    Known,
    Ready,
    is_on_host,
    owned,
    signatures,
    types_of,
)


def jit(
    fun: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    inline: bool = False,
    dynamic: Any = None,
) -> Any:
    """Compiles a function: traced once per signature of shapes and dtypes.

    Args:
      fun: a pure function of pytrees of arrays.
      static_argnums, static_argnames: arguments that are Python values; hashable, and
        a new value traces the function again.
      donate_argnums, donate_argnames: arguments that the caller gives up: results may
        take their memory, and the arrays are deleted.
      keep_unused, inline: accepted for JAX's sake; nothing to do here.
      device: name of the device to run on; by default that of the arguments.
      dynamic: the axes of arguments whose sizes the compiled code does not know, as
        {argument: {axis: name or Dim}}: it is compiled once for all their sizes. The
        inner dicts may be leaves of a prefix of the argument's pytree.

    Returns:
      The compiled function, with `lower(*args)` to see what it became.

    Raises:
      StaticArgumentError: a static argument cannot be hashed, or does not exist.
    """
    if fun is None:
        return partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            device=device,
            dynamic=dynamic,
        )
    tree.check_callable(fun, "jit")
    static = chosen_arguments(fun, "static", static_argnums, static_argnames)
    donated = chosen_arguments(fun, "donate", donate_argnums, donate_argnames)
    check_disjoint(fun, static, donated)
    spec = None if dynamic is None else Dynamic(fun, dynamic)
    return Jitted(fun, static, donated, device, spec)


_NO_ARGUMENTS = Chosen()


#: Kinds of calls of a function that are native; the others are not.
BOUND_KEPT = 16


class Jitted(Travels):
    """A function under jit. Call it; `lower(*args)` shows what becomes of it.

    Native code finds the records of calls through a slot; calls without a record are
    `plain_call`.

    Attributes:
      trace_count: how often the function was traced.
    """

    # Not in its dict, which `functools.wraps` copies to what stands around it.
    __slots__ = (
        "__dict__", "__weakref__", "_bound", "_device", "_donated", "_dynamic", "_fun",
        "_has_static", "_known", "_links", "_lock", "_ready", "_static", "_traced",
        "trace_count",
    )  # fmt: skip

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Chosen = _NO_ARGUMENTS,
        donated: Chosen = _NO_ARGUMENTS,
        device: Any = None,
        dynamic: Dynamic | None = None,
    ) -> None:
        self._links: Any = None
        self._bound: list[Call] = []
        self._lock = fresh_after_fork(threading.RLock())
        update_wrapper(self, fun)
        self._fun = fun
        self._static = static
        self._has_static = any(static)
        self._donated = donated
        self._device = device
        self._dynamic = dynamic
        self._traced: Table[Any, Traced] = Table(latest=SIGNATURES_KEPT, own=True)
        self._ready = signatures()
        self._known: list[Known] = []
        self.trace_count = 0

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Methods: the instance is the first argument."""
        return self if instance is None else partial(self, instance)

    def plain_call(self, *args: Any, **kwargs: Any) -> Any:
        """A call in Python's code, whether or not calls like it could be native."""
        config = settings.current()
        if config.disable_jit:
            return self._fun(*args, **kwargs)
        given: Any = (args, kwargs)
        static = None
        if self._has_static:
            given, static = split(self._fun, self._static, args, kwargs)
        for known in self._known:
            if known.config is config or known.config == config:
                if static != known.static:
                    continue
                values = known.finder.arguments(*given)
                if values is None:
                    continue
                types: Any = types_of(values)
                call = known.calls.get(types)
                if call is not None and is_on_host(values):
                    ready = call.ready
                    assert ready.entry is not None
                    Table.touch(ready.entry)
                    if call.left >= 0:
                        bind = partial(known.bind, ready, types, values, tuple(kwargs))
                        self._count(call, bind)
                    elif call.bound is not None:
                        call.bound.use(config)
                    if ready.donated:
                        return self._call_and_delete(ready, values, None)
                    return ready.build(ready.run(values))
                break
        return self._call_new(config, args, kwargs, given, static)

    #: Native, once a device has native calls: see `devices.calls`.
    __call__ = plain_call

    def _call_new(
        self, config: Config, args: Any, kwargs: Any, given: Any, static: Any
    ) -> Any:
        """A call with arguments that may be of any kind."""
        values, treedef = tree.flatten(given)
        types, sizes = self._types(values, args, kwargs), None
        traced_call = any(type(x) is Tracer for x in values)
        if self._dynamic is not None and not traced_call:
            types, sizes = self._resolve(args, kwargs, treedef, given, types)
        signature = (treedef, static, config.enable_x64, types)
        if traced_call:
            return self._apply(self._trace(signature, values), values)
        device = self.target([x if type(x) is Array else asarray(x) for x in values])
        key = (signature, device.name, config.compilation)
        ready = self._ready.get(key)
        if ready is None:
            traced = self._trace(signature, values)
            if not traced.closed:
                return self._apply(traced, values)
            with self._lock:
                graph = ready_graph(traced.graph)
                donated = leaves_of(self._donated, given, static)
                ready = Ready.of(graph, device, donated, traced.output)
                ready.entry = self._ready.enter(key, ready, ready.compiled.nbytes)
        if self._dynamic is None and device.host:
            self._remember(config, signature, ready)
        if ready.donated:
            return self._call_and_delete(ready, values, sizes)
        return ready.build(ready.run(values, sizes))

    def _remember(self, config: Config, signature: Any, ready: Ready) -> None:
        """Finds the program for arguments like these without optree from now on."""
        treedef, static, _, types = signature
        with self._lock:
            for known in self._known:
                if known.is_for(config, static) and known.has_order_of(treedef):
                    break
            else:
                known = Known.of(config, static, treedef)
                if known is None:
                    return
                self._known = [known, *self._known[: STRUCTURES_KEPT - 1]]
            call = known.calls.get(types)
            if call is None or call.ready is not ready:
                known.calls[types] = Call(ready)
                ready.places.append((known, types))

    def _count(self, call: Call, bind: Callable[[], Bound | None]) -> None:
        """Counts a call; after some, those like it are native, where they can be."""
        with self._lock:
            call.left -= 1
            bound = bind() if call.left == -1 else None
            if bound is None:
                return
            call.bound = bound
            kept = [call, *self._bound[: BOUND_KEPT - 1]]
            addresses = [x.bound.address for x in kept if x.bound is not None]
            self._links = np.array([len(addresses), *addresses], np.int64)
            for other in self._bound[BOUND_KEPT - 1 :]:
                other.bound = None  # after the links, which have named it
            self._bound = kept
        bound.serve(type(self))

    def _resolve(
        self, args: Any, kwargs: Any, treedef: Any, given: Any, types: Any
    ) -> Resolved:
        assert self._dynamic is not None
        return self._dynamic.resolve(args, kwargs, treedef, given, self._static, types)

    def _call_and_delete(
        self, ready: Ready, values: Sequence[Value], sizes: Sizes | None
    ) -> Any:
        """Calls; donated arrays are deleted. One that is given twice is copied."""
        given = ready.arrays(values)
        for i in ready.donated:
            if any(x is given[i] for k, x in enumerate(given) if k != i):
                given[i] = Array.of(np.array(given[i].numpy()), given[i].weak_type)
            given[i] = owned(values[i], given[i])
        try:
            results = ready.compiled([*given, *ready.captured], sizes)
        finally:
            for i in ready.donated:
                value = values[i]
                if is_array(value):
                    value.delete()
        return ready.build(results)

    def target(self, arrays: Sequence[Array]) -> Device:
        """The device that the function was given, else that of its arguments."""
        if self._device is not None:
            return get_device(self._device)
        return device_for(arrays)

    def _apply(self, traced: Traced, values: Sequence[Value]) -> Any:
        return traced.output.build(apply_graph(traced.graph, values))

    def _types(
        self, values: Sequence[Value], args: Any, kwargs: Any
    ) -> tuple[ShapedArray, ...]:
        try:
            return tuple(aval_of(x) for x in values)
        except ArgumentError:
            static = {*self._static.positions(len(args)), *self._static.names}
            check_arguments(self._fun, args, kwargs, static)
            raise

    def _trace(self, signature: Any, values: Sequence[Value]) -> Traced:
        """The graph for a signature: from the cache, or traced now."""
        with self._lock:
            found = self._traced.get(signature)
            if found is not None:
                return found
            treedef, static, _, avals = signature

            def call(*tracers: Value) -> Any:
                args, kwargs = join(tree.unflatten(treedef, tracers), static)
                return self._fun(*args, **kwargs)

            output = Output(call, "jit", False)
            output.function.__name__ = name_of(self._fun)
            self.trace_count += 1
            graph = trace("jit", output, avals, exact=True)
            traced = Traced(graph, output, not has_free_variables(graph))
            if traced.closed:  # another is good for this call only
                own = CLASS_BYTES * len(tree.classes_of(treedef)) + SIGNATURE_BYTES
                self._traced.put(signature, traced, weight_of(graph) + own)
            return traced

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The graph for these arguments; arrays or shapes with dtypes."""
        return self._traced_at(args, kwargs)[0]

    def _traced_at(self, args: Any, kwargs: Any) -> tuple[Traced, Sizes]:
        """The graph, and the sizes of dynamic dimensions that are none in it."""
        given, static = split(self._fun, self._static, args, kwargs)
        leaves, treedef = tree.flatten(given)
        avals, sizes = tuple(type_of(x) for x in leaves), None
        if self._dynamic is not None:
            avals, sizes = self._resolve(args, kwargs, treedef, given, avals)
        x64 = settings.current().enable_x64
        return self._trace((treedef, static, x64, avals), leaves), sizes or {}

    def lower(self, *args: Any, **kwargs: Any) -> Stages:
        """What becomes of the function for these arguments, stage by stage."""
        given, static = split(self._fun, self._static, args, kwargs)
        donated = leaves_of(self._donated, given, static)
        traced = self.trace(*args, **kwargs)
        return Stages(self, traced, self.target(()), donated)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and dtypes of the result, without computing it."""
        traced, sizes = self._traced_at(args, kwargs)
        types = [
            ShapeDtypeStruct(evaluate_shape(n.shape, sizes), n.dtype, n.aval.weak_type)
            for n in traced.graph.outputs
        ]
        return traced.output.build(types)

    def clear_cache(self) -> None:
        """Forgets all that was traced and compiled for this function."""
        self._traced.clear()
        self._ready.clear()
        self._known, self._bound = [], []
        self._links = None

    def reduced(self, protocol: Any) -> Any:
        dynamic = None if self._dynamic is None else self._dynamic.given
        parts = self._fun, self._static, self._donated, self._device, dynamic
        return _made_of, parts

    def __repr__(self) -> str:
        return f"<jit of {name_of(self._fun)}>"


def _made_of(
    fun: Callable[..., Any], static: Chosen, donated: Chosen, device: Any, dynamic: Any
) -> Jitted:
    spec = None if dynamic is None else Dynamic(fun, dynamic)
    return Jitted(fun, static, donated, device, spec)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and dtypes of what `fun` returns, without computing anything."""
    return Jitted(fun).eval_shape(*args, **kwargs)


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
    """
    tree.check_callable(fun, "make_graph")
    numbers = read_argnums("make_graph", "static_argnums", static_argnums)
    jitted = Jitted(fun, Chosen(numbers))

    def graph_of(*args: Any, **kwargs: Any) -> Any:
        traced = jitted.trace(*args, **kwargs)
        if not return_shape:
            return traced.graph
        return traced.graph, jitted.eval_shape(*args, **kwargs)

    return graph_of


# Blocks that change how functions are run or shown.


@contextmanager
def disable_jit(disable: bool = True) -> Generator[None, None, None]:
    """Inside the block jitted functions run operation by operation, in NumPy."""
    with settings.config(disable_jit=disable):
        yield


@contextmanager
def named_scope(name: str) -> Generator[None, None, None]:
    """A block with a name. It changes nothing: origins name the user's lines."""
    yield


def named_call(
    fun: Callable[..., Any] | None = None, *, name: str | None = None
) -> Callable[..., Any]:
    """`fun` under a name; see `named_scope`."""
    if fun is None:
        return partial(named_call, name=name)
    return fun
