"""What is said where a name of JAX's is asked for that is not there."""

from __future__ import annotations

from importlib import import_module

import pytest

import ftrace as ft
from ftrace import lax
from ftrace.ground.missing_names import NEVER, REASONS, explain, names_of_jax

NAMES = {
    f"{module}.{name}" if module else name
    for module, names in names_of_jax().items()
    for name in names
}


def test_a_name_of_jax_that_is_missing_says_why_and_what_to_use() -> None:
    with pytest.raises(
        AttributeError, match=r"JAX's jax\.export: never: .*; use ftrace"
    ):
        _ = ft.export
    with pytest.raises(AttributeError, match=r"JAX's lax\.psend: never: tokens"):
        _ = lax.psend
    with pytest.raises(AttributeError, match=r"ftrace\.lax' has no attribute 'nosuch"):
        _ = lax.nosuch
    assert explain("nn.soon") == "JAX's nn.soon: not there yet"
    assert explain("lax.some_p").startswith("JAX's lax.some_p: never: compositions")


def test_every_public_namespace_tells() -> None:
    for module, names in names_of_jax().items():
        try:
            found = import_module(f"ftrace.{module}" if module else "ftrace")
        except ImportError:
            continue
        missing = f"{found.__name__}' has no attribute 'nosuch"
        with pytest.raises(AttributeError, match=missing):
            _ = found.nosuch
        for name in names:
            if not hasattr(found, name):
                with pytest.raises(AttributeError, match=r"JAX's .*: (never|not t)"):
                    getattr(found, name)


#: What JAX's pages do not list, and programs import.
UNDOCUMENTED = {
    "cloud_tpu_init.*", "experimental.EArray", "extend.mlir.*", "interpreters.pxla.*",
    *[
        f"experimental.jet.{name}"
        for name in ("def_deriv", "deflinear", "defzero", "jet_rules")
    ],
    *[
        f"experimental.{name}.*"
        for name in (
            "array_serialization", "colocated_python", "compute_on", "fused",
            "key_reuse", "mosaic", "pallas", "roofline", "scheduling_groups",
            "serialize_executable", "shard_alike", "source_mapper", "topologies",
            "transfer", "xla_metadata",
        )
    ],
}  # fmt: skip


def test_reasons_are_of_names_that_jax_has() -> None:
    modules = {f"{module}.*" for module in names_of_jax()} | UNDOCUMENTED
    for (status, reason, _), names in REASONS.items():
        assert reason or status != NEVER
        for name in names.split():
            assert name in NAMES | modules or name.endswith(".*_p"), name


def test_the_dir_of_a_module_is_what_is_public() -> None:
    for module in (ft.nn.initializers, ft.scipy.special, ft.numpy.linalg, ft.tree):
        assert dir(module) == sorted(module.__all__)
    assert not {"Any", "TYPE_CHECKING", "import_module"} & {*dir(ft)}
