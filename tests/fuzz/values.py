"""Statements of single elements: arithmetic, functions, comparisons, bits, casts."""

from __future__ import annotations

from tests.fuzz.draw import COMPLEX, DTYPES, FLOATS, INTS, Draw, Value, put

#: (expression of `a`, kinds it takes, units in the last place). Whole numbers become
#: floats in functions of floats.
UNARY = (
    ("-a", "fciu", 0),
    ("+a", "fciu", 0),
    ("jnp.abs(a)", "fiu", 0),
    ("jnp.abs(a)", "c", 3),
    ("jnp.sign(a)", "fiu", 0),
    ("jnp.sign(a)", "c", 4),
    ("jnp.floor(a)", "fiu", 0),
    ("jnp.ceil(a)", "fiu", 0),
    ("jnp.round(a)", "fiu", 0),
    ("jnp.trunc(a)", "fiu", 0),
    ("jnp.round(a, 1)", "f", 3),
    ("jnp.square(a)", "fciu", 1),
    ("jnp.sqrt(a)", "fiu", 1),
    ("jnp.sqrt(a)", "c", 8),
    ("jnp.cbrt(a)", "fiu", 3),
    ("lax.rsqrt(a)", "f", 3),
    ("jnp.reciprocal(a)", "f", 1),
    ("jnp.exp(a)", "fciub", 4),
    ("jnp.exp2(a)", "fi", 4),
    ("jnp.expm1(a)", "fi", 4),
    ("jnp.log(a)", "fiub", 4),
    ("jnp.log(N(jnp.abs(a) + 0.5))", "f", 4),
    ("jnp.log2(a)", "fiu", 4),
    ("jnp.log10(a)", "f", 4),
    ("jnp.log1p(a)", "fi", 4),
    ("jnp.sin(a)", "fiub", 4),
    ("jnp.cos(a)", "fiub", 4),
    ("jnp.tan(a)", "f", 6),
    ("jnp.arcsin(a)", "f", 6),
    ("jnp.arccos(a)", "f", 6),
    ("jnp.arctan(a)", "fi", 6),
    ("jnp.sinh(a)", "f", 6),
    ("jnp.cosh(a)", "f", 6),
    ("jnp.tanh(a)", "fib", 6),
    ("jnp.arcsinh(a)", "f", 6),
    ("jnp.arctanh(a)", "f", 6),
    ("jnp.sinc(a)", "f", 8),
    ("lax.erf(a)", "f", 6),
    ("lax.erfc(a)", "f", 20),
    ("lax.logistic(a)", "f", 6),
    ("lax.integer_pow(a, 3)", "f", 3),
    ("a ** 2", "fciu", 1),
    ("a ** 3", "fiu", 3),
    ("a ** -1", "f", 3),
    ("jnp.nan_to_num(a)", "fi", 0),
    ("jnp.isnan(a)", "fciub", 0),
    ("jnp.isfinite(a)", "fciu", 0),
    ("jnp.isposinf(a)", "f", 0),
    ("jnp.signbit(a)", "f", 0),
    ("jnp.real(a)", "fci", 0),
    ("jnp.imag(a)", "fc", 0),
    ("jnp.conj(a)", "fci", 0),
    ("jnp.angle(a)", "c", 6),
    ("~a", "iub", 0),
    ("jnp.logical_not(a)", "fciub", 0),
    ("lax.population_count(a)", "iu", 0),
    ("lax.clz(a)", "iu", 0),
    ("lax.stop_gradient(a)", "fciub", 0),
    ("nn.relu(a)", "fiu", 0),
    ("nn.relu6(a)", "f", 0),
    ("nn.leaky_relu(a)", "f", 2),
    ("nn.sigmoid(a)", "f", 6),
    ("nn.softplus(a)", "f", 6),
    ("nn.silu(a)", "f", 8),
    ("nn.gelu(a)", "f", 20),
    ("nn.gelu(a, approximate=False)", "f", 20),
    ("nn.elu(a)", "f", 6),
    ("nn.selu(a)", "f", 6),
    ("nn.soft_sign(a)", "f", 4),
    ("nn.log_sigmoid(a)", "f", 6),
    ("nn.hard_tanh(a)", "f", 0),
    ("jnp.deg2rad(a)", "f", 2),
    ("jnp.i0(a)", "f", 20),
    ("jax.checkpoint(lambda c: N(jnp.sin(c) * c))(a)", "f", 4),
    ("jax.jit(lambda c: N(c * 2 + 1))(a)", "fiu", 2),
)

