"""A sealed program reads and writes only what is named, and reaches no other process.
Effects are looked at from outside: an answer of success may be a lie.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes.test_containment import mark, starting  # noqa: F401 - a fixture
from tests.processes.test_process import processes_with
from triage.model.execution import Limits
from triage.processes import sealing
from triage.processes.process import run
from triage.processes.sealing import Seal, landlock_version

needs_seal = pytest.mark.skipif(
    not sealing.can_seal(), reason="this kernel or sandbox cannot seal"
)
pytestmark = pytest.mark.usefixtures("strictly_sealed")
ATTACKS = Path(__file__).with_name("attacks.py")
PYTHON = (Path(sys.base_prefix, "bin"), Path(sys.base_prefix, "lib"))
INTERPRETER = os.path.realpath(sys.executable)
# Attacks that answer "done" or nothing at all, and have no effect.
IGNORED = {"mode", "times", "owner", "attributes", "memory", "touch"} | {
    *("priority", "affinity", "scheduler")
}
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in ("private", "mode", "times", "attributes"):
        (folder / name).write_text("secret")
        (folder / name).chmod(0o644)
    os.utime(folder / "times", (10**9, 10**9))
    return folder


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def state_of(victim: Path, bystander: subprocess.Popen[bytes]) -> object:
    files = {
        path.name: (path.read_text(), path.stat().st_mode, path.stat().st_mtime)
        for path in sorted(victim.iterdir())
    }
    process = psutil.Process(bystander.pid)
    return (
        files,
        (victim / "mode").stat().st_uid,
        os.listxattr(victim / "attributes"),
        process.nice(),
        process.cpu_affinity(),
        process.rlimit(psutil.RLIMIT_NOFILE),
        os.getpriority(os.PRIO_PROCESS, 0),
        Path("/dev/shm/triage-attack").exists(),
    )


@needs_seal
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_no_attack_has_an_effect_outside(
    version: int,
    victim: Path,
    tmp_path: Path,
    bystander: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if version > landlock_version():
        pytest.skip(f"the kernel has Landlock {landlock_version()}")
    monkeypatch.setattr(sealing, "landlock_version", lambda: version)
    scratch, readable = tmp_path / "scratch", tmp_path / "readable"
    scratch.mkdir()
    readable.mkdir()
    program = shutil.copy(ATTACKS, readable)
    before = state_of(victim, bystander)

    argv = [INTERPRETER, str(program), str(victim), str(bystander.pid)]
    ran = run(argv, Limits(timeout=60), scratch, seal=Seal((readable, *PYTHON)))

    assert ran.ok, ran.stderr.text
    answers = json.loads(ran.stdout.text)
    succeeded = {
        name
        for name, answer in answers.items()
        if not re.search(r"Error|denied|cannot", answer)
    }
    if version < 6:
        succeeded.discard("signal")  # no right for it, and no filter: see `doctor`
    else:
        assert state_of(victim, bystander) == before
        assert bystander.poll() is None
    assert succeeded <= IGNORED, {name: answers[name] for name in succeeded}
    files, *_ = state_of(victim, bystander) if version >= 6 else before
    assert {path.name for path in victim.iterdir()} == set(files)
    assert (readable / "attacks.py").read_text() == ATTACKS.read_text()


@needs_seal
def test_what_is_named_can_be_used_and_a_home_of_its_own(tmp_path: Path) -> None:
    named, scratch = tmp_path / "named", tmp_path / "scratch"
    named.mkdir()
    scratch.mkdir()
    (named / "input").write_text("4")
    script = f"""cp {named}/input copy && mkdir -p a/b && mv copy a/b/c && cat a/b/c
    echo $((0x10)) > /dev/null && touch "$HOME/x" "$TMPDIR/y" && echo "$PATH" """
    ran = run(["sh", "-c", script], Limits(timeout=20), scratch, seal=Seal((named,)))
    assert ran.ok, ran.stderr.text
    assert ran.stdout.text == "4/usr/bin:/bin\n"
    assert (scratch / "a/b/c").read_text() == "4"
    assert {path.name for path in scratch.iterdir()} == {"a", "x", "y"}


ESCAPES = """
import ctypes, os, resource, time
for limits in ((1, 1), (1, resource.RLIM_INFINITY), (resource.RLIM_INFINITY,) * 2):
    try: resource.setrlimit(resource.RLIMIT_RTTIME, limits)
    except (ValueError, OSError): pass
