"""Saved rankers for other engines: the linear model inside, and its files for plugins, ONNX and JSON."""
