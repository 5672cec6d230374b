"""Run cases under limits, cache the executions and judge them."""
