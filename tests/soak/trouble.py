"""What disturbs the threads: exceptions, Ctrl-C, forks, processes, a broken cache."""

from __future__ import annotations

import faulthandler
import inspect
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from tests.soak.work import Interrupted, Known, Record, Worker

#: Seconds that a fork or a process may take.
PATIENCE = 180


class Interruption:
    """An exception at the n-th place in the library where a signal could arrive.

    That is where a function begins and behind what is called of C: anywhere else, as
    at the line with which a `with` ends, no code can be safe. A generator begins also
    where it is thrown away, which is no such place.
    `PyThreadState_SetAsyncExc` may reach a thread that is only just started instead.
    """

    def __init__(self, places: int) -> None:
        self.left = places

    def __call__(self, frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & inspect.CO_GENERATOR:
            return
        if event not in ("call", "c_return") or "/ftrace/" not in code.co_filename:
            return
        self.left -= 1
        if self.left == 0:
            sys.setprofile(None)
            raise Interrupted


def interrupted(step: Callable[[], None], record: Record, random: Random) -> None:
    """A step during which an exception arrives somewhere in the library."""
    record.counts["exceptions sent"] += 1
    sys.setprofile(Interruption(int(10 ** random.uniform(0, 5.5))))
    try:
        step()
    except Interrupted:
        record.counts["exceptions arrived"] += 1
    finally:
        sys.setprofile(None)


def press_ctrl_c(record: Record, random: Random) -> None:
    while not record.stop.wait(random.uniform(0.2, 3)):
        record.counts["Ctrl-C sent"] += 1
        os.kill(os.getpid(), signal.SIGINT)


def fork_once(record: Record, known: list[Known], seed: int) -> None:
    """The child computes what is known and what is new, and ends."""
    child = os.fork()
    if child == 0:
        _be_a_child(known, seed)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            if os.waitstatus_to_exitcode(status) != 0:
                record.fault(f"a forked child ended with status {status}")
            record.counts["forks"] += 1
            return
        record.beat()
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    record.fault("a forked child hangs")


def _be_a_child(known: list[Known], seed: int) -> None:
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # The timer of faulthandler waits for a thread that the child has not.
        faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
        signal.alarm(PATIENCE // 2)
        record = Record()
        worker = Worker(record, known, seed)
        for step in (worker.again, worker.again, worker.shapes, worker.program):
            fault = step()
            if fault is not None:
                sys.stderr.write(f"in a forked child: {fault}\n")
                return
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


def run_processes(record: Record, random: Random, seconds: float = 20) -> None:
    """Other processes with the same disk cache; every second one is killed."""
    while not record.stop.is_set():
        seed = random.randrange(1 << 20)
        command = [sys.executable, "-m", "tests.soak", "--child", str(seed)]
        process = subprocess.Popen(command, env=dict(os.environ))
        try:
            if random.random() < 0.5:
                record.stop.wait(random.uniform(0.5, seconds))
                process.kill()
                process.wait()
                record.counts["processes killed"] += 1
                continue
            if process.wait(timeout=PATIENCE) != 0:
                record.fault(f"a process ended with {process.returncode}")
            record.counts["processes"] += 1
        except subprocess.TimeoutExpired:
            process.kill()
            record.fault("a process hangs")


def damage_cache(record: Record, folder: Path, random: Random) -> None:
    """Files that are cut, changed, removed, unreadable, or something else."""
    while not record.stop.wait(random.uniform(0.05, 0.5)):
        damage = random.choice((_cut, _change, _remove, _lock, _pipe, _close_folder))
        try:
            path = folder / random.choice(os.listdir(folder) or [""])
            if not path.is_file():
                continue
            damage(path, random)
            record.counts[f"cache: {damage.__name__[1:]}"] += 1
        except OSError:
            continue  # another process was there first


def _cut(path: Path, random: Random) -> None:
    path.chmod(0o600)
    os.truncate(path, random.randrange(path.stat().st_size + 1))


def _change(path: Path, random: Random) -> None:
    """Another file with some bytes changed: mapped code must stay as it is."""
    data = bytearray(path.read_bytes())
    for _ in range(8 if data else 0):
        data[random.randrange(len(data))] = random.randrange(256)
    other = path.with_suffix(".changed")
    other.write_bytes(data)
    other.chmod(0o600)
    other.replace(path)


def _remove(path: Path, random: Random) -> None:
    path.unlink()


def _lock(path: Path, random: Random) -> None:
    path.chmod(0)


def _pipe(path: Path, random: Random) -> None:
    path.unlink()
    os.mkfifo(path)


def _close_folder(path: Path, random: Random) -> None:
    mode = stat.S_IMODE(path.parent.stat().st_mode)
    path.parent.chmod(random.choice((0, 0o500)))
    time.sleep(random.uniform(0, 0.5))
    path.parent.chmod(mode)


def start(name: str, target: Any, *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    thread.start()
    return thread
