"""The exact bytes of a candidate: packed ONNX, its certificate, framework-native copies, the bundle and its
verification.
"""
