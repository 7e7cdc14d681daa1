"""Speed on GPUs: captured graphs, compiled layers, flat buffers, and all that touches private torch API.

Each module begins with what it makes faster, the benchmark that shows it and the plain path beside it. The rest of
``evenli.training`` enters here in two places only: ``Trainer`` uses ``stepper.Stepper``, encoder training uses
``bilstm_graphs.make_trainer``.
"""
