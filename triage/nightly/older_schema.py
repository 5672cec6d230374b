"""Convert the JSON of a night of schema 4, which had five shapes for what a case did on
a toolchain.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from triage.investigate.result import ClusterKey
from triage.model.errors import BadInput
from triage.model.json_form import Json

_TIMES = {
    "compile_seconds": "seconds",
    "cpu_seconds": "cpu_seconds",
    "peak_rss_mb": "peak_rss_mb",
}


def from_schema_4(night: Json, name: str) -> Json:
    """Return the JSON of a night in schema 5; what is not known stays at its default.
    name: of the document, for errors.

    Raises:
        BadInput: A part has another shape than schema 4 says.
    """
    try:
        return _converted(night)
    except KeyError as error:
        problem = f"a part lacks the key {error}"
        raise BadInput(f"{name} is not the JSON of a nightly: {problem}") from error
    except (AttributeError, TypeError, ValueError) as error:
        problem = "a part has another shape than schema 4 says"
        raise BadInput(f"{name} is not the JSON of a nightly: {problem}") from error


def _converted(night: Json) -> Json:
    cases = []
    for case in night.get("cases", []):
        baseline = _result(case["baseline"], night["baseline"])
        baseline |= {"case": case["case"], "recipe": case["recipe"]}
        bisections = [_bisection(one) for one in case.get("bisections", [])]
        result = _result(case, night["toolchain"])
        cases.append(result | {"baseline": baseline, "bisections": bisections})
    by_name = {case["case"]: case for case in cases}
    times = []
    for row in night.get("times", []):
        if row.get("bisection"):
            row = row | {"bisection": _bisection(row["bisection"])}
        times.append(row)
    return night | {
        "schema": 5,
        "cases": cases,
        "clusters": [_cluster(one, by_name) for one in night.get("clusters", [])],
        "times": times,
    }


def _result(result: Json, toolchain: Json) -> Json:
    """Move the times out of the metrics and name the toolchain."""
    metrics = dict(result.get("metrics", {}))
    times = {
        field: metrics.pop(name) for name, field in _TIMES.items() if name in metrics
    }
    return result | times | {"metrics": metrics, "toolchain": toolchain}


def _bisection(bisection: Json) -> Json:
    case = bisection["case"]

    def results(key: str, **more: str) -> Iterator[Json]:
        for one in bisection.get(key, []):
            known = {name: one[name] for name in ("failure", "reason") if name in one}
            yield _named(case, one["revision"]) | known | more

    others = results("other_failures", status="failed")
    untestable = results("untestable", status="untestable", cause="toolchain")
    return bisection | {"other_failures": [*others], "untestable": [*untestable]}


def _named(case: str, toolchain: Json) -> Json:
    return {"case": case, "recipe": case.partition("[")[0], "toolchain": toolchain}


def _cluster(cluster: Json, cases: dict[str, Json]) -> Json:
    """Convert a cluster. Early ones of the schema lack compiler and backend, which are
    those of their cases.
    """
    converted = dict(cluster)
    for key in ("culprit", "release_culprit", "fix"):
        if cluster.get(key):
            converted[key] = _bisection(cluster[key])
    if cluster.get("attribution"):
        converted |= _attribution(cluster)
    names = cluster.get("cases", [])
    name = cluster.get("representative") or next(iter(names), "")
    converted["remedies"] = [
        {
            **remedy,
            "checks": [_check(name, one) for one in remedy.get("checks", [])],
            "rank": [],  # numbers that JSON does not have were written as null
        }
        for remedy in cluster.get("remedies", [])
    ]
    case = cases.get(name)
    if case and not cluster.get("compiler"):
        backend = (case.get("target") or {}).get("backend", "")
        identity = ClusterKey(case["compiler"], backend, cluster["signature"])
        number = cluster.get("id", "")[len(identity.id) :]
        converted |= asdict(identity) | {"id": identity.id + number}
    return converted


def _attribution(cluster: Json) -> Json:
    """Convert the pass after which two compilers part, and the page that shows it."""
    old, culprit = cluster["attribution"], cluster.get("culprit") or {}
    failing = old["status"] == "failing-pass"
    name = {"name": old["pass"], "argument": None} if old.get("pass") else None
    function = old.get("function")
    found = {"good": None, "bad": name, "function": function}
    attribution = {
        "case": culprit.get("case", ""),
        "good": culprit.get("before") or {"name": "?"},
        "bad": culprit.get("after") or {"name": "?"},
        "status": old["status"],
        "failing": name if failing else None,
        "pass": found if name and not failing else None,
        "function": {"bad": function} if function else {},
        "suspect_files": old.get("files", []),
    }
    return {"attribution": attribution, "attribution_page": old.get("page")}


def _check(case: str, check: Json) -> Json:
    def side(text: str, cost: Json | None, cause: str) -> Json:
        result = _named(case, check["revision"])
        if cost is None:
            return result | {"status": "untestable", "reason": text, "cause": cause}
        times = {name: cost[name] for name in _TIMES.values() if name in cost}
        metrics = {name: value for name, value in cost.items() if name not in times}
        return result | {"status": "passed", "metrics": metrics} | times

    # a remedy that could not be read breaks nothing
    cause = "flag" if check.get("breaks") else "input"
    return {
        "without": side(check["without"], check.get("cost_without"), "flag"),
        "with": side(check["with"], check.get("cost_with"), cause),
    }
