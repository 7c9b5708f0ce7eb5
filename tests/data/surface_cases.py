"""Expressions whose values JAX has been asked for: see record_surface.py.

Each expression is evaluated with `lax`, `jnp`, `nn`, `special`, `norm`, `ops` and the
arrays of `inputs()` as names: by the recorder with JAX's modules, by tests with ours.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def recorded() -> dict[str, np.ndarray]:
    """The inputs by name, and what JAX gave by expression."""
    with np.load(Path(__file__).with_name("surface.npz")) as file:
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


def inputs() -> dict[str, np.ndarray]:
    """The arrays by name; recorded too, so that a generator may change."""
    rng = np.random.default_rng(7)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "x": normal(4, 6),
        "y": normal(4, 6),
        "pos": np.abs(normal(4, 6)) + np.float32(0.1),
        "unit": np.tanh(normal(4, 6)),
        "v": normal(6),
        "w": normal(5),
        "long": normal(3, 70),
        "t3": normal(2, 3, 4),
        "u3": normal(2, 4, 5),
        "i": rng.integers(-20, 20, (4, 6)).astype(np.int32),
        "j": rng.integers(1, 9, (4, 6)).astype(np.int32),
        "u": rng.integers(0, 255, (4, 6)).astype(np.uint8),
        "b": rng.integers(0, 2, (4, 6)).astype(bool),
        "c": (normal(4, 6) + 1j * normal(4, 6)).astype(np.complex64),
        "halves": np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.3, -0.7], np.float32),
        "nans": np.array(
            [[1, np.nan, 3, -2], [np.nan] * 4, [0, 5, np.nan, 5]], np.float32
        ),
        "ties": np.array([[3, 1, 3, 1], [2, 2, 2, 2]], np.float32),
        "img": normal(2, 4, 9, 8),
        "ker": normal(6, 4, 3, 2),
        "grouped": normal(6, 2, 3, 3),
        "sig": normal(2, 3, 11),
        "sigk": normal(4, 3, 4),
        "vol": normal(1, 2, 4, 5, 4),
        "volk": normal(3, 2, 2, 3, 2),
        "q": normal(2, 5, 4, 8),
        "k": normal(2, 7, 4, 8),
        "val": normal(2, 7, 4, 8),
        "kq": normal(2, 7, 2, 8),
        "mask": rng.integers(0, 2, (2, 1, 5, 7)).astype(bool),
        "bias": normal(2, 1, 5, 7),
        "ids": np.array([0, 2, 1, 2], np.int32),
        "wt": np.abs(normal(6)) + np.float32(0.1),
        "m3": normal(3, 3),
    }


LAX = """
lax.abs(x); lax.abs(i); lax.abs(c); lax.sign(x); lax.neg(u); lax.sign(i); lax.acos(unit)
lax.acosh(pos + 1); lax.asin(unit); lax.asinh(x); lax.atan(x); lax.atanh(unit)
lax.atan2(x, y); lax.cos(x); lax.cosh(x); lax.sin(x); lax.sinh(x); lax.tan(x)
lax.tanh(x); lax.exp(x); lax.exp2(x); lax.expm1(x); lax.log(pos); lax.log1p(pos)
lax.sqrt(pos); lax.rsqrt(pos); lax.cbrt(x); lax.logistic(x); lax.exp(c); lax.erf(x)
lax.erfc(x); lax.erf_inv(unit); lax.lgamma(pos); lax.digamma(pos); lax.floor(x)
lax.ceil(x); lax.round(halves); lax.round(halves, lax.RoundingMethod.TO_NEAREST_EVEN)
lax.is_finite(nans); lax.add(x, y); lax.add(x, 2.0); lax.sub(x, y); lax.mul(x, x[:1])
lax.div(x, pos); lax.div(i, j); lax.rem(i, j); lax.rem(x, pos); lax.pow(pos, y)
lax.pow(x, 3); lax.max(x, y); lax.min(x, 0.0); lax.max(b, ~b); lax.nextafter(x, y)
lax.square(x); lax.reciprocal(pos); lax.integer_pow(x, 5); lax.integer_pow(x, -3)
lax.integer_pow(i, 0); lax.eq(i, j); lax.ne(i, j); lax.lt(x, y); lax.le(x, y)
lax.gt(x, y); lax.ge(x, y); lax.bitwise_and(i, j); lax.bitwise_or(i, j)
lax.bitwise_xor(i, j); lax.bitwise_not(i); lax.bitwise_not(b); lax.shift_left(i, 3)
lax.shift_right_arithmetic(i, 2); lax.shift_right_logical(i, 2)
lax.shift_left(i, j * 9); lax.population_count(u); lax.clz(i); lax.clz(u)
lax.clamp(-0.5, x, 0.5); lax.clamp(-pos, x, pos); lax.select(b, x, y)
lax.select(True, x, y); lax.select_n(b, x, y); lax.select_n(j % 3, x, y, x + y)
lax.conj(x); lax.conj(c); lax.real(c); lax.imag(c); lax.complex(x, y)
lax.convert_element_type(x * 3, 'int32'); lax.convert_element_type(i, 'float32')
lax.convert_element_type(2, 'float32'); lax.bitcast_convert_type(x, 'int32')
lax.bitcast_convert_type(x, 'uint8')
lax.bitcast_convert_type(lax.bitcast_convert_type(x, 'uint8'), 'float32')
lax.bitcast_convert_type(lax.bitcast_convert_type(i, 'int16'), 'uint32')
lax.stop_gradient(x)

