"""Start programs with chosen variables, and find and end all processes that they start.
No other module starts processes.

A process may leave its group and session, lose its parent or clear its environment, and
this program may be killed. It is found nevertheless: it has a mark that it cannot lose,
this program becomes the parent of orphans, and a watchdog outlives this program.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from fnmatch import translate
from functools import cache
from pathlib import Path
from typing import Any

from triage.model.execution import UNLIMITED
from triage.processes.sealing import Seal, call_restricted, is_sealing

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_ADDR_NO_RANDOMIZE = 0x0040000
PIPE = subprocess.PIPE
NULL = subprocess.DEVNULL
_KILL_SECONDS = 5.0  # seconds that killed processes have to disappear
# The number of a run has 19 digits, the most that the limit allows: a 4, 8 random
# digits for this program, and 10 digits to count with.
_FIRST_NUMBER = 4 * 10**18 + int.from_bytes(os.urandom(4)) % 10**8 * 10**10
_NUMBERS = itertools.count(_FIRST_NUMBER)
_START_LOCK = threading.Lock()

# The input of the watchdog ends when this program ends, however it ends. Then the
# watchdog kills all processes with the mark of a run. Some kernels hide the mark, so it
# also kills the groups of runs that had begun (`123`) and not ended (`123 ended`).
_WATCHDOG = """
groups=" "
while read -r group ended; do
  case $ended in
    "") groups="$groups$group " ;;
    *) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -KILL "-$group"; done
cd /proc || exit
for round in 1 2 3 4 5 6 7 8 9; do
  files=$(echo [0-9]*/limits | xargs grep -lsE "^Max realtime timeout +$1")
  [ -n "$files" ] || exit
  for file in $files; do kill -KILL "${file%%/*}"; done
  sleep 0.1
done
"""

# What a compile sees of its surroundings is the same everywhere.
COMPILE_PATH = "/usr/bin:/bin"
_COMPILE = {"PATH": COMPILE_PATH, "LANG": "C.UTF-8", "TZ": "UTC", "USER": "triage"}
# Names of variables, as shell patterns.
_USUAL = """
PATH HOME USER LOGNAME SHELL TMPDIR TZ TZDIR LANG LANGUAGE LC_* LOCALE_ARCHIVE
LD_LIBRARY_PATH DYLD_LIBRARY_PATH NIX_LD NIX_LD_LIBRARY_PATH
"""
_NETWORK = """
http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
"""
_INSTALL = "UV_* PIP_* NETRC XDG_* DBUS_SESSION_BUS_ADDRESS"
_BUILD = """
TRIAGE_HOME VIRTUAL_ENV CONDA_PREFIX JAVA_HOME CARGO_HOME RUSTUP_HOME
CC CXX CPP LD AR AS NM RANLIB STRIP OBJCOPY CUDACXX CUDAHOSTCXX HIPCXX
CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH
CMAKE_* CCACHE_* SCCACHE_DIR PKG_CONFIG* MAKEFLAGS NINJA_STATUS SOURCE_DATE_EPOCH
"""
_GIT = "XDG_CONFIG_HOME GIT_* SSH_*"
# If a git hook started this program, these variables would lead git to another
# repository.
_ANOTHER_REPOSITORY = """
GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_COMMON_DIR
GIT_NAMESPACE
"""


class Purpose(Enum):
    """Why a program is started. The value lists the variables that are passed on."""

    COMPILE = "NIX_LD"  # compilers, generators, importers, and questions to them
    INSTALL = _USUAL + _NETWORK + _INSTALL  # uv
    BUILD = _USUAL + _NETWORK + _BUILD  # the commands of a project file
    GIT = _USUAL + _NETWORK + _BUILD + _GIT


def environment(
    purpose: Purpose, variables: Mapping[str, str | None], folder: Path
) -> dict[str, str]:
    """Return the environment for a program. `variables` has further ones with their
    values; None stands for the value that this program has. `folder` is where a compile
    works, and its home.
    """
    wanted = re.compile("|".join(map(translate, purpose.value.split())))
    excluded = _ANOTHER_REPOSITORY.split()
    environ = {
        name: value
        for name, value in os.environ.items()
        if wanted.match(name) and name not in excluded
    }
    if purpose is Purpose.COMPILE:
        environ |= {**_COMPILE, "HOME": str(folder), "TMPDIR": str(folder)}
    return environ | _values(variables)


def assignments(variables: Mapping[str, str | None]) -> list[str]:
    """Return `NAME=value` for the variables that `environment` adds, sorted by
    name.
    """
    return [f"{name}={value}" for name, value in sorted(_values(variables).items())]


def _values(variables: Mapping[str, str | None]) -> dict[str, str]:
    values = {}
    for name, value in variables.items():
        text = os.environ.get(name) if value is None else value
        if text is not None:
            values[name] = text
    return values


class Contained:
    """All processes of one run: the leader, which this program starts, and its
    descendants.

    They are marked with the number of the run, which is set as a limit of real-time
    scheduling. Such a limit affects no compiler and is inherited, and a filter of
    system calls refuses to change it. As a subreaper, this program becomes the parent
    of marked processes whose parent ended, so that their ids are not reused.
    """

    def __init__(
        self,
        argv: Sequence[str],
        seal: Seal | None,
        largest_file: int,
        **options: Any,
    ) -> None:
        """Start the leader. `seal` limits what the run reads, writes and reaches;
        `largest_file` limits the bytes of each file that it writes; `options` are those
        of `Popen`.

        Raises OSError if the program cannot be started.
        """
        _become_subreaper()
        _start_watchdog()
        with _marking() as self._number:
            self.process: subprocess.Popen[bytes] = call_restricted(
                seal if is_sealing() else None,
                lambda: subprocess.Popen(argv, start_new_session=True, **options),
            )
        self.leader = self.process.pid
        _tell_watchdog(f"{self.leader}\n")
        if largest_file != UNLIMITED:
            with suppress(OSError, ValueError):  # it has ended, or has a lower limit
                resource.prlimit(
                    self.leader, resource.RLIMIT_FSIZE, (largest_file, largest_file)
                )

    def has_ended(self) -> bool:
        """Return whether the leader has ended. It stays a zombie, so that its process
        id is not reused.
        """
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.leader, options) is not None

    def resident_bytes(self) -> int:
        """Return the resident bytes of all processes."""
        pages = 0
        for pid in (self.leader, *self._descendants()[0]):
            sizes = _content(f"/proc/{pid}/statm").split()
            if sizes:
                pages += int(sizes[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def end(self, grace: float) -> None:
        """Send SIGTERM to all processes, then SIGKILL to what is left of them after
        `grace` seconds.
        """
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + grace
        while time.monotonic() < deadline and not self.has_ended():
            time.sleep(0.01)
        self._signal(signal.SIGKILL)

    def reap(self) -> tuple[int, resource.struct_rusage]:
        """Kill all processes, wait until they have disappeared, and return the exit
        code and the usage of the leader.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while self._signal(signal.SIGKILL) and time.monotonic() < deadline:
            time.sleep(0.001)
        # before another process can get its number
        _tell_watchdog(f"{self.leader} ended\n")
        _, status, usage = os.wait4(self.leader, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return self.process.returncode, usage

    def _signal(self, number: signal.Signals) -> bool:
        """Send a signal to the leader's group and to all other processes. Return
        whether there are others, or one has just ended, which may have started another.
        """
        with suppress(OSError):
            os.killpg(self.leader, number)
        others, has_reaped = self._descendants()
        for pid in others:
            with suppress(OSError):
                os.kill(pid, number)
        return bool(others) or has_reaped

    def _descendants(self) -> tuple[list[int], bool]:
        """Reap inherited processes that have ended. Return the living ones except the
        leader, and whether one was reaped.

        psutil would read all processes of the machine, which takes 45 times as long.
        This happens 20 times a second in each run.
        """
        orphans = [
            pid
            for pid in _children(os.getpid())
            if pid != self.leader and _is_marked(pid, self._number)
        ]
        living = [self.leader, *itertools.filterfalse(_reap_ended, orphans)]
        has_reaped = len(living) <= len(orphans)
        for pid in living:  # the list grows in this loop
            living += _children(pid)
        return list(dict.fromkeys(living))[1:], has_reaped


def _reap_ended(pid: int) -> bool:
    """Reap a child if it has ended. Return whether it has."""
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None
    return True


@contextmanager
def _marking() -> Iterator[int]:
    """Take a new number, and mark the processes that this program starts in this block
    with it.
    """
    number = next(_NUMBERS)
    with _START_LOCK:
        before = resource.getrlimit(resource.RLIMIT_RTTIME)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_RTTIME, (number, before[1]))
        try:
            yield number
        finally:
            resource.setrlimit(resource.RLIMIT_RTTIME, before)


