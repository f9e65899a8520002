"""Model definitions from what a launcher already has: an ONNX file, a configuration, a PyTorch module.

Nothing here is needed for serving. Everywhere a multiplication and an addition are two operations, the
addition of a bias is left out, attention is counted in full also where a mask or a window leaves out a part of it,
and a norm takes five operations a value: the convention of the usual counters.
"""
