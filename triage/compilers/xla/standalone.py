"""Describe the compile of a program in a reproducer: a script that compiles it with
jaxlib, runs it and compares its results.
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
_RUN = """\
arguments = [jax.device_put(each) for each in [{inputs}]]
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
        return StandaloneCall(
            task.requirement,
            ("python3", _SCRIPT),
            f'"${{PYTHON:-python3}}" {_SCRIPT}',
            "\n# Set PYTHON to the interpreter that has it.",
        )

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        inputs: list[str] = []
        expected: list[str] = []
        tolerances: dict[str, float] = {}
        for word in task.run:
            name, _, text = word.partition("=")
            if name == "--input":
                inputs.append(_python_array(text))
            elif name == "--expected_output":
                expected.append(_python_array(text))
            elif name == "--tolerances":
                tolerances = json.loads(text)
        flags = [word for word in task.options if word.startswith("--xla_")]
        text = _START.format(
            source=task.source,
            run=", run it and compare" if expected else "",
            flags=json.dumps(" ".join(flags)),
        )
        if task.run:
            text += _RUN.format(inputs=", ".join(inputs))
        if expected:
            text += _COMPARE.format(
                expected=", ".join(expected),
                rtol=tolerances.get("relative", 0),
                atol=tolerances.get("f32", 0),
            )
        return {_SCRIPT: text}


def _python_array(text: str) -> str:
    """Return the Python expression of a value.

    >>> _python_array("2xf32=1 2")
    'np.array([1, 2], "float32").reshape([2])'
    """
    value = split_value(text)
    *sizes, element = (value.type or "").split("x")
    shape = f"[{', '.join(sizes)}]"
    if element == "bf16":
        dtype = "ml_dtypes.bfloat16"
    elif element == "i1":
        dtype = '"bool"'
    else:
        dtype = f'"{element.replace("f", "float").replace("i", "int")}"'
    if value.file is not None:
        if value.file.endswith(".npy"):
            return f'np.load("{value.file}")'
        return f'np.fromfile("{value.file}", {dtype}).reshape({shape})'
    words = value.literal.replace(",", " ").split()
    booleans = {"true": "1", "false": "0"}
    numbers = ", ".join(booleans.get(word, word) for word in words) or "0"
    if not element:
        return f"np.array({numbers})"
    if "," not in numbers:
        return f"np.full({shape}, {numbers}, {dtype})"
    return f"np.array([{numbers}], {dtype}).reshape({shape})"
