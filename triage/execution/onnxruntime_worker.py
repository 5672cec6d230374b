"""Run a model with onnxruntime: `MODEL FOLDER INPUT...`. Writes `0.npy` and so on; a process of its own, which may crash."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np


def main() -> None:
    """Read the inputs in the order of the model's, and write its results."""
    model, folder, *inputs = sys.argv[1:]
    runtime = import_module("onnxruntime")
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    arrays = [np.load(path, allow_pickle=False) for path in inputs]
    names = [value.name for value in session.get_inputs()]
    for index, result in enumerate(session.run(None, dict(zip(names, arrays, strict=True)))):
        np.save(Path(folder, f"{index}.npy"), np.asarray(result), allow_pickle=False)


if __name__ == "__main__":
    main()
