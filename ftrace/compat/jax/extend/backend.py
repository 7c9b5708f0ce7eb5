"""`jax.extend.backend`: the devices as clients; here a device is its own client."""

from __future__ import annotations

from ftrace.backends.base import Device, get_device


def get_backend(platform: str | Device | None = None) -> Device:
    """The client of a platform; the default one for None."""
    return get_device(platform).client


def get_default_device() -> Device:
    """The device on which arrays are made that are told none."""
    return get_device()


def backends() -> dict[str, Device]:
    """The clients, by the platforms that they serve."""
    client = get_backend()
    return {client.platform: client}


def backend_xla_version(platform: str | None = None) -> None:
    """None: no XLA is asked."""
