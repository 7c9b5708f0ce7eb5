"""`jaxlib.xla_client`: of XLA's client the class of devices, for annotations."""

from ftrace.backends.base import Device as Device
