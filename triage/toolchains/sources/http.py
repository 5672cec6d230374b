"""Asking web servers that are slow, limit their callers and break off."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from triage.model.errors import EnvironmentFailure, Interrupted
from triage.toolchains.home import disk_errors
from triage.toolchains.sources.base import Unobtainable, Workplace

if TYPE_CHECKING:  # imported where it is used: it costs every start of the program a tenth of a second
    import requests

_TRIES = 4
_PATIENCE = 90.0  # seconds that a rate limit is waited for; a longer one is told
_TIMEOUT = (10, 60)  # to connect; between two bytes
_CHUNK = 1 << 18

Sign = Callable[["requests.PreparedRequest"], "requests.PreparedRequest"]


class Web:
    """GET with second tries. `sign` adds credentials; requests takes them off when it is led to another host."""

    def __init__(self, place: Workplace, sign: Sign | None = None) -> None:
        self._place = place
        self._sign = sign

    def get(
        self, url: str, params: Mapping[str, str | int] | None = None, accept: str | None = None, *, stream: bool = False
    ) -> requests.Response:
        """The answer, whatever its status but for limits and faults of the server, which are waited for.

        EnvironmentFailure when the server cannot be reached or goes on refusing; with when it will answer, where told.
        """
        import requests

        headers = {"Accept": accept} if accept else {}
        for attempt in range(_TRIES):
            last = attempt == _TRIES - 1
            try:
                answer = requests.get(url, params=params, headers=headers, auth=self._sign, timeout=_TIMEOUT, stream=stream)
            except (requests.ConnectionError, requests.Timeout) as error:
                if last:
                    raise EnvironmentFailure(f"cannot reach {_host(url)}: {_brief(error)}") from error
                self._place.pause(0.25 * 4**attempt)
                continue
            except requests.RequestException as error:
                raise EnvironmentFailure(f"cannot ask {url}: {error}") from error
            wait = _wait(answer)
            if wait is None and answer.status_code < 500:
                return answer
            if last or (wait or 0) > _PATIENCE:
                raise EnvironmentFailure(_refusal(answer, wait))
            answer.close()
            self._place.pause(0.25 * 4**attempt if wait is None else wait)
        raise AssertionError("the last attempt returns or raises")

    def download(self, url: str, target: Path, what: str, sha256: str | None = None, accept: str | None = None) -> None:
        """Fetch a file. Unobtainable when it is gone or not the one promised, EnvironmentFailure when it did not arrive."""
        for attempt in range(_TRIES):
            answer = self.get(url, accept=accept, stream=True)
            if answer.status_code in (404, 410):
                raise Unobtainable(f"{what} is gone from {_host(url)} ({answer.status_code})")
            if answer.status_code != 200:
                raise EnvironmentFailure(f"{_host(url)} refused {what}: {answer.status_code} {answer.reason}{_told(answer)}")
            digest = self._save(answer, target, what)
            if digest is not None:
                if sha256 and digest != sha256:
                    raise Unobtainable(f"{what} is not the file that was promised: its sha256 is {digest}")
                return
            self._place.pause(0.25 * 4**attempt)
        raise EnvironmentFailure(f"{_host(url)} broke off {_TRIES} times while sending {what}")

    def _save(self, answer: requests.Response, target: Path, what: str) -> str | None:
        """The sha256 of what was saved; None when the server broke off."""
        import requests

        size = int(answer.headers.get("Content-Length") or 0)
        task = self._place.progress.task(f"download {what}", total=size or None)
        digest = hashlib.sha256()
        try:
            with answer, target.open("wb") as sink:
                for chunk in answer.iter_content(_CHUNK):
                    if self._place.stop.is_set():
                        raise Interrupted("stopped")
                    with disk_errors(f"download {what}"):
                        sink.write(chunk)
                    digest.update(chunk)
                    task.advance(len(chunk))
        except requests.RequestException:  # also when fewer bytes came than were announced
            return None
        finally:
            task.finish()
        return digest.hexdigest()


def _wait(answer: requests.Response) -> float | None:
    """Seconds until the server's limit is over; None when this is no limit."""
    if answer.status_code not in (403, 429):
        return None
    if after := answer.headers.get("Retry-After"):
        return _seconds(after)
    if answer.headers.get("X-RateLimit-Remaining") == "0" and (reset := answer.headers.get("X-RateLimit-Reset")):
        return max(float(reset) - time.time(), 0) + 1 if reset.isdigit() else 60.0
    return 60.0 if answer.status_code == 429 else None


def _seconds(after: str) -> float:
    if after.strip().isdigit():
        return float(after)
    try:
        return max(parsedate_to_datetime(after).timestamp() - time.time(), 0)
    except ValueError:
        return 60.0


def _refusal(answer: requests.Response, wait: float | None) -> str:
    host = _host(answer.url)
    if wait is None:
        return f"{host} is out of order: {answer.status_code} {answer.reason}"
    until = datetime.fromtimestamp(time.time() + wait).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")
    return f"{host} limits how often it may be asked; it answers again at {until}{_told(answer)}"


def _told(answer: requests.Response) -> str:
    """The server's own words where it answers in JSON, behind a colon."""
    try:
        return f": {str(answer.json()['message'])[:200]}"
    except (ValueError, KeyError, TypeError):
        return ""


def _host(url: str) -> str:
    return url.split("://", 1)[-1].split("/", 1)[0]


def _brief(error: Exception) -> str:
    text = str(error)
    known = ("Connection refused", "Name or service not known", "timed out", "certificate", "Connection reset")
    return next((part for part in known if part in text), text[:200])
