"""Indexing expressions whose values JAX has been asked for: see record_indexing.py.

Each is evaluated with `lax`, `jnp`, `ops`, `np`, the names below, and the arrays of
`inputs()`: by the recorder with JAX's modules, by tests with ours. Those that use a
float array are differentiated by it, too.
"""

# ruff: noqa: E501, an expression stands on one line

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).with_name("indexing.npz")


def inputs() -> dict[str, np.ndarray]:
    """The arrays by name; recorded too, so that a generator may change."""
    rng = np.random.default_rng(3)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "x": normal(4, 6),
        "y": normal(5, 6),
        "v": normal(7),
        "w": normal(3),
        "pos": np.abs(normal(4, 6)) + np.float32(0.5),
        "cube": normal(3, 4, 5),
        "four": normal(2, 3, 4, 5),
        "c": (normal(4, 6) + 1j * normal(4, 6)).astype(np.complex64),
        "cu": (normal(5, 6) + 1j * normal(5, 6)).astype(np.complex64),
        "n": rng.integers(-9, 9, (4, 6)).astype(np.int32),
        "small": rng.integers(-100, 100, (4, 6)).astype(np.int8),
        "flags": rng.integers(0, 2, (4, 6)).astype(bool),
        "i": np.array([0, 3, -1, 1, 3], np.int32),
        "j": np.array([[2, -2, 0], [5, 1, -6]], np.int32),
        "out": np.array([0, 9, -9, 3, -1], np.int32),
        "bytes": np.array([0, 3, 200, 1, 3], np.uint8),
        "p": np.array(2, np.int32),
        "starts": np.array([[0, 1], [2, 3], [9, 0], [-1, 2], [2, 4]], np.int32),
        "rows": np.array([[0], [2], [5], [-3]], np.int32),
        "pairs": np.array([[0, 1, 1], [2, 0, 3]], np.int32),
        "ids": np.array([0, 2, 1, 2, 5, -1, 0], np.int32),
    }


READS = """
x[i]; x[:, j]; x[i, 1]; x[1, j]; x[i, :3]; x[::-1, j]; x[i[:3], j]; x[..., i]
x[None, i]; x[i, None]; x[p]; x[p, 1:]; x[1:, p]; x[:, None, p]; x[p, ::-2]; x[p, p]
cube[i[:3], :, p]; cube[:, i, p]; cube[p, :, i]; cube[i[:2], 1, ::2]; cube[1, i, 2]
four[:, i[:2], :, j[:, :2]]; four[1, :, i[3:], 2]; four[..., i, p]; four[p - 1, ..., i]
four[:, :, i, j[0, 0]]; four[:, p, :, i]; four[:, None, p, i]; four[:, p, None, i]
x[np.array([True, False, True, False])]; x[np.array([[True] * 6] * 4)]
cube[:, np.array([True, False, True, True])]; cube[np.array([True, False, True]), 1:3]
x[np.array([True, False, True, True]), i[:3]]; x[[0, 2], [1, -1]]; x[[[0], [3]], [1, 2]]
x[out]; x[:, out]; x[bytes]; n[out]; c[i]; c[:, j]; small[i]; flags[i, 1]; x[i][j]
x[i - 9]; x[(p, slice(None, None, 2))]; x[np.int64(1), np.array(2)]; x[i[None], j[0, 0]]
x.at[i].get(); x.at[out].get(mode='fill'); x.at[out].get(mode='clip')
x.at[out, 1].get(mode='fill', fill_value=7); n.at[out].get(mode='drop')
x.at[i].get(mode='promise_in_bounds'); small.at[out].get(mode='fill')
flags.at[out].get(mode='fill'); c.at[out].get(mode='fill'); x.at[9].get(mode='fill')
x.at[9, 1].get(mode='clip'); x.at[-9].get(mode='clip'); x.at[:, 7].get(mode='fill')
x.at[9, j].get(mode='fill', fill_value=3); x.at[j, 9].get(mode='clip')
x.at[out].get(mode='fill', wrap_negative_indices=False)
x.at[out].get(mode=lax.GatherScatterMode.CLIP)
x.at[out].get(mode=lax.GatherScatterMode.FILL_OR_DROP)
x.at[i].get(indices_are_sorted=False, unique_indices=False)
jnp.take(x, i, axis=0); jnp.take(x, j, axis=1); jnp.take(x, j); jnp.take(x, p, axis=-1)
jnp.take(x, out, axis=0, mode='clip'); jnp.take(x, out, axis=0, mode='wrap')
jnp.take(x, out, axis=0, mode='fill'); jnp.take(n, out, axis=0, mode='fill')
jnp.take(x, out, axis=0, mode='fill', fill_value=2.0); jnp.take(cube, j % 4, axis=1)
jnp.take_along_axis(x, j[:, :1] % 4, axis=0); jnp.take_along_axis(x, i[:4, None], 1)
jnp.take_along_axis(x, (x > 0).astype(int), axis=1); jnp.take_along_axis(v, i, None)
jnp.take_along_axis(x, out[:4, None], 1, mode='clip')
jnp.take_along_axis(x, out[:4, None], 1, mode='fill')
jnp.take_along_axis(x, out[:4, None], 1, mode='fill', fill_value=1.5)
lax.index_take(x, (i, j[0, 0] + 0 * i), (0, 1)); lax.index_take(cube, (i[:2],), (1,))
"""

