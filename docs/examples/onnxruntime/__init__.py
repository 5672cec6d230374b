"""ONNX Runtime: optimises ONNX models and runs them on this machine's processor."""
