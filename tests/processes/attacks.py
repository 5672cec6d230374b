"""Try what a seal must refuse. Standard library only: it runs in any interpreter, and as
part of a kernel, a generator or a script that a compiler runs.

`python attacks.py VICTIM PID`: VICTIM is a folder with `private`, `mode`, `times` and
`attributes`, PID a process to disturb. It prints a JSON object: attack -> what came of it. The tests
look at VICTIM and PID as well, because an answer of success may be a lie.
"""

import contextlib
import ctypes
import json
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"


def call(number, *arguments):
    if LIBC.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return "done"


def read(path):
    with open(path) as file:
        return file.read(20)


def write(path):
    with open(path, "w") as file:
        file.write("attacked")
    return "done"


def shell(*argv):
    ran = subprocess.run(argv, capture_output=True, text=True, check=False)
    return ran.stdout or ran.stderr[-200:] or f"exit {ran.returncode}"


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
    return "done"


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
    return "done"


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


def attacks(victim, pid):
    yield "read", lambda: read(f"{victim}/private")
    yield "read users", lambda: read("/etc/passwd")
    yield "read own memory map", lambda: read(f"/proc/{pid}/maps")
    yield (
        "read by the loader",
        lambda: shell(
            "/lib64/ld-linux-x86-64.so.2", "/usr/bin/cat", f"{victim}/private"
        ),
    )
    yield "list", lambda: os.listdir(victim)
    yield "write", lambda: write(f"{victim}/written")
    yield "overwrite", lambda: write(f"{victim}/private")
    yield "touch", lambda: shell("touch", f"{victim}/touched")
    yield "shell", lambda: shell("sh", "-c", f"echo x > {victim}/by-shell")
    yield "memory", lambda: from_memory(victim)
    yield "make folder", lambda: os.mkdir(f"{victim}/folder")
    yield "link", lambda: os.link(f"{victim}/private", "linked") or read("linked")
    yield (
        "follow link",
        lambda: os.symlink(f"{victim}/private", "pointer") or read("pointer"),
    )
    yield "rename", lambda: os.rename(f"{victim}/private", "taken")
    yield "remove", lambda: os.unlink(f"{victim}/private")
    yield "truncate", lambda: os.truncate(f"{victim}/private", 0)
    yield (
        "truncate readable",
        lambda: os.close(os.open(__file__, os.O_RDONLY | os.O_TRUNC)),
    )
    yield "mode", lambda: os.chmod(f"{victim}/mode", 0o777)
    yield "times", lambda: os.utime(f"{victim}/times", (0, 0))
    yield "owner", lambda: os.chown(f"{victim}/mode", 12345, 12345)
    yield "attributes", lambda: os.setxattr(f"{victim}/attributes", "user.x", b"1")
    for kind in ("AF_INET", "AF_UNIX", "AF_NETLINK", "AF_PACKET"):
        yield (
            f"socket {kind}",
            lambda kind=kind: socket.socket(getattr(socket, kind), socket.SOCK_DGRAM),
        )
    yield "datagram pair", datagram_pair
    yield "io_uring", lambda: call(425, 1, ctypes.create_string_buffer(120))
    yield "signal", lambda: os.kill(pid, signal.SIGUSR1)
    yield "limit", lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (7, 7))
    yield "priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)
    yield "priority of user", lambda: os.setpriority(os.PRIO_USER, 0, 19)
    yield "affinity", lambda: os.sched_setaffinity(pid, {0})
    yield (
        "scheduler",
        lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)),
    )
    yield "trace", lambda: call(101 if X86 else 117, 16, pid, 0, 0)
    yield "memory of another", lambda: call(310 if X86 else 270, pid, 0, 0, 0, 0, 0)
    yield "descriptor of another", lambda: call(438, os.pidfd_open(pid), 0, 0)
    yield "key", lambda: call(248 if X86 else 217, b"user", b"triage", b"x", 1, -2)
    yield "keys", lambda: call(250 if X86 else 219, 0, -3, 1)
    yield "shared memory", lambda: call(29 if X86 else 194, 4711, 4096, 0o1600)
    yield "named memory", lambda: write("/dev/shm/triage-attack")
    yield "namespace", lambda: call(272 if X86 else 97, 0x10000000)
    yield "root", lambda: call(161 if X86 else 51, b"/")
    yield "mount", lambda: call(165 if X86 else 40, b"x", b"/mnt", b"tmpfs", 0, 0)
    yield "device", lambda: os.mknod("disk", 0o60600, os.makedev(8, 0))
    yield "clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 0)
    yield "terminal", lambda: write("/dev/tty")
    yield (
        "mark",
        lambda: resource.setrlimit(resource.RLIMIT_RTTIME, (1, resource.RLIM_INFINITY)),
    )
    yield (
        "mark by id",
        lambda: resource.prlimit(os.getpid(), resource.RLIMIT_RTTIME, (1, 1)),
    )
    if X86:
        yield "old socket", lambda: by_interrupt(359, 1, 1, 0)
        yield "old mark", lambda: by_interrupt(75, 15, 0)
        yield "x32 socket", lambda: call(0x40000000 + 41, 2, 1, 0)


def main():
    victim, pid = sys.argv[1], int(sys.argv[2])
    answers = {name: in_child(action) for name, action in attacks(victim, pid)}
    with contextlib.suppress(OSError):
        os.unlink("linked")
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
