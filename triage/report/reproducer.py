"""Writes the folder of a reproducer: program, recipe, JSON record, shell script and a README for an issue."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from triage.compilers.registry import family_of
from triage.compilers.repro_script import RULES_FILE
from triage.execution.judge import rules_of
from triage.model.case import Case, Flag, Target
from triage.model.errors import BadInput
from triage.model.execution import Ending, Limits, Stage
from triage.model.json_form import as_json
from triage.model.outcome import Compiled, Failed, Probe, Untestable
from triage.recipes.values import yaml_text
from triage.reduce.replay import RECIPE, RECORD
from triage.reduce.reproducer import Reproducer, VersionSpan, expectations, slug, span_around
from triage.report.elements import headline_text, numbers_text, revision_text
from triage.report.markdown import markdown_templates, plain_templates
from triage.report.printable import printable
from triage.toolchains.home import disk_errors

ISSUE = "issue.md"
_SCRIPT = "repro.sh"
_WRONG = {Stage.RUN: "then fails when it runs", Stage.COMPARE: "then computes a wrong result"}
_LANGUAGES = {".mlir": "mlir", ".py": "python", ".pyx": "cython", ".c": "c", ".cpp": "cpp", ".cc": "cpp", ".cu": "cuda"}
_OUTPUT_LINES = 40
_OUTPUT_WIDTH = 300
_WORD = re.compile(r"[a-z]+_?[0-9]\w*")  # YAML reads these only as strings
_MOST_PASTED = 40_000  # characters; GitHub accepts issues of 65536


def folder_for(out: Path, case: Case) -> Path:
    """Return the folder of a case's reproducer. Raises BadInput when anything but a reproducer is there."""
    folder = out / slug(case)
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file; pass a folder with --out")
    if (folder.exists() or folder.is_symlink()) and not (folder / RECORD).is_file():
        raise BadInput(f"{folder} exists and is not a reproducer (no {RECORD}); pass another folder with --out")
    return folder


def write_reproducer(reproducer: Reproducer, out: Path) -> Path:
    """Write the folder below `out`, replacing an older one of the same case in one step. Returns its path."""
    folder = folder_for(out, reproducer.case)
    with disk_errors(f"write the reproducer to {folder}"):
        write_folder(folder, reproducer_files(reproducer), executable=[_SCRIPT])
    return folder


def reproducer_files(reproducer: Reproducer) -> Mapping[str, str | bytes]:
    """Return the files of the folder by name. No text contains a local path or a time."""
    templates, pages_in_markdown = plain_templates(), markdown_templates()
    templates.filters["scalar"] = lambda text: json.dumps(str(text), ensure_ascii=False)
    case, failure, probes = reproducer.case, reproducer.failure, reproducer.reduction.probes
    span = span_around(probes, reproducer.bad)
    shared: dict[str, Any] = {
        "reproducer": reproducer,
        "case": case,
        "failure": failure,
        "bad": reproducer.bad.revision,
        "wrong": _WRONG.get(failure.stage),
        "headline": headline_text(failure, 400),
    }
    family = family_of(case)
    source, text = reproducer.compile.source, reproducer.reduction.program or ""
    call, scripts = family.script.call(reproducer.compile), family.script.files(reproducer.compile)
    files: dict[str, str | bytes] = {source: text, reproducer.file: reproducer.content, **scripts}
    files |= reproducer.values
    if reproducer.rules is not None:
        files[RULES_FILE] = reproducer.rules
    readme = {
        "call": call,
        "scripts": scripts,
        "noun": family.noun,
        "numbers": numbers_text(failure),
        "good": reproducer.reduction.good,
        "span": span_text(span),
        "text": text if len(text) <= _MOST_PASTED else None,
        "language": _LANGUAGES.get(Path(source).suffix, ""),
        "output": printable(_trimmed(reproducer.output)),  # a CI job may print the file
        "result": _result,
        "revision": revision_text,
    }
    pages: dict[str, dict[str, Any]] = {
        RECIPE: {
            "slug": slug(case),
            "keys": family.script.recipe_keys(case),
            "target": _target(case.target),
            "flags": [_flag(flag) for flag in case.flags],
            "memory": _size(case.limits.memory),
            "output": case.limits.output != Limits().output and _size(case.limits.output),
            "env": _env(case),
            "expect": expectations(probes),
        },
        _SCRIPT: {
            "call": call,
            "seconds": _has_ending(reproducer, Ending.TIMED_OUT) and round(case.limits.timeout),
            "kilobytes": _has_ending(reproducer, Ending.OVER_MEMORY) and case.limits.memory >> 10,
            "blocks": _has_ending(reproducer, Ending.OVER_OUTPUT) and case.limits.output >> 9,
            "exports": [shlex.join(["export", f"{name}={value}"]) for name, value in case.env if value is not None],
        },
        "README.md": readme,
        ISSUE: {**readme, "form": family.issue_form, "target": _target(case.target)},
    }
    for name, words in pages.items():
        environment = pages_in_markdown if name.endswith(".md") else templates
        files[name] = environment.get_template(f"reproducer/{name}.j2").render(**shared, **words)
    files[RECORD] = _record(reproducer, span, call.words)
    return files


