"""Where two compilers part over one case: the phase, the first pass after which the IR differs in meaning, its source."""
