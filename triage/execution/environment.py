"""Choose the variables that a program gets from this program's environment, so that no token or password reaches it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import Enum
from fnmatch import translate
from functools import cache

_EVERY = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TZDIR", "LANG", "LANGUAGE", "LC_*", "LOCALE_ARCHIVE"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "NIX_LD", "NIX_LD_LIBRARY_PATH"),
    *("CUDA_HOME", "CUDA_PATH", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES"),
    *("ROCM_PATH", "HIP_PATH", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LAYER_PATH"),
)
_NETWORK = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_INSTALL = (*_NETWORK, "UV_*", "PIP_*", "NETRC", "XDG_*", "DBUS_SESSION_BUS_ADDRESS")
_BUILD = (
    *(*_NETWORK, "TRIAGE_HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "CARGO_HOME", "RUSTUP_HOME"),
    *("CC", "CXX", "CPP", "LD", "AR", "AS", "NM", "RANLIB", "STRIP", "OBJCOPY", "CUDACXX", "CUDAHOSTCXX", "HIPCXX"),
    *("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"),
    *("CMAKE_*", "CCACHE_*", "SCCACHE_DIR", "PKG_CONFIG*", "MAKEFLAGS", "NINJA_STATUS", "SOURCE_DATE_EPOCH"),
)
_GIT = (*_BUILD, "XDG_CONFIG_HOME", "GIT_*", "SSH_*")
# If a git hook started this program, these variables would lead git to another repository.
_ANOTHER_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
)


class Purpose(Enum):
    """What a program is started for. The value lists the variables that it gets, as patterns."""

    COMPILE = _EVERY  # compilers, generators, importers, and questions to them
    INSTALL = (*_EVERY, *_INSTALL)  # uv
    BUILD = (*_EVERY, *_BUILD)  # the commands of a project file
    GIT = (*_EVERY, *_GIT)


def environment(purpose: Purpose, named: Mapping[str, str | None]) -> dict[str, str]:
    """Return the environment for a program. named: further variables and their values; None passes this program's on."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if (name in named or _allowed(purpose).match(name)) and name not in _ANOTHER_REPOSITORY
    }
    return inherited | {name: value for name, value in named.items() if value is not None}


def settings(named: Mapping[str, str | None]) -> list[str]:
    """Return `NAME=value` for each of these variables that a program gets, in order of the names."""
    values = {name: os.environ.get(name) if value is None else value for name, value in named.items()}
    return [f"{name}={value}" for name, value in sorted(values.items()) if value is not None]


@cache
def _allowed(purpose: Purpose) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, purpose.value)))
