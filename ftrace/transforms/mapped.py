"""Functions mapped over the devices of a mesh: JAX's names, on one device.

The axes of the mesh have size 1, and names: `lax.psum(x, "data")` in the function acts
along them, as along the axes of `vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any

from ftrace.backends.base import Device
from ftrace.errors import DeviceError, ShapeError, ValueRangeError
from ftrace.trace.flatten_arguments import is_int, name_of, read_argnums, wraps
from ftrace.trace.pytree import tree
from ftrace.trace.symbolic import same_size
from ftrace.trace.tracing.tracer import aval_of, is_value
from ftrace.transforms.device_placement import device_put, put_by
from ftrace.transforms.jit.jit import jit
from ftrace.transforms.meshes import PartitionSpec, get_mesh, names_in
from ftrace.transforms.shardings import named
from ftrace.transforms.vmap import vmap

Function = Callable[..., Any]
_SEVERAL: tuple[type[Any], ...] = (tuple, list)


class _Axis:
    """The name of an axis that the user has not named."""

    def __repr__(self) -> str:
        return "<axis of pmap>"


def pmap(
    fun: Function,
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
) -> Function:
    """`fun`, compiled, for each element along an axis of its arguments on a device.

    There is one device: the axis must have size 1.

    Args:
      fun: a function of arrays without that axis.
      axis_name: what collectives in `fun` call the axis.
      in_axes, out_axes: as those of `vmap`.
      static_broadcasted_argnums: arguments that are Python values.
      devices: at most one.
      backend: where it runs.
      axis_size: the size of the axis.
      donate_argnums: arguments that the caller gives up.
      global_arg_shapes: accepted for JAX's sake.

    Raises:
      DeviceError: the axis has another size than 1.
      ValueRangeError: no argument is mapped, or one without axes.
    """
    tree.check_callable(fun, "pmap")
    given: Any = static_broadcasted_argnums
    static = read_argnums("pmap", "static_broadcasted_argnums", given)
    if devices is not None and len(devices) != 1:
        raise DeviceError(f"pmap: there is one device, got {len(devices)} in `devices`")
    device = devices[0] if devices else backend
    name = _Axis() if axis_name is None else axis_name

    def axes_of(args: Sequence[Any]) -> tuple[Any, ...]:
        """That of each argument; Python values have none."""
        several = isinstance(in_axes, _SEVERAL)
        axes = enumerate(in_axes if several else [in_axes] * len(args))
        fixed = {*static, *[i + len(args) for i in static]}
        return tuple([None if i in fixed else axis for i, axis in axes])

    def mapped(*args: Any, **kwargs: Any) -> Any:
        def with_axes(places: Any) -> Any:
            run = vmap(fun, axes_of(args), places, name, axis_size)
            return run(*args, **kwargs)

        return _lanes_or_one(with_axes, out_axes)

    compiled = jit(
        wraps(fun)(mapped), static_argnums=static, device=device,
        donate_argnums=read_argnums("pmap", "donate_argnums", donate_argnums),
    )  # fmt: skip

    @wraps(fun)
    def pmap_f(*args: Any, **kwargs: Any) -> Any:
        _check_sizes(fun, args, kwargs, axes_of(args), axis_size)
        return compiled(*args, **kwargs)

    shown: Any = pmap_f
    shown.lower, shown.trace = compiled.lower, compiled.trace
    shown.clear_cache = compiled.clear_cache
    return pmap_f


def _lanes_or_one(mapped: Callable[[Any], Any], out_axes: Any) -> Any:
    """The results with their axis; without it where out_axes has None: of one lane."""

    def is_none(x: Any) -> bool:
        return x is None

    result = mapped(
        tree.map(lambda a: 0 if a is None else a, out_axes, is_leaf=is_none)
    )
    leaves, treedef = tree.flatten(result)
    places = tree.broadcast_prefix(out_axes, result, "pmap: out_axes")
    rows = zip(leaves, places, strict=True)
    return tree.unflatten(treedef, [x[0] if a is None else x for x, a in rows])


def _check_sizes(fun: Any, args: Any, kwargs: Any, axes: Any, axis_size: Any) -> None:
    """Raises where the axis is longer than there are devices, or there is none."""
    leaves = tree.leaves((args, kwargs))
    places = tree.broadcast_prefix(axes, args, "pmap: in_axes")
    places += [0] * (len(leaves) - len(places))
    sizes = {axis_size} - {None}
    for x, axis in zip(leaves, places, strict=True):
        if axis is None or not is_value(x):
            continue
        shape = aval_of(x).shape
        sizes.add(shape[axis] if shape else None)
    if not sizes or None in sizes:
        raise ValueRangeError(
            f"pmap of {name_of(fun)}: pmap requires at least one argument with a "
            "mapped axis, and none without axes that is mapped"
        )
    for size in sizes - {1}:
        raise DeviceError(
            f"pmap of {name_of(fun)}: compiling computation that requires {size} "
            f"logical devices, but only 1 device is available (num_replicas={size}); "
            "use vmap for lanes on one device"
        )


# Over a mesh.


def _over(mesh: Any, function: Function) -> Function:
    """The function, with the axes of a mesh of one device bound."""
    for name in reversed(mesh.axis_names):
        function = partial(_in_axis, function, name)
    return function


def _in_axis(function: Function, name: Any, *args: Any) -> Any:
    mapped = vmap(function, None, 0, name, 1)
    return tree.map(lambda x: x[0], mapped(*args))


def shard_map(
    f: Any = None, /, *, out_specs: Any = None, in_specs: Any = None, mesh: Any = None,
    axis_names: Any = frozenset(), check_vma: bool = True, check_rep: bool = True,
    auto: Any = frozenset(),
) -> Any:  # fmt: skip
    """`f` of the parts of its arguments on the devices of a mesh.

    The mesh has one device: a part is the whole.

    Args:
      f: a function of arrays.
      out_specs, in_specs: a `PartitionSpec` for each result and argument, or prefixes
        of their pytrees.
      mesh: by default that of `set_mesh`.
      axis_names: the axes of the mesh that collectives in `f` may use; all by default.
      check_vma, check_rep, auto: accepted for JAX's sake.

    Raises:
      DeviceError: the mesh has several devices.
      ValueRangeError: the mesh has no axes, or not one that a spec names.
      ShapeError: a spec is longer than an array has axes.
    """
    if f is None:
        options = {
            "out_specs": out_specs, "in_specs": in_specs, "mesh": mesh,
            "axis_names": axis_names,
        }  # fmt: skip
        return partial(shard_map, **options)
    tree.check_callable(f, "shard_map")

    @wraps(f)
    def shard_map_f(*args: Any) -> Any:
        own = get_mesh() if mesh is None else mesh
        if not same_size(own.size, 1):
            error = DeviceError if own.axis_names else ValueRangeError
            raise error(
                f"shard_map needs a mesh of one device, got {own!r}; use vmap for "
                "lanes on one device"
            )
        _check_specs(f, own, "in_specs", in_specs, args)
        result = _over(own, f)(*args)
        _check_specs(f, own, "out_specs", out_specs, result)
        return result

    return shard_map_f


def _check_specs(f: Any, mesh: Any, what: str, specs: Any, values: Any) -> None:
    """Raises where specs do not fit the mesh or the values."""
    if specs is None:
        return
    found = tree.broadcast_prefix(specs, values, f"shard_map {what}")
    for spec, value in zip(found, tree.leaves(values), strict=True):
        for entry in spec or ():
            for name in names_in(entry):
                if name not in mesh.axis_names:
                    raise ValueRangeError(
                        f"shard_map {what} argument must refer to an axis of the mesh, "
                        f"which has {mesh.axis_names}, but it refers to {name!r}"
                    )
        shape = aval_of(value).shape
        if len(spec or ()) > len(shape):
            raise ShapeError(
                f"shard_map applied to the function {name_of(f)!r} was given an {what} "
                f"entry which is too long to be compatible with the corresponding "
                f"value: {spec} has length {len(spec)}, the value shape {shape}"
            )


def smap(
    f: Any = None, /, *, in_axes: Any = None, out_axes: Any = None,
    axis_name: Any = None,
) -> Any:  # fmt: skip
    """`shard_map` along one axis of the mesh of `set_mesh`: by axes, not by specs.

    Args:
      in_axes, out_axes: which axis of each argument and result is divided; None is
        none. Prefixes of their pytrees.
      axis_name: the axis of the mesh.
    """
    if f is None:
        return partial(smap, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)

    def spec(axis: Any) -> Any:
        if axis is None:
            return PartitionSpec()
        return PartitionSpec(*[None] * axis, axis_name)

    def specs(axes: Any) -> Any:
        return tree.map(spec, axes, is_leaf=lambda x: x is None or is_int(x))

    return shard_map(f, in_specs=specs(in_axes), out_specs=specs(out_axes))


# Where arrays are.


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The arrays of a tree, placed as shardings say: within a program as they are.

    Args:
      x: a pytree of arrays.
      shardings: a sharding, a `PartitionSpec` along the mesh of `set_mesh`, or a prefix
        of the tree of them.

    Raises:
      DeviceError: a mesh has several devices, or there is none for a spec.
      ShapeError: an array cannot be divided so.
    """
    what = "with_sharding_constraint"
    leaves, treedef = tree.flatten(x)
    places = tree.broadcast_prefix(shardings, x, f"{what}: shardings")
    rows = zip(leaves, places, strict=True)
    return tree.unflatten(
        treedef, [put_by(leaf, named(place, what), what) for leaf, place in rows]
    )


def reshard(xs: Any, out_shardings: Any) -> Any:
    """The arrays of a tree under other shardings: `device_put`."""
    return device_put(xs, out_shardings)


def _itself(f: Function) -> Function:
    return f


def auto_axes(f: Any = None, /, *, axes: Any = None, out_sharding: Any = None) -> Any:
    """`f`, in which nobody says how arrays are divided: on one device it is `f`."""
    return _itself if f is None else f


def explicit_axes(
    f: Any = None, /, *, axes: Any = None, in_sharding: Any = None
) -> Any:
    """`f`, in which types say how arrays are divided: on one device it is `f`."""
    return _itself if f is None else f
