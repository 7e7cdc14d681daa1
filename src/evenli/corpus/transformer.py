"""Hugging Face encoders token by token: how much each word-piece counts, and where its output leans.

One way to count is integrated gradients (Sundararajan et al. 2017) through Captum: what each word-piece adds to

    f(x) = mean output of the pieces of x, projected on u,   u = that of the sentence itself, of length 1

The path leads from the same sentence with a mask in the place of every word-piece, markers kept, to the sentence.
Attributions are of the input embeddings and add up to f(sentence) - f(masks); this completeness buys the reading "this
piece moves the embedding so far". Markers are the same at both ends, so they have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models.loading import longest_input
from evenli.core.errors import InputError, ModelError, foreign_code
from evenli.core.extras import need
from evenli.corpus.importance import FloatArray
from evenli.encoders.base import Embeddings
from evenli.encoders.configured import Configured
from evenli.encoders.hf import TransformerEncoder
from evenli.words.lists import split_words

Pooling = Literal["max", "attention", "gradients"]
STEPS = 50
"""Points of the path, at the nodes of Gauss and Legendre."""
_AT_ONCE = 8  # sentences; a network sees STEPS times as many rows


class _Text(NamedTuple):
    text: str
    words: tuple[str, ...]
    starts: NDArray[np.int64]


class Pieces(NamedTuple):
    """The word-pieces of a text without its markers, as far as the encoder reads it."""

    tokens: tuple[str, ...]  # as they stand in the text
    words: tuple[str, ...]  # of the text
    owners: NDArray[np.int64]  # the word that each piece is of
    counts: NDArray[np.int64]  # dimensions in which a piece has the maximum; zeros without max pooling
    shares: FloatArray  # importance; what they lack to 1 is on markers
    cosines: FloatArray  # of the output of each piece with a direction


class TransformerArgmax(TransformerEncoder):
    """A transformer whose last layer is pooled over all word-pieces, markers such as ``[CLS]`` included.

    With ``importance="max"`` the maximum is taken, and a piece counts by the dimensions in which it has it; of equal
    ones the first does. With ``"attention"`` outputs are weighted by the attention that a piece receives in the last
    layer, the mean over heads and over the pieces that attend. With ``"gradients"`` outputs are averaged, and a piece
    counts by the size of its integrated gradient. Words beyond ``max_length`` pieces count 0. The spec is a checkpoint
    directory or ``[hf:]id[@revision]``.
    """

    def __init__(
        self,
        spec: str | Path,
        *,
        device: str | None = None,
        max_length: int = 128,
        batch_size: int = 64,
        online: bool = False,
        importance: Pooling = "max",
    ) -> None:
        if importance not in get_args(Pooling):
            raise InputError(f"importance {importance} is unknown; choose {' or '.join(get_args(Pooling))}")
        if max_length < 3 or batch_size < 1:
            raise InputError(f"max_length must be 3 or more and batch_size 1 or more, not {max_length}, {batch_size}")
        target = str(spec).removeprefix("hf:").removeprefix("st:")
        if importance == "gradients":
            need("captum.attr", extra="attribution", purpose="importance gradients")  # said before weights are read
        pooling = "mean" if importance == "gradients" else "max"
        super().__init__(target, pooling, device=device, batch_size=batch_size, online=online)
        config = self._model.config
        if not self._tokenizer.is_fast:
            raise ModelError(f"the tokenizer of '{target}' does not say where its pieces are; use one with a fast form")
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(f"'{target}' is an encoder-decoder; give an encoder such as BERT")
        self._limit = longest_input(config, max_length, tokenizer_limit=self._tokenizer.model_max_length)
        self.device, self.dimension = self._device, int(config.hidden_size)
        self.importance = importance
        # How a text is cut into words, which only says whose pieces state a gender: the network reads the text itself.
        self.split: Callable[[str], Sequence[str]] = split_words
        if importance == "attention":
            self._model.set_attn_implementation("eager")  # the faster ones keep no attention

    def _configuration(self, folder: Path) -> Configured:
        return Configured()  # the outputs of the tokens are what counts here

    @cached_property
    def identity(self) -> str:
        """Checkpoint and longest text."""
        importance = "" if self.importance == "max" else f":{self.importance}"
        return f"transformer:{self._fingerprint[:32]}:{self._limit}{importance}"

    def argmax_counts(self, texts: Sequence[str | Sequence[str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The counts of all words, end to end, and the words of every text; what lacks to ``dimension`` is on markers.

        A text may be given as its words, which are then encoded with a space between two of them.
        """
        totals = [np.bincount(text.owners, text.counts, len(text.words)) for text in self._outputs(texts, None)]
        return np.concatenate(totals).astype(np.int64), np.array([*map(len, totals)])

    def pieces(self, texts: Sequence[str], direction: FloatArray) -> list[Pieces]:
        """The word-pieces of every text, how much each counts, and the cosine of its output with a direction."""
        axis = np.asarray(direction, dtype=np.float64)
        if axis.shape != (self.dimension,):
            raise InputError(f"the direction has shape {axis.shape}; this encoder needs ({self.dimension},)")
        return self._outputs(texts, axis)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d], the outputs pooled as they are weighed."""
        if self.importance != "attention":
            return super().encode(texts)
        rows = [np.zeros((0, self.dimension), dtype=np.float32)]
        for start in range(0, len(texts), self._batch):
            with self._torch.inference_mode():
                hidden, shares = self._run(self._tokenized(texts[start : start + self._batch]).to(self.device))
                rows.append((hidden * shares[..., None]).sum(dim=1).cpu().numpy())
        return np.concatenate(rows)

    def _tokenized(self, texts: Sequence[str], **further: bool) -> Any:
        cut = {"truncation": True, "max_length": self._limit, "padding": True}
        return self._tokenizer(list(texts), **cut, return_tensors="pt", return_attention_mask=True, **further)

    def _outputs(self, texts: Sequence[str | Sequence[str]], direction: FloatArray | None) -> list[Pieces]:
        prepared = [_prepare(text, self.split) for text in texts]
        # Texts of similar length are encoded together, so that little is padded.
        order = sorted(range(len(prepared)), key=lambda at: len(prepared[at].text))
        outputs: dict[int, Pieces] = {}
        for start in range(0, len(order), self._batch):
            some = order[start : start + self._batch]
            with foreign_code(f"{self.spec} cannot encode the texts: "):
                outputs.update(zip(some, self._encode_batch([prepared[at] for at in some], direction), strict=True))
        return [outputs[at] for at in range(len(prepared))]

    def _run(self, tensors: Any) -> tuple[Any, Any]:
        """Outputs [n, tokens, d] and the importance of the tokens [n, tokens], which sums to 1."""
        mask = tensors["attention_mask"].bool()
        if self.importance == "max":
            hidden = self._model(**tensors).last_hidden_state.float()
            return hidden, _argmax_counts(self._torch, hidden, mask) / self.dimension
        if self.importance == "gradients":
            sizes = integrated_gradients(self._model, self._tokenizer, tensors).abs()
            shares = sizes / sizes.sum(dim=1, keepdim=True).clamp_min(1e-30)
            return self._model(**tensors).last_hidden_state.float(), shares
        output = self._model(**tensors, output_attentions=True)
        attending = mask[:, :, None] / mask.sum(dim=1)[:, None, None]
        return output.last_hidden_state.float(), (output.attentions[-1].float().mean(dim=1) * attending).sum(dim=1)

    def _encode_batch(self, texts: Sequence[_Text], direction: FloatArray | None) -> Iterator[Pieces]:
        marks = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
        batch = self._tokenized([text.text for text in texts], **marks)
        offsets = batch.pop("offset_mapping").numpy()
        words = batch.pop("special_tokens_mask").numpy() == 0
        words &= (batch["attention_mask"].numpy() > 0) & (offsets[..., 1] > offsets[..., 0])
        with self._torch.inference_mode():
            hidden, weights = self._run({key: value.to(self.device) for key, value in batch.items()})
            shares = weights.double().cpu().numpy()
            cosines = np.zeros(shares.shape)
            if direction is not None:
                unit = direction / np.linalg.norm(direction)
                axis = self._torch.as_tensor(unit, dtype=self._torch.float32, device=hidden.device)
                cosines = ((hidden @ axis) / hidden.norm(dim=2).clamp_min(1e-30)).double().cpu().numpy()
        counts = np.rint(shares * self.dimension).astype(np.int64) * (self.importance == "max")
        for row, text in enumerate(texts):
            # A piece may begin with the space before its word, so its last character decides which word it is of.
            owners = np.searchsorted(text.starts, offsets[row, :, 1] - 1, side="right") - 1
            real = words[row] & (owners >= 0)
            tokens = tuple(text.text[start:end].strip() for start, end in offsets[row][real].tolist())
            # Whole counts give the shares to the last digit; the network's floats would not.
            exact = counts[row][real] / self.dimension if self.importance == "max" else shares[row][real]
            yield Pieces(tokens, text.words, owners[real], counts[row][real], exact, cosines[row][real])


def _prepare(text: str | Sequence[str], split: Callable[[str], Sequence[str]]) -> _Text:
    words = split(text) if isinstance(text, str) else list(text)
    joined = text if isinstance(text, str) else " ".join(words)
    starts, at = [], 0
    for word in words:
        at = joined.index(word, at)
        starts.append(at)
        at += len(word)
    return _Text(joined, tuple(words), np.array(starts, dtype=np.int64))


def _argmax_counts(torch: Any, hidden: Any, mask: Any) -> Any:
    """Dimensions in which each piece has the maximum; padding never has, the first of equals does."""
    rows, length, _ = hidden.shape
    hidden = hidden.masked_fill(~mask[:, :, None], float("-inf"))
    # Padding must not have the maximum, not even where all outputs are below 0.
    top = hidden.max(dim=1, keepdim=True).values
    # torch.argmax does not promise the first of equals.
    positions = torch.arange(length, device=hidden.device)[None, :, None]
    winners = torch.where(hidden == top, positions, length).min(dim=1).values
    flat = winners + torch.arange(rows, device=hidden.device)[:, None] * length
    return torch.bincount(flat.flatten(), minlength=rows * length).reshape(rows, length)


def integrated_gradients(model: Any, tokenizer: Any, tensors: Any, steps: int = STEPS) -> Any:
    """Attributions [n, tokens] of a batch; ``tensors`` are what the tokenizer gave, on the device of the model."""
    captum = need("captum.attr", extra="attribution", purpose="importance gradients")
    torch = need("torch", extra="hf", purpose="a transformer encoder")
    mask = next((token for token in (tokenizer.mask_token_id, tokenizer.unk_token_id) if token is not None), None)
    if mask is None:
        raise ModelError("this tokenizer has no mask, which integrated gradients start from; use importance max")
    special = torch.tensor(sorted(tokenizer.all_special_ids), device=tensors["input_ids"].device)
    parts = []
    # Clones, because tensors that were made for inference cannot take part in a gradient.
    with torch.inference_mode(False), torch.enable_grad():
        for start in range(0, len(tensors["input_ids"]), _AT_ONCE):
            ids, keep = (tensors[name][start : start + _AT_ONCE].clone() for name in ("input_ids", "attention_mask"))
            # An unknown word has a special id, too, but it is a word: the mask stands in its place.
            marker = torch.isin(ids, special) & (ids != (tokenizer.unk_token_id or -1))
            parts.append(_attribute(captum, torch, model, (ids, torch.where(marker, ids, mask), keep), steps))
    return torch.cat(parts)


def _attribute(captum: Any, torch: Any, model: Any, batch: tuple[Any, Any, Any], steps: int) -> Any:
    ids, masked, keep = batch

    def pooled(ids: Any, keep: Any) -> Any:
        shares = keep[..., None].float()
        return (model(input_ids=ids, attention_mask=keep).last_hidden_state * shares).sum(dim=1) / shares.sum(dim=1)

    def along(ids: Any, keep: Any, axis: Any) -> Any:
        return (pooled(ids, keep) * axis).sum(dim=1)

    with torch.no_grad():
        axis = torch.nn.functional.normalize(pooled(ids, keep), dim=1)
    method = captum.LayerIntegratedGradients(along, model.get_input_embeddings())
    shares = method.attribute(ids, baselines=masked, additional_forward_args=(keep, axis), n_steps=steps)
    return shares.sum(dim=-1).detach()
