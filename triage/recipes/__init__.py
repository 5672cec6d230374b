"""Recipes: YAML files that describe what to compile, read into cases."""

from triage.recipes.expectations import expectation_for, expectations_at, flag_applies, matches

__all__ = ["expectation_for", "expectations_at", "flag_applies", "matches"]
