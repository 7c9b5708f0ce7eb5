"""Settings as contexts, by JAX's names: `with ft.debug_nans(True): …`.

Each is an object with the setting's `value` and `name`; called, it is a block, or a
decorator, in which the setting has another value: True where none is given.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ftrace.errors import ArgumentError
from ftrace.ground.missing_names import no_attribute
from ftrace.ground.settings import CONTEXTS, config
from ftrace.trace.flatten_arguments import NOT_GIVEN
from ftrace.trace.tracing.scopes import outside_scopes


class Setting:
    """A setting: its value, and the block in which it is another one."""

    def __init__(self, name: str) -> None:
        self.name = f"jax_{name}"
        self.__doc__ = f"A block in which the setting `{self.name}` has another value."

    def __call__(self, new_val: Any = NOT_GIVEN) -> AbstractContextManager[Any]:
        yes_or_no = isinstance(self.value, bool) or self.name == "jax_enable_x64"
        if new_val is NOT_GIVEN and not yes_or_no:
            raise ArgumentError(f"{self.name} is a block: it takes the value in it")
        return config(**{self.name: True if new_val is NOT_GIVEN else new_val})

    @property
    def value(self) -> Any:
        """The value in force for this thread."""
        return config.read(self.name)

    def __bool__(self) -> bool:
        raise ArgumentError(f"{self.name} is a setting; its value is {self.name}.value")

    def __repr__(self) -> str:
        return f"<the setting {self.name}={self.value!r}>"


def checking_leaks() -> AbstractContextManager[Any]:
    """A block in which traced values that outlive their function are an error."""
    return config(check_tracer_leaks=True)


def ensure_compile_time_eval() -> AbstractContextManager[None]:
    """A block in a traced function in which what is known is computed at once."""
    return outside_scopes()


def __getattr__(name: str) -> Setting:
    if name not in CONTEXTS:
        raise no_attribute(__name__, name)
    found = globals()[name] = Setting(name)
    return found
