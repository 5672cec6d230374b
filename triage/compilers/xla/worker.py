"""Compiles programs with the jaxlib of the interpreter that starts this script, and
runs them; imports nothing of triage.

    worker.py compile [--print-after=PASS] [--generic] [--name-pass] [--xla_OPTION...]
        PROGRAM -o OUTPUT
    worker.py run --module=OUTPUT [--input=V...] [--expected_output=V...]
        [--output=@FILE...] [--tolerances=JSON]
        [--benchmark_format=json]
    worker.py serve [--xla_OPTION...]
    worker.py describe

PROGRAM is StableHLO (a text, bytecode or a portable artifact) or the text of HLO.
OUTPUT is a line of JSON with the options, then the program: a run compiles again,
because not every release can load what it compiled. `serve` compiles and runs one
program after another, see `served`. Lines on stdout that begin with
`triage: ` are JSON about the compile.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_PASS = re.compile(r"hlo_pass_pipeline\.cc:\d+\]\s+HLO pass ([^:]+)$")
_ENDED = re.compile(
    r"hlo_pass_pipeline\.cc:\d+\]\s+HLO pass: (.+) time:|initializing LLVM"
)
_LOG = re.compile(r"^\s*(?:[IW]\d{4} |\d{4}-\d\d-\d\d [\d:.]+: [IW] )")
_DUMP = re.compile(
    r"module_(\d+)\..*\.(\d{4})\.[^/]*?\.after_([^/]+)\.before_[^/]+\.txt"
)
_FLAG = re.compile(r"^\s*--(xla_\w+)=\S*\s+(\w+)", re.MULTILINE)
_ELEMENTS = {
    "pred": "bool",
    "i1": "bool",
    "bf16": "bfloat16",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}
_ELEMENTS |= {"complex<f32>": "complex64", "complex<f64>": "complex128"}
_KINDS = {"f": "float", "i": "int", "si": "int", "s": "int", "ui": "uint", "u": "uint"}
_M_PERTURB = -6  # an option of glibc's mallopt
_SECONDS, _SAMPLES = 0.1, 3  # of each measurement, at least
_SMALL = b"""func.func public @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %y = stablehlo.tanh %x : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}"""


def say(text: str) -> None:
    """Print a line."""
    sys.stdout.write(f"{text}\n")


def refuse(text: str) -> int:
    """Print an error, and return the exit status."""
    sys.stderr.write(f"error: {text}\n")
    return 2


def executable_of(program: bytes, client: Any = None) -> Any:
    """Compile a program for this machine's processor. Raises what jaxlib raises."""
    xla: Any = import_module("jaxlib.xla_client")
    if b"custom_call" in program or b"custom-call" in program:
        import_module("jax")  # registers the kernels of LAPACK
    client = client or xla.make_cpu_client()
    if program.lstrip().startswith(b"HloModule"):
        program = _from_hlo(xla, program.decode())
    options = xla.CompileOptions()
    if not hasattr(client, "compile_and_load"):
        return client.compile(program, options)
    return client.compile_and_load(
        program, xla.DeviceList(tuple(client.devices()[:1])), options
    )


def _from_hlo(xla: Any, text: str) -> Any:
    """Return the StableHLO of a text of HLO."""
    module = (xla.hlo if hasattr(xla, "hlo") else xla._xla).hlo_module_from_text(text)  # noqa: SLF001
    proto, convert = module.as_serialized_hlo_module_proto(), xla._xla.mlir  # noqa: SLF001
    if hasattr(convert, "hlo_to_stablehlo"):
        return convert.hlo_to_stablehlo(proto)
    return convert.xla_computation_to_mlir_module(xla.XlaComputation(proto))


def compile_program(source: Path, output: Path, flags: list[str]) -> int:
    """Compile a program, write OUTPUT, and print what the executable needs."""
    program = source.read_bytes()
    executable = executable_of(program)
    output.write_bytes(json.dumps(flags).encode() + b"\n" + program)
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    memory = executable.get_compiled_memory_stats()
    counts = {
        "instructions": len(re.findall(r"(?m)^\s+(?:ROOT )?%?[\w.-]+ = ", text)),
        "fusions": text.count(" fusion("),
    }
    sizes = {
        "temp_bytes": memory.temp_size_in_bytes,
        "code_bytes": memory.generated_code_size_in_bytes,
    }
    say("triage: " + json.dumps({"metrics": counts | sizes}))
    return 0


