"""Python programs, kernels among them: reading them as syntax trees and the passes that make them smaller."""