UPDATES = """
x.at[i].set(y); x.at[i].add(y); x.at[i].subtract(y); x.at[i].multiply(y)
x.at[i].min(y); x.at[i].max(y); x.at[i[:2]].divide(pos[:2]); x.at[i].divide(y)
pos.at[i[:2]].power(y[:2]); x.at[i].mul(2.0); x.at[i, 1].add(y[:, 0])
x.at[i[:2]].apply(jnp.sin); x.at[1:3].apply(jnp.exp); x.at[:, j].set(w)
x.at[:, j].add(w); x.at[i, :3].add(w); x.at[::-1, ::2].set(w); x.at[p].set(v[:6])
x.at[p, 1:4].multiply(w); x.at[1].set(v[:6]); x.at[1, 2].add(v[0]); x.at[...].set(2.0)
x.at[:, p].max(v[:4]); x.at[i, None].add(1.0); x.at[None, 1].set(v[:6])
cube.at[i[:3], :, p].add(w[:, None]); cube.at[:, i, p].set(v[:5]); cube.at[p, :, i].max(0.1)
four.at[:, i[:2], :, j[:, :2]].add(w[0]); four.at[:, p, None, i].set(w[0])
x.at[np.array([True, False, True, False])].set(y[:2]); x.at[x > 0].set(0.5)
x.at[x > 0].add(2.0); x.at[x > 0].multiply(x[:1, :1]); x.at[x[:, 0] > 0].set(v[:6])
x.at[flags].set(v[0]); n.at[n > 2].set(-1); x.at[np.array([[True] * 6] * 4)].add(1.5)
x.at[out].set(y); x.at[out].add(y); x.at[out].add(y, mode='clip')
x.at[out].set(y, mode='fill'); x.at[out].multiply(y, mode='drop')
x.at[i].add(y, mode='promise_in_bounds'); x.at[9].set(1.0, mode='drop')
x.at[9, 1].add(1.0, mode='clip'); x.at[:, 8].set(1.0, mode='drop')
x.at[9, j].add(1.0, mode='clip'); x.at[-7:9, -8].max(9.0, mode='clip')
x.at[out].set(y, mode=lax.GatherScatterMode.CLIP)
x.at[out].add(y, wrap_negative_indices=False); x.at[bytes].set(y)
x.at[i[:2]].add(y[:2], unique_indices=True, indices_are_sorted=True)
x.at[i[:2]].multiply(y[:2], unique_indices=True)
n.at[i].set(7); n.at[i].add(n[:1]); n.at[i].multiply(3); n.at[i].min(n[:1]); n.at[i].max(0)
n.at[i[:2]].divide(2); n.at[i[:2]].power(2); n.at[out].add(5)
small.at[i].set(3); small.at[i].add(small[:1]); small.at[i].multiply(3); small.at[i].min(0)
flags.at[i].set(True); flags.at[i].min(False); flags.at[:, j].max(flags[:, :1, None])
c.at[i].set(cu); c.at[i].add(cu); c.at[i].multiply(cu); c.at[i].add(1.5); c.at[1].set(2j)
c.at[:, j].subtract(1j); c.at[i[:2]].divide(cu[:2]); x.at[i].set(n[:1]); x.at[i[:0]].add(1)
jnp.put(v, i, w, inplace=False); jnp.put(v, out, w, mode='clip', inplace=False)
jnp.put(v, out, w, mode='wrap', inplace=False); jnp.place(v, v > 0, w, inplace=False)
jnp.put_along_axis(x, i[:4, None], v[:4, None], 1, inplace=False)
jnp.put_along_axis(v, i, 2.5, 0, inplace=False)
jnp.fill_diagonal(x, 3.0, inplace=False); jnp.insert(v, np.array([0, 3, 3]), 2.5); jnp.delete(v, np.array([1]))
"""

