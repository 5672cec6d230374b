"""Addresses of servers in messages."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from triage.model.errors import EnvironmentFailure


def host_of(url: str) -> str:
    """The host and port of an address; the address itself where it is not valid."""
    try:
        return without_password(urlsplit(url).netloc) or url
    except ValueError:
        return without_password(url)


def without_password(url: str) -> str:
    """An address to print, without the user and password that it may contain."""
    return re.sub(r"(^|//)[^/]*@", r"\1", url, count=1)


def unusable(url: str, reason: str) -> EnvironmentFailure:
    """Return the error for an answer in an unexpected form."""
    return EnvironmentFailure(f"{host_of(url)} gave an unusable answer: {reason}")
