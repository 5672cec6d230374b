"""How many commits have to be tested to find the culprits of known regressions, beside other ways to search.

Run: `python benchmarks/culprit_search.py CASES COMMITS [--format json]`; see `culprit_cases.py` for the files. A test is
one commit compiled; the ends of a range are known, and confirming the culprit is not counted. Every place can be tested
and every verdict is true, except in the part that says otherwise. Compared are

- plain: git bisect's midpoint;
- bayesect: the published algorithm of git-bayesect (unknown pass rates with a Jeffreys prior, the probe with the least
  expected entropy, a skip zeroes its commit), told the two ends, stopped at its 95 %; `bayesect-sure` is told beforehand
  that the test is deterministic; both with all commits alike, as it starts out;
- uniform: ours without a prior; ours: with the weights that ship; ours-cv: with weights fitted to the other cases only,
  the same change applied again counted as the same case; the `-picked` rows do without "landed shortly before it was
  noticed", for ranges whose bad end was picked.

What was tried and left out, in mean bits of the culprits with cross-validated weights (4.60 as it stands, `-picked` 4.74):
- fitting the weights freely: with every loosening cross-validation got worse, and even judged by the cases that they are
  fitted to, almost free weights (strength 1) come to 4.42 bits and 4.93 tests only. Reverts of the repository's own
  history added to the fit move neither the cases nor reverts held out by more than 0.02 bits, at strengths from 40 on;
- a model learnt from history: a conditional logit on 1,493 words, folders, file names and sizes beside the weights set by
  hand, from 114 reverts, 41 changes that a later message blames and 194 whose lines a later fix deletes. Only the last kind
  is predicted better by it; reverts held out (5.27 to 5.51, against 5.27 by hand) and the cases (4.58 to 5.20, against 4.56)
  are not, at any strength;
- words and folders for each class of failure, written without a look at the culprits' changes: 0.01; integrates by class: 0.02;
- the overlap with the diagnostics is worth 0.14 to 0.19 as it is. Rarity over the whole history instead of the range: 0.03 to
  0.04 better; topics learnt from messages, subjects and paths: 0.03 better; the words of the messages: 0.01 to 0.03 worse;
  those of the changed lines: 0.05 to 0.07 better, but they are not in COMMITS;
- what a sentence model (all-MiniLM-L6-v2) finds alike in diagnostics and subject: 0.03 better, in file names 0.01 worse;
  8 to 32 of the main axes of its subjects as features: 0.04 worse to 0.04 better;
- 28 more features (lines, files, kinds of tests changed, words), one by one: 0.02 or less, on the very cases they were
  fitted to; single op names in subjects and later commits that touch the same files did no better;
- averages of several models, sharper and flatter ones, floors from 0.02 to 0.2: up to 0.07.

None of it makes the search shorter. Over slightly disturbed priors, which evens out the luck of whole questions, rarity over
the history with integrates by class took 0.01 tests more and 0.03 fewer (`-picked`), floors of 0.02 and 0.05 differ from
0.1 by 0.01, each with a standard error of 0.02 to 0.03. With the words of the changed lines as well it took 0.05 fewer
(`-picked` 0.07), with one of 0.05.

What limits it: cutting at every place instead of 79 gains 0.02 tests, so the tree is close to the best that keeps the promise
of at most one test more than plain; numbers of questions that need not be whole come to 4.86 (`-picked` 4.98). Without the
promise the best tree takes 4.48 tests instead of 4.79 on the 56 ranges of up to 320 commits (`-picked` 4.71 instead of 4.88),
and is worse than plain by 2 now and then. To come to 4.5 with it, the odds of each culprit would have to be 1.7 times what
they are (`-picked` nearly twice). The standard error of the mean over these 60 cases is 0.26 tests, of the gain over plain
0.18: other cases will differ by as much.

The features, their words and their start weights were chosen by people who had seen these cases; cross-validation of the
weights does not undo that. `fit_prior.py --history` has a second opinion on commits that were reverted, which have no
diagnostics.

Left out on purpose: the distance from the good end. Most of these ranges were built to begin a week before their culprit,
so it would predict well here and say nothing of a range that a person brings. "Landed shortly before it was noticed" may
profit from the same thing: for late culprits the early part of a short range is empty by construction. Hence the `-picked`
rows.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np
from culprit_cases import Known, cross_validated, read_cases, shipped_weights

from triage.bisect.belief import Belief, Floats
from triage.bisect.choose import next_probes
from triage.bisect.choose_tree import halving_depths
from triage.bisect.prior import FLOOR, suspicion
from triage.model.outcome import Verdict

JOBS = (1, 2, 4, 8)
TOPS = (1, 3, 5, 10)
CREDIBLE = (0.5, 0.8, 0.9)
STRENGTH = 80.0
SKIPPED = 0.3  # share of places that say nothing, in the part about them


def ours(prior: Floats, culprit: int, jobs: int = 1, skipped: frozenset[int] = frozenset()) -> tuple[int, int, range]:
    """Tests that told something, rounds, and the suspects left (0 is the first commit after the good end)."""
    belief = Belief.from_weights(np.concatenate([[1.0], prior]))
    tests = rounds = 0
    while chosen := next_probes(belief, None, jobs):
        rounds += 1
        for place in chosen:
            told = Verdict.SKIP if place - 1 in skipped else Verdict.BAD if place - 1 >= culprit else Verdict.GOOD
            belief = belief.observe(place, told)
            tests += told is not Verdict.SKIP
    block = belief.leading()
    return tests, rounds, range(block.first - 1, block.last)


def plain(count: int, culprit: int, skipped: frozenset[int] = frozenset()) -> tuple[int, range]:
    """git bisect's midpoint; of places that say nothing it takes the nearest other. Tests, and the suspects left."""
    low, high, tests = -1, count - 1, 0
    while free := [place for place in range(low + 1, high) if place not in skipped]:
        middle = low + (high - low) // 2
        place = min(free, key=lambda one: (abs(one - middle), one))
        tests += 1
        low, high = (low, place) if place >= culprit else (place, high)
    return tests, range(low + 1, high + 1)


