"""Where the compiler of a commit can come from: releases, nightlies, builds."""
