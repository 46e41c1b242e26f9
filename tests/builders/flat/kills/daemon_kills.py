"""A flat table of a running daemon: the daemon, its driver or the driver's JVM is killed while the driver is
at a known step."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from handlers.failpoints import VARIABLE
from state.columns.paths import KeyPath
from streaming.driver import class_archive
from tests.builders.components.processes import children, command_line, group, maps_file
from tests.builders.daemon.held_steps import HeldSteps
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.running_daemon import RunningDaemon
from tests.builders.flat.configured_table import DEADLINE_S, ConfiguredTable
from tests.builders.flat.feeds import DirectoryFeed
from tests.builders.flat.file_forms import HOSTILE
from tests.builders.flat.kills.driver_kills import BATCH, SEAL, mixed, plain
from tests.builders.flat.kills.hostile_rows import HOSTILE_KEYS


VICTIMS: Final = ("daemon", "driver", "JVM")
RECURRING: Final = (*BATCH[2:], *SEAL[:4])
"""Steps that the events of a new hour lead to, whatever the columns are."""


@dataclass
class KilledDaemon(ConfiguredTable):
    """A table of a daemon whose driver is held at one step after the other; ``victim`` is what ``dies``
    kills."""

    victim: str = "daemon"
    _steps: HeldSteps = field(init=False)
    _daemon: RunningDaemon = field(init=False)

    def __post_init__(self) -> None:
        self.directory.mkdir(exist_ok=True)
        self._steps = HeldSteps(self.directory / "steps")
        self._daemon = RunningDaemon(self.directory, self.database, environment=self._steps.environment)

    def dies(self, failpoint: str, *, follow: bool = False) -> None:
        """Let a driver reach this step, kill the daemon there, and check the table.

        A JVM is killed at the beginning of the next call instead, because its driver continues, and the table
        must not change while it is checked. This driver may reach further steps before it needs its JVM. It
        is then held at the next one, as if its JVM had been killed there. A narrowing begins with a command,
        which is killed whatever the victim is.
        """
        assert not follow
        if self.narrows:
            self._kill_narrowing(failpoint)
            self.check()
            return
        if self.victim == "JVM" and self.is_running:
            for machine in machines_of(self.driver):
                os.kill(machine, signal.SIGKILL)
        self.reach(failpoint)
        if self.victim == "daemon":
            self.kill("daemon")
        self.check()

    def reach(self, failpoint: str) -> None:
        """Let the daemon run, which may have to be started, until a driver waits at this step."""
        step, _, count = failpoint.partition(":")
        self._steps.arm([step])
        self._release()
        if not self.is_running:
            self.configure()
            self._daemon.start()
        for left in reversed(range(int(count or 1))):
            wait_for(lambda: self._steps.held() == [step] or not self.is_running)
            assert self.is_running, (self.directory / "daemon.log").read_text()[-4_000:]
            if left:
                self._steps.arm([step])
                self._steps.release(step)
        archive = os.environ.get(class_archive.VARIABLE)
        if archive and self.victim != "JVM":  # which may be ending now
            (machine,) = machines_of(self.driver)
            assert maps_file(machine, archive), "the driver does not use the class archive"

    def _kill_narrowing(self, failpoint: str) -> None:
        """Run the command that narrows a column until it is killed at this step."""
        assert not self.is_running
        key = str(KeyPath((self.narrows,)))
        done = subprocess.run(
            self.command("narrow", key),
            env={**os.environ, VARIABLE: failpoint},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == -signal.SIGKILL, done.stdout[-2_000:] + done.stderr[-4_000:]

    def kill(self, victim: str, *, while_held: bool = True) -> None:
        """Kill the victim while the driver is held, or just after it was released.
        Wait until the driver and its JVM have ended.

        Nothing else ends an orphaned driver, so that it ends shows that it has noticed.
        """
        driver = self.driver
        (pid,) = {"daemon": [self._pid], "driver": [driver], "JVM": machines_of(driver)}[victim]
        if not while_held:
            self._release()
        os.kill(pid, signal.SIGKILL)
        if victim == "JVM":
            self._release()
        elif victim == "daemon":
            self._daemon.end(signal.SIGKILL)
        wait_for(lambda: not group(driver))
        self._release()

    def ends_well(self) -> None:
        """Kill the daemon if it runs, then process what is left and check that every event is in the table
        once."""
        if self.is_running:
            self.kill("daemon", while_held=False)
        log = self.directory / "daemon.log"
        if log.exists():  # not before the first daemon
            trace = log.read_text().partition("Traceback")
            assert not trace[1], (
                f"a killed process is one error: {trace[0][-2_000:]} Traceback {trace[2][:4_000]}"
            )
        super().ends_well()

    def stop(self) -> None:
        """Kill the daemon if it runs; its driver ends with it."""
        if self.is_running:
            self._daemon.kill()

    @property
    def is_running(self) -> bool:
        """Whether the daemon runs."""
        return self._daemon.process is not None and self._daemon.process.poll() is None

    @property
    def driver(self) -> int:
        """The process of the daemon's driver."""
        (pid,) = [pid for pid in children(self._pid) if "split run" in command_line(pid)]
        return pid

    @property
    def _pid(self) -> int:
        assert self._daemon.process is not None
        return self._daemon.process.pid

    def _release(self) -> None:
        for step in self._steps.held():
            self._steps.release(step)


def wait_for(condition: Callable[[], object]) -> None:
    """Wait for a process that takes seconds; looking at every process of the machine more often would slow it
    down."""
    eventually(condition, DEADLINE_S, pause_s=0.05)


def machines_of(driver: int) -> list[int]:
    """Return the process of a driver's JVM; none if it has been killed."""
    return [pid for pid in children(driver) if "java" in command_line(pid)]


def survive_random_kills(table: KilledDaemon, random: Random, rounds: int) -> list[tuple[str, str]]:
    """Send events, let the driver reach a random step,
    and kill a random victim there or just after; return steps and victims.

    The values of ``n`` are sometimes texts, so that columns become wider and hours are rewritten in between.
    The events are accompanied by hostile records, and the files of a directory have hostile forms.
    """
    table.hostile = True
    table.keys = [*table.keys, *HOSTILE_KEYS]
    if isinstance(table.source, DirectoryFeed):
        table.source.forms = HOSTILE
    done: list[tuple[str, str]] = []
    victims = draw_victims(random, rounds - 1)
    step = ""
    for hour in range(rounds):
        table.land(range(hour, hour + 1), random.choice([plain, plain, mixed]))
        if step:
            victim = victims.pop(0)
            table.kill(victim, while_held=random.choice([True, False]))
            done.append((step, victim))
        step = random.choice(RECURRING)
        table.reach(step)
    table.ends_well()
    return done


def draw_victims(random: Random, count: int) -> list[str]:
    """Return random victims; all kinds are among the first ones."""
    return [*random.sample(VICTIMS, len(VICTIMS)), *random.choices(VICTIMS, k=count - len(VICTIMS))]
