"""`triage why`."""

from __future__ import annotations

import shlex
import time
from typing import Annotated

from triage.classify import ClassifiedLog, classify_log, load_rules
from triage.cli.context import one_case, open_runner
from triage.cli.exit_codes import Exit, command, exit_without_answer
from triage.cli.options import FormatOption, OneCase, duration_option, rev_option
from triage.cli.screen import AppContext
from triage.compilers.recipe_start import NoProgramError
from triage.report.document import plain_text
from triage.report.formats import write_report

_BUDGET = 60.0  # seconds


@command
def why(
    app: AppContext,
    chosen: OneCase,
    toolchain: Annotated[
        str | None,
        rev_option("Toolchain to explain the failure on (default: the newest release that fails).", "--toolchain", "-t"),
    ] = None,
    budget: Annotated[
        float | None, duration_option("Time for all steps after the first compile (default: 60s).", "--budget")
    ] = None,
    output: FormatOption = "text",
) -> Exit:
    """Explain one failure: how and where it fails, since which release, after which pass, and what works around it.

    Every step is that of another command: `bisect` over releases, `attribute` and `remedy`. A text without a program, such
    as a CI log, is classified. Exit 1 when a failure is found, also one that a newer release fixed; 0 when no release fails.

    - `triage why model.mlir --backend rocm --chip gfx942`

    - `triage why recipes/cuda-matmul-f32.yaml -t 3.3.0`

    - `triage why -- iree-compile model.mlir --iree-hal-target-backends=rocm`
    """
    from triage.nightly.explanation import Explainer, Explanation
    from triage.report.explanation import headline, why_document, why_facts

    started, path = time.monotonic(), chosen.recipe
    try:
        cases = chosen.load_all()
    except NoProgramError as error:
        if not path.is_file():  # standard input is read
            raise
        failures = classify_log(path, load_rules([]))
        words = ["PROGRAM", "--backend", chosen.program.backend or "BACKEND"]
        found = Explanation(
            str(path),
            log=ClassifiedLog(str(path), failures),
            reason=str(error),
            next=(shlex.join(["triage", "why", *words]), "triage why -- COMPILER PROGRAM FLAGS"),
        )
        write_report(output, found, why_document)
        return Exit.FOUND if failures else Exit.OK
    case = one_case(cases, chosen.case) if chosen.case else cases[0]
    matrix = case.name.partition("[")[2].rstrip("]") or None
    options = {"--backend": chosen.program.backend, "--chip": chosen.program.chip, "--case": matrix}
    words = [str(path), *(word for name, value in options.items() if value for word in (name, value))]
    words += [word for config in chosen.suite_config or () for word in ("--suite-config", str(config))]
    with open_runner(app, cases) as runner:
        if case is not cases[-1] and not chosen.case:
            runner.progress.note(f"{case.name}, the first of {len(cases)} cases; --case chooses another one")
        shown = set()
        explainer = Explainer(runner, case, cases, words, toolchain, _BUDGET if budget is None else budget, started)
        for found in explainer.explain():
            for line in (headline(found), *(f"{name}: {plain_text(text)}" for name, text in why_facts(found) if name)):
                if line not in shown:
                    runner.progress.note(line)
                shown.add(line)
    write_report(output, found, why_document)
    if found.status == "inconclusive":
        return exit_without_answer([found.cause])
    return Exit.FOUND if found.failure else Exit.OK
