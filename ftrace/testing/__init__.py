"""Checks of numbers, derivatives and programs, for tests of one's own.

    close       Are numbers what they should be? And where not: how far apart, and where
    programs    What of a function can be counted and read: traces, kernels, their text
    checks      One function in every way that it can run
    bisect      Which operation of a program is wrong, and why: `ft.bisect`
    program_parts, graph_text    What it is made of
    strategies  Arrays, shapes, dtypes and trees for hypothesis

The plugin for pytest, `pytest_ftrace.py`, has the fixture `device` and the options
`--ftrace-device` and `--ftrace-update-goldens`.
"""

from ftrace.ground.missing_names import tell_missing
from ftrace.test_util import check_grads, check_jvp, check_vjp
from ftrace.testing.checks import available_devices, check, missing_reason
from ftrace.testing.close import (
    assert_close,
    assert_same_bits,
    default_tolerance,
    ulps_between,
)
from ftrace.testing.programs import (
    assert_golden,
    assert_kernels,
    assert_num_kernels,
    assert_num_traces,
    count_traces,
    golden_sections,
    lowered_text,
)

__all__ = [
    "assert_close", "assert_golden", "assert_kernels", "assert_num_kernels",
    "assert_num_traces", "assert_same_bits", "available_devices", "check",
    "check_grads", "check_jvp", "check_vjp", "count_traces", "default_tolerance",
    "golden_sections", "lowered_text", "missing_reason", "ulps_between",
]  # fmt: skip

tell_missing(__name__)
