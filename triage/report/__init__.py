"""Evidence as people and programs read it: terminal, Markdown, JUnit, JSON."""
