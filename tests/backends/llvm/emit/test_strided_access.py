"""Every second to fourth element, in whole vectors: read and stored up to the ends."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest

from ftrace.backends.llvm.render import render
from ftrace.backends.llvm.target import Target
from ftrace.lower.kernel.ir import Kernel, Store, load
from ftrace.trace.primitives import elementwise as ew
from ftrace.trace.primitives.sources import const
from tests.support.run_llvm_kernel import at, axes, buffer, make_kernel, run

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.usefixtures("private_cache")


def between_pages(size: int, last: bool) -> Array:
    """Numbers that begin, or end, where memory may not be read any more."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    library = ctypes.CDLL(None, use_errno=True)
    for n in (0, 2):
        where = ctypes.c_void_p(start + n * page)
        assert library.mprotect(where, ctypes.c_size_t(page), 0) == 0
    offset = 2 * page - 4 * size if last else page
    found = np.frombuffer(memory, np.float32, size, offset)
    found[:] = np.arange(size) + 1
    return found


def reading(x: Array, step: int, count: int, offset: int) -> tuple[Kernel, list[Array]]:
    """out[u, i] = 2 · x[step · i - u + offset], where u are the steps."""
    out = np.zeros((step, count), np.float32)
    u, i = axes(step, count)
    value = load(buffer(0, x), at((i, step), (u, -1), offset=offset))
    doubled = ew.mul(value, const(2, value.dtype))
    arrays = [x, out]
    store = Store(1, at((u, count), (i, 1)), doubled)
    return make_kernel((u, i), (store,), arrays), arrays


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 5, 16, 37, 64, 100])
@pytest.mark.parametrize("last", [False, True])
def test_nothing_is_read_beyond_a_buffer(step: int, count: int, last: bool) -> None:
    size = step * count  # all of it is read, by some step
    x = between_pages(size, last)
    kernel, arrays = reading(x, step, count, step - 1)
    run(kernel, arrays, 3)
    expected = [2 * x[step - 1 - u :: step] for u in range(step)]
    np.testing.assert_array_equal(arrays[1], expected)


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
def test_elements_are_picked_up_to_the_ends(name: str) -> None:
    target = Target.of("x86_64-unknown-linux-gnu", name)
    kernel, _ = reading(np.zeros(2 * 1000, np.float32), 2, 1000, 1)
    assert "masked.gather" not in render(kernel, target).text


def test_elements_far_apart_are_gathered() -> None:
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
    x, out = np.zeros(40 * 1000, np.float32), np.zeros(1000, np.float32)
    (i,) = axes(1000)
    store = Store(1, i, load(buffer(0, x), at((i, 40))))
    kernel = make_kernel((i,), (store,), [x, out])
    assert "masked.gather" in render(kernel, target).text


def storing(x: Array, out: Array, step: int, offset: int) -> Kernel:
    """out[step · i + offset] = 2 · x[i]."""
    (i,) = axes(x.size)
    value = load(buffer(0, x), i)
    doubled = ew.mul(value, const(2, value.dtype))
    store = Store(1, at((i, step), offset=offset), doubled)
    return make_kernel((i,), (store,), [x, out])


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 5, 16, 37, 64, 100])
@pytest.mark.parametrize("last", [False, True])
def test_nothing_is_stored_between_and_beyond(
    step: int, count: int, last: bool
) -> None:
    offset = step - 1 if last else 0
    out = between_pages(step * (count - 1) + 1 + offset, last)
    wanted = out.copy()
    x = np.arange(count, dtype=np.float32)
    wanted[offset::step] = 2 * x
    run(storing(x, out, step, offset), [x, out], 3)
    np.testing.assert_array_equal(out, wanted)


def test_elements_are_stored_apart_by_masks() -> None:
    target = Target.of("x86_64-unknown-linux-gnu", "x86-64-v4")
    x = np.zeros(1000, np.float32)
    for step, scattered in ((2, False), (4, False), (40, True)):
        kernel = storing(x, np.zeros(1000 * step, np.float32), step, 0)
        text = render(kernel, target).text
        assert ("masked.scatter" in text) == scattered
