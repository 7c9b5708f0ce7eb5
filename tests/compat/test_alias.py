"""`import jax` is ftrace: in processes of their own, since it is for good."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


LAWS = """
import sys
import numpy as np
import jax, jax.numpy as jnp, jaxlib
import jax.scipy.special, jax.tree_util
from jax import lax, core
import ftrace, ftrace.compat
import jax._src.traceback_util

assert sys.argv[1:] == ["a", "-b"], sys.argv
assert jax.__version__ == jaxlib.__version__ == jax.version.__version__
from importlib.metadata import version
from jaxlib.xla_client import Device
assert version("jax") == version("jaxlib") == jax.__version__
assert isinstance(jax.devices()[0], Device) and jax._src.api_util
from jax._src.util import safe_map, safe_zip
from jax._src import api
from jax._src.lax import lax as private_lax
assert private_lax.add is jax.lax.add and api.grad is jax.grad
assert safe_map(max, [1, 5], [3, 4]) == [3, 5] and safe_zip("a", "b") == [("a", "b")]
assert jax.numpy is ftrace.numpy and lax is ftrace.lax
assert jax.scipy.special is ftrace.scipy.special and jax.jit is ftrace.jit
ftrace.compat.install_as_jax()  # once more is nothing
used = jax.nn, jax.core, jax.grad, jax.Array
assert {"nn", "core", "grad", "Array"} <= vars(jax).keys()  # looked for once

assert jnp.asarray(np.arange(3.0)).dtype == np.float32
jax.config.update("jax_enable_x64", True)
assert jnp.asarray(np.arange(3.0)).dtype == np.float64

before = core.get_opaque_trace_state()
inside = []
@jax.jit
def f(x):
    assert isinstance(x, jax.Array) and isinstance(x, core.Tracer)
    inside.extend([core.trace_state_clean(), core.get_opaque_trace_state()])
    return x
f(1.0)
assert core.trace_state_clean() and before == core.get_opaque_trace_state()
assert inside[0] is False and inside[1] != before

def fails(x):
    raise ValueError("no")
for call in (lambda f: f, jax.jit):
    try:
        call(lambda x: jax.pure_callback(fails, x, x))(jnp.ones(3))
        assert False
    except jax.errors.JaxRuntimeError as error:
        assert "ValueError: no" in str(error)

for name, said in {
    "jax.nope": "no such module",
    "jax._src.nope": "private to JAX",
    "jaxlib.xla_extension": "no such module",
    "jax.experimental.pallas": "never: kernels are written by the lowering",
}.items():
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert said in str(error) and error.name == name, error
    else:
        raise AssertionError(name)
try:
    jax.nope
except AttributeError as error:
    assert "'jax'" in str(error)
for module, name in (jax.experimental, "compute_on"), (jax.extend, "mlir"):
    try:
        getattr(module, name)
    except AttributeError as error:
        assert "never: it is about XLA" in str(error), error
    else:
        raise AssertionError(name)
from jax.experimental.compilation_cache import compilation_cache
before = jax.config.jax_compilation_cache_dir
compilation_cache.set_cache_dir("/tmp/of/the/user")
assert jax.config.jax_compilation_cache_dir == "/tmp/of/the/user"
compilation_cache.reset_cache()
jax.config.update("jax_compilation_cache_dir", before)
jax._src.traceback_util.register_exclusion(__file__)

class Variable:
    def __array__(self, dtype=None, copy=None):
        return np.full(2, 2.0, np.float32)
handlers = jax.interpreters.xla.canonicalize_dtype_handlers
for types in core.pytype_aval_mappings, handlers:
    types[Variable] = types[np.ndarray]
assert (jax.jit(jnp.square)(Variable()) == jnp.square(Variable())).all()
assert jnp.asarray(Variable()).shape == (2,) and core.get_aval(Variable()).ndim == 1
import jax.extend
assert jax.extend.core.primitives.add_p is lax.add_p
assert jnp.expand_dims(jnp.ones(2), range(2)).shape == (1, 1, 2)
with jax.enable_custom_prng():
    assert jax.enable_custom_prng.value