def span_text(span: VersionSpan) -> str:
    """Return the first and last failing versions and their neighbours, as far as versions were tried."""
    first, last = span.first_bad.revision.name, span.last_bad.revision.name
    parts = []
    if span.before:
        name = span.before.revision.name
        parts.append(f"last good {name}" if span.last_good else f"{name} fails in another way")
    parts.append(f"first bad {first}")
    if span.untested:
        parts[-1] += f" ({', '.join(probe.revision.name for probe in span.untested)} could not be tested)"
    if last != first:
        parts.append(f"last bad {last}" if span.after else f"still failing in {last}")
    if span.after:
        name = span.after.revision.name
        parts.append(f"fixed in {name}" if span.first_good else f"{name} fails in another way")
    return ", ".join(parts)


def _record(reproducer: Reproducer, span: VersionSpan, command: Sequence[str]) -> str:
    """The text of `reproducer.json`: the reduction without what the other files hold."""
    record = as_json(reproducer.reduction)
    for key in ("program", "reproducer", "reason", "tried"):
        del record[key]
    ends = {"last_good": span.last_good, "first_bad": span.first_bad, "last_bad": span.last_bad, "first_good": span.first_good}
    record["versions"] = {name: probe.revision.name if probe else None for name, probe in ends.items()}
    record["command"] = list(command)
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _result(probe: Probe) -> str:
    match probe.outcome:
        case Compiled():
            return "right" if probe.case.run else "compiles"
        case Failed(failure=failure, flaky=flaky):
            return f"{failure.failure_class}{' (not every time)' if flaky else ''}: {headline_text(failure)}"
        case Untestable(reason=reason):
            return f"untestable: {reason}"


def _has_ending(reproducer: Reproducer, ending: Ending) -> bool:
    """Whether the failure's class describes processes that end like this."""
    rule = rules_of(reproducer.case).by_name.get(reproducer.failure.failure_class)
    return rule is not None and ending in rule.endings


def _target(target: Target) -> str:
    parts = [f"backend: {target.backend}"]
    if target.chip is not None:
        parts.append(f"chip: {target.chip if _WORD.fullmatch(target.chip) else json.dumps(target.chip)}")
    if target.devices is not None:
        parts.append(f"devices: {target.devices}")
    return ", ".join(parts)


def _flag(flag: Flag) -> str:
    if flag.since is None and flag.until is None:
        return json.dumps(flag.text, ensure_ascii=False)
    bounds = [(name, value) for name, value in (("since", flag.since), ("until", flag.until)) if value]
    words = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in (("flag", flag.text), *bounds)]
    return "{" + ", ".join(words) + "}"


def _env(case: Case) -> str:
    """The recipe's variables: its list of names, or its mapping to values."""
    variables = dict(case.env)
    return yaml_text(list(variables) if None in variables.values() else variables) if variables else ""


def _size(size: int) -> str:
    return next((f"{size >> bits}{unit}" for bits, unit in ((30, "GiB"), (20, "MiB")) if size % (1 << bits) == 0), f"{size}B")


def _trimmed(output: str) -> str:
    """The first lines of the compiler's output, long lines cut."""
    lines = [line if len(line) <= _OUTPUT_WIDTH else f"{line[:_OUTPUT_WIDTH]}…" for line in output.rstrip().splitlines()]
    more = len(lines) - _OUTPUT_LINES
    return "\n".join([*lines[:_OUTPUT_LINES], *([f"... {more} more lines"] if more > 0 else [])])


def write_folder(folder: Path, files: Mapping[str, str | bytes], executable: Collection[str] = ()) -> None:
    """Replace a folder by `files` (name -> content). The old folder is moved aside only when the new one is complete.

    executable: names of scripts. Raises OSError when the folder cannot be written.
    """
    new, old = (folder.with_name(f".{folder.name}.{word}") for word in ("new", "old"))
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir(parents=True)
    for name, content in files.items():
        (new / name).write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        (new / name).chmod(0o755 if name in executable else 0o644)
    if folder.is_dir():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
