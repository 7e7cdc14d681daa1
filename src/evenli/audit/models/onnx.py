"""ONNX Runtime classifiers, the embedded ones among them: ``.onnx`` and ``tokenizer.json``, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from evenli.audit.models.base import ONNX_FILE, ModelInfo, ModelRequest, OutOfMemory, Prepared, Tokens, tokenise
from evenli.audit.models.growth import growth
from evenli.audit.models.loading import PICKLE_FILES, SAFE_FILES, longest_input, read_fields
from evenli.core import registry
from evenli.core.errors import LabelError, ModelError, foreign_code, message_of, translated
from evenli.core.io import hash_files
from evenli.core.parse import DEPTH, check_regular
from evenli.core.temporary import private_copy
from evenli.words.tables import read_toml

EMBEDDED = Path(__file__).parent / "embedded"
"""The models that ship with the package: a directory each with model, tokenizer, config and card."""
_ELSEWHERE = {"ja", "zh", "ja-small", "zh-small"}
"""Models of the package evenli-models-nc."""
_BY_BATCH = b"DynamicQuantizeLinear"
"""Operator that scales activations by the range of the whole batch."""
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


def load(target: str, request: ModelRequest) -> OnnxModel:
    """The backend ``onnx:FILE`` or ``onnx:DIRECTORY``."""
    model = OnnxModel(target, request)
    beside = [name for name in (*SAFE_FILES, *PICKLE_FILES) if (Path(target) / name).is_file()]
    if request.spec == target and beside:
        # Under its directory's name alone, an old or int8 export would pass for the checkpoint.
        model.info = structs.replace(model.info, name=f"{model.info.name}/{ONNX_FILE}".lstrip("/"))
        model.note = (
            f"{target} holds {ONNX_FILE} and {beside[0]}; {ONNX_FILE} is asked: pass hf:{target} for the checkpoint, "
            f"or onnx:{target} to say that it is meant"
        )
    return model


class OnnxModel:
    """A three-label ONNX sequence classifier."""

    def __init__(self, target: str, request: ModelRequest) -> None:
        options, path = request.options, Path(target)
        path = path / ONNX_FILE if path.is_dir() else path
        if not path.is_file():
            raise ModelError(f"no ONNX model at {path}")
        dtype = options.dtype or "float32"
        if dtype != "float32":
            raise ModelError(f"dtype {dtype} is not for ONNX models, which are computed in float32")
        if options.device is not None and options.device.partition(":")[0] != "cpu":
            raise ModelError(f"device {options.device} is not for ONNX models, which run on the CPU; leave it out")
        self._graph = OnnxGraph(path, path.parent, options.threads)
        labels, self._columns = options.label_order(lambda: _labels(path, self._graph.session), str(path))
        config, tokenizer_limit = limits_beside(path.parent)
        self.info = ModelInfo(
            spec=request.spec,
            backend="onnx",
            name=path.parent.name if path.name == ONNX_FILE else path.stem,
            fingerprint=self._graph.sha256,
            labels=labels,
            device="cpu",
            dtype=dtype,
            max_length=longest_input(config, options.max_length, tokenizer_limit=tokenizer_limit),
        )
        self.note = ""
        self.bucket = 1
        self.token_budget = options.token_budget or 2_048

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Tokenise all pairs at once; too long ones are truncated and counted."""
        tokens, truncated = tokenise(self._graph.tokenizer, premises, hypotheses, self.info.max_length or 0)
        return Prepared(tokens, tokens.lengths, truncated)

    def logits(self, items: Tokens) -> NDArray[np.float32]:
        """One session run."""
        output = self._graph.run(items)
        if output.shape != (len(items), 3):
            raise LabelError(f"{self.info.name} gives outputs of shape {output.shape}, expected ({len(items)}, 3)")
        return np.asarray(output[:, self._columns], dtype=np.float32)


