"""Python programs that run as they are with each release of a package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Asked
from tests.toolchains.loopback import make_wheel, serve

# From 1.1 on it joins words in another way, from 1.2 on it adds wrongly, and 1.3 lacks
# a function.
RELEASES = {
    "1.0": "join = ' and '.join\ndef add(a, b): return a + b\n",
    "1.1": "join = ' or '.join\ndef add(a, b): return a + b\n",
    "1.2": "join = ' or '.join\ndef add(a, b): return a - b\n",
    "1.3": "join = ' or '.join\n",
}
JOINS = """import os, sys, time
import texts
from helper import WORDS

print("texts", texts.VERSION, "in", sys.prefix, "at", time.time(), os.getpid(), id(WORDS))
print(texts.join(WORDS), {"a", "b", "c"})
"""
ADDS = """import texts
assert texts.add(2, 2) == 4, 'it does not add'
print(texts.add(1, 1))
"""
BOTH = """import texts
assert texts.join(["", ""]) == " or "
print(texts.add(1, 1))
"""
LONE = """import texts
assert not hasattr(texts, "add")
print(7)
"""
RANDOM = """import os, texts
print([byte % 2 for byte in os.urandom(999)])
"""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An index with four releases of a package, and the home that installs them."""
    folder = tmp_path_factory.mktemp("index")
    for version, text in RELEASES.items():
        module = f"VERSION = '{version}.0'\n{text}".encode()
        make_wheel(folder, version, distribution="texts", files={"texts.py": module})
    with serve(folder) as served, pytest.MonkeyPatch.context() as patch:
        served.publish_dated("texts", dict.fromkeys(RELEASES))
        patch.setenv("TRIAGE_INDEX_URL", served.url)
        patch.setenv("TRIAGE_HOME", str(tmp_path_factory.mktemp("home")))
        yield Path(os.environ["TRIAGE_HOME"])


@pytest.fixture(autouse=True)
def scripts(workplace: Path) -> None:
    (workplace / "joins.py").write_text(JOINS)
    (workplace / "helper.py").write_text("WORDS = ['salt', 'pepper']\n")
    (workplace / "adds.py").write_text(ADDS)


def on(*names: str) -> list[str]:
    return [word for name in names for word in ("-t", f"command:texts:{name}")]


@pytest.mark.usefixtures("releases")
def test_how_a_script_ends_and_what_it_prints_is_its_result(
    asked: Asked, workplace: Path
) -> None:
    """Times, versions and addresses that it prints do not count. The recipe is what
    `bisect` and `why` make of a script.
    """
    keys = "compiler: command\npackage: texts\ninput: joins.py"
    reference = "run: {reference: {toolchain: '1.2'}}"
    (workplace / "r.yaml").write_text(f"name: r\n{keys}\n{reference}\n")
    rows = asked("run", "adds.py", *on("1.0", "1.2", "1.3"), code=1)["results"]
    rows += asked("run", "r.yaml", "-t", "1.0", "-t", "1.1", code=1)["results"]
    assert [
        row["failure"]["class"] if row["failure"] else row["status"] for row in rows
    ] == ["passed", "python-exception", "import-error", "wrong-result", "passed"]
    assert "is 'and', expected 'or'; 1 of " in rows[3]["failure"]["headline"]
    # a release on which it fails does not say what is right, another one may
    assert asked("why", "adds.py", *on("1.1"))["status"] == "passes"
    (workplace / "both.py").write_text(BOTH)
    failure = asked("why", "both.py", *on("1.1"), code=1)["failure"]
    assert failure["class"] == "wrong-result"
    (workplace / "lone.py").write_text(LONE)
    assert "no results were compared" in asked("why", "lone.py", *on("1.3"))["reason"]
    (workplace / "draws.py").write_text(RANDOM)
    assert asked("why", "draws.py", *on("1.1"), code=3)["flaky"]
    short = asked("why", "joins.py", *on("1.1"), "--budget", "0.01s", code=3)
    assert "no results were compared" in short["reason"]


@pytest.mark.slow
@pytest.mark.usefixtures("releases")
def test_the_release_that_changed_a_script_is_found(
    asked: Asked, workplace: Path
) -> None:
    for script, bad, culprit in (("adds.py", "1.2", "1.2"), ("joins.py", "1.3", "1.1")):
        ends = ("--good", "command:texts:1.0", "--bad", f"command:texts:{bad}")
        bisection = asked("bisect", script, *ends)
        assert (bisection["status"], bisection["after"]["name"]) == ("culprit", culprit)
    failure = asked("why", "joins.py", *on("1.1"), code=1)["failure"]
    assert failure["class"] == "wrong-result"
    script = JOINS.replace("from helper import WORDS", "WORDS = ['a', 'b']")
    (workplace / "issue.md").write_text(f"It says or:\n```python\n{script}```\n")
    pasted = asked("why", "issue.md", *on("1.1"), code=1)["failure"]
    assert pasted["signature"] == failure["signature"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "good", "bad"), [("adds.py", "1.1", "1.2"), ("joins.py", "1.0", "1.1")]
)
def test_a_reduced_script_repeats_its_failure_without_triage(
    releases: Path, asked: Asked, workplace: Path, script: str, good: str, bad: str
) -> None:
    alone = JOINS.replace("from helper import ", "")
    (workplace / "joins.py").write_text(alone.replace("WORDS", "['salt', 'pepper']"))
    out = ("--good", good, "--out", workplace / "out")
    assert asked("reduce", script, *on(bad), *out)["status"] == "reduced"
    [written] = workplace.rglob("repro.sh")
    assert "pip install texts==" in written.read_text()
    # its comparison needs numpy, which this environment has
    packages = os.pathsep.join(path for path in sys.path if "site-packages" in path)
    for version, is_right in ((good, True), (bad, False)):
        [python] = releases.glob(f"toolchains/venv-texts-{version}-*/bin/python")
        env = {**os.environ, "PYTHON": str(python), "PYTHONPATH": packages}
        done = subprocess.run(["sh", written], env=env, capture_output=True)
        assert (done.returncode == 0) is is_right, done.stderr
