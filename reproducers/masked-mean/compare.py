from math import inf, nan

import numpy as np

results = [np.load('result_0.npy')]
# the relative and the absolute difference that each type may have
limits = {'float16': (1e-05, 0.001), 'bfloat16': (1e-05, 0.01), 'float32': (1e-05, 0.0001), 'float64': (1e-05, 0.0001)}
for result, expected in zip(results, [np.fromfile('expected_0.bin', "bool").reshape([1, 1])]):
    assert result.shape == expected.shape, (result.shape, expected.shape)
    if result.dtype.kind in "biucU":
        np.testing.assert_array_equal(result, expected)
    else:
        limit = limits.get(result.dtype.name, (0, 0))
        result, expected = result.astype("float64"), expected.astype("float64")
        np.testing.assert_allclose(result, expected, *limit)