SLICES = """
lax.dynamic_slice(x, (p, p), (2, 3)); lax.dynamic_slice(x, (p + 5, 1), (2, 3))
lax.dynamic_slice(x, (p - 9, -2), (2, 3)); lax.dynamic_slice(x, i[:2], (3, 4))
lax.dynamic_slice(x, (-p, -p), (1, 2)); lax.dynamic_slice(v, (p,), (0,))
lax.dynamic_slice(x, (-p, 0), (1, 2), allow_negative_indices=False)
lax.dynamic_slice(x, (bytes[2], bytes[1]), (2, 3)); lax.dynamic_slice(c, (p, 1), (1, 3))
lax.dynamic_slice_in_dim(x, p, 2, axis=1); lax.dynamic_slice_in_dim(x, p, 2, axis=-1)
lax.dynamic_index_in_dim(x, p, 1); lax.dynamic_index_in_dim(x, p + 9, 0, keepdims=False)
lax.dynamic_update_slice(x, y[:2, :3], (p, p)); lax.dynamic_update_slice(x, y[:2], (p, p))
lax.dynamic_update_slice(x, y[:2, :3], (p + 7, -2)); lax.dynamic_update_slice(v, w, (p,))
lax.dynamic_update_slice(x, x[:2, :2], (-p, -9)); lax.dynamic_update_slice(v, w[:0], (p,))
lax.dynamic_update_slice_in_dim(x, y[:2], p, axis=0); lax.dynamic_update_slice(n, n[:1], (p, p))
lax.dynamic_update_index_in_dim(x, v[:4], p, axis=1)
lax.dynamic_update_index_in_dim(x, v[:6], p + 9, axis=0)
ops.segment_sum(v, ids, 4); ops.segment_prod(v, ids, 4); ops.segment_max(v, ids, 4)
ops.segment_min(v, ids, 4); ops.segment_sum(y, i, 3); ops.segment_sum(v, ids, 4, mode='clip')
ops.segment_max(v, ids, 4, mode='clip', indices_are_sorted=False)
ops.segment_sum(y, i, num_segments=5, unique_indices=False, bucket_size=2)
ops.segment_sum(n[:, 0], i[:4], 4); ops.segment_max(n[:, 0], i[:4], 4)
ops.segment_sum(jnp.exp(y), i, 4) * 2
"""

