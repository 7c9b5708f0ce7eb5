"""Code for AArch64, which this machine need not be: it compiles, and works in vectors.

Only looked at, not run: the assembly of each kind of kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.llvm.device import render_kernel
from ftrace.backends.llvm.emit.called_functions import write_called
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel
from tests.support.kernel_texts import assembly_of

ARM = Target.of("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon,+fullfp16")

F = Callable[..., Any]


def floats(*shape: int, dtype: Any = np.float32) -> Any:
    return np.linspace(0.1, 0.9, int(np.prod(shape))).reshape(shape).astype(dtype)


def softmax_row(q: Any, k: Any) -> Any:
    return ft.nn.softmax(q @ k.T, axis=-1)


#: Function, arguments, and instructions of which there must be some.
PROGRAMS: dict[str, tuple[F, tuple[Any, ...], str]] = {
    "elementwise": (lambda x, y: x * y + x, (floats(1000), floats(1000)), "fm(la|ul)"),
    "exponential": (fnp.exp, (floats(1000),), "fmla"),
    "float64": (lambda x: fnp.tanh(x) + 1, (floats(999, dtype=np.float64),), "fmla"),
    "integers": (
        lambda x: x * 3 + (x >> 2), (np.arange(1000, dtype=np.int32),), "sshr|ssra"),
    "bytes": (lambda x: x + x, (np.arange(1000).astype(np.uint8),), "add"),
    "select": (
        lambda x: fnp.where(x > 0.5, x, -x), (floats(1000),), "bs[li]|bi[ft]|fcm"),
    "bfloat16": (
        lambda x: x * x + 1, (floats(1000).astype(fnp.bfloat16),), "fmul|fmla"),
    "float16": (lambda x: x * x + 1, (floats(1000, dtype=np.float16),), "fcvt[ln]"),
    "sum": (fnp.sum, (floats(5000),), "fadd"),
    "maximum": (lambda x: fnp.max(x, 1), (floats(70, 300),), "fmax"),
    "sum of columns": (lambda x: fnp.sum(x, 0), (floats(300, 70),), "fadd"),
    "softmax": (lambda x: ft.nn.softmax(x, axis=1), (floats(60, 300),), "fmla"),
    "layer norm": (
        lambda x: (x - fnp.mean(x, 1, keepdims=True))
        / fnp.sqrt(fnp.var(x, 1, keepdims=True) + 1e-5),
        (floats(60, 300),), "fm(la|ul)"),
    "transpose": (lambda x: x.T + 1, (floats(200, 300),), "(zip|trn|uzp|ext|fadd)"),
    "matmul": (lambda a, b: a @ b, (floats(90, 70), floats(70, 110)), "fmla"),
    "matmul with an epilogue": (
        lambda a, b, c: fnp.maximum(a @ b + c, 0),
        (floats(64, 64), floats(64, 64), floats(64)), "fmla"),
    "matmul of float64": (
        lambda a, b: a @ b,
        (floats(40, 70, dtype=np.float64), floats(70, 50, dtype=np.float64)), "fmla"),
    "matvec": (lambda a, b: a @ b, (floats(300, 200), floats(200)), "fm(la|ul)"),
    "convolution": (
        lambda x, w: ft.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
        (floats(2, 8, 20, 20), floats(16, 8, 3, 3)), "fmla"),
    "gather": (
        lambda x, i: x[i] * 2, (floats(100, 64), np.arange(0, 90, 3)), "f(mul|add)"),
    "running sum": (lambda x: fnp.cumsum(x, 0), (floats(50, 64),), "fadd"),
    "recurrence of lanes": (
        lambda x: ft.lax.fori_loop(0, 50, lambda i, c: c * 0.9 + x, x),
        (floats(512),), "fm(la|ul)"),
    "attention": (
        lambda q, k, v: softmax_row(q, k) @ v,
        (floats(64, 32), floats(64, 32), floats(64, 32)), "fmla"),
}  # fmt: skip


def code_of(kernel: Kernel) -> str:
    """The assembly of a kernel, and of the functions that it calls."""
    module = render_kernel(kernel, ARM).module
    called = [s for s in module.calls if re.search(r"_v?\d*f(32|64)$", s)]
    modules = [module, *[write_called(symbol, ARM) for symbol in called]]
    return "\n".join([assembly_of(one.text, ARM) for one in modules])


#: An instruction on a vector of NEON: "fmla v0.4s, v1.4s, v2.s[0]".
VECTOR = r"^\s+(?:{})\w*\s+v\d+\.(?:16b|8h|4s|2d|8b|4h|2s)"


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_kernels_for_arm_work_in_vectors(name: str) -> None:
    function, arguments, instructions = PROGRAMS[name]
    kernels = ft.jit(function).lower(*arguments).kernels
    assert kernels
    code = "\n".join(code_of(kernel) for kernel in kernels)
    pattern = VECTOR.format(instructions)
    found = re.findall(pattern, code, re.MULTILINE)
    assert found, f"no {instructions} on vectors in\n{code[:3000]}"


def test_a_matrix_product_for_arm_multiplies_by_lanes_or_copies() -> None:
    """Nearly all of its arithmetic is vector multiply-adds."""
    function, arguments, _ = PROGRAMS["matmul"]
    (kernel,) = ft.jit(function).lower(*arguments).kernels
    code = code_of(kernel)
    vectors = len(re.findall(VECTOR.format("fmla"), code, re.MULTILINE))
    scalars = len(re.findall(r"^\s+fmadd\s", code, re.MULTILINE))
    assert vectors >= 16
    assert scalars <= vectors // 10
