"""Report of `triage reduce`, and the folder of a reproducer: program, recipe, JSON
record, shell script, README.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

from triage.compilers.registry import family_of
from triage.compilers.repro_script import RULES_FILE, StandaloneCall
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.execution import Limits
from triage.model.fields import Json, as_json, file_keys
from triage.model.outcome import ProbeResult
from triage.model.revision import FamilyRef
from triage.recipes.values import format_size, recipe_lines
from triage.reduce.reproducer import (
    RECIPE,
    RECORD,
    Reproducer,
    expected_windows,
    folder_name,
)
from triage.reduce.result import Reduction
from triage.report.document import (
    Block,
    Code,
    Document,
    Fact,
    Phrase,
    Span,
    facts,
    rendered,
)
from triage.report.elements import (
    failure_facts,
    headline_text,
    listed_facts,
    outcome_text,
    plural,
    revision_text,
)
from triage.report.issue import replays_text, reproducer_issue
from triage.toolchains.home import disk_errors

_SCRIPT = "repro.sh"
_PROGRAM_LINES = 40  # on a terminal; the folder has all of them


def folder_for(out: Path, case: Case) -> Path:
    """Return the folder of a case's reproducer. Raises BadInput when anything but a
    reproducer is there.
    """
    folder = out / folder_name(case)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file; pass a folder with --out")
    if (folder.exists() or folder.is_symlink()) and not (folder / RECORD).is_file():
        raise BadInput(
            f"{folder} exists and is not a reproducer (no {RECORD}); pass another "
            "folder with --out"
        )
    return folder


def write_reproducer(reproducer: Reproducer, out: Path) -> Path:
    """Write the folder below `out` and return its path. An older one of the same case
    is replaced as a whole.
    """
    folder = folder_for(out, reproducer.case)
    with disk_errors(f"write the reproducer to {folder}"):
        new = folder.with_name(f".{folder.name}.new")
        old = folder.with_name(f".{folder.name}.old")
        for left in (new, old):
            shutil.rmtree(left, ignore_errors=True)
        new.mkdir(parents=True)
        for name, content in reproducer_files(reproducer).items():
            data = content.encode() if isinstance(content, str) else content
            (new / name).write_bytes(data)
        (new / _SCRIPT).chmod(0o755)
        if folder.is_dir():
            folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    return folder


def reproducer_files(reproducer: Reproducer) -> Mapping[str, str | bytes]:
    """Return the files of the folder by name. No text contains a local path or a
    time.
    """
    source = reproducer.compile.source
    texts: dict[str, str | bytes] = {**reproducer.files}
    if reproducer.reduction.program is not None:
        texts[source] = reproducer.reduction.program
    call = family_of(reproducer.case).standalone(reproducer.compile)
    texts |= call.files
    texts[RECIPE] = _recipe(reproducer)
    texts[_SCRIPT] = _script(reproducer, call)
    texts["README.md"] = rendered("markdown", reproducer, reproducer_issue)
    record = as_json(reproducer.reduction)
    # the other files hold the program, and only a failed reduction has a reason
    for key in ("program", "reproducer", "reason", "cause"):
        del record[key]
    record["evidence"] = [
        _reproducible_facts(version) for version in reproducer.reduction.evidence
    ]
    record["versions"] = reproducer.reduction.replays
    texts[RECORD] = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    return texts


def _reproducible_facts(result: ProbeResult) -> Json:
    """Return what is the same whenever and wherever the program is compiled."""
    failure = result.failure if result.failed else None
    return {
        "version": result.toolchain.name,
        "commit": result.toolchain.commit,
        "status": result.plain_status.value,
        "signature": failure and failure.signature,
        "headline": failure and failure.headline,
        "reason": result.reason,
    }


def _recipe(reproducer: Reproducer) -> str:
    """Return a recipe of the reduced program, which expects the state when the program
    was reduced.
    """
    case = reproducer.case
    summary = f"Reduced from {case.name}{f': {case.summary}' if case.summary else ''}"
    flags = [flag if flag.since or flag.until else flag.text for flag in case.flags]
    variables = dict(case.env)
    values = {
        "name": f"{folder_name(case)}-reduced",
        "summary": summary,
        **keys_of_case(case, reproducer.file),
        "flags": flags,
        "phase": case.phase,
        "env": list(variables) if None in variables.values() else variables,
        "limits": _limits_keys(case.limits),
        "expect": expected_windows(reproducer.reduction.probes),
    }
    return "\n".join([*recipe_lines(values), ""])


def keys_of_case(case: Case, source: str) -> dict[str, object]:
    """Return the keys of a recipe that say what a case compiles and runs. `source` is
    the name of its input.
    """
    ref = FamilyRef.parse(case.compiler)
    run = case.run
    keys: dict[str, object] = {"compiler": ref.kind, "input": source}
    if run:
        run_keys = {
            "inputs": run.inputs,
            "expected": run.expected,
            "function": run.function,
            "device": run.device,
            "flags": run.flags,
            "tolerance": dict(run.tolerances),
            "limits": _limits_keys(run.limits),
        }
        keys["run"] = {name: value for name, value in run_keys.items() if value}
    keys["package"] = ref.packages
    if case.spec:
        keys |= file_keys(case.spec)
    if case.rules:
        keys["rules"] = RULES_FILE
    return {**keys, "target": case.target}


def _limits_keys(limits: Limits) -> dict[str, str]:
    """Return limits as a recipe has them; the usual one for output is left out."""
    keys = {"timeout": limits.timeout_text, "memory": format_size(limits.memory)}
    if limits.output != Limits().output:
        keys["output"] = format_size(limits.output)
    return keys


def _script(reproducer: Reproducer, call: StandaloneCall) -> str:
    """Return a shell script that compiles the program as triage did."""
    from jinja2 import StrictUndefined, Template  # slow to import

    template = files("triage.report").joinpath("templates", "repro.sh.j2")
    script = Template(
        template.read_text("utf-8"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    text: str = script.render(
        headline=" ".join(headline_text(reproducer.failure).split()),
        program=reproducer.compile.program,
        bad=reproducer.bad,
        runs=reproducer.compile.run,
        ending=reproducer.failure.failure_class,
        case=reproducer.case,
        call=call,
        quote=shlex.quote,
    )
    return text


def reduction_document(result: Reduction, reproducer: Reproducer | None) -> Document:
    """Show the reduced program and what is known of its failure, or why there is
    none.
    """
    case = Span(result.case, "strong")
    if reproducer is None:
        title: Phrase = [case, ": ", Span("not reduced", "warning")]
        texts = [
            f"{version.toolchain.name}: {outcome_text(version)}"
            for version in result.evidence
        ]
        rows = [("reason", result.reason), *listed_facts("tried", texts)]
        return Document("Reduction", [title, facts(rows)])
    blocks: list[Block] = [[case, " is now ", Span(result.size, "strong")]]
    lines = (result.program or "").rstrip().splitlines()
    if lines:
        blocks.append(Code("\n".join(lines[:_PROGRAM_LINES])))
    if len(lines) > _PROGRAM_LINES:
        blocks.append(f"... {plural(len(lines) - _PROGRAM_LINES, 'more line')}")
    blocks.append(facts(_reduction_facts(result, reproducer)))
    return Document("Reduction", blocks)


def _reduction_facts(result: Reduction, reproducer: Reproducer) -> Iterator[Fact]:
    yield from failure_facts(reproducer.failure)
    yield "bad", revision_text(result.bad)
    yield "versions", replays_text(result.replays)
    sizes = {f"{result.unit}s": result.sizes, "bytes": result.bytes}
    texts = [f"{size.before} -> {size.after} {name}" for name, size in sizes.items()]
    yield "size", ", ".join(texts)
    yield "cost", f"{plural(result.oracle_calls, 'compile')}, {result.seconds:.1f} s"
    yield "written", result.reproducer
