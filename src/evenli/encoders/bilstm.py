"""``infersent:FOLDER[,VECTORS]``: a bidirectional LSTM pooled by maximum over frozen word vectors.

InferSent V1, Conneau et al. 2017:

    h_t = [forward LSTM at t ; backward LSTM at t],  embedding_d = max_t h_{t,d}

t runs over ``<s>``, the words with a vector, and ``</s>``. Sentences of a batch are packed: a time step holds only the
sentences that are still running, so that padding reaches neither direction and costs no arithmetic.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import PackedSequence

from evenli.audit.models.loading import check_folder, pick_device
from evenli.core.binary import read_tensors
from evenli.core.errors import InputError, ModelError, reason_of, translated
from evenli.core.io import json_text, read_json
from evenli.core.store import RunDir, is_stamped, stamp
from evenli.encoders.base import EncoderRequest, Pooled, parts_of
from evenli.encoders.vectors import WordVectors, load_vectors
from evenli.encoders.vocabulary import MARKERS, JoinedTokens, Vocabulary, pack, surround, words_of

DTYPES = ("float32", "tf32", "float16")
"""Of encoding; outputs lie between -1 and 1, where float16 is finer than bfloat16."""
FILES = ("config.json", "model.safetensors", "vectors.safetensors", "words.txt")  # what ``save`` writes
_KIND = "BiLSTM encoder"
_FORMAT = "evenli bilstm-max 1"  # a part of the identity
_LONGEST = 1 << 13  # padded tokens of a batch; long sentences are encoded fewer at a time
_AHEAD = 1 << 13  # sentences made ready on the host while the device works on those before


def make_lstm(dimension: int, hidden: int, seed: int) -> Any:
    """A fresh LSTM with torch's uniform start; the global random state stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.LSTM(dimension, hidden, bidirectional=True)


def run_lstm(lstm: Any, inputs: Any, sizes: Any, places: Any) -> Any:
    """Outputs as [time, sentence, 2h] from packed inputs; ``sizes`` lies on the host, so that nothing waits."""
    outputs = lstm(PackedSequence(inputs, sizes))[0].data
    return outputs.index_select(0, places.flatten()).view(*places.shape, -1)


def pool(outputs: Any, lengths: Any = None) -> Any:
    """Maximum over time; with ``lengths``, zeros stand behind the end of a sentence and take part, as in V1."""
    if lengths is not None:
        time = torch.arange(len(outputs), device=outputs.device)[:, None]
        outputs = outputs.masked_fill((time >= lengths)[:, :, None], 0.0)
    return outputs.max(dim=0).values


@contextmanager
def arithmetic(device: str, dtype: str) -> Iterator[None]:
    """Whether fp32 products may be rounded to TF32, for the time of a block; beside bfloat16 they may."""
    if not device.startswith("cuda"):
        yield
        return
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = dtype in {"tf32", "bfloat16"}
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


def check_dtype(dtype: str, device: str, known: Sequence[str] = DTYPES) -> Any:
    """The torch type of the weights, or why it cannot be had."""
    if dtype not in known:
        raise InputError(f"no arithmetic '{dtype}'; choose {', '.join(known)}")
    if dtype != "float32" and not device.startswith("cuda"):
        raise InputError(f"'{dtype}' needs a CUDA device; on {device} use float32")
    return torch.float32 if dtype == "tf32" else getattr(torch, dtype)


