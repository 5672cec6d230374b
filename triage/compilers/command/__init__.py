"""Any compiler behind a command: a package of the index with its dependencies, or a
folder.
"""
