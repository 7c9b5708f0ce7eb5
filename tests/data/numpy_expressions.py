"""Expressions whose values and dtypes are recorded from JAX and held against ftrace.

`n` is the module, `jit` a function that compiles, the rest are arrays made with `n`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

inf, nan = np.inf, np.nan


def variables(n: Any, jit: Any) -> dict[str, Any]:
    """The names that the expressions use."""
    m = n.arange(6.0).reshape(2, 3)
    return {
        "n": n,
        "np": np,
        "jit": jit,
        "inf": inf,
        "nan": nan,
        "x": n.arange(3.0),
        "i": n.arange(3),
        "j": n.array([2, -7, 5, 0], "int16"),
        "u": n.array([0, 3, 200], "uint8"),
        "b": n.array([False, True, True]),
        "c": n.array([1 + 2j, -1j, 0.5]),
        "h": n.array([1.5, -2.25, 3.0], "bfloat16"),
        "m": m,
        "k": n.arange(24).reshape(2, 3, 4),
        "special": n.array([0.0, -0.0, 1.5, -2.5, inf, -inf, nan, 0.25]),
        "a8": n.array([5, -5, 5, -5, 0, -128, 7], "int8"),
        "b8": n.array([3, 3, -3, -3, 0, -1, 0], "int8"),
    }


_UNARY = (
    "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan "
    "sinh cosh tanh arcsinh arccosh arctanh square reciprocal absolute fabs negative "
    "positive sign floor ceil trunc rint round deg2rad rad2deg isnan isinf isfinite "
    "isposinf isneginf signbit real imag conj angle logical_not invert bitwise_count "
    "nan_to_num sinc i0 modf frexp spacing isreal iscomplex"
).split()
_BINARY = (
    "add subtract multiply divide floor_divide remainder fmod power float_power "
    "maximum minimum fmax fmin arctan2 hypot logaddexp logaddexp2 copysign nextafter "
    "heaviside equal not_equal less less_equal greater greater_equal logical_and "
    "logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift right_shift "
    "gcd lcm divmod"
).split()
# What XLA leaves undefined, or computes with flushed denormals or other edge values.
_SKIPPED = {
    ("i0", "special"), ("spacing", "special"), ("bitwise_count", "b"), ("sign", "b"),
    ("round", "b"), ("gcd", "a8, b8"), ("lcm", "a8, b8"), ("power", "j, j"),
    ("exp2", "c"), ("tan", "c"), ("arccosh", "c"), ("arcsin", "c"), ("arccos", "c"),
    ("log2", "c"), ("sinc", "c"), ("square", "c"), ("floor_divide", "a8, b8"),
    ("remainder", "a8, b8"), ("fmod", "a8, b8"), ("divmod", "a8, b8"),
    ("nextafter", "h, x"), ("power", "a8, b8"), ("cbrt", "c"),
}  # fmt: skip

ELEMENTWISE = [
    *[f"n.{f}({a})" for f in _UNARY for a in ("x", "i", "u", "b", "c", "h", "special")
      if (f, a) not in _SKIPPED],
    *[f"n.{f}(1)" for f in _UNARY],
    *[f"n.{f}({a})" for f in _BINARY
      for a in ("x, i", "i, 2", "i, 2.5", "u, i", "j, j", "b, b", "b, i", "h, x", "h, 2",
                "x, 1.5", "3, x", "special, 2.0", "a8, b8", "c, x", "1, 2", "2.0, 3")
      if (f, a) not in _SKIPPED],
    "i ** n.array([-1, 2, 3])", "n.array([1, -1, 2, 0, 3]) ** n.array([-1, -3, -2, -1, 0])",
    "n.array([3, 7, 2], 'int8') ** n.array([5, 9, 8], 'int8')",
    "n.array([3, 7], 'uint8') ** n.array([5, 9], 'uint8')", "2 ** i", "x ** i", "i ** 2.0",
    "b ** 2", "b ** b", "u ** 2", "x ** 0", "x ** -2", "i ** -1", "i ** n.array(-1)",
    "c ** 2", "n.power(n.arange(3, dtype='int8'), n.array(2))", "h ** 2", "x ** np.int64(2)",
    "a8 // b8", "a8 % b8", "n.fmod(a8, b8)", "special // 2.0", "special % 2.0",
    "n.array([5., -5., 5., -5., 0.]) // n.array([3., 3., -3., -3., 0.])",
    "n.array([5., -5., 5., -5., 0.]) % n.array([3., 3., -3., -3., 0.])",
    "i // 0", "i % 0", "u // 7", "u % 7", "n.mod(x, -2)", "5 // n.array([2, -2])",
    "n.hypot(n.array([inf, 3e38, nan, inf, 0.]), n.array([nan, 1., 1, 1, 0.]))",
    "n.logaddexp(n.array([inf, -inf, 1, inf, nan]), n.array([inf, -inf, -inf, -inf, 1]))",
    "n.logaddexp2(x, i)", "n.round(n.array([0.5, 1.5, 2.5, -0.5, 12.345]), 2)",
    "n.round(n.array([15., 25., 149.]), -1)", "n.round(n.array([2.5 + 3.5j]))",
    "n.round(i, 2)", "n.round(i * 155, -1)", "n.round(h, 1)",
    "n.modf(n.array([1.5, -1.5, inf, -inf, nan]))",
    "n.frexp(n.array([1.5, -1.5, inf, -inf, nan, -0., 3e38]))",
    "n.ldexp(n.array([1.5, 1.5, 1., inf, nan, 0.]), n.array([3, 200, -20, -1000, 3, 5]))",
    "n.ldexp(i, i)", "n.ldexp(h, 2)", "n.ldexp(1, 2.0)",
    "n.gcd(n.array([-12, 0, 7], 'int16'), 18)", "n.lcm(n.array([-12, 0, 100]), 18)",
    "n.gcd(u, n.array([6, 9, 60], 'uint8'))", "n.gcd(x, 6)", "n.gcd(True, True)",
    "n.heaviside(n.array([nan, -0., inf, -1.]), 0.5)",
    "n.copysign(n.array([1., -1, nan]), n.array([-0., 0., -1]))",
    "n.nan_to_num(special, nan=1, posinf=5, neginf=-6.5)", "n.nan_to_num(i)",
    "n.nan_to_num(n.array([nan + 1j * inf]))", "n.nan_to_num(special.astype('float16'))",
    "n.maximum(n.array([1 + 2j, 3]), n.array([1 + 3j, 1]))", "n.maximum(nan, 1)",
    "n.fmax(nan, 1)", "n.fmin(n.array([nan, 2.]), n.array([1., nan]))",
    "n.clip(i, 0.5, 1)", "n.clip(i, 1, None)", "n.clip(i)", "n.clip(x, max=1)",
    "n.clip(x, n.array([1., 0., 0.]), 1.5)", "n.clip(c, 0, 1)",
    "n.where(b, 1, 2)", "n.where(b, 1, 2.0)", "n.where(b, i, 2.0)", "n.where(i, x, h)",
    "n.where(b)", "n.where(b[:, None], m[0], 5)", "n.where(b, x)",
    "n.select([i > 1, i > 0], [i, 10 * i], 5)", "n.select([b], [i], 0.5)", "n.select([], [])",
    "n.piecewise(i, [i < 1, i > 1], [-1, lambda v: v * 2, 7.5])",
    "n.piecewise(x, [i < 1, i > 2], [-1, lambda v: v * 2])",
    "n.left_shift(1, i)", "n.left_shift(n.array(1, 'int8'), n.array([7, 8, -1], 'int8'))",
    "n.right_shift(n.array(-5, 'int8'), n.array([1, 8], 'int8'))",
    "n.right_shift(n.array(200, 'uint8'), n.array([1, 8], 'uint8'))",
    "n.angle(n.array([-1., 1.]), deg=True)", "n.sinc(n.array([0., 0.5, 1e-4, 3.5]))",
    "n.i0(n.array([0., 1, -5, 7.5, 20.]))", "n.nextafter(x, 5)", "n.nextafter(h, 9)",
    "n.add([1], 2)", "n.exp('a')", "n.exp(None)", "b - b", "-b", "~x", "x @ 2", "x << 1",
    "i + True", "i + np.float32(1)", "x + np.float32(1)", "x + np.arange(3, dtype='f4')",
    "np.float32(2) * x", "np.arange(3, dtype='f4') - x", "h + np.float32(1)", "h * i", "u - 1",
    "u + i", "u + n.array([1], 'int8')", "i + n.array([1], 'uint32')", "x.astype('int32')",
    "special.astype('bool')", "n.array([1e20, -1e20, nan, -1.5]).astype('int32')",
    "n.array([300., -5., 7.9]).astype('uint8')", "u.astype('bfloat16')", "c.astype('float32')",
    "n.isclose(x, x + 1e-6)", "n.isclose(i, i)", "n.isclose(special, special)",
    "n.isclose(special, special, equal_nan=True)", "n.allclose(x, x)",
    "n.array_equal(x, i)", "n.array_equal(x, m)", "n.array_equal(special, special, True)",
    "n.array_equiv(x, n.stack([x, x]))", "n.divmod(i, 2)", "divmod(x, 2)", "abs(-x)", "round(x)",
]  # fmt: skip

CREATION = [
    "n.array([x, x])", "n.array([1, 2.0])", "n.array([1, True])", "n.array(1)", "n.array([1])",
    "n.asarray(1.0)", "n.array([[1, 2], [3]])", "n.array([])", "n.array([[]])", "n.array(['a'])",
    "n.array(None)", "n.array([1, 2], ndmin=3)", "n.array([1.7, -1.7], 'int32')", "n.array((1, 2j))",
    "n.array([h, x])", "n.array(range(3))", "n.array(True)", "n.array([x[0], 2])",
    "n.array(x, 'int32')", "n.zeros(3)", "n.zeros((2,), int)", "n.zeros((2, 0))", "n.ones((2, 1), bool)",
    "n.full((2,), 1)", "n.full((2,), 1.0)", "n.full((2, 3), x)", "n.full((2,), True)", "n.full(2, x)",
    "n.full((2,), 7, 'uint8')", "n.ones_like(i)", "n.zeros_like(1)", "n.full_like(i, 2.7)",
    "n.zeros_like(x, 'int8', (1, 2))", "n.full_like(m, x)", "n.empty((2,))", "n.zeros(-1)",
    "n.arange(3)", "n.arange(3.)", "n.arange(1, 2, 0.25)", "n.arange(3, dtype='float32')",
    "n.arange(0)", "n.arange(5, 0, -2)", "n.arange(np.int8(3))", "n.arange(i[2])", "n.arange(2, 5.)",
    "n.arange(-3)", "n.arange(1, 10, 3)", "n.arange(3, dtype='bfloat16')", "n.arange(3, 1, 0)",
    "n.linspace(0, 1, 3)", "n.linspace(0, 1, 3, endpoint=False, retstep=True)", "n.linspace(5, 5, 4)",
    "n.linspace(0, 10, 3, dtype=int)", "n.linspace(i, x, 2)", "n.linspace(0, 1, 1)", "n.linspace(0, 1, 0)",
    "n.linspace(x, 2 * x, 3, axis=1)", "n.linspace(-5, 5, 7, dtype=int)", "n.linspace(0, 1j, 3)",
    "n.linspace(0, 1, 2, retstep=True)", "n.linspace(0, 1, -1)", "n.linspace(1, 3, 11)",
    "n.logspace(0, 2, 3)", "n.logspace(0, 3, 4, base=2)", "n.logspace(0, 2, 3, dtype=int)",
    "n.geomspace(1, 100, 3)", "n.geomspace(-1, -100, 3)", "n.geomspace(1, 16, 4, endpoint=False)",
    "n.eye(2)", "n.eye(2, 3, k=1, dtype=int)", "n.eye(3, k=-1)", "n.eye(0)", "n.identity(2)",
    "n.tri(2, 3)", "n.tri(3, k=-1, dtype='int8')", "n.tril(m)", "n.triu(m, 1)", "n.tril(k, -1)",
    "n.triu(x)", "n.vander(x)", "n.vander(i, 2, increasing=True)", "n.vander(m)", "n.diag(x, 1)",
    "n.diag(x, -2)", "n.diag(m)", "n.diag(m, 1)", "n.diag(m, -5)", "n.diag(k)", "n.diagflat(m, 1)",
    "n.diagonal(m)", "n.diagonal(k, 1, 1, 2)", "n.diagonal(k, -1, 2, 0)", "n.diagonal(x)",
    "n.meshgrid(x, i)", "n.meshgrid(x, i, sparse=True)", "n.meshgrid(x, i, u, indexing='ij')",
    "n.meshgrid(x)", "n.meshgrid(x, x, indexing='no')", "n.mgrid[0:2, 0:3]", "n.mgrid[0:1:3j]",
    "n.mgrid[0:2, 0:1:3j]", "n.mgrid[1:3]", "n.ogrid[0:2, 0:3]", "n.r_[0:3, 5]", "n.c_[x, x]",
    "n.indices((2, 3))", "n.indices((2, 3), sparse=True)", "n.fromfunction(lambda p, q: p + q, (2, 2))",
    "n.fromfunction(lambda p: p * 2, 3, dtype=int)", "n.float32(3)", "n.int32([1, 2])", "n.bool_(2)",
    "n.result_type(1, 2.0)", "n.result_type('int8', 1)", "n.result_type(n.int8, n.float16)",
    "n.result_type(i, 1.0)", "n.result_type(u, a8)", "n.promote_types('int32', 'float16')",
    "n.promote_types(int, 'float16')", "n.promote_types('uint8', 'int8')", "n.can_cast('int32', 'int8')",
    "n.can_cast('int8', 'float32')", "n.issubdtype(n.bfloat16, n.floating)", "n.issubdtype(x.dtype, n.integer)",
    "n.issubdtype(n.int32, n.signedinteger)", "n.issubdtype('float32', 'float32')", "n.issubdtype(n.int8, int)",
    "n.isdtype(x.dtype, 'real floating')", "n.isdtype(i.dtype, ('bool', 'integral'))", "n.isdtype(x.dtype, 'no')",
    "n.iscomplexobj(x)", "n.iscomplexobj(c)", "n.isrealobj(x)", "n.isscalar(1)", "n.isscalar(x)", "n.ndim(m)",
    "n.size(m, 0)", "n.shape(m)", "float(n.finfo(n.bfloat16).eps)", "n.iinfo(n.int8).max", "float(n.finfo('float16').max)",
    "n.astype(x, int)", "x.astype('bool')", "n.copy(x)", "n.fft.fftfreq(5, 0.5)", "n.fft.fftfreq(4)",
    "n.fft.rfftfreq(5)", "n.fft.fftshift(i)", "n.fft.ifftshift(m)", "n.fft.fftshift(k, axes=(1, 2))",
    "n.fft.fftfreq(0)", "n.pi", "n.euler_gamma", "isinstance(x, n.ndarray)", "x.dtype == n.float32",
    "n.tril_indices(3)", "n.triu_indices(2, 1, 4)", "n.diag_indices(2)", "n.triu_indices_from(m)",
    "n.diag_indices_from(m)", "n.tril_indices_from(m, -1)", "n.ix_(i, i)", "n.unravel_index(n.arange(6), (2, 3))",
    "n.unravel_index(-1, (2, 3))", "n.ravel_multi_index((i, i), (3, 3))", "n.ravel_multi_index((i, i), (2, 2))",
    "n.ravel_multi_index((i, i), (2, 2), mode='wrap')", "n.ravel_multi_index((i, i), (3, 4), order='F')",
    "n.packbits(n.arange(11) % 3)", "n.packbits(n.ones((2, 9), bool), axis=1, bitorder='little')",
    "n.unpackbits(u)", "n.unpackbits(u[:, None], axis=1, count=5, bitorder='little')", "n.unpackbits(x)",
]  # fmt: skip

SHAPE = [
    "n.reshape(m, (3, -1))", "n.reshape(m, 6)", "m.reshape(6, 1)", "n.reshape(m, (3, 2), order='F')",
    "n.reshape(m, (4, -1))", "n.reshape(m, (-1, -1))", "m.reshape(5)", "n.ravel(m)", "m.ravel('F')", "m.flatten()",
    "n.transpose(k)", "n.transpose(k, (1, 0, -1))", "k.transpose(2, 0, 1)", "n.transpose(m, (0, 0))", "m.T",
    "k.mT", "n.permute_dims(k, (2, 1, 0))", "n.matrix_transpose(x)", "n.swapaxes(k, 0, -1)", "n.swapaxes(m, 0, 3)",
    "n.moveaxis(k, 0, -1)", "n.moveaxis(k, (0, 1), (1, 2))", "n.moveaxis(m, 0, 3)", "n.moveaxis(k, (0, 1), 2)",
    "n.rollaxis(k, 2)", "n.rollaxis(k, 0, 3)", "n.expand_dims(m, 0)", "n.expand_dims(m, (0, -1))",
    "n.expand_dims(m, 5)", "n.squeeze(m[None, :, None])", "n.squeeze(m[None], 0)", "n.squeeze(m, 0)",
    "n.broadcast_to(x, (2, 3))", "n.broadcast_to(x, (2, 4))", "n.broadcast_to(m, (3,))", "n.broadcast_to(1, 3)",
    "n.broadcast_shapes((1, 2), (3, 1))", "n.broadcast_shapes((2,), (3,))", "n.broadcast_arrays(x, m)",
    "n.concatenate([x, i])", "n.concatenate([1, 2])", "n.concatenate(m)", "n.concatenate([])", "n.concatenate([m, m], 1)",
    "n.concatenate([m, k[0]], axis=None)", "n.concatenate([m, x])", "n.concatenate([x, i], dtype='int8')",
    "n.concat([m, m], axis=-1)", "n.stack([1, 2])", "n.stack([x, i], -1)", "n.stack([x, m])", "n.stack([])",
    "n.vstack([x, x])", "n.hstack([1., x])", "n.hstack([m, m])", "n.dstack([x, x])", "n.column_stack([x, m.T])",
    "n.vstack([x, m])", "n.append(x, 1)", "n.append(m, m, 0)", "n.insert(x, 1, i[:2])", "n.insert(x, i[:2], 9)",
    "n.insert(m, 1, 7, axis=1)", "n.insert(m, [0, 2], x[:2, None], axis=0)", "n.insert(x, -1, 5)", "n.insert(x, 7, 5)",
    "n.insert(x, slice(0, 2), 9)", "n.delete(x, 1)", "n.delete(x, n.array([0, 0]))", "n.delete(m, 1, axis=1)",
    "n.delete(k, [0, 2], 1)", "n.delete(x, slice(1, None))", "n.delete(x, np.array([True, False, True]))",
    "n.delete(x, 9)", "n.delete(m, 4)", "n.tile(x, 2)", "n.tile(m, (2, 1))", "n.tile(x, (2, 2))", "n.tile(m, 0)",
    "n.repeat(x, 2)", "n.repeat(x, i)", "n.repeat(m, 2, axis=0)", "n.repeat(m, n.array([1, 2, 0]), axis=1)",
    "n.repeat(x, i, total_repeat_length=5)", "n.repeat(x, i, total_repeat_length=2)", "n.repeat(x, n.array([1, 2]))",
    "n.split(x, 3)", "n.split(x, 2)", "n.array_split(x, 2)", "n.split(x, [1])", "n.split(m, [1, 2], 1)", "n.hsplit(m, 3)",
    "n.vsplit(m, 2)", "n.dsplit(k, 2)", "n.array_split(n.arange(7), 3)", "n.array_split(x, [2, 1, -1])", "n.unstack(m)",
    "n.unstack(k, axis=-1)", "n.atleast_1d(1)", "n.atleast_2d(1)", "n.atleast_2d(x)", "n.atleast_3d(x, m)", "n.atleast_1d(1, x)",
    "n.flip(m)", "n.flip(k, (0, -1))", "n.fliplr(m)", "n.flipud(m)", "n.fliplr(x)", "n.rot90(m)", "n.rot90(m, 2)", "n.rot90(m, -1)",
    "n.rot90(k, 3, (1, 2))", "n.roll(x, 1)", "n.roll(m, 1)", "n.roll(m, -1, 0)", "n.roll(m, (1, 2), (0, 1))", "n.roll(m, 1, (0, 1))",
    "n.roll(m, 100, 1)", "jit(lambda v, s: n.roll(v, s))(x, 2)", "jit(lambda v, s: n.roll(v, s, 1))(m, -1)",
    "n.block([[x, x], [x, x]])", "n.block([m, m])", "n.block([[m, n.ones((2, 1))], [n.zeros((1, 4))]])", "n.block(x)", "n.block([x, [x]])",
    "n.diff(b)", "n.diff(i, prepend=0)", "n.diff(m, axis=0)", "n.diff(n.arange(5) ** 2, 2)", "n.diff(m, append=m)", "n.diff(x, -1)",
    "n.diff(x, 7)", "n.ediff1d(m)", "n.ediff1d(i, to_end=9, to_begin=n.array([5, 6]))", "n.gradient(x * x)", "n.gradient(i)",
    "n.gradient(m)", "n.gradient(m, 2.0, axis=1)", "n.gradient(x * x, n.array([0., 1., 3.]))", "n.gradient(m, 1.0, 3.0)",
    "n.gradient(k * 1., axis=(0, 2))", "n.gradient(x[:1])", "n.gradient(m, 1., 2., 3.)", "n.trapezoid(i)", "n.trapezoid(m, axis=0)",
    "n.trapezoid(m, x=n.array([0., 1., 3.]))", "n.trapezoid(x, dx=0.5)", "n.resize(x, (2, 4))", "n.resize(x, 2)", "n.trim_zeros(n.array([0, 1, 0, 2, 0]))",
    *[f"n.pad({a}, {w}, {mode!r})" for mode in ("constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum",
                                                "reflect", "symmetric", "wrap")
      for a, w in (("x", "2"), ("x", "(1, 7)"), ("m", "((1, 0), (2, 3))"), ("i * i", "(4, 5)"), ("m", "((0, 0), (1, 1))"), ("m", "((3,), (4,))"))],
    "n.pad(x, 2, constant_values=5)", "n.pad(m, 1, constant_values=((1, 2), (3, 4)))", "n.pad(x, (1, 2), 'linear_ramp', end_values=(5, -4))",
    "n.pad(i, 2, 'linear_ramp', end_values=7)", "n.pad(x * x, 2, 'mean', stat_length=2)", "n.pad(x * x, 5, 'reflect', reflect_type='odd')",
    "n.pad(x * x, 4, 'symmetric', reflect_type='odd')", "n.pad(x * x, (2, 3), 'maximum', stat_length=((1, 2),))", "n.pad(m, 1, 'no')",
    "n.pad(x, -1)", "n.pad(x, ((1, 2), (3, 4)))", "n.pad(x, 1, 'edge', constant_values=1)", "n.pad(n.zeros((0,)), 2)", "n.pad(n.zeros((0,)), 2, 'edge')",
    "n.pad(x[:1], 3, 'reflect')", "n.pad(m, (1, 2), 'wrap')", "n.pad(n.arange(4), (3, 9), 'reflect')",
    "n.convolve(x, i)", "n.convolve(n.arange(5.), x, 'same')", "n.convolve(n.arange(5.), x, 'valid')", "n.convolve(x, n.arange(5.), 'same')",
    "n.convolve(i, i)", "n.convolve(x, m)", "n.convolve(x, x, 'no')", "n.correlate(x, i, 'full')", "n.correlate(n.arange(5.), x)",
    "n.correlate(x, n.arange(5.))", "n.correlate(x, n.arange(5.), 'full')", "n.correlate(c, c, 'full')", "n.correlate(x, n.arange(4.), 'same')",
    "n.interp(0.5, x, x * 2)", "n.interp(i, x, x * 2)", "n.interp(n.array([-1., 0.5, 9.]), x, x * x, left=7)", "n.interp(n.array([-1., 1.5, 9.]), x, x * x, right=-7.)",
    "n.interp(n.array([-1., 4.]), x, x * x, 'extrapolate', 'extrapolate')", "n.interp(1., x, m)", "n.interp(n.array([1.]), n.array([0., 1., 1., 2.]), n.array([0., 1., 5., 6.]))",
    "n.polyval(n.array([1, 2]), i)", "n.polyval(x, m)", "n.polyadd(x, n.array([1, 2]))", "n.polysub(i, i[:2])", "n.polymul(x, x)", "n.polymul(i, i)",
    "n.polydiv(n.array([1., 5., 6., 1.]), n.array([1., 2.]))", "n.polyder(n.array([1., 2., 3.]))", "n.polyder(n.array([1., 2., 3.]), 2)",
    "n.polyint(n.array([6., 2.]))", "n.polyint(n.array([6., 2.]), 2, n.array([1., 2.]))", "n.unwrap(n.array([0., 3., 6.5, 9., -3.]))", "n.unwrap(n.array([0, 5, 1, 7]), period=4)",
    "n.searchsorted(x, n.array([-1., 0., 0.5, 2., 9., nan]))", "n.searchsorted(x, x, 'right')", "n.searchsorted(i, 1.5)", "n.searchsorted(x, x, 'no')",
    "n.digitize(n.array([0.5, 5., -1.]), x)", "n.digitize(x, x[::-1])", "n.digitize(x, x, right=True)",
    "n.apply_over_axes(n.sum, m, [0, 1])",
]  # fmt: skip

INDEXING = [
    *[f"k[{s}]" for s in (
        "0", "-1", "1, 2", "1, -2, 3", "...", "None", "..., 0", "0, ..., 1", "1:, ::-1", "::-1, 1:3, ::2", ":, None, 0", "..., None", "1:1",
        "::-2, ::-2, ::-3", "5:0:-1", "i[:2]", "n.array([1, 0, -1])", "n.array([[0, 1], [1, 0]])", "n.array([0, 1]), n.array([2, 0])", "n.array([0, 1]), :, n.array([2, 0])",
        "0, :, n.array([1, 3])", ":, n.array([0, 1]), ..., n.array([1, 2])", ":, n.array([[0], [1]]), n.array([1, 2])", "1, n.array([0, 1])", "n.array([0, 1]), None, 1",
        ":, 0, n.array([1, 2])", "0, None, n.array([1, 2])", "n.array([True, False])", ":, n.array([True, False, True])", "k > 12", "(k > 12)[0], ", "0, k[0] > 4",
        "n.array([True, False]), :, n.array([0])", "True", "False", ":, True, 0", "np.array([1, 0])", "np.int64(1)", "n.array(1)", "n.array(1), :, n.array([0, 3])",
        "np.array([], int)", "n.zeros((0,), int), 1", "..., n.array([0, 1]), 1:", "9", "0, -4", "0, 0, 0, 0", "..., ...", "1.0", "n.array([1.0])", "'a'", "0, 5:9", "::0",
        "n.array([True, False, True])", "n.array([0, 1]), n.array([0, 1, 2])")],
    "x[x > 0]", "x[1]", "x[::-2]", "x[n.array([], 'int32')]",
    "jit(lambda v, p: v[p])(x, 10)", "jit(lambda v, p: v[p])(x, n.array([10, -1, -5]))", "jit(lambda v, p: v[p, :])(m, -5)", "jit(lambda v, p: v[p])(k, 1)",
    "jit(lambda v, p: v[:, p, 1])(k, n.array([0, 2]))", "jit(lambda v, p: v[0, :, p])(k, n.array([0, 2]))", "jit(lambda v, p: v[p, 1:, None])(k, n.array([[0], [1]]))",
    "jit(lambda v, p: v[v > p])(x, 1)", "jit(lambda v, p: v[p:])(x, 1)", "jit(lambda v, p: v[p, 0, p])(k, 1)", "jit(lambda v, p: v[::-1, p])(m, n.array([2, 1], 'uint8'))",
    "x.at[n.array([10, -1, -5])].get(mode='clip')", "x.at[n.array([10, -1, -5])].get(mode='fill')", "i.at[n.array([10])].get(mode='fill')", "u.at[n.array([10])].get(mode='fill')",
    "b.at[n.array([10])].get(mode='fill')", "x.at[n.array([10])].get(mode='fill', fill_value=7)", "x.at[n.array([10, -1])].get(mode='drop')", "x.at[0].get(mode='no')",
    "x.at[n.array([10, -1])].get(mode='promise_in_bounds')",
    *[f"{a}.at[{s}].{op}({v})" for op, v in (("set", "7"), ("add", "2"), ("subtract", "1.5"), ("multiply", "3"), ("divide", "2"), ("power", "2"), ("min", "1"), ("max", "1"))
      for a, s in (("x", "1"), ("i", "0:2"), ("m", ":, 1"), ("m", "n.array([0, 0]), 1"), ("k", "..., ::-2"), ("m", "m > 2"), ("h", "n.array([1, 1])"))],
    "x.at[n.array([1, 1])].add(n.array([1., 5.]))", "x.at[n.array([2, 2])].apply(lambda v: v + 0)", "m.at[:, n.array([2, 0])].set(n.array([[1., 2.], [3., 4.]]))", "m.at[1, ::2].set(n.array([8., 9.]))",
    "k.at[:, 1, n.array([0, 3])].set(n.array([[-1, -2], [-3, -4]]))", "k.at[n.array([0, 1]), :, n.array([2, 0])].add(100)", "k.at[1, :, n.array([2, 0])].set(n.array([[1, 2, 3], [4, 5, 6]]))", "x.at[::-1].set(x)", "m.at[::-1, 1:].set(m[:, 1:])",
    "x.at[0:2].set(n.ones((3,)))", "i.at[0].set(2.7)", "i.at[0].add(0.7)", "x.at[n.array([0, -5, 9])].set(7, mode='drop')", "x.at[n.array([0, -5, 9])].set(7, mode='clip')", "jit(lambda v, p: v.at[p].set(9.))(x, n.array([-1, -5, 7]))",
    "jit(lambda v, p: v.at[p].add(1.))(x, n.array([1, 1, 7]))", "jit(lambda v, p: v.at[:, p].multiply(2.))(m, 1)", "jit(lambda v, p: v.at[p].min(-1.))(m, 1)", "m.at[0].set(x)", "m.at[...].set(1)", "m.at[None, 0].set(5)", "k.at[5].set(1)", "x.at[True].set(1)",
    "n.take(x, n.array([2, 0]))", "n.take(m, n.array([[2, 0]]), axis=1)", "n.take(x, n.array([10, -1, -9]), mode='wrap')", "n.take(x, n.array([10, -1, -9]), mode='clip')", "n.take(x, n.array([10, -1]), mode='fill')",
    "jit(lambda v, p: n.take(v, p))(x, n.array([10, -1, -9]))", "jit(lambda v, p: n.take(v, p))(i, 10)", "n.take(m, 1, axis=1)", "n.take(m, 4)", "n.take_along_axis(m, n.array([[0], [2]]), 1)", "n.take_along_axis(m, n.array([[0, 1, 1]]), 0)",
    "n.take_along_axis(m, n.array([0, 5]), None)", "jit(lambda v, p: n.take_along_axis(v, p, 1))(m, n.array([[0], [5]]))", "n.take_along_axis(m, i, 1)", "n.take_along_axis(k, k % 2, 1)",
    "n.put_along_axis(m, n.array([[0], [2]]), 9., 1, inplace=False)", "n.put_along_axis(m, n.array([[0], [2]]), 9., 1)", "n.put(x, i[:2], 9., inplace=False)", "n.put(m, n.array([0, 4, 5]), n.array([7., 8.]), inplace=False)",
    "n.place(x, b, n.array([7.]), inplace=False)", "n.fill_diagonal(m, 5, inplace=False)", "n.fill_diagonal(n.zeros((5, 2)), 5, wrap=True, inplace=False)", "n.fill_diagonal(n.zeros((5, 2)), n.array([1., 2.]), inplace=False)", "n.fill_diagonal(n.zeros((2, 2, 2)), 5, inplace=False)", "n.fill_diagonal(k, 1, inplace=False)",
    "n.choose(i, [i, i + 1, i + 2])", "n.choose(i, [i, i + 1], mode='wrap')", "n.choose(i, [i, i * 1.5], mode='clip')", "n.choose(i, [i, i])", "n.compress(b, x)", "n.compress(n.array([True, False]), m, 0)", "n.compress(b, m, 1)", "n.compress(b, x, size=3, fill_value=-1)",
    "n.extract(m > 2, m)", "jit(lambda v: n.compress(v > 0, v, size=2))(x)", "n.nonzero(m)", "n.nonzero(m > 2, size=5)", "n.nonzero(m > 2, size=2, fill_value=-1)", "jit(lambda v: n.nonzero(v > 2, size=4, fill_value=(7, 8)))(m)", "jit(lambda v: n.nonzero(v))(m)",
    "n.flatnonzero(m > 2)", "n.argwhere(m > 2)", "n.argwhere(m > 2, size=4)",
]  # fmt: skip

GROUPS = {
    "elementwise": ELEMENTWISE,
    "creation": CREATION,
    "shape": SHAPE,
    "indexing": INDEXING,
}
