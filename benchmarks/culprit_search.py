"""Count the commits that have to be tested to find the culprits of known regressions, beside other ways to search.

Run: `python benchmarks/culprit_search.py CASES COMMITS [--format json]`; `culprit_cases.py` describes the files. A test is one
commit compiled; the ends of a range are known, and confirming the culprit is not counted. Every candidate can be tested and
every verdict is true, except in the part about untestable candidates. The rows are

- plain: git bisect's midpoint;
- bayesect: the published algorithm of git-bayesect (unknown pass rates with a Jeffreys prior, the probe with the least expected
  entropy, a skip zeroes its commit), with both ends known, stopped at its 95 %; `bayesect-sure` knows that the test is
  deterministic; both with uniform weights, as it starts out;
- uniform: triage without a prior; ours: with the shipped weights; ours-cv: with weights fitted to the other cases only, where
  the same change applied again counts as the same case; the `-picked` rows do not use "landed shortly before it was noticed",
  for ranges whose bad end was chosen. A second table has the builds after nightlies. Commits that cannot change the compiler
  are no candidates of triage.

The features, their words and their start weights were chosen by people who had seen these cases; cross-validation of the
weights does not undo that. `fit_prior.py --history` checks them on reverted commits, which have no diagnostics. The standard
error of the mean over 60 cases is 0.26 tests, that of the gain over plain 0.18. The distance from the good end is no feature:
most of these ranges were built to begin a week before their culprit.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean, median

import numpy as np
from culprit_cases import Known, cross_validated, merged, read_cases, reliability, shipped_weights

from triage.bisect.belief import Belief, Floats
from triage.bisect.choose import next_probes
from triage.bisect.prior import FLOOR, feature_matrix, suspicion
from triage.bisect.result import Side
from triage.model.revision import Commit

JOBS = (1, 2, 4, 8)
TOPS = (1, 3, 5, 10)
CREDIBLE = (0.5, 0.8, 0.9)
STRENGTH = 80.0
BUILD, DOWNLOAD = 1800.0, 60.0  # seconds
SKIPPED = 0.3  # share of untestable candidates, in the part about them


def ours(prior: Floats, culprit: int, jobs: int = 1, skipped: frozenset[int] = frozenset()) -> tuple[int, int, range]:
    """Return the tests with a result, the rounds, and the suspects left (0 is the first commit after the good end)."""
    belief = Belief.from_weights(np.concatenate([[1.0], prior]))
    tests = rounds = 0
    while chosen := next_probes(belief, None, jobs):
        rounds += 1
        for index in chosen:
            side = None if index - 1 in skipped else Side.NEW if index - 1 >= culprit else Side.OLD
            belief = belief.observe(index, side)
            tests += side is not None
    block = belief.leading()
    return tests, rounds, range(block.first - 1, block.last)


def ours_with_nightlies(prior: Floats, case: Known) -> tuple[int, int]:
    """Return the nightlies that are downloaded and the commits that are built."""
    prior, case = merged(prior, case)
    belief = Belief.from_weights(np.concatenate([[1.0], prior]))
    seconds = np.full(belief.size, BUILD)
    seconds[[row + 1 for row in case.nightlies]] = DOWNLOAD
    probes = [0, 0]
    while chosen := next_probes(belief, seconds):
        probes[int(seconds[chosen[0]] == BUILD)] += 1
        belief = belief.observe(chosen[0], Side.NEW if chosen[0] - 1 >= case.culprit else Side.OLD)
    return probes[0], probes[1]


def plain_with_nightlies(case: Known) -> tuple[int, int]:
    """Halve the nightlies, then the commits between two of them; return the downloads and the builds."""
    low, high, downloads = -1, len(case.matrix) - 1, 0
    while inside := [row for row in case.nightlies if low < row < high]:
        middle = inside[(len(inside) - 1) // 2]
        downloads += 1
        low, high = (low, middle) if middle >= case.culprit else (middle, high)
    return downloads, plain(high - low, case.culprit - low - 1)[0]


def plain(count: int, culprit: int, skipped: frozenset[int] = frozenset()) -> tuple[int, range]:
    """Test git bisect's midpoint, or the nearest testable commit; return the tests and the suspects left."""
    low, high, tests = -1, count - 1, 0
    while free := [index for index in range(low + 1, high) if index not in skipped]:
        middle = low + (high - low) // 2
        chosen = min(free, key=lambda index: (abs(index - middle), index))
        tests += 1
        low, high = (low, chosen) if chosen >= culprit else (chosen, high)
    return tests, range(low + 1, high + 1)


