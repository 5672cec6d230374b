"""Where compilers come from: releases on a package index, the installed one, a path; kept in one cache."""
