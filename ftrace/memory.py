"""Kinds of memory: what a program computes with, and the host's. Here they are one."""

from enum import Enum


class Space(Enum):
    """Where an array lies; `device_put` to either leaves it where it is."""

    Device = "device"
    Host = "pinned_host"
