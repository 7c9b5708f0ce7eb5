"""Small loops in registers: what they compute, and which loops they are.

Each sample is held to the same function with Python's loops, to the interpreter, which
runs the loop step by step, and bit for bit to the CPU's other way, where its sums have
the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as jnp
from ftrace import lax, testing
from ftrace.backends.base import get_device
from ftrace.backends.llvm.compile import emit_object
from ftrace.backends.llvm.render import render_recurrence
from ftrace.backends.llvm.scalar.ops import operations_of
from ftrace.backends.llvm.target import Target
from ftrace.lower.program import RunLoop
from ftrace.lower.register_loops.register_loop import Recurrence, legalize_registers
from ftrace.testing import assert_same_bits
from tests.support.covering import covering

ON: frozenset[str] = frozenset()
OFF = frozenset({"promote_loops"})


def python_while(cond: Any, body: Any, carry: Any) -> Any:
    while cond(carry):
        carry = body(carry)
    return carry


def python_fori(lower: Any, upper: Any, body: Any, carry: Any) -> Any:
    for i in range(int(lower), int(upper)):
        carry = body(jnp.int32(i), carry)
    return carry


def python_scan(
    f: Any, init: Any, xs: Any = None, length: Any = None, reverse: bool = False
) -> Any:
    leaves = ft.tree.leaves(xs)
    count = leaves[0].shape[0] if leaves else length
    carry, rows = init, []
    for t in reversed(range(count)) if reverse else range(count):
        carry, y = f(carry, ft.tree.map(lambda x, t=t: x[t], xs))
        rows.append(y)
    if reverse:
        rows.reverse()
    return carry, ft.tree.map(lambda *ys: jnp.stack(ys), *rows)


def python_cond(p: Any, a: Any, b: Any, *operands: Any) -> Any:
    return a(*operands) if p else b(*operands)


#: Control flow as Python runs it.
PYTHON = SimpleNamespace(
    while_loop=python_while, fori_loop=python_fori, scan=python_scan, cond=python_cond
)


def leaves(x: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in ft.tree.leaves(x)]


def run(
    function: Callable[..., Any], *args: Any, rules: Any = ON, **chosen: Any
) -> Any:
    with ft.config(disabled_rules=rules, **chosen):
        return leaves(ft.jit(lambda *a: function(*a))(*args))


def steps_of(function: Callable[..., Any], *args: Any) -> Any:
    return ft.jit(lambda *a: function(*a)).lower(*args).program.steps


def recurrence_of(function: Callable[..., Any], *args: Any) -> Recurrence:
    """What the one loop of a function became; what is around it may be kernels."""
    steps = steps_of(function, *args)
    assert not any(isinstance(step, RunLoop) for step in steps)
    (found,) = [s.kernel for s in steps if isinstance(s.kernel, Recurrence)]
    return found


#: By dtype; what is exact has to be equal.
TOLERANCE = {
    **dict.fromkeys(("float16", "bfloat16"), 2e-2),
    **dict.fromkeys(("float32", "complex64"), 2e-5),
    **dict.fromkeys(("float64", "complex128"), 1e-11),
}
assert_close = partial(testing.assert_close, rtol=TOLERANCE, atol=TOLERANCE)


# Samples: functions of the control flow to use and of one example.


def volterra(y: Any, p: Any) -> Any:
    a, b, c, d = p
    return jnp.array([a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]])


def runge_kutta(f: Any, y: Any, p: Any, h: float) -> Any:
    k1 = f(y, p)
    k2 = f(y + h / 2 * k1, p)
    k3 = f(y + h / 2 * k2, p)
    k4 = f(y + h * k3, p)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def ode(c: Any, y: Any, p: Any) -> Any:
    return c.fori_loop(0, 25, lambda i, y: runge_kutta(volterra, y, p, 0.01), y)


def newton(c: Any, a: Any) -> Any:
    def more(state: Any) -> Any:
        x, i = state
        return (jnp.abs(x * x - a) > 1e-3 * a) & (i < 40)

    first = a, jnp.int32(0)
    return c.while_loop(more, lambda s: (0.5 * (s[0] + a / s[0]), s[1] + 1), first)


def collatz(c: Any, n: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return c.while_loop(lambda s: s[0] != 1, step, (n, jnp.int32(0)))[1]


def fibonacci(c: Any, n: Any) -> Any:
    first = (jnp.int32(0), jnp.int32(1))
    return c.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1]), first)


def running_sum(c: Any, x: Any) -> Any:
    return c.scan(lambda s, x: (s + x, s * x), jnp.zeros_like(x[0]), x)


def backward(c: Any, x: Any) -> Any:
    return c.scan(
        lambda s, x: (s * 0.5 + x, (s, x)), jnp.zeros_like(x[0]), x, reverse=True
    )


def counted(c: Any, x: Any) -> Any:
    return c.fori_loop(2, 9, lambda i, s: s + i.astype(s.dtype) * s, x)


def branches(c: Any, x: Any) -> Any:
    return c.fori_loop(
        0, 9, lambda i, v: c.cond(v > 1, lambda v: v * 0.5, lambda v: v + 0.75, v), x
    )


def inside(c: Any, x: Any) -> Any:
    """A loop of unknown length in one of known length, and another beside it."""

    def outer(i: Any, v: Any) -> Any:
        v = c.while_loop(lambda v: v > 1, lambda v: v * 0.5, v + i)
        return c.fori_loop(0, 3, lambda j, v: v + 0.1 * j * v, v)

    return c.fori_loop(0, 6, outer, x)


def table(c: Any, t: Any, i: Any) -> Any:
    return c.fori_loop(0, 9, lambda k, i: t[i], i)


def ring(c: Any, v: Any) -> Any:
    """Reads and writes elements of a small carry at places that are data."""

    def step(k: Any, v: Any) -> Any:
        return v.at[k % 4].add(v[(k + 1) % 4]).at[v.shape[0] - 1].multiply(0.5)

    return c.fori_loop(0, 11, step, v)


def small_matrix(c: Any, m: Any, v: Any) -> Any:
    return c.fori_loop(0, 5, lambda i, v: m @ v / jnp.sqrt((v * v).sum()), v)


def functions(c: Any, x: Any) -> Any:
    """Functions that are decomposed, with parts that are rarely taken."""

    def step(s: Any, i: Any) -> Any:
        far = jnp.sin(jnp.floor(s * 8) * 1e6)
        s = far + jnp.exp(-s) * jnp.tanh(s) + jnp.log1p(jnp.abs(s))
        return s, s

    return c.scan(step, x, jnp.arange(4))


def logic(c: Any, b: Any) -> Any:
    return c.fori_loop(0, 5, lambda i, s: (s[1] ^ s[0], ~s[0]), (b, b))


def powers(c: Any, z: Any) -> Any:
    def step(i: Any, z: Any) -> Any:
        return z * z * 0.5 + 0.1j * z

    return c.fori_loop(0, 12, step, z)


def elements(c: Any, x: Any) -> Any:
    """A loop over rows that have nothing to do with each other."""
    return c.scan(lambda _, x: (None, (x * 2 + 1, jnp.floor(x))), None, x)[1]


def trajectory(c: Any, y: Any) -> Any:
    """All states of an oscillator, and a mark in each; in lanes they are short rows."""

    def step(y: Any, x: Any) -> Any:
        y = y + 0.1 * jnp.flip(y) * x
        return y, (y, y[0] > x)

    return c.scan(step, y, jnp.arange(5.0, dtype=y.dtype))


RNG = np.random.default_rng(0)


def floats(*shape: int, dtype: Any = np.float32, low: float = 0.3) -> Any:
    return RNG.uniform(low, 2.0, shape).astype(dtype)


SAMPLES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "ode": (ode, (floats(2), floats(4))),
    "ode_f64": (ode, (floats(2, dtype=np.float64), floats(4, dtype=np.float64))),
    "newton": (newton, (np.float32(7.0),)),
    "newton_f64": (newton, (np.float64(7.0),)),
    "collatz": (collatz, (np.int32(27),)),
    "collatz_i64": (collatz, (np.int64(27),)),
    "fibonacci": (fibonacci, (np.int32(20),)),
    "no_iteration": (fibonacci, (np.int32(-3),)),
    "running_sum": (running_sum, (floats(37),)),
    "running_sum_i8": (running_sum, (np.arange(9, dtype=np.int8),)),
    "running_sum_u32": (running_sum, (np.arange(9, dtype=np.uint32),)),
    "backward": (backward, (floats(19),)),
    "backward_vector": (backward, (floats(19, 3),)),
    "counted": (counted, (floats(),)),
    "counted_i16": (counted, (np.int16(3),)),
    "counted_f16": (counted, (np.float16(0.01),)),
    "branches": (branches, (floats(),)),
    "inside": (inside, (floats(),)),
    "table": (table, (RNG.permutation(16).astype(np.int32), np.int32(3))),
    "ring": (ring, (floats(5),)),
    "small_matrix": (small_matrix, (floats(3, 3), floats(3))),
    "functions": (functions, (floats(),)),
    "functions_f64": (functions, (floats(dtype=np.float64),)),
    "logic": (logic, (np.True_,)),
    "powers": (powers, (np.complex64(0.3 + 0.4j),)),
    "powers_c128": (powers, (np.complex128(0.3 + 0.4j),)),
    "trajectory": (trajectory, (floats(2),)),
    "trajectory_3": (trajectory, (floats(3),)),
    "trajectory_4": (trajectory, (floats(4),)),
    "elements": (elements, (floats(17),)),
    "elements_of_rows": (elements, (floats(17, 3),)),
}
#: Samples whose sums may have another order than a kernel of their own gives them.
SUMS = {"small_matrix"}

sampled = pytest.mark.parametrize("name", SAMPLES)


@sampled
def test_loop_is_one_kernel_without_a_loop_around_it(name: str) -> None:
    function, args = SAMPLES[name]
    recurrence_of(lambda *a: function(lax, *a), *args)


@sampled
def test_loop_agrees_with_python(name: str) -> None:
    function, args = SAMPLES[name]
    found = run(lambda *a: function(lax, *a), *args)
    assert_close(found, leaves(function(PYTHON, *map(jnp.asarray, args))))


@sampled
def test_loop_agrees_with_the_interpreter(name: str) -> None:
    function, args = SAMPLES[name]
    found = run(lambda *a: function(lax, *a), *args)
    assert_close(found, run(lambda *a: function(lax, *a), *args, device="interpreter"))


@sampled
def test_loop_has_the_bits_of_kernels_step_by_step(name: str) -> None:
    function, args = SAMPLES[name]
    found = run(lambda *a: function(lax, *a), *args)
    wanted = run(lambda *a: function(lax, *a), *args, rules=OFF)
    (assert_close if name in SUMS else assert_same_bits)(found, wanted)


#: Samples whose examples may differ from lane to lane, and how.
LANES: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "ode": lambda n: (floats(n, 2), floats(n, 4)),
    "ode_f64": lambda n: tuple(floats(n, k, dtype=np.float64) for k in (2, 4)),
    "newton": lambda n: (np.exp(RNG.uniform(-8, 8, n)).astype(np.float32),),
    "collatz": lambda n: (np.arange(1, n + 1, dtype=np.int32),),
    "fibonacci": lambda n: (np.arange(n, dtype=np.int32) % 23,),
    "running_sum": lambda n: (floats(n, 7),),
    "backward_vector": lambda n: (floats(n, 5, 3),),
    "counted_f16": lambda n: (floats(n, dtype=np.float16) * np.float16(0.01),),
    "branches": lambda n: (floats(n),),
    "inside": lambda n: (floats(n, low=-3),),
    "table": lambda n: (
        np.stack([RNG.permutation(16) for _ in range(n)]).astype(np.int32),
        RNG.integers(0, 16, n).astype(np.int32),
    ),
    "ring": lambda n: (floats(n, 5),),
    "small_matrix": lambda n: (floats(n, 3, 3), floats(n, 3)),
    "functions": lambda n: (floats(n),),
    "logic": lambda n: (RNG.random(n) < 0.5,),
    "powers": lambda n: ((RNG.normal(size=n) + 0.4j).astype(np.complex64) * 0.4,),
    "trajectory": lambda n: (floats(n, 2),),
    "trajectory_3": lambda n: (floats(n, 3),),
    "trajectory_4": lambda n: (floats(n, 4),),
    "elements": lambda n: (floats(n, 6),),
}


@covering(1, size=[1, 2, 3, 5, 16, 37, 67, 130], name=LANES)
def test_lanes_agree_with_one_example_each(name: str, size: int) -> None:
    function, _ = SAMPLES[name]
    args = LANES[name](size)
    found = run(ft.vmap(lambda *a: function(lax, *a)), *args)
    one = ft.jit(lambda *a: function(lax, *a))
    wanted = [leaves(one(*(a[i] for a in args))) for i in range(size)]
    assert_close(found, [np.stack(column) for column in zip(*wanted, strict=True)])


@pytest.mark.parametrize("name", LANES)
def test_lanes_are_the_axis_of_one_kernel(name: str) -> None:
    function, _ = SAMPLES[name]
    kernel = recurrence_of(ft.vmap(lambda *a: function(lax, *a)), *LANES[name](29))
    assert kernel.shape == ((6,) if name == "elements" else (29,))


@pytest.mark.parametrize("name", LANES)
def test_lanes_have_the_bits_of_any_number_of_threads(name: str) -> None:
    function, _ = SAMPLES[name]
    args = LANES[name](600)
    found = [
        run(ft.vmap(lambda *a: function(lax, *a)), *args, threads=n) for n in (1, 2, 5)
    ]
    assert_same_bits(found[0], found[1])
    assert_same_bits(found[0], found[2])


def test_lanes_along_the_last_axis_are_found() -> None:
    def f(v: Any) -> Any:
        return lax.fori_loop(0, 9, lambda i, v: jnp.stack([v[1], v[0] * 0.5 + i]), v)

    v = floats(2, 45)
    assert recurrence_of(f, v).shape == (45,)
    assert_same_bits(run(f, v), run(f, v, rules=OFF))


def test_lanes_that_meet_are_no_lanes() -> None:
    def f(v: Any) -> Any:
        return lax.fori_loop(0, 9, lambda i, v: v - v.mean() + v[::-1] * 0.1, v)

    assert recurrence_of(f, floats(6)).shape == ()
    assert_close(run(f, v := floats(6)), run(f, v, rules=OFF))


@pytest.mark.parametrize("length", [0, 1])
def test_loops_of_few_iterations(length: int) -> None:
    x = floats(length, 3)

    def f(x: Any) -> Any:
        return lax.scan(lambda s, x: (s + x, s), jnp.ones(3), x)

    assert_same_bits(run(f, x), run(f, x, rules=OFF))
    assert_close(run(f, x), run(f, x, device="interpreter"))


def test_no_lanes_at_all() -> None:
    x = floats(0, 3)
    found = run(ft.vmap(lambda x: lax.fori_loop(0, 4, lambda i, x: x * 2, x)), x)
    assert found[0].shape == (0, 3)
    found = run(ft.vmap(lambda x: newton(lax, x)), x[:, 0])
    assert [a.shape for a in found] == [(0,), (0,)]


def test_special_numbers_go_around_unchanged() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42, 3e38], np.float32)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 4, lambda i, s: (s[1], s[0]), (x, -x))

    assert_same_bits(run(f, x), [x, -x])

    def g(x: Any) -> Any:
        return lax.fori_loop(0, 4, lambda i, s: jnp.maximum(s * 2, s) - s, x)

    assert_same_bits(run(g, x), run(g, x, rules=OFF))


def test_bfloat16_is_rounded_in_each_iteration() -> None:
    x = jnp.asarray(floats(7), "bfloat16")

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 50, lambda i, s: s * 0.99 + 0.013, x)

    def as_numbers(found: Any) -> Any:
        return [a.astype(np.float32) for a in found]

    assert_same_bits(as_numbers(run(f, x)), as_numbers(run(f, x, rules=OFF)))


def test_a_lane_that_ends_keeps_its_values() -> None:
    """Also where going on would divide by zero, or never end."""

    def f(n: Any) -> Any:
        def step(s: Any) -> Any:
            n, x = s
            return n - 1, x / n.astype(jnp.float32)

        return lax.while_loop(lambda s: s[0] > 0, step, (n, jnp.float32(1)))[1]

    n = np.arange(-3, 30, dtype=np.int32)
    wanted = [1 / np.prod(np.arange(1.0, k + 1)) for k in n]
    np.testing.assert_allclose(run(ft.vmap(f), n)[0], wanted, 1e-5)


def test_a_lane_that_ends_reads_nothing_more() -> None:
    """Its index grows beyond the table while other lanes go on."""
    table = np.arange(8, dtype=np.float32)

    def f(table: Any, n: Any) -> Any:
        def step(s: Any) -> Any:
            i, total = s
            return i + (1 << 24), total + table.at[i].get(mode="promise_in_bounds")

        return lax.while_loop(lambda s: s[0] < n, step, (0, jnp.float32(0)))[1]

    n = np.array([1, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1], np.int32)
    np.testing.assert_array_equal(run(ft.vmap(f, (None, 0)), table, n)[0], 0 * n)


def test_gradients_are_recurrences_too() -> None:
    def loss(p: Any, y: Any) -> Any:
        return (ode(lax, y, p) ** 2).sum()

    p, y = floats(4, dtype=np.float64), floats(2, dtype=np.float64)
    steps = steps_of(ft.grad(loss), p, y)
    assert not any(isinstance(step, RunLoop) for step in steps)
    assert sum(isinstance(step.kernel, Recurrence) for step in steps) == 2
    (found,) = run(ft.grad(loss), p, y)
    eye = np.eye(4) * 1e-5
    slopes = [(loss(p + e, y) - loss(p - e, y)) / 2e-5 for e in eye]
    np.testing.assert_allclose(found, np.array(slopes, float), 1e-6)
    assert_close(run(ft.grad(loss), p, y, rules=OFF), [found])


def test_gradients_of_lanes_are_recurrences_too() -> None:
    def loss(p: Any, y: Any) -> Any:
        return (ode(lax, y, p) ** 2).sum()

    p, ys = floats(4), floats(33, 2)
    each = ft.vmap(ft.grad(loss), (None, 0))
    steps = steps_of(each, p, ys)
    shapes = [s.kernel.shape for s in steps if isinstance(s.kernel, Recurrence)]
    assert shapes == [(33,), (33,)]
    found = run(each, p, ys)[0]
    wanted = np.stack([run(ft.grad(loss), p, y)[0] for y in ys])
    np.testing.assert_allclose(found, wanted, 1e-5)


def test_large_loops_stay_loops() -> None:
    def many_values(v: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, v: v * 2 - v.mean(), v)

    def matrices(v: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, v: v @ v, v)

    def many_functions(v: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, v: jnp.flip(jnp.exp(-v)), v)

    for function, value in (
        (many_values, floats(1000)),
        (matrices, floats(8, 8)),
        (many_functions, floats(40)),
    ):
        assert any(isinstance(s, RunLoop) for s in steps_of(function, value))


def test_an_array_with_an_update_per_iteration_stays_in_place() -> None:
    """Not each of its elements asks in each iteration whether it is meant."""

    def fill(n: Any, x: Any) -> Any:
        def step(carry: Any) -> Any:
            n, x = carry
            return n + 1, x.at[n].set(n * 0.5)

        return lax.while_loop(lambda carry: carry[0] < carry[1].size, step, (n, x))

    for f, shape in ((fill, (3000,)), (ft.vmap(fill, in_axes=(None, 0)), (2, 3000))):
        args = np.int32(0), np.zeros(shape, "f4")
        assert "Recurrence" not in repr(ft.jit(f).lower(*args).program.steps)
        row = np.arange(3000, dtype="f4") / 2
        np.testing.assert_array_equal(ft.jit(f)(*args)[1], np.broadcast_to(row, shape))


def test_rule_can_be_switched_off() -> None:
    with ft.config(disabled_rules={"promote_loops"}):
        assert any(
            isinstance(s, RunLoop) for s in steps_of(lambda x: counted(lax, x), 1.0)
        )


def test_donated_carry_is_read_before_it_is_written() -> None:
    def f(v: Any) -> Any:
        return lax.fori_loop(0, 9, lambda i, v: jnp.flip(v) * 0.5 + i, v)

    v = floats(5)
    found = ft.jit(f, donate_argnums=0)(jnp.array(v))
    assert_same_bits([np.asarray(found)], run(f, v))


def test_effects_keep_a_loop_a_loop(capfd: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        def step(i: Any, x: Any) -> Any:
            ft.debug.print("at {}", i)
            return x + 1

        return lax.fori_loop(0, 3, step, x)

    assert any(isinstance(s, RunLoop) for s in steps_of(f, jnp.float32(1)))
    np.testing.assert_array_equal(run(f, jnp.float32(1))[0], 4)
    assert capfd.readouterr().out.split() == ["at", "0", "at", "1", "at", "2"]


def test_other_devices_have_no_recurrences() -> None:
    with ft.config(device="interpreter"):
        steps = steps_of(lambda y, p: ode(lax, y, p), floats(2), floats(4))
    assert any(isinstance(step, RunLoop) for step in steps)


def test_positions_and_constants_need_no_memory() -> None:
    """What a loop counts, and where it starts, is in its code."""
    kernel = recurrence_of(
        lambda x: lax.fori_loop(3, 9, lambda i, s: s + i * x, 0.0), 2.0
    )
    assert [spec.size for spec in kernel.buffers] == [1, 1]


def test_equal_loops_are_compiled_once() -> None:
    def f(x: Any) -> Any:
        return lax.fori_loop(0, 77, lambda i, s: s * 0.123 + i, x)

    run(f, floats())
    counters = get_device("cpu").counters
    compiled = counters.kernels_compiled
    first = recurrence_of(f, floats())
    assert first == recurrence_of(lambda y: f(y), floats())
    run(lambda x: f(x) + 0, floats())
    run(lambda x: f(x), floats())
    assert counters.kernels_compiled - compiled <= 1


def test_recurrence_can_be_read() -> None:
    text = str(recurrence_of(lambda x: counted(lax, x), floats()))
    assert text.startswith("recurrence of 1 registers")
    assert "for r0<7" in text


@pytest.mark.parametrize(
    "target",
    [
        Target.of("x86_64-unknown-linux-gnu", "x86-64"),
        Target.of("x86_64-unknown-linux-gnu", "x86-64-v3"),
        Target.of("x86_64-unknown-linux-gnu", "x86-64-v4"),
    ],
    ids=["v1", "v3", "v4"],
)
@pytest.mark.parametrize("name", ["ode", "newton", "functions", "powers", "logic"])
def test_code_for_other_processors_is_valid(name: str, target: Target) -> None:
    function, _ = SAMPLES[name]
    kernel = recurrence_of(ft.vmap(lambda *a: function(lax, *a)), *LANES[name](70))
    legal = legalize_registers(kernel, operations_of(target))
    rendered = render_recurrence(legal, target)
    assert rendered.parallel > 1
    assert emit_object(rendered.text, target)


# Random bodies.

_UNARY = (jnp.sin, jnp.tanh, jnp.abs, jnp.floor, jnp.negative, jnp.exp2)
_BINARY = (jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.arctan2)


def random_body(seed: int) -> Callable[[Any, Any], Any]:
    """A function of two values of one shape and a number, bounded by tanh."""
    rng = np.random.default_rng(seed)
    plan = [
        (rng.integers(3), rng.integers(6), rng.integers(4), rng.integers(4))
        for _ in range(8)
    ]

    def body(i: Any, carry: Any) -> Any:
        x, y = carry
        values = [x, y, x * 0.5 + i, jnp.flip(y) if seed % 3 == 0 else y - 1]
        for kind, which, a, b in plan:
            one, other = values[-1 - a], values[-1 - b]
            if kind == 0:
                new = _UNARY[which](one)
            elif kind == 1:
                new = _BINARY[which](one, other)
            else:
                new = jnp.where(one > other, one, values[0])
            values.append(new)
        return jnp.tanh(values[-1]), jnp.tanh(values[-2] + x)

    return body


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies_have_the_bits_of_kernels_step_by_step(seed: int) -> None:
    shape = [(), (3,), (2, 2), (41,)][seed % 4]
    body = random_body(seed if shape != (41,) else 3 * seed + 1)
    x, y = floats(*shape), floats(*shape)

    def f(x: Any, y: Any) -> Any:
        return lax.fori_loop(1, 6, body, (x, y))

    recurrence_of(f, x, y)
    assert_same_bits(run(f, x, y), run(f, x, y, rules=OFF))
    batched = np.stack([x, y, x + y, x * 0, y - x])
    found = run(ft.vmap(f, (0, None)), batched, y)
    assert_same_bits(found, run(ft.vmap(f, (0, None)), batched, y, rules=OFF))