def bayesect(count: int, culprit: int, sure: bool, skipped: frozenset[int] = frozenset()) -> tuple[int, int | None]:
    """Tests until one commit has 95 %, and that commit; None when there is none after four times what halving needs."""
    # Its line has the good end too, which can never be the culprit; "after" is the state from the culprit on.
    size = count + 1
    weights = np.ones(size)
    weights[0] = 0.0
    right, wrong = (1000.0, 1.0) if sure else (0.5, 0.5)
    fails, total = np.zeros(size), np.zeros(size)  # at each place

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
            silent.append(place)  # it might choose it again and again; a person would not
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
    searched = {jobs: [ours(priors[one.name], one.culprit, jobs) for one in known] for jobs in JOBS}
    ranks = [_rank(priors[one.name], one.culprit) for one in known]
    beliefs = {one.name: Belief.from_weights(np.concatenate([[1.0], priors[one.name]])) for one in known}
    sets = {level: [beliefs[one.name].credible(level) for one in known] for level in CREDIBLE}
    return {
        **figures([tests for tests, *_ in searched[1]], reference),
        "bits": round(mean(-math.log2(priors[one.name][one.culprit]) for one in known), 3),
        "mean_rounds": {str(jobs): round(mean(rounds for _, rounds, _ in runs), 3) for jobs, runs in searched.items()},
        "top": {str(top): round(mean(rank <= top for rank in ranks), 3) for top in TOPS},
        "credible": {
            str(level): {
                "holds": round(mean(one.culprit + 1 in held for one, held in zip(known, sets[level], strict=True)), 3),
                "size_share": round(mean(len(h) / len(one.matrix) for one, h in zip(known, sets[level], strict=True)), 3),
            }
            for level in CREDIBLE
        },
    }