#: Dimension numbers: offset, collapsed, start_index_map, operand batch, start batch.
GATHERS = """
lax.gather(x, rows, G((1,), (0,), (0,)), (1, 6))
lax.gather(x, rows, G((1,), (0,), (0,)), (1, 4))
lax.gather(x, rows, G((0,), (0,), (0,)), (1, 6))
lax.gather(x, rows, G((1, 2), (), (0,)), (2, 6))
lax.gather(x, rows, G((0, 2), (), (0,)), (2, 3), mode='clip')
lax.gather(x, starts, G((1, 2), (), (0, 1)), (2, 3))
lax.gather(x, starts, G((1, 2), (), (0, 1)), (2, 3), mode='clip')
lax.gather(x, starts, G((0, 1), (), (0, 1)), (2, 3), mode='fill', fill_value=5.0)
lax.gather(x, starts, G((), (0, 1), (0, 1)), (1, 1))
lax.gather(x, starts[:, ::-1], G((1,), (0,), (1, 0)), (1, 2), mode='clip')
lax.gather(x, starts, G((1,), (1,), (0, 1)), (3, 1))
lax.gather(x, starts % 3, G((1, 2), (), (0, 1)), (2, 3), mode='promise_in_bounds')
lax.gather(cube, pairs[..., None], G((1, 3), (1,), (1,)), (3, 1, 2))
lax.gather(cube, starts[:2, None], G((2,), (0, 2), (0, 2)), (1, 4, 1))
lax.gather(cube, pairs.T[..., None], G((2, 3), (), (1,), (0,), (0,)), (1, 2, 5))
lax.gather(cube, pairs[..., None], G((2, 3), (), (1,), (0,), (1,)), (1, 2, 5), mode='clip')
lax.gather(cube, pairs[..., None], G((0, 1), (), (2,), (0,), (1,)), (1, 4, 3))
lax.gather(four, pairs[..., None], G((2,), (2,), (2,), (0, 1), (0, 1)), (1, 1, 1, 5))
lax.gather(x, rows[0, 0] + jnp.zeros((0,), int), G((0, 1), (), ()), (4, 6))
lax.gather(x, jnp.zeros((3, 0), int), G((1, 2), (), ()), (2, 6))
lax.gather(x, rows[:0], G((1,), (0,), (0,)), (1, 6))
lax.gather(n, starts, G((1, 2), (), (0, 1)), (2, 3)); lax.gather(small, rows, G((1,), (0,), (0,)), (1, 6))
lax.gather(flags, rows, G((1,), (0,), (0,)), (1, 6)); lax.gather(c, rows, G((1,), (0,), (0,)), (1, 6))
lax.gather(x, bytes[:, None], G((1,), (0,), (0,)), (1, 6))
lax.gather(v, i[:, None], G((1,), (), (0,)), (3,)) * 2 + 1
"""

#: Dimension numbers: window, inserted, scattered, operand batch, index batch.
SCATTERS = """
lax.scatter(x, rows, y[:4], S((1,), (0,), (0,)))
lax.scatter(x, rows, y[:4, :4], S((1,), (0,), (0,)))
lax.scatter(x, rows, y[:4].T, S((0,), (0,), (0,)))
lax.scatter_add(x, rows, y[:4], S((1,), (0,), (0,)), mode='clip')
lax.scatter_sub(x, rows, y[:4], S((1,), (0,), (0,)))
lax.scatter_add(x, rows % 2, y[:4], S((1,), (0,), (0,)))
lax.scatter_mul(x, rows, y[:4], S((1,), (0,), (0,)), unique_indices=True)
lax.scatter_mul(x, rows % 2, y[:4], S((1,), (0,), (0,)))
lax.scatter_min(x, rows % 2, y[:4], S((1,), (0,), (0,)))
lax.scatter_max(x, rows % 2, y[:4], S((1,), (0,), (0,)), mode='drop')
lax.scatter_add(x, starts, four[0, :, :2, :].transpose(2, 1, 0), S((1, 2), (), (0, 1)))
lax.scatter_add(x, starts, four[0, :, :2, :].transpose(2, 1, 0), S((1, 2), (), (0, 1)), mode='clip')
lax.scatter(x, starts[::4], cube[:2, :2, :3], S((1, 2), (), (0, 1)), unique_indices=True)
lax.scatter(x, starts, y[:, 0], S((), (0, 1), (0, 1)))
lax.scatter_max(x, starts % 4, y[:, 0], S((), (0, 1), (0, 1)))
lax.scatter_add(x, starts[:, ::-1], y[:, :2], S((1,), (0,), (1, 0)), mode='clip')
lax.scatter_add(cube, pairs[..., None], four.transpose(0, 1, 2, 3)[:, :, :3, :], S((2, 3), (1,), (1,)))
lax.scatter_add(cube, pairs.T[..., None], four[0, :, :2], S((2,), (1,), (1,), (0,), (0,)))
lax.scatter_add(cube, pairs[..., None], four[:, :, :2], S((2, 3), (), (1,), (0,), (1,)))
lax.scatter_max(cube, pairs[..., None], four[:, :, :2], S((2, 3), (), (1,), (0,), (1,)), mode='clip')
lax.scatter_add(x, jnp.zeros((0,), int), y[:4], S((0, 1), (), ()))
lax.scatter_add(x, jnp.zeros((3, 0), int), cube[:, :, :], S((1, 2), (), ()))
lax.scatter_add(x, jnp.zeros((0,), int), y[:2, :3], S((0, 1), (), ()))
lax.scatter_add(x, rows[:0], y[:0], S((1,), (0,), (0,)))
lax.scatter_add(n, rows, n, S((1,), (0,), (0,))); lax.scatter_min(small, rows, small, S((1,), (0,), (0,)))
lax.scatter(flags, rows, ~flags, S((1,), (0,), (0,))); lax.scatter_add(c, rows, c * 2, S((1,), (0,), (0,)))
lax.scatter_mul(c, rows % 2, c, S((1,), (0,), (0,))); lax.scatter_add(x, bytes[:, None], y, S((1,), (0,), (0,)))
lax.scatter_apply(x, rows, jnp.sin, S((1,), (0,), (0,)), update_shape=(4, 6))
lax.scatter_apply(x, starts[::4], lambda e: e * e + 1, S((), (0, 1), (0, 1)), update_shape=(2,))
"""

