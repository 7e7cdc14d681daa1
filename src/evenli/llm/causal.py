"""Causal language models on this machine: log-probabilities of the answers after a question.

All pairs of a view begin with the same text, and all hypotheses of a premise go on with that premise. Both are computed
once: the first is kept as keys and values, the second stands once in a row of the batch (``packing``). A network that
does not take such rows is asked one question a row, in batches of one length.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models import loading
from evenli.audit.models.base import ModelInfo, ModelRequest, Prepared
from evenli.audit.models.growth import portions
from evenli.core.errors import LabelError, ModelError
from evenli.core.extras import need
from evenli.core.io import hash_text
from evenli.core.labels import LABELS
from evenli.core.parse import check_regular
from evenli.llm import packing, prompts

_PURPOSE = "loading language models"
_GGUF = ".gguf"
_ALIKE = {"float32": 1e-2, "bfloat16": 0.25, "float16": 0.1}
"""Nats: how far rounding alone moves the answer to a question that is asked in another batch."""


@dataclass(frozen=True)
class PairTokens:
    """The tokens of one pair: for each view what follows the shared beginning."""

    premise: int  # pairs with one number have one premise
    endings: tuple[tuple[int, ...], ...]


class CausalModel:
    """The backend ``causal:DIRECTORY``, ``causal:ID[@REVISION]`` or ``causal:FILE.gguf``, asked in every view."""

    named_labels, bucket = True, 1
    _prior: NDArray[np.float64] | None = None

    def __init__(self, target: str, request: ModelRequest) -> None:
        options = request.options
        if options.labels:
            raise LabelError("a language model is asked for labels by name; leave the labels (--labels) out")
        self.views = prompts.make_views(request.lang, options.prompting.prompts, options.prompting.orders)
        self.details = prompts.details(self.views)
        self._torch = torch = need("torch", extra="hf", purpose=_PURPOSE)
        self._device, dtype = loading.pick_arithmetic(torch, options)
        with _find(target, online=options.online).copied() as source:
            model, self._tokenizer = _load_parts(source)
            self._template = bool(getattr(self._tokenizer, "chat_template", None))
            self._first = _first_tokens(source.folder / source.gguf) if source.gguf and not self._template else ()
        self._model = model.to(self._device, getattr(torch, dtype))
        self.note = "" if self._template else f"{source.name} has no chat template: it is asked in plain text"
        self._limit = loading.position_limit(model.config)
        self._answers = [[self._spelled(view, label) for label in LABELS] for view in self.views]
        self._shared: list[tuple[int, ...]] = []
        self._caches: dict[int, Any] = {}
        self._packs: bool | None = None  # whether the network takes packed rows; tried with the first questions
        self.token_budget = options.token_budget or (2_048 if self._device.startswith("cpu") else 65_536)
        self.prompting = {"mode": "log-probabilities of whole answers", "chat_template": self._template}
        self.prompting |= prompts.card(self.views)
        calibrated = " calibrated" if options.prompting.calibrate else ""
        begun = f" {self._first}" if self._first else ""
        self.info = ModelInfo(
            spec=request.spec,
            backend="causal",
            name=source.name,
            revision=source.revision,
            fingerprint=hash_text(f"{source.fingerprint} {prompts.identity(self.views)}{calibrated}{begun}"),
            labels=LABELS,
            device=self._device,
            dtype=dtype,
            max_length=self._limit,
        )
        if options.prompting.calibrate:
            self._prior = prompts.measure_prior(self)

    def _spelled(self, view: prompts.View, label: str) -> list[tuple[int, ...]]:
        """Token ids of the ways to write the answer of a label."""
        forms = (tuple(self._tokenizer.encode(form, add_special_tokens=False)) for form in view.spellings(label))
        return [form for form in dict.fromkeys(forms) if form]

    def _question(self, text: str) -> str:
        if not self._template:
            return text
        message = [{"role": "user", "content": text}]
        return str(self._tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True))

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Tokenise every pair in every view, and find what the pairs of a view begin with."""
        columns, self._shared, self._caches = [], [], {}
        begin = self._first
        for view in self.views:
            texts = [self._question(view.text(*pair)) for pair in zip(premises, hypotheses, strict=True)]
            # A template writes the special tokens itself; plain text gets those that the tokenizer puts first.
            own = {"add_special_tokens": not self._template, "return_attention_mask": False}
            parts = portions(self._tokenizer, list(map(len, texts)))
            ids = chain.from_iterable(self._tokenizer(texts[part], **own)["input_ids"] for part in parts)
            rows = [row if row[: len(begin)] == begin else (*begin, *row) for row in map(tuple, ids)]
            if self._limit is not None and max(map(len, rows)) > self._limit:
                raise ModelError(
                    f"a question has {max(map(len, rows))} tokens and {self.info.name} takes {self._limit}; long pairs "
                    "are not cut, because the options would go first"
                )
            shared = packing.common(rows)
            self._shared.append(shared)
            columns.append([row[len(shared) :] for row in rows])
        numbers = {premise: at for at, premise in enumerate(dict.fromkeys(premises))}
        known = [numbers[premise] for premise in premises]
        items = [PairTokens(*fields) for fields in zip(known, zip(*columns, strict=True), strict=True)]
        if self._packs is None:
            self._packs = self._can_pack(items)
        return Prepared(items, np.array([len(item.endings[0]) for item in items], dtype=np.int32))

    def logits(self, items: Sequence[PairTokens]) -> NDArray[np.float32]:
        """Ask a batch in every view."""
        scores = np.empty((len(items), len(self.views), len(LABELS)), dtype=np.float64)
        with loading.inference(self._torch, self._device, self.info.name):
            for at in range(len(self.views)):
                scores[:, at] = self._packed(at, items) if self._packs else self._plain(at, items)
        # Undefined scores of a damaged model are refused by the caller, in one line; numpy would add its own.
        with np.errstate(invalid="ignore"):
            mass = np.exp(np.logaddexp.reduce(scores, axis=2))
            return prompts.combine(scores, mass, self.views, self._prior)

    def plan(self, items: Sequence[PairTokens]) -> Iterator[NDArray[np.int64]]:
        """Positions of items that are asked together: the hypotheses of a premise are not parted."""
        # Endings in the first view stand for all: in the others they are as long, but for a few tokens.
        endings = [item.endings[0] for item in items]
        return packing.batches([item.premise for item in items], endings, self.token_budget)

    def _can_pack(self, items: Sequence[PairTokens]) -> bool:
        """Whether the network takes packed rows: some questions are asked both ways, and must get the same answer."""
        longest = max(map(len, self._shared)) + packing.WIDEST
        windows = [getattr(self._model.config, name, None) for name in ("sliding_window", "attention_window_size")]
        narrow = any(isinstance(window, int) and window < longest for window in windows)
        if narrow or "position_ids" not in inspect.signature(self._model.forward).parameters:
            return False
        # A family as packed rows have it, and a stranger beside it.
        few = [PairTokens(0, items[at].endings) for at in (*next(self.plan(items))[:2], -1)]
        try:
            with self._torch.inference_mode(), np.errstate(invalid="ignore"):
                return bool(np.abs(self._packed(0, few) - self._plain(0, few)).max() < _ALIKE[self.info.dtype])
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return False

    def _packed(self, view: int, items: Sequence[PairTokens]) -> NDArray[np.float64]:
        """[items, 3] log-probability of each label's answer, the hypotheses of a premise in one row."""
        endings = [item.endings[view] for item in items]
        scores = np.empty((len(items), len(LABELS)))
        for _, families in groupby(packing.families([item.premise for item in items], endings), key=len):
            group = list(families)
            scores[np.array(group)] = self._score_packs(view, [[endings[at] for at in family] for family in group])
        return scores

    def _score_packs(self, view: int, members: Sequence[Sequence[tuple[int, ...]]]) -> NDArray[np.float64]:
        """[families, questions, 3]."""
        torch, size = self._torch, len(members[0])
        long = [form for forms in self._answers[view] for form in forms if len(form) > 1]
        pack = packing.pack(members, [form[:-1] for form in long])
        rows, shared = len(members), len(self._shared[view])
        seen = np.concatenate([np.ones((*pack.ids.shape, shared), dtype=bool), pack.seen], axis=2)
        # Numbers that are added to attention: every kind of attention takes those, and not all take truth values.
        lowest = torch.finfo(self._model.dtype).min
        mask = torch.zeros(seen.shape, dtype=self._model.dtype, device=self._device)
        mask.masked_fill_(torch.from_numpy(~seen).to(self._device), lowest)
        output = self._model(
            input_ids=torch.from_numpy(pack.ids).to(self._device),
            past_key_values=self._beginning(view, rows),
            use_cache=True,
            attention_mask=mask[:, None],
            position_ids=torch.from_numpy(pack.positions + shared).to(self._device),
            logits_to_keep=torch.from_numpy(pack.columns).to(self._device),
        )
        logp = output.logits.float().log_softmax(dim=-1)
        column = iter(range(size, logp.shape[1]))
        after = {(at, form): [next(column) for _ in form[1:]] for at in range(size) for form in long}

        def whole(at: int, form: tuple[int, ...]) -> Any:
            """The first token follows the question, each further one the token before it."""
            rest = zip(after.get((at, form), ()), form[1:], strict=True)
            return sum((logp[:, place, token] for place, token in rest), logp[:, at, form[0]])

        scores = [
            torch.logsumexp(torch.stack([whole(at, form) for form in forms]), dim=0)
            for at in range(size)
            for forms in self._answers[view]
        ]
        return np.asarray(torch.stack(scores, dim=1).double().cpu().numpy()).reshape(rows, size, len(LABELS))

    def _plain(self, view: int, items: Sequence[PairTokens]) -> NDArray[np.float64]:
        """[items, 3] log-probability of each label's answer, one question a row."""
        scores = np.empty((len(items), len(LABELS)))
        lengths = np.array([len(item.endings[view]) for item in items])
        for length in np.unique(lengths):
            rows = np.flatnonzero(lengths == length).tolist()
            scores[rows] = self._score(view, [items[row].endings[view] for row in rows])
        return scores

    def _score(self, view: int, endings: Sequence[tuple[int, ...]]) -> NDArray[np.float64]:
        """[questions, 3] log-probability of each label's answer, over the ways to write it."""
        torch = self._torch
        cache = self._beginning(view, len(endings))
        first = self._next(torch.tensor(endings, device=self._device), cache, 1)[:, 0]
        columns = []
        for forms in self._answers[view]:
            parts = []
            for form in forms:
                logp = first[:, form[0]]
                if len(form) > 1:
                    # The cache is cut back to the question before each further spelling.
                    ids = torch.tensor([form[:-1]], device=self._device).expand(len(endings), -1)
                    after = self._next(ids, cache, len(form) - 1)
                    cache.crop(1 - len(form))
                    wanted = torch.tensor(form[1:], device=self._device).expand(len(endings), -1)
                    logp = logp + after.gather(2, wanted[:, :, None])[:, :, 0].sum(dim=1)
                parts.append(logp)
            columns.append(torch.logsumexp(torch.stack(parts), dim=0))
        return np.asarray(torch.stack(columns, dim=1).double().cpu().numpy())

    def _next(self, ids: Any, cache: Any, keep: int) -> Any:
        """Log-probabilities of what follows the last ``keep`` tokens; ``cache`` grows by the tokens."""
        output = self._model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=keep)
        return output.logits[:, -keep:].float().log_softmax(dim=-1)

    def _beginning(self, view: int, count: int) -> Any:
        """Keys and values of what all questions of a view begin with, once for each question."""
        if view not in self._caches:
            cache = need("transformers", extra="hf", purpose=_PURPOSE).DynamicCache(config=self._model.config)
            if self._shared[view]:
                self._next(self._torch.tensor([self._shared[view]], device=self._device), cache, 1)
            self._caches[view] = cache
        cache = copy.deepcopy(self._caches[view])
        if self._shared[view]:
            cache.batch_repeat_interleave(count)
        return cache


