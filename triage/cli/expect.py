"""`triage expect`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from triage.cli.context import load_cases, open_runner, select_one_family
from triage.cli.exit_codes import Exit, command
from triage.cli.options import FreshOption, JobsOption, SuiteOption, format_option, rev_option
from triage.compilers.registry import suite_reader
from triage.execution.judge import status_of
from triage.execution.task import ProbeJob
from triage.model.case import Case
from triage.model.outcome import Compiled, Failed, Probe, Status, Untestable
from triage.recipes.expectations import ExpectationUpdate, LeftCase, ObservedCase, UpdatedFile, updated_expectations
from triage.report.expectations import update_document
from triage.report.formats import write_report
from triage.toolchains.home import disk_errors, write_whole

app = typer.Typer(no_args_is_help=True, help="Update the lists of known failures.")


@app.callback()
def group() -> None:
    """Keep `update` a subcommand."""


@app.command()
@command
def update(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Recipe files, folders of recipes, or test suites.")],
    suite_config: SuiteOption = None,
    toolchain: Annotated[str, rev_option("--toolchain", "-t", text="Toolchain that was seen.")] = "latest",
    prune: Annotated[bool, typer.Option("--prune", help="Remove listed tests that do not exist, too.")] = False,
    jobs: JobsOption = None,
    fresh: FreshOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes as a diff and write nothing.")] = False,
    output: Annotated[str, format_option()] = "text",
) -> Exit:
    """Rewrite the lists of known failures to match the results of a toolchain.

    Cached results are used; what is not known is compiled and run. Comments, order and layout of the files stay. In a suite
    config a test that passes leaves its list, and one that fails at another stage moves to the other list. In a recipe or
    its file of known failures an entry ends at this version. Flaky and untestable cases are named and stay as they are;
    a known failure that was not seen is tried once more.

    - `triage expect update recipes/ -t 3.13.0 --dry-run` shows what would change

    - `triage expect update iree-test-suites/onnx_ops --suite-config onnx_ops_cpu.json -t 3.13.0` updates the config
    """
    selection = select_one_family(load_cases(paths, suite_config), (toolchain,), "expect update")
    with open_runner(context.obj, selection.cases, jobs, fresh=fresh) as runner:
        ref = runner.registry.resolve(selection.revs[0], selection.family)
        planned = [ProbeJob(case, ref) for case in selection.cases]
        probes = {probe.case.name: probe for probe in runner.probe_all(planned)}
        # A known failure that was not seen may come back: it is compiled and run once more.
        passes = [probe.case for probe in probes.values() if status_of(probe) is Status.XPASS]
        again = runner.probe_all([ProbeJob(case, ref, fresh=True) for case in passes], "unexpected passes")
        unsure = {probe.case.name for probe in again if not isinstance(probe.outcome, Compiled)}
    doubts = {name: "flaky: it passes and fails" if name in unsure else _doubt(probe) for name, probe in probes.items()}
    files = _updated(selection.cases, probes, doubts, paths if suite_config else (), prune=prune)
    for file in files if not dry_run else ():
        if file.new != file.old:
            with disk_errors(f"write {file.path}"):
                write_whole(file.path, file.new)
    left = [LeftCase(name, reason) for name, reason in doubts.items() if reason]
    left += [one for file in files for one in file.left]
    write_report(output, ExpectationUpdate(ref.revision, files, left, written=not dry_run), update_document)
    return Exit.OK


def _updated(
    cases: Sequence[Case],
    probes: Mapping[str, Probe],
    doubts: Mapping[str, str | None],
    suites: Sequence[Path],
    *,
    prune: bool,
) -> list[UpdatedFile]:
    """Return every file with known failures as it should be.

    doubts: why a case decides nothing, by name; suites: folders, when the files are configs of these.
    """
    files = []
    for source in dict.fromkeys(case.source for case in cases):
        own = [case for case in cases if case.source == source]
        certain = [probes[case.name] for case in own if not doubts[case.name]]
        observed = [ObservedCase(probe.case, probe.version, probe.outcome.failure) for probe in certain]
        if suites:
            files.append(suite_reader().updated_config(suites, source, observed, prune=prune))
        elif observed:
            files.append(updated_expectations(source, observed, len(own) - len(observed)))
    return files


def _doubt(probe: Probe) -> str | None:
    """Return why a probe cannot change a list of known failures, if it cannot."""
    match probe.outcome:
        case Untestable(reason=reason):
            return f"untestable: {reason}"
        case Failed(failure, flaky=True):
            return f"flaky: {failure.failure_class}"
    return None
