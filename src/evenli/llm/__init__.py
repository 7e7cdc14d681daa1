"""Language models as NLI models: chat servers, local causal models, prompts, and tasks for other harnesses."""
