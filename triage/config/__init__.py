"""Configuration files: YAML with positions, checked values, and mistakes reported with file:line:column."""