class OnnxGraph:
    """An ``.onnx`` file that takes tokens, on the CPU, and its tokenizer; ``sha256`` is of the files of both.

    Loaded from a copy: the runtime maps files that hold weights beside the model.
    """

    def __init__(self, path: Path, folder: Path, threads: int | None = None) -> None:
        self.path, vocabulary = path, folder / "tokenizer.json"
        if not vocabulary.is_file():
            raise ModelError(f"no tokenizer.json in {folder}; an ONNX model needs its tokenizer beside it")
        files = [path, vocabulary, *data_files(path)]  # checked before the runtime opens them
        with private_copy(files, folder) as copy:
            path, vocabulary, *weights = (copy / file.absolute().relative_to(folder.absolute()) for file in files)
            self.tokenizer = open_tokenizer(vocabulary)
            self.session = open_session(path, threads)
            self.sha256 = hash_files([path, vocabulary, *weights])
            # A name that is no operator costs time only, and so no package is needed to read the graph.
            self.scales_by_batch = _BY_BATCH in path.read_bytes()
        self.inputs = {entry.name: _INTEGERS.get(entry.type) for entry in self.session.get_inputs()}
        if "input_ids" not in self.inputs or set(self.inputs) - set(_INPUTS) or None in self.inputs.values():
            listed = ", ".join(f"{entry.name} {entry.type}" for entry in self.session.get_inputs())
            raise ModelError(f"{self.path} takes {listed or 'no inputs'}; expected integers {', '.join(_INPUTS)}")

    def run(self, tokens: Tokens, output: str | None = None) -> NDArray[Any]:
        """An output of the graph, by default its first. Raises OutOfMemory if the batch does not fit."""
        ids, types, mask = tokens.batch()
        feeds = dict(zip(_INPUTS, (ids, np.ones_like(ids) if mask is None else mask, types), strict=True))
        taken = {name: feeds[name].astype(kind, copy=False) for name, kind in self.inputs.items()}

        def reason(error: BaseException) -> str:
            if isinstance(error, MemoryError) or "allocate memory" in str(error) or "bad_alloc" in str(error):
                raise OutOfMemory(f"{self.path} ran out of memory on a batch") from error
            return message_of(error)

        with translated(f"{self.path} failed on a batch: ", into=ModelError, reason=reason):
            return np.asarray(self.session.run([output] if output else None, taken)[0])


def open_session(path: Path, threads: int | None) -> Any:
    """An onnxruntime session on the CPU, or one line that says why there is none."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors come as exceptions; the log would be further lines
    # Weights stored in int8 are expanded once at load and computed in fp32: exact on every CPU.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    if threads:
        options.intra_op_num_threads = threads
    with foreign_code(f"cannot load {path}: "):
        # There is nothing to fall back to from the CPU, and trying it again is announced in four lines.
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"], enable_fallback=0)


def open_tokenizer(file: Path) -> Any:
    """The tokenizer of an ONNX model, without padding."""
    from tokenizers import Tokenizer

    with foreign_code(f"cannot read {file}: "):
        tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    growth(tokenizer)
    return tokenizer


def limits_beside(folder: Path) -> tuple[Any, Any]:
    """Fields of the model's ``config.json`` and limit of its tokenizer, from files beside an ONNX model."""
    config, tokenizer = (read_fields(folder / name) for name in ("config.json", "tokenizer_config.json"))
    return SimpleNamespace(**config), tokenizer.get("model_max_length")


def _labels(path: Path, session: Any) -> tuple[str, ...]:
    """Label names from ``config.json`` beside the model, or from the model's own metadata."""
    names = read_fields(path.parent / "config.json").get("id2label")
    if isinstance(names, dict) and all(key.isdigit() for key in names):
        return tuple(str(names[key]) for key in sorted(names, key=int))
    if stored := session.get_modelmeta().custom_metadata_map.get("labels"):
        return tuple(stored.split(","))
    raise LabelError(
        f"{path} does not name its labels (no id2label in config.json, no 'labels' metadata). "
        "Say the order (--labels), for example entailment,neutral,contradiction"
    )


@dataclass(frozen=True)
class EmbeddedModel:
    """One shipped model and its card."""

    name: str
    lang: str
    path: Path
    card: dict[str, Any]


