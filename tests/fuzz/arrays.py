"""Statements of whole arrays: movement, reductions, indices, products, sorting."""

from __future__ import annotations

from tests.fuzz.draw import Draw, Value

Made = tuple[str, float] | None


def movement(draw: Draw) -> Made:
    x = draw.value()
    if x is None:
        return None
    return draw.choose(MOVEMENTS)(draw, x)


def _reshape(draw: Draw, x: Value) -> Made:
    sizes, rest = list[int](), x.size
    while rest > 1 and len(sizes) < 4:
        sizes.append(draw.choose([f for f in range(2, rest + 1) if rest % f == 0]))
        rest //= sizes[-1]
    if rest > 1:
        sizes.append(rest)
    if x.size == 0:
        sizes = [0]
    if draw.chance(0.4):
        sizes.insert(draw.number(0, len(sizes)), 1)
    if sizes and draw.chance(0.2) and x.size:
        sizes[draw.number(0, len(sizes) - 1)] = -1
    order = ", order='F'" if draw.chance(0.1) else ""
    return f"jnp.reshape({x.name}, {tuple(sizes)}{order})", 0


def _transpose(draw: Draw, x: Value) -> Made:
    if x.ndim < 2:
        return f"{x.name}.T", 0
    order = list(range(x.ndim))
    draw.random.shuffle(order)
    a, b = order[:2]
    texts = (
        f"jnp.transpose({x.name}, {tuple(order)})",
        f"jnp.swapaxes({x.name}, {a}, {b})",
        f"jnp.moveaxis({x.name}, {a}, {b})",
        f"jnp.rot90({x.name}, {draw.number(1, 3)}, ({a}, {b}))",
    )
    return draw.choose(texts), 0


def _expand(draw: Draw, x: Value) -> Made:
    if draw.chance(0.4) and x.ndim < 4:
        return f"jnp.expand_dims({x.name}, {draw.number(0, x.ndim)})", 0
    n = draw.choose((1, 2, 3, 5))
    if draw.chance(0.5):
        shape = (n, *(n if m == 1 else m for m in x.shape))
        return f"jnp.broadcast_to({x.name}, {shape})", 0
    if not x.ndim:
        return f"jnp.stack([{x.name}] * {n})", 0
    axis = draw.axis(x)
    texts = (
        f"jnp.repeat({x.name}, {n}, axis={axis})",
        f"jnp.tile({x.name}, {draw.choose((n, (n, 1), (2, n)))})",
        f"jnp.stack([{x.name}, {x.name}], axis={axis})",
        f"jnp.concatenate([{x.name}, {x.name}], axis={axis})",
    )
    return draw.choose(texts), 0


def _slice(draw: Draw, x: Value) -> Made:
    parts = list[str]()
    for n in x.shape:
        low = draw.number(0, max(n - 1, 0))
        text = draw.choose(
            (
                ":",
                "::-1",
                f"{low}:",
                f":{max(low, 1)}",
                "::2",
                f"{low}:{low + 3}",
                "1::3",
            )
        )
        parts.append(str(low) if n and draw.chance(0.15) else text)
    if not parts:
        return f"{x.name}[None]", 0
    if draw.chance(0.15):
        parts.insert(draw.number(0, len(parts)), "None")
    if draw.chance(0.15):
        parts = ["...", parts[-1]]
    return f"{x.name}[{', '.join(parts)}]", 0


def _pad(draw: Draw, x: Value) -> Made:
    if not x.ndim:
        return None
    pads = tuple((draw.number(0, 2), draw.number(0, 2)) for _ in x.shape)
    if draw.chance(0.4):
        low = tuple((a, b - 1, draw.number(0, 1)) for a, b in pads)
        fill = f"jnp.array({draw.choose((0, 1))}, {x.name}.dtype)"
        return f"lax.pad({x.name}, {fill}, {low})", 0
    mode = draw.choose(("constant", "edge", "wrap", "reflect", "symmetric"))
    if min(x.shape) < 3:
        mode = "constant"
    return f"jnp.pad({x.name}, {pads}, mode={mode!r})", 0


