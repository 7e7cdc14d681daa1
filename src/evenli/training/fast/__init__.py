"""Speed on GPUs: captured graphs, compiled layers, flat buffers, and all that touches private torch API.

Each module begins with what it makes faster, the benchmark that shows it and the plain path beside it.
"""
