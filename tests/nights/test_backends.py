"""A failure of one backend, or of one compiler, is not the failure of another one that
has the same signature.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Triage
from tests.nights.documents import case_result, night
from triage.cli.nights import open_nights
from triage.investigate.result import CaseResult, ClusterKey, text_id
from triage.model.case import Target
from triage.nightly.result import Night, night_bytes

ISSUE = "o/r#7"


def on(backend: str, name: str, letter: str = "F", **values: Any) -> CaseResult:
    return case_result(name, letter, target=Target(backend, "gpu"), **values)


def store_in_older_form(home: Path, record: Night) -> None:
    """Write a night as it was stored when clusters had neither compiler nor backend:
    one for each signature.
    """
    document = json.loads(night_bytes(record))
    signature = record.clusters[0].signature
    cluster = {
        "signature": signature,
        "cases": [case.case for case in record.cases if case.is_new_failure],
        "id": text_id(signature),
        "failure": document["clusters"][0]["failure"],
        "representative": "on-cuda",
    }
    for case in document["cases"]:
        for result in (case, case["baseline"]):
            del result["toolchain"]
    document |= {"schema": 4, "clusters": [cluster]}
    folder = home / "nights-4" / "1"
    folder.mkdir(parents=True)
    content = zlib.compress(json.dumps(document).encode())
    (folder / "nightly.json.z").write_bytes(content)


def shown(triage: Triage, case: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(triage("show", case, "--format", "json").stdout)
    return answer


@pytest.mark.parametrize("older", [False, True])
def test_a_regression_does_not_show_the_issue_of_another_backend(
    home: Path, triage: Triage, *, older: bool
) -> None:
    known = night(1, {}, cases=[on("cuda", "on-cuda"), on("rocm", "on-rocm", "P")])
    if older:
        store_in_older_form(home, known)
    store = open_nights()
    if not older:
        store.add(known)
    store.add_issues(
        {(text_id("legalize:x") if older else known.clusters[0].id): ISSUE}
    )
    store.add(night(2, {}, cases=[on("cuda", "on-cuda"), on("rocm", "on-rocm")]))
    cuda, rocm = (shown(triage, name) for name in ("on-cuda", "on-rocm"))
    assert (list(cuda["tracked"].values()), rocm["tracked"]) == ([ISSUE], {})
    clusters = [each["runs"][0]["cluster"] for each in (cuda, rocm)]
    assert clusters == [
        ClusterKey("iree", backend, "legalize:x").id for backend in ("cuda", "rocm")
    ]
    assert triage("site", "--out", "public").returncode == 0
    pages = [
        (home.parent / "work" / "public" / "failures" / f"{cluster}.html").read_text()
        for cluster in clusters
    ]
    assert [ISSUE in page for page in pages] == [True, False]


def test_an_expected_failure_of_one_backend_does_not_name_the_issue_of_another(
    home: Path, triage: Triage
) -> None:
    cases = [on("cuda", "on-cuda", "X", issue=ISSUE), on("rocm", "on-rocm")]
    open_nights().add(night(1, {}, cases=cases))
    assert [
        list(shown(triage, name)["tracked"].values()) for name in ("on-cuda", "on-rocm")
    ] == [[ISSUE], []]


def test_a_site_of_some_tracks_has_their_nights_only(
    home: Path, triage: Triage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIAGE_NIGHTS", str(home.parent / "own-nights"))
    store = open_nights()
    for day, backend in enumerate(("cuda", "rocm", "cuda"), 1):
        store.add(night(day, {}, cases=[on(backend, f"on-{backend}")]))
    words = ("site", "--out", "public", "--format", "json", "--track")
    counts = [
        tuple(
            json.loads(triage(*words, pattern).stdout)[key]
            for key in ("nights", "cases", "failures")
        )
        for pattern in ("*", "*cuda*")
    ]
    assert counts == [(3, 2, 2), (2, 1, 1)]
    assert triage(*words, "tpu").returncode == 2
    assert not [*home.glob("nights*")]


def test_a_night_has_a_cluster_for_each_backend_and_compiler() -> None:
    cases = [
        on("cuda", "a"),
        on("rocm", "b"),
        on("cuda", "c"),
        on("cuda", "d", compiler="xla"),
    ]
    record = night(1, {}, cases=cases)
    found = {
        (cluster.compiler, cluster.backend): cluster.cases
        for cluster in record.clusters
    }
    assert found == {
        ("iree", "cuda"): ["a", "c"],
        ("iree", "rocm"): ["b"],
        ("xla", "cuda"): ["d"],
    }
    assert len({cluster.id for cluster in record.clusters}) == 3


def test_a_cluster_of_an_older_version_has_the_backend_of_its_investigated_case(
    home: Path, triage: Triage
) -> None:
    record = night(
        1, {}, cases=[on("rocm", "on-rocm"), on("cuda", "on-cuda"), on("cuda", "too")]
    )
    store_in_older_form(home, record)
    [cluster] = json.loads(triage("nights", "show", "--format", "json").stdout)[
        "clusters"
    ]
    assert (cluster["backend"], cluster["cases"]) == (
        "cuda",
        ["on-rocm", "on-cuda", "too"],
    )
    assert cluster["id"] == ClusterKey("iree", "cuda", "legalize:x").id
