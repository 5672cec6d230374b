"""A repository with release branches, as Triton names them: `release/3.1.x` with the
tag `v3.1.0`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.git_history.history import History


@dataclass
class Releases:
    """`shas`: by the number of the change on the main line, or the name of a commit of
    a branch.
    """

    history: History
    shas: dict[int | str, str] = field(default_factory=dict)

    @classmethod
    def begin(cls, path: Path) -> Releases:
        """Main has the changes 0 to 19. 3.1.0 left it after 4, and 3.2.0 after 12. Both
        have cherry-picks, changes of their own and, 3.1.0, a revert.
        """
        made = cls(History.begin(path))
        stream = "".join(_change(number) for number in range(20))
        made.history.git("fast-import", "--quiet", data=stream.encode())
        made.shas |= dict(
            enumerate(made.history.git("rev-list", "--reverse", "main").split())
        )
        made.branch("3.1.x", 4)
        made.pick("plain", 7)
        made.pick("backport", 9)
        made.history.git("commit", "--quiet", "--amend", "--message=Backport #109")
        made.shas["backport"] = made.history.head()
        made.shas["revert"] = made.commit(
            'Revert "Change 3 (#103)"', {"part3.cpp": "int part;\n"}
        )
        made.history.git("tag", "-a", "-m", "3.1.0", "v3.1.0")
        made.branch("3.2.x", 12)
        made.pick("changed", 14, files={"part14.cpp": "int part = 14; // here\n"})
        made.shas["squashed"] = made.commit(
            "[Release] Cherry-pick of #117 (#131)", {"part17.cpp": "int other = 17;\n"}
        )
        made.shas["own"] = made.commit(
            "Set the version to 3.2.0 (#132)", {"setup.py": "version = '3.2.0'\n"}
        )
        made.history.git("tag", "v3.2.0")
        made.history.git("switch", "--quiet", "main")
        return made

    def commit(self, subject: str, files: dict[str, str | bytes]) -> str:
        return self.history.commit(subject, files)

    def branch(self, name: str, number: int) -> None:
        self.history.git(
            "switch", "--quiet", "--create", f"release/{name}", self.shas[number]
        )

    def pick(self, name: str, number: int, files: dict[str, str] | None = None) -> None:
        """Cherry-pick a change; with other contents where `files` says so."""
        self.history.git("cherry-pick", self.shas[number])
        for path, text in (files or {}).items():
            self.history.write(path, text)
            self.history.git("commit", "--quiet", "--all", "--amend", "--no-edit")
        self.shas[name] = self.history.head()


def _change(number: int) -> str:
    """A change of the main line, for `git fast-import`. It touches a file of its own."""
    subject, text = f"Change {number} (#{100 + number})", f"int part = {number};\n"
    # from 2025-06-01 on, a day apart
    who = f"A <a@example.org> {1_748_779_200 + 86_400 * number} +0000"
    lines = [
        "commit refs/heads/main",
        f"author {who}",
        f"committer {who}",
        f"data {len(subject)}",
        subject,
    ]
    return "\n".join(
        [*lines, f"M 100644 inline part{number}.cpp", f"data {len(text)}", text, ""]
    )