print("all hold")
"""


def test_modules_of_jax_are_those_of_ftrace(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(LAWS)
    done = run("-m", "ftrace.compat", str(script), "a", "-b")
    assert done.stdout == "all hold\n", done.stderr


def test_the_environment_asks_for_it_and_for_the_dtypes() -> None:
    code = "import ftrace, jax; print(jax.numpy.ones(2).dtype)"
    done = run("-c", code, FTRACE_AS_JAX="1", JAX_ENABLE_X64="1")
    assert done.stdout == "float64\n", done.stderr
    assert "script.py" in run("-m", "ftrace.compat", "--help").stdout
    done = run(
        "-m", "ftrace.compat", "-c", "import jax; print(jax.numpy.ones(2).dtype)"
    )
    assert done.stdout == "float32\n", done.stderr


def test_a_jax_that_is_there_already_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("")
    code = "import jax; from ftrace.compat import install_as_jax; install_as_jax()"
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = run("-c", code, PYTHONPATH=path)
    assert done.returncode == 1
    assert "AliasError" in done.stderr
    assert str(tmp_path / "jax.py") in done.stderr
    done = run("-m", "ftrace.compat")
    assert done.returncode == 1
    assert "usage" in done.stderr


def test_a_library_of_another_version_is_noted_once(tmp_path: Path) -> None:
    for name, version in {"optax": "9.9.1", "chex": "0.1.99", "haiku": ""}.items():
        (tmp_path / f"{name}.py").write_text("")
        about = tmp_path / f"{name}-{version}.dist-info"
        about.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (about / "METADATA").write_text(text)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    code = "for _ in range(2):\n    import optax, chex, haiku"
    done = run("-m", "ftrace.compat", "-c", code, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("has not been tried") == 1, done.stderr
    assert "optax 9.9.1 has not been tried" in done.stderr


def test_functions_of_shape_and_dtype_take_structs() -> None:
    struct = ft.ShapeDtypeStruct((2, 3), np.complex64)
    assert fnp.zeros_like(struct).shape == fnp.shape(struct) == (2, 3)
    assert fnp.full_like(struct, 2).dtype == fnp.result_type(struct, 1.0) == "complex64"
    assert (fnp.ndim(struct), fnp.size(struct)) == (2, 6)
    assert fnp.iscomplexobj(struct)
    assert fnp.iscomplexobj(fnp.complex64)
    assert not fnp.iscomplexobj(np.dtype("f4"))
    assert not fnp.iscomplexobj(None)


def test_segments_of_one_number_count_their_rows() -> None:
    sums = ft.ops.segment_sum(2, np.array([0, 2, 2]), 3)
    assert sums.tolist() == [2, 0, 4]
    assert ft.ops.segment_max(1.0, np.array([1]), 2).tolist() == [-np.inf, 1]


def test_known_indices_out_of_bounds_are_clipped_or_dropped_where_none_checks() -> None:
    x = fnp.arange(3)
    calls = {
        2: lambda x: x[5], 0: lambda x: x[-7],
        (2, 0): lambda x: x[np.array([9, -9])],
        (0, 1, 2): lambda x: x.at[5].set(9),
        (0, 1, 9): lambda x: x.at[np.array([2, 4])].set(9),
    }  # fmt: skip
    for expected, call in calls.items():
        with ft.config(check_static_indices=False):
            for run_it in (call, ft.jit(call)):
                assert np.array_equal(run_it(x), expected)
        with pytest.raises(IndexError):
            call(x)


FEATURES = """
from importlib.util import find_spec
for name in ("jax.nosuch", "jax.experimental.pallas", "jax.export"):
    assert find_spec(name) is None, name
assert find_spec("jax.numpy") is not None
import jax.experimental
for line, said in {
    "from jax import export": "never: programs here are graphs",
    "from jax.experimental import pallas as pl": "never: kernels are written",
    "from jax.lax import psend": "never: tokens",
    "from jax import no_such_name": "cannot import name",
}.items():
    try:
        exec(line)
        assert False, line
    except ImportError as error:
        assert said in str(error), error
assert not hasattr(jax, "export") and not hasattr(jax.experimental, "pallas")
"""


def test_what_is_missing_can_be_asked_for_and_is_told_to_imports(
    tmp_path: Path,
) -> None:
    script = tmp_path / "features.py"
    script.write_text(FEATURES)
    done = run("-m", "ftrace.compat", str(script))
    assert done.returncode == 0, done.stderr


def test_another_value_of_the_switch_is_an_error() -> None:
    done = run("-c", "import ftrace", FTRACE_AS_JAX="yes")
    assert done.returncode == 1
    assert "must be 1 or 0, got 'yes'" in done.stderr
