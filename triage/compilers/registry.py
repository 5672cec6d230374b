"""The compiler families there are. Those behind a command come into being with the recipes that name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from triage.compilers.base import Compiler
from triage.compilers.command import Command
from triage.model.case import Case, CommandLine

_PACKAGE = "command:"


class Families(Mapping[str, Compiler]):
    """Families by name. `command:NAME` is known without having been met: the releases of that package."""

    def __init__(self, *known: Compiler) -> None:
        self._known = {compiler.name: compiler for compiler in known}

    def meet(self, case: Case) -> None:
        """Know the family of a recipe's command."""
        if isinstance(case.how, CommandLine) and case.compiler not in self._known:
            self._known[case.compiler] = Command(case.compiler, case.how.packages, case.how.version)

    def __getitem__(self, name: str) -> Compiler:
        if name not in self._known and name.startswith(_PACKAGE) and name != _PACKAGE:
            return Command(name, tuple(name.removeprefix(_PACKAGE).split()))
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or (isinstance(name, str) and name.startswith(_PACKAGE) and name != _PACKAGE)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
