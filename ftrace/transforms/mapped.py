"""Functions mapped over the devices of a mesh: `pmap` and `shard_map`.

The devices of a process are the host's cores, and share its memory. So a function of
parts is a function of lanes: the axes along which a spec divides an array are split,

    spec P("y", None) on a mesh of x: 2, y: 4        x  y
    (8, 6)  ->  (4, 2, 6)                            ·  4   and in each lane (2, 6)

and `vmap` runs it along each axis of the mesh, by name: `lax.psum(x, "y")` in the
function is a sum over the lanes, in the kernels of one program. A result that a spec
says is the same on all devices of an axis must not differ along that axis, which a walk
over the graph tells (`trace/calls/varying.py`; JAX's `check_vma`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from functools import partial
from typing import Any

from ftrace import errors
from ftrace.backends.base import Device, devices_of
from ftrace.ground import processes
from ftrace.ground.fast_dataclasses import dataclass
from ftrace.trace import flatten_arguments as flat
from ftrace.trace.arrays.array import given_sharding
from ftrace.trace.calls.varying import varying_here
from ftrace.trace.flatten_arguments import name_of
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing import tracer
from ftrace.trace.tracing.scopes import asarray
from ftrace.trace.tracing.tracer import Function, stack
from ftrace.transforms import meshes, vmap as vm
from ftrace.transforms.device_placement import device_put, put_by
from ftrace.transforms.jit.argument_kinds import Chosen, join, split as separate
from ftrace.transforms.jit.jit import jit
from ftrace.transforms.meshes import AxisType, Mesh, PartitionSpec, get_mesh
from ftrace.transforms.partition import spanning
from ftrace.transforms.partition.spanning import Spanning, of_process
from ftrace.transforms.partition.specs import merge_by, split_by
from ftrace.transforms.shardings import NamedSharding, as_sharding, check_together


class _Axis:
    """The name of an axis that the user has not named."""

    def __repr__(self) -> str:
        return "<axis of pmap>"


class _Around(threading.local):
    """The devices that `pmap`s around one that is traced have: one each of it."""

    devices: int = 1

    @contextmanager
    def those_of(self, size: int) -> Generator[None]:
        before, self.devices = self.devices, self.devices * size
        try:
            yield
        finally:
            self.devices = before


_around = _Around()


def pmap(
    fun: Callable[flat.P, flat.R],
    axis_name: Hashable = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Iterable[int] = (),
    devices: Sequence[Device] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Iterable[int] = (),
    global_arg_shapes: Any = None,
) -> Callable[flat.P, flat.R]:
    """`fun`, compiled, for each element along an axis of its arguments on a device.

    Args:
      fun: a function of arrays without that axis.
      axis_name: what collectives in `fun` call the axis.
      in_axes, out_axes: as those of `vmap`.
      static_broadcasted_argnums: arguments that are Python values.
      devices: as many as the axis is long; by default the first ones.
      backend: where it runs.
      axis_size: the size of the axis.
      donate_argnums: arguments that the caller gives up.
      global_arg_shapes: accepted for JAX's sake.

    Returns:
      A function of arguments that have the axis. Its results have it too.

    Raises:
      ShardingError: the axis is longer than there are devices; over several processes,
        it has not one element for each of this one's devices.
      UnsupportedError: over several processes, within jit, grad or vmap.
      ValueRangeError: no argument is mapped, or one without axes; `devices` is empty.

    Example:
      >>> f = ft.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i")
      >>> f(fnp.array([[2.0, 8.0]]))  # of as many rows as there are devices
      Array([[1., 1.]], dtype=float32)
    """
    tree.check_callable(fun, "pmap")
    vm.check_axes("pmap", "in_axes", in_axes)
    vm.check_axes("pmap", "out_axes", out_axes)
    given: Any = static_broadcasted_argnums
    static = flat.read_argnums("pmap", "static_broadcasted_argnums", given)
    chosen = None if devices is None else list(devices)
    if chosen == []:
        raise errors.ValueRangeError(
            "'devices' argument to pmap must be non-empty, or None"
        )
    name = _Axis() if axis_name is None else axis_name
    one = _Pmap(fun, name, in_axes, out_axes, static, chosen, backend, axis_size)

    def call(*args: Any, **kwargs: Any) -> Any:
        return one.in_process(*args, **kwargs)

    def mapped_across(*args: Any, **kwargs: Any) -> Any:
        return one.across(*args, **kwargs)

    across = jit(flat.wraps(fun)(mapped_across), static_argnums=static)
    compiled: Any = jit(
        flat.wraps(fun)(call), static_argnums=static,
        device=chosen[0] if chosen else backend,
        donate_argnums=flat.read_argnums("pmap", "donate_argnums", donate_argnums),
    )  # fmt: skip

    @flat.wraps(fun, "pmap")
    def pmap_f(*args: Any, **kwargs: Any) -> Any:
        size = _size(fun, args, kwargs, one.axes_of(args), axis_size)
        found = one.devices
        if any(device.process_index != processes.index() for device in found):
            args, kwargs = one.shards_of_all(size, args, kwargs)
            return tree.map(spanning.own_shard, across(*args, **kwargs))
        one.check_devices(size)
        with _around.those_of(size):
            result = compiled(*args, **kwargs)
        mesh = Mesh(found[:size], (name,))
        return _put_along(mesh, out_axes, result) if size > 1 else result

    shown: Any = pmap_f
    shown.lower, shown.trace = compiled.lower, compiled.trace
    shown.clear_cache = compiled.clear_cache
    return pmap_f


@dataclass(frozen=True, eq=False)
class _Pmap:
    """What `pmap` was given: see there.

    Attributes:
      static: the positions of arguments that are Python values.
      chosen: the devices that were named; None is all.
    """

    fun: Function
    name: Hashable
    in_axes: Any
    out_axes: Any
    static: Sequence[int]
    chosen: list[Device] | None
    backend: str | None
    axis_size: int | None

    @property
    def devices(self) -> list[Device]:
        return devices_of(self.backend) if self.chosen is None else self.chosen

    def axes_of(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """That of each argument; Python values have none."""
        several = isinstance(self.in_axes, tree.SEQUENCES)
        axes = enumerate(self.in_axes if several else [self.in_axes] * len(args))
        fixed = {*self.static, *[i + len(args) for i in self.static]}
        return tuple([None if i in fixed else axis for i, axis in axes])

    def _moving(
        self, args: Sequence[Any], kwargs: Any
    ) -> tuple[list[Any], list[Any], Callable[[Sequence[Any]], Any]]:
        """The leaves of a call that are arrays, their axes, and a call of others."""
        static = Chosen(tuple(self.static))
        given, key = separate(self.fun, static, args, kwargs)
        leaves, treedef = tree.flatten(given)
        fixed = static.positions(len(args))
        axes = [a for i, a in enumerate(self.axes_of(args)) if i not in fixed]

        def with_leaves(leaves: Sequence[Any]) -> Any:
            return join(tree.unflatten(treedef, leaves), key)

        places = vm.axes_of_leaves("pmap", axes, list(given[0]), len(leaves))
        return leaves, places, with_leaves

    def in_process(self, *args: Any, **kwargs: Any) -> Any:
        """The function over lanes, to be compiled."""

        def with_axes(places: Any) -> Any:
            axes = self.axes_of(args)
            size = self.axis_size
            run = vm.over_lanes("pmap", self.fun, axes, places, self.name, size)
            return run(*args, **kwargs)

        return _lanes_or_one(with_axes, self.out_axes)

    def across(self, *args: Any, **kwargs: Any) -> Any:
        """The same over the devices of several processes, in a trace."""
        mesh, axes = Mesh(self.devices, (self.name,)), self.axes_of(args)
        leaves, places, with_leaves = self._moving(args, kwargs)

        def one(*leaves: Any) -> Any:
            values, named = with_leaves(leaves)
            return _lanes_or_one(
                lambda out: vm.over_lanes("pmap", self.fun, axes, out)(
                    *values, **named
                ),
                self.out_axes,
            )

        specs = tuple([_spec_along(mesh, a) for a in places])
        along = partial(_spec_along, mesh)
        outs = tree.map(along, self.out_axes, is_leaf=lambda a: a is None)
        mapped = shard_map(
            one, mesh=mesh, in_specs=specs, out_specs=outs, check_vma=False
        )
        return mapped(*leaves)

    def shards_of_all(self, size: int, args: Any, kwargs: Any) -> Any:
        """The arguments, of which the mapped ones are over all processes.

        Raises:
          ShardingError: there is not one element for each device of this process.
          UnsupportedError: it is traced.
        """
        if stack.scopes:
            raise errors.UnsupportedError(
                f"pmap of {name_of(self.fun)} is over the devices of several "
                f"processes, within {stack.scopes[-1].transform}: there each process "
                "has values of its own, of which one program for all knows nothing. "
                "Call it outside, with jit, grad and vmap within it, or write "
                "shard_map; devices=ft.local_devices() maps over this process's alone"
            )
        mesh = Mesh(self.devices, (self.name,))
        own = len(mesh.local_mesh.devices.ravel())
        if any(type(x) is Spanning for x in tree.leaves((args, kwargs))):
            own = len(self.devices)
        if not same_size(size, own):
            raise errors.ShardingError(
                f"pmap of {name_of(self.fun)}: over several processes the mapped axis "
                f"has an element for each of the {own} devices of this one, got "
                f"{size}; devices=ft.local_devices() maps over these alone"
            )
        leaves, places, with_leaves = self._moving(args, kwargs)
        made = [
            x if a is None or type(x) is Spanning
            else of_process(asarray(x), NamedSharding(mesh, _spec_along(mesh, a)))
            for x, a in zip(leaves, places, strict=True)
        ]  # fmt: skip
        return with_leaves(made)

    def check_devices(self, size: int) -> None:
        """Raises ShardingError where there are too few devices, or others are named."""
        needed, found = size * _around.devices, len(self.devices)
        if needed > found or (self.chosen and not same_size(size, found)):
            raise errors.ShardingError(
                f"pmap of {name_of(self.fun)}: compiling computation that requires "
                f"{needed} logical devices, but {found} are available "
                f"(num_replicas={needed}); FTRACE_CPU_DEVICES sets how many, and vmap "
                "has lanes on one"
            )


def _spec_along(mesh: Mesh, axis: int | None) -> PartitionSpec:
    if axis is not None and axis < 0:
        raise errors.ValueRangeError(
            f"pmap over several processes: axes are counted from the front, got {axis}"
        )
    along = () if axis is None else (*[None] * axis, *mesh.axis_names)
    return PartitionSpec(*along)


def _lanes_or_one(mapped: Callable[[Any], Any], out_axes: Any) -> Any:
    """The results with their axis; without it where out_axes has None: of one lane."""

    def is_none(x: Any) -> bool:
        return x is None

    result = mapped(
        tree.map(lambda a: 0 if a is None else a, out_axes, is_leaf=is_none)
    )
    return tree.map_prefix(
        lambda x, a: x[0] if a is None else x, result, out_axes, "pmap: out_axes"
    )


def _put_along(mesh: Mesh, out_axes: Any, result: Any) -> Any:
    """The results of `pmap`, each divided along its axis of the devices."""

    def put_along(x: Any, axis: int | None) -> Any:
        if isinstance(x, tracer.Tracer):
            return x
        axis = None if axis is None else axis % x.ndim
        return _put(x, mesh, _spec_along(mesh, axis))

    return tree.map_prefix(put_along, result, out_axes, "pmap: out_axes")


def _size(fun: Any, args: Any, kwargs: Any, axes: Any, axis_size: Any) -> int:
    """How long the axis is; raises where there is none."""
    leaves = tree.leaves((args, kwargs))
    places = vm.axes_of_leaves("pmap", axes, args, len(leaves))
    sizes = {axis_size} - {None}
    for x, axis in zip(leaves, places, strict=True):
        if axis is None:
            continue
        if not tracer.is_value(x):
            flat.flatten_values((args, kwargs), "pmap: the argument ")
        shape = tracer.aval_of(x).shape
        place = vm.normal_axis("pmap", axis, x) if shape else None
        sizes.add(None if place is None else shape[place])
    if not sizes or None in sizes:
        got = "a scalar, which has no axis; in_axes None gives it to all devices"
        raise errors.ValueRangeError(
            f"pmap of {name_of(fun)}: pmap requires at least one argument with a "
            f"mapped axis, got {got if sizes else 'none'}"
        )
    return max(sizes)  # `vmap` says where they differ


# Over a mesh.


def _put(
    x: Any, mesh: Any, spec: PartitionSpec, free: frozenset[Any] = frozenset()
) -> Any:
    """A value that is divided so over the devices; in a trace it is said to be.

    Args:
      free: axes of the mesh along which a traced value is as it was.
    """
    what = "with_sharding_constraint" if isinstance(x, tracer.Tracer) else "device_put"
    known = isinstance(mesh, Mesh) and mesh.size > 1
    return put_by(x, NamedSharding(mesh, spec), what, free) if known else x


def _divide(x: Any, spec: Any, sizes: Mapping[Any, int]) -> Any:
    """A whole array with each axis of the mesh that the spec names in front.

    Args:
      sizes: of the axes of the mesh, in its order.
    """
    x = x if isinstance(x, tracer.Tracer) else asarray(x)
    shape, order = split_by(x.shape, meshes.names_by_axis(spec, x.ndim), sizes)
    return x.reshape(shape).transpose(order)


def _join(x: Any, spec: Any, sizes: Mapping[Any, int]) -> Any:
    """`_divide` back: of one with axes of the mesh in front the whole array."""
    spec = meshes.names_by_axis(spec or (), x.ndim - len(_names_of(spec)))
    order, shape = merge_by(x.shape, spec, sizes)
    return x.transpose(order).reshape(shape)


@flat.decorator
def shard_map(
    f: Any = None, /, *, out_specs: Any = None, in_specs: Any = None, mesh: Any = None,
    axis_names: Any = frozenset(), check_vma: bool = True, check_rep: bool = True,
    auto: Any = frozenset(),
) -> Any:  # fmt: skip
    """`f` of the parts of its arguments on the devices of a mesh.

    Args:
      f: a function of arrays.
      out_specs, in_specs: a `PartitionSpec` for each result and argument, or prefixes
        of their pytrees.
      mesh: by default that of a `shard_map` around this one, or of `set_mesh`.
      axis_names: a set of the axes of the mesh that specs may name, and collectives in
        `f` use; all by default. Along the others `f` sees whole arrays, which are
        divided along them as `jit` finds.
      check_vma, check_rep: False takes a result that `out_specs` says is the same along
        an axis from the first device, without a proof that it is.
      auto: the axes that are not in `axis_names`.

    Returns:
      A function of whole arrays, to whole arrays.

    Raises:
      ArgumentError: `axis_names` is no set.
      ShardingError: an argument was put on other devices than those of the mesh.
      ValueRangeError: the mesh has no axes, or not one that a spec or `axis_names`
        names, or `axis_names` lacks it; a result differs along an axis that its spec
        does not name.
      ShapeError: a spec is longer than an array has axes, or does not divide one.

    Example:
      >>> mesh = ft.make_mesh((1,), ("x",))  # of as many devices as there are
      >>> f = ft.shard_map(lambda part: lax.psum(part.sum(), "x"), mesh=mesh,
      ...                  in_specs=ft.P("x"), out_specs=ft.P())
      >>> f(fnp.array([1.0, 2.0, 3.0]))
      Array(6., dtype=float32)
    """
    tree.check_callable(f, "shard_map")
    _check_sets(axis_names=axis_names, auto=auto)

    def over(own: Any, across: bool, args: Sequence[Any]) -> Any:
        around = {axis.name for axis in stack.axes if axis.devices}
        manual = {*(axis_names or {*own.axis_names} - around)} - {*auto}
        free = frozenset(own.axis_names) - manual - around
        if free and not (across or stack.scopes):
            # How the others divide the results is known of a program alone.
            return jit(lambda *args: over(own, False, args))(*args)
        alone: _Axes = {name: (None, n) for name, n in own.shape_tuple}
        known: _Axes = spanning.split(own) if across else alone
        axes = {name: known[name] for name in own.axis_names if name in manual}
        specs = _specs_of(f, own, in_specs, args)
        _check_manual(manual, own, "in_specs", specs)
        _check_are_specs("out_specs", out_specs)
        _check_manual(manual, own, "out_specs", tree.leaves(out_specs))
        leaves, treedef = tree.flatten(args)
        rows = zip(leaves, specs, strict=True)
        parts = [_part(own, across, x, spec, free) if spec else x for x, spec in rows]
        args = tree.unflatten(treedef, parts)
        run = _in_lanes(f, own, axes, specs, out_specs, check_vma and check_rep)
        result = run(*args)
        return _join_results(f, own, axes, out_specs, result, across, free)

    def together(own: Any, *args: Any) -> Any:
        return over(own, True, args)

    together.__name__ = together.__qualname__ = name_of(f)
    in_processes = jit(together, static_argnums=0)

    @flat.wraps(f, "shard_map")
    def shard_map_f(*args: Any) -> Any:
        own = _mesh_or_around(mesh)
        across = isinstance(own, Mesh) and own.is_multi_process
        leaves, treedef = tree.flatten(args)
        if not stack.scopes:
            check_together([own, *map(given_sharding, leaves)])
        if not across:
            return over(own, False, args)
        if stack.scopes:
            lifted = list(map(spanning.lift, leaves))
            return over(own, True, tree.unflatten(treedef, lifted))
        # The processes do it together: nothing of it is done before the others come.
        specs = _specs_of(f, own, in_specs, args)
        rows = zip(leaves, specs, strict=True)
        args = tree.unflatten(treedef, [_put(x, own, s) if s else x for x, s in rows])
        return tree.map_prefix(
            lambda x, s: _put(x, own, s or PartitionSpec()),
            in_processes(own, *args), out_specs, "shard_map out_specs",
        )  # fmt: skip

    return shard_map_f


def _mesh_or_around(mesh: Any) -> Any:
    """The mesh that was given, or that of a `shard_map` around, or of `set_mesh`."""
    around = [axis.devices for axis in stack.axes if axis.devices]
    own: Any = [get_mesh(), *around][-1] if mesh is None else mesh
    if not getattr(own, "axis_names", ()):
        raise errors.ValueRangeError(
            "The context mesh cannot be empty: shard_map needs a mesh with axes, "
            f"got {own!r}; give it mesh=, or call it within ft.set_mesh(mesh)"
        )
    return own


def _part(own: Any, across: bool, x: Any, spec: Any, free: frozenset[Any]) -> Any:
    """Of an argument that which this process runs over."""
    if across:
        return spanning.local_shard(x, NamedSharding(own, spec))
    return _put(x, own, spec, free) if isinstance(x, tracer.Tracer) else x


#: Of each axis of a mesh, in its order: the processes along it (None: one), and how
#: many devices each has there.
_Axes = Mapping[Any, tuple[Any, int]]


def _in_lanes(
    f: Function, mesh: Any, axes: _Axes, specs: Sequence[Any], out_specs: Any,
    proved: bool,
) -> Function:  # fmt: skip
    """`f` in a lane for each device: its arguments are cut, its results are not joined.

    Args:
      specs: of each leaf of the arguments.
      proved: a result has no lanes along an axis that its spec does not name.
    """

    def lanes_f(*args: Any) -> Any:
        leaves, treedef = tree.flatten(args)

        def of_parts(*leaves: Any) -> Any:
            found = [tracer.axis_of(name, "shard_map") for name in axes]
            names = [frozenset(_names_of(spec)) for spec in specs]
            _note(leaves, names)
            _note([a.index for a in found], [frozenset([a.name]) for a in found])
            with tracer.bind_axes(
                *[tracer.Axis(a.name, a.size, a.index, mesh, proved) for a in found]
            ):
                result = f(*tree.unflatten(treedef, leaves))
                if proved:
                    _check_shared(f, [*axes], out_specs, result)
                return result

        of_parts.__name__ = name_of(f)
        run: Function = of_parts
        for name, (ranks, lanes) in reversed([*axes.items()]):
            into = tuple([0 if name in _names_of(spec) else None for spec in specs])

            def out_axis(spec: Any, name: Any = name) -> Any:
                return 0 if name in _names_of(spec) else vm.SHARED

            out = tree.map(out_axis, out_specs)
            run = vm.over_lanes("shard_map", run, into, out, name, lanes, ranks)
        sizes = {name: lanes for name, (_, lanes) in axes.items()}
        rows = zip(leaves, specs, strict=True)
        return run(*[_divide(x, spec, sizes) if spec else x for x, spec in rows])

    return lanes_f


def _note(leaves: Sequence[Any], names: Sequence[frozenset[Any]]) -> None:
    """Notes along which axes arguments differ."""
    for x, own in zip(leaves, names, strict=True):
        if isinstance(x, tracer.Tracer):
            x.scope.varies = {**x.scope.varies, x.node: own}


def _check_shared(f: Any, axes: Sequence[Any], out_specs: Any, result: Any) -> None:
    """Raises where a result differs along an axis that its spec does not name."""
    along = varying_here()
    assert along is not None
    sizes = {name: tracer.axis_of(name, "shard_map").size for name in axes}
    places = tree.broadcast_prefix(out_specs, result, "shard_map out_specs")
    for x, spec in zip(tree.leaves(result), places, strict=True):
        found = [
            axis.name for axis in along.axes_named(along.of(x)) if axis.name in sizes
        ]
        named = _names_of(spec)
        more = [name for name in found if name not in named]
        if more:
            implied = "result is the same on all devices, but it may differ along "
            if named:
                implied = (
                    "corresponding output value is only varying across mesh axes "
                    f"{_list(named)} and not {_list(more)}, but it was inferred to be "
                    "possibly varying over "
                )
            raise errors.ValueRangeError(
                f"shard_map applied to the function {name_of(f)!r} was given out_specs "
                "which require replication which can't be statically inferred given "
                f"the mesh {sizes}: out_specs is {spec} which implies that the "
                f"{implied}{_list(found)}. Name {_list(more)} in the spec, take a psum "
                "along it, or pass check_vma=False"
            )


def _list(names: Iterable[Any]) -> str:
    return "{" + ",".join(sorted(map(str, names))) + "}"


def _join_results(
    f: Any, mesh: Any, axes: _Axes, out_specs: Any, result: Any, across: bool,
    free: frozenset[Any],
) -> Any:  # fmt: skip
    """The results of all lanes as whole arrays, divided over the devices."""
    sizes = {name: lanes for name, (_, lanes) in axes.items()}

    def join_lanes(x: Any, spec: Any) -> Any:
        named = _names_of(spec)
        front = len([name for name in sizes if name in named])
        _check_spec(f, mesh, "out_specs", spec, x.shape[front:])
        spec = spec or PartitionSpec()
        x = _join(x, spec, sizes)
        if not across:
            return _put(x, mesh, spec, free)
        return (
            spanning.join(spanning.lift(x), NamedSharding(mesh, spec)) if named else x
        )

    return tree.map_prefix(join_lanes, result, out_specs, "shard_map out_specs")


def _names_of(spec: Any) -> list[Any]:
    return [name for part in spec or () for name in meshes.names_in(part)]


def _specs_of(f: Any, mesh: Any, specs: Any, values: Any) -> list[Any]:
    """The spec of each argument; raises where it does not fit the mesh or that."""
    if specs is None:
        return [PartitionSpec()] * len(tree.leaves(values))
    _check_are_specs("in_specs", specs)
    found = tree.broadcast_prefix(specs, values, "shard_map in_specs")
    rows = tree.leaves_with_path(values)
    for spec, (path, value) in zip(found, rows, strict=True):
        shape, name = tracer.aval_of(value).shape, f"args{tree.keystr(path)}"
        _check_spec(f, mesh, "in_specs", spec, shape, f": {name}")
        for axis, (n, entry) in enumerate(zip(shape, spec or (), strict=False)):
            parts = math.prod(mesh.shape[name] for name in meshes.names_in(entry))
            if n % parts:
                raise errors.ShapeError(
                    f"shard_map applied to the function {name_of(f)!r} was given "
                    f"argument arrays with axis sizes that are not evenly divisible by "
                    f"the corresponding mesh axis sizes: axis {axis} of size {n} of "
                    f"{name}, of shape {tuple(shape)}, along {entry!r} of size {parts}"
                )
    return found


def _check_are_specs(what: str, specs: Any) -> None:
    for path, spec in tree.leaves_with_path(specs):
        if not isinstance(spec, PartitionSpec):
            raise errors.ArgumentError(
                f"shard_map {what} argument must be a pytree of PartitionSpec, but "
                f"{what}{tree.keystr(path)} is {spec!r:.60}, of type "
                f"{type(spec).__name__}"
            )


def _check_names(mesh: Any, what: str, spec: Any) -> None:
    for name in _names_of(spec):
        if name not in mesh.axis_names:
            raise errors.ValueRangeError(
                f"shard_map {what} argument must refer to an axis of the mesh, "
                f"which has {mesh.axis_names}, but it refers to {name!r}"
            )
    for word in ("unreduced", "reduced"):
        sums = getattr(spec, word, ())
        if sums and not {*mesh.axis_names} <= {*mesh.explicit_axes}:
            raise errors.ValueRangeError(
                f"{word} in {what} {spec} can only be used when the mesh passed to "
                "shard_map contains axis names all of type `Explicit`, and it is "
                f"{mesh}; leave it out: lax.psum takes sums along {_list(sums)}"
            )
    if spec is not None and spec.unreduced:
        raise errors.UnsupportedError(
            f"shard_map: {what} {spec} is of values of which a sum along "
            f"{_list(spec.unreduced)} is still to be taken; here a function takes "
            "and gives sums that were taken: write lax.psum within it"
        )
    if spec:
        NamedSharding(mesh, spec)  # raises where it names an axis twice


def _check_manual(
    manual: Collection[Any], mesh: Any, what: str, specs: Iterable[Any]
) -> None:
    """Raises where the mesh has not these axes, or a spec names another one."""
    if unknown := [name for name in manual if name not in mesh.axis_names]:
        raise errors.ValueRangeError(
            f"shard_map requires axis_names={_list(manual)} to be a subset of those of "
            f"the mesh, {mesh.axis_names}, which has no {_list(unknown)}"
        )
    for spec in specs:
        _check_names(mesh, what, spec)
        if more := [name for name in _names_of(spec) if name not in manual]:
            raise errors.ValueRangeError(
                f"shard_map {what} argument must refer to an axis marked as manual "
                f"({_list(manual)}), but {spec} refers to {_list(more)}: add it to "
                "axis_names, or leave it out of the spec; along it the function sees "
                "whole arrays"
            )


def _check_sets(**given: Any) -> None:
    for what, names in given.items():
        if not isinstance(names, (set, frozenset)):
            raise errors.ArgumentError(
                f"shard_map: {what} must be a set of names of axes of the mesh, got "
                f'{names!r}: write {what}={{"x"}}'
            )


def _check_spec(
    f: Any, mesh: Any, what: str, spec: Any, shape: Sequence[int], name: str = ""
) -> None:
    """Raises where a spec does not fit the mesh, or an array of this shape."""
    _check_names(mesh, what, spec)
    if len(spec or ()) > len(shape):
        raise errors.ShapeError(
            f"shard_map applied to the function {name_of(f)!r} was given an {what} "
            f"entry which is too long to be compatible with the corresponding "
            f"value{name}: {spec} has length {len(spec)}, the value shape "
            f"{tuple(shape)}"
        )


@flat.decorator
def smap(
    f: Any = None, /, *, in_axes: Any = None, out_axes: Any = None,
    axis_name: Any = None,
) -> Any:  # fmt: skip
    """`shard_map` along one axis of the mesh of `set_mesh`: by axes, not by specs.

    Args:
      f: a function; without it, `smap(in_axes=...)` is a decorator.
      in_axes, out_axes: which axis of each argument and result is divided; None is
        none. Prefixes of their pytrees.
      axis_name: the axis of the mesh.
    """

    def spec(axis: Any) -> Any:
        if axis is None:
            return PartitionSpec()
        return PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        return tree.map(spec, axes, is_leaf=lambda x: x is None or flat.is_int(x))

    into, out = specs(in_axes), specs(out_axes)
    return shard_map(f, in_specs=into, out_specs=out, axis_names={axis_name})


# Where arrays are.


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The arrays of a tree, placed as shardings say: within a program as they are.

    Args:
      x: a pytree of arrays.
      shardings: a sharding, a `PartitionSpec` along the mesh of `set_mesh`, or within
        `shard_map` along its mesh, or a prefix of the tree of them.

    Raises:
      ShardingError: a mesh has several devices, or there is none for a spec.
      ShapeError: an array cannot be divided so.
      ValueRangeError: within `shard_map`, along an axis of its devices.

    Example:
      >>> mesh = ft.make_mesh((1,), ("data",))
      >>> place = ft.NamedSharding(mesh, ft.P("data"))
      >>> ft.jit(lambda x: lax.with_sharding_constraint(2 * x, place))(fnp.ones(2))
      Array([2., 2.], dtype=float32)
    """
    what = "with_sharding_constraint"
    around = [axis for axis in stack.axes if axis.devices]
    manual = {axis.name for axis in around}

    def place_by(leaf: Any, place: Any) -> Any:
        if around and isinstance(place, PartitionSpec):
            place = NamedSharding(around[-1].devices, place)
        place = as_sharding(place, what)
        if own := manual & {*_names_of(getattr(place, "spec", ()))}:
            raise errors.ValueRangeError(
                f"{what}: {place.spec} contains a manual axes {_list(own)} of mesh "
                f"{place.mesh}: within shard_map each device has its own part along "
                "them"
            )
        check_together([given_sharding(leaf), place])
        return put_by(leaf, place, what)

    return tree.map_prefix(place_by, x, shardings, f"{what}: shardings")


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The arrays of a tree under other shardings: `device_put`.

    Args:
      xs: a pytree of arrays.
      out_shardings: a sharding, a spec along the mesh of `set_mesh`, or a prefix of the
        tree of these.
    """
    return device_put(xs, out_shardings)


@flat.decorator
def auto_axes(f: Any = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """`f`, in which nobody says how arrays are divided; its results are `out_sharding`.

    Args:
      f: a function; without it, `auto_axes(axes=...)` is a decorator.
      axes: accepted, without effect.
      out_sharding: as of `reshard`; if it is None, a call of the function says it by a
        keyword of this name. It is not looked at where no axis of the mesh is explicit.

    Raises:
      ArgumentError: a call, where neither says it.
    """

    @flat.wraps(f)
    def auto_f(*args: Any, **kwargs: Any) -> Any:
        place = _read_specs("auto_axes", "out_sharding", out_sharding, kwargs)
        result = f(*args, **kwargs)
        explicit = AxisType.Explicit in get_mesh().axis_types
        return reshard(result, place) if explicit else result

    return auto_f


@flat.decorator
def explicit_axes(
    f: Any = None, /, *, axes: Any = None, in_sharding: Any = None
) -> Any:
    """`f` of arguments that are put by `in_sharding`: as `auto_axes`.

    Args:
      f: a function; without it, `explicit_axes(axes=...)` is a decorator.
      axes: accepted, without effect.
      in_sharding: of the arguments.
    """

    @flat.wraps(f)
    def explicit_f(*args: Any, **kwargs: Any) -> Any:
        place = _read_specs("explicit_axes", "in_sharding", in_sharding, kwargs)
        return f(*(reshard(args, place) if get_mesh().axis_names else args), **kwargs)

    return explicit_f


def _read_specs(what: str, name: str, given: Any, kwargs: dict[str, Any]) -> Any:
    found = kwargs.pop(name, None) if given is None else given
    if found is None:
        raise errors.ArgumentError(
            f"{what} needs {name}: a spec of each value, given with the function or "
            f"where it is called, f(…, {name}=PartitionSpec(…))"
        )
    return found
