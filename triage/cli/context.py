"""What commands share: a ready runner, and the selection of cases, compiler families and revisions."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from triage.classify import packaged_rules
from triage.cli.screen import AppContext, print_stderr
from triage.compilers.registry import DEFAULT_FAMILY, Families, family_of, onnx_family, recipe_families, suite_cases
from triage.execution.cache import ResultCache
from triage.execution.inputs import Inputs
from triage.execution.judge import rules_of
from triage.execution.onnx_import import OnnxImporters
from triage.execution.prober import Prober
from triage.execution.runner import Cluster, ProbeRunner
from triage.execution.shared_cache import SharedCache
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.recipes.loader import load_recipes
from triage.toolchains.home import home_path, open_home
from triage.toolchains.onnx_package import provide_onnx
from triage.toolchains.registry import ToolchainRef, ToolchainRegistry
from triage.toolchains.workspace import Workspace

_LARGEST_DOWNLOAD = 1 << 38  # bytes of a file of weights


@contextmanager
def open_runner(
    app: AppContext,
    cases: Sequence[Case],
    jobs: int | None = None,
    *,
    fresh: bool = False,
    delivered: Path | None = None,
) -> Iterator[ProbeRunner]:
    """Open TRIAGE_HOME and yield a runner. On exit, compilers are stopped and the result store is closed.

    `cases` are those to compile; their recipes may describe further compiler families. fresh: ignore all
    results that are cached now; delivered: the folder of inputs that another machine prepared.
    """
    stop = threading.Event()
    home = open_home()
    evidence = ResultCache(home / "evidence.db", print_stderr)
    families = Families(cases)
    if url := os.environ.get("TRIAGE_EVIDENCE"):
        evidence.shared = SharedCache(url, print_stderr, stop)
    evidence.trusted = app.trust
    try:
        after = evidence.last_number() if fresh else 0
        with app.progress() as progress, ExitStack() as closing:
            registry = ToolchainRegistry(home, families, progress, stop)
            onnx = onnx_family()
            assert onnx.onnx_importer
            roots = partial(registry.python_roots, onnx.name)
            importers = OnnxImporters(onnx.onnx_importer, roots, stop, partial(provide_onnx, registry.workspace))
            inputs = Inputs(home / "inputs", stop, fresh=fresh, onnx=importers, evidence=evidence, delivered=delivered)
            closing.callback(inputs.close)
            prober = Prober(
                home,
                families,
                evidence,
                inputs,
                stop,
                warn=print_stderr,
                runtime=registry.runtime,
                toolchain_of=lambda rev, family: registry.obtain(registry.resolve(rev, family)),
                download=partial(_download, registry.workspace),
            )
            runner = ProbeRunner(registry, prober, evidence, stop, jobs=jobs, progress=progress, after=after)
            if delivered is None:
                runner.connect = _connection(app, runner, jobs, closing)
            yield runner
    except BaseException:
        stop.set()
        raise
    finally:
        evidence.close()


def _connection(app: AppContext, runner: ProbeRunner, jobs: int | None, closing: ExitStack) -> Callable[[], Cluster] | None:
    """Return what connects to the cluster that --executor or TRIAGE_EXECUTOR names, once; None without a cluster.

    Raises BadInput for another name. Closing the stack ends the connection.
    """
    name, _, address = (app.executor or os.environ.get("TRIAGE_EXECUTOR") or "local").partition(":")
    if name not in ("local", "dask") or (name == "local" and address):
        raise BadInput(f"--executor {app.executor or name!r}: write local, dask or dask:ADDRESS, such as dask:tcp://host:8786")
    if name == "local":
        return None
    lock, connected = threading.Lock(), list[Cluster]()

    def connect() -> Cluster:
        with lock:
            if not connected:
                try:
                    from triage.cli.dask_worker import ProbePlugin
                    from triage.execution.dask_executor import open_cluster
                except ImportError as error:
                    advice = f"pip install 'iree-triage[cluster]' ({error})"
                    raise BadInput(f"--executor dask needs an extra: {advice}") from error
                if address and not address.startswith("tls://"):
                    print_stderr(
                        f"{address} is not protected: whoever reaches it can run programs on its workers; "
                        "use tls://, or a network that is closed to others"
                    )
                connected.append(closing.enter_context(open_cluster(address or None, jobs, runner, ProbePlugin())))
            return connected[0]

    return connect


def _download(workspace: Workspace, url: str, target: Path) -> None:
    from triage.toolchains.web import Web  # slow to import

    Web(workspace, tries=2).download(url, target, target.name, _LARGEST_DOWNLOAD)


def load_cases(paths: Sequence[Path], suite_configs: Sequence[Path] | None = None) -> tuple[Case, ...]:
    """Load the cases of recipes or, with configs, those of test suites in folders.

    Raises BadFiles with every mistake, and BadInput for an unsupported compiler.
    """
    if suite_configs:
        downloads = home_path() / "downloads"
        return tuple(case for path in paths for case in suite_cases(path, suite_configs, downloads))
    cases = load_recipes(paths, recipe_families(), failure_names())
    check_compilers(cases)
    return cases


def failure_names() -> set[str]:
    """Return the failure classes and families that a recipe may expect."""
    return {name for rule in packaged_rules() for name in (rule.name, rule.family)}


def check_compilers(cases: Sequence[Case]) -> None:
    """Check compilers and failure rules. Raises BadInput for an unknown compiler, BadFiles for mistakes in own rules."""
    for case in cases:
        family_of(case)
        rules_of(case)


def cases_named(cases: Sequence[Case], text: str | None) -> tuple[Case, ...]:
    """Return the cases whose name contains `text`, or all. Raises BadInput when there is none."""
    chosen = tuple(case for case in cases if text is None or text in case.name)
    if not chosen:
        raise BadInput(f"no case has {text!r} in its name; choose from {', '.join(case.name for case in cases)}")
    return chosen


def one_case(cases: Sequence[Case], name: str | None) -> Case:
    """Return the only case that `name` identifies; the recipe's only case when `name` is None.

    `name` is the case's name, its part in brackets or behind the last slash, or enough `key=value` pairs in any order.
    Raises BadInput when no case or several cases fit.
    """
    exact = [
        case for case in cases if name in (case.name, case.name.partition("[")[2].rstrip("]"), case.name.rpartition("/")[2])
    ]
    chosen = exact or [case for case in cases if name is None or _fits(name, case)]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(case.name for case in (chosen or cases))
    if not chosen:
        raise BadInput(f"there is no case {name!r}; choose from {names}")
    raise BadInput(f"several cases fit; choose one with --case: {names}")


def _fits(name: str, case: Case) -> bool:
    """Return whether each `key=value` of a comma-separated list is in the case's matrix values."""
    return {pair.strip() for pair in name.split(",")} <= {f"{key}={value}" for key, value in case.matrix}