def in_child(work: Callable[[], int]) -> tuple[int, list[str], str]:
    """Do work in a child process that logs the passes.

    Returns:
        Its status as `os.waitpid` returns it, the passes that it began, where the last
            is empty if it ended, and what else it
        wrote to stderr.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write, 2)
        os.close(read)
        os.environ.update(
            TF_CPP_MIN_LOG_LEVEL="0", TF_CPP_VMODULE="hlo_pass_pipeline=1"
        )
        os._exit(guarded(work))
    os.close(write)
    passes, printed = list[str](), list[str]()
    with os.fdopen(read, errors="replace") as lines:
        for line in lines:
            found = _PASS.search(line)
            if found:
                passes.append(found[1].strip())
            elif (
                (ended := _ENDED.search(line))
                and passes
                and ended[1] in (passes[-1], None)
            ):
                passes.append("")
            elif not _LOG.match(line):
                printed.append(line)
    return os.waitpid(child, 0)[1], passes, "".join(printed)


def guarded(work: Callable[[], int]) -> int:
    """Do work; print the traceback of an error."""
    try:
        return work()
    except Exception:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def compile_in_child(work: Callable[[], int], after: str | None, generic: bool) -> int:
    """Compile, and name the pass that failed. `after`: print the HLO after this pass,
    or `all`, where a pass changed it.
    """
    dumps = Path.cwd() / "passes"
    if after:
        os.environ["XLA_FLAGS"] += (
            f" --xla_dump_to={dumps} --xla_dump_hlo_pass_re=.* --xla_dump_hlo_as_text"
        )
    status, passes, printed = in_child(work)
    if after:
        text = print_dumps(dumps, after, generic=generic)
    else:
        text = ""
    if status and passes and passes[-1]:
        sys.stderr.write(
            f"// -----// IR Dump After {passes[-1]} Failed ({passes[-1]}) //----- "
            f"//\n{text}\n"
        )
    sys.stderr.write(printed)
    sys.stderr.flush()
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.WEXITSTATUS(status)


def print_dumps(folder: Path, after: str, *, generic: bool) -> str:
    """Print the dumps of a compile, all or those after one pass, and return the text of
    the last.
    """
    sys.path.insert(0, str(Path(__file__).parent))
    generic_form: Callable[[str], str] = import_module("hlo_text").generic_form
    found = [
        (match[1], match[2], match[3], path)
        for path in folder.glob("*.txt")
        if (match := _DUMP.fullmatch(path.name))
    ]
    text, modules = "", sorted(found)
    for number, (module, _, name, path) in enumerate(modules):
        if module == modules[0][0] and (name != "pipeline-start" or number == 0):
            text = path.read_text()
            if generic:
                text = generic_form(text)
            if after in ("all", name):
                sys.stderr.write(
                    f"// -----// IR Dump After {name} ({name}) //----- //\n{text}\n"
                )
    return text


def run_program(module: Path, options: argparse.Namespace) -> int:
    """Run a compiled program; print, write, compare or measure its results."""
    header, _, program = module.read_bytes().partition(b"\n")
    os.environ["XLA_FLAGS"] = " ".join(
        [os.environ.get("XLA_FLAGS", ""), *json.loads(header)]
    )
    client, put = cpu_client()
    executable = executable_of(program, client)
    types = parameter_types(executable)
    if len(types) != len(options.input):
        return refuse(
            f"the number of inputs is {len(options.input)}, and the program takes "
            f"{len(types)}"
        )
    call = call_of(executable, options.input, put)
    results = call()
    if options.benchmark_format:
        say(json.dumps({"benchmarks": iterations_of(call)}))
        return 0
    for index, result in enumerate(results):
        say(f"result[{index}]: {result_text(result)}")
    for file, result in zip(options.output, results, strict=False):
        write_result(Path(file.removeprefix("@")), result)
    wrong = first_mismatch(results, options.expected_output, options.tolerances)
    if wrong:
        say("triage: " + json.dumps({"mismatch": wrong}))
        return 1
    return 0


def call_of(
    executable: Any, inputs: list[str], put: Callable[[Any], Any]
) -> Callable[[], list[Any]]:
    """Return a function that runs a program with these values; its results are numpy
    arrays.
    """
    import numpy as np

    types = parameter_types(executable)
    arguments = [
        put(value(text, kind)) for text, kind in zip(inputs, types, strict=True)
    ]
    return lambda: [np.asarray(array) for array in executable.execute(arguments)]


def serve(flags: list[str]) -> int:
    """Answer requests until the input ends. A request and an answer are JSON after its
    length in 8 hexadecimal digits.
    """
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not an answer
    client, put = cpu_client()
    known = dict[bytes, Any]()
    while len(header := source.read(8)) == 8:
        request = json.loads(source.read(int(header, 16)))
        data = json.dumps(served(request, known, client, put)).encode()
        sink.write(f"{len(data):08x}".encode() + data)
        sink.flush()
    return 0


def served(
    request: dict[str, Any],
    known: dict[bytes, Any],
    client: Any,
    put: Callable[[Any], Any],
) -> dict[str, Any]:
    """Compile `program` and call it with `inputs`, once for each of `patterns`, the
    byte that fills new memory. `known` has the last program.

    Return `results`, what `run` prints of each call, with the arrays in the folders
    `0`, `1`, ... of `folder`; or `stage` and `error`.
    """
    program, stage = Path(request["program"]).read_bytes(), "compile"
    try:
        if program not in known:
            known.clear()
            known[program] = executable_of(program, client)
        stage, printed = "run", []
        call = call_of(known[program], request["inputs"], put)
        for number, pattern in enumerate(request["patterns"]):
            fill_memory(pattern)
            lines = []
            for index, result in enumerate(call()):
                lines.append(f"result[{index}]: {result_text(result)}")
                name = f"{index}{ending_of(result)}"
                write_result(Path(request["folder"], str(number), name), result)
            printed.append("\n".join(lines))
    except Exception:
        return {"stage": stage, "error": traceback.format_exc()}
    return {"results": printed}


def fill_memory(pattern: int) -> None:
    """Let glibc fill new memory with a byte, or with nothing for 0."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, pattern)


