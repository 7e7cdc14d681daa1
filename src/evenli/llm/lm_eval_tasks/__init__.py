"""A task of lm-evaluation-harness; ``python -m evenli.llm.lm_eval_tasks`` prints its folder."""
