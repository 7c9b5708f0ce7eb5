"""Golden kernels: what well-known programs are lowered to, and their code, as text.

`goldens/NAME.txt` is a program and its kernels. `goldens/code/FAMILY.txt` says of each
row of the benchmarks, and of a program for each form of code that they do not have,
what LLVM IR its kernels become on two processors: units and grain, the digest of the
normal form (`support/kernel_texts.py`), and the loops with what is done in them. No
figure depends on the machine that runs the tests.

`pytest tests/lower/test_golden_kernels.py --ftrace-update-goldens` writes the files
anew; read the difference before you commit it. Where only a digest differs, `python -m
tests.lower.test_golden_kernels FOLDER`, here and in the state before, writes what
`diff -r` compares: the normal forms, and with `--assembly` what LLVM makes of the code.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from benchmarks.libraries import Api
from benchmarks.row import Row
from benchmarks.rows import (
    contractions,
    convolution,
    elementwise,
    indexing,
    movement,
    reductions,
)
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.emit.module import Rendered
from ftrace.backends.llvm.kernels.compile_kernels import without_numbers
from ftrace.backends.llvm.scalar import avx512
from ftrace.backends.llvm.target import Target
from ftrace.ground.limits import Limits
from ftrace.lower import lower
from ftrace.testing import assert_golden, assert_kernels, golden_sections
from tests.support.kernel_texts import assembly_of, digest, normal_form, outline

FOLDER = Path(__file__).parents[1] / "goldens"


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


#: Caches, cores and features are given: code does not depend on where it is written.
CACHES = (32 << 10, 1 << 20, 32 << 20)
PROCESSORS = {
    cpu: Target.of("x86_64-unknown-linux-gnu", cpu, features, CACHES, cores=2)
    for cpu, features in (
        ("x86-64-v4", "+avx512bf16,+avx512vnni"), ("x86-64-v3", ""),
    )
}  # fmt: skip


def channels_last(
    images: tuple[int, ...], filters: tuple[int, ...], stride: int, groups: int = 1
) -> tuple[Any, tuple[Any, ...]]:
    def run(x: Any, w: Any) -> Any:
        return ft.lax.conv_general_dilated(
            x, w, (stride, stride), "SAME", feature_group_count=groups,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    return run, (ones(*images), ones(*filters))


def depthwise(channels: int, space: int, taps: int) -> tuple[Any, tuple[Any, ...]]:
    def run(x: Any, w: Any) -> Any:
        ones = (1, 1)
        return ft.lax.conv_general_dilated(
            x, w, ones, "SAME", feature_group_count=channels
        )

    shapes = (8, channels, space, space), (channels, 1, taps, taps)
    return run, tuple(ones(*shape) for shape in shapes)


def by_filters(program: tuple[Any, tuple[Any, ...]]) -> tuple[Any, tuple[Any, ...]]:
    """The gradient of a convolution, by filters."""
    run, (x, w) = program
    gradient = ft.grad(lambda x, w, y: fnp.sum(run(x, w) * y), 1)
    return gradient, (x, w, np.ones(ft.eval_shape(run, x, w).shape, np.float32))


def of_loss(program: tuple[Any, tuple[Any, ...]]) -> tuple[Any, tuple[Any, ...]]:
    """The gradient by filters, of a loss: what is multiplied is another result."""
    run, (x, w) = program
    return ft.grad(lambda x, w: fnp.sum(run(x, w) ** 2), 1), (x, w)


def product(*types: Any) -> tuple[Any, tuple[Any, ...]]:
    """A matmul of other numbers than float32; the last one is that of the sums."""
    left, right, result = types
    operands = np.ones((128, 256), left), np.ones((256, 192), right)
    return lambda a, b: fnp.matmul(a, b, preferred_element_type=result), operands


def dynamic(function: Any, *arrays: Any) -> tuple[Any, tuple[Any, ...]]:
    """A function of arrays whose first axis is `n` elements long."""
    n: Any = ft.Dim("n", 2)
    return function, tuple(
        ft.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype) for x in arrays
    )


#: What the rows of the benchmarks have no example of.
OTHERS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "few columns": (lambda a, b: a @ b, (ones(500, 300), ones(300, 3))),
    "product of int16": product(np.int16, np.int16, np.int32),
    "product of float64": product(np.float64, np.float64, np.float64),
    "channels last": channels_last((8, 14, 14, 64), (3, 3, 64, 64), 1),
    "channels last, strided": channels_last((8, 28, 28, 32), (3, 3, 32, 64), 2),
    "channels last, few": channels_last((4, 40, 40, 16), (3, 3, 16, 3), 1),
    "channels last, by filters":
        by_filters(channels_last((8, 14, 14, 64), (3, 3, 64, 64), 1)),
    "groups, channels last": channels_last((4, 14, 14, 32), (3, 3, 4, 32), 1, 8),
    "groups, channels last, by filters":
        by_filters(channels_last((4, 14, 14, 32), (3, 3, 4, 32), 1, 8)),
    "spread images": (
        lambda x, w: ft.lax.conv_general_dilated(x, w, (1, 1), [(1, 2)] * 2, (2, 2)),
        (ones(4, 32, 14, 14), ones(32, 32, 3, 3))),
    "depthwise": depthwise(32, 28, 3),
    "depthwise, small images": depthwise(64, 7, 5),
    "depthwise, by filters": by_filters(depthwise(32, 28, 3)),
    "small table": (lambda t, i: t[i], (ones(200), np.zeros(5000, np.int32))),
    "running sum": (lambda x: fnp.cumsum(x, 1), (ones(64, 1000),)),
    "running sum of columns": (lambda x: fnp.cumsum(x, 0), (ones(300, 500),)),
    "loop in registers": (
        lambda x: ft.lax.fori_loop(0, 50, lambda i, c: c * 0.9 + x, x), (ones(512),)),
    "float16": (lambda x: fnp.exp(x) * x, (np.ones(5000, np.float16),)),
    "dynamic softmax": dynamic(ft.nn.softmax, ones(4, 300)),
    "dynamic product": dynamic(lambda x: x @ x.T, ones(4, 100)),
    "depthwise, of a loss": of_loss(
        channels_last((8, 28, 28, 32), (3, 3, 1, 32), 1, 32)),
}  # fmt: skip


class _Shapes:
    """In the place of NumPy's generator: only the shapes of a row's inputs matter."""

    def __init__(self, _: int) -> None:
        pass

    def standard_normal(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype)

    random = standard_normal

    def integers(self, _: int, high: int, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype)


def program_of(row: Row) -> tuple[Any, tuple[Any, ...]]:
    assert row.build is not None
    with mock.patch.object(np.random, "default_rng", _Shapes):
        return row.build(Api.of(ft)), row.inputs()


Program = Callable[[], tuple[Any, tuple[Any, ...]]]
CODES: dict[str, dict[str, Program]] = {
    module.FAMILY.name: {
        row.name: lambda row=row: program_of(row) for row in module.FAMILY.rows
    }
    for module in (
        contractions,
        convolution,
        reductions,
        elementwise,
        movement,
        indexing,
    )
}
CODES["others"] = {name: lambda name=name: OTHERS[name] for name in OTHERS}
ROWS = [(family, name) for family, names in CODES.items() for name in names]


#: In the place of those that a processor has fitted.
TABLES = [range(row, row + 32) for row in range(8)]


def code_of(family: str, name: str) -> Iterator[tuple[str, Rendered]]:
    """(which kernel, processor, and its code), for each that is another one."""
    function, arguments = CODES[family][name]()
    graph = ft.make_graph(function)(*arguments)
    steps = lower(graph, Limits(recurrences=True, cache=CACHES[1])).program.kernels
    kernels = dict.fromkeys(without_numbers(step.kernel)[0] for step in steps)
    for number, kernel in enumerate(kernels, 1):
        for cpu, target in PROCESSORS.items():
            with mock.patch.object(avx512, "tables_of", return_value=TABLES):
                code = render_kernel(kernel, target)
            yield f"kernel {number}, {cpu}", code


def outline_of(family: str, name: str) -> str:
    lines: list[str] = []
    for title, code in code_of(family, name):
        figures = f"{code.parallel} units, grain {code.grain}, {digest(code.text)}"
        lines += [f"{title}: {figures}", *(f"  {x}" for x in outline(code.text))]
    return "\n".join(lines) + "\n"


def test_every_golden_has_a_program() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(PROGRAMS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_are_the_golden_ones(name: str) -> None:
    f, arguments = PROGRAMS[name]
    assert_kernels(f, *arguments, golden=FOLDER / f"{name}.txt")


def test_every_row_has_a_golden_text() -> None:
    assert {path.stem for path in (FOLDER / "code").glob("*.txt")} == set(CODES)
    for family, names in CODES.items():
        golden = FOLDER / "code" / f"{family}.txt"
        assert list(golden_sections(golden)) == list(names)


@pytest.mark.parametrize(("family", "name"), ROWS)
def test_code_is_the_golden_one(family: str, name: str) -> None:
    golden = FOLDER / "code" / f"{family}.txt"
    assert_golden(outline_of(family, name), golden, section=name)


def test_the_normal_form_is_the_same_for_other_names() -> None:
    ((_, code), *_) = code_of("contraction", "matmul 333×777×555")
    text = code.text.replace("%v", "%other").replace("@kernel", "@another")
    assert text != code.text
    assert digest(text) == digest(code.text)
    assert digest(text.replace("fma", "fmuladd")) != digest(code.text)


def write_texts(folder: Path, assembly: bool) -> None:
    """Every kernel's normal form, or its assembly, in a file."""
    for family, name in ROWS:
        for title, code in code_of(family, name):
            target = PROCESSORS[title.rpartition(" ")[2]]
            form = (
                assembly_of(code.text, target) if assembly else normal_form(code.text)
            )
            path = folder / f"{family}, {name}, {title}.txt".replace("/", "÷")
            path.write_text(form)


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the code of all kernels.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--assembly", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    write_texts(options.folder, options.assembly)


if __name__ == "__main__":
    main()
