"""Rank the commits between two releases for known changes of IREE, with and without what the passes of both releases show.

    python benchmarks/known_changes.py --repo CLONE [--half training] [--wider] [--format json]
    python benchmarks/known_changes.py --repo CLONE --fit [STRENGTH]

known_changes.yaml holds the cases. `repo` is a clone of iree-org/iree; nothing of it is checked out or built. The compilers of
both releases are real. The outcomes at the commits between them are simulated: the change is there from its commit on. For the
count of wrong answers, every third and every seventh commit cannot be tested. Three kinds of evidence are compared: none;
`passes`, the pass after which the releases diverge; `all`, with the passes of one release only, the commits that put them into
a pipeline, and the changed defaults of options. With --wider, the evidence is that of releases that lie further apart by one on
both sides: the difference is what comparing nearer compilers during the search brings. --fit prints the weights of the evidence
that fit the training half, for prior_weights.yaml.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml
from culprit_cases import Known, merged, nightlies_of, reliability, shipped_weights
from culprit_search import _rank, ours, ours_with_nightlies, plain, plain_with_nightlies

from benchmarks.held_out_remedies import case_of
from triage.attribute.excerpt import source_files
from triage.bisect.belief import Floats
from triage.bisect.pass_evidence import PassEvidence, pass_evidence
from triage.bisect.prior import Clues, feature_matrix, features, located, suspicion
from triage.cli.context import open_runner
from triage.cli.screen import AppContext
from triage.execution.runner import ProbeRunner
from triage.git_history import Repository, Timeline
from triage.mlir.ir_reader import PassName
from triage.model.case import Case
from triage.model.errors import BadInput
from triage.model.outcome import Failed
from triage.model.revision import Commit
from triage.toolchains.registry import ToolchainRef

CASES = Path(__file__).with_name("known_changes.yaml")
KINDS = ("none", "passes", "all")
ROWS = ("named-pass", "named-folder", "pass-words", "chooses", "pipeline", "one-sided-pass", "changes-default")
STRENGTH = 1.6  # cases that the start weights of the fit count as much as
STEPS = (1.2, 0.6, 0.3, 0.15)  # bits by which a weight is changed during the fit
AREAS = (
    ("dispatch creation", r"DispatchCreation|GlobalOptimization|Dialect/(Flow|TensorExt|LinalgExt|Encoding)|Preprocessing"),
    ("code generation", r"/Codegen/|plugins/target|Conversion"),
    ("host", r"Dialect/(HAL|Stream|VM|Util)|ConstEval|Modules"),
    ("input", r"InputConversion|plugins/input|bindings"),
    ("dependency", r"^third_party"),
)


@dataclass(frozen=True)
class CaseAnswer:
    """What the evidence says about one case. file, folder, area: it names that of the commit; folders: how many it names.

    rank: of the commit, by kind of evidence. tests, builds, downloads: of the search.
    """

    name: str
    half: str
    culprit: str
    commits: int
    fails: bool
    by_flag: bool
    file: bool
    folder: bool
    area: bool
    folders: int
    rank: Mapping[str, float]
    probability: Mapping[str, float]
    tests: Mapping[str, int]
    downloads: Mapping[str, int]
    builds: Mapping[str, int]
    wrong: int


def area_of(path: str) -> str | None:
    return next((name for name, pattern in AREAS if re.search(pattern, path)), None)


def is_source(path: str) -> bool:
    return (
        path.startswith(("compiler/", "third_party/"))
        and "/test/" not in path
        and path.endswith((".cpp", ".h", ".td", "-project"))
    )


def named_files(evidence: PassEvidence, repository: Repository, commits: Sequence[Commit]) -> list[str]:
    """The source files that the evidence names: of its passes, and of those that ran with one release only."""
    ends = (commits[-1].sha, commits[0].sha)
    own = [
        file for name in evidence.one_sided for end in ends for file in source_files(PassName(name), repository, end, {})[:1]
    ]
    return [*evidence.files, *own]


def priors(
    commits: tuple[Commit, ...], clues: Clues, evidence: PassEvidence | None, place: Callable[[Clues], Clues]
) -> Iterator[tuple[str, Floats]]:
    for kind in KINDS:
        known = clues
        if evidence and kind != "none":
            shown = evidence if kind == "all" else PassEvidence(evidence.passes, evidence.files, evidence.phase, "")
            known = place(shown.added_to(clues))
        yield kind, feature_matrix(commits, known, "iree")


def wider(runner: ProbeRunner, refs: Sequence[ToolchainRef], repository: Repository) -> Iterator[ToolchainRef]:
    """Yield the releases around two neighbouring ones; a release itself where the clone lacks the commit of the next one."""
    releases = {ref.revision.name: ref for ref in runner.registry.releases("iree") if ref.revision.name.endswith(".0")}
    names = list(releases)
    for ref, step in zip(refs, (-1, 1), strict=True):
        other = releases[names[names.index(ref.revision.name) + step]]
        try:
            repository.resolve(runner.registry.obtain(other).revision.commit or "")
        except BadInput:
            other = ref
        yield other


def ask(
    runner: ProbeRunner, entry: dict[str, Any], timeline: Timeline, folder: Path, *, is_wider: bool
) -> tuple[CaseAnswer, Known]:
    case = case_of(entry, folder)
    refs = tuple(runner.registry.resolve(str(entry[side]), "iree") for side in ("good", "bad"))
    ends = [runner.registry.obtain(ref).revision.commit or "" for ref in refs]
    commits = timeline.with_files(timeline.between(*ends).indices)
    outcome = runner.probe(case, refs[1]).outcome
    clues = (
        Clues.of(outcome.failure, case.target.backend) if isinstance(outcome, Failed) else Clues(backend=case.target.backend)
    )
    compared = wider(runner, refs, timeline.repository) if is_wider else refs
    evidence = pass_evidence(runner, case, *compared, timeline.repository)
    place = partial(located, repository=timeline.repository, commit=commits[-1].sha, project="iree")
    at = next(index for index, commit in enumerate(commits) if commit.sha.startswith(entry["culprit"]))
    changed = [file.path for file in commits[at].files if is_source(file.path)]
    named = named_files(evidence, timeline.repository, commits) if evidence else []
    folders = {path.rpartition("/")[0] for path in named}
    matrices = dict(priors(commits, clues, evidence, place))
    chances = {kind: suspicion(matrix, shipped_weights()) for kind, matrix in matrices.items()}
    known = known_of(case, commits, at, matrices["all"])
    runs = {kind: searched(chances[kind], known) for kind in KINDS}
    runs["git bisect"] = (plain(len(commits), at)[0], *plain_with_nightlies(known), 0)
    answer = CaseAnswer(
        f"{case.name} {entry['good']} -> {entry['bad']}",
        entry["half"],
        f"{commits[at].sha[:10]} {commits[at].subject[:60]}",
        len(commits),
        isinstance(outcome, Failed),
        "restored" in entry,
        file=bool(set(changed) & set(named)),
        folder=any(path.rpartition("/")[0] in folders for path in changed),
        area=bool({area_of(path) for path in changed} & {area_of(path) for path in named} - {None}),
        folders=len(folders),
        rank={kind: _rank(chances[kind], at) for kind in KINDS},
        probability={kind: float(chances[kind][at]) for kind in KINDS},
        tests={kind: run[0] for kind, run in runs.items()},
        downloads={kind: run[1] for kind, run in runs.items()},
        builds={kind: run[2] for kind, run in runs.items()},
        wrong=sum(run[3] for run in runs.values()),
    )
    return answer, known


def known_of(case: Case, commits: tuple[Commit, ...], at: int, matrix: Floats) -> Known:
    return Known(case.name, commits[at].sha, "", matrix, at, nightlies_of(commits), commits)


def searched(prior: Floats, case: Known) -> tuple[int, int, int, int]:
    """Return the tests, the downloads and builds with nightlies first, and whether a search with missing packages is wrong."""
    downloads, builds = ours_with_nightlies(prior, case)
    prior, case = merged(prior, case)
    tests = ours(prior, case.culprit)[0]
    missing = frozenset(index for index in range(len(prior) - 1) if index % 3 == 0 or index % 7 == 0)
    left = ours(prior, case.culprit, 1, missing)[2]
    return tests, downloads, builds, int(case.culprit not in left)


def bits_of(known: Sequence[Known], weights: Floats) -> float:
    return mean(-np.log2(suspicion(case.matrix, weights)[case.culprit]) for case in known)


def fitted_places(known: Sequence[Known], strength: float) -> Floats:
    """Fit the weights of the evidence in the mixture that the search uses; the start counts as much as `strength` cases."""
    start = np.array([feature.start if feature.name in ROWS else feature.weight for feature in features()])

    def loss(weights: Floats) -> float:
        return bits_of(known, weights) + strength * float(((weights - start) ** 2).sum()) / len(known)

    weights, least = start, loss(start)
    rows = [index for index, feature in enumerate(features()) if feature.name in ROWS]
    for step in (step for step in STEPS for _ in range(2)):
        for row in rows:
            for change in (-step, step):
                other = weights.copy()
                other[row] = max(0.0, other[row] + change)
                if (changed := loss(other)) < least:
                    weights, least = other, changed
    return weights


def print_fit(known: Sequence[Known], strength: float) -> None:
    weights = fitted_places(known, strength)
    rest = [fitted_places([*known[:row], *known[row + 1 :]], strength) for row in range(len(known))]
    left_out = mean(bits_of([case], own) for case, own in zip(known, rest, strict=True))
    shipped = bits_of(known, shipped_weights())
    print(f"{bits_of(known, weights):.2f} bits, {left_out:.2f} with each case left out; with the shipped weights {shipped:.2f}")
    for feature, weight in zip(features(), weights, strict=True):
        if feature.name in ROWS:
            without = np.where([other.name == feature.name for other in features()], 0.0, shipped_weights())
            print(f"  {feature.name:16s} {weight:.2f}; {bits_of(known, without):.2f} bits without it")


def show(answers: Sequence[CaseAnswer]) -> None:
    for answer in answers:
        ranks = " ".join(f"{kind} {answer.rank[kind]:.0f}" for kind in KINDS)
        hits = ", ".join(what for what in ("file", "folder", "area") if getattr(answer, what)) or "nothing"
        print(f"{answer.name}: {answer.culprit}\n  rank of {answer.commits}: {ranks}; named: {hits}")
    groups = {
        "all": answers,
        **{half: [answer for answer in answers if answer.half == half] for half in ("training", "held out")},
        "held out, by a flag or failing": [a for a in answers if a.half == "held out" and (a.by_flag or a.fails)],
        "by a flag or failing": [a for a in answers if a.by_flag or a.fails],
    }
    for name, group in groups.items():
        if not group:
            continue
        print(f"\n{name}: {len(group)} cases, {mean(a.commits for a in group):.0f} commits")
        hits = [f"{what} {mean(getattr(a, what) for a in group):.0%}" for what in ("file", "folder", "area")]
        print(f"  {', '.join(hits)}; {mean(a.folders for a in group):.1f} folders named")
        for kind in KINDS:
            ranks = [a.rank[kind] for a in group]
            tops = ", ".join(f"top {top} {mean(rank <= top for rank in ranks):.0%}" for top in (1, 10, 20))
            bits = mean(-np.log2(a.probability[kind]) for a in group)
            print(f"  {kind:7s} median rank {median(ranks):5.1f}, {tops}, {bits:.2f} bits")
        for kind in (*KINDS, "git bisect"):
            tests, downloads, builds = (
                mean(getattr(a, what)[kind] for a in group) for what in ("tests", "downloads", "builds")
            )
            print(f"  {kind:10s} {tests:.2f} tests; with nightlies {downloads:.2f} downloads and {builds:.2f} builds")
        print(f"  wrong answers with missing packages: {sum(a.wrong for a in group)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repo", type=Path, required=True, help="a clone of iree-org/iree")
    parser.add_argument("--half", choices=("training", "held out"))
    parser.add_argument("--wider", action="store_true", help="compare releases that lie further apart")
    parser.add_argument(
        "--fit",
        type=float,
        nargs="?",
        const=STRENGTH,
        metavar="STRENGTH",
        help="fit the weights of the evidence to the training half",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    if options.fit is not None and (options.half == "held out" or options.format != "text"):
        parser.error("--fit uses the training half and prints text")
    half = options.half or ("training" if options.fit is not None else None)
    entries = [entry for entry in yaml.safe_load(CASES.read_text()) if half in (None, entry["half"])]
    timeline = Timeline(options.repo)
    with TemporaryDirectory() as place, open_runner(AppContext(quiet=True), ()) as runner:
        pairs = [ask(runner, entry, timeline, Path(place), is_wider=options.wider) for entry in entries]
    answers = [answer for answer, _ in pairs]
    reliable = reliability([(suspicion(known.matrix, shipped_weights()), known.culprit) for _, known in pairs])
    if options.fit is not None:
        print_fit([known for _, known in pairs], options.fit)
        return
    if options.format == "json":
        print(json.dumps({"cases": [asdict(answer) for answer in answers], "reliability": reliable}, indent=1))
        return
    show(answers)
    for row in reliable:
        print(f"  {row['commits']:5d} commits of {row['probability']:.1%} on average: {row['culprits']:.1%} are culprits")


if __name__ == "__main__":
    main()
