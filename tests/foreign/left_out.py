"""Which of JAX's tests are not about what ftrace serves, and why.

A row: what the name of a test (`file.py::Class::test`) contains as a regular
expression, and the reason. A test that uses a private name of JAX's leaves itself out:
see `jax_private`.
"""

from __future__ import annotations

import re

BACKEND = "the insides of XLA, its caches and its clients"
TEXT = "the text of HLO and of jaxprs"
DEVICES = "several devices"
JAXPR = "which equations a jaxpr has: those of the graph are others"
ERRORS = "the exact words of messages"

ROWS: tuple[tuple[str, str], ...] = (
    (r"(?i)stablehlo|_hlo|hlo_|mlir|_lowering_", TEXT),
    (r"(?i)shard(?!_?map)|_mesh|multi_?device|pmap|multi_?host", DEVICES),
    (r"(?i)cache_miss|persistent|compilation_cache|compiler_ir|cpp_cache", BACKEND),
    (r"(?i)cudnn|cublas|rocm|_tpu|magma|_gpu", "accelerators"),
    (r"errors_test|traceback", "how frames are left out of tracebacks"),
    (
        r"Arange\w*Jaxpr|testIntegerPower|MatmulBothSize1BatchDims|PreferredElementType"
        r"|SimpleIndexingUsesSlice|NormalizationByType|UnsignedNoNormalization"
        r"|preferred_element_type|select_jvp_complexity|WhereExtraCode|lax_test.*Reduce\d"
        r"|InBounds\w*Wrap|PiecewiseRecompile|forwards_extensive|input_to_output_forw"
        r"|typecheck_param",
        JAXPR,
    ),
    (r"CustomElementTypes|ExtendedDType|EArrayTest|edtype", "dtypes of one's own"),
    (r"[dD]ocstrings|SignaturesMatch", "docstrings and signatures"),
    (r"(?i)logging_test", "what JAX and XLA log"),
    (r"(?i)leak_checker|leaks_tracer|garbage", "leak checks of tracers"),
)


def reason(name: str) -> str | None:
    """Why a test is left out; None for one that is to pass."""
    for pattern, said in ROWS:
        if re.search(pattern, name):
            return said
    return None
