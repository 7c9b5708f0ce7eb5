"""Random programs give the same values in every way of running them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.__main__ import Session, main
from tests.fuzz.generate import generate
from tests.fuzz.judge import Failure, judge
from tests.fuzz.noise import Noise, spreads
from tests.fuzz.program import Input, Program, Statement
from tests.fuzz.purposes import purpose
from tests.fuzz.shrink import shrink
from tests.fuzz.ways import OURS


def test_programs_agree_in_all_ways(tmp_path: Path, capsys: Any) -> None:
    arguments = ["--programs", "9", "--seed", "7", "--state", str(tmp_path)]
    assert main(arguments) == 0, capsys.readouterr().out


def test_a_session_goes_on_where_it_stopped(tmp_path: Path, capsys: Any) -> None:
    arguments = ["--programs", "1", "--seed", "7", "--state", str(tmp_path)]
    main(arguments)
    main(arguments)
    assert "2 of seed 7" in capsys.readouterr().out


def test_a_program_that_ends_the_process_is_a_failure(tmp_path: Path) -> None:
    session = Session(tmp_path, 7)
    session.programs, session.begun = 3, 4
    session.save()  # and no more
    again = Session(tmp_path, 7)
    again.load()
    assert again.programs == 4
    assert again.failures == ["7000000003"]


def test_a_seed_gives_one_program() -> None:
    for seed in range(20):
        assert generate(seed) == generate(seed)


STATEMENTS = (
    "jnp.mean(x0)", "jnp.sum(x0)", "jnp.prod(x0)", "jnp.cumprod(x0)", "x0 / x0",
    "jnp.log(x0)", "lax.sort(x0)", "jnp.var(x0)", "nn.standardize(x0)", "jnp.sinc(x0)",
    "jnp.convolve(x0, x0)", "jnp.fft.fft(x0)", "jnp.signbit(x0)", "x0 - jnp.max(x0)",
    "jnp.partition(x0, 1)", "jnp.copysign(x0, x0)",
)  # fmt: skip


def _program(text: str, error: float, values: Any) -> Program:
    given = Input("x0", values.shape, values.dtype.name, values=(values,) * 3)
    return Program((given,), (Statement("v0", text, error),), ("v0",))


def test_noise_follows_the_condition_of_a_program() -> None:
    values = np.array([0.1, 0.7, 1.3], np.float32)
    eps = np.finfo(np.float32).eps

    def room(text: str, error: float) -> float:
        program = _program(text, error, values)
        f = OURS["jnp"].asarray
        exec(program.body(), scope := dict(OURS))
        reference = [np.asarray(r) for r in scope["f"](f(values))]
        moved = [(program, Noise(seed)) for seed in range(8)]
        *_, (last,) = spreads(moved, "plain", reference)
        return float(last.max())

    assert room("jnp.flip(x0)", 0) == 0
    assert 0 < room("jnp.sin(x0)", 1) < 8 * eps
    assert room("(x0 + 1000) - 1000", 1) < 8 * eps * 1000


def test_a_failure_shrinks_to_the_statement_that_makes_it() -> None:
    big = generate(5, steps=9)
    bad = Statement("v90", f"{big.inputs[0].name} * 0 + 7", 1)
    tail = Statement("v91", "jnp.exp(v90)", 4)
    program = Program(big.inputs, (*big.statements, bad, tail), ("v91",), big.x64)

    tried = 0

    def fails(smaller: Program) -> bool:
        nonlocal tried
        tried += 1
        return any("+ 7" in s.text for s in smaller.statements)

    small = shrink(program, fails)
    assert tried < 500  # it ends where nothing is simpler, not when its time is over
    assert [s.text.split(" * ")[1] for s in small.statements] == ["0 + 7"]
    assert all(np.prod(i.shape) <= 1 for i in small.inputs)


def test_no_reason_excuses_a_wrong_number_of_ours() -> None:
    wrong = "result 0 at (0,): np.float32(9.0), not np.float32(2.0) ± 1e-07 (1 of 3)"
    for statement in STATEMENTS:
        for dtype in ("float32", "int32"):
            program = _program(statement, 1, np.ones(3, dtype))
            for way in ("jit", "interpreter", "loop", "inner jit"):
                found = Failure("plain", way, "value", wrong, 7 * 2.0**23)
                assert purpose(program, found) is None, (statement, way)


def test_what_eager_refuses_and_jit_takes_is_a_failure() -> None:
    program = _program("x0.no_such_attribute", 0, np.ones(2, np.float32))
    assert judge(program) is None  # both refuse
    program = _program("(x0 if bool(x0.all()) else -x0)", 0, np.ones(2, np.float32))
    found = judge(program)
    assert isinstance(found, Failure)
    assert found.kind == "error"
