"""`bisect`: deliberate faults of rules, of kernels and of the disk cache are named."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.errors import ArgumentError
from ftrace.lower import lowering, program as lowered
from ftrace.lower.legalize import legalize
from ftrace.testing import program_parts
from ftrace.testing.bisect import Bisection
from ftrace.trace.graph import is_constant
from ftrace.trace.primitives import elementwise as p
from ftrace.trace.primitives.sources import const_like
from ftrace.trace.rewrite import RULE_NAMES, Pat, PatternMatcher, Rule

ROOT = Path(__file__).parents[2]
X = np.linspace(0.1, 2.0, 12, dtype=np.float32).reshape(3, 4)
#: x - y -> x + (-2) y
WRONG = Rule(
    "subtract_too_much",
    Pat(p.sub, Pat(name="x"), Pat(name="y")),
    lambda x, y: p.add(x, p.mul(y, const_like(y, -2))),
)
#: The same, as text for a process of its own.
AS_TEXT = """
from ftrace.lower import lowering, program as lowered
from tests.testing.test_bisect import WRONG, with_rule
lowering.DEVICE_INDEPENDENT = with_rule(WRONG)
"""


def with_rule(rule: Rule) -> Any:
    """The stages that simplify, of which "simplify" has one rule more."""
    own = PatternMatcher((rule,))
    return tuple(
        replace(s, make=s.make + own) if s.name == "simplify" else s
        for s in lowering.DEVICE_INDEPENDENT
    )


@pytest.fixture
def wrong_rule(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(lowering, "DEVICE_INDEPENDENT", with_rule(WRONG))
    with ft.config(cache_size=0):
        ft.clear_caches()
        yield
    ft.clear_caches()
    RULE_NAMES.discard(WRONG.name)


def of(f: Callable[..., Any], *args: Any, **options: Any) -> Bisection:
    return ft.bisect(f, *args, **{"path": None, **options})


# Programs that agree.


def model(x: Any) -> Any:
    y = fnp.tanh(x) @ x.T
    return fnp.log(fnp.exp(y).sum()), ft.nn.softmax(y)


AGREE: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (model, (X,)),
    (ft.jit(ft.grad(lambda x: model(x)[0])), (X,)),
    (ft.vmap(model), (np.stack([X, X + 1]),)),
    (lambda x: (x * 3, x // 2, x > 2), (np.arange(6),)),
    (lambda x, y: x * y, (2.0, np.float64(3))),
    (lambda x: fnp.log(-x) + fnp.inf, (X,)),  # NaN is equal to NaN
    (lambda key: ft.random.normal(key, (5,)), (ft.random.key(3),)),
    (lambda x: lax.scan(lambda c, x: (c * x + 1, fnp.sin(c)), 1.0, x), (X[0],)),
    (lambda x: lax.while_loop(lambda c: c < 30, lambda c: c * x, 2.0), (1.5,)),
    (ft.grad(lambda x: lax.cond(x > 1, fnp.sin, fnp.cos, x)), (1.5,)),
    (lambda x: (fnp.sort(x, 1), fnp.cumsum(x, 0)), (X,)),
    (lambda x: fnp.linalg.cholesky(x @ x.T + 3 * fnp.eye(3)), (X,)),
    (lambda x: fnp.fft.fft(x), (X,)),
    (lambda x: x.astype("bfloat16") * 3, (X,)),
    (lambda x: x.astype("float8_e4m3fn").astype("float32"), (X,)),
    (lambda x: x, (X,)),
    (lambda x: fnp.zeros(3), (X,)),
    (lambda x: x.at[np.array([0, 0])].add(1.0), (X,)),
    (lambda x: fnp.sum(x), (X[:0],)),
    (lambda x: [], (X,)),
    (ft.grad(ft.checkpoint(lambda x: fnp.sin(fnp.sin(x)).sum())), (X,)),
    (
        ft.grad(lambda x: lax.scan(lambda c, x: (c * x + 1, fnp.sin(c)), 1.0, x)[0]),
        X[:1],
    ),
    (ft.vmap(lambda x: lax.while_loop(lambda c: c < 30, lambda c: c * 1.5, x)), X[:1]),
    (ft.hessian(lambda x: (fnp.tanh(x) ** 2).sum()), X[:1]),
    (ft.jit(lambda x, n: x**n, static_argnums=1), (X, 3)),
    (lambda t: {"a": t["a"] * 2, "b": [t["b"]]}, ({"a": X, "b": 3},)),
    (lambda x: fnp.exp(1j * x), (X,)),
]


@pytest.mark.parametrize(("f", "args"), AGREE)
def test_right_programs_agree(f: Any, args: Any, device: Any) -> None:
    found = of(f, *args)
    assert found.agrees, found
    assert (found.device, found.rules, found.path) == (device.name, (), None)
    assert "no difference: " in str(found)
    assert found.largest < 64


def test_what_agrees_is_counted() -> None:
    found = of(lambda x: fnp.exp(x).sum(1), X)
    assert (found.operations, found.kernels) == (3, 1)
    assert str(found).startswith(
        "bisect <lambda>: on cpu no difference: 3 operations, 1 kernel, "
    )


def test_callbacks_of_operands_alone_are_called() -> None:
    assert of(lambda x: ft.pure_callback(np.sin, x, x) + 1, X).agrees


def test_effects_do_not_happen(capsys: pytest.CaptureFixture[str]) -> None:
    def prints(x: Any) -> Any:
        ft.debug.print("here")
        return lax.scan(lambda c, x: (c + x, ft.debug.print("{}", x)), 0.0, x)[0]

    assert of(prints, X[0]).agrees
    assert capsys.readouterr().out == ""


def test_rounding_that_adds_up_is_none_of_a_part() -> None:
    def chaos(x: Any) -> Any:
        for i in range(200):
            x = fnp.sin(x) * (1 + i) - x
        return x

    found = of(chaos, X)
    assert found.agrees
    assert "but no part of it more than rounding" in str(found)


# Faults.


def loss(x: Any) -> Any:
    y = fnp.tanh(x) @ x.T
    d = y - x[:, :1]
    return fnp.mean(d * d)


LOSSES: list[tuple[Any, Any]] = [
    (loss, X), (ft.grad(loss), X), (ft.jit(loss), X), (ft.vmap(loss), X[None]),
]  # fmt: skip


@pytest.mark.usefixtures("wrong_rule")
@pytest.mark.parametrize(("f", "x"), LOSSES)
def test_a_wrong_rule_is_named(f: Any, x: Any) -> None:
    found = of(f, x)
    assert not found.agrees
    assert (found.stage, found.rules, found.kernel) == ("simplify", (WRONG.name,), "")
    difference: Any = found.difference
    assert (difference.name, difference.origin.function) == ("sub", "loss")
    assert "d = y - x[:, :1]" in str(found)
    assert "from File" in str(found)  # the line of an operand
    assert "cause: the pass 'simplify' of lowering; without 'subtract_too_" in str(
        found
    )
    assert sum(difference.ulps.values()) == 9
    with ft.config(disabled_rules={WRONG.name}):
        assert of(f, x).agrees
    assert of(f, x, rtol=100.0, atol=100.0).agrees


IN_CONTROL: list[tuple[Any, Any, str]] = [
    (lambda x: lax.scan(lambda c, x: (fnp.sin(c) - x, c), 1.0, x), X[0],
     "scan at step 0"),
    (lambda x: lax.while_loop(lambda c: c < 30, lambda c: c * x - 0.5, 3.0), 1.5,
     "while at step 1"),
    (lambda x: lax.cond(x > 1, lambda x: fnp.sin(x) - x * 3, fnp.cos, x), 1.5,
     "cond at step 0"),
    (lambda x: lax.scan(lambda c, x: (c / 2 - fnp.floor(x / 4 + 0.1), c), 1.0, x),
     np.arange(9, dtype=np.float32), "scan at step 4"),
]  # fmt: skip


@pytest.mark.usefixtures("wrong_rule")
@pytest.mark.parametrize(("f", "x", "inside"), IN_CONTROL)
def test_loops_and_branches_are_looked_into(f: Any, x: Any, inside: str) -> None:
    found = of(f, x)
    difference: Any = found.difference
    assert (difference.name, difference.inside) == ("sub", f", in {inside}")
    assert found.rules == (WRONG.name,)


@pytest.mark.usefixtures("wrong_rule")
def test_integers_and_several_results() -> None:
    found = of(lambda n: (n + 1, n * 100 - n), np.arange(4))
    assert found.wrong == "1 of 2 results differ from NumPy's"
    assert "apart" in str(found.difference)
    assert found.difference is not None
    assert found.difference.ulps == {}


@pytest.mark.parametrize(
    ("rule", "f", "ops"),
    [
        (Rule("r", Pat(p.neg, Pat(p.exp, Pat(name="x"))), lambda x: p.exp(x)),
         lambda x: fnp.sin(-fnp.exp(fnp.cos(x))), {"exp", "neg"}),
        (Rule("r", Pat(p.mul, Pat(name="x"), Pat(name="c", where=is_constant)),
              lambda x, c: x),
         lambda x: fnp.cos(fnp.sin(x) * 3.0) + 1,
         {"const", "mul"}),
    ],
)  # fmt: skip
def test_a_part_is_as_small_as_what_differs(
    rule: Rule, f: Any, ops: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowering, "DEVICE_INDEPENDENT", with_rule(rule))
    with ft.config(cache_size=0):
        found = of(f, X)
    RULE_NAMES.discard(rule.name)
    assert found.rules == ("r",)
    lines = [x for x in found.program.splitlines() if " = operation(" in x]
    assert {x.split("'")[1] for x in lines} - {"expand"} == ops


def test_results_of_constants_alone_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = Rule("r", Pat(p.sin, Pat(name="x")), lambda x: p.cos(x))
    monkeypatch.setattr(lowering, "DEVICE_INDEPENDENT", with_rule(rule))
    with ft.config(cache_size=0):
        found = of(lambda x: (x, lax.iota("float32", 4) + fnp.sin(fnp.arange(4.0))), X)
    RULE_NAMES.discard(rule.name)
    assert (found.stage, found.rules) == ("simplify", ("r",))


def test_wrong_code_of_a_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    right = legalize.DECOMPOSITIONS["sinh"]
    wrong = lambda n: p.mul(right(n), const_like(n, 1.5))  # noqa: E731
    monkeypatch.setitem(legalize.DECOMPOSITIONS, "sinh", wrong)
    x = np.linspace(0.1, 1, 37, dtype=np.float32)  # whose kernels nobody has compiled
    with ft.config(cache_size=0):
        found = of(lambda x: fnp.sum(fnp.sinh(fnp.sin(x)) + 1), x)
        assert of(lambda x: fnp.sum(fnp.sinh(x)), x, device="interpreter").agrees
    ft.clear_caches()
    difference: Any = found.difference
    assert (difference.name, found.stage) == ("sinh", "")
    assert found.kernel.startswith("sinh_")
    assert f"the code of the kernel {found.kernel} for cpu" in found.cause


def test_values_in_one_place_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of no operation: the smallest program has both values."""
    right = lowered.plan_memory

    def overlapping(lifetimes: Any) -> Any:
        plan = right(lifetimes)
        return replace(plan, offsets=tuple(0 for _ in plan.offsets))

    monkeypatch.setattr(lowered, "plan_memory", overlapping)

    def f(x: Any) -> Any:
        a, b = fnp.sort(fnp.sin(x), 1), fnp.sort(fnp.cos(x), 1)
        return (a * b + fnp.cumsum(a, 1)) @ x.T

    with ft.config(cache_size=0):
        found = of(f, X)
    assert (found.stage, found.kernel) == ("", "")
    assert "no pass, and no kernel" in found.cause
    assert found.program.count("operation('sort'") == 2


