"""Compiles programs with the jaxlib of the interpreter that starts this script, and
runs them; imports nothing of triage, but runs some of its files.

    worker.py compile [--passes=all|failed] [--xla_OPTION...] PROGRAM -o OUTPUT
    worker.py script [--passes=all|failed] [--once]
        [--flags-in=XLA_FLAGS --xla_OPTION...] SCRIPT -o OUTPUT
    worker.py run --module=OUTPUT [--input=V...] [--output=@FILE...]
        [--benchmark_format=json]
    worker.py serve [--xla_OPTION...]
    worker.py describe

PROGRAM is StableHLO (a text, bytecode or a portable artifact) or the text of HLO.
OUTPUT is a line of JSON with the options, then the program: a run compiles again,
because not every release can load what it compiled. `script` is that of
`script_worker.py`.
`serve` compiles and runs one program after another, see `answer_to`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import runpy
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache, lru_cache, partial
from importlib import import_module
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

# Lines of XLA's log.
_PASS_BEGAN = re.compile(r"hlo_pass_pipeline\.cc:\d+\]\s+HLO pass ([^:]+)$")
_PASS_ENDED = re.compile(r"hlo_pass_pipeline\.cc:\d+\]\s+HLO pass: (.+) time:")
_PASSES_ENDED = "initializing LLVM"
_LOG = re.compile(r"^\s*(?:[IW]\d{4} |\d{4}-\d\d-\d\d [\d:.]+: [IW] )")
# The name of a dump: number of the module, number of the dump, pass.
_DUMP = re.compile(
    r"module_(\d+)\..*\.(\d{4})\.[^/]*?\.after_([^/]+)\.before_[^/]+\.txt"
)
_FLAG = re.compile(r"^\s*--(xla_\w+)=\S*\s+(\w+)", re.MULTILINE)
_M_PERTURB = -6  # an option of glibc's mallopt
_SHORTEST, _FEWEST = 0.1, 3  # seconds and calls of a measurement
_SMALL_PROGRAM = b"""func.func public @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = stablehlo.tanh %x : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}"""


def add_xla_flags(flags: list[str]) -> None:
    """Add options to the variable from which XLA reads its options."""
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])


def cpu_executable(program: bytes, client: Any = None) -> Any:
    """Compile a program for this machine's processor. Raises jaxlib's errors."""
    xla: Any = import_module("jaxlib.xla_client")
    if b"custom_call" in program or b"custom-call" in program:
        import_module("jax")  # registers the kernels of LAPACK
    client = client or xla.make_cpu_client()
    if program.lstrip().startswith(b"HloModule"):
        program = _from_hlo(xla, program.decode())
    options = xla.CompileOptions()
    if not hasattr(client, "compile_and_load"):
        return client.compile(program, options)
    devices = xla.DeviceList(tuple(client.devices()[:1]))
    return client.compile_and_load(program, devices, options)


def _from_hlo(xla: Any, text: str) -> Any:
    """Return the StableHLO of a text of HLO."""
    module = (xla.hlo if hasattr(xla, "hlo") else xla._xla).hlo_module_from_text(text)  # noqa: SLF001
    proto, convert = module.as_serialized_hlo_module_proto(), xla._xla.mlir  # noqa: SLF001
    if hasattr(convert, "hlo_to_stablehlo"):
        return convert.hlo_to_stablehlo(proto)
    return convert.xla_computation_to_mlir_module(xla.XlaComputation(proto))


def compile_program(source: Path, output: Path, flags: list[str]) -> None:
    """Compile a program, and write OUTPUT."""
    program = source.read_bytes()
    cpu_executable(program)
    output.write_bytes(json.dumps(flags).encode() + b"\n" + program)


def run_file(path: str, run_name: str = "") -> Any:
    """Run a file of triage by its path, since a sealed program can list no folder, and
    return what it defines.
    """
    file = Path(__file__).parents[2] / path
    return SimpleNamespace(**runpy.run_path(str(file), run_name=run_name))


def run_script_worker() -> None:
    """Do the work of the script next to this family, with the same arguments."""
    run_file("compilers/script_worker.py", "__main__")


@cache
def run_values() -> Any:
    """Return what reads and names values, as recipes write them."""
    return run_file("recipes/run_values.py")


class EndedChild(NamedTuple):
    """A child process that ended."""

    status: int
    """As `os.waitpid` returns it."""
    passes: list[str]
    """The passes that began, in their order."""
    unfinished: str | None
    """The pass that did not end."""
    printed: str
    """What it wrote to stderr besides the log."""


def run_in_child(work: Callable[[], object]) -> EndedChild:
    """Do work in a child process, and read from its log which passes ran."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 2)
        os.close(read)
        os.environ.update(
            TF_CPP_MIN_LOG_LEVEL="0", TF_CPP_VMODULE="hlo_pass_pipeline=1"
        )
        status = 0
        try:
            work()
        except Exception:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        os._exit(status)
    os.close(write)
    passes = list[str]()
    printed = list[str]()
    unfinished = None
    with os.fdopen(read, errors="replace") as lines:
        for line in lines:
            began = _PASS_BEGAN.search(line)
            ended = _PASS_ENDED.search(line)
            if began:
                unfinished = began[1].strip()
                passes.append(unfinished)
            elif ended and ended[1] == unfinished:
                unfinished = None
            elif not _LOG.match(line):
                printed.append(line)
            elif _PASSES_ENDED in line:
                unfinished = None
    return EndedChild(os.waitpid(child, 0)[1], passes, unfinished, "".join(printed))


