"""What onnxruntime computes for a model, as the expected results of a case."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from triage.compilers.values import file_value, identity_of, read_value
from triage.execution.inputs import digest_of
from triage.execution.process import StopSignal, run
from triage.execution.run_task import intact_results, keep_results
from triage.execution.scratch import Scratch
from triage.model.case import Case
from triage.model.outcome import Cause, Untestable

_WORKER = Path(__file__).with_name("onnxruntime_worker.py")


def onnxruntime_results(case: Case, folder: Path, scratch: Scratch, stop: StopSignal) -> tuple[str, ...] | Untestable:
    """Return the results for a case's inputs, computed once for each content and kept in `folder`."""
    key = _key(case)
    if isinstance(key, Untestable):
        return key
    if (files := intact_results(folder / key)) is None:
        with scratch.folder() as work:
            results = _computed(case, work, stop)
            if isinstance(results, Untestable):
                return results
            keep_results(results, folder / key)
            files = intact_results(folder / key)
    if files is None:
        return Untestable(Cause.ENVIRONMENT, f"the results of onnxruntime cannot be kept in {folder}; check its disk")
    return tuple(map(file_value, files))


def _key(case: Case) -> str | Untestable:
    """Return what decides the results, as a name; why they cannot be computed otherwise."""
    assert case.run is not None
    try:
        parts = [version("onnxruntime"), digest_of(case.input.path, is_artifact=False), *map(identity_of, case.run.inputs)]
    except PackageNotFoundError:
        advice = "install it with `pip install 'iree-triage[onnxruntime]'`"
        return Untestable(Cause.ENVIRONMENT, f"onnxruntime, the reference of {case.name}, is not installed; {advice}")
    except OSError as error:
        return Untestable(Cause.RECIPE, f"{error.filename}: {error.strerror}")
    return sha256("\0".join(["onnxruntime", *parts]).encode()).hexdigest()


def _computed(case: Case, scratch: Path, stop: StopSignal) -> Sequence[Path] | Untestable:
    """Run a case's model on its inputs and write the results to files in `scratch`."""
    import numpy as np  # slow to import, and only this reference needs it

    assert case.run is not None
    inputs = []
    for index, text in enumerate(case.run.inputs):
        array = read_value(text)
        if array is None:
            return Untestable(Cause.RECIPE, f"onnxruntime cannot be given the value {text}")
        inputs.append(scratch / f"input-{index}.npy")
        np.save(inputs[-1], array, allow_pickle=False)
    argv = [sys.executable, str(_WORKER), str(case.input.path), str(scratch), *map(str, inputs)]
    execution = run(argv, case.run.limits, scratch, env=dict(case.env), stop=stop)
    files = sorted(scratch.glob("[0-9]*.npy"), key=lambda file: int(file.stem))
    if execution.ok and files:
        return files
    return Untestable(
        Cause.RECIPE, f"onnxruntime does not run the model: {execution.stderr.last_line[:200] or execution.ending}"
    )
