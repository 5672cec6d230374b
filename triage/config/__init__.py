"""Read YAML files with positions, and check their fields with clear errors."""
