"""The order in which einsum contracts: what opt_einsum finds, and no more work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings as budget, strategies as st

import ftrace as ft
import ftrace.numpy as fnp
from ftrace.backends.base import get_device

opt_einsum = pytest.importorskip("opt_einsum")

#: Multiplying and adding count as two for opt_einsum; our counter adds the loop's own.
COUNTED = 1.6

EXPRESSIONS = (
    "ij,jk,kl,lm->im",
    "bi,oij,bj->bo",
    "abc,bd,ce,de->a",
    "ia,ib,ic->abc",
    "ij,jk,ki->",
)


def arrays(text: str, sizes: list[int]) -> list[Any]:
    size = dict(zip(sorted(set(text) - set(",->")), sizes, strict=False))
    random = np.random.default_rng(1)
    terms = text.split("->")[0].split(",")
    return [random.standard_normal([size[c] for c in term]) for term in terms]


def operations(function: Any, *given_arrays: Any) -> int:
    """What the device counts for one call."""
    counters = get_device("cpu").counters
    function(*given_arrays)
    before = counters.operations
    function(*given_arrays)
    return counters.operations - before


@pytest.mark.parametrize("text", EXPRESSIONS)
@budget(max_examples=6)
@given(sizes=st.lists(st.sampled_from([3, 8, 40]), min_size=6, max_size=6))
def test_einsum_does_what_the_best_path_costs(text: str, sizes: list[int]) -> None:
    operands = arrays(text, sizes)
    f = ft.jit(lambda *xs: fnp.einsum(text, *xs))
    wanted = np.einsum(text, *operands, optimize=True)
    np.testing.assert_allclose(f(*operands), wanted, rtol=1e-9, atol=1e-9)
    _, found = opt_einsum.contract_path(text, *operands)
    small = 64 * max(np.prod(x.shape) for x in operands)
    assert operations(f, *operands) <= COUNTED * float(found.opt_cost) + small


def test_a_bilinear_form_is_one_large_product() -> None:
    """Of the two orders of equal work, that with the small intermediate result."""
    operands = arrays("bi,oij,bj->bo", [64, 32, 32, 96])
    f = ft.jit(lambda *xs: fnp.einsum("bi,oij,bj->bo", *xs))
    kernels = f.lower(*operands).kernels
    assert len(kernels) <= 2
    written = [spec.size for k in kernels for spec in k.buffers if spec.written]
    assert max(written) == 64 * 32 * 32