@pytest.mark.usefixtures("own_primitives")
def test_wrong_formulas_of_ones_own_are_named() -> None:
    wavy = ft.extend.elementwise(
        "wavy", numpy=np.sin, kernel=lambda x: x - x * x * x / 6, derivatives=()
    )
    found = of(lambda x: wavy(fnp.exp(x)) * 2, X)
    assert found.difference is not None
    assert found.difference.name == "wavy"
    assert found.kernel
    assert "# Import the module that makes 'wavy'." in found.program


def test_other_code_on_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: Any) -> Any:
        for i in range(400):
            x = fnp.sin(x) / 2 - i
        return x

    with ft.config(cache_dir=tmp_path), monkeypatch.context() as patch:
        patch.setattr(lowering, "DEVICE_INDEPENDENT", with_rule(WRONG))
        ft.jit(f)(X)
        patch.undo()
        RULE_NAMES.discard(WRONG.name)
        ft.clear_caches()
        found = of(f, X)
    ft.clear_caches()
    assert found.notes == (
        "compiled anew it agrees: the disk cache has other code of it",
    )


def test_halves_of_a_long_program_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not each operation, and not the whole again and again."""
    rule = Rule("r", Pat(p.floor, Pat(name="x")), lambda x: p.ceil(x))
    monkeypatch.setattr(lowering, "DEVICE_INDEPENDENT", with_rule(rule))
    sizes: list[int] = []

    def counted(graph: Any, device: Any) -> Any:
        sizes.append(len(graph.nodes))
        return compiled(graph, device)

    compiled = program_parts.CompiledGraph
    monkeypatch.setattr(program_parts, "CompiledGraph", counted)

    def long(x: Any) -> Any:
        for i in range(400):
            x = fnp.sin(x) * 0.01 + x
            x = fnp.floor(fnp.cos(x)) + x if i == 290 else x
        return x

    with ft.config(cache_size=0):
        found = of(long, X)
    RULE_NAMES.discard(rule.name)
    assert found.rules == ("r",)
    assert found.difference is not None
    assert found.difference.name == "floor"
    assert found.operations > 1200
    assert sum(sizes) < 4 * found.operations


# The program that is written.


@pytest.mark.usefixtures("wrong_rule")
def test_the_program_runs_by_itself(tmp_path: Path) -> None:
    x = np.array([1.0, np.nan, 3.0], np.float32)
    found = ft.bisect(lambda x: fnp.exp(x) - x, x, path=tmp_path / "shows.py")
    assert found.path == str(tmp_path / "shows.py")
    text = (tmp_path / "shows.py").read_text()
    assert text == found.program
    assert "v1 = operation('sub', ('float32', (3,), False), x0, x1)  # test_b" in text
    with_fault = AS_TEXT + f"__name__ = '__main__'\n{text}"
    for program, status, told in ((with_fault, 1, WRONG.name), (text, 0, "no differ")):
        ran = subprocess.run(
            [sys.executable, "-c", program], check=False,
            capture_output=True, text=True,
            env={**os.environ, "FTRACE_CACHE_SIZE": "0", "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (status, "")
        assert told in ran.stdout


@pytest.mark.usefixtures("wrong_rule")
def test_programs_have_names_and_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ft.bisect(loss, X).path == "bisect_loss.py"
    assert ft.bisect(lambda x: x - 1, X).path == "bisect_lambda.py"
    found = ft.bisect(loss, X, path=tmp_path / "none" / "p.py")
    assert found.path is None
    assert "program: not written to" in str(found)
    assert found.program
    assert ft.bisect(lambda x: x + 1, X, path="other.py").path is None
    assert sorted(x.name for x in tmp_path.iterdir()) == [
        "bisect_lambda.py", "bisect_loss.py",
    ]  # fmt: skip


# What is refused.


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ArgumentError, match="bisect"):
        of(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ZeroDivisionError):
        of(lambda x: 1 / 0, X)
    with pytest.raises(ArgumentError, match="values are needed, got shapes"):
        of(fnp.sin, ft.ShapeDtypeStruct((3,), "float32"))
    with pytest.raises(ArgumentError, match=r"depends on .*, an effect"):
        of(lambda x: ft.io_callback(lambda x: x, X, x), X)
    with pytest.raises(ArgumentError, match="without dynamic="):
        of(ft.jit(fnp.sin, dynamic={"x": {0: "n"}}), X)
    with pytest.raises(ft.errors.DeviceError, match="nowhere"):
        of(fnp.sin, X, device="nowhere")
    with pytest.raises(ft.errors.ValueRangeError, match="not both"):
        of(fnp.sin, X, ulps=3, rtol=0.1)


def test_what_rounding_alone_takes_apart_is_told_as_that() -> None:
    def softmax(x: Any) -> Any:
        return fnp.exp(x) / fnp.sum(fnp.exp(x))

    x = fnp.linspace(-5, 5, 50)
    found = of(softmax, x, ulps=0)
    lines = str(found).splitlines()
    assert found.agrees
    if found.largest:
        assert "no difference but rounding: " in lines[0]
        assert "results differ from NumPy's by more" in lines[1]
        assert lines[2] == "most: div f32[50]"
        assert "in softmax" in lines[3]
        assert "; 0 allowed" in lines[5]
    assert lines[0].endswith("; allowed: ulps=0")
    assert str(of(softmax, x)).endswith("; allowed: eps^0.75 of the largest element")


def test_what_is_not_the_same_from_run_to_run_is_refused() -> None:
    random = np.random.default_rng(0)

    def noise(x: Any) -> Any:
        draw = lambda x: random.random(x.shape).astype(np.float32)  # noqa: E731
        return ft.pure_callback(draw, x, x) * 2

    with pytest.raises(ArgumentError, match="pure_callback is not the same from run"):
        of(noise, fnp.ones(4))
