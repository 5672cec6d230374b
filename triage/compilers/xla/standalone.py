"""Describe the compile of a program in a reproducer: a script that compiles it with
jaxlib, runs it and compares its results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from triage.compilers.repro_script import (
    REPRO,
    PackageScript,
    StandaloneCompile,
    comparison,
    python_array,
)

_START = '''"""Compile {source} with jaxlib{run}."""

import os
from math import inf, nan
from pathlib import Path

os.environ["XLA_FLAGS"] = {flags}

import jax
import ml_dtypes
import numpy as np
from jaxlib import xla_client as xla

jax.config.update("jax_enable_x64", True)
client, program = jax.devices("cpu")[0].client, Path("{source}").read_bytes()
{convert}if hasattr(client, "compile_and_load"):  # since 0.6.1
    devices = xla.DeviceList(tuple(client.devices()))
    executable = client.compile_and_load(program, devices, xla.CompileOptions())
else:
    executable = client.compile(program, xla.CompileOptions())
'''
_CONVERT = """\
hlo = xla.hlo if hasattr(xla, "hlo") else xla._xla
proto = hlo.hlo_module_from_text(program.decode()).as_serialized_hlo_module_proto()
if hasattr(xla._xla.mlir, "hlo_to_stablehlo"):
    program = xla._xla.mlir.hlo_to_stablehlo(proto)
else:
    computation = xla.XlaComputation(proto)
    program = xla._xla.mlir.xla_computation_to_mlir_module(computation)
"""
_RUN = """\
arguments = [jax.device_put(each) for each in [{inputs}]]
results = [np.asarray(each) for each in executable.execute(arguments)]
print(*results, sep="\\n")
"""


class XlaScript(PackageScript):
    """Repeats a compile, and the run of what it compiles."""

    def files(self, task: StandaloneCompile) -> Mapping[str, str]:
        flags = [word for word in task.options if word.startswith("--xla_")]
        run = task.case.run if task.run else None
        text = _START.format(
            source=task.source,
            convert=_CONVERT if task.source.endswith((".hlo", ".txt")) else "",
            run=", run it and compare" if run and run.expected else "",
            flags=json.dumps(" ".join(flags)),
        )
        if run:
            text += _RUN.format(inputs=", ".join(map(python_array, run.inputs)))
            if run.expected:
                text += comparison(run)
        return {REPRO: text}