def compile_in_child(work: Callable[[], object], *, prints_passes: bool) -> int:
    """Compile in a child process, name the pass that failed, and end like the child.

    Args:
        work: Compiles.
        prints_passes: Whether to print the HLO, in MLIR's generic form, after each pass
            that changes it.
    """
    dumps = Path.cwd() / "passes"
    last_text = ""
    if prints_passes:
        changed = ["--xla_dump_hlo_pass_re=.*", "--xla_dump_hlo_as_text"]
        add_xla_flags([f"--xla_dump_to={dumps}", *changed])
    child = run_in_child(work)
    if prints_passes:
        last_text = print_dumps(dumps)
    if child.status and child.unfinished:
        print_dump(f"{child.unfinished} Failed", child.unfinished, last_text)
    sys.stderr.write(child.printed)
    sys.stderr.flush()
    if os.WIFSIGNALED(child.status):
        os.kill(os.getpid(), os.WTERMSIG(child.status))
    return os.WEXITSTATUS(child.status)


def print_dumps(folder: Path) -> str:
    """Print the dumps of a module: of the one with the largest dump, if a script
    compiles several. Return the text of its last dump.
    """
    hlo_text = run_file("compilers/xla/hlo_text.py")
    paths = sorted(folder.glob("*.txt"), key=lambda path: path.stat().st_size)
    dumps = list(filter(None, (_DUMP.fullmatch(path.name) for path in paths)))
    chosen = [dump for dump in dumps if dump[1] == dumps[-1][1]]
    text = ""
    for number, dump in enumerate(sorted(chosen, key=lambda dump: dump[2])):
        name = dump[3]
        if name == "pipeline-start" and number > 0:  # it is repeated
            continue
        text = hlo_text.generic_form((folder / dump[0]).read_text())
        print_dump(name, name, text)
    return text


def print_dump(title: str, name: str, text: str) -> None:
    """Print HLO below the header of MLIR's dumps."""
    sys.stderr.write(f"// -----// IR Dump After {title} ({name}) //----- //\n{text}\n")


def run_program(options: argparse.Namespace) -> None:
    """Run a compiled program. Print its results and write them to files, or measure
    it.
    """
    header, _, program = options.module.read_bytes().partition(b"\n")
    content = json.loads(header)
    if isinstance(content, dict):
        run_script_worker()
        return
    add_xla_flags(content)
    call = Cpu().call(program, options.input)
    results = call()
    if options.benchmark_format:
        print(json.dumps({"benchmarks": measured_calls(call)}))
        return
    for index, result in enumerate(results):
        print(result_line(index, result))
    for file, result in zip(options.output, results, strict=bool(options.output)):
        write_result(Path(file.removeprefix("@")), result)


class Cpu:
    """Compiles programs for this machine's processor, and calls them."""

    def __init__(self) -> None:
        xla: Any = import_module("jaxlib.xla_client")
        self._client = xla.make_cpu_client()
        self._put: Any = getattr(self._client, "buffer_from_pyval", None)
        if self._put is None:
            jax: Any = import_module("jax")  # since 0.10 only JAX makes arrays
            jax.config.update("jax_enable_x64", val=True)  # keeps the program's types
            self._client = jax.devices("cpu")[0].client
            self._put = jax.device_put
        # a search may change the inputs alone
        self.compiled = lru_cache(1)(partial(cpu_executable, client=self._client))

    def call(self, program: bytes, inputs: list[str]) -> Callable[[], list[Any]]:
        """Return a function that runs a compiled program with these inputs and returns
        its results as numpy arrays.
        """
        import numpy as np

        executable = self.compiled(program)
        proto = executable.hlo_modules()[0].as_serialized_hlo_module_proto()
        xla: Any = import_module("jaxlib.xla_client")
        parameters = xla.XlaComputation(proto).program_shape().parameter_shapes()
        if len(inputs) != len(parameters):
            counts = f"{len(inputs)}, and the program takes {len(parameters)}"
            sys.exit(f"error: the number of inputs is {counts}")
        arguments = [
            self._put(argument_of(text, parameter.numpy_dtype()))
            for text, parameter in zip(inputs, parameters, strict=True)
        ]
        return lambda: [np.asarray(array) for array in executable.execute(arguments)]


