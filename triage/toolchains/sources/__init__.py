"""Where the compiler of a commit can come from: releases, nightlies, artifacts of a
workflow, builds, a script.
"""
