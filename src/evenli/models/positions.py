"""How many tokens a model takes: its positions, less those it never gives to a token, and its tokenizer's limit."""

from __future__ import annotations

from typing import Any

_FROM_PADDING = frozenset(
    {
        "altclip_text_model",
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "layoutlmv3",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
"""Model types that count positions from their padding id, as RoBERTa does."""


def first_position(config: Any) -> int:
    """Row of the position embeddings that belongs to the first token; RoBERTa counts from its padding id.

    >>> from types import SimpleNamespace as Config
    >>> first_position(Config(model_type="roberta", pad_token_id=1)), first_position(Config(model_type="bert"))
    (2, 0)
    """
    if getattr(config, "model_type", None) not in _FROM_PADDING:
        return 0
    padding = getattr(config, "pad_token_id", None)
    # MPNet has 1 in its code. Stored configurations may leave out what is the default, which is 1 for most.
    return 2 if config.model_type == "mpnet" or not isinstance(padding, int) else padding + 1


def position_limit(config: Any) -> int | None:
    """Longest input a model has position embeddings for, if it has a limit.

    >>> from types import SimpleNamespace as Config
    >>> position_limit(Config(model_type="roberta", pad_token_id=1, max_position_embeddings=514))
    512
    """
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= first_position(config):  # -1 where there is no limit
        return None
    return positions - first_position(config)


def longest_input(config: Any, at_most: int, *, tokenizer_limit: Any = None) -> int:
    """Tokens of the longest input: what is asked for, or less where the model or its tokenizer takes less.

    Args:
        config: A configuration of transformers, or anything with its fields.
        at_most: What is asked for.
        tokenizer_limit: ``model_max_length`` of the tokenizer, if it is known.
    """
    limits = [at_most, position_limit(config), tokenizer_limit]
    return int(min(limit for limit in limits if isinstance(limit, int | float) and limit > 0))
