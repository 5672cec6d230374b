"""Put the parts together: home, compilers, shed, evidence, prober, workbench."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from triage.classify import class_names, packaged_rules
from triage.cli.screen import open_progress, progress_of
from triage.compilers.families import Families
from triage.compilers.iree import ONNX_IMPORTER, Iree
from triage.compilers.triton import Triton
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.probe.evidence import Evidence
from triage.probe.inputs import Inputs
from triage.probe.judge import rules_of
from triage.probe.prober import Prober
from triage.probe.workbench import Workbench
from triage.recipes import load_recipes
from triage.toolchains.home import open_home
from triage.toolchains.shed import Place, Toolshed

COMPILERS = Families(Iree(), Triton())


@contextmanager
def open_bench(jobs: int | None = None, *, fresh: bool = False) -> Iterator[Workbench]:
    """A workbench that is taken down in order, whatever happens: compilers ended, store closed, bars away."""
    stop = threading.Event()
    shown = open_progress()
    home = open_home()
    evidence = Evidence(home / "evidence.db")
    try:
        progress = progress_of(shown)
        shed = Toolshed(home, COMPILERS, progress, stop)
        inputs = Inputs(home / "inputs", stop, fresh=fresh, onnx=ONNX_IMPORTER, importers=lambda: shed.python_roots(Iree.name))
        prober = Prober(home, COMPILERS, evidence, inputs, stop)
        yield Workbench(shed, prober, evidence, stop, jobs=jobs, progress=progress)
    except BaseException:
        stop.set()
        raise
    finally:
        if shown:
            shown.close()
        evidence.close()


def load_cases(paths: Sequence[Path]) -> tuple[Case, ...]:
    """The cases of recipes, with every mistake told at once. BadInput for a compiler that is not supported yet."""
    cases = load_recipes(paths, failure_names=expectable())
    check_compilers(cases)
    return cases


def expectable() -> set[str]:
    """What a recipe may expect: the failure classes and families there are."""
    return {*class_names(), *(rule.family for rule in packaged_rules())}


def check_compilers(cases: Sequence[Case]) -> None:
    """Know the families of the cases' commands. BadInput for a case whose compiler is not supported yet, BadFiles for a
    recipe's own rules with mistakes in them.
    """
    for case in cases:
        COMPILERS.meet(case)
        rules_of(case)
        if case.compiler not in COMPILERS:
            raise BadInput(f"{case.source}: compiler {case.compiler!r} is not supported yet; there is {', '.join(COMPILERS)}")


def cases_named(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """The cases whose name contains `text`; all without one. BadInput when there is none."""
    chosen = tuple(case for case in cases if text is None or text in case.name)
    if not chosen:
        raise BadInput(f"no case's name contains {text!r}; there is: {', '.join(case.name for case in cases)}")
    return chosen


def one_case(cases: Sequence[Case], name: str | None) -> Case:
    """The case a command is about. `name` may be the case's name, or the part of what stands in its brackets that tells
    it from the others, in any order.
    """
    exact = [case for case in cases if name in (case.name, case.name.partition("[")[2].rstrip("]"))]
    chosen = exact or [case for case in cases if name is None or _chooses(name, case)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(case.name for case in (chosen or cases))
    if not chosen:
        raise BadInput(f"there is no case {name!r}; there is: {names}")
    raise BadInput(f"which case? --case takes one of: {names}")


def _chooses(name: str, case: Case) -> bool:
    """Whether `key=value,key=value` says nothing that is not so of the case's matrix."""
    return {word.strip() for word in name.split(",")} <= {f"{key}={value}" for key, value in case.matrix}


def places_of(bench: Workbench, family: str, named: Sequence[str]) -> list[Place]:
    """The toolchains that are named of a family, each once, in the order given."""
    places = [bench.shed.place(text, family) for text in named]
    return list({place.revision.name: place for place in places}.values())