def _shift(draw: Draw, x: Value) -> Made:
    if not x.ndim:
        return f"jnp.ravel({x.name})", 0
    axis = draw.axis(x)
    texts = [
        f"jnp.flip({x.name}, {axis})",
        f"jnp.roll({x.name}, {draw.number(-3, 3)}, axis={axis})",
        f"jnp.roll({x.name}, {draw.number(-3, 3)})",
        f"jnp.ravel({x.name})",
        f"jnp.squeeze({x.name})",
        f"jnp.diff({x.name}, axis={axis})" if x.kind in "fiu" else f"{x.name}.T",
        f"jnp.diag({x.name})" if x.ndim <= 2 else f"jnp.diagonal({x.name})",
        f"jnp.delete({x.name}, 0, axis={axis})",
        f"jnp.array_split({x.name}, 2, axis={axis})[1]",
    ]
    if x.ndim >= 2 and x.kind != "b":
        texts += [f"jnp.tril({x.name})", f"jnp.triu({x.name}, {draw.number(-1, 1)})"]
    text = draw.choose(texts)
    return text, 1 if "diff" in text else 0


def _join(draw: Draw, x: Value) -> Made:
    alike = [v for v in draw.values if v.shape == x.shape]
    y = draw.choose(alike)
    if not x.ndim:
        return f"jnp.stack([{x.name}, {y.name}])", 1
    name = draw.choose(("concatenate", "stack"))
    return f"jnp.{name}([{x.name}, {y.name}], axis={draw.axis(x)})", 1


MOVEMENTS = (
    _reshape, _reshape, _transpose, _transpose, _expand, _slice, _slice, _pad, _shift,
    _shift, _join,
)  # fmt: skip

#: (function, kinds, units, takes keepdims).
REDUCTIONS = (
    ("jnp.sum", "fciub", 2, True),
    ("jnp.sum", "f", 2, True),
    ("jnp.prod", "fciub", 4, True),
    ("jnp.mean", "fciub", 2, True),
    ("jnp.max", "fiub", 0, True),
    ("jnp.min", "fiub", 0, True),
    ("jnp.any", "fciub", 0, True),
    ("jnp.all", "fciub", 0, True),
    ("jnp.argmax", "fiub", 0, True),
    ("jnp.argmin", "fiub", 0, True),
    ("jnp.var", "fiu", 6, True),
    ("jnp.std", "fiu", 6, True),
    ("jnp.ptp", "fi", 1, False),
    ("jnp.count_nonzero", "fciub", 0, False),
    ("jnp.nansum", "f", 2, True),
    ("jnp.nanmax", "f", 0, True),
    ("jnp.nanmean", "f", 2, True),
    ("jnp.median", "f", 2, False),
    ("jnp.linalg.norm", "f", 4, True),
    ("jnp.average", "f", 2, False),
    ("nn.logsumexp", "f", 6, True),
)

#: (expression of the operand and axis, kinds, units): the shape stays.
ALONG = (
    ("jnp.cumsum({x}, axis={a})", "fciub", 2),
    ("jnp.cumprod({x}, axis={a})", "fiu", 3),
    ("lax.cummax({x}, axis={p})", "fiu", 0),
    ("lax.cummin({x}, axis={p}, reverse=True)", "fiu", 0),
    ("lax.cumsum({x}, axis={p}, reverse=True)", "fi", 2),
    ("lax.cumlogsumexp({x}, axis={p})", "f", 8),
    ("lax.associative_scan(jnp.maximum, {x}, axis={p})", "fiu", 0),
    ("lax.associative_scan(lambda c, d: N(c * d), {x}, axis={p})", "f", 3),
    ("nn.softmax({x}, axis={a})", "f", 8),
    ("N(nn.log_softmax({x}, axis={a}) + 1) - 1", "f", 8),
    ("nn.standardize({x}, axis={a})", "f", 10),
    ("jnp.sort({x}, axis={a})", "fiub", 0),
    ("jnp.sort({x}, axis={a}, descending=True)", "fiu", 0),
    ("jnp.argsort({x}, axis={a})", "fiub", 0),
    ("jnp.argsort({x}, axis={a}, descending=True)", "fi", 0),
    ("{x} - N(jnp.mean({x}, axis={a}, keepdims=True))", "f", 2),
    ("{x} / N(jnp.sum({x}, axis={a}, keepdims=True))", "f", 2),
    ("jnp.exp(N({x} - jnp.max({x}, axis={a}, keepdims=True)))", "f", 4),
    ("jnp.gradient({x}, axis={p})", "f", 2),
    ("lax.rev({x}, ({p},))", "fciub", 0),
    ("lax.top_k({x}, 1)[0]", "fiu", 0),
    ("lax.top_k({x}, 1)[1]", "fiu", 0),
    ("jnp.quantile({x}, 0.3, axis={a})", "f", 3),
    ("jnp.fft.fft({x}, axis={a})", "fc", 8),
    ("jnp.fft.ifft({x}, axis={a})", "c", 8),
    ("jnp.fft.rfft({x}, axis={a})", "f", 8),
)


