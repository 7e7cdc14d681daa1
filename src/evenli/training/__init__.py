"""Training: NLI classifiers, BiLSTM encoders, export to ONNX, and models of known bias. Needs the extra ``hf``."""
