"""Large models with one failing part each: a stack of blocks that compile everywhere,
with a part that one release fails on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from tests.conftest import ROOT

# : The text of the block and of each failing part, which read `%in`; a part defines
# `%out`. Affine maps come first.
FOLDER = ROOT / "tests" / "data" / "large_models"
X = "tensor<64x128xf32>"
HEAD = """\
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %width = arith.constant 128.0 : f32
  %epsilon = arith.constant 1.0e-5 : f32
"""


@dataclass(frozen=True)
class Pattern:
    """A part that fails on release `bad` and compiles on `good`."""

    bad: str
    backend: str
    failure: str
    good: str | None = None
    chip: str | None = None
    arguments: dict[str, str] = field(default_factory=dict)
    """The types of the arguments that only this part has."""
    devices: int | None = None


PATTERNS = {
    name: Pattern(**fields)
    for name, fields in yaml.safe_load((FOLDER / "patterns.yaml").read_text()).items()
}


def model(name: str, lines: int, *, sizes: int = 1) -> str:
    """Return a model of about `lines` lines with a failing part in the middle. Its
    blocks have so many sizes in turn, which multiplies the kinds of operations.
    """
    part = (FOLDER / f"{name}.mlir").read_text().splitlines()
    block = (FOLDER / "block.mlir").read_text()
    maps = [line for line in part if line.startswith("#")]
    body: list[str] = []
    arguments = {"x": X}
    x, number, placed = "%x", 0, False
    while len(body) < lines or not placed:
        if not placed and len(body) >= lines // 2:
            placed = True
            body += [
                line.replace("%in", x).replace("%out", "%p_out")
                for line in part[len(maps) :]
            ]
            arguments |= PATTERNS[name].arguments
            x = "%p_out"
        result, width = f"b{number}", str(256 + number % sizes)
        text = block.replace("%in", x).replace("BLOCK", result)
        body += text.replace("256", width).splitlines()
        arguments |= {
            f"{result}_w1": f"tensor<128x{width}xf32>",
            f"{result}_w2": f"tensor<{width}x128xf32>",
        }
        x = f"%{result}"
        number += 1
    given = ", ".join(f"%{key}: {kind}" for key, kind in arguments.items())
    return "\n".join(
        [
            "#xy = affine_map<(x, y) -> (x, y)>",
            "#x = affine_map<(x, y) -> (x)>",
            *maps,
            f"func.func @main({given}) -> {X} {{",
            HEAD + "\n".join(f"  {line}" for line in body),
            f"  return {x} : {X}",
            "}",
            "",
        ]
    )


def recipe(name: str, path: str) -> str:
    """Return the YAML of a recipe for a model."""
    pattern = PATTERNS[name]
    target = [f"backend: {pattern.backend}"]
    target += [f"chip: {pattern.chip}"] if pattern.chip else []
    target += [f"devices: {pattern.devices}"] if pattern.devices else []
    phase = "" if pattern.devices else "phase: executable-targets\n"
    head = f"name: {name}\nsummary: {pattern.failure} in the middle of a stack of blocks\ncompiler: iree\ninput: {path}\n"
    return f"{head}target: {{{', '.join(target)}}}\n{phase}limits: {{timeout: 900s, memory: 12GiB}}\n"
