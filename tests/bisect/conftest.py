from tests.git_history.history import plain_git

__all__ = ["plain_git"]
