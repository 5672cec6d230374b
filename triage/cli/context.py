"""Put the parts together: home, compilers, shed, evidence, prober, workbench."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from triage.classify import packaged_rules
from triage.cli.screen import open_progress, progress_of, tell
from triage.compilers.registry import DEFAULT_FAMILY, Families, family_of, onnx_family
from triage.execution.cache import Evidence
from triage.execution.inputs import Inputs
from triage.execution.judge import rules_of
from triage.execution.prober import Prober
from triage.execution.runner import ProbeRunner
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.recipes import load_recipes
from triage.toolchains.home import open_home
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry


@contextmanager
def open_bench(cases: Sequence[Case], jobs: int | None = None, *, fresh: bool = False) -> Iterator[ProbeRunner]:
    """A workbench that is taken down in order, whatever happens: compilers ended, store closed, bars away.

    cases: those to compile; their recipes may describe further compiler families.
    """
    stop = threading.Event()
    shown = open_progress()
    home = open_home()
    evidence = Evidence(home / "evidence.db")
    families = Families(cases)
    try:
        progress = progress_of(shown)
        shed = ToolchainRegistry(home, families, progress, stop)
        onnx = onnx_family()
        assert onnx.onnx_importer
        roots = partial(shed.python_roots, onnx.name)
        inputs = Inputs(home / "inputs", stop, fresh=fresh, onnx=onnx.onnx_importer, importers=roots)
        prober = Prober(home, families, evidence, inputs, stop)
        yield ProbeRunner(shed, prober, evidence, stop, jobs=jobs, progress=progress)
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
    return {name for rule in packaged_rules() for name in (rule.name, rule.family)}


def check_compilers(cases: Sequence[Case]) -> None:
    """Check compilers and failure rules. BadInput for an unknown compiler, BadFiles for mistakes in a recipe's own rules."""
    for case in cases:
        family_of(case)
        rules_of(case)


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


def places_of(bench: ProbeRunner, family: str, named: Sequence[str]) -> list[ToolchainRef]:
    """The toolchains that are named of a family, each once, in the order given."""
    places = [bench.shed.place(text, family) for text in named]
    return list({place.revision.name: place for place in places}.values())


@dataclass(frozen=True, slots=True)
class Share:
    """The cases of one family and the REVs that are theirs, as they were written."""

    family: str
    cases: tuple[Case, ...]
    revs: tuple[str, ...]


def shares(cases: Sequence[Case], revs: Sequence[str]) -> list[Share]:
    """The cases by family, each with its REVs. A REV with a prefix (`triton:3.2.0`) is of that family. One without is of
    the only family there is; among several it is of iree, the family of recipes that name none. A family with no REV is
    left out, and that is told.

    BadInput for a REV that is of none of the families given.
    """
    families = list(dict.fromkeys(case.compiler for case in cases))
    named: dict[str, list[str]] = {family: [] for family in families}
    for rev in revs:
        named[_family_of(rev, families)].append(rev)
    found = [
        Share(family, tuple(case for case in cases if case.compiler == family), tuple(named[family])) for family in families
    ]
    for share in found:
        if not share.revs:
            count = f"{len(share.cases)} case{'s' if len(share.cases) != 1 else ''}"
            tell(f"left out: {count} of {share.family}, for which no toolchain is named, such as {share.family}:latest")
    return [share for share in found if share.revs]


def only_share(cases: Sequence[Case], revs: Sequence[str], what: str) -> Share:
    """The one family that `what` is about. BadInput where the REVs are of several."""
    chosen = shares(cases, revs)
    if len(chosen) != 1 or len(chosen[0].revs) != len(revs):
        raise BadInput(f"{what} is about one compiler, and {', '.join(revs)} are of {len(chosen)}")
    return chosen[0]


def _family_of(rev: str, families: Sequence[str]) -> str:
    """The family a REV belongs to."""
    prefix = max((name for name in families if rev.startswith(f"{name}:")), key=len, default=None)
    if prefix is not None:
        return prefix
    if len(families) == 1:
        return families[0]
    if DEFAULT_FAMILY in families:
        return DEFAULT_FAMILY
    raise BadInput(f"these recipes are of {', '.join(families)}: say whose {rev!r} is, such as {families[0]}:{rev}")