def reduction(draw: Draw) -> Made:
    x = draw.value()
    if x is None:
        return None
    name, _, error, keeps = draw.choose([r for r in REDUCTIONS if x.kind in r[1]])
    axes = draw.axes(x)
    if "arg" in name and axes.startswith("("):
        axes = str(draw.axis(x))
    if "norm" in name and (x.ndim > 2 or axes.startswith("(")):
        axes = str(draw.axis(x))
    keep = ", keepdims=True" if keeps and draw.chance(0.3) else ""
    if name in ("jnp.sum", "jnp.max") and draw.chance(0.1):
        keep += f", where={x.name} > 0, initial=0" if x.kind in "fiu" else ""
    return f"{name}({x.name}, axis={axes}{keep})", error


def along(draw: Draw) -> Made:
    """What goes along an axis and keeps the shape, or nearly."""
    x = draw.value(lambda v: v.ndim > 0)
    if x is None:
        return None
    text, _, error = draw.choose([r for r in ALONG if x.kind in r[1]])
    axis = draw.axis(x)
    return text.format(x=x.name, a=axis, p=axis % x.ndim), error


def _index(draw: Draw, shape: tuple[int, ...], size: int, beyond: bool) -> str:
    dtype = draw.choose(("int32", "int32", "int64", "uint8", "int8", "uint32"))
    low, high = (-size - 1, size + 2) if beyond else (-size, size)
    if dtype.startswith("u"):
        low = 0
    bounds = (low, max(high, low + 1))
    return draw.input(shape, dtype, kind="index", bounds=bounds).name


def gathers(draw: Draw) -> Made:
    x = draw.value(lambda v: v.ndim > 0 and v.size > 0)
    if x is None:
        return None
    axis = draw.number(0, x.ndim - 1)
    n = x.shape[axis]
    beyond = draw.chance(0.3)
    shape = draw.choose(((), (1,), (3,), (5,), (2, 3)))
    way = draw.number(0, 6)
    before = ":, " * axis
    if way == 0:
        return f"{x.name}[{before}{_index(draw, shape, n, False)}]", 0
    if way == 1:
        mode = draw.choose(("None", "'clip'", "'wrap'", "'fill'"))
        index = _index(draw, shape, n, beyond and mode != "None")
        return f"jnp.take({x.name}, {index}, axis={axis}, mode={mode})", 0
    if way == 2:
        shape = tuple(4 if a == axis else m for a, m in enumerate(x.shape))
        index = _index(draw, shape, n, False)
        return f"jnp.take_along_axis({x.name}, {index}, axis={axis})", 0
    if way == 3:
        size = draw.number(1, n)
        start = _index(draw, (), n, True)
        return f"lax.dynamic_slice_in_dim({x.name}, {start}, {size}, {axis})", 0
    if way == 4:
        return (
            f"lax.dynamic_index_in_dim({x.name}, {_index(draw, (), n, True)}, {axis})",
            0,
        )
    if way == 5 and x.ndim > 1:
        i = _index(draw, (3,), x.shape[0], False)
        j = _index(draw, draw.choose(((3,), (2, 1), ())), x.shape[1], False)
        return f"{x.name}[{i}, {j}]", 0
    index = _index(draw, shape, n, beyond)
    return f"{x.name}.at[{before}{index}].get(mode='fill', fill_value=0)", 0


