"""Arrays of random keys: moved as others, in every transform, and no numbers."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import dtypes, errors, lax, random
from ftrace.compat.jax.extend import random as generators
from ftrace.testing import assert_close
from tests.support.key_numbers import numbers
from tests.support.refusals import refuses

KEY = random.key(3)
KEYS = random.split(KEY, 6)
WORDS = numbers(KEYS)

#: What moves keys, and what it does to positions.
MOVES: dict[str, Callable[[Any], Any]] = {
    "index": lambda x: x[2],
    "slice": lambda x: x[1::2],
    "gather": lambda x: x[fnp.array([4, 0, 4])],
    "mask": lambda x: x[np.array([True, False, True, False, True, False])],
    "reshape": lambda x: x.reshape(2, -1),
    "transpose": lambda x: x.reshape(2, 3).T,
    "flip": lambda x: fnp.flip(x),
    "stack": lambda x: fnp.stack([x, x[::-1]], -1),
    "concatenate": lambda x: fnp.concatenate([x[4:], x]),
    "broadcast": lambda x: fnp.broadcast_to(x[:, None], (6, 2)),
    "where": lambda x: fnp.where(fnp.arange(6) > 2, x, x[0]),
    "set": lambda x: x.at[1].set(x[5]),
    "roll": lambda x: fnp.roll(x, 2),
    "repeat": lambda x: fnp.repeat(x, 2),
    "tile": lambda x: fnp.tile(x, 2),
    "expand_dims": lambda x: fnp.expand_dims(x, 1),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (2,), (3,)),
    "rev": lambda x: lax.rev(x, (0,)),
    "cond": lambda x: lax.cond(True, lambda y: y[::-1], lambda y: y, x),
    "scan": lambda x: lax.scan(lambda c, y: (y, c), x[0], x)[1],
    "while": lambda x: lax.fori_loop(0, 3, lambda i, y: y.at[i].set(y[i + 1]), x),
    "vmap": lambda x: ft.vmap(lambda y: y[::-1], -1, -1)(x.reshape(2, 3)),
    "astype": lambda x: fnp.asarray(x, x.dtype).astype(x.dtype),
}


@pytest.mark.parametrize("name", MOVES)
def test_keys_move_as_numbers_do(name: str) -> None:
    move = MOVES[name]
    expected = WORDS[numbers(move(fnp.arange(6)))]
    for made in (move(KEYS), ft.jit(move)(KEYS)):
        assert made.dtype == KEY.dtype
        np.testing.assert_array_equal(numbers(made), expected)


def test_moves_on_all_devices_are_the_same(device: Any) -> None:
    moves = [MOVES[name] for name in ("gather", "where", "scan", "stack", "set")]
    made = ft.jit(lambda x: [move(x) for move in moves])(KEYS)
    for move, result in zip(moves, made, strict=True):
        np.testing.assert_array_equal(numbers(result), numbers(move(KEYS)))


def test_a_key_is_an_array_of_a_dtype_of_its_own() -> None:
    assert isinstance(KEY, ft.Array)
    assert (KEY.shape, KEY.ndim, KEYS.shape, len(KEYS)) == ((), 0, (6,), 6)
    kinds = dtypes.prng_key, dtypes.extended, np.generic, KEY.dtype
    assert all(fnp.issubdtype(KEY.dtype, kind) for kind in kinds)
    assert not any(fnp.issubdtype(KEY.dtype, x) for x in (np.integer, np.uint32))
    assert not fnp.issubdtype(np.float32, dtypes.prng_key)
    assert random.key_dtype() == KEY.dtype == random.key_dtype("threefry2x32")
    assert random.key_impl(KEY) == random.key_impl(random.PRNGKey(3)) == "threefry2x32"
    assert repr(KEY) == "Array((), dtype=key<fry>) overlaying:\n[0 3]"
    assert str(ft.typeof(KEYS)) == "key<fry>[6]"


def test_raw_keys_are_the_words_of_keys() -> None:
    raw = random.PRNGKey(3)
    assert (raw.shape, raw.dtype) == ((2,), np.uint32)
    np.testing.assert_array_equal(random.key_data(KEY), raw)
    assert bool(random.wrap_key_data(raw) == KEY)
    assert bool(random.wrap_key_data(raw, impl="threefry2x32") == random.clone(KEY))
    np.testing.assert_array_equal(random.split(raw, 6), WORDS)
    np.testing.assert_array_equal(random.normal(raw, 3), random.normal(KEY, 3))


def test_keys_are_compared_by_their_bits() -> None:
    assert (KEYS[::-1] == KEYS).tolist() == [False] * 6
    assert (KEYS[0] != KEYS).tolist() == [False] + [True] * 5
    assert not fnp.allclose(KEYS, KEYS[0])
    assert bool(fnp.all(ft.jit(lax.eq)(KEYS, KEYS)))


def test_what_is_read_out_of_bounds_is_a_key_of_ones() -> None:
    for read in (
        lambda x: x.at[9].get(mode="fill"),
        lambda x: fnp.take(x, 9, mode="fill"),
    ):
        for made in (read(KEYS), ft.jit(read)(KEYS)):
            assert numbers(made).tolist() == [2**32 - 1] * 2


@pytest.mark.parametrize(
    "again",
    [
        copy.copy,
        copy.deepcopy,
        ft.device_put,
        ft.device_get,
        lambda keys: ft.device_put(keys, ft.devices()[0]),
    ],
)
def test_copies_are_equal(again: Any) -> None:
    assert ft.jit(random.bits)(again(KEY)) == random.bits(KEY)
    assert bool(fnp.all(again(KEYS) == KEYS))
    assert bool(fnp.all(pickle.loads(pickle.dumps(KEYS)) == KEYS))


def test_types_of_keys_are_known_without_values() -> None:
    one = ft.ShapeDtypeStruct((), KEY.dtype)
    made = ft.eval_shape(lambda key: random.split(key, 4), one)
    assert (made.shape, made.dtype) == ((4,), KEY.dtype)
    assert ft.jit(random.split).lower(one).compile()(KEY).shape == (2,)
    assert "a:key<fry>[]" in str(ft.make_jaxpr(random.split)(KEY))


def test_derivatives_with_respect_to_keys_are_float0() -> None:
    def f(x: Any, key: Any) -> Any:
        return x * random.normal(key)

    slope = random.normal(KEY)
    close = partial(np.testing.assert_allclose, rtol=1e-6)
    close(ft.grad(f)(2.0, KEY), slope)
    assert ft.grad(f, 1, allow_int=True)(2.0, KEY).dtype == dtypes.float0
    zero = np.zeros((), dtypes.float0)
    _, (tangent, of_key) = ft.jvp(lambda x, k: (f(x, k), k), (2.0, KEY), (1.0, zero))
    close(tangent, slope)
    assert of_key.dtype == dtypes.float0

    jvp = ft.custom_jvp(f)
    jvp.defjvp(lambda xs, ts: (f(*xs), ts[0] * random.normal(xs[1])))
    vjp = ft.custom_vjp(f)
    vjp.defvjp(lambda x, k: (f(x, k), k), lambda k, g: (g * random.normal(k), None))
    for ruled in (jvp, vjp, ft.checkpoint(f)):
        close(ft.grad(ruled)(2.0, KEY), slope)
        each = ft.jit(ft.vmap(ft.grad(ruled), (None, 0)))(2.0, KEYS)
        close(each, ft.vmap(random.normal)(KEYS))


def test_a_derivative_of_what_draws_is_the_same_without_jit() -> None:
    def pulled(x: Any) -> Any:
        return ft.vjp(lambda y: random.normal(KEY, (3,)) * y, x)[1](fnp.ones(3))

    with ft.disable_jit():
        found = pulled(2.0)
    assert_close(found, pulled(2.0))


def test_a_loop_over_keys_has_a_derivative() -> None:
    def product(x: Any) -> Any:
        return lax.scan(lambda c, key: (c * random.normal(key), key), x, KEYS)[0]

    expected = np.prod(np.asarray(ft.vmap(random.normal)(KEYS)))
    np.testing.assert_allclose(ft.grad(product)(1.0), expected, rtol=1e-5)


def test_callbacks_get_keys(capsys: pytest.CaptureFixture[str]) -> None:
    def show(key: Any) -> Any:
        ft.debug.print("{}", key)
        return random.uniform(key)

    ft.jit(show)(KEY)
    ft.effects_barrier()
    assert capsys.readouterr().out.strip() == repr(KEY)
    with refuses(errors.DtypeError, "key_data"):
        ft.pure_callback(lambda k: k, ft.ShapeDtypeStruct((), KEY.dtype), KEY)


@pytest.mark.parametrize(
    "call",
    [
        lambda: KEY + 1,
        lambda: KEY == 1,
        lambda: -KEY,
        lambda: KEYS < KEYS,
        lambda: KEYS & KEYS,
        lambda: KEYS.sum(),
        lambda: fnp.sort(KEYS),
        lambda: fnp.argsort(KEYS),
        lambda: fnp.unique(KEYS),
        lambda: fnp.cumsum(KEYS),
        lambda: fnp.max(KEYS),
        lambda: fnp.exp(KEY),
        lambda: fnp.where(True, KEY, 0),
        lambda: KEY.astype(int),
        lambda: fnp.arange(2).astype(KEY.dtype),
        lambda: np.asarray(KEY),
        lambda: int(KEY),
        lambda: KEYS.tolist(),
        lambda: ft.jit(fnp.sin)(KEY),
        lambda: ft.grad(lambda key: 1.0)(KEY),
    ],
)
def test_there_is_no_arithmetic_on_keys(call: Any) -> None:
    with refuses(TypeError, "key"):
        call()


def test_bad_input_is_named() -> None:
    for call, error, message in (
        (lambda: random.normal(KEYS), ValueError, "single key.*use vmap"),
        (lambda: random.wrap_key_data(KEY), TypeError, "uint32 words, got keys"),
        (lambda: random.wrap_key_data(np.zeros(3, "u4")), TypeError, "last axis"),
        (lambda: random.key_data(np.zeros(3)), TypeError, "a key is required"),
        (lambda: random.key(0, impl="mt"), ValueError, "threefry2x32"),
        (lambda: random.key(0, impl="rbg", dtype=KEY.dtype), ValueError, "got both"),
    ):
        with refuses(error, message):
            call()


# Keys of four words.

#: Of seed 5: the words of two keys split off, those with 7 folded in, eight random bits
#: three times, integers below 1000. Recorded with JAX 0.10.2.
RECORDED = {
    "rbg": (
        [
            [2724472204, 3573582090, 2724472204, 3573582090],
            [202567368, 3886822060, 202567368, 3886822060],
        ],
        [1394159668, 1590028285, 1394159668, 1590028285],
        [64, 197, 155],
        [192, 157, 283, 375],
    ),
    "unsafe_rbg": (
        [
            [1612232000, 3369602501, 1197273755, 1864225075],
            [3739331121, 2239189395, 1258670070, 2509022470],
        ],
        [2104303640, 250182030, 1106406590, 1983638451],
        [64, 197, 155],
        [756, 592, 742, 954],
    ),
}


@pytest.mark.parametrize("impl", RECORDED)
def test_keys_of_four_words_draw_what_those_of_jax_draw(impl: str) -> None:
    def draws(key: Any) -> list[Any]:
        split, folded = random.split(key, 3)[:2], random.fold_in(key, 7)
        bits = random.bits(key, (3,), np.uint8)
        return [split, folded, bits, random.randint(key, (4,), 0, 1000)]

    key, raw = random.key(5, impl=impl), random.PRNGKey(5, impl=impl)
    assert random.key_impl(key) == impl
    assert (key.shape, raw.shape) == ((), (4,))
    with ft.config(default_prng_impl=impl):
        assert bool(random.key(5) == key)
        assert ft.jit(lambda: random.PRNGKey(5))().shape == (4,)
    assert ft.jit(lambda: random.PRNGKey(5))().shape == (2,)
    made_by = [draws(key), ft.jit(draws)(key)]
    if impl == "rbg":
        made_by.append(draws(raw))
    for made in made_by:
        for drawn, expected in zip(made, RECORDED[impl], strict=True):
            np.testing.assert_array_equal(numbers(drawn), expected)


#: Of the raw key 7, with `jax_threefry_partitionable` off.
IN_HALVES = [
    [[276534068, 861967409], [1905761346, 1641862660], [2900896126, 1402713516]],
    [966301609, 1830345032, 1948237315],
    [966301609, 989289821, 1948237315, 1058547403],
    [191, 40, 160, 11, 191],
    [[38825, 14744, 55624], [27928, 48643, 29727]],
    [877192987, 1614509672, 877192987, 1614509672],
]


def test_bits_of_jax_before_elements_had_positions() -> None:
    def draws(key: Any, four: Any) -> list[Any]:
        bits = [random.bits(key, (n,)) for n in (3, 4)]
        few = random.bits(key, (5,), np.uint8), random.bits(key, (2, 3), np.uint16)
        return [random.split(key, 3), *bits, *few, random.split(four, 3)[0]]

    jitted = ft.jit(draws)
    for old in (False, True, False):
        with ft.config(threefry_partitionable=old):
            key, four = random.PRNGKey(7), random.PRNGKey(3, impl="rbg")
            for made in (draws(key, four), jitted(key, four)):
                same = [np.array_equal(*x) for x in zip(made, IN_HALVES, strict=True)]
                assert same == [not old] * len(same)


def test_keys_of_four_words_move_bit_by_bit() -> None:
    words = np.array([[0, 0x7FF00001, 5, 0xFFF80002], [0, 1 << 31, 0, 0]], np.uint32)
    keys = random.wrap_key_data(words, impl="rbg")

    def moved(x: Any) -> Any:
        return fnp.where(fnp.array([False, True]), x[::-1], fnp.stack([x[0], x[0]]))

    for made in (moved(keys), ft.jit(moved)(keys)):
        np.testing.assert_array_equal(numbers(made), words[[0, 0]])
    assert ft.jit(lambda x: [x == x, x[0] == x])(keys)[1].tolist() == [True, False]
    assert bool(fnp.all(keys == keys))
    with refuses(TypeError, "key<fry> and key<rbg>"):
        fnp.stack([KEY, keys[0]])


def test_generators_go_by_their_names() -> None:
    words, counters = fnp.array([3, 4], "uint32"), fnp.arange(6, dtype="uint32")
    recorded = [1746439729, 2478531193, 4063080110, 307540736, 3851451257, 4215677470]
    hashed = generators.threefry_2x32(words, counters.reshape(2, 3))
    assert hashed.shape == (2, 3)
    assert hashed.ravel().tolist() == recorded
    odd = generators.threefry_2x32(words, counters[:5])
    assert odd.tolist() == [*recorded[:2], 3381874788, *recorded[3:5]]
    seeded = generators.random_seed(fnp.arange(4), generators.threefry_prng_impl)
    np.testing.assert_array_equal(numbers(seeded[3]), numbers(KEY))
    assert generators.seed_with_impl(generators.rbg_prng_impl, 3).dtype.itemsize == 16
    with refuses(errors.ArgumentError, "two words of uint32"):
        generators.threefry_2x32(words, counters.astype("int32"))
    with pytest.raises(AttributeError, match="never: the generators are those"):
        _ = generators.define_prng_impl  # type: ignore[attr-defined]


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("x64", [False, True])
def test_keys_have_all_their_bits_whatever_the_precision(impl: str, x64: bool) -> None:
    """A key is one number of 64 or 128 bits, also where arrays have 32."""

    def drawn() -> list[Any]:
        key = random.key(5, impl=impl)
        parts = random.split(key, 3), random.fold_in(key, 7)
        numbers = random.uniform(key, (4,), "float32")
        return [*map(random.key_data, (key, *parts)), numbers]

    wanted = [np.asarray(x) for x in drawn()]
    assert wanted[0].any()
    with ft.config(enable_x64=x64):
        for found in (drawn(), ft.jit(drawn)()):
            for x, y in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(x, y)