def _is_marked(pid: int, number: int) -> bool:
    """Return whether a process has the mark of a run.

    Another thread may start a process that is not of a run, such as git, while the mark
    is set. That process is in the session of this program. Those of a run never are.
    """
    try:
        is_marked = resource.prlimit(pid, resource.RLIMIT_RTTIME)[0] == number
        return is_marked and (pid == os.getpid() or os.getsid(pid) != os.getsid(0))
    except (OSError, ValueError):
        return False


@cache
def _become_subreaper() -> None:
    """Become the parent of descendants whose parent ends.

    Also keep other processes from reading the environment and the memory of this
    program, which may have tokens, and keep crashes from writing core files.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1])
    )
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@cache
def _start_watchdog() -> subprocess.Popen[bytes]:
    """Start a process that outlives this program, even after `kill -9`, and then kills
    the processes of all runs.
    """
    # other processes can read its environment
    path = os.environ.get("PATH", os.defpath)
    argv = ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(_FIRST_NUMBER)[:9]]
    return subprocess.Popen(
        argv,
        stdin=PIPE,
        stdout=NULL,
        stderr=NULL,
        cwd="/",
        env={"PATH": path},
        start_new_session=True,
    )


def _tell_watchdog(line: str) -> None:
    pipe = _start_watchdog().stdin
    assert pipe
    with suppress(OSError):  # it was killed
        os.write(pipe.fileno(), line.encode())


def disable_address_randomisation() -> bool:
    """Disable address randomisation for the processes that this thread starts. Return
    whether the system allows that.

    A compiler that iterates over a hash table of pointers may otherwise behave
    differently from run to run.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    current = libc.personality(0xFFFFFFFF)
    return bool(current != -1 and libc.personality(current | _ADDR_NO_RANDOMIZE) != -1)


def _children(pid: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - three times as fast as `Path`
    except OSError:
        return []
    files = (f"/proc/{pid}/task/{task}/children" for task in tasks)
    return [int(child) for file in files for child in _content(file).split()]


def _content(path: str) -> bytes:
    """Return the content of a file in /proc. It is empty if the process or thread has
    ended.
    """
    with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - faster than `Path`
        return file.read()
    return b""