lax.broadcast(v, (2, 3)); lax.broadcast_in_dim(v, (2, 6, 3), (1,))
lax.broadcast_in_dim(x[:1], (4, 2, 6), (0, 2)); lax.broadcast_to_rank(v, 3)
lax.reshape(x, (3, 8)); lax.reshape(x, (24,), (1, 0)); lax.collapse(t3, 0, 2)
lax.collapse(t3, 1); lax.transpose(t3, (2, 0, 1)); lax.rev(t3, (0, 2))
lax.squeeze(x[:1], (0,)); lax.squeeze(x[:, :1], (-1,)); lax.expand_dims(x, (0, -1))
lax.tile(x, (2, 3)); lax.concatenate([x, y], 0); lax.concatenate([x, y, x], 1)
lax.concatenate([i, j], 1); lax.concatenate([b, b], 0); lax.iota('int32', 5)
lax.broadcasted_iota('uint8', (2, 3, 4), 1); lax.full((2, 3), 1.5)
lax.full((2,), 7, 'int32'); lax.full_like(i, 2.5); lax.full_like(x, 3)
lax.full((2,), 1.7, 'int32'); lax.pad(v, 0.0, [(1, 2, 0)]); lax.pad(v, 5.0, [(1, 2, 1)])
lax.pad(x, 1.0, [(-1, 2, 0), (0, -2, 2)]); lax.pad(v, 0.0, [(-1, -1, 1)])
lax.pad(i, -3, [(0, 1, 0), (1, 0, 0)]); lax.pad(v, 2.0, [(-3, 4, 1)])
lax.split(v, (1, 2, 3))[1]; lax.split(x, (2, 4), 1)[1]

lax.slice(x, (1, 2), (4, 6)); lax.slice(x, (0, 1), (4, 6), (2, 3))
lax.slice_in_dim(x, 1, 5, 2, axis=1); lax.slice_in_dim(x, -3, None, axis=0)
lax.slice_in_dim(x, None, -1); lax.index_in_dim(x, -1); lax.index_in_dim(x, 2, 1, False)
lax.dynamic_slice(x, (1, 2), (2, 3)); lax.dynamic_slice(x, (i[0, 0], j[0, 0]), (2, 3))
lax.dynamic_slice(x, (99, -1), (2, 3)); lax.dynamic_slice(x, (-99, 2), (3, 6))
lax.dynamic_slice(v, np.array([4], 'int32'), (3,)); lax.dynamic_slice_in_dim(x, 3, 2, 1)
lax.dynamic_index_in_dim(x, -2, 1); lax.dynamic_index_in_dim(x, 2, keepdims=False)
lax.dynamic_index_in_dim(x, np.int32(9), 0)
lax.dynamic_update_slice(x, y[:2, :3], (3, 1))
lax.dynamic_update_slice(x, y[:2], (1, 0)); lax.dynamic_update_slice(v, w, (j[0, 0],))
lax.dynamic_update_slice(v, v * 2, (3,)); lax.dynamic_update_slice(v, w[:0], (3,))
lax.dynamic_update_slice_in_dim(x, y[:, :2], -2, 1)
lax.dynamic_update_index_in_dim(x, v, 2, 0)
lax.dynamic_update_index_in_dim(x, y[:, :1], 5, 1)