#: (expression of `a` and `b`, kinds of a, kinds of b, units).
BINARY = (
    ("a + b", "fciu", "fciu", 1),
    ("a - b", "fciu", "fciu", 1),
    ("a * b", "fciu", "fciu", 1),
    ("a + b", "fiub", "fiub", 1),
    ("a * b", "fiub", "fiub", 1),
    ("a - b", "f", "f", 1),
    ("a * b", "f", "f", 1),
    ("b - a", "f", "f", 1),
    ("a / b", "fiu", "fiu", 1),
    ("a / b", "c", "fc", 8),
    ("b / a", "f", "f", 1),
    ("a // b", "f", "f", 1),
    ("a % b", "f", "f", 1),
    ("a // b", "iu", "iu", 0),
    ("a % b", "iu", "iu", 0),
    ("jnp.fmod(a, b)", "fi", "fi", 1),
    ("lax.rem(a, N(a + 1))", "fi", "f", 1),
    ("jnp.maximum(a, b)", "fiub", "fiub", 0),
    ("jnp.minimum(a, b)", "fiub", "fiub", 0),
    ("jnp.fmax(a, b)", "f", "f", 0),
    ("jnp.fmin(a, b)", "f", "f", 0),
    ("jnp.power(N(jnp.abs(a) + 0.5), b)", "f", "f", 8),
    ("a ** b", "f", "fi", 8),
    ("a ** 5", "iu", "i", 0),
    ("jnp.arctan2(a, b)", "f", "f", 6),
    ("jnp.hypot(a, b)", "f", "f", 6),
    ("N(jnp.logaddexp(a, b) - 1) + 1", "f", "f", 6),
    ("N(jnp.logaddexp2(a, b) - 1) + 1", "f", "f", 8),
    ("jnp.copysign(a, b)", "f", "f", 0),
    ("jnp.nextafter(a, b)", "f", "f", 0),
    ("jnp.heaviside(a, b)", "f", "f", 0),
    ("jnp.where(a > b, a, b)", "fiu", "fiu", 0),
    ("jnp.where(a == b, a, 0)", "fiuc", "fiuc", 0),
    ("jnp.where(jnp.isnan(a), b, a)", "f", "f", 0),
    ("a == b", "fciub", "fciub", 0),
    ("a != b", "fciub", "fciub", 0),
    ("a < b", "fiub", "fiub", 0),
    ("a <= b", "fiub", "fiub", 0),
    ("a >= b", "fiub", "fiub", 0),
    ("jnp.logical_and(a, b)", "fiub", "fiub", 0),
    ("jnp.logical_xor(a, b)", "fiub", "fiub", 0),
    ("a & b", "iub", "iub", 0),
    ("a | b", "iub", "iub", 0),
    ("a ^ b", "iub", "iub", 0),
    ("a << (b & 7)", "iu", "iu", 0),
    ("a >> (b & 7)", "iu", "iu", 0),
    ("a << b", "iu", "iu", 0),
    ("jnp.right_shift(a, b)", "iu", "iu", 0),
    ("jnp.gcd(a // 2, b // 2)", "iu", "iu", 0),  # JAX hangs at the least number
    ("jnp.clip(a, -1, b)", "fi", "fi", 0),
    ("jnp.divmod(a, b)[1]", "fiu", "fiu", 1),
    ("jnp.isclose(a, b)", "f", "f", 0),
    ("N(jnp.ldexp(a, 3)) + b", "f", "f", 1),
)


