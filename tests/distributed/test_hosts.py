r"""Processes on four hosts: network namespaces of this machine, with TCP between them.

h1 h2 h3 h4     each with a name and a network of its own, and no memory in common
  \ |  | /
  switch        a bridge; a cable is cut by setting its end down
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.distributed.test_processes import MPIRUN, ROOT, started

SCRIPT = Path(__file__).with_name("on_each_host.py")
HOSTS = [f"10.77.0.{i}" for i in range(1, 5)]
#: What mpirun calls instead of ssh: with the address of a host, and a command for it.
AGENT = """#!/bin/sh
host=$1; shift
exec ip netns exec {name}-$host unshare --uts sh -c "hostname host-${{host##*.}}; $*"
"""
#: Seconds that a process waits for the others.
TIMEOUT = 3


def ip(*words: str) -> str:
    done = subprocess.run(
        ["ip", *words], text=True, check=True, capture_output=True, timeout=20
    )
    return done.stdout


class Network:
    """Four hosts on a switch.

    Attributes:
      name: begins the names of the namespaces.
      agent: the path of the script.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.agent = name, folder / "agent"
        self.agent.write_text(AGENT.format(name=name))
        self.agent.chmod(0o755)

    def make(self) -> None:
        switch = f"{self.name}-switch"
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "name", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for i, host in enumerate(HOSTS):
            own, cable = f"{self.name}-{host}", f"cable{i}"
            ip("netns", "add", own)
            link = "type", "veth", "peer", "name", "eth0", "netns", own
            ip("-n", switch, "link", "add", "name", cable, *link)
            ip("-n", switch, "link", "set", cable, "master", "br0", "up")
            ip("-n", own, "addr", "add", f"{host}/24", "dev", "eth0")
            ip("-n", own, "link", "set", "eth0", "up")
            ip("-n", own, "link", "set", "lo", "up")

    def cut(self, host: int) -> None:
        ip("-n", f"{self.name}-switch", "link", "set", f"cable{host}", "down")

    def processes(self) -> dict[int, str]:
        """What runs on the hosts: by number the words of the command."""
        found: dict[int, str] = {}
        for host in HOSTS:
            for number in ip("netns", "pids", f"{self.name}-{host}").split():
                with suppress(OSError):
                    found[int(number)] = Path(f"/proc/{number}/cmdline").read_text()
        return found

    def remove(self) -> None:
        for host in [*HOSTS, "switch"]:
            own = f"{self.name}-{host}"
            subprocess.run(
                ["ip", "netns", "del", own], check=False, capture_output=True
            )

    def start(self, folder: Path, steps: int) -> subprocess.Popen[str]:
        """The script on all hosts."""
        command = [
            str(self.agent), HOSTS[0], "exec", str(MPIRUN), "-n", "4",
            "--allow-run-as-root", "--host", ",".join(HOSTS),
            "--prtemca", "plm_ssh_agent", str(self.agent),
            "--prtemca", "prte_if_include", "eth0", "--mca", "pml", "ob1",
            "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
            sys.executable, str(SCRIPT), str(folder), str(steps),
        ]  # fmt: skip
        places = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(places), "FTRACE_THREADS": "1",
            "FTRACE_DISTRIBUTED_TIMEOUT": f"{TIMEOUT}",
        }  # fmt: skip
        return subprocess.Popen(
            command, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("ip or unshare is missing")
    made = Network(f"ft{os.getpid()}", tmp_path)
    try:
        made.make()
    except subprocess.CalledProcessError as error:
        made.remove()
        pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
    yield made
    made.remove()


def wait_for(what: Any, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not what() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(what())


@started
@pytest.mark.thorough
def test_hosts_train_together(network: Network, tmp_path: Path) -> None:
    process = network.start(tmp_path, 5)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 0, text
    reports = [(tmp_path / f"{i}").read_text().split() for i in range(4)]
    assert [host for host, _ in reports] == [f"host-{i}" for i in range(1, 5)]
    assert len({bits for _, bits in reports}) == 1, "not the same bits everywhere"


@started
@pytest.mark.thorough
def test_a_cable_that_is_cut_ends_all(network: Network, tmp_path: Path) -> None:
    process = network.start(tmp_path, 1_000_000)
    try:
        begun = [tmp_path / f"began {i}" for i in range(4)]
        assert wait_for(lambda: all(b.exists() for b in begun), 60)
        network.cut(2)
        cut = time.time()
        reports = [tmp_path / f"{i}" for i in range(4)]
        done = wait_for(lambda: all(r.exists() for r in reports), 10 * TIMEOUT)
        texts = [r.read_text() if r.exists() else "" for r in reports]
        assert done, texts
        for text in texts:
            when, kind, *_ = text.split()
            assert kind == "ProcessError:", text
            assert float(when) - cut < TIMEOUT + 5, text

        def left() -> list[str]:
            words = network.processes().values()
            return [w for w in words if w.startswith(sys.executable)]

        assert wait_for(lambda: not left(), 10 * TIMEOUT), left()
    finally:
        # What started them hears of it when TCP gives up.
        for number in network.processes():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(number, signal.SIGKILL)
        process.communicate(timeout=20)
    assert process.returncode != 0
