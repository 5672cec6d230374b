"""The sections of a project file that configure sources, and the values they hold."""

from __future__ import annotations

import string
from abc import abstractmethod
from typing import Annotated

from pydantic import AfterValidator

from triage.recipes.mapping import MappingFormat, OneOrMore, Pattern, Text
from triage.toolchains.sources.base import Source, SourceContext


def _tag(text: str) -> str:
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError:  # unbalanced braces
        names = []
    if names != ["version"]:
        raise ValueError(f'"{text}" is not a pattern for tags: write {{version}} once, such as "v{{version}}".')
    return text


Url = Annotated[Text, Pattern("https?://.+", '"{text}" is not an address: write one that begins with https://.')]
Tags = Annotated[tuple[Annotated[Text, AfterValidator(_tag)], ...], OneOrMore()]


class SourceSection(MappingFormat):
    """The settings of one source."""

    @abstractmethod
    def open(self, context: SourceContext) -> Source:
        """The source. It asks nothing yet. BadInput when settings are missing that the project could have."""

    @property
    def needs_distribution(self) -> bool:
        """Whether the project must name its wheels."""
        return False
