"""Speed: captured graphs, fused layers and everything that touches private torch API."""
