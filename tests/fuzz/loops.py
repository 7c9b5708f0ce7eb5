"""Statements with bodies: scan, fori_loop, while_loop, cond, switch, map, custom."""

from __future__ import annotations

from tests.fuzz.draw import Draw, Value, put

#: Expressions of c that keep its shape; `o` is another operand that broadcasts.
BODY_FLOAT = (
    "jnp.sin(c)", "c * 0.5", "c + o", "c * o", "c - o", "N(jnp.tanh(c)) + o",
    "jnp.where(c > o, c, o * 0.5)", "jnp.maximum(c, o)", "c / (1 + c * c)",
    "jnp.exp(-c * c)", "jnp.abs(c)", "-c", "c + 1", "jnp.flip(c)", "c ** 2 * 0.1",
)  # fmt: skip
BODY_WHOLE = (
    "c + o", "c * o", "c - o", "c ^ o", "c * 3 + 1", "jnp.maximum(c, o)", "c // 2",
    "jnp.where(c > o, c, o)", "~c", "jnp.flip(c)", "c >> 1", "c << 1",
)  # fmt: skip
BODY_BOOL = ("~c", "c | o", "c & o", "c ^ o", "jnp.flip(c)")
BODY_SHAPED = ("jnp.cumsum(c, axis=0)", "jnp.sort(c, axis=0)", "jnp.roll(c, 1, 0)")


def _body(
    draw: Draw, x: Value, others: tuple[str, ...], ndim: int, deep: int = 2
) -> str:
    """An expression of the carry `c`, of its shape and dtype."""
    rows = {"f": BODY_FLOAT, "b": BODY_BOOL}.get(x.kind, BODY_WHOLE)
    if x.kind == "c":
        rows = ("c + o", "c * 0.5", "-c", "jnp.conj(c)", "c * o")
    if ndim and x.kind != "c":
        rows = (*rows, *BODY_SHAPED)
    text = "c"
    for _ in range(draw.number(1, deep)):
        made = put(draw.choose(rows), o=draw.choose(others))
        text = put(made, c="c" if text == "c" else f"N({text})")
    return f"N({text}).astype(jnp.{'bool_' if x.dtype == 'bool' else x.dtype})"


def _same(draw: Draw, x: Value) -> list[str]:
    names = [v.name for v in draw.values if (v.shape, v.dtype) == (x.shape, x.dtype)]
    return [*names, draw.scalar(x)]


def loop(draw: Draw) -> tuple[str, float] | None:
    x = draw.value(lambda v: v.size <= 600)
    if x is None:
        return None
    made = draw.choose((_fori, _while, _scan, _scan, _cond, _switch, _map, _rule))
    return made(draw, x)


def _fori(draw: Draw, x: Value) -> tuple[str, float]:
    body = _body(draw, x, tuple(_same(draw, x)), x.ndim)
    low, high = draw.choose(((0, 3), (1, 4), (0, 1), (0, 0), (2, 7)))
    if draw.chance(0.3) and x.kind in "fi":
        body = body.replace("N(", "N(i + ", 1)
    return f"lax.fori_loop({low}, {high}, lambda i, c: {body}, {x.name})", 2


def _while(draw: Draw, x: Value) -> tuple[str, float]:
    body = _body(draw, x, tuple(_same(draw, x)), x.ndim)
    count = draw.choose((0, 1, 3, 6))
    state = "lambda s: (s[0] + 1, (lambda c: " + body + ")(s[1]))"
    condition = f"lambda s: s[0] < {count}"
    if x.kind in "fiu" and draw.chance(0.4):
        condition = f"lambda s: (s[0] < {count}) & jnp.any(s[1] < 100)"
    return f"lax.while_loop({condition}, {state}, (0, {x.name}))[1]", 2


def _scan(draw: Draw, x: Value) -> tuple[str, float]:
    others: tuple[str, ...] = ("x",)
    if not x.ndim or draw.chance(0.3):
        body = _body(draw, x, tuple(_same(draw, x)), x.ndim)
        length = draw.number(0, 4)
        call = f"lax.scan(lambda c, _: ({body}, c), {x.name}, None, length={length})"
        return f"{call}[{draw.number(0, 1)}]", 2
    reverse = ", reverse=True" if draw.chance(0.3) else ""
    reverse += f", unroll={draw.choose((1, 2, 3))}" if draw.chance(0.2) else ""
    body = _body(draw, x, others, x.ndim - 1)
    out = draw.choose(("c", "x", "c"))
    if x.kind in "fiu" and draw.chance(0.5):
        out = "N(c * x)"
    start = (
        f"jnp.zeros_like({x.name}[0])"
        if x.shape[0]
        else f"jnp.zeros({x.shape[1:]}, {x.name}.dtype)"
    )
    if x.shape[0] and draw.chance(0.5):
        start = f"{x.name}[-1]"
    call = f"lax.scan(lambda c, x: ({body}, {out}), {start}, {x.name}{reverse})"
    return f"{call}[{draw.number(0, 1)}]", 2


def _cond(draw: Draw, x: Value) -> tuple[str, float]:
    same = tuple(_same(draw, x))
    one, two = (_body(draw, x, same, x.ndim) for _ in range(2))
    test = draw.choose((f"jnp.sum({x.name}) > 1", f"jnp.any({x.name} != 0)"))
    if x.kind == "c":
        test = f"jnp.any({x.name} != 0)"
    return f"lax.cond({test}, lambda c: {one}, lambda c: {two}, {x.name})", 2


def _switch(draw: Draw, x: Value) -> tuple[str, float]:
    same = tuple(_same(draw, x))
    index = draw.input((), "int32", kind="index", bounds=(-1, 4)).name
    bodies = ", ".join(f"lambda c: {_body(draw, x, same, x.ndim, 1)}" for _ in range(3))
    return f"lax.switch({index}, [{bodies}], {x.name})", 2


def _map(draw: Draw, x: Value) -> tuple[str, float]:
    if not x.ndim:
        return _fori(draw, x)
    body = _body(draw, x, (draw.scalar(x), "c"), x.ndim - 1)
    if draw.chance(0.5):
        return f"jax.vmap(lambda c: {body})({x.name})", 2
    return f"lax.map(lambda c: {body}, {x.name})", 2


def _rule(draw: Draw, x: Value) -> tuple[str, float]:
    """Transforms inside of the program."""
    if x.kind != "f":
        return _cond(draw, x)
    body = _body(draw, x, ("1.5", "c"), x.ndim)
    texts = (
        f"jax.grad(lambda c: jnp.sum({body}))({x.name})",
        f"jax.jvp(lambda c: {body}, ({x.name},), ({x.name},))[1]",
        f"jax.checkpoint(lambda c: {body})({x.name})",
        f"jax.jit(lambda c: {body})({x.name})",
    )
    return draw.choose(texts), 4