def scatters(draw: Draw) -> Made:
    x = draw.value(lambda v: v.ndim > 0 and v.size > 0)
    if x is None:
        return None
    axis = draw.number(0, x.ndim - 1)
    shape = draw.choose(((), (1,), (3,), (5,)))
    rest = (*x.shape[:axis], *shape, *x.shape[axis + 1 :])
    same = [v.name for v in draw.values if v.shape == rest and v.dtype == x.dtype]
    updates = draw.choose(same) if same and draw.chance(0.7) else draw.scalar(x)
    if draw.chance(0.25):
        start = _index(draw, (), x.shape[axis], True)
        if same:
            updates = draw.choose(same)
        if shape and same:
            call = "lax.dynamic_update_slice_in_dim"
            return f"{call}({x.name}, {updates}[...], {start}, {axis})", 0
    kind = draw.choose(("set", "add", "max", "min", "multiply", "add"))
    if x.kind == "b":
        kind = "set"
    if x.kind == "c" and kind in ("max", "min"):
        kind = "add"
    beyond = draw.chance(0.3)
    if kind == "set":  # which of two writes to one place wins is not said
        place = draw.choose((str(draw.number(0, x.shape[axis] - 1)), "::2", "1:"))
        if draw.chance(0.5):
            place = _index(draw, (), x.shape[axis], False)
        return f"{x.name}.at[{':, ' * axis}{place}].set({draw.scalar(x)})", 0
    index = _index(draw, shape, x.shape[axis], beyond)
    mode = draw.choose((", mode='drop'", ", mode='clip'")) if beyond else ""
    error = 2 if kind in ("add", "multiply") else 0
    return f"{x.name}.at[{':, ' * axis}{index}].{kind}({updates}{mode})", error


def segments(draw: Draw) -> Made:
    x = draw.value(lambda v: v.ndim > 0 and v.kind in "fiu" and v.size > 0)
    if x is None:
        return None
    index = draw.input((x.shape[0],), "int32", kind="index", bounds=(-1, 5)).name
    name = draw.choose(("segment_sum", "segment_max"))
    error = 2 if name == "segment_sum" else 0
    return f"jax.ops.{name}({x.name}, {index}, num_segments=4)", error


def products(draw: Draw) -> Made:
    x = draw.value(lambda v: v.ndim > 0 and v.kind in "fciu" and v.size > 0)
    if x is None:
        return None
    n = x.shape[-1]

    def fits(v: Value) -> bool:
        return v.kind in x.kind and v.ndim in (1, 2) and v.shape[0] == n

    found = [v for v in draw.values if fits(v)]
    y = draw.choose(found) if found and draw.chance(0.7) else None
    if y is None:
        shape = draw.choose(((n,), (n, 3), (n, 5), (n, 8), (n, 1), (n, 17)))
        y = draw.input(shape, x.dtype)
    a, b = x.name, y.name
    texts = [f"{a} @ {b}", f"{a} @ {b}", f"jnp.dot({a}, {b})"]
    texts.append(f"jnp.tensordot({a}, {b}, axes=1)")
    texts.append(f"jnp.einsum('...i,i{'' if y.ndim == 1 else 'j'}->...', {a}, {b})")
    if x.ndim == 2:
        texts += [f"{a} @ {a}.T", f"jnp.einsum('ij,kj->ik', {a}, {a})"]
        texts.append(f"jnp.einsum('ij,ij->i', {a}, {a})")
        texts.append(f"jnp.trace({a} @ {a}.T)")
    if x.ndim == 3:
        texts.append(f"jnp.einsum('bij,bkj->bik', {a}, {a})")
        texts.append(f"jnp.matmul({a}, jnp.swapaxes({a}, 1, 2))")
    if x.ndim == 1 and y.ndim == 1:
        texts += [f"jnp.outer({a}, {b})", f"jnp.vdot({a}, {b})", f"jnp.kron({a}, {b})"]
        texts.append(f"jnp.convolve({a}, {b}, mode='same')")
    return draw.choose(texts), 4