lax.reduce_sum(x, (1,)); lax.reduce_sum(i, (0, 1)); lax.reduce_prod(x, (0,))
lax.reduce_max(x, (0,)); lax.reduce_min(i, (1,)); lax.reduce_max(nans, (1,))
lax.reduce_and(b, (0,)); lax.reduce_or(b, (1,)); lax.reduce_and(i, (1,))
lax.reduce_or(i, (0,)); lax.reduce_xor(i, (0, 1)); lax.reduce_xor(b, (1,))
lax.argmax(x, 1, 'int32'); lax.argmin(i, 0, 'int32'); lax.argmax(ties, 1, 'uint8')
lax.argmax(nans, 1, 'int32'); lax.argmin(nans, 0, 'int32')
lax.reduce(x, 0.0, lax.add, (0,)); lax.reduce(x, 2.0, lax.add, (0, 1))
lax.reduce(x, -np.inf, lax.max, (1,)); lax.reduce(x, 0.1, lax.max, (1,))
lax.reduce(x, 1.0, lambda a, b: a * b, (1,)); lax.reduce(b, False, lax.bitwise_or, (0,))
lax.reduce(x, np.inf, lambda a, b: jnp.where(abs(a) < abs(b), a, b), (1,))
lax.reduce((x, i), (0.0, 1), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,))[0]
lax.cumsum(x); lax.cumsum(x, 1, reverse=True); lax.cumsum(long, 1); lax.cumsum(i, 1)
lax.cumprod(x, 1); lax.cumprod(long[:, :20], 1, reverse=True); lax.cummax(long, 1)
lax.cummin(long, 1, reverse=True); lax.cumlogsumexp(long, 1); lax.cummax(i, 0)
lax.cumlogsumexp(x, 1, reverse=True); lax.cumsum(long[:, :9], 1)

lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 1), 'VALID')
lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), 'SAME')
lax.reduce_window(x, np.inf, lax.min, (1, 3), (1, 2), 'SAME_LOWER')
lax.reduce_window(x, 0.0, lax.max, (2, 2), (1, 2), ((1, 0), (0, 2)))
lax.reduce_window(x, 0.0, lambda a, b: a + b, (2, 2), (1, 1), 'SAME', (2, 1), (1, 2))
lax.reduce_window(img, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), 'SAME')
lax.reduce_window(x, 1.0, lax.mul, (2, 1), (1, 1), 'VALID')
lax.reduce_window(i, 0, lax.add, (1, 2), (1, 3), 'VALID')
lax.reduce_window(x, 0.0, lax.add, (1, 1), (2, 3), 'VALID')

lax.dot(x, y.T); lax.dot(v, v); lax.dot(x, v); lax.batch_matmul(t3, u3)
lax.dot_general(t3, u3, (((2,), (1,)), ((0,), (0,))))
lax.dot_general(t3, t3, (((1, 2), (1, 2)), ((), ())))
lax.dot_general(x, x, (((), ()), ((0,), (0,))))
lax.dot_general(u, u, (((1,), (1,)), ((), ())), preferred_element_type='int32')
lax.dot_general(i, j, (((0,), (0,)), ((), ()))); lax.dot(c, c.T)

