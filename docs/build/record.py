"""Record real sessions of triage as SVG for the documentation: `python
docs/build/record.py` writes docs/assets/.

Runs the program with the toolchains of TRIAGE_HOME and results of its own, so that the
recording shows real compiles.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import onnx
import platformdirs
from onnx import helper
from onnx.onnx_pb import TensorProto
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[2]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
ASSETS = ROOT / "docs" / "assets"
WIDTH = 110
PROMPT = "> "
CASE = ["recipes/llama-attention-aggressive-fusion.yaml", "--case", "dtype=f16"]
NIGHTLY = [
    "nightly",
    "recipes/",
    "-t",
    "3.3.0",
    "-b",
    "3.2.0",
    "--bisect",
    "--reduce",
    "--out",
    "{tmp}/out",
]
SESSION = ["bisect", *CASE, "--good", "2.9.0", "--bad", "3.3.0", "--interactive"]


def nonzero() -> onnx.ModelProto:
    """Return a model that releases before 3.2.0 cannot compile."""
    values = [
        helper.make_tensor_value_info("x", FLOAT, [3, 4]),
        helper.make_tensor_value_info("y", INT64, [2, None]),
    ]
    graph = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["y"])], "model", values[:1], values[1:]
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )


def record(
    words: Sequence[str], answers: Sequence[str], name: str, most_lines: int
) -> None:
    """Run a command and save what a terminal shows as docs/assets/NAME.svg, at most
    `most_lines` lines of it.

    answers: what the user types at each prompt, in order.
    """
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        source = Path(
            os.environ.get("TRIAGE_HOME")
            or platformdirs.user_cache_dir("triage", appauthor=False)
        )
        (home / "toolchains").symlink_to(source / "toolchains")
        onnx.save(nonzero(), Path(folder) / "model.onnx")
        env = {
            **os.environ,
            "TRIAGE_HOME": str(home),
            "COLUMNS": str(WIDTH),
            "FORCE_COLOR": "1",
        }
        command = [
            sys.executable,
            "-c",
            "from triage.cli import main; main()",
            *(word.replace("{tmp}", folder) for word in words),
        ]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=env,
            input="".join(f"{answer}\n" for answer in answers),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if answers else subprocess.DEVNULL,
            text=True,
            check=False,
        )
    output = done.stdout.replace(f"{folder}/", "")
    for answer in answers:
        output = output.replace(
            PROMPT, f"\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} {answer}\n", 1
        )
    lines = output.splitlines()
    if len(lines) > most_lines:
        lines = [
            *lines[: most_lines // 2],
            "...",
            *lines[-(most_lines - most_lines // 2) :],
        ]
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(
        Text(
            f"$ triage {' '.join(word.replace('{tmp}/', '') for word in words)}",
            style="bold",
        )
    )
    console.print(Text.from_ansi("\n".join(lines)))
    ASSETS.mkdir(exist_ok=True)
    drawing = re.sub(
        r"@font-face \{.*?\}\s*",
        "",
        console.export_svg(title="triage"),
        flags=re.DOTALL,
    )  # no fonts from the network
    (ASSETS / f"{name}.svg").write_text(drawing)


if __name__ == "__main__":
    record(NIGHTLY, [], "nightly", 44)
    record(SESSION, ["", "why", *[""] * 8], "interactive-bisect", 60)
    # Four ways to begin: a bundled example, a model, a kernel and the text of an issue.
    record(["why", CASE[0]], [], "why-example", 40)
    record(["why", "{tmp}/model.onnx"], [], "why-model", 40)
    record(
        [
            "why",
            "recipes/triton-delta-rule.yaml",
            "--case",
            "num_warps=8",
            "-t",
            "3.2.0",
        ],
        [],
        "why-kernel",
        40,
    )
    record(["why", "reproducers/paged-gather/README.md"], [], "why-issue", 40)