def _find(target: str, *, online: bool) -> loading.Checkpoint:
    """A checkpoint in a directory, on the hub, or in one GGUF file."""
    path = Path(target)
    files = [path] if path.suffix == _GGUF else []
    if path.is_dir() and not (path / "config.json").is_file():
        files = sorted(path.glob(f"*{_GGUF}"))
        if len(files) > 1:
            raise ModelError(f"{path} holds {len(files)} GGUF files; name one, as in causal:{files[0]}")
    if not files:
        return loading.find_checkpoint(target, online=online)
    (file,) = files
    if not file.is_file():
        raise ModelError(f"there is no GGUF file {file}")
    check_regular(file)
    need("gguf", extra="gguf", purpose="reading GGUF files")
    return loading.Checkpoint(file.stem, file.parent, gguf=file.name)


def _load_parts(source: loading.Checkpoint) -> tuple[Any, Any]:
    """The network and its tokenizer."""
    transformers = loading.quiet_transformers(_PURPOSE)
    if source.gguf:  # its reader draws a bar past the library's own switch
        reader: Any = import_module("transformers.modeling_gguf_pytorch_utils")
        reader.tqdm = transformers.logging.tqdm
    with loading.one_line(source.name):
        tokenizer = loading.load_part(transformers.AutoTokenizer, source)
        loading.try_tokenizer(tokenizer, source.name, "a b")
        safe = None if source.gguf else True
        model, report = loading.load_network(transformers.AutoModelForCausalLM, source, safe=safe)
    loading.check_tensors(report, source.name, optional=("lm_head.",) if model.config.tie_word_embeddings else ())
    return model.eval(), tokenizer


def _first_tokens(file: Path) -> tuple[int, ...]:
    """What a GGUF file wants in front of every text; the tokenizer that ``transformers`` makes of it leaves it out."""
    gguf: Any = need("gguf", extra="gguf", purpose="reading GGUF files")
    fields = gguf.GGUFReader(file).fields
    wanted, first = (fields.get(f"tokenizer.ggml.{name}") for name in ("add_bos_token", "bos_token_id"))
    return (int(first.contents()),) if wanted and first and wanted.contents() else ()
