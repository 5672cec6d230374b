"""Optimise a model, run it and compare its results. Runs in the environment of a
release, and imports nothing of triage.

    worker.py compile [--optimize=LEVEL] [--disable=OPTIMISER...] [--name-passes]
        MODEL -o OUTPUT
    worker.py run --module=OUTPUT [--input=V...] [--expected_output=V...]
        [--output=@FILE...] [--tolerances=JSON]
    worker.py describe
"""

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime as ort

ELEMENTS = {"f16": "float16", "f32": "float32", "f64": "float64"}
ELEMENTS |= {"i1": "bool", "i32": "int32", "i64": "int64"}
NAMES = {dtype: name for name, dtype in ELEMENTS.items()}
CHANGED = re.compile(r"GraphTransformer (\w+) modified: 1 ")
HEADER = "// -----// IR Dump After {0} ({0}) //----- //"


def session(model, level="DISABLE_ALL", disabled=(), output=None, verbose=False):
    """Make a session, and write the model that it has optimised."""
    options = ort.SessionOptions()
    level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.graph_optimization_level = level
    options.log_severity_level = 0 if verbose else 3
    options.optimized_model_filepath = str(output or "")
    return ort.InferenceSession(
        model, options, ["CPUExecutionProvider"], disabled_optimizers=list(disabled)
    )


def named_passes(settings):
    """Compile, and print the optimisers that change the model, which the log names."""
    with tempfile.TemporaryFile("w+") as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            session(*settings, verbose=True)
        finally:
            os.dup2(stderr, 2)
            log.seek(0)
            for name in CHANGED.findall(log.read()):
                print(HEADER.format(name), file=sys.stderr)


def value(text):
    """Return the array of `2x3xf32=1 2 3 4 5 6`, `@values.npy` or `5`."""
    kind, _, content = text.rpartition("=")
    if content.startswith("@"):
        return np.load(content[1:])
    *sizes, element = kind.split("x") if kind else ["f32"]
    shape = [int(size) for size in sizes]
    numbers = np.array([float(word) for word in content.split()])
    numbers = numbers.astype(ELEMENTS[element])
    return np.full(shape, numbers[0]) if numbers.size == 1 else numbers.reshape(shape)


def mismatch(got, want, tolerances):
    """Return where a result differs by more than its tolerance, if it does."""
    if got.shape != want.shape:
        shapes = {"actual": str(got.shape), "expected": str(want.shape)}
        return {"kind": "metadata", **shapes}
    limit = tolerances.get(NAMES[str(got.dtype)], 0.0)
    relative = tolerances["relative"] if limit else 0.0
    wrong = np.flatnonzero(~np.isclose(got, want, relative, limit, equal_nan=True))
    if not wrong.size:
        return {}
    first = int(wrong[0])
    actual, expected = (f"{float(array.flat[first]):g}" for array in (got, want))
    return {"element": first, "actual": actual, "expected": expected}


def run(options):
    """Run a model; print, write and compare its results."""
    model = session(options.module)
    names = [each.name for each in model.get_inputs()]
    values = zip(names, map(value, options.input), strict=True)
    results = [np.asarray(each) for each in model.run(None, dict(values))]
    for index, result in enumerate(results):
        kind = "x".join([*map(str, result.shape), NAMES[str(result.dtype)]])
        print(f"result[{index}]: {kind}={' '.join(map(str, result.flat[:8]))}")
    for file, result in zip(options.output, results, strict=False):
        np.save(file.removeprefix("@"), result)
    for index, text in enumerate(options.expected_output):
        wrong = mismatch(results[index], value(text), options.tolerances)
        if wrong:
            print("triage:", json.dumps({"mismatch": {"output": index, **wrong}}))
            return 1
    return 0


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
    parser.add_argument("--tolerances", type=json.loads, default={"relative": 0})
    parser.add_argument("--name-passes", action="store_true")
    for name in ("--disable", "--input", "--expected_output", "--output"):
        parser.add_argument(name, action="append", default=[])
    options = parser.parse_args(sys.argv[2:])
    if work == "run":
        return run(options)
    settings = (options.module, options.optimize, options.disable, options.target)
    if options.name_passes:
        named_passes(settings)
    else:
        session(*settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
