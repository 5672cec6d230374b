from tests.bisect.clones import folder
from tests.git_history.history import plain_git

__all__ = ["folder", "plain_git"]