lax.conv(img, ker, (1, 1), 'VALID'); lax.conv(img, ker, (2, 3), 'SAME')
lax.conv_general_dilated(img, ker, (1, 2), 'SAME_LOWER', rhs_dilation=(2, 3))
lax.conv_general_dilated(img, ker, (1, 1), ((2, 1), (-1, 3)), lhs_dilation=(2, 3))
lax.conv_general_dilated(img, ker, (2, 2), ((0, 1), (3, 0)), (1, 2), (2, 1))
lax.conv_general_dilated(img, grouped, (1, 1), 'SAME', feature_group_count=2)
lax.conv_general_dilated(img, ker, (1, 1), 'SAME', batch_group_count=2)
lax.conv_general_dilated(img.transpose(0, 2, 3, 1), ker.transpose(2, 3, 1, 0), (1, \
1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC'))
lax.conv_general_dilated(img, ker, (1, 1), 'VALID', dimension_numbers=('NCHW', \
'OIHW', 'NHWC'))
lax.conv_general_dilated(sig, sigk, (2,), 'SAME')
lax.conv_general_dilated(vol, volk, (1, 2, 1), 'SAME')
lax.conv_general_dilated(i[None, None], j[:1, :2][None, None], (1, 1), 'VALID')
lax.conv_with_general_padding(img, ker, (1, 1), ((1, 1), (1, 1)), (1, 1), (2, 2))
lax.conv_transpose(img.transpose(0, 2, 3, 1), ker.transpose(2, 3, 1, 0), (2, 2), \
'SAME')
lax.conv_transpose(img.transpose(0, 2, 3, 1), ker.transpose(2, 3, 1, 0), (2, 3), \
'VALID')
lax.conv_transpose(img.transpose(0, 2, 3, 1), ker.transpose(2, 3, 0, 1), (2, 2), \
'SAME', transpose_kernel=True)
lax.conv_transpose(sig.transpose(0, 2, 1), sigk.transpose(2, 1, 0), (3,), ((1, 2),))
lax.conv_general_dilated_patches(img, (3, 2), (1, 2), 'SAME')
lax.conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), ('NHWC', 'HWIO', \
'NHWC')).rhs_spec
lax.padtype_to_pads((5, 6), (3, 3), (2, 1), 'SAME')
"""

REDUCTIONS = """
jnp.sum(x); jnp.sum(i, 0); jnp.sum(u); jnp.sum(b, 1); jnp.sum(u, dtype='uint8')
jnp.sum(x, (0, 1), keepdims=True); jnp.sum(x, -1, where=b); jnp.sum(x, 0, initial=3.0)
jnp.sum(u, promote_integers=False); jnp.sum(b, dtype=bool); jnp.sum(i, dtype='float32')
jnp.sum(x.astype('float16')); jnp.sum(c, 0); jnp.prod(x, 1); jnp.prod(j, 1); jnp.prod(b)
jnp.prod(u, promote_integers=False); jnp.prod(x, 0, where=b); jnp.mean(x)
jnp.mean(i, 1); jnp.mean(u); jnp.mean(x, 0, where=b); jnp.mean(x, dtype='float16')
jnp.mean(x.astype('float16'), 1); jnp.mean(c); jnp.mean(b, 0, keepdims=True); jnp.var(x)
jnp.var(x, 1, ddof=1); jnp.var(i, 0); jnp.var(c, 1); jnp.var(x, 0, where=b)
jnp.var(x, 1, correction=1); jnp.std(x, (0, 1)); jnp.std(x, 1, ddof=1, keepdims=True)
jnp.var(x + 10000, 1); jnp.var(x.astype('float16')); jnp.var(x, mean=x.mean())
jnp.var(x[:1], 0, ddof=1); jnp.max(x); jnp.max(i, 0); jnp.max(b, 1); jnp.max(nans, 1)
jnp.max(x, 1, initial=0.5); jnp.max(x, 0, where=b, initial=-9.0); jnp.min(x, (0, 1))
jnp.min(u, 1, keepdims=True); jnp.min(nans); jnp.max(u, initial=3); jnp.amax(x, 0)
jnp.amin(x, 0); jnp.max(c, 1); jnp.any(b, 0); jnp.any(x); jnp.all(b, 1)
jnp.all(i, 0, where=b); jnp.any(i, keepdims=True); jnp.argmax(x); jnp.argmax(x, 0)
jnp.argmin(i, 1, keepdims=True); jnp.argmax(nans, 1); jnp.argmin(nans)
jnp.argmax(ties, -1); jnp.argmin(b, 0); jnp.argmax(x, keepdims=True)
jnp.nansum(nans, 1); jnp.nansum(nans); jnp.nanprod(nans, 0); jnp.nanmean(nans, 1)
jnp.nanmax(nans, 1); jnp.nanmin(nans, 0); jnp.nanmax(i); jnp.nanvar(nans, 1)
jnp.nanstd(nans, 1, ddof=1); jnp.nanmax(nans, 1, initial=4.0); jnp.nanargmax(nans, 1)
jnp.nanargmin(nans, 0); jnp.nanargmax(nans[:1]); jnp.nancumsum(nans, 1)
jnp.nancumprod(nans, 1); jnp.nanmean(nans, 0, keepdims=True); jnp.nansum(i)
jnp.cumsum(x); jnp.cumsum(x, 1); jnp.cumsum(u, 0); jnp.cumsum(b, 1)
jnp.cumsum(long, -1); jnp.cumsum(i, 1, dtype='float32'); jnp.cumprod(x, 1)
jnp.cumsum(x.astype('float16'), 1); jnp.cumulative_sum(x, axis=1)
jnp.cumulative_sum(v, include_initial=True); jnp.cumulative_sum(u, axis=0)
jnp.cumulative_prod(x, axis=0, include_initial=True); jnp.cumsum(b, dtype=bool)
jnp.average(x); jnp.average(x, 1, wt); jnp.average(x, weights=pos); jnp.average(i, 0)
jnp.average(x, (0, 1), keepdims=True); jnp.average(x, 1, wt, returned=True)[1]
jnp.cov(x); jnp.cov(x, rowvar=False); jnp.cov(x, y); jnp.cov(v); jnp.cov(x, bias=True)
jnp.cov(x, ddof=2); jnp.cov(x, aweights=wt); jnp.cov(x, fweights=j[0]); jnp.cov(c)
jnp.cov(x, fweights=j[0], aweights=wt); jnp.cov(v, v * 2)
jnp.cov(x, aweights=wt, ddof=0); jnp.corrcoef(x); jnp.corrcoef(x, y)
jnp.corrcoef(x, rowvar=False); jnp.corrcoef(c); jnp.count_nonzero(i)
jnp.count_nonzero(b, 1); jnp.count_nonzero(x, 0, keepdims=True); jnp.ptp(x)
jnp.ptp(i, 1); jnp.ptp(x, 0, keepdims=True)
"""

LINEAR = """
jnp.dot(x, y.T); jnp.dot(v, v); jnp.dot(2.0, v); jnp.dot(t3, v[:4]); jnp.dot(t3, u3[0])
jnp.dot(t3, u3); jnp.dot(i, j.T); jnp.dot(b, b.T); jnp.dot(x, i.T)
jnp.dot(u, u.T, preferred_element_type='int32'); jnp.dot(c, c.T); jnp.vdot(c, c)
jnp.vdot(x, y); jnp.vecdot(c, c); jnp.vecdot(x, y, axis=0); jnp.inner(x, y)
jnp.inner(v, v); jnp.inner(v, 3.0); jnp.matmul(t3, u3); jnp.matmul(x, v)
jnp.matmul(w[:4], x); jnp.matmul(t3[:, None], u3); jnp.matmul(v, v); jnp.matmul(b, b.T)
jnp.matmul(t3, x.T[:4]); jnp.matmul(x.astype('float16'), y.T.astype('float16'))
jnp.matvec(t3, w[:4]); jnp.vecmat(w[:3], t3); jnp.vecmat(c, c.T)
jnp.tensordot(t3, u3, ((0, 2), (0, 1))); jnp.tensordot(x, y, 0)
jnp.tensordot(t3, t3, 3); jnp.tensordot(t3, x, ((2,), (0,))); jnp.outer(v, w)
jnp.outer(x, v); jnp.kron(x, ties); jnp.kron(v, x); jnp.kron(2.0, x)
jnp.cross(x[:, :3], y[:, :3]); jnp.cross(x[:, :2], y[:, :2])
jnp.cross(x[:, :3], y[:, :2]); jnp.cross(m3, m3.T, axis=0)
jnp.cross(x[:3], y[:3], 0, 0, 0); jnp.trace(x); jnp.trace(t3, 1, 2, 1); jnp.trace(u)
jnp.trace(x, -2); jnp.trace(i, dtype='float32'); jnp.matrix_transpose(t3)
jnp.einsum('ij,kj->ik', x, y); jnp.einsum('ij,kj', x, y); jnp.einsum('ij->', x)
jnp.einsum('ij->j', x); jnp.einsum('ii->i', m3); jnp.einsum('ii', m3)
jnp.einsum('ij->ji', x); jnp.einsum('...ij,...jk', t3, u3)
jnp.einsum('...ij,...jk->...ik', t3[:, None], u3)
jnp.einsum('ijk,ikl,lm->jm', t3, u3, u3[0].T); jnp.einsum('i,j->ij', v, w)
jnp.einsum('i,i', v, v); jnp.einsum('ij,ij->i', x, y); jnp.einsum('i->', v)
jnp.einsum('ij,jk,kl', x, y.T, x); jnp.einsum('bi,bj->bij', x, y)
jnp.einsum('ij,k->k', x, w); jnp.einsum(x, [0, 1], y, [2, 1], [0, 2])
jnp.einsum(x, [0, 1], y, [2, 1]); jnp.einsum(t3, [..., 0, 1], u3, [..., 1, 2])
jnp.einsum('ij,ij,ij->j', x, y, x); jnp.einsum('i...->...', x)
jnp.einsum('iij->ij', np.stack([m3, m3, m3], 0)); jnp.einsum(', ij', 2.0, x)
jnp.einsum('ij,kj->ik', i, j); jnp.einsum('ab,ab', c, c)
jnp.einsum('ij, kj -> ki', x, y, optimize=False)
jnp.einsum('ij,kj->ik', u, u, preferred_element_type='float32'); jnp.linalg.norm(x)
jnp.linalg.norm(v, 1); jnp.linalg.norm(v, np.inf); jnp.linalg.norm(v, 3)
jnp.linalg.norm(v, 0); jnp.linalg.norm(v, -np.inf); jnp.linalg.norm(x, axis=1)
jnp.linalg.norm(x, 1, axis=0); jnp.linalg.norm(x, 1); jnp.linalg.norm(x, -1)
jnp.linalg.norm(x, np.inf); jnp.linalg.norm(x, -np.inf, keepdims=True)
jnp.linalg.norm(t3); jnp.linalg.norm(t3, 'fro', axis=(0, 2))
jnp.linalg.norm(t3, 1, axis=(2, 0)); jnp.linalg.norm(c); jnp.linalg.norm(i)
jnp.linalg.norm(c, 1, axis=1); jnp.linalg.norm(v, 0.5); jnp.linalg.vector_norm(x)
jnp.linalg.vector_norm(x, axis=(0, 1), ord=3); jnp.linalg.matrix_norm(t3, keepdims=True)
jnp.linalg.matrix_norm(t3, ord=1); jnp.linalg.matrix_power(m3, 5)
jnp.linalg.matrix_power(m3, 0); jnp.linalg.multi_dot([v[:4], x, y.T, w[:4]])
jnp.linalg.multi_dot([x, y.T, x]); jnp.linalg.diagonal(t3)
jnp.linalg.diagonal(t3, offset=1); jnp.linalg.trace(t3); jnp.linalg.cross(m3, m3 + 1)
jnp.linalg.outer(v, w); jnp.linalg.vecdot(c, c)
"""

NN = """
nn.relu(x); nn.relu(i); nn.relu6(x * 5); nn.sigmoid(x); nn.silu(x); nn.swish(x)
nn.softplus(x * 20); nn.soft_sign(x); nn.elu(x); nn.elu(x, 0.5); nn.selu(x)
nn.celu(x, 2.0); nn.gelu(x); nn.gelu(x, approximate=False); nn.glu(x); nn.glu(x, 0)
nn.leaky_relu(x); nn.leaky_relu(x, 0.3); nn.hard_tanh(x * 2); nn.hard_sigmoid(x * 4)
nn.hard_silu(x * 4); nn.hard_swish(x * 4); nn.log_sigmoid(x * 20); nn.mish(x)
nn.squareplus(x); nn.squareplus(x, 1.0); nn.sparse_plus(x); nn.sparse_sigmoid(x)
nn.tanh(x); nn.identity(x); nn.log1mexp(pos); nn.softmax(x); nn.softmax(x, 0)
nn.softmax(x, (0, 1)); nn.softmax(x, where=b); nn.log_softmax(x); nn.log_softmax(x, 0)
nn.log_softmax(x, (0, 1)); nn.log_softmax(x, where=b); nn.logsumexp(x)
nn.logsumexp(x, 0); nn.logsumexp(x, (0, 1), keepdims=True)
nn.logsumexp(x, 1, b=y, return_sign=True)[0]
nn.logsumexp(x, 1, b=y, return_sign=True)[1]; nn.logsumexp(x, 1, b=pos)
nn.logsumexp(x, 1, where=b); nn.logsumexp(x * 0 - np.inf, 1); nn.logsumexp(i)
nn.logmeanexp(x, 1); nn.logmeanexp(x, where=b); nn.softmax(x * 1000); nn.standardize(x)
nn.standardize(x, 0); nn.standardize(x, where=b)
nn.standardize(x, mean=0.5, variance=2.0); nn.one_hot(ids, 4)
nn.one_hot(ids, 3, axis=0); nn.one_hot(ids, 3, dtype='int32'); nn.one_hot(ids - 1, 3)
nn.one_hot(2, 5); nn.softmax(x.astype('float16')); nn.gelu(x.astype('float16'))
nn.relu(x.astype('float16')); nn.dot_product_attention(q, k, val)
nn.dot_product_attention(q, k, val, bias)
nn.dot_product_attention(q, k, val, mask=mask)
nn.dot_product_attention(q, k, val, is_causal=True)
nn.dot_product_attention(q, k, val, scale=0.3)
nn.dot_product_attention(q[0], k[0], val[0]); nn.dot_product_attention(q, kq, kq)
nn.dot_product_attention(q, k, val, local_window_size=2)
nn.dot_product_attention(q, k, val, local_window_size=(1, 3), is_causal=True)
nn.dot_product_attention(q, k, val, query_seq_lengths=ids[:2] + 3, \
key_value_seq_lengths=ids[:2] + 4)
nn.dot_product_attention(q.astype('float16'), k.astype('float16'), \
val.astype('float16'))
"""

SCIPY = """
special.logsumexp(x, 1); special.expit(x); special.logit(unit * unit)
special.xlogy(i, pos); special.xlogy(0.0, 0.0); special.xlog1py(x, pos)
special.gammaln(pos); special.betaln(pos, 2.0); special.digamma(pos); special.erf(x)
special.erfc(x); special.erfinv(unit); special.entr(x); special.entr(pos)
special.ndtr(x * 4); special.ndtri(unit * unit * 0.98 + 0.01); special.log_ndtr(x * 10)
special.log_ndtr(x); special.softmax(x, axis=1); special.log_softmax(x, axis=0)
special.softmax(x); special.rel_entr(pos, unit); special.kl_div(pos, pos + 1)
special.gamma(pos * 3); special.gamma(x); special.factorial(i % 7)
special.beta(pos, 2.0); special.multigammaln(pos + 3, 2); special.gammasgn(x * 3)
special.boxcox(pos, 0.5); special.boxcox1p(pos, 0.0); special.poch(pos, 2.0)
special.i0e(x * 4); special.i0(x); special.i1e(x * 4); special.i1(x)
special.polygamma(1, pos); special.zeta(pos + 1.5, 2.0); norm.logpdf(x)
norm.pdf(x, 0.5, 2.0); norm.cdf(x); norm.logcdf(x * 3); norm.sf(x)
norm.logsf(x, 1.0, pos); norm.ppf(unit * unit * 0.98 + 0.01)
norm.isf(unit * unit * 0.98 + 0.01, 1.0, 2.0); norm.logpdf(i)
ops.segment_sum(x, ids, 3); ops.segment_sum(x, ids, 5); ops.segment_max(x, ids, 4)
ops.segment_min(x, ids, 3); ops.segment_prod(x, ids, 4); ops.segment_sum(x, ids - 1, 3)
ops.segment_max(i, ids, 4); signal.convolve(v, w); signal.convolve(v, w, 'same')
signal.convolve(v, w[:3], 'valid'); signal.correlate(v, w)
signal.correlate(v, w[:3], 'same'); signal.convolve(x, m3)
signal.correlate(x, m3, 'same'); signal.convolve2d(x, m3)
signal.correlate2d(x, m3, 'valid'); signal.correlate(v[:2], w, 'valid')
signal.convolve2d(x, m3, 'same')
"""

SECTIONS = {
    "lax": LAX, "reductions": REDUCTIONS, "linear": LINEAR, "nn": NN, "scipy": SCIPY,
}  # fmt: skip


def expressions(section: str) -> list[str]:
    """The expressions of a section, one by one."""
    text = SECTIONS[section].replace("\\\n", "").replace("\n", ";")
    return [part.strip() for part in text.split(";") if part.strip()]
