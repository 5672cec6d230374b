from __future__ import annotations

from pathlib import Path

import pytest

from triage.model.errors import BadFiles, BadInput
from triage.toolchains.project import find_project, load_project


def test_every_mistake_is_reported_at_its_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """\
name: x
nightlys: {}
nightlies: {find-links: ftp://x, tags: [v]}
releases: {tagz: a}
build: {commands: [], timeout: 5 parsecs, submodules: perhaps}
paths: {a: b}
distribution: 3.10
name: again
owners: [{owner: '@a', backend: rocm}, {backends: rocm}, {owner: '', backends: rocm}]
"""
    expected = """\
1:1 `compiler: my-compiler`
2:1 did you mean "nightlies"?
3:25 https://
3:41 {version}
4:11 the key "tags" is missing
4:12 did you mean "tags"?
5:32 120s, 2m or 1h30m
5:55 true
6:8 not a mapping
8:1 first at 1:1
9:24 did you mean "backends"?
9:40 the key "owner" is missing
9:66 empty"""
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(text)
    with pytest.raises(BadFiles) as caught:
        load_project(Path("t.yaml"))
    lines = expected.splitlines()
    for problem, line in zip(caught.value.problems, lines, strict=True):
        position, word = line.split(" ", 1)
        assert str(problem).startswith(f"t.yaml:{position}: ")
        assert word in str(problem)


def test_the_users_file_has_precedence(tmp_path: Path) -> None:
    (tmp_path / "triage.yaml").write_text(
        "name: mine\ncompiler: iree\nbuild: {commands: make}\n"
    )
    assert find_project("iree", tmp_path / "no", tmp_path).name == "mine"
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "triage.yaml").write_text("name: own\ncompiler: command\n")
    assert find_project("command@my-recipe", tmp_path / "own").name == "own"
    assert find_project("triton", tmp_path).name == "triton"
    with pytest.raises(BadInput, match=r"odd compilers .*: write .*triage\.yaml"):
        find_project("odd", tmp_path)
    (tmp_path / "triage.yaml").write_text("name: mine\n")
    with pytest.raises(BadFiles, match=r"triage\.yaml:1:1: .*`compiler: my-compiler`"):
        find_project("iree", tmp_path)
    with pytest.raises(BadFiles):
        load_project(tmp_path / "missing.yaml")