os.write(7, b'x'); os.close(7); os.closerange(0, 3); time.sleep(300)
"""


@pytest.mark.parametrize("sealed", [True, False])
def test_a_process_cannot_clear_its_mark(
    sealed: bool,
    tmp_path: Path,
    mark: str,  # noqa: F811 - a fixture
) -> None:
    """It leaves its session and its parent, and changes the limit that is its mark."""
    argv = [INTERPRETER, *starting(ESCAPES, mark)[1:]]
    seal = Seal(PYTHON) if sealed else None
    ran = run(argv, Limits(timeout=60), tmp_path, seal=seal)
    assert ran.ok, ran.stderr.text
    assert not processes_with(mark)


def test_programs_run_unsealed_where_the_kernel_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "can_seal", lambda: False)
    secret = tmp_path / "secret"
    secret.write_text("4")
    (tmp_path / "scratch").mkdir()
    argv = ["cat", str(secret)]
    ran = run(argv, Limits(timeout=20), tmp_path / "scratch", seal=Seal(()))
    assert ran.stdout.text == "4"
    assert sealing.missing_seals()


# The filter, by an interpreter of its instructions.


def answer_of(code: bytes, mark_of_interface: int, number: int, *arguments: int) -> int:
    """Return what the kernel answers to a call under a filter."""
    data = struct.pack(
        "<IIQ6Q", number, mark_of_interface, 0, *arguments, *[0] * (6 - len(arguments))
    )
    lines = list(struct.iter_unpack("HBBI", code))
    place, value = 0, 0
    while True:
        opcode, then, otherwise, operand = lines[place]
        place += 1
        match opcode:
            case 0x20:
                [value] = struct.unpack_from("<I", data, operand)
            case 0x54:
                value &= operand
            case 0x05:
                place += operand
            case 0x15:
                place += then if value == operand else otherwise
            case 0x35:
                place += then if value >= operand else otherwise
            case 0x06:
                return operand
            case _:
                raise AssertionError(hex(opcode))


# openat with 0o1001 is written: Landlock decides.
ANSWERED = """\
socket 1 1 0: refused
socketpair 1 0o2000001 0: allowed
socketpair 1 2 0: refused
socketpair 2 1 0: refused
prlimit64 0 7 0 1: allowed
prlimit64 0 15 0 1: allowed
prlimit64 0 15 1 0: forbidden
prlimit64 0 15 0x100000000 0: forbidden
prlimit64 7 7 0 1: forbidden
setrlimit 15 1: forbidden
setrlimit 7 1: allowed
clone 0x01200011: allowed
clone 0x10000011: refused
clone3 1: unknown
setpriority 0 0 5: allowed
setpriority 2 0 5: forbidden
setpriority 0 1 5: ignored
fchmod 3 0o777: ignored
openat 3 1 0: allowed
openat 3 1 0o1000: refused
openat 3 1 0o1001: allowed
"""


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_each_rule_answers_its_call_and_no_other(machine: str) -> None:
    sections = ("mark", "sealed", "truncate")
    code = sealing.filter_code(sections, machine)
    newer, older, column = sealing.INTERFACES[machine]
    rules = [rule for name in sections for rule in sealing.call_rules(name)]
    numbers = {rule.call: rule.numbers[column] for rule in rules}
    names = {number: name for name, number in sealing.ANSWERS.items()}

    def answer(name: str, *arguments: int) -> str:
        return names[answer_of(code, newer, int(numbers[name]), *arguments)]

    for number in range(600):
        if str(number) not in numbers.values():
            assert names[answer_of(code, newer, number, 1, 1, 1, 1)] == "allowed"
    for line in ANSWERED.splitlines():
        call, wanted = line.split(": ")
        name, *words = call.split()
        assert answer(name, *(int(word, 0) for word in words)) == wanted, line
    assert answer_of(code, older, 1) == sealing.ANSWERS["refused"]
    assert answer_of(code, newer, 0x40000001) == sealing.ANSWERS["refused"]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_an_unsealed_32_bit_program_runs_and_keeps_its_mark(machine: str) -> None:
    code = sealing.filter_code(("mark",), machine)
    _, older, column = sealing.INTERFACES[machine]
    answers = sealing.ANSWERS
    assert answer_of(code, older, 4, 1) == answers["allowed"]
    for rule in sealing.call_rules("older"):
        resource_first = (15, 1) if rule.call == "setrlimit" else (0, 15, 1)
        number = int(rule.numbers[column])
        assert answer_of(code, older, number, *resource_first) == answers["forbidden"]
    assert answer_of(code, 0x1234, 4) == answers["refused"]


@pytest.mark.parametrize(("machine", "header"), HEADERS.items())
def test_the_numbers_are_those_of_the_kernel(machine: str, header: Path) -> None:
    if not header.is_file():
        pytest.skip("the kernel's headers are not installed")
    pattern = r"#define __NR(?:3264)?_(\w+) (\d+)"
    numbers = dict(re.findall(pattern, header.read_text()))
    _, _, column = sealing.INTERFACES[machine]
    compared = set()
    for section in ("mark", "sealed", "truncate"):
        for rule in sealing.call_rules(section):
            if rule.call in numbers:
                compared.add(rule.call)
                assert rule.numbers[column] == numbers[rule.call], rule.call
    assert len(compared) > 40
