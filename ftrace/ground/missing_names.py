"""JAX's names that are not there: what is said of them, and where it is known.

    lax.psend         AttributeError: JAX's lax.psend: never: why; use …
    jax.export        AttributeError: JAX's jax.export: never: why; use …
    lax.no_such_name  AttributeError: module 'ftrace.lax' has no attribute …

`jax_names.txt` lists the public names of JAX; `REASONS` says why some are missing, and
what to use. It is looked at when a name has not been found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from opcode import opmap
from types import FrameType
from typing import Any, Final

from ftrace.errors import MissingNameError

NEVER, NOT_YET = "never", "not yet"

#: After the first line, each module of JAX and its names.
_NAMES_FILE = os.path.join(os.path.dirname(__file__), "jax_names.txt")

_ONE_LOWERING = "programs here are graphs of ftrace, not StableHLO"
_OWN_RULES = "programs over a mesh are divided by rules of ftrace's"

#: (status, reason, what to use) -> the names, by module; `*` is all of a module.
REASONS: Final[dict[tuple[str, str, str], str]] = {
    (NEVER, "effects keep the order of the program by themselves", "no token"): (
        "lax.create_token lax.after_all lax.create_token_p lax.after_all_p"
    ),
    (NEVER, "tokens and channels between devices belong to XLA", ""): (
        "lax.psend lax.precv"
    ),
    (NEVER, _ONE_LOWERING, "ftrace.save and ftrace.load"): """
        export.* export experimental.serialize_executable.*""",
    (NEVER, "kernels are written by the lowering", "functions under jit"): """
        experimental.pallas.* experimental.mosaic.*""",
    (NEVER, "it is about XLA and its compiler", "jit(f).lower(x).cost_analysis()"): """
        experimental.xla_metadata.* experimental.roofline.* experimental.topologies.*
        experimental.compute_on.* experimental.EArray experimental.shard_alike.*
        experimental.colocated_python.* experimental.fused.* experimental.transfer.*
        experimental.scheduling_groups.* experimental.source_mapper.*
        interpreters.pxla.* cloud_tpu_init.* extend.mlir.*""",
    (NOT_YET, "arrays of several processes on disk", "ftrace.save and ftrace.load"): (
        "experimental.array_serialization.*"
    ),
    (NEVER, _ONE_LOWERING, "primitives of your own: docs/primitives_own.md"): "ffi",
    (NEVER, _ONE_LOWERING, "jit(f).lower(x).as_text()"): "interpreters.mlir.*",
    (NEVER, _OWN_RULES, "lax.with_sharding_constraint"): """
        experimental.custom_partitioning.* lax.sharding_constraint_p""",
    (NEVER, _OWN_RULES, "typeof(x).mat"): "sharding.ManualAxisType",
    (NOT_YET, "of what processes do together", "process_allgather"): (
        "experimental.multihost_utils.*"
    ),
    (NEVER, "it is no primitive: gathers and a scatter", "lax.ragged_all_to_all"): (
        "lax.ragged_all_to_all_p"
    ),
    (NEVER, "it is of Pallas and its references", "x.at[i] and lax.dynamic_slice"): (
        "ds"
    ),
    (NEVER, "buffers of XLA's runtime", "pure_callback"): (
        "experimental.buffer_callback.*"
    ),
    (NEVER, "there are no effects among the types of a graph", "debug.callback"): (
        "debug.DebugEffect debug.OrderedDebugEffect"
    ),
    (NEVER, "compositions here, not primitives", "the function of the same name"): """
        lax.*_p lax.linalg.*_p extend.core.primitives.*_p random.random_gamma_p
        custom_derivatives.remat_opt_p experimental.sparse.*_p
        extend.random.threefry2x32_p""",
    (NEVER, "keys are not watched for being used twice", ""): (
        "errors.KeyReuseError experimental.key_reuse.*"
    ),
    (NEVER, "Taylor coefficients come from the graph", "jet of the function"): """
        experimental.jet.def_deriv experimental.jet.defzero
        experimental.jet.deflinear experimental.jet.jet_rules""",
    (NEVER, "versions of jaxlib and its insides", ""): """
        lib extend.backend.* interpreters.xla.Backend
        make_user_context""",
    (NEVER, "it is of JAX's own tracing", "make_jaxpr and primitives of your own"): """
        extend.core.AbstractToken extend.core.InconclusiveDimensionOperation
        extend.core.Token extend.core.TraceTag extend.core.array_types
        extend.core.call_impl extend.core.no_effects
        extend.core.nonempty_axis_env_DO_NOT_USE extend.core.set_current_trace
        extend.core.take_current_trace extend.core.unsafe_get_axis_names_DO_NOT_USE
        interpreters.ad.JVPTrace
        interpreters.ad.linearize interpreters.partial_eval.*""",
    (NEVER, "values in a graph are arrays and keys", "register_pytree_node"): (
        "experimental.hijax.*"
    ),
    (
        NEVER,
        "lanes are made of a graph that was traced, in which objects are gone",
        "register_pytree_node, for what is made of arrays",
    ): """
        interpreters.batching.register_vmappable
        interpreters.batching.unregister_vmappable""",
    (NEVER, "profiles are files, and nobody serves them", "profiler.trace"): """
        profiler.register_subprocess profiler.start_server profiler.stop_server""",
    (NEVER, "the generators are those of dtypes.KEYS", "their names"): (
        "extend.random.define_prng_impl"
    ),
}


def lines_of_names() -> list[str]:
    """The file of the names; its first line says of which release."""
    with open(_NAMES_FILE, encoding="utf-8") as file:
        return file.read().splitlines()


@cache
def names_of_jax() -> dict[str, tuple[str, ...]]:
    """The public names of each module of JAX, without the "jax." before them."""
    found: dict[str, list[str]] = {}
    module = ""
    for line in lines_of_names()[1:]:
        if line.endswith(":"):
            module = line[:-1].removeprefix("jax").removeprefix(".")
            found[module] = []
        else:
            found[module] += line.split()
    return {module: tuple(names) for module, names in found.items()}


@cache
def _reasons() -> dict[str, tuple[str, str, str]]:
    return {name: why for why, names in REASONS.items() for name in names.split()}


def reason_of(name: str) -> tuple[str, str, str]:
    """(status, reason, what to use) of a name of JAX's that is missing: "lax.foo"."""
    known, module = _reasons(), name.rpartition(".")[0]
    wild = [f"{module}.*_p"] if name.endswith("_p") else []
    for key in (name, *wild, f"{module}.*", f"{name}.*"):
        if key in known:
            return known[key]
    return NOT_YET, "", ""


