"""Learn which line of a log tells its failure, from the labelled logs.

Run: `python -m benchmarks.train_lines [--write]`, with scikit-learn. It prints for each
set, left out of the training, how often the line with the highest score is the labelled
one, and how often it is among the first three: in the log alone, and between lines of
green logs. `--write` trains on all sets and writes the weights that `triage` reads.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from random import Random

import numpy
import yaml
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from benchmarks.first_look import FOLDER, SETS, listed
from triage.classify.log import clean_line
from triage.classify.second_look import WEIGHTS, line_features, scores

MOST_WEIGHTS = 600
NOISE = 120  # lines at most before a log; half as many below
RAREST = 4  # lines that have a feature
# Weight of all other lines of a log; its labelled ones have 1. A high score of another
# line is an alarm.
OTHER_LINES = 3
STRENGTH = 4.0  # the smaller, the fewer weights

Log = tuple[list[str], list[bool]]
"""The lines of a log, and whether each is a labelled one."""


def read(kind: str, name: str) -> list[Log]:
    """Read the failing or the green logs of a set."""
    logs: list[Log] = []
    for entry in yaml.safe_load((FOLDER / f"{kind}_{name}.yaml").read_text("utf-8")):
        lines = [clean_line(line.encode()).text for line in entry["log"].splitlines()]
        texts = listed(entry.get("headline") or [])
        labels = [any(text in line for text in texts) for line in lines]
        logs.append((lines, labels))
    return logs


def between_others(logs: Sequence[Log], seed: int) -> list[Log]:
    """Put each failing log between lines of green ones."""
    random = Random(seed)
    green = [lines for lines, labels in logs if not any(labels)]
    hidden: list[Log] = []
    for lines, labels in logs:
        if any(labels):
            before = [line for other in random.sample(green, 3) for line in other]
            after = [line for other in random.sample(green, 2) for line in other]
            before, after = before[-NOISE:], after[: NOISE // 2]
            marks = [False] * len(before) + labels + [False] * len(after)
            hidden.append((before + lines + after, marks))
    return hidden


def train(logs: Sequence[Log]) -> dict[str, float]:
    """Return the largest weights of a logistic regression."""
    rows: list[dict[str, float]] = []
    labels: list[bool] = []
    importance: list[float] = []
    for lines, marks in [*logs, *between_others(logs, 3)]:
        right, wrong = sum(marks), len(marks) - sum(marks)
        rows += line_features(lines)
        labels += marks
        others = OTHER_LINES / max(wrong, 1)
        importance += [1 / right if mark else others for mark in marks]
    vectors = DictVectorizer()
    table = vectors.fit_transform(rows)
    frequent = numpy.asarray((table != 0).sum(axis=0)).ravel() >= RAREST
    model = LogisticRegression(
        l1_ratio=1, solver="liblinear", C=STRENGTH, max_iter=300, random_state=0
    )
    model.fit(table[:, frequent], labels, sample_weight=importance)
    names = vectors.get_feature_names_out()[frequent]
    pairs = sorted(zip(names, model.coef_[0], strict=True), key=lambda p: -abs(p[1]))
    rounded = {str(name): round(float(weight), 2) for name, weight in pairs}
    return {n: w for n, w in list(rounded.items())[:MOST_WEIGHTS] if abs(w) > 0.02}


def hits(logs: Sequence[Log], weights: Mapping[str, float], most: int) -> int:
    """Count the logs of which a labelled line is among the first by its score."""
    count = 0
    for lines, labels in logs:
        values = scores(lines, weights)
        best = sorted(range(len(lines)), key=lambda at: -values[at])[:most]
        count += any(labels[at] for at in best)
    return count


def main() -> None:
    """Print the table, or write the weights."""
    sets = {name: [*read("logs", name), *read("green", name)] for name in SETS}
    if sys.argv[1:] == ["--write"]:
        weights = train([log for logs in sets.values() for log in logs])
        text = json.dumps(weights, indent=0, sort_keys=True)
        WEIGHTS.write_text(text + "\n", "utf-8")
        print(f"{len(weights)} weights")
        return
    for name, logs in sets.items():
        others = [log for other in SETS if other != name for log in sets[other]]
        weights = train(others)
        failing = [log for log in logs if any(log[1])]
        hidden = between_others(logs, 5)
        row = [
            hits(part, weights, most) for part in (failing, hidden) for most in (1, 3)
        ]
        print(f"{name:9} first {row[0]}, in three {row[1]} of {len(failing)};", end="")
        print(f" between others {row[2]} and {row[3]}; {len(weights)} weights")


if __name__ == "__main__":
    main()
