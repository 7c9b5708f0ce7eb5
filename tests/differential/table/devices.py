"""Rows of arrays over devices, of which the host has eight, and of processes."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np

from tests.differential.rows import names, read
from tests.differential.table.session import printed

PLACED = """
local_devices local_device_count {modes=eager}: [0]?
make_mesh {modes=eager}: [(8,),(2,4),(3,),(2,2,2),(9,),()] [('x',),('x','y'),
    ('x','y','z'),()] ['Auto','Explicit']?
make_array_from_callback make_array_from_single_device_arrays
    make_array_from_process_local_data {modes=eager}: grid
    [('x',),('x','y'),(None,'x'),(),('y','x'),('z',)]
reshard sharding.reshard {modes=eager}: grid
    [('x',),('x','y'),(None,'x'),('y',),('z',)]
smap {modes=eager}: grid [0,1,None] [0,1]
experimental.shard_map.shard_map {modes=mapped}: grid ['x','y',None] ['x',None]
sharding.auto_axes sharding.explicit_axes {modes=eager}: grid ['x',None]
sharding.get_mesh sharding.get_abstract_mesh {modes=eager}:
    [False,True] ['Auto','Explicit']
sharding.make_single_device_sharding {modes=eager}: grid [0,3]
experimental.mesh_utils.create_device_mesh {modes=eager}: [(8,),(2,4),(4,2),(3,),()]
experimental.mesh_utils.create_hybrid_device_mesh {modes=eager}:
    [(2,4),(8,1)] [(1,1),(2,1)]
experimental.layout.with_layout_constraint {modes=mapped}: grid [(0,1),(1,0)]
debug.visualize_array_sharding debug.visualize_sharding {modes=eager}: grid
    [('x',),('x','y'),(None,'x')]
"""

PROCESSES = """
distributed.is_initialized {modes=eager}: [0]?
experimental.multihost_utils.assert_equal
    experimental.multihost_utils.broadcast_one_to_all {modes=eager}: any
