"""One module a framework: its model -> one ONNX graph with named, unfolded kernels."""