ONE_HOT = """
H(i % 4, 4) @ x; H(out, 4) @ x; H(j % 5, 5) @ y; H(p, 7) @ v; x.T @ H(i % 4, 4).T
jnp.where(jnp.arange(7) == p, v, 0).sum(); (v * (jnp.arange(7) == p)).sum()
jnp.sum(jnp.where(jnp.arange(4)[:, None] == p, x, 0), 0)
jnp.sum(jnp.where(j[..., None] == jnp.arange(7), v, 0), -1)
jnp.sum((out[:, None, None] == jnp.arange(4)[:, None]) * x, 1)
jnp.einsum('bk,kd->bd', H(i, 4), x); jnp.sum(H(i % 6, 6)[:4] * x[:, :], 1)
jnp.tensordot(H(i % 4, 4), jnp.exp(x), 1); jnp.where(jnp.arange(4) == i[:, None], 1.0, 0.0) @ x
jnp.sum(jnp.where(jnp.arange(4)[:, None] == p, n, 0), 0); H(i % 4, 4, dtype=int) @ n
"""

SECTIONS = {
    "reads": READS,
    "updates": UPDATES,
    "slices": SLICES,
    "gathers": GATHERS,
    "scatters": SCATTERS,
    "one_hot": ONE_HOT,
}


def expressions(section: str) -> list[str]:
    lines = SECTIONS[section].replace("\n", ";").split(";")
    return [line.strip() for line in lines if line.strip()]


def names(lax: Any, jnp: Any, ops: Any, one_hot: Any) -> dict[str, Any]:
    """What an expression can use besides the arrays."""

    def gather_numbers(
        offset: Any, collapsed: Any, starts: Any, ours: Any = (), theirs: Any = ()
    ) -> Any:
        return lax.GatherDimensionNumbers(offset, collapsed, starts, ours, theirs)

    def scatter_numbers(
        window: Any, inserted: Any, scattered: Any, ours: Any = (), theirs: Any = ()
    ) -> Any:
        return lax.ScatterDimensionNumbers(window, inserted, scattered, ours, theirs)

    return {
        "lax": lax, "jnp": jnp, "ops": ops, "np": np, "H": one_hot,
        "G": gather_numbers, "S": scatter_numbers,
    }  # fmt: skip


def used(expression: str) -> list[str]:
    """The arrays that an expression names."""
    found = compile(expression, "expression", "eval")
    known = {*found.co_names}
    known.update(*[c.co_names for c in found.co_consts if hasattr(c, "co_names")])
    return [name for name in inputs() if name in known]


def varying(expression: str) -> list[str]:
    """Of these the ones by which it is differentiated."""
    arrays = inputs()
    return [name for name in used(expression) if arrays[name].dtype.kind in "f"]


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """The cotangent with which a result is pulled back."""
    count = int(np.prod(shape, dtype=np.int64))
    return np.cos(np.arange(count, dtype=np.float32)).reshape(shape)


def slope_name(expression: str, name: str) -> str:
    return f"{expression} by {name}"


def recorded() -> dict[str, np.ndarray]:
    """The inputs by name, and what JAX gave by expression, and by its derivatives."""
    with np.load(DATA) as file:
        index = json.loads(file["index"].tobytes())
        values = file["values"].tobytes()
    found: dict[str, np.ndarray] = {}
    start = 0
    for name, (dtype, shape) in index.items():
        size = int(np.prod(shape, dtype=np.int64))
        part = np.frombuffer(values, np.dtype(dtype), size, start)
        found[name] = part.reshape(shape)
        start += part.nbytes
    return found