def convolution(draw: Draw) -> Made:
    x = draw.value(
        lambda v: v.kind == "f" and v.ndim in (1, 2, 3) and 4 <= v.size < 600
    )
    if x is None:
        return None
    width = draw.choose((1, 2, 3, 4))
    padding = draw.choose(("SAME", "VALID"))
    stride = draw.choose((1, 1, 2))
    if x.ndim == 3 and draw.chance(0.6):
        kernel = draw.input((draw.choose((1, 2, 4)), x.shape[1], width), x.dtype).name
        more = draw.choose(("", ", rhs_dilation=(2,)", ", lhs_dilation=(2,)"))
        return (
            f"lax.conv_general_dilated({x.name}, {kernel}, ({stride},), "
            f"{padding!r}{more})"
        ), 6
    if x.ndim == 2 and draw.chance(0.5):
        kernel = draw.input((2, 1, width, 2), x.dtype).name
        return (
            f"lax.conv({x.name}[None, None], {kernel}, ({stride}, 1), {padding!r})",
            6,
        )
    window, steps = (width,) * x.ndim, (stride,) * x.ndim
    start, op = draw.choose((("0", "add"), ("-np.inf", "max"), ("np.inf", "min")))
    how = f"{x.name}.dtype.type({start}), lax.{op}, {window}, {steps}"
    text = f"lax.reduce_window({x.name}, {how}, {padding!r})"
    return text, 4 if op == "add" else 0


def orders(draw: Draw) -> Made:
    x = draw.value(lambda v: v.ndim > 0 and v.kind in "fiu" and v.size > 0)
    if x is None:
        return None
    flat = f"{x.name}.ravel()"
    last = x.shape[-1]
    texts = (
        f"jnp.searchsorted(jnp.sort({flat}), {flat}[:3])",
        f"jnp.unique({flat}, size=4, fill_value=0)",
        f"jnp.lexsort(({flat}, -{flat}))",
        f"lax.top_k({x.name}, {draw.number(1, last)})[{draw.number(0, 1)}]",
        f"jnp.partition({x.name}, {last // 2})[..., {last // 2}]",
        f"lax.sort(({flat}, {flat}[::-1]), num_keys=1)[1]",
        f"jnp.nonzero({flat}, size=3, fill_value=-1)[0]",
        f"jnp.bincount(jnp.abs({flat}).astype(jnp.int32) % 5, length=5)",
        f"jnp.digitize({flat}, jnp.array([-1.0, 0.0, 1.0]))",
    )
    return draw.choose(texts), 0


def systems(draw: Draw) -> Made:
    """Small systems of equations, well conditioned."""
    x = draw.value(
        lambda v: (
            v.dtype in ("float32", "float64", "complex64")
            and v.ndim >= 2
            and v.shape[-1] == v.shape[-2]
            and 0 < v.shape[-1] <= 8
        )
    )
    if x is None:
        return None
    n = x.shape[-1]
    a = f"(jnp.tanh({x.name}) + {2 * n} * jnp.eye({n}, dtype={x.name}.dtype))"
    if x.kind == "c":
        a = f"({x.name} + {8 * n} * jnp.eye({n}, dtype={x.name}.dtype))"
    spd = f"({a} @ jnp.conj(jnp.swapaxes({a}, -1, -2)))"
    texts = (
        f"jnp.linalg.inv({a})",
        f"jnp.linalg.det({a})",
        f"jnp.linalg.solve({a}, {x.name})",
        f"jnp.linalg.slogdet({a})[1]",
        f"jnp.linalg.cholesky({spd})",
        f"jnp.linalg.eigvalsh({spd})",
        f"jnp.linalg.matrix_power({a}, 3)",
    )
    return draw.choose(texts), 30
