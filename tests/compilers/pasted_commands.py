"""Command lines in the forms in which people paste them, each with the same command as a shell would run it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROGRAM = """func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.addf %a, %b : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
OPTIONS = "--iree-hal-target-backends=llvm-cpu\n--iree-llvmcpu-target-cpu=generic\n"
_TARGET = '#hal.executable.target<"vmvx", "vmvx-bytecode-fb">'
WITH_TARGET = f"""module attributes {{hal.device.targets = [#hal.device.target<"local", [{_TARGET}]>]}} {{
{PROGRAM}}}
"""


@dataclass(frozen=True, slots=True)
class PastedCommand:
    """`text` as it is pasted; `shell`: what a shell runs."""

    text: str
    shell: str


def pasted_commands() -> list[PastedCommand]:
    """Read all forms."""
    text = (Path(__file__).parent / "pasted_commands.txt").read_text()
    return [PastedCommand(*form.strip("\n").split("\n->\n")) for form in text.split("\n====\n")]


def write_inputs(folder: Path) -> None:
    """Write the files that the command lines name. `exec.mlir` and `hx.mlir` are written by a compiler, see the real test."""
    (folder / "m.mlir").write_text(PROGRAM)
    (folder / "model.txt").write_text(PROGRAM)
    (folder / "targets.mlir").write_text(WITH_TARGET)
    (folder / "opts.rsp").write_text(OPTIONS)
    for name in ("exec.mlir", "hx.mlir"):
        (folder / name).write_text('#target = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64">\n')
