"""A sealed program reads and writes only what is named, and reaches no other process.
Effects are looked at from outside: an answer of success may be a lie.
"""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path

import psutil
import pytest

from tests.processes.conftest import INTERPRETER, attack_code, ran, starting, state_of
from tests.programs import processes_with
from triage.processes import sealing
from triage.processes.sealing import Seal, landlock_version

needs_seal = pytest.mark.skipif(
    not sealing.can_seal(), reason="this kernel or sandbox cannot seal"
)
pytestmark = pytest.mark.usefixtures("strictly_sealed")
PYTHON = (Path(sys.base_prefix, "bin"), Path(sys.base_prefix, "lib"))
# Attacks that may answer with success, and have no effect.
IGNORED = """\
chmod 777 VICTIM/mode
touch -d @0 VICTIM/times
chown 12345:12345 VICTIM/mode
touch VICTIM/touched
mode
owner
attributes
program in memory
priority
affinity
scheduler""".splitlines()
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
each_machine = pytest.mark.parametrize("machine", HEADERS)


@needs_seal
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_no_attack_has_an_effect_outside(
    version: int,
    victim: Path,
    bystander: psutil.Popen,
    tmp_path: Path,
    workplace: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if version > landlock_version():
        pytest.skip(f"the kernel has Landlock {landlock_version()}")
    monkeypatch.setattr(sealing, "landlock_version", lambda: version)
    program = tmp_path / "readable" / "attacks.py"
    program.parent.mkdir()
    code = attack_code(victim, bystander)
    program.write_text(f"{code}\nimport json\nprint(json.dumps(ANSWERS))\n")
    files, before = [*victim.iterdir()], state_of(victim, bystander)
    seal = Seal((program.parent, *PYTHON))
    execution = ran([INTERPRETER, str(program)], workplace, seal)

    assert execution.ok, execution.stderr.text
    answers = json.loads(execution.stdout.text)
    succeeded = {
        name
        for name, answer in answers.items()
        if not re.search(r"Error|exit [1-9]", answer)
    }
    if version < 6:
        succeeded.discard("signal")  # no right for it, and no filter: see `doctor`
    else:
        assert state_of(victim, bystander) == before
    assert succeeded <= {*IGNORED}, {name: answers[name] for name in succeeded}
    assert [*victim.iterdir()] == files
    assert program.read_text().startswith(code)


@needs_seal
def test_what_is_named_can_be_used_and_a_home_of_its_own(
    tmp_path: Path, workplace: Path
) -> None:
    named = tmp_path / "named"
    named.mkdir()
    (named / "input").write_text("4")
    script = f"""cp {named}/input copy && mkdir -p a/b && mv copy a/b/c && cat a/b/c
    echo $((0x10)) > /dev/null && touch "$HOME/x" "$TMPDIR/y" && echo "$PATH" """
    execution = ran(["sh", "-c", script], workplace, Seal((named,)))
    assert execution.ok, execution.stderr.text
    assert execution.stdout.text == "4/usr/bin:/bin\n"
    assert (workplace / "a/b/c").read_text() == "4"
    assert {path.name for path in workplace.iterdir()} == {"a", "x", "y"}


ESCAPES = """
import ctypes, os, resource, time
for limits in ((1, 1), (1, resource.RLIM_INFINITY), (resource.RLIM_INFINITY,) * 2):
    try: resource.setrlimit(resource.RLIMIT_RTTIME, limits)
    except (ValueError, OSError): pass
os.write(7, b'x'); os.close(7); os.closerange(0, 3); time.sleep(300)
"""


@pytest.mark.parametrize("seal", [Seal(PYTHON), None])
def test_a_process_cannot_clear_its_mark(
    seal: Seal | None, tmp_path: Path, mark: str
) -> None:
    """It leaves its session and its parent, and changes the limit that is its mark."""
    execution = ran(starting(ESCAPES, mark), tmp_path, seal)
    assert execution.ok, execution.stderr.text
    assert not processes_with(mark)


def test_programs_run_unsealed_where_the_kernel_cannot(
    tmp_path: Path, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "can_seal", lambda: False)
    (tmp_path / "secret").write_text("4")
    execution = ran(["cat", f"{tmp_path}/secret"], workplace, Seal(()))
    assert execution.stdout.text == "4"
    assert sealing.missing_seals()


# The filter, by an interpreter of its instructions.


def answer_of(code: bytes, interface: int, number: int, *arguments: int) -> int:
    """Return what the kernel answers to a call under a filter."""
    given = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("<IIQ6Q", number, interface, 0, *given)
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
NAMES = {number: name for name, number in sealing.ANSWERS.items()}


@each_machine
def test_each_rule_answers_its_call_and_no_other(machine: str) -> None:
    sections = ("mark", "sealed", "truncate")
    code = sealing.filter_code(sections, machine)
    newer, older, column = sealing.INTERFACES[machine]
    rules = [rule for name in sections for rule in sealing.call_rules(name)]
    numbers = {rule.call: rule.numbers[column] for rule in rules}
    for number in {*map(str, range(600))}.difference(numbers.values()):
        assert NAMES[answer_of(code, newer, int(number), 1, 1, 1, 1)] == "allowed"
    for line in ANSWERED.splitlines():
        call, wanted = line.split(": ")
        name, *words = call.split()
        arguments = [int(word, 0) for word in words]
        answer = answer_of(code, newer, int(numbers[name]), *arguments)
        assert NAMES[answer] == wanted, line
    assert NAMES[answer_of(code, older, 1)] == "refused"
    assert NAMES[answer_of(code, newer, 0x40000001)] == "refused"


@each_machine
def test_an_unsealed_32_bit_program_runs_and_keeps_its_mark(machine: str) -> None:
    code = sealing.filter_code(("mark",), machine)
    _, older, column = sealing.INTERFACES[machine]
    assert NAMES[answer_of(code, older, 4, 1)] == "allowed"
    for rule in sealing.call_rules("older"):
        resource_first = (15, 1) if rule.call == "setrlimit" else (0, 15, 1)
        number = int(rule.numbers[column])
        assert NAMES[answer_of(code, older, number, *resource_first)] == "forbidden"
    assert NAMES[answer_of(code, 0x1234, 4)] == "refused"


@each_machine
def test_the_numbers_are_those_of_the_kernel(machine: str) -> None:
    if not HEADERS[machine].is_file():
        pytest.skip("the kernel's headers are not installed")
    pattern = r"#define __NR(?:3264)?_(\w+) (\d+)"
    numbers = dict(re.findall(pattern, HEADERS[machine].read_text()))
    _, _, column = sealing.INTERFACES[machine]
    compared = set()
    for section in ("mark", "sealed", "truncate"):
        for rule in sealing.call_rules(section):
            if rule.call in numbers:
                compared.add(rule.call)
                assert rule.numbers[column] == numbers[rule.call], rule.call
    assert len(compared) > 40
