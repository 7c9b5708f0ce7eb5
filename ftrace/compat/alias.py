"""`import jax` is ftrace: a finder of modules that goes before all others.

    jax.a.b  ->  the module in HOMES, where there is a row
             ->  ftrace.compat.jax.a.b, where there is such a file
             ->  what `private.MODULES` makes, for JAX's private modules
             ->  ftrace.a.b

The module that is found is the very one: `jax.numpy is ftrace.numpy`. Only what differs
from ftrace's own (`jax` itself, `jax.core`, …) has a file in `compat/jax/`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from ftrace.compat import private
from ftrace.errors import AliasError, warn_user
from ftrace.ground import settings
from ftrace.ground.missing_names import tell_missing

#: The packages whose names are served, and where what is their own lies.
PACKAGES = ("jax", "jaxlib")
OWN = __name__.rpartition(".")[0]

#: Modules whose names all stand in one that has another place.
HOMES = {
    "autograd.extend": f"{OWN}.autograd.core",
    "autograd.tracer": f"{OWN}.autograd.core",
    "autograd.util": f"{OWN}.autograd.wrap_util",
    "jax.ad": "ftrace.transforms.tangents",
    "jax.api_util": f"{OWN}.linear_util",
    "jax.extend.linear_util": f"{OWN}.linear_util",
    "jax.extend.source_info_util": f"{OWN}.private",
    "jax.interpreters.xla": f"{OWN}.jax.interpreters.mlir",
    "jax.lib": f"{OWN}.jaxlib",
    "jaxlib.version": f"{OWN}.jax.version",
    "jaxlib.xla_client": "ftrace.backends.base",
}

#: Libraries, and the versions whose own tests were run on ftrace: see tests/foreign.
TRIED = {
    "blackjax": "1.7", "chex": "0.1", "diffrax": "0.7", "distrax": "0.1",
    "einops": "0.8", "equinox": "0.13", "flax": "0.12", "haiku": "0.0",
    "jaxopt": "0.8", "jaxtyping": "0.3", "jraph": "0.0", "lineax": "0.1",
    "numpyro": "0.22", "optax": "0.2", "optimistix": "0.1",
}  # fmt: skip


def install_as_jax() -> None:
    """From now on `import jax` is ftrace in this process, in all its public modules.

    JAX's dtype mode is switched on: 64-bit inputs are narrowed unless
    `jax_enable_x64` is set, here or by the environment variable JAX_ENABLE_X64. The
    number of the host's devices in XLA_FLAGS is read when these are first used. Call it
    before anything imports jax; calling it again changes nothing. `python -m
    ftrace.compat script.py` does so for a script, and `import ftrace` does where the
    environment variable FTRACE_AS_JAX is 1.

    Raises:
      AliasError: another jax has been imported in this process already.
    """
    if not _install("install_as_jax", PACKAGES):
        return
    settings.config.update("check_static_indices", False)
    settings.reads_xla_flags = True
    if settings.current().enable_x64 is None:
        asked = os.environ.get("JAX_ENABLE_X64", "0").lower()
        settings.config.update("enable_x64", asked in ("1", "true", "yes", "on", "y"))


def install_as_autograd() -> None:
    """From now on `import autograd` is `ftrace.compat.autograd` in this process.

    Call it before anything imports autograd; calling it again changes nothing.

    Raises:
      AliasError: autograd itself has been imported in this process already.
    """
    _install("install_as_autograd", ("autograd",))


def _install(name: str, packages: tuple[str, ...]) -> bool:
    """Puts a finder of the packages before all others, if there is none yet."""
    finders = [f for f in sys.meta_path if isinstance(f, _Finder)]
    if any(finder.packages == packages for finder in finders):
        return False
    for package in packages:
        if (found := sys.modules.get(package)) is not None:
            raise AliasError(
                f"{name} must come before the first import of {package}: this "
                f"process has imported {getattr(found, '__file__', None) or found}. "
                "Call it at the top of the program, or run it by `python -m "
                "ftrace.compat script.py`"
            )
    sys.meta_path.insert(0, _Finder(packages))
    return True


class _Finder(MetaPathFinder):
    """Finds `jax`, or another package, and all that is in it."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            if fullname in TRIED and self.packages == PACKAGES:
                _note_version(fullname)
            return None
        if fullname in private.MODULES:
            return ModuleSpec(fullname, _Loader(None), is_package=True)
        home = home_of(fullname)
        if home is None and _is_imported(sys._getframe(2)):  # pyright: ignore[reportPrivateUsage]
            raise ModuleNotFoundError(private.missing(fullname), name=fullname)
        if home is None:
            return None
        return ModuleSpec(fullname, _Loader(home))

    def find_distributions(self, context: Any) -> list[Distribution]:
        """`importlib.metadata.version("jax")` is that of the names that are served."""
        served = {"jax", "jaxlib"}.intersection(self.packages)
        return [_Served(n) for n in sorted(served) if context.name in (n, None)]


def _is_imported(frame: FrameType) -> bool:
    """Does an `import` ask for a spec? `find_spec` of others wants to hear None."""
    return frame.f_code.co_name == "_find_and_load_unlocked"


class _Served(Distribution):
    """What `importlib.metadata` knows of a package that is served: its version."""

    def __init__(self, package: str) -> None:
        self.package = package

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        number = import_module(f"{OWN}.jax.version").__version__
        return f"Metadata-Version: 2.1\nName: {self.package}\nVersion: {number}\n"

    def locate_file(self, path: Any) -> Path:
        return Path(__file__).with_name(self.package) / path


def _note_version(library: str) -> None:
    """Says so where a library is of a version that was not tried."""
    try:
        found = version("dm-haiku" if library == "haiku" else library)
    except PackageNotFoundError:  # a checkout
        return
    tried = TRIED[library]
    if found.split(".")[:2] != tried.split("."):
        warn_user(
            f"{library} {found} has not been tried on ftrace in the place of jax, "
            f"{tried} has: it may ask for names that are not there"
        )


def home_of(name: str) -> str | None:
    """The module of ftrace that a module of JAX's is."""
    if name in HOMES:
        return HOMES[name]
    homes = [f"{OWN}.{name}"]
    if name.startswith("jax."):
        homes.append(f"ftrace.{name.removeprefix('jax.')}")
    for home in homes:
        try:
            if find_spec(home) is not None:
                return home
        except ModuleNotFoundError:  # what is around it is no package
            pass
    return None


class _Loader(Loader):
    """Puts the module that is at home elsewhere in the place of a new one."""

    def __init__(self, home: str | None) -> None:
        self.home = home

    def exec_module(self, module: ModuleType) -> None:
        if self.home is None:
            private.fill(module)
        else:
            sys.modules[module.__name__] = import_module(self.home)
            tell_missing(self.home)
