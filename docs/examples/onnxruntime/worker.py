"""Optimise a model and run it. Runs in the environment of a release, and imports
nothing of triage.

    worker.py compile [--optimize=LEVEL] [--disable=OPTIMISER...] MODEL -o OUTPUT
    worker.py run --module=OUTPUT [--input=V...] [--output=@FILE...]
    worker.py describe
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

ELEMENTS = {"i1": "bool"} | {f"f{bits}": f"float{bits}" for bits in (16, 32, 64)}
for bits in (8, 16, 32, 64):
    ELEMENTS |= {f"ui{bits}": f"uint{bits}", f"i{bits}": f"int{bits}"}
NAMES = {dtype: name for name, dtype in ELEMENTS.items()}


def session(model, level="DISABLE_ALL", disabled=(), output=None):
    """Make a session, and write the model that it has optimised."""
    options = ort.SessionOptions()
    level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.graph_optimization_level = level
    options.log_severity_level = 3
    options.optimized_model_filepath = str(output or "")
    return ort.InferenceSession(
        model, options, ["CPUExecutionProvider"], disabled_optimizers=list(disabled)
    )


def value(text):
    """Return the array of `2x3xf32=1 2 3 4 5 6`, `4xi8=@bytes.bin`, `@values.npy` or
    `5`.
    """
    if text.startswith("@"):
        return np.load(text[1:])
    kind, _, content = text.rpartition("=")
    *sizes, element = kind.split("x") if kind else ["f32"]
    shape, dtype = [int(size) for size in sizes], ELEMENTS[element]
    if content.startswith("@"):
        return np.fromfile(content[1:], dtype).reshape(shape)
    convert = int if "int" in dtype else float
    numbers = np.array([convert(word) for word in content.split()], dtype)
    return np.full(shape, numbers[0]) if numbers.size == 1 else numbers.reshape(shape)


def run(options):
    """Run a model; print its results, and write them as .npy or as raw bytes."""
    model = session(options.module)
    names = [each.name for each in model.get_inputs()]
    values = zip(names, map(value, options.input), strict=True)
    results = [np.asarray(each) for each in model.run(None, dict(values))]
    for index, result in enumerate(results):
        kind = "x".join([*map(str, result.shape), NAMES[str(result.dtype)]])
        print(f"result[{index}]: {kind}={' '.join(map(str, result.flat[:8]))}")
    if len(options.output) not in (0, len(results)):
        sys.exit(f"error: there are {len(results)} results")
    for file, result in zip(options.output, results, strict=False):
        if file.endswith(".npy"):
            np.save(file.removeprefix("@"), result)
        else:
            result.tofile(file.removeprefix("@"))


def main():
    """Do what the first argument says, and return the exit status."""
    work = sys.argv[1]
    if work == "describe":
        print(ort.__version__)
        return 0
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--module" if work == "run" else "module")
    parser.add_argument("-o", dest="target", type=Path)
    parser.add_argument("--optimize", default="ENABLE_ALL")
    for name in ("--disable", "--input", "--output"):
        parser.add_argument(name, action="append", default=[])
    options = parser.parse_args(sys.argv[2:])
    if work == "run":
        run(options)
        return 0
    session(options.module, options.optimize, options.disable, options.target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
