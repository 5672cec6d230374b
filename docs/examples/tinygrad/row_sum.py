"""Sum the rows of a matrix, and fail if a sum is wrong."""

from tinygrad import Tensor

rows = Tensor.arange(12).reshape(3, 4)
assert rows.sum(axis=1).tolist() == [6, 22, 38], rows.sum(axis=1).tolist()
