"""Read YAML files into checked values; recipes become cases."""
