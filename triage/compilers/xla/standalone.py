"""A script that compiles a program with jaxlib, runs it and compares its results
without triage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from triage.compilers.repro_script import ReproScript, StandaloneCall, StandaloneCompile
from triage.model.case import Case
from triage.model.revision import Toolchain
from triage.recipes.run_values import split_value

_SCRIPT = "repro.py"
_START = '''"""Compile {source} with jaxlib{run}."""

import os
from pathlib import Path

os.environ["XLA_FLAGS"] = {flags}

import jax
import ml_dtypes
import numpy as np
from jaxlib import xla_client as xla

jax.config.update("jax_enable_x64", True)
client, program = jax.devices("cpu")[0].client, Path("{source}").read_bytes()
if hasattr(client, "compile_and_load"):  # since 0.6.1
    devices = xla.DeviceList(tuple(client.devices()))
    executable = client.compile_and_load(program, devices, xla.CompileOptions())
else:
    executable = client.compile(program, xla.CompileOptions())
'''
_RUN = """arguments = [jax.device_put(each) for each in [{inputs}]]
results = [np.asarray(each) for each in executable.execute(arguments)]
print(*results, sep="\\n")
"""
_COMPARE = """for result, expected in zip(results, [{expected}]):
    np.testing.assert_allclose(result, expected, rtol={rtol}, atol={atol})
"""


class XlaScript(ReproScript):
    """Repeats a compile, and the run of what it compiles."""

    def program_name(self, case: Case, toolchain: Toolchain) -> str:
        return "jaxlib"

    def call(self, task: StandaloneCompile) -> StandaloneCall:
        remark = "\n# Set PYTHON to the interpreter that has it."
        return StandaloneCall(
            task.requirement,
            ("python3", _SCRIPT),
            f'"${{PYTHON:-python3}}" {_SCRIPT}',
            remark,
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        values: dict[str, list[str]] = {
            "--input": [],
            "--expected_output": [],
            "--tolerances": ["{}"],
        }
        for name, _, text in (word.partition("=") for word in task.run):
            if name in values:
                values[name].append(text if name == "--tolerances" else _array(text))
        inputs, expected = (
            ", ".join(values[name]) for name in ("--input", "--expected_output")
        )
        flags = json.dumps(
            " ".join(word for word in task.options if word.startswith("--xla_"))
        )
        text = _START.format(
            source=task.source,
            run=", run it and compare" if expected else "",
            flags=flags,
        )
        if task.run:
            text += _RUN.format(inputs=inputs)
        accepted = json.loads(values["--tolerances"][-1])
        limits = {"rtol": accepted.get("relative", 0), "atol": accepted.get("f32", 0)}
        return {
            _SCRIPT: text
            + (_COMPARE.format(expected=expected, **limits) if expected else "")
        }


def _array(text: str) -> str:
    """Return a value as Python."""
    value = split_value(text)
    if value.type:
        *sizes, element = value.type.split("x")
    else:
        *sizes, element = [""]
    kind = {"i1": "bool", "bf16": "bfloat16"}.get(element) or element.replace(
        "f", "float"
    ).replace("i", "int")
    if element == "bf16":
        kind = "ml_dtypes.bfloat16"
    else:
        kind = f'"{kind}"'
    shape = f"[{', '.join(sizes)}]"
    if value.file is not None:
        is_array = value.file.endswith(".npy")
        if is_array:
            return f'np.load("{value.file}")'
        return f'np.fromfile("{value.file}", {kind}).reshape({shape})'
    numbers = (
        ", ".join(
            {"true": "1", "false": "0"}.get(word, word)
            for word in value.literal.replace(",", " ").split()
        )
        or "0"
    )
    if not element:
        return f"np.array({numbers})"
    if "," not in numbers:
        return f"np.full({shape}, {numbers}, {kind})"
    return f"np.array([{numbers}], {kind}).reshape({shape})"