def cpu_client() -> tuple[Any, Callable[[Any], Any]]:
    """Return a client of the CPU, and the function that copies a numpy array to it."""
    xla: Any = import_module("jaxlib.xla_client")
    client = xla.make_cpu_client()
    put = getattr(client, "buffer_from_pyval", None)
    if put is not None:
        return client, put
    jax: Any = import_module("jax")  # since 0.10 only JAX makes arrays
    jax.config.update("jax_enable_x64", val=True)  # values keep the program's types
    return jax.devices("cpu")[0].client, jax.device_put


def parameter_types(executable: Any) -> list[str]:
    """Return the element types of a program's parameters, in HLO's words."""
    layout = re.search(
        r"entry_computation_layout=\{\((.*?)\)->",
        executable.hlo_modules()[0].to_string(),
    )
    return re.findall(r"(\w+)\[[\d,<=]*\]", layout[1] if layout else "")


def iterations_of(call: Callable[[], object]) -> list[dict[str, Any]]:
    """Measure calls as Google's benchmark library reports iterations."""
    iterations = list[dict[str, Any]]()
    end = time.monotonic() + _SECONDS
    while len(iterations) < _SAMPLES or time.monotonic() < end:
        began = time.perf_counter(), time.process_time()
        call()
        times = {
            "real_time": time.perf_counter() - began[0],
            "cpu_time": time.process_time() - began[1],
        }
        iterations.append({"run_type": "iteration", "time_unit": "s", **times})
    return iterations


def result_text(result: Any) -> str:
    """`2x3xf32=1 2 3 4 5 6`, with the first eight numbers."""
    kind = "x".join([*map(str, result.shape), element_name(result.dtype)])
    rest = " ..." if result.size > 8 else ""
    return f"{kind}={' '.join(map(str, result.ravel()[:8]))}{rest}"


def ending_of(result: Any) -> str:
    """Return the end of the name of a result's file: `.npy`, or `.2x3xbf16.bin` for a
    type that no such file holds.
    """
    element = element_name(result.dtype)
    if element.startswith(("bf16", "f8")):
        return f".{'x'.join([*map(str, result.shape), element])}.bin"
    return ".npy"


def write_result(path: Path, result: Any) -> None:
    """Write an array as `.npy`, or its bytes alone."""
    import numpy as np

    if path.suffix == ".npy":
        np.save(path, result)
    else:
        result.tofile(path)


def first_mismatch(
    results: list[Any], expected: list[str], tolerances: dict[str, float]
) -> dict[str, Any]:
    """Return where the first wrong result differs, if one does."""
    for index, (text, result) in enumerate(zip(expected, results, strict=False)):
        wrong = difference(result, value(text, str(result.dtype)), tolerances)
        if wrong:
            return {"output": index, **wrong}
    return {}


