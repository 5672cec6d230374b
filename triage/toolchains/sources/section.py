"""The sections of a project file that configure sources, and the values they hold."""

from __future__ import annotations

import string
from abc import abstractmethod
from typing import Annotated, Any

from pydantic import BeforeValidator

from triage.recipes.mapping import MappingFormat
from triage.recipes.values import advice, as_duration, as_list, as_text, as_variables
from triage.toolchains.sources.base import Source, SourceContext


def _url(value: Any) -> str:
    text = as_text(value)
    if not text.startswith(("https://", "http://")):
        raise advice(f'"{text}" is not an address: write one that begins with https://.')
    return text


def _tag(value: Any) -> str:
    text = as_text(value)
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(text) if name is not None]
    except ValueError:  # unbalanced braces
        names = []
    if names != ["version"]:
        raise advice(f'"{text}" is not a pattern for tags: write {{version}} once, such as "v{{version}}".')
    return text


Url = Annotated[str, BeforeValidator(_url)]
Duration = Annotated[float, BeforeValidator(as_duration)]
Tags = Annotated[tuple[Annotated[str, BeforeValidator(_tag)], ...], BeforeValidator(as_list)]
Variables = Annotated[dict[str, str | None], BeforeValidator(as_variables)]


class SourceSection(MappingFormat):
    """The settings of one source."""

    @abstractmethod
    def open(self, context: SourceContext) -> Source:
        """The source. It asks nothing yet. BadInput when settings are missing that the project could have."""

    @property
    def needs_distribution(self) -> bool:
        """Whether the project must name its wheels."""
        return False
