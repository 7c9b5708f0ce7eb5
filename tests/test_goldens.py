"""Golden kernels: what well-known programs are lowered to, as text.

`python -m tests.test_goldens` writes the files anew; read the difference before you
commit it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp

FOLDER = Path(__file__).parent / "goldens"


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def convolve(x: Any, w: Any) -> Any:
    return ft.lax.conv_general_dilated(x, w, (1, 1), "SAME")


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "chain": (lambda x: fnp.sin(x) * 2 + 1, (ones(4, 5),)),
    "softmax": (lambda x: ft.nn.softmax(x), (ones(8, 100),)),
    "layer_norm": (
        lambda x: (x - fnp.mean(x, 1, keepdims=True)) / fnp.std(x, 1, keepdims=True),
        (ones(8, 100),),
    ),
    "matmul": (lambda x, y: x @ y, (ones(6, 7), ones(7, 5))),
    "dense": (lambda x, w, b: ft.nn.relu(x @ w + b), (ones(6, 7), ones(7, 5), ones(5))),
    "matmul_gradient": (
        ft.grad(lambda x, y: fnp.sum((x @ y) ** 2), (0, 1)), (ones(6, 7), ones(7, 5))
    ),
    "convolution": (convolve, (ones(2, 3, 8, 8), ones(4, 3, 3, 3))),
    "transpose": (lambda x: x.reshape(4, 6, 5).transpose(2, 0, 1) + 1, (ones(24, 5),)),
    "pad": (lambda x: fnp.pad(x, ((1, 2), (0, 3))) * 2, (ones(4, 5),)),
    "gather": (lambda x, i: fnp.exp(x[i]), (ones(9, 4), np.arange(3))),
    "scatter": (lambda x, i: x.at[i].add(1.0), (ones(9, 4), np.arange(3))),
}  # fmt: skip


def text_of(name: str) -> str:
    f, arguments = PROGRAMS[name]
    stages = ft.jit(f).lower(*arguments)
    return "\n\n".join([str(stages.program), *map(str, stages.kernels)]) + "\n"


def test_every_golden_has_a_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_the_golden_ones(name: str) -> None:
    assert text_of(name) == (FOLDER / f"{name}.txt").read_text()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for program in PROGRAMS:
        (FOLDER / f"{program}.txt").write_text(text_of(program))