def serve(flags: list[str]) -> None:
    """Answer requests until the input ends. A request or an answer is a text of JSON
    that follows its length, in 8 hexadecimal digits.
    """
    add_xla_flags(flags)
    source = sys.stdin.buffer
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not an answer
    cpu = Cpu()
    while len(header := source.read(8)) == 8:
        request = json.loads(source.read(int(header, 16)))
        data = json.dumps(answer_to(request, cpu)).encode()
        sink.write(f"{len(data):08x}".encode() + data)
        sink.flush()


def answer_to(request: dict[str, Any], cpu: Cpu) -> dict[str, Any]:
    """Compile the `program` of a request and call it with `inputs`, once for each byte
    of `patterns`, with which new memory is filled. Write arrays to the folders `0`,
    `1`, ... in `folder`.

    Returns `results`, the text that `run` prints for each call; or the `stage` that
    failed and its `error`.
    """
    stage = "compile"
    printed = []
    try:
        program = Path(request["program"]).read_bytes()
        cpu.compiled(program)
        stage = "run"
        call = cpu.call(program, request["inputs"])
        for number, pattern in enumerate(request["patterns"]):
            fill_new_memory(pattern)
            results = call()
            printed.append("\n".join(map(result_line, count(), results)))
            for index, result in enumerate(results):
                name = f"{index}.{run_values().type_name(result)}.bin"
                write_result(Path(request["folder"], str(number), name), result)
    except (Exception, SystemExit):
        return {"stage": stage, "error": traceback.format_exc()}
    return {"results": printed}


def fill_new_memory(pattern: int) -> None:
    """Make glibc fill new memory with a byte; 0 leaves it as it is."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, pattern)


def measured_calls(call: Callable[[], object]) -> list[dict[str, Any]]:
    """Measure calls, and report them as Google's benchmark library does."""
    calls = list[dict[str, Any]]()
    end = time.monotonic() + _SHORTEST
    while len(calls) < _FEWEST or time.monotonic() < end:
        began = time.perf_counter(), time.process_time()
        call()
        times = {
            "real_time": time.perf_counter() - began[0],
            "cpu_time": time.process_time() - began[1],
        }
        calls.append({"run_type": "iteration", "time_unit": "s", **times})
    return calls


def result_line(index: int, result: Any) -> str:
    """Return a result as `result[0]: 2x3xf32=1 2 3 4 5 6`, with at most eight
    numbers.
    """
    rest = " ..." if result.size > 8 else ""
    numbers = " ".join(map(str, result.ravel()[:8]))
    return f"result[{index}]: {run_values().type_name(result)}={numbers}{rest}"


def write_result(path: Path, result: Any) -> None:
    """Write an array as `.npy`, or its bytes alone. Raises TypeError if .npy files do
    not have its type.
    """
    import numpy as np

    if path.suffix != ".npy":
        result.tofile(path)
    elif result.dtype.isbuiltin == 1:
        np.save(path, result)
    else:
        raise TypeError(f"a .npy file cannot hold {result.dtype}")


def argument_of(text: str, dtype: Any) -> Any:
    """Return the array of a value such as `2x3xf32=1 2 3 4 5 6`, `4xbf16=@values.bin`
    or `@values.npy`. A number without a type, such as `5`, gets `dtype`.
    """
    values = run_values()
    array = values.read_value(text)
    if array is None:
        sys.exit(f"error: the value {text} cannot be read")
    return array.astype(dtype) if values.is_scalar(text) else array


def describe() -> None:
    """Print the version, the options and the passes of this jaxlib as JSON."""
    compiled = run_in_child(lambda: cpu_executable(_SMALL_PROGRAM))
    os.environ["XLA_FLAGS"] = "--help"  # prints the options and aborts
    helped = run_in_child(lambda: cpu_executable(_SMALL_PROGRAM))
    version = import_module("jaxlib.version")
    description = {
        "version": version.__version__,
        "commit": getattr(version, "_git_hash", None),
        "options": _FLAG.findall(helped.printed),
        "passes": list(dict.fromkeys(compiled.passes)),
    }
    print(json.dumps(description))


def main() -> int:
    """Do the work that the first argument names, and return the exit status."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors
    work = sys.argv[1]
    if work == "describe":
        describe()
        return 0
    if work == "serve":
        serve(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add = parser.add_argument
    if work != "script":
        add("--module" if work == "run" else "module", type=Path)
        add("-o", dest="target", type=Path)
    add("--benchmark_format")
    add("--passes")
    for name in ("--input", "--output"):
        add(name, action="append", default=[])
    options, rest = parser.parse_known_args(sys.argv[2:])
    if work == "run":
        run_program(options)
        return 0
    compile_action: Callable[[], object] = run_script_worker
    if work == "compile":
        add_xla_flags(rest)
        compile_action = partial(compile_program, options.module, options.target, rest)
    else:
        sys.argv[2:] = rest
    if options.passes:
        prints_passes = options.passes == "all"
        return compile_in_child(compile_action, prints_passes=prints_passes)
    compile_action()
    return 0


if __name__ == "__main__":
    sys.exit(main())