def value(text: str, element: str) -> Any:
    """Return the array of a value such as `2x3xf32=1 2 3 4 5 6`, `4xbf16=@values.bin`,
    `@values.npy` or `5`.

    `element` is the type of a number.
    """
    import numpy as np

    kind, equals, content = text.rpartition("=")
    if not equals:
        if text.startswith("@"):
            return np.load(text[1:])
        return np.asarray(float(text)).astype(dtype_of(element))
    *sizes, name = kind.split("x")
    shape, dtype = [int(size) for size in sizes], dtype_of(name)
    if content.startswith("@"):
        if content.endswith(".npy"):
            return np.load(content[1:])
        return np.fromfile(content[1:], dtype).reshape(shape)
    words = [
        {"true": "1", "false": "0"}.get(word, word)
        for word in re.split(r"[\s,\[\]]+", content)
        if word
    ] or ["0"]
    array = np.array(
        [float(word) if "float" in str(dtype) else int(word) for word in words]
    ).astype(dtype)
    if array.size == 1:
        return np.full(shape, array[0], dtype)
    return array.reshape(shape)


def dtype_of(element: str) -> Any:
    """Return the type of numpy for an element type of MLIR, HLO or numpy."""
    import numpy as np

    match = re.fullmatch(r"(si|ui|[fisu])(\d+)", element)
    name = _ELEMENTS.get(element, _KINDS[match[1]] + match[2] if match else element)
    return np.dtype(
        name if name in np.sctypeDict else getattr(import_module("ml_dtypes"), name)
    )


def element_name(dtype: Any) -> str:
    """`f32` of numpy's float32."""
    names = {name: element for element, name in _ELEMENTS.items()}
    return names.get(str(dtype)) or re.sub(
        r"^(float|uint|int)",
        lambda kind: {"float": "f", "int": "i", "uint": "ui"}[kind[0]],
        str(dtype),
    )


def difference(
    result: Any, expected: Any, tolerances: dict[str, float]
) -> dict[str, Any]:
    """Return where a result differs by more than its tolerance, if it does."""
    import numpy as np

    if result.shape != expected.shape:
        sizes = ["x".join(map(str, array.shape)) for array in (result, expected)]
        return {"kind": "metadata", "actual": sizes[0], "expected": sizes[1]}
    name = element_name(result.dtype)
    if name in tolerances:
        relative = tolerances.get("relative", 0.0)
    else:
        relative = 0.0
    got, want = (
        array.astype(array.dtype if array.dtype.kind in "iubc" else np.float64)
        for array in (result, expected)
    )
    wrong = np.flatnonzero(
        ~np.isclose(
            got, want, rtol=relative, atol=tolerances.get(name, 0.0), equal_nan=True
        )
    )
    if not wrong.size:
        return {}
    got, want = (number_text(array.flat[wrong[0]]) for array in (result, expected))
    return {"element": int(wrong[0]), "actual": got, "expected": want}


def number_text(number: Any) -> str:
    """`0.5` of a number of any type of numpy."""
    if number.dtype.kind == "c":
        return f"{complex(number):g}"
    return f"{float(number):g}"


def describe() -> int:
    """Print the version, the options and the passes of this jaxlib as JSON."""

    def asking() -> int:
        os.environ["XLA_FLAGS"] = "--help"  # prints the options and aborts
        return bool(executable_of(_SMALL))

    usage = in_child(asking)[2]
    passes = in_child(lambda: executable_of(_SMALL) is None)[1]
    version = import_module("jaxlib.version")
    known = {
        "version": version.__version__,
        "commit": getattr(version, "_git_hash", None),
    }
    say(
        json.dumps(
            {
                **known,
                "options": _FLAG.findall(usage),
                "passes": list(dict.fromkeys(filter(None, passes))),
            }
        )
    )
    return 0


def main() -> int:
    """Do what the first argument says, and return the exit status."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # warnings and errors
    parser, work = argparse.ArgumentParser(allow_abbrev=False), sys.argv[1]
    add = parser.add_argument
    if work == "describe":
        return describe()
    if work == "serve":
        return serve(sys.argv[2:])
    add("--module" if work == "run" else "module", type=Path)
    add("-o", dest="target", type=Path)
    add("--print-after")
    add("--tolerances", type=json.loads, default={})
    add("--benchmark_format")
    for name in ("--generic", "--name-pass"):
        add(name, action="store_true")
    for name in ("--input", "--expected_output", "--output"):
        add(name, action="append", default=[])
    options, rest = parser.parse_known_args(sys.argv[2:])
    if work == "run":
        return guarded(lambda: run_program(options.module, options))
    os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *rest])
    if options.name_pass or options.print_after:
        return compile_in_child(
            lambda: compile_program(options.module, options.target, rest),
            options.print_after,
            options.generic,
        )
    return guarded(lambda: compile_program(options.module, options.target, rest))


if __name__ == "__main__":
    sys.exit(main())
