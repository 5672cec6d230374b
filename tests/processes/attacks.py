"""Try what a seal must refuse. Standard library only: it runs in any interpreter, and as
part of a kernel, a generator or a script that a compiler runs. Tests look at the effects
from outside as well, because an answer of success may be a lie.
"""

import ctypes
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"

# Of a folder with `private`, `mode` and `times`.
COMMANDS = """\
cat /etc/passwd
cat /proc/PID/maps
cat VICTIM/private
/lib64/ld-linux-x86-64.so.2 /usr/bin/cat VICTIM/private
ls VICTIM
echo attacked > VICTIM/written
echo attacked > VICTIM/private
touch VICTIM/touched
mkdir VICTIM/folder
ln VICTIM/private linked && cat linked
ln -s VICTIM/private pointer && cat pointer
mv VICTIM/private taken
rm VICTIM/private
truncate -s 0 VICTIM/private
chmod 777 VICTIM/mode
touch -d @0 VICTIM/times
chown 12345:12345 VICTIM/mode
mknod disk b 8 0
echo attacked > /dev/shm/triage-attack
echo attacked > /dev/tty"""

# Name, number on x86-64 and on other machines, and arguments of system calls.
CALLS = """\
trace 101 117 16 PID 0 0
memory-of-another 310 270 PID 0 0 0 0 0
key 248 217 user triage x 1 -2
keys 250 219 0 -3 1
shared-memory 29 194 4711 4096 0o1600
namespace 272 97 0x10000000
root 161 51 /
mount 165 40 x /mnt tmpfs 0 0"""


def call(number, *arguments):
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def call_in_words(on_x86, on_others, *words):
    def value(word):
        is_number = word.lstrip("-")[0].isdigit()
        return int(word, 0) if is_number else word.encode()

    call(int(on_x86 if X86 else on_others), *map(value, words))


def command(line):
    """Return what a command prints, and how it ends."""
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    return f"exit {done.returncode}: {done.stdout} {done.stderr}"


def datagram_pair():
    first, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    first.sendto(b"x", "/dev/log")


def from_memory(victim):
    """Run a copy of a program that was never in a folder."""
    with open("/usr/bin/touch", "rb") as file:
        program = file.read()
    copy = os.memfd_create("touch")
    os.write(copy, program)
    child = os.fork()
    if not child:
        os.execve(copy, ["touch", f"{victim}/from-memory"], {})
    os.waitpid(child, 0)


def by_interrupt(number, *registers):
    """Make a system call of a 32-bit program by `int 0x80`."""
    code = bytes([0x53])  # push rbx
    for opcode, value in zip(
        (0xB8, 0xBB, 0xB9, 0xBA), (number, *registers), strict=False
    ):
        code += bytes([opcode]) + value.to_bytes(4, "little")
    code += bytes([0xCD, 0x80, 0x5B, 0xC3])  # int 0x80; pop rbx; ret
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    if answer < 0:
        raise OSError(-answer, "refused")


def attacks(victim, pid):
    def named(text):
        lines = text.replace("VICTIM", victim).replace("PID", str(pid)).splitlines()
        return zip(text.splitlines(), lines, strict=True)

    for name, line in named(COMMANDS):
        yield name, lambda line=line: command(line)
    for name, line in named(CALLS):
        yield name, lambda line=line: call_in_words(*line.split()[1:])
    for kind in ("AF_INET", "AF_UNIX", "AF_NETLINK", "AF_PACKET"):
        family = getattr(socket, kind)
        yield kind, lambda family=family: socket.socket(family, socket.SOCK_DGRAM)
    yield "datagram pair", datagram_pair
    yield "program in memory", lambda: from_memory(victim)
    yield (
        "truncate what may be read",
        lambda: os.close(os.open(__file__, os.O_RDONLY | os.O_TRUNC)),
    )
    # the commands make other calls of the system
    yield "truncate", lambda: os.truncate(f"{victim}/private", 0)
    yield "mode", lambda: os.chmod(f"{victim}/mode", 0o777)
    yield "owner", lambda: os.chown(f"{victim}/mode", 12345, 12345)
    yield "attributes", lambda: os.setxattr(f"{victim}/attributes", "user.x", b"1")
    yield "io_uring", lambda: call(425, 1, ctypes.create_string_buffer(120))
    yield "signal", lambda: os.kill(pid, signal.SIGUSR1)
    yield "limit", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (7, 7))
    yield "priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)
    yield "priority of user", lambda: os.setpriority(os.PRIO_USER, 0, 19)
    yield "affinity", lambda: os.sched_setaffinity(pid, {0})
    idle = os.sched_param(0)
    yield "scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, idle)
    yield "descriptor of another", lambda: call(438, os.pidfd_open(pid), 0, 0)
    yield "clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 0)
    for name, own in (("mark", 0), ("mark by id", os.getpid())):
        yield (
            name,
            lambda own=own: resource.prlimit(own, resource.RLIMIT_RTTIME, (1, 1)),
        )
    if X86:
        yield "old socket", lambda: by_interrupt(359, 1, 1, 0)
        yield "old mark", lambda: by_interrupt(75, 15, 0)
        yield "x32 socket", lambda: call(0x40000000 + 41, 2, 1, 0)


def in_child(action):
    """Run an attack in a child, which it may kill."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = str(action())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read() or f"status {status}"


def answers(victim, pid):
    """Return what came of each attack, by its name."""
    return {name: in_child(action) for name, action in attacks(victim, pid)}
