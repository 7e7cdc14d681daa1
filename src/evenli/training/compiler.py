"""The compiler's settings, in one place."""

from __future__ import annotations

from typing import Any

import torch


def compile_static(function: Any) -> Any:
    """Compile for fixed shapes, with choices that do not depend on timings: the same code in every process."""
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    # Eight shapes of one function are the compiler's default limit; a ninth would not be compiled.
    dynamo.recompile_limit = max(dynamo.recompile_limit, 64)
    stable = {"deterministic": True} if hasattr(inductor, "deterministic") else None
    return torch.compile(function, dynamic=False, fullgraph=True, options=stable)
