"""The compiler's settings, in one place.

Faster: everything that passes through it (``benchmarks/train.py``). Plain path: the function itself.
"""

from __future__ import annotations

from typing import Any

import torch

STABLE = True
"""Let no timing decide how code is generated: the same code, hence the same rounding, in every process."""


def compile_static(function: Any) -> Any:
    """Compile a whole function for fixed shapes."""
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    # Eight shapes of one function are the compiler's default limit; a ninth would not be compiled.
    dynamo.recompile_limit = max(dynamo.recompile_limit, 64)
    known = hasattr(inductor, "deterministic")
    return torch.compile(function, dynamic=False, fullgraph=True, options={"deterministic": STABLE} if known else None)
