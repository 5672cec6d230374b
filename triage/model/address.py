"""Addresses of pages, indexes, files and repositories, in which passwords can stand."""

from __future__ import annotations

import re

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@]*)(:\d+)?")
_SCP_LIKE = re.compile(r"[^@/:\s]+@([\w.-]+:(?!/).*)", re.DOTALL)
_IN_TEXT = re.compile(r"[A-Za-z][\w+.-]*://[^\s'\"<>]*")


class Address(str):
    """An address whose text has no user, password, query or fragment, where tokens
    stand. Only what opens it uses `full`.

    >>> address = Address("https://me:secret@host/simple/?token=secret")
    >>> address
    'https://host/simple/'
    >>> address.full
    'https://me:secret@host/simple/?token=secret'
    """

    full: str

    def __new__(cls, text: str) -> Address:
        address = super().__new__(cls, _shown(text))
        address.full = getattr(text, "full", text)
        return address


def without_secrets(text: str) -> str:
    """Return a text, such as a program's output, whose addresses have no secrets.

    >>> without_secrets("fatal: 'https://me:secret@host/a' not found")
    "fatal: 'https://host/a' not found"
    """
    return _IN_TEXT.sub(lambda found: Address(found[0]), text)


def _shown(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    if not mark:
        scp_like = _SCP_LIKE.fullmatch(text)
        return scp_like[1] if scp_like else text
    place = _without_query(re.sub(r"^[^/?#]*@", "", rest))
    if not _HOST.fullmatch(place.partition("/")[0]):
        # a password that is not escaped, with a slash or a question mark in it
        _, at, behind = rest.rpartition("@")
        place = _without_query(behind) if at else "..."
    return f"{scheme}://{place}"


def _without_query(text: str) -> str:
    return re.split("[?#]", text, maxsplit=1)[0]