def unary(draw: Draw) -> tuple[str, float] | None:
    x = draw.value()
    if x is None:
        return None
    rows = [row for row in UNARY if x.kind in row[1]]
    text, _, error = draw.choose(rows)
    return put(text, a=x.name), error


def binary(draw: Draw) -> tuple[str, float] | None:
    x = draw.value()
    if x is None:
        return None
    text, _, other, error = draw.choose([r for r in BINARY if x.kind in r[1]])
    return put(text, a=x.name, b=draw.beside(x, other)), error


def select(draw: Draw) -> tuple[str, float] | None:
    x = draw.value()
    if x is None:
        return None
    mask = draw.value(lambda v: v.kind == "b" and v.shape == x.shape)
    if mask is None or draw.chance(0.3):
        condition = (
            f"{x.name} > {draw.scalar(x)}" if x.kind in "fiu" else f"{x.name} != 0"
        )
    else:
        condition = mask.name
    y, z = draw.beside(x, x.kind), x.name
    if draw.chance(0.5):
        y, z = z, y
    if draw.chance(0.2):
        return f"jnp.select([{condition}], [{y}], {draw.scalar(x)})", 0
    return f"jnp.where({condition}, {y}, {z})", 0


def cast(draw: Draw) -> tuple[str, float] | None:
    x = draw.value()
    if x is None:
        return None
    kinds = FLOATS if draw.chance(0.5) else DTYPES if draw.chance(0.6) else INTS
    if x.kind == "c" or draw.chance(0.1):
        kinds = COMPLEX
    dtype = draw.choose(kinds)
    error = 1 if dtype in FLOATS or dtype in COMPLEX else 0
    if draw.chance(0.2) and x.kind != "c":
        return f"lax.convert_element_type({x.name}, jnp.{_name(dtype)})", error
    return f"{x.name}.astype(jnp.{_name(dtype)})", error


def _name(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def bits(draw: Draw) -> tuple[str, float] | None:
    """The same bits as another dtype of the width; those of NaN are not said."""
    widths = {
        "float32": "int32", "int32": "float32", "uint32": "float32",
        "float64": "uint64", "float16": "uint16", "int16": "float16", "uint8": "int8",
    }  # fmt: skip
    x = draw.value(lambda v: v.dtype in widths)
    if x is None:
        return None
    number = f"jnp.where({x.name} == {x.name}, {x.name}, 0)"
    number = number if x.kind == "f" else x.name
    return f"lax.bitcast_convert_type({number}, jnp.{widths[x.dtype]})", 0


def complex_parts(draw: Draw) -> tuple[str, float] | None:
    x = draw.value(lambda v: v.dtype in ("float32", "float64"))
    if x is None:
        return None
    y = draw.choose(
        [v for v in draw.values if (v.shape, v.dtype) == (x.shape, x.dtype)]
    )
    return f"lax.complex({x.name}, {y.name})", 0


def made(draw: Draw) -> tuple[str, float] | None:
    """A value from nothing."""
    n, m = draw.choose((1, 2, 3, 5, 8)), draw.choose((1, 2, 3, 4))
    dtype = _name(draw.choose(("float32", "int32", "float64", "int8", "bfloat16")))
    texts = (
        f"jnp.arange({n}, dtype=jnp.{dtype})",
        f"jnp.linspace(-1, 1, {n + 1})",
        f"jnp.eye({n}, {m}, dtype=jnp.{dtype})",
        f"jnp.full(({n}, {m}), 2, dtype=jnp.{dtype})",
        f"jnp.zeros(({n},), dtype=jnp.{dtype})",
        f"jnp.tri({n}, {m}, dtype=jnp.{dtype})",
        f"lax.iota(jnp.{dtype}, {n})",
        f"lax.broadcasted_iota(jnp.{dtype}, ({n}, {m}), {draw.number(0, 1)})",
    )
    return draw.choose(texts), 1


def like(draw: Draw) -> tuple[str, float] | None:
    x: Value | None = draw.value()
    if x is None:
        return None
    name = draw.choose(("zeros_like", "ones_like"))
    return f"jnp.{name}({x.name})", 0