def refs_of(runner: ProbeRunner, family: str, revs: Sequence[str]) -> list[ToolchainRef]:
    """Return the toolchains that the REVs name in a family, each once, in the given order."""
    refs = [runner.registry.resolve(rev, family) for rev in revs]
    return list({ref.revision.name: ref for ref in refs}.values())


@dataclass(frozen=True, slots=True)
class FamilySelection:
    """The cases of one compiler family and its REVs as the user wrote them."""

    family: str
    cases: tuple[Case, ...]
    revs: tuple[str, ...]


def select_families(cases: Sequence[Case], revs: Sequence[str]) -> list[FamilySelection]:
    """Group cases by family, each with its REVs. A family without a REV is left out, with a message.

    A REV with a prefix (`triton:3.2.0`) belongs to that family. One without belongs to the only family of the cases, or
    to iree where there are several. Raises BadInput for a REV whose family is not clear.
    """
    families = list(dict.fromkeys(case.compiler for case in cases))
    revs_of: dict[str, list[str]] = {family: [] for family in families}
    for rev in revs:
        revs_of[_family_of(rev, families)].append(rev)
    selections = [
        FamilySelection(family, tuple(case for case in cases if case.compiler == family), tuple(revs_of[family]))
        for family in families
    ]
    for selection in selections:
        if not selection.revs:
            count = f"{len(selection.cases)} {selection.family} case{'' if len(selection.cases) == 1 else 's'}"
            print_stderr(f"{count} left out: no toolchain is named; pass for example {selection.family}:latest")
    return [selection for selection in selections if selection.revs]


def select_one_family(cases: Sequence[Case], revs: Sequence[str], command: str) -> FamilySelection:
    """Return the only family that the REVs belong to. Raises BadInput where there are several."""
    selections = select_families(cases, revs)
    if len(selections) != 1 or len(selections[0].revs) != len(revs):
        raise BadInput(f"{command} needs revisions of one compiler; {', '.join(revs)} belong to several")
    return selections[0]


def _family_of(rev: str, families: Sequence[str]) -> str:
    """Return the family a REV belongs to."""
    prefix = max((name for name in families if rev.startswith(f"{name}:")), key=len, default=None)
    if prefix is not None:
        return prefix
    if len(families) == 1:
        return families[0]
    if DEFAULT_FAMILY in families:
        return DEFAULT_FAMILY
    raise BadInput(f"the recipes use {', '.join(families)}; write {rev!r} with its compiler, for example {families[0]}:{rev}")
