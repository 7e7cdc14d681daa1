"""More valid inputs: probes, other suites, captions, policies, caches, folders of encoders and language models."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path

from fuzzing.seeds import PLACES, command, material, pack, seed

_SUBJECTS = ("woman", "man", "girl", "boy", "lady", "gentleman")
_VERBS = ("waits", "eats", "reads", "sleeps", "runs", "sings", "works")


@seed
def probe(root: Path) -> None:
    """A probe in every format and packing, and the text and the occupations it is built from."""
    import polars as pl

    lines = [f"The {job} {verb} in the {place}." for job, verb, place in product(("nurse", "pilot"), _VERBS, PLACES)]
    Path("jobs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("jobs.csv").write_text("occupation,gender\nnurse,female\npilot,male\n", encoding="utf-8")
    source = ("--corpus", "jobs.txt", "--occupations", "jobs.csv", "--per-occupation", "4")
    command("build", "probe", *source, "-o", "probe.jsonl")
    rows = pl.read_ndjson("probe.jsonl")
    rows.write_csv("probe.csv")
    rows.write_csv("probe.tsv", separator="\t", quote_style="never")
    rows.write_parquet("probe.parquet")
    pack("probe")


@seed
def captions(root: Path) -> None:
    """Captions that become templates, and sentences that an eraser is fitted on."""
    adverbs = ("", " quietly", " alone")
    lines = [f"A man {verb}{adverb} in the {place}." for verb, adverb, place in product(_VERBS, adverbs, PLACES)]
    Path("captions.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lines = [f"The {who} {verb} in the {place}." for who, verb, place in product(_SUBJECTS, _VERBS, PLACES)]
    Path("gendered.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


@seed
def packs(root: Path) -> None:
    """An evidence pack, as a folder and as a zip."""
    command("evidence", material(root, "runs") / "run", "-o", "pack")


@seed
def batch(root: Path) -> None:
    """Answers to a batch of requests: the first option is likeliest."""
    command("batch", "write", "tiny", "--suite", "labour", "--limit", "12", "-o", "requests.jsonl")
    tops = [{"token": token, "logprob": -1.0 - number} for number, token in enumerate("ABCDEF")]
    choice = {"message": {"content": "A"}, "logprobs": {"content": [{"top_logprobs": tops}]}}
    usage = {"prompt_tokens": 9, "completion_tokens": 1}
    body = {"model": "tiny", "system_fingerprint": "fp", "choices": [choice], "usage": usage}
    lines = Path("requests.jsonl").read_text(encoding="utf-8").splitlines()
    rows = (
        {"custom_id": json.loads(line)["custom_id"], "response": {"status_code": 200, "body": body}} for line in lines
    )
    Path("responses.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


@seed
def suites(root: Path) -> None:
    """Audits with the other suites, two of each, and a policy."""
    shutil.copy(material(root, "corpus") / "corpus.jsonl", "corpus.jsonl")
    shutil.copy(material(root, "probe") / "probe.jsonl", "probe.jsonl")
    for name, model in (("", "fake:oracle:0.3"), ("2", "fake:neutral")):  # no answers in common
        command("audit", model, "--suite", "probe", "--data", "probe.jsonl", "-o", f"probe{name}")
        command("audit", model, "--suite", "swap", "--data", "corpus.jsonl", "-o", f"swap{name}")
        command("audit", model, "--axis", "nationality", "--limit", "60", "-o", f"groups{name}")
    Path("policy.toml").write_text(
        'name = "ours"\ndescription = "what we ship"\n[baseline]\nmax_worse = 0.02\n'
        '[[clause]]\nname = "low"\nfail_if = "coal.low > 0.05"\nreason = "one in twenty"\n'
        '[[clause]]\nname = "follow"\nfail_if = "stereotype.low > 0.3"\nreason = "one in three"\noptional = true\n',
        encoding="utf-8",
    )


@seed
def robust(root: Path) -> None:
    """Two audits in other words; apart, because a run tells of wordings that were asked beside it."""
    words = str(material(root, "wordings") / "wordings.csv")
    command("robustness", "fake:oracle:0.3", "--data", words, "-o", "robust")
    command("robustness", "fake:biased", "--data", words, "-o", "robust2")


@seed
def caches(root: Path) -> None:
    """Vectors with their binary copy beside them, and embeddings that are kept."""
    for name in ("vectors", "senteval"):
        shutil.copytree(material(root, name), ".", dirs_exist_ok=True)
    Path("result.json").unlink()
    command("direction", "--vectors", "vectors.txt")
    words = ("senteval", "vectors:vectors.txt", "--data", "data", "--tasks", "STS14", "--cache", "kept")
    command(*words)


@seed
def encoder_folder(root: Path) -> None:
    """The checkpoint as a folder of sentence-transformers."""
    shutil.copytree(material(root, "checkpoint") / "model", "st")
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(kinds)
    ]
    Path("st/modules.json").write_text(json.dumps(modules), encoding="utf-8")
    Path("st/1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
    Path("st/1_Pooling/config.json").write_text(json.dumps(pooling), encoding="utf-8")
    Path("st/2_Normalize").mkdir()
    Path("st/sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": false}', encoding="utf-8")
    prompts = {"prompts": {"query": "query: "}, "default_prompt_name": None}
    Path("st/config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")


@seed
def sharded(root: Path) -> None:
    """The checkpoint in two files of weights and their index."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(material(root, "checkpoint") / "model", "model")
    weights = load_file("model/model.safetensors")
    Path("model/model.safetensors").unlink()
    where = {name: f"model-0000{1 + at % 2}-of-00002.safetensors" for at, name in enumerate(sorted(weights))}
    for file in sorted(set(where.values())):
        part = {name: weights[name] for name in where if where[name] == file}
        save_file(part, f"model/{file}", metadata={"format": "pt"})
    size = sum(tensor.numel() * tensor.element_size() for tensor in weights.values())
    index = {"metadata": {"total_size": size}, "weight_map": where}
    Path("model/model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


@seed
def external(root: Path) -> None:
    """The ONNX model with its weights in a file beside it."""
    import onnx

    shutil.copytree(material(root, "onnx") / "onnx", "onnx")
    (file,) = Path("onnx").glob("*.onnx")
    model = onnx.load(str(file))
    file.unlink()
    onnx.save_model(model, str(file), save_as_external_data=True, location="weights.data", size_threshold=256)


@seed
def causal(root: Path) -> None:
    """A language model of one narrow layer."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    torch.set_num_threads(1)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: at for at, letter in enumerate([*letters, "<|endoftext|>"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    end = "<|endoftext|>"
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end, bos_token=end).save_pretrained("lm")
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(vocab), n_positions=1024, n_embd=8, n_layer=1, n_head=2, bos_token_id=256, eos_token_id=256
    )
    transformers.GPT2LMHeadModel(config).save_pretrained("lm")
    shutil.copy(material(root, "pairs") / "few.jsonl", "few.jsonl")
