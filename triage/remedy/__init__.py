"""Find flags and input changes that make a failing case compile."""
