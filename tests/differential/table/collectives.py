"""Rows of collectives along axes that vmap names, and of maps over devices."""

from functools import partial
from typing import Any

from tests.differential.rows import read

#: A row that stands again is the collective in a loop, or along two axes.
COLLECTIVES = """
psum pmean pmax pmin: array
psum pmean: array axis_index_groups=[None,[[0],[1,2]],[[0,1],[2,3]]]
all_gather: array axis=[0,1,-1,5] tiled=flag
all_to_all: square [0,1] [0,1] tiled=flag
ppermute: array [0,1,-1,None]
pshuffle: array [0,1]
psum_scatter: square scatter_dimension=[0,1] tiled=flag
pswapaxes: square [0,1]
pbroadcast: array [0,1,-1]
axis_index axis_size: array
psum pmean pmax pmin all_gather: plane nested=['both','inner','outer','scan','cond']!
"""

MAPS = """
pmap shard_map {modes=mapped}: array
"""


def _along(name: str, L: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
    """A collective of the lanes of the first axis, each of which its index weighs."""

    def lane(v: Any) -> Any:
        weighed = v * (L.lax.axis_index("i") + 1)
        return getattr(L.lax, name)(weighed, "i", *args, **kwargs)

    return L.vmap(lane, axis_name="i")(x)


def _permuted(name: str, L: Any, x: Any, shift: Any) -> Any:
    """Each lane sends to the one behind it; for None the first sends to the last."""
    (count, *_) = (*L.numpy.shape(x), 1)
    order = [(i + (shift or 0)) % count for i in range(count)]
    pairs = [(0, count - 1)] if shift is None else list(enumerate(order))
    sent = pairs if name == "ppermute" else order
    return L.vmap(lambda v: getattr(L.lax, name)(v, "i", sent), axis_name="i")(x)


def _index(L: Any, x: Any) -> Any:
    return L.vmap(lambda v: v * L.lax.axis_index("i"), axis_name="i")(x)


def _size(L: Any, x: Any) -> Any:
    return L.vmap(lambda v: v * L.lax.axis_size("i"), axis_name="i")(x)


def _nested(name: str, L: Any, x: Any, nested: str) -> Any:
    """A collective in two maps: along one axis, both, and in a loop or a branch."""
    collective = getattr(L.lax, name)

    def lane(v: Any) -> Any:
        if nested == "scan":
            return L.lax.scan(lambda c, _: (c + v, collective(c, "i")), v, None, 2)[1]
        if nested == "cond":
            last = L.lax.axis_size("i") > 1
            return L.lax.cond(last, lambda a: collective(a, "j"), collective_i, v)
        axes = {"both": ("i", "j"), "inner": "j", "outer": "i"}[nested]
        return collective(v, axes)

    def collective_i(v: Any) -> Any:
        return collective(v, "i")

    inner = L.vmap(lane, axis_name="j")
    return L.vmap(inner, axis_name="i")(x)


_NESTED = ("psum", "pmean", "pmax", "pmin", "all_gather")
_OWN: dict[str, Any] = {
    "ppermute": partial(_permuted, "ppermute"),
    "pshuffle": partial(_permuted, "pshuffle"),
    "axis_index": _index,
    "axis_size": _size,
}


def _collective(name: str, L: Any, *args: Any, **kwargs: Any) -> Any:
    if "nested" in kwargs:
        return _nested(name, L, *args, **kwargs)
    return _OWN.get(name, partial(_along, name))(L, *args, **kwargs)


def _mapped(name: str, L: Any, x: Any) -> Any:
    """A function over one device: the whole first axis is its part."""

    def part(v: Any) -> Any:
        return L.numpy.sin(v) + L.lax.psum(v, "i")

    if name == "pmap":
        return L.pmap(part, axis_name="i")(L.numpy.asarray(x)[None])
    mesh = L.make_mesh((1,), ("i",))
    spec = L.sharding.PartitionSpec()
    return L.shard_map(part, mesh=mesh, in_specs=(spec,), out_specs=spec)(x)


_NAMES = ("psum", "pmean", "pmax", "pmin", "all_gather", "all_to_all", "ppermute",
          "pshuffle", "psum_scatter", "pswapaxes", "pbroadcast", "axis_index",
          "axis_size")  # fmt: skip

ROWS = [
    *read("lax", COLLECTIVES, {name: partial(_collective, name) for name in _NAMES}),
    *read("", MAPS, {name: partial(_mapped, name) for name in ("pmap", "shard_map")}),
]  # fmt: skip
