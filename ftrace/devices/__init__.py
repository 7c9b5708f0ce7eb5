"""The devices by name. Each is loaded at its first use, with the driver it needs."""

from __future__ import annotations

from ftrace.devices.base import Device, register_device


def _cpu() -> Device:
    from ftrace.devices.llvm.device import CPU

    return CPU()


def _interpreter() -> Device:
    from ftrace.devices.interpreter import Interpreter

    return Interpreter()


def _opencl() -> Device:
    from ftrace.devices.opencl import OpenCL

    return OpenCL()


register_device("cpu", _cpu)
register_device("interpreter", _interpreter)
register_device("opencl", _opencl)