class BiLSTMMax:
    """A single-layer bidirectional LSTM with max pooling.

    Words without a vector are dropped; a sentence without any known word is ``<s> </s>``. The vectors are not trained;
    a vocabulary over them may bring markers of its own. Embeddings have twice as many dimensions as ``hidden``.
    ``weights`` are named as in ``torch.nn.LSTM``; without them it starts at random from the seed. ``v1_padding`` lets
    the zeros behind the shorter sentences of a batch take part in the maximum, as InferSent V1 does; embeddings then
    depend on the batch. ``dtype`` is one of DTYPES, all but float32 for CUDA; by default tf32 there, else float32.
    """

    def __init__(
        self,
        vectors: WordVectors | Vocabulary,
        *,
        hidden: int = 2048,
        weights: Mapping[str, torch.Tensor] | None = None,
        seed: int = 0,
        device: str | None = None,
        v1_padding: bool = False,
        dtype: str | None = None,
        batch_size: int = 256,
    ) -> None:
        if hidden < 1 or batch_size < 1:
            raise InputError(f"hidden and batch_size must be 1 or more, not {hidden} and {batch_size}")
        self.device = pick_device(torch, device)
        self.dtype = dtype or ("tf32" if self.device.startswith("cuda") else "float32")
        self._type = check_dtype(self.dtype, self.device)
        self.hidden, self.dimension = hidden, 2 * hidden
        self.v1_padding, self.batch_size = v1_padding, batch_size
        self.vocabulary = vectors if isinstance(vectors, Vocabulary) else Vocabulary(vectors)
        dimension = self.vocabulary.vectors.dimension
        # Weights stay in float32 on the host for saving and hashing; the device has a copy in its own type.
        lstm = make_lstm(dimension, hidden, seed)
        if weights is not None:
            shapes = [{name: tuple(part.shape) for name, part in some.items()} for some in (lstm.state_dict(), weights)]
            for name in sorted(shapes[0].keys() | shapes[1].keys()):
                wanted, found = (some.get(name) for some in shapes)
                if wanted != found:
                    wrong = f"{name} should have the shape {wanted}, found {found}"
                    raise ModelError(f"these are not the weights of this LSTM: {wrong}")
            lstm.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
        self.weights = {name: tensor.detach().clone() for name, tensor in lstm.state_dict().items()}
        self._lstm = lstm.eval().requires_grad_(False).to(self.device, self._type)
        self._table = torch.empty(0, dimension, dtype=self._type, device=self.device)
        self.note = ""  # what a user should know before trusting the embeddings

    @cached_property
    def identity(self) -> str:
        """Hash of weights, vectors and all settings that touch a result.

        float32 and tf32, the defaults of different devices, count as the same, as the devices do.
        """
        arithmetic = "float16" if self.dtype == "float16" else "float32"
        digest = hashlib.sha256(f"{_FORMAT}|{self.hidden}|{self.v1_padding}|{arithmetic}".encode())
        digest.update(self.vocabulary.vectors.identity.encode() + self.vocabulary.markers.tobytes())
        for name in sorted(self.weights):
            digest.update(name.encode() + self.weights[name].numpy().tobytes())
        return f"bilstm-max:{digest.hexdigest()[:32]}"

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Words or phrases of which no part has a vector."""
        return [word for word in words if not self.vocabulary.known(words_of(word))]

    def encode(self, texts: Sequence[str | Sequence[str]]) -> NDArray[np.float32]:
        """Sentence embeddings, [n, 2h]; a text may be given as its words."""
        embeddings = np.zeros((len(texts), self.dimension), dtype=np.float32)
        waiting: list[tuple[Any, Any]] = []
        for at in range(0, len(texts), _AHEAD):
            tokens = self.vocabulary.tokens(texts[at : at + _AHEAD])
            rows = torch.empty(len(tokens.lengths), self.dimension, device=self.device)
            for which, outputs, lengths in self._outputs(tokens):
                rows[which] = pool(outputs, lengths if self.v1_padding else None).float()
            # A copy to the host waits for the device, so it comes after the work that follows is handed over.
            waiting.append((torch.from_numpy(embeddings[at : at + _AHEAD]), rows))
            if len(waiting) > 1:
                host, ready = waiting.pop(0)
                host.copy_(ready)
        for host, rows in waiting:
            host.copy_(rows)
        return embeddings

    def argmax_counts(self, sentences: Sequence[Sequence[str]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """In how many dimensions each word of each sentence has the maximum, end to end, and the words of each.

        A word without a vector has none; dimensions of the markers are left out.
        """
        sizes = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
        ids = self.vocabulary.ids(list(itertools.chain.from_iterable(sentences)))
        tokens = surround(ids, sizes)
        # Counts come back token by token; without the markers they are those of the known words, in order.
        inside = np.ones(len(tokens.ids), dtype=bool)
        inside[tokens.starts] = inside[tokens.starts + tokens.lengths - 1] = False
        counts = np.zeros(len(ids), dtype=np.int64)
        counts[ids >= 0] = self._argmax_counts(tokens)[inside]
        return counts, sizes

    def argmax(self, texts: Sequence[str | Sequence[str]]) -> list[Pooled]:
        """In how many dimensions each token, markers included, has the maximum: the first of equals; they sum to 2h."""
        listed = [[MARKERS[0], *self.vocabulary.known(words_of(text)), MARKERS[1]] for text in texts]
        tokens = self.vocabulary.tokens(words[1:-1] for words in listed)
        counts = np.split(self._argmax_counts(tokens), tokens.starts[1:])
        return [Pooled(words, own.tolist(), self.dimension) for words, own in zip(listed, counts, strict=False)]

    def save(self, folder: str | Path) -> None:
        """Write a folder that needs no vector file: weights, and the words met so far with their vectors."""
        matrix = self.vocabulary.matrix()
        broken = next((word for word in self.vocabulary.words if "\n" in word), None)
        if broken is not None:
            raise InputError(f"the word {broken!r} has a line break and cannot be saved; remove it from the vectors")
        config = {
            **stamp(_KIND),
            "hidden": self.hidden,
            "vector_dimension": int(matrix.shape[1]),
            "words": len(self.vocabulary),
            "v1_padding": self.v1_padding,
            "vectors": self.vocabulary.vectors.name,
            "vectors_sha256": self.vocabulary.vectors.identity,
            "vectors_file": str(file.resolve()) if (file := self.vocabulary.vectors.file) else None,
        }
        from safetensors.numpy import save_file as save_arrays
        from safetensors.torch import save_file

        run = RunDir(folder, kind=_KIND, manifest="config.json", owned=FILES, option="folder")
        # The configuration goes first and comes last, so that a directory with one is complete.
        run.clear(["config.json"])
        run.write("model.safetensors", lambda file: save_file(self.weights, file))
        run.write("vectors.safetensors", lambda file: save_arrays({"vectors": matrix}, file))
        run.write("words.txt", "\n".join(self.vocabulary.words).encode("utf-8", "surrogatepass"))
        run.write("config.json", json_text(config))

    @classmethod
    def load(cls, folder: str | Path, *, vectors: WordVectors | None = None, device: str | None = None) -> BiLSTMMax:
        """Read what ``save`` wrote; ``vectors`` are those it was trained on, for words it has not met."""
        config, weights, stored = _read(Path(folder))
        if vectors is not None:  # those of another space would give embeddings without any sign of it
            rows = np.array([vectors.index.get(word, -1) for word in stored.words[2:]], dtype=np.int64)
            fits = stored.dimension == vectors.dimension and bool((rows >= 0).all())
            if not (fits and np.array_equal(vectors.matrix[rows], stored.matrix[2:])):
                raise InputError(
                    f"{vectors.name} are not the vectors that the encoder in {folder} was trained on ({stored.name})"
                )
        encoder = cls(
            Vocabulary(stored if vectors is None else vectors, markers=stored.matrix[:2]),
            hidden=config["hidden"],
            weights=weights,
            device=device,
            v1_padding=config["v1_padding"],
        )
        encoder.vocabulary.known(stored.words)
        return encoder

    def _argmax_counts(self, tokens: JoinedTokens) -> NDArray[np.int64]:
        counts = torch.zeros(len(tokens.ids), dtype=torch.int32, device=self.device)
        starts = torch.from_numpy(tokens.starts).to(self.device)
        for rows, outputs, _ in self._outputs(tokens):
            # The first step with the maximum: what is repeated behind the end of a sentence comes later.
            time = torch.arange(len(outputs), dtype=torch.int32, device=self.device)[:, None, None]
            first = torch.where(outputs == outputs.amax(dim=0), time, len(outputs)).amin(dim=0)
            holders = (first + starts[rows][:, None]).flatten()
            counts.scatter_add_(0, holders, torch.ones((), dtype=torch.int32, device=self.device).expand_as(holders))
        return np.asarray(counts.cpu().numpy(), dtype=np.int64)

    def _outputs(self, tokens: JoinedTokens) -> Iterator[tuple[Any, Any, Any]]:
        """Outputs of sentences of similar length, the longest first: their places, outputs and lengths."""
        if len(self._table) < len(self.vocabulary):  # words met since the last batch
            new = torch.from_numpy(self.vocabulary.matrix()[len(self._table) :])
            self._table = torch.cat([self._table, new.to(self.device, self._type)])
        order = np.argsort(-tokens.lengths, kind="stable")
        start = 0
        while start < len(order):
            # The first sentence of a batch is its longest, and bounds what padding can cost.
            stop = start + max(1, min(self.batch_size, _LONGEST // int(tokens.lengths[order[start]])))
            rows, start = order[start:stop], stop
            packed = pack(tokens, rows)
            which, ids, places, lengths = (
                torch.from_numpy(part).to(self.device) for part in (rows, packed.ids, packed.places, packed.lengths)
            )
            with torch.inference_mode(), arithmetic(self.device, self.dtype):
                inputs = torch.nn.functional.embedding(ids, self._table)
                outputs = run_lstm(self._lstm, inputs, torch.from_numpy(packed.sizes), places)
            yield which, outputs, lengths


def load(target: str, request: EncoderRequest) -> BiLSTMMax:
    """The encoder of a folder, with the vectors it was trained on."""
    request.keep_pooling(f"infersent:{target}", "max")
    return load_trained(target, device=request.device)


def load_trained(target: str, *, device: str | None = None, at_hand: WordVectors | None = None) -> BiLSTMMax:
    """A stored encoder with all words of the vectors it was trained on, where they can be found.

    A folder alone knows the words of the training pairs. A test has others, and without them it would be another test.
    The target is ``FOLDER``, or ``FOLDER,VECTORS`` where the file is not where it was in training; vectors ``at_hand``
    are used if they are the right ones.
    """
    folder, *file = parts_of(f"infersent:{target}")
    config = _read_config(Path(folder))
    vectors = load_vectors(file[0]) if file else None
    stored, wanted = config.get("vectors_file"), config.get("vectors_sha256")
    if vectors is None and at_hand is not None and at_hand.identity == wanted:
        vectors = at_hand
    if vectors is None and isinstance(stored, str) and Path(stored).is_file():
        loaded = load_vectors(stored)
        vectors = loaded if loaded.identity == wanted else None
    encoder = BiLSTMMax.load(folder, vectors=vectors, device=device)
    encoder.v1_padding = False  # as V1 is evaluated: one sentence at a time, where there is no padding
    if vectors is None:
        encoder.note = (
            f"{folder}: the vectors it was trained on ({config.get('vectors')}) are not at hand, so words it did not "
            f"meet in training are left out; give them as infersent:{folder},FILE"
        )
    return encoder


def _read_config(folder: Path) -> dict[str, Any]:
    check_folder(folder)
    config = read_json(folder / "config.json")
    if not is_stamped(config, _KIND):
        raise ModelError(f"{folder} holds no {_KIND}, as its config.json says; save one with BiLSTMMax.save")
    sizes = [config.get(name) for name in ("hidden", "words", "vector_dimension")]
    if not all(isinstance(size, int) and size > 0 for size in sizes) or not isinstance(config.get("v1_padding"), bool):
        wanted = "hidden, words, vector_dimension, v1_padding"
        raise ModelError(f"{folder / 'config.json'} is not complete: expected {wanted}")
    return config


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, Any], WordVectors]:
    """Configuration, weights and stored vectors of a folder."""
    config = _read_config(folder)
    kinds = (OSError, InputError, KeyError, UnicodeDecodeError)
    after = "): expected model.safetensors, vectors.safetensors and words.txt"
    with translated(f"{folder} is not a whole encoder (", after, into=ModelError, kinds=kinds, reason=reason_of):
        weights, _ = read_tensors(folder / "model.safetensors")
        matrix = read_tensors(folder / "vectors.safetensors", "numpy")[0]["vectors"]
        words = (folder / "words.txt").read_bytes().decode("utf-8", "surrogatepass").split("\n")
    broken = next((name for name, tensor in weights.items() if not torch.isfinite(tensor).all()), None)
    if broken is not None or not np.isfinite(matrix).all():
        raise ModelError(f"{folder} is damaged: {broken or 'vectors'} holds numbers that are not finite")
    if matrix.shape != (config["words"], config["vector_dimension"]) or len(words) != config["words"]:
        raise ModelError(
            f"{folder}: config.json says {config['words']} words of {config['vector_dimension']} numbers, "
            f"words.txt has {len(words)} and vectors.safetensors {matrix.shape}"
        )
    if tuple(words[:2]) != MARKERS:
        raise ModelError(f"{folder / 'words.txt'} must begin with {' and '.join(MARKERS)}, not {words[:2]}")
    return config, weights, WordVectors.of(words, matrix, str(config.get("vectors", folder.name)))