def explain(name: str) -> str:
    """What is said of a name of JAX's that is missing: "lax.foo"."""
    status, reason, instead = reason_of(name)
    told = "never" if status == NEVER else "not there yet"
    parts = [f"{told}: {reason}" if reason else told, instead and f"use {instead}"]
    shown = name if "." in name else f"jax.{name}"
    return f"JAX's {shown}: {'; '.join(filter(None, parts))}"


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # what is around it is no package
        return False


def no_attribute(module: str, name: str) -> Exception:
    """What is raised where a module of ftrace has no such name.

    An AttributeError: of a `from … import` Python would tell its own text alone, so
    that is told by an ImportError. The caller is the `__getattr__` of the module, so
    that the frame above it is the user's.
    """
    inside = module.removeprefix("ftrace.compat.jax").removeprefix("ftrace")
    inside = inside.removeprefix(".")
    whole = f"{inside}.{name}" if inside else name
    own = name.startswith("__") or _is_module(f"{module}.{name}")
    wild = f"{inside}.*_p" if name.endswith("_p") else whole
    named = {whole, wild, f"{whole}.*"} & _reasons().keys()
    known = name in names_of_jax().get(inside, ()) or named
    if known and not own:
        text = explain(whole)
        if _from_import(sys._getframe(2)):  # pyright: ignore[reportPrivateUsage]
            return MissingNameError(text)
    else:
        shown = module.replace("ftrace.compat.jax", "jax")
        text = f"module {shown!r} has no attribute {name!r}"
    return AttributeError(text, name=name, obj=sys.modules.get(module))


def _from_import(frame: FrameType) -> bool:
    """Does it run a `from … import`, after all else has been tried?"""
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]


#: Module -> name, or `*_p` -> what gives that: see `offer`.
_offered: dict[str, dict[str, Callable[[str], Any]]] = {}


def offer(module: str, names: Iterable[str], give: Callable[[str], Any]) -> None:
    """Names that a module has, and whose values are made on a floor above it.

    Args:
      module: one that tells what it misses: see `tell_missing`.
      names: `*_p` stands for all that end so.
      give: the value of a name, when it is asked for; None if there is none.
    """
    _offered.setdefault(module, {}).update(dict.fromkeys(names, give))


def tell_missing(module: str, later: Iterable[str] = ()) -> Callable[[str], Any]:
    """Gives a module a `__getattr__` that says of missing names what is known.

    Its `dir` is what is public: what `__all__` names, or else what has no underscore
    and is of ours, or of that name in JAX.

    Args:
      later: names that the module loads when they are looked for.
    """
    own = vars(sys.modules[module])
    inside = module.removeprefix("ftrace.")

    def is_public(name: str) -> bool:
        value, known = own[name], names_of_jax()
        if isinstance(value, type(sys)):
            return f"{inside}.{name}" in known
        home = getattr(value, "__module__", None) or "ftrace"
        ours = home.startswith("ftrace") and not home.startswith("ftrace.ground.")
        return ours or name in known.get(inside, ())

    def public() -> list[str]:
        named = own.get("__all__") or [n for n in own if n[0] != "_" and is_public(n)]
        offered = _offered.get(module, {}).keys() - {"*_p"}
        return sorted({*named, *later, *offered})

    def missing(name: str) -> Any:
        offered = _offered.get(module, {})
        give = offered.get(name) or offered.get("*_p" if name.endswith("_p") else "")
        found = None if give is None else give(name)
        if found is None:
            raise no_attribute(module, name)
        return found

    own.setdefault("__getattr__", missing)
    own.setdefault("__dir__", public)
    return missing