def bayesect(count: int, culprit: int, sure: bool, skipped: frozenset[int] = frozenset()) -> tuple[int, int | None]:
    """Return the tests until one commit has 95 %, and that commit; None when there is none after four times log2."""
    # Its range has the good end too, which can never be the culprit; "after" is the state from the culprit on.
    size = count + 1
    weights = np.ones(size)
    weights[0] = 0.0
    right, wrong = (1000.0, 1.0) if sure else (0.5, 0.5)
    fails, total = np.zeros(size), np.zeros(size)  # at each index

    def observe(place: int) -> None:
        total[place] += 1
        fails[place] += place - 1 >= culprit

    def posterior() -> tuple[Floats, tuple[Floats, ...]]:
        after = np.cumsum(total[::-1])[::-1]
        bad = np.cumsum(fails[::-1])[::-1]
        before, false = total.sum() - after, fails.sum() - bad
        counts = (bad, after - bad, false, before - false)
        logs = _log_beta(right + bad, wrong + after - bad) + _log_beta(wrong + false, right + before - false)
        with np.errstate(divide="ignore"):
            logs = logs + np.log(weights)
        chances = np.exp(logs - logs.max())
        return chances / chances.sum(), counts

    observe(0)
    observe(size - 1)
    tests, most = 0, 4 * max(1, math.ceil(math.log2(count))) + 20
    silent: list[int] = []
    while True:
        chances, (bad, caught, false, kept) = posterior()
        if chances.max() >= 0.95:
            return tests, int(np.argmax(chances)) - 1
        if tests >= most:
            return tests, None
        fail_after = (right + bad) / (right + wrong + bad + caught)
        fail_before = (wrong + false) / (right + wrong + false + kept)
        entropy = sum(
            _split_entropy(chances, after, before)
            for after, before in ((fail_after, fail_before), (1 - fail_after, 1 - fail_before))
        )
        entropy[silent] = math.inf
        least = np.flatnonzero(np.isclose(entropy, entropy.min(), rtol=1e-12, atol=1e-15))
        place = int(least[np.argmin(np.abs(least - size // 2))])
        if place - 1 in skipped:
            weights[place] = 0.0
            silent.append(place)  # it might choose it again and again
        else:
            observe(place)
            tests += 1


def _log_beta(a: Floats, b: Floats) -> Floats:
    log_gamma = np.vectorize(math.lgamma, otypes=[float])
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b)


def _split_entropy(chances: Floats, after: Floats, before: Floats) -> Floats:
    """For each place probed: chance of this answer times the entropy of the culprit given it, in bits."""
    # A probe at p sees the state after the change for culprits up to p, the one before it for later ones.
    up_to, later = chances * after, chances * before
    total = np.cumsum(up_to) + later.sum() - np.cumsum(later)
    logs_up, logs_later = _x_log_x(up_to), _x_log_x(later)
    inside = np.cumsum(logs_up) + logs_later.sum() - np.cumsum(logs_later)
    return _x_log_x(total) - inside


def _x_log_x(values: Floats) -> Floats:
    return values * np.log2(np.where(values > 0, values, 1.0))


def figures(tests: Sequence[int], reference: Sequence[int]) -> dict[str, float]:
    excess = np.array(tests) - np.array(reference)
    return {
        "mean_tests": round(mean(tests), 3),
        "median_tests": float(median(tests)),
        "worse_share": round(float(np.mean(excess > 0)), 3),
        "worst_excess": int(excess.max()),
    }


def with_prior(known: Sequence[Known], priors: dict[str, Floats], reference: Sequence[int]) -> dict[str, object]:
    shorter = [merged(priors[case.name], case) for case in known]
    searched = {jobs: [ours(prior, case.culprit, jobs) for prior, case in shorter] for jobs in JOBS}
    ranks = [_rank(priors[case.name], case.culprit) for case in known]
    beliefs = {case.name: Belief.from_weights(np.concatenate([[1.0], priors[case.name]])) for case in known}
    sets = {level: [beliefs[case.name].credible(level) for case in known] for level in CREDIBLE}
    return {
        **figures([tests for tests, *_ in searched[1]], reference),
        "bits": round(mean(-math.log2(priors[case.name][case.culprit]) for case in known), 3),
        "mean_rounds": {str(jobs): round(mean(rounds for _, rounds, _ in runs), 3) for jobs, runs in searched.items()},
        "top": {str(top): round(mean(rank <= top for rank in ranks), 3) for top in TOPS},
        "credible": {
            str(level): {
                "holds": round(mean(case.culprit + 1 in held for case, held in zip(known, sets[level], strict=True)), 3),
                "size_share": round(mean(len(h) / len(case.matrix) for case, h in zip(known, sets[level], strict=True)), 3),
            }
            for level in CREDIBLE
        },
    }


def _rank(prior: Floats, culprit: int) -> float:
    """1 for the likeliest; among equals the middle."""
    away = prior / prior[culprit] - 1
    return 1 + int((away > 1e-9).sum()) + (int((np.abs(away) <= 1e-9).sum()) - 1) / 2


def untestable(known: Sequence[Known], priors: dict[str, Floats]) -> dict[str, dict[str, float]]:
    """Search with a share of untestable candidates: how often is the answer one wrong commit, or holds the culprit?"""
    answers: dict[str, list[tuple[int, range]]] = {"plain": [], "bayesect-sure": [], "ours": []}
    random = np.random.default_rng(1)
    for case in known:
        count = len(case.matrix)
        skipped = frozenset(int(index) for index in np.flatnonzero(random.random(count - 1) < SKIPPED))
        answers["plain"].append(plain(count, case.culprit, skipped))
        tests, named = bayesect(count, case.culprit, sure=True, skipped=skipped)
        answers["bayesect-sure"].append((tests, range(0) if named is None else range(named, named + 1)))
        tests, _, left = ours(priors[case.name], case.culprit, 1, skipped)
        answers["ours"].append((tests, left))
    return {
        name: {
            "mean_tests": round(mean(tests for tests, _ in told), 3),
            "names_a_wrong_commit": round(
                mean(len(left) == 1 and case.culprit not in left for (_, left), case in zip(told, known, strict=True)), 3
            ),
            "holds_the_culprit": round(mean(case.culprit in left for (_, left), case in zip(told, known, strict=True)), 3),
        }
        for name, told in answers.items()
    }


def with_evidence(known: Sequence[Known]) -> dict[str, dict[str, float]]:
    """Search with simulated evidence of place: right, or wrong, which names the files of another commit.

    `commits`: it also names two commits, among them the culprit or not, as those that changed a pipeline.
    """
    random = np.random.default_rng(2)
    results: dict[str, list[int]] = {}
    for case in known:
        built = np.flatnonzero([_sources(commit) != () for commit in case.commits])
        others = built[built != case.culprit]
        results.setdefault("none", []).append(ours(suspicion(case.matrix, shipped_weights()), case.culprit)[0])
        other, beside = (int(row) for row in random.choice(others, 2))
        for name, row in (("right", case.culprit), ("wrong", other)):
            files = _sources(case.commits[row])
            pipeline = frozenset(case.commits[index].sha for index in (row, beside))
            for kind, clues in (
                (name, replace(case.clues, files=files)),
                (f"{name}-commits", replace(case.clues, files=files, pipeline=pipeline)),
            ):
                prior = suspicion(feature_matrix(case.commits, clues, "iree"), shipped_weights())
                results.setdefault(kind, []).append(ours(prior, case.culprit)[0])
    return {name: {"mean_tests": round(mean(tests), 3)} for name, tests in results.items()}


def _sources(commit: Commit) -> tuple[str, ...]:
    """One to three sources that a commit changes, as an attribution names them."""
    return tuple(f.path for f in commit.files if f.path.endswith(".cpp") and "/test/" not in f.path)[:3]


def measure(cases: Path, commits: Path, *, reconstructed: bool) -> dict[str, object]:
    noticed, picked = (read_cases(cases, commits, noticed=flag) for flag in (True, False))
    validated = {id(known): cross_validated(known, STRENGTH) for known in (noticed, picked)}
    if not reconstructed:
        noticed_kept, picked_kept = ([case for case in known if case.source != "reconstructed"] for known in (noticed, picked))
        validated = {id(noticed_kept): validated[id(noticed)], id(picked_kept): validated[id(picked)]}
        noticed, picked = noticed_kept, picked_kept
    reference = [plain(len(case.matrix), case.culprit)[0] for case in noticed]
    shipped = shipped_weights()
    rows: dict[str, object] = {"plain": figures(reference, reference)}
    for name, sure in (("bayesect", False), ("bayesect-sure", True)):
        told = [bayesect(len(case.matrix), case.culprit, sure) for case in noticed]
        right = [named == case.culprit for (_, named), case in zip(told, noticed, strict=True)]
        rows[name] = {**figures([tests for tests, _ in told], reference), "right": round(mean(right), 3)}
    flat = {case.name: np.full(len(case.matrix), 1 / len(case.matrix)) for case in noticed}
    rows["uniform"] = with_prior(noticed, flat, reference)
    for end, known in (("", noticed), ("-picked", picked)):
        weights = validated[id(known)]
        rows[f"ours{end}"] = with_prior(known, {case.name: suspicion(case.matrix, shipped) for case in known}, reference)
        own = {case.name: suspicion(case.matrix, weights[case.name]) for case in known}
        rows[f"ours-cv{end}"] = with_prior(known, own, reference)
    cv = {case.name: suspicion(case.matrix, validated[id(noticed)][case.name]) for case in noticed}
    priors = {"uniform": flat, "ours": {case.name: suspicion(case.matrix, shipped) for case in noticed}, "ours-cv": cv}
    stages = {
        "plain": [plain_with_nightlies(case) for case in noticed],
        **{name: [ours_with_nightlies(prior[case.name], case) for case in noticed] for name, prior in priors.items()},
    }
    nightlies = {
        name: {
            "mean_downloads": round(mean(downloads for downloads, _ in told), 3),
            "mean_builds": round(mean(builds for _, builds in told), 3),
        }
        for name, told in stages.items()
    }
    skips = untestable(noticed, cv)
    return {
        "cases": len(noticed),
        "floor": FLOOR,
        "search": rows,
        "nightlies_first": nightlies,
        "evidence": with_evidence(noticed),
        "reliability": reliability([(cv[case.name], case.culprit) for case in noticed]),
        f"untestable_{SKIPPED}": skips,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path)
    parser.add_argument("commits", type=Path)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options = parser.parse_args()
    answer = {
        "all": measure(options.cases, options.commits, reconstructed=True),
        "without_reconstructed": measure(options.cases, options.commits, reconstructed=False),
    }
    if options.format == "json":
        print(json.dumps(answer, indent=1))
        return
    for name, part in answer.items():
        print(f"{name.replace('_', ' ')}: {part['cases']} cases, {' '.join(f'k={jobs}' for jobs in JOBS)} are rounds")
        for row, told in part["search"].items():
            line = f"  {row:14s} {told['mean_tests']:6.2f} tests (median {told['median_tests']:4.1f})"
            line += f"  worse {told['worse_share']:4.0%}, by {told['worst_excess']} at most"
            if "right" in told:
                line += f"  right {told['right']:.0%}"
            if "mean_rounds" in told:
                line += "  k " + " ".join(f"{rounds:.2f}" for rounds in told["mean_rounds"].values())
                line += "  top " + " ".join(f"{top} {share:.0%}" for top, share in told["top"].items())
                line += f"  90 % set holds {told['credible']['0.9']['holds']:.0%}"
            print(line)
        for row in part["reliability"]:
            print(f"  {row['commits']:5d} commits of {row['probability']:.1%} on average: {row['culprits']:.1%} are culprits")
        print("  with simulated evidence of place, which names files or files and two commits")
        for row, told in part["evidence"].items():
            print(f"  {row:14s} {told['mean_tests']:6.2f} tests")
        print("  with a nightly of each day's last commit, which is downloaded before anything is built")
        for row, told in part["nightlies_first"].items():
            print(f"    {row:14s} {told['mean_downloads']:5.2f} downloads, then {told['mean_builds']:5.2f} builds")
        print(f"  with {SKIPPED:.0%} of the candidates untestable")
        for row, told in part[f"untestable_{SKIPPED}"].items():
            print(f"    {row:14s} " + "  ".join(f"{key.replace('_', ' ')} {value}" for key, value in told.items()))


if __name__ == "__main__":
    main()