def _rank(prior: Floats, culprit: int) -> float:
    """1 for the likeliest; among equals the middle."""
    away = prior / prior[culprit] - 1
    return 1 + int((away > 1e-9).sum()) + (int((np.abs(away) <= 1e-9).sum()) - 1) / 2


def untestable(known: Sequence[Known], priors: dict[str, Floats]) -> dict[str, dict[str, float]]:
    """With a share of places that say nothing: how often the answer names one commit and is wrong, holds the culprit."""
    answers: dict[str, list[tuple[int, range]]] = {"plain": [], "bayesect-sure": [], "ours": []}
    random = np.random.default_rng(1)
    for one in known:
        count = len(one.matrix)
        skipped = frozenset(int(place) for place in np.flatnonzero(random.random(count - 1) < SKIPPED))
        answers["plain"].append(plain(count, one.culprit, skipped))
        tests, named = bayesect(count, one.culprit, sure=True, skipped=skipped)
        answers["bayesect-sure"].append((tests, range(0) if named is None else range(named, named + 1)))
        tests, _, left = ours(priors[one.name], one.culprit, 1, skipped)
        answers["ours"].append((tests, left))
    return {
        name: {
            "mean_tests": round(mean(tests for tests, _ in told), 3),
            "names_a_wrong_commit": round(
                mean(len(left) == 1 and one.culprit not in left for (_, left), one in zip(told, known, strict=True)), 3
            ),
            "holds_the_culprit": round(mean(one.culprit in left for (_, left), one in zip(told, known, strict=True)), 3),
        }
        for name, told in answers.items()
    }


def measure(cases: Path, commits: Path, *, reconstructed: bool) -> dict[str, object]:
    noticed, picked = (read_cases(cases, commits, noticed=flag) for flag in (True, False))
    validated = {id(known): cross_validated(known, STRENGTH) for known in (noticed, picked)}
    if not reconstructed:
        noticed_kept, picked_kept = ([one for one in known if one.source != "reconstructed"] for known in (noticed, picked))
        validated = {id(noticed_kept): validated[id(noticed)], id(picked_kept): validated[id(picked)]}
        noticed, picked = noticed_kept, picked_kept
    reference = [int(halving_depths(len(one.matrix))[one.culprit]) for one in noticed]
    shipped = shipped_weights()
    rows: dict[str, object] = {"plain": figures([plain(len(one.matrix), one.culprit)[0] for one in noticed], reference)}
    for name, sure in (("bayesect", False), ("bayesect-sure", True)):
        told = [bayesect(len(one.matrix), one.culprit, sure) for one in noticed]
        right = [named == one.culprit for (_, named), one in zip(told, noticed, strict=True)]
        rows[name] = {**figures([tests for tests, _ in told], reference), "right": round(mean(right), 3)}
    flat = {one.name: np.full(len(one.matrix), 1 / len(one.matrix)) for one in noticed}
    rows["uniform"] = with_prior(noticed, flat, reference)
    for end, known in (("", noticed), ("-picked", picked)):
        weights = validated[id(known)]
        rows[f"ours{end}"] = with_prior(known, {one.name: suspicion(one.matrix, shipped) for one in known}, reference)
        own = {one.name: suspicion(one.matrix, weights[one.name]) for one in known}
        rows[f"ours-cv{end}"] = with_prior(known, own, reference)
    skips = untestable(noticed, {one.name: suspicion(one.matrix, validated[id(noticed)][one.name]) for one in noticed})
    return {"cases": len(noticed), "floor": FLOOR, "search": rows, f"untestable_{SKIPPED}": skips}


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
        print(f"  with {SKIPPED:.0%} of the places untestable")
        for row, told in part[f"untestable_{SKIPPED}"].items():
            print(f"    {row:14s} " + "  ".join(f"{key.replace('_', ' ')} {value}" for key, value in told.items()))


if __name__ == "__main__":
    main()