experimental.multihost_utils.process_allgather {modes=eager}: any tiled=flag
experimental.multihost_utils.sync_global_devices {modes=eager}: ['a','']
experimental.multihost_utils.reached_preemption_sync_point {modes=eager}: [0,1]
"""


def _mesh(L: Any, kind: str = "Auto") -> Any:
    kinds = (getattr(L.sharding.AxisType, kind),) * 2
    return L.make_mesh((2, 4), ("x", "y"), axis_types=kinds)


def _told(array: Any) -> Any:
    """The values of an array, what its parts are, and where they lie."""
    parts = sorted(
        (s.device.id, str(s.index), s.data.shape) for s in array.addressable_shards
    )
    return array, parts, str(array.sharding.spec)


def _devices(name: str, L: Any, *_: Any) -> Any:
    found = getattr(L, name)()
    if name == "local_device_count":
        return found
    return [(d.platform, d.id, d.process_index) for d in found]


def _make_mesh(L: Any, sizes: Any, axes: Any, kind: str = "Auto") -> Any:
    kinds = (getattr(L.sharding.AxisType, kind),) * len(axes)
    mesh = L.make_mesh(sizes, axes, axis_types=kinds)
    return _shape(mesh), [d.id for d in mesh.devices.flat]


def _shape(mesh: Any) -> Any:
    kinds = [str(kind) for kind in mesh.axis_types or ()]
    return dict(mesh.shape), mesh.axis_names, kinds, mesh.size, mesh.empty


def _made(name: str, L: Any, x: Any, spec: Any) -> Any:
    """An array, of its parts."""
    x = np.asarray(x)
    place = L.sharding.NamedSharding(_mesh(L), L.P(*spec))
    make = getattr(L, name)
    if name == "make_array_from_callback":
        return _told(make(x.shape, place, lambda index: x[index]))
    if name == "make_array_from_process_local_data":
        return _told(make(place, x))
    indices = place.addressable_devices_indices_map(x.shape)
    parts = [L.device_put(x[index], device) for device, index in indices.items()]
    return _told(make(x.shape, place, parts))


def _resharded(name: str, L: Any, x: Any, spec: Any) -> Any:
    with L.set_mesh(_mesh(L, "Explicit")):
        found = L.find(name)(L.numpy.asarray(x), L.P(*spec))
        spec = tuple(found.sharding.spec)
        return found * 2, spec + (None,) * (2 - len(spec))


def _smapped(L: Any, x: Any, axis: Any, out: int) -> Any:
    def part(v: Any) -> Any:
        return L.numpy.sin(v) * L.lax.axis_index("x")

    with L.set_mesh(_mesh(L)):
        f = L.smap(part, in_axes=axis, out_axes=out, axis_name="x")
        return L.jit(f)(L.numpy.asarray(x))


def _mapped(L: Any, x: Any, axis: Any, out: Any) -> Any:
    def part(v: Any) -> Any:
        return L.lax.psum(L.numpy.sin(v), "y") * 2

    call, P = L.find("experimental.shard_map.shard_map"), L.sharding.PartitionSpec
    return call(part, _mesh(L), in_specs=P(axis, "y"), out_specs=P(out))(x)


def _axes(name: str, L: Any, x: Any, axis: Any) -> Any:
    """A function whose axes are of the other kind than those around it."""
    P, explicit = L.sharding.PartitionSpec, name == "explicit_axes"

    def f(v: Any) -> Any:
        return L.numpy.sin(v) * 2

    where = {"in_sharding" if explicit else "out_sharding": P(axis)}
    with L.set_mesh(_mesh(L, "Auto" if explicit else "Explicit")):
        return L.find(f"sharding.{name}")(f, **where)(L.numpy.asarray(x))


def _current(name: str, L: Any, sets: bool, kind: str) -> Any:
    ask = L.find(f"sharding.{name}")
    if not sets:
        return _shape(ask())
    with L.set_mesh(_mesh(L, kind)):
        return _shape(ask())


def _single(L: Any, x: Any, number: int) -> Any:
    place = L.sharding.make_single_device_sharding(L.top.devices()[number])
    found = L.device_put(x, place)
    return found, [d.id for d in found.devices()], found.sharding == place


def _device_mesh(name: str, L: Any, *shapes: Any) -> Any:
    options = {"process_is_granule": True} if len(shapes) > 1 else {}
    made = L.find(f"experimental.mesh_utils.{name}")(*shapes, **options)
    return made.shape, [device.id for device in made.flat]


def _laid(L: Any, x: Any, order: Any) -> Any:
    layout = L.find("experimental.layout")
    return layout.with_layout_constraint(x, layout.Layout(order)) * 2


def _drawn(name: str, L: Any, x: Any, spec: Any) -> Any:
    """How the parts of an array lie, as a picture: which devices it names."""
    place = L.sharding.NamedSharding(_mesh(L), L.P(*spec))
    x = np.asarray(x)
    if name == "visualize_sharding":
        text = printed(lambda: L.debug.visualize_sharding(x.shape, place), L)
    else:
        array = L.device_put(x, place)
        text = printed(lambda: L.debug.visualize_array_sharding(array), L)
    return sorted(re.findall(r"CPU [\d,]+", text))


def _multihost(name: str, L: Any, *args: Any, **options: Any) -> Any:
    return L.find(f"experimental.multihost_utils.{name}")(*args, **options)


def _on_eight(program: Any) -> Any:
    def run(L: Any, *args: Any, **options: Any) -> Any:
        with L.on_eight():
            return program(L, *args, **options)

    return run


_PROGRAMS: dict[str, Any] = {
    **{n: partial(_devices, n) for n in ("local_devices", "local_device_count")},
    "make_mesh": _make_mesh, "smap": _smapped,
    **{name: partial(_made, name) for name in (
        "make_array_from_callback", "make_array_from_single_device_arrays",
        "make_array_from_process_local_data",
    )},
    **{n: partial(_resharded, n) for n in ("reshard", "sharding.reshard")},
    "experimental.shard_map.shard_map": _mapped,
    **{f"sharding.{n}": partial(_axes, n) for n in ("auto_axes", "explicit_axes")},
    **{f"sharding.{n}": partial(_current, n) for n in (
        "get_mesh", "get_abstract_mesh",
    )},
    "sharding.make_single_device_sharding": _single,
    **{f"experimental.mesh_utils.{n}": partial(_device_mesh, n) for n in (
        "create_device_mesh", "create_hybrid_device_mesh",
    )},
    "experimental.layout.with_layout_constraint": _laid,
    **{f"debug.{n}": partial(_drawn, n) for n in (
        "visualize_array_sharding", "visualize_sharding",
    )},
}  # fmt: skip

ROWS = [
    *read("", PLACED, {n: _on_eight(program) for n, program in _PROGRAMS.items()}),
    *read("", PROCESSES, {
        "distributed.is_initialized": lambda L, *_: L.distributed.is_initialized(),
    } | {
        n: partial(_multihost, n.rpartition(".")[2])
        for n in names(PROCESSES) if n.startswith("experimental")
    }),
]  # fmt: skip
