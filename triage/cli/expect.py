"""`triage expect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, select_one_family
from triage.cli.exit_codes import Exit, command
from triage.cli.options import Compiling, FormatOption, FreshOption, SuiteOption, argument, flag, rev_option
from triage.compilers.registry import suite_reader
from triage.execution.judge import status_of
from triage.execution.task import ProbeJob
from triage.model.outcome import Compiled, Failed, Probe, Status, Untestable
from triage.recipes.expectations import ExpectationUpdate, LeftCase, ObservedCase, updated_expectations
from triage.report.formats import write_report
from triage.report.tables import update_document
from triage.toolchains.home import disk_errors, write_whole

app = typer.Typer(no_args_is_help=True, help="Update the lists of known failures.")


@app.callback()
def group() -> None:
    """Keep `update` a subcommand."""


@app.command()
@command
def update(
    compiling: Compiling,
    paths: Annotated[list[Path], argument("PATH...", "Recipe files, folders of recipes, or test suites.")],
    suite_config: SuiteOption = None,
    toolchain: Annotated[str, rev_option("Toolchain whose results are expected.", "--toolchain", "-t")] = "latest",
    prune: Annotated[bool, flag("Remove listed tests that do not exist, too.", "--prune")] = False,
    fresh: FreshOption = False,
    dry_run: Annotated[bool, flag("Print the changes as a diff and write nothing.", "--dry-run")] = False,
    output: FormatOption = "text",
) -> Exit:
    """Rewrite the lists of known failures to match the results of a toolchain.

    Cached results are used; what is not known is compiled and run. Comments, order and layout of the files stay. In a suite
    config a test that passes leaves its list, and one that fails at another stage moves to the other list. In a recipe or
    its file of known failures an entry ends at this version. Flaky and untestable cases are named and stay as they are;
    a known failure that was not seen is tried once more.

    - `triage expect update recipes/ -t 3.13.0 --dry-run`

    - `triage expect update iree-test-suites/onnx_ops --suite-config onnx_ops_cpu.json -t 3.13.0` updates the config
    """
    selection = select_one_family(load_cases(paths, suite_config), (toolchain,), "expect update")
    with compiling.open(*selection.cases, fresh=fresh) as runner:
        [ref] = selection.refs(runner)
        probes = list(runner.probe_all([ProbeJob(case, ref) for case in selection.cases]))
        # A known failure that was not seen may come back: it is compiled and run once more.
        passes = [ProbeJob(probe.case, ref, fresh=True) for probe in probes if status_of(probe) is Status.XPASS]
        again = runner.probe_all(passes, "unexpected passes")
        unsure = {probe.case.name for probe in again if not isinstance(probe.outcome, Compiled)}
    left: list[LeftCase] = []
    observed: dict[Path, list[ObservedCase]] = {}
    for probe in probes:
        seen = observed.setdefault(probe.case.source, [])
        if reason := "flaky: it passes and fails" if probe.case.name in unsure else _doubt(probe):
            left.append(LeftCase(probe.case.name, reason))
        else:
            seen.append(ObservedCase(probe.case, probe.version, probe.outcome.failure))
    files = []
    for source, seen in observed.items():
        if suite_config:
            files.append(suite_reader().updated_config(paths, source, seen, prune=prune))
        elif seen:
            files.append(updated_expectations(source, seen, sum(case.source == source for case in selection.cases) - len(seen)))
    for file in files if not dry_run else ():
        if file.new != file.old:
            with disk_errors(f"write {file.path}"):
                write_whole(file.path, file.new)
    left += [one for file in files for one in file.left]
    write_report(output, ExpectationUpdate(ref.revision, files, left, written=not dry_run), update_document)
    return Exit.OK


def _doubt(probe: Probe) -> str | None:
    match probe.outcome:
        case Untestable(reason=reason):
            return f"untestable: {reason}"
        case Failed(failure, flaky=True):
            return f"flaky: {failure.failure_class}"
    return None