def embedded_models() -> list[EmbeddedModel]:
    """All models that ship with evenli or with a package of models that is installed, sorted by language."""
    places = [EMBEDDED, *(Path(registry.EMBEDDED.get(name)) for name in registry.EMBEDDED)]
    cards = ((file.parent, read_toml(file)) for place in places for file in place.glob("*/card.toml"))
    models = [EmbeddedModel(folder.name, str(card["lang"]), folder, card) for folder, card in cards]
    return sorted(models, key=lambda model: (model.lang, model.name))


def load_embedded(target: str, request: ModelRequest) -> OnnxModel:
    """The backend ``evenli:NAME`` or ``evenli:LANG``."""
    models = embedded_models()
    if found := next((model for model in models if target in {model.name, model.lang}), None):
        return OnnxModel(str(found.path), request)
    if target in _ELSEWHERE:
        raise ModelError(
            f"the embedded model '{target}' is non-commercial and packaged separately: pip install "
            "evenli-models-nc (from a clone: pip install ./packages/evenli-models-nc), or name a model of your own"
        )
    shipped = ", ".join(f"{model.name} ({model.lang})" for model in models) or "none"
    raise ModelError(f"no embedded model '{target}'; shipped: {shipped}. Name a model of your own instead")


_TENSOR, _SPARSE, _ENTRY = "tensor", "sparse tensor", "entry"
_GRAPH, _NODE, _ATTRIBUTE, _FUNCTION, _TRAINING = "graph", "node", "attribute", "function", "training"
_MESSAGES: dict[str, dict[int, str]] = {
    "model": {7: _GRAPH, 20: _TRAINING, 25: _FUNCTION},
    _TRAINING: {1: _GRAPH, 2: _GRAPH},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _TENSOR: {13: _ENTRY},
}
"""The fields of ``onnx.proto`` on the way to the names of external data, by message."""
_FIXED = {1: 8, 5: 4}
"""Bytes of a field, by wire type, where they do not vary."""


def data_files(path: Path) -> list[Path]:
    """Files beside the model that hold its weights, where they are not in the ``.onnx`` file itself.

    One outside of the model's folder is refused, also behind a link: some versions of the runtime read any file of the
    machine as weights.
    """
    check_regular(path)
    with translated(f"{path} is not an ONNX model: ", into=ModelError, kinds=(ValueError,)):
        locations = sorted(set(_locations(memoryview(path.read_bytes()))))
    # In the cache of the hub the model and its weights are links into one folder of blobs.
    folders = (path.parent.resolve(), path.resolve().parent)
    for location in locations:
        # Read as either system would: a path that leaves the folder on one of them is no path to trust.
        ways, file = (PurePosixPath(location), PureWindowsPath(location)), path.parent / location
        named = location and not any(way.drive or way.root or ".." in way.parts for way in ways)
        if named and not file.is_file():
            raise ModelError(f"{path} keeps weights in {location}, which is missing; copy it there")
        if not named or not any(file.resolve().is_relative_to(folder) for folder in folders):
            raise ModelError(
                f"{path} references external weights outside its folder ('{location}'); export it again with the "
                "weights beside it"
            )
    return [path.parent / location for location in locations]


def _locations(message: memoryview, kind: str = "model", depth: int = 0) -> Iterator[str]:
    """Names of external data in a message: of initializers, of attributes of nodes, of subgraphs and functions."""
    if depth > DEPTH:
        raise ValueError(f"nested more than {DEPTH} deep")
    if kind == _ENTRY:
        entry = [(number, bytes(value)) for number, value in _fields(message)]
        if (1, b"location") in entry:
            yield from (value.decode("utf-8", "backslashreplace") for number, value in entry if number == 2)
        return
    for number, value in _fields(message):
        if number in _MESSAGES[kind]:
            yield from _locations(value, _MESSAGES[kind][number], depth + 1)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Numbers and contents of the fields of a protobuf message that are texts, bytes or messages."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            at = _varint(message, at)[1]
            continue
        size, at = (_FIXED[wire], at) if wire in _FIXED else _varint(message, at)
        # A reader may cut a tag to 32 bits and then see another field, so that is no tag to trust.
        if not 0 < number < 1 << 29 or wire not in {1, 2, 5} or at + size > len(message):
            raise ValueError("it is damaged")
        if wire == 2:
            yield number, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = 0
    for place, byte in enumerate(message[at : at + 10]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("it is damaged")
