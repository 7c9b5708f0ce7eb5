"""Ctrl-C at each place where Python can deliver it: behind calls, jumps and entries."""

from __future__ import annotations

import _thread
import dis
import signal
import sys
from types import CodeType, FrameType
from typing import Any

import ftrace as ft
from tests.faults.children import forget, program, run

#: Python looks for signals at the end of these, or where what they call begins.
STEPS = ("CALL", "BEFORE_WITH", "JUMP_BACKWARD", "WITH_EXCEPT_START")
Place = tuple[CodeType, int]


class _Switch(int):
    """A signal that reading `fire` sends, without a call in the code that reads."""

    fire = property(_thread.interrupt_main)


SIGINT = _Switch(signal.SIGINT)


def _is_ours(code: CodeType) -> bool:
    return "/ftrace/" in code.co_filename and "/tests/" not in code.co_filename


def places() -> list[Place]:
    """Where it can come, in the order in which the program gets there."""
    found: dict[Place, None] = {}
    left: dict[CodeType, set[int]] = {}  # where it has not been

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode" and frame.f_lasti in left[frame.f_code]:
            left[frame.f_code].remove(frame.f_lasti)
            found[frame.f_code, frame.f_lasti] = None
        return local

    def enter(frame: FrameType, *_: Any) -> Any:
        code = frame.f_code
        if not _is_ours(code):
            return None
        if code not in left:
            steps = dis.get_instructions(code)
            left[code] = {s.offset for s in steps if s.opname.startswith(STEPS)}
        if not left[code]:
            return None
        frame.f_trace_opcodes = True
        return local

    forget()
    sys.settrace(enter)
    try:
        with ft.config(cache_size=0, threads=1):
            program(1.5)
    finally:
        sys.settrace(None)
    return list(found)


def interrupt(place: Place) -> list[str]:
    """What is wrong after Ctrl-C at a place."""
    code, offset = place
    fired = False

    def local(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal fired
        if event == "opcode" and frame.f_lasti == offset and not fired:
            fired = True
            frame.f_trace_opcodes = False
            frame.f_trace = None
            sys.settrace(None)  # what follows is as fast as ever
            SIGINT.fire
            return None
        return local

    def enter(frame: FrameType, *_: Any) -> Any:
        if frame.f_code is not code or fired:
            return None
        frame.f_trace_opcodes = True
        return local

    def fault() -> list[str]:
        arrived = False
        forget()
        try:
            sys.settrace(enter)
            with ft.config(cache_size=0, threads=1):
                program(1.5)
        except KeyboardInterrupt:
            arrived = True
        finally:
            sys.settrace(None)
        return ["it vanished"] if fired and not arrived else []

    wrong = run(fault)
    name = f"{code.co_filename}:{code.co_firstlineno} {code.co_name} +{offset}"
    return [f"{name}: {one}" for one in wrong]
