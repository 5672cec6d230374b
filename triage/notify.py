"""Send a short message through apprise: to a chat, by e-mail or to a webhook."""

from __future__ import annotations

from collections.abc import Sequence

from apprise import Apprise, NotifyFormat

from triage.model.errors import BadInput


class Notifier:
    """Addresses that messages are sent to. They hold secrets, so that messages name only their scheme and position."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Raises BadInput for an address that apprise does not know."""
        self._targets: list[tuple[str, Apprise]] = []
        for number, url in enumerate(urls, 1):
            name = f"{url.partition('://')[0][:20] if '://' in url else 'address'} ({number} of {len(urls)})"
            target = Apprise()
            if not target.add(url):
                raise BadInput(f"cannot notify {name}: apprise does not know this address; see `apprise --details`")
            self._targets.append((name, target))

    def send(self, title: str, text: str) -> list[str]:
        """Send a message to every address and return the names of those that did not take it."""
        return [name for name, target in self._targets if not _is_sent(target, title, text)]


def _is_sent(target: Apprise, title: str, text: str) -> bool:
    try:
        return bool(target.notify(body=text, title=title, body_format=NotifyFormat.TEXT))
    except Exception:  # each service has its own; a message that is not sent changes nothing else
        return False
