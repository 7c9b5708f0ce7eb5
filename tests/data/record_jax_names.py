"""Writes down the public names of JAX, module by module, and its settings.

    python tests/data/record_jax_names.py

needs JAX, which ftrace and its tests do not: `ftrace/ground/jax_names.txt` is what
messages of what is missing and docs/jax-names.md are made of; `jax_settings.json` has
the defaults of the settings, by their names without `jax_`.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import textwrap
import warnings
from enum import Enum
from pathlib import Path

import jax

FILE = Path(__file__).parents[2] / "ftrace" / "ground" / "jax_names.txt"

MODULES = """
jax jax.numpy jax.numpy.linalg jax.numpy.fft jax.lax jax.lax.linalg jax.nn
jax.nn.initializers jax.random jax.scipy jax.scipy.special jax.scipy.linalg
jax.scipy.signal jax.scipy.ndimage jax.scipy.optimize jax.scipy.fft jax.scipy.integrate
jax.scipy.interpolate jax.scipy.cluster.vq jax.scipy.sparse.linalg
jax.scipy.spatial.transform jax.scipy.stats jax.tree jax.tree_util jax.ops jax.image
jax.dtypes jax.typing jax.debug jax.custom_derivatives jax.custom_batching
jax.flatten_util jax.test_util jax.errors jax.stages jax.ad_checkpoint jax.dlpack
jax.profiler jax.monitoring jax.sharding jax.distributed jax.export jax.core
jax.api_util jax.extend.core jax.extend.core.primitives jax.extend.linear_util
jax.extend.random jax.extend.backend
jax.interpreters.ad jax.interpreters.batching jax.interpreters.mlir
jax.interpreters.partial_eval jax.interpreters.xla jax.ref
"""
#: Of these modules only some of what they show is meant for users.
EXPERIMENTAL = {
    "jax.experimental": "io_callback",
    "jax.experimental.ode": "odeint",
    "jax.experimental.jet": "jet",
    "jax.experimental.sparse": """
        BCOO BCSR COO CSC CSR JAXSparse bcoo_broadcast_in_dim bcoo_concatenate
        bcoo_conv_general_dilated bcoo_dot_general bcoo_dot_general_sampled
        bcoo_dynamic_slice bcoo_extract bcoo_fromdense bcoo_gather bcoo_multiply_dense
        bcoo_multiply_sparse bcoo_reduce_sum bcoo_reshape bcoo_rev bcoo_slice
        bcoo_sort_indices bcoo_squeeze bcoo_sum_duplicates bcoo_todense bcoo_transpose
        bcoo_update_layout bcsr_broadcast_in_dim bcsr_concatenate bcsr_dot_general
        bcsr_extract bcsr_fromdense bcsr_sum_duplicates bcsr_todense coo_fromdense
        coo_matmat coo_matvec coo_todense csr_fromdense csr_matmat csr_matvec
        csr_todense empty eye grad jacfwd jacobian jacrev random_bcoo sparsify todense
        value_and_grad""",
    "jax.experimental.sparse.linalg": "lobpcg_standard spsolve",
    "jax.experimental.checkify": """
        Error all_checks automatic_checks check check_error checkify debug_check
        div_checks float_checks index_checks init_error nan_checks user_checks""",
    "jax.experimental.mesh_utils": "create_device_mesh create_hybrid_device_mesh",
    "jax.experimental.shard_map": "shard_map",
    "jax.experimental.multihost_utils": """
        assert_equal broadcast_one_to_all global_array_to_host_local_array
        host_local_array_to_global_array process_allgather
        reached_preemption_sync_point sync_global_devices""",
    "jax.experimental.custom_partitioning": "custom_partitioning",
    "jax.experimental.layout": "Format Layout with_layout_constraint",
    "jax.experimental.rnn": """
        get_num_params_in_lstm init_lstm_weight lstm lstm_ref unpack_lstm_weights""",
    "jax.experimental.buffer_callback": "buffer_callback",
    "jax.experimental.hijax": "HiPrimitive HiType MutableHiType VJPHiPrimitive",
}
#: What a module imports for itself.
OWN = {
    "Any", "Callable", "Sequence", "annotations", "cache", "safe_map", "safe_zip",
}  # fmt: skip


def public(module: str) -> list[str]:
    found = vars(importlib.import_module(module))
    names = found.get("__all__") or [n for n in found if n[0] != "_" and n not in OWN]
    return sorted(n for n in names if hasattr(importlib.import_module(module), n))


def main() -> None:
    """Writes the file: a line for each module, its name and its names."""
    warnings.simplefilter("ignore")
    folder = importlib.import_module("jax.scipy.stats").__path__
    stats = [f"jax.scipy.stats.{m.name}" for m in pkgutil.iter_modules(folder)]
    rows = {module: public(module) for module in [*MODULES.split(), *stats]}
    for module, names in EXPERIMENTAL.items():
        found = importlib.import_module(module)
        rows[module] = [name for name in names.split() if hasattr(found, name)]
    lines = [f"# The public names of jax {jax.__version__}."]
    for module, names in rows.items():
        lines.append(f"{module}:")
        lines += textwrap.wrap(
            " ".join(names), 88, initial_indent="  ", subsequent_indent="  "
        )
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = {
        name.removeprefix("jax_"): value.name.lower()
        if isinstance(value, Enum)
        else value
        for name, value in sorted(jax.config.values.items())
    }
    text = json.dumps(settings, indent=0)
    FILE.with_name("jax_settings.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
