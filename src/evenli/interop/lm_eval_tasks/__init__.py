"""A task of lm-evaluation-harness; ``python -m evenli.interop.lm_eval_tasks`` prints its folder."""
