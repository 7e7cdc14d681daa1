"""Valid inputs, small ones, each made once: by the real commands where there is one, with models of known answers."""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from filelock import FileLock

Builder = Callable[[Path], None]
SEEDS: dict[str, Builder] = {}
LABELS = ("entailment", "neutral", "contradiction")
SENTENCES = (
    "A woman waits in the rain with her brother.",
    "The nurse reads a book to his mother.",
    "Two dogs run in the park near the old house.",
    "A man and a boy play the guitar on the street.",
    "The engineer eats lunch with his daughter.",
    "She likes the new car of her father.",
    "People walk on a small street.",
    "A girl sleeps near the red house.",
)
PLACES = ("park", "rain", "hall", "house", "street", "car", "field")


def seed(builder: Builder) -> Builder:
    """Register a builder under its name."""
    SEEDS[builder.__name__.replace("_", "-")] = builder
    return builder


def material(root: Path, name: str) -> Path:
    """The folder of a seed; it is built if it is not there, by one process."""
    folder = root / name
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{name}.lock"):
        if not folder.is_dir():
            building = root / f".{name}.building"
            shutil.rmtree(building, ignore_errors=True)
            building.mkdir()
            before = Path.cwd()
            os.chdir(building)
            try:
                SEEDS[name](root)
            finally:
                os.chdir(before)
            building.rename(folder)
    return folder


def copy_seeds(root: Path, names: tuple[str, ...], folder: Path) -> Path:
    """A fresh folder with copies of some seeds."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        shutil.copytree(material(root, name), folder, dirs_exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def command(*arguments: str | Path) -> None:
    """Run a command in this process; it must work."""
    from evenli.cli import app

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        app([str(word) for word in arguments], standalone_mode=False)


def _pairs() -> Any:
    import polars as pl

    from evenli.audit.suites.coal.pairs import build_coal

    pairs = build_coal("en")
    # A few occupations of each stereotype, and of each the same sentences for both groups: less gives no verdict.
    few = pl.col("occupation").rank("dense").over("stereotype") <= 3
    return pairs.where(few & (pl.col("template").rank("dense").over("occupation") <= 2))


def pack(name: str) -> None:
    """The rows of a .jsonl and a .csv file, packed in every way."""
    lines = Path(f"{name}.jsonl").read_bytes()
    for ending, packed in ((".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)):
        Path(f"{name}.jsonl{ending}").write_bytes(packed(lines))
    rows = Path(f"{name}.csv").read_bytes()
    try:
        import zstandard

        content = zstandard.ZstdCompressor().compress(rows)
    except ImportError:  # then the command says which extra it needs
        content = b"\x28\xb5\x2f\xfd" + rows
    Path(f"{name}.csv.zst").write_bytes(content)


@seed
def pairs(root: Path) -> None:
    """A few NLI-CoAL pairs in every format and packing."""
    import polars as pl

    rows = _pairs().frame
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows.iter_rows(named=True))
    Path("pairs.jsonl").write_text(lines, encoding="utf-8")
    rows.write_csv("pairs.csv")
    rows.write_csv("pairs.tsv", separator="\t", quote_style="never")
    rows.write_parquet("pairs.parquet")
    pack("pairs")
    few = rows.select(pl.col("premise"), pl.col("hypothesis"), gold=pl.lit("neutral")).head(4)
    few.write_ndjson("few.jsonl")


def _official(row: dict[str, Any]) -> dict[str, Any]:
    names = {"sentence1": "premise", "sentence2": "hypothesis", "label": "gold", "occ_word": "occupation"}
    kind = row["stereotype"] if row["stereotype"] == "neutral" else f"{row['stereotype']}-stereo"
    return {"id": int(row["id"]), **{name: row[ours] for name, ours in names.items()}, "occ_type": kind}


@seed
def release(root: Path) -> None:
    """An official release in miniature, as an archive and as a folder."""
    files = {"PS": "1-prostereo", "AS": "2-antistereo", "NS": "3-nonstereo"}
    small = _pairs()
    Path("release/all-words").mkdir(parents=True)
    for subset, stem in files.items():
        rows = [row for row in small.frame.iter_rows(named=True) if row["subset"] == subset]
        lines = "".join(json.dumps(_official(row), ensure_ascii=False) + "\n" for row in rows)
        Path(f"release/all-words/{stem}.json").write_text(lines, encoding="utf-8")
    for ending in ("xz", "gz"):
        with tarfile.open(f"release.tar.{ending}", f"w:{ending}") as archive:
            archive.add("release")


@seed
def runs(root: Path) -> None:
    """Two complete audits of the same pairs, and one of the probe."""
    data = material(root, "pairs") / "pairs.jsonl"
    for name, model in (("run", "fake:oracle:0.3"), ("other", "fake:biased")):
        command("audit", model, "--data", data, "-o", name)
    command("audit", "fake:even", "--suite", "dev2020", "-o", "dev", "--data", _dev(root))


def _dev(root: Path) -> Path:
    """The first pairs of the templates of Dev et al."""
    command("build", "dev2020", "-o", "all.csv", "--words", "man,woman")
    with Path("all.csv").open(encoding="utf-8") as stream:
        lines = [next(stream) for _ in range(41)]
    Path("all.csv").unlink()
    Path("dev.csv").write_text("".join(lines), encoding="utf-8")
    return Path("dev.csv")


@seed
def wordings(root: Path) -> None:
    """A line of wordings for every dimension."""
    lines = (
        "dimension,name,kind,text,plural,female,male",
        "noun,adult,noun,,,adult woman/adult women,adult man/adult men",
        "determiner,this,one,this {singular},,,",
        'frame,today,,"today, {np} is {vp}.","today, {np} are {vp}.",,',
        "form,it is about,,it is about {a}.,it is about {plural}.,,",
    )
    Path("wordings.csv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


@seed
def predicted(root: Path) -> None:
    """A prediction run without an audit."""
    command("predict", "fake:even", "--data", material(root, "pairs") / "few.jsonl", "-o", "run")


@seed
def unfinished(root: Path) -> None:
    """A run that was interrupted: run.json and shards, no table."""
    from evenli.audit.predictions import RunFolder

    shutil.copy(material(root, "pairs") / "pairs.jsonl", "pairs.jsonl")
    finish = RunFolder.finish

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    RunFolder.finish = stop  # type: ignore[method-assign, assignment]
    try:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            command("audit", "fake:biased", "--data", "pairs.jsonl", "-o", "run", "--token-budget", "200")
    except Exception as error:  # click turns the interrupt into an exception of its own
        if type(error).__name__ != "Abort":
            raise
    finally:
        RunFolder.finish = finish  # type: ignore[method-assign]


@seed
def axis(root: Path) -> None:
    """A small axis with tables beside it."""
    Path("axis.toml").write_text(
        'id = "toy"\ntitle = "Toy"\nconstruct = "c"\nharm = "h"\npopulation = "p"\nassumptions = ["a"]\n'
        '[[groups]]\nname = "female"\nsign = -1\n[[groups]]\nname = "male"\nsign = 1\n'
        '[stereotypes]\nrule = "threshold"\ntable = "words.csv"\nexclude = "out.txt"\ndefinitional_below = 0.5\n'
        'stereotype_above = 0.5\n[languages.en]\ngroup_words = { female = "woman", male = "man" }\n'
        'person = "person"\ntemplates = "templates.txt"\ngold = "gold.csv"\nrevealing = "revealing.csv"\n'
        'paraphrases = [["mother", "woman", "female"], ["father", "man", "male"]]\n',
        encoding="utf-8",
    )
    rows = ("nurse,0.1,-0.8", "engineer,0.0,0.9", "student,0.0,0.1", "pilot,0.1,0.7", "mother,-0.9,-0.9")
    Path("words.csv").write_text("word,definitional,stereotype\n" + "\n".join(rows) + "\n", encoding="utf-8")
    Path("out.txt").write_text("mother\n", encoding="utf-8")
    templates = [f"the [Sub] {verb} in the {place}" for verb in ("waits", "eats") for place in PLACES]
    Path("templates.txt").write_text("\n".join(templates) + "\n", encoding="utf-8")
    gold = [
        f"{label},a person eats.,{text}"
        for label, text in zip(LABELS, ("a person eats.", "it rains.", "nobody eats."), strict=True)
    ]
    Path("gold.csv").write_text("label,premise,hypothesis\n" + "\n".join(gold * 3) + "\n", encoding="utf-8")
    Path("revealing.csv").write_text("word,group\nshe,female\nhe,male\n", encoding="utf-8")
    Path("occupations.csv").write_text("word,stereotype\nnurse,female\npilot,male\nclerk,neutral\n", encoding="utf-8")


@seed
def vectors(root: Path) -> None:
    """Word vectors in every format."""
    import numpy as np

    from evenli.encoders.direction import read_pairs
    from evenli.encoders.hard_debias import save_vectors
    from evenli.encoders.vectors import WordVectors
    from evenli.words.lists import split_words

    gendered = [word for pair in read_pairs("ten") for word in pair]
    texts = {word: None for text in SENTENCES for word in split_words(text)}
    words = list(
        dict.fromkeys([*gendered, *texts, *(word.lower() for word in texts), "science", "art", "poetry", "math"])
    )
    matrix = np.random.default_rng(0).normal(size=(len(words), 6)).astype(np.float32)
    matrix[: len(gendered) : 2, 0] += 2
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in row)}\n" for word, row in zip(words, matrix, strict=True)]
    Path("vectors.txt").write_text("".join(lines), encoding="utf-8")
    Path("vectors.vec").write_text(f"{len(words)} 6\n" + "".join(lines), encoding="utf-8")
    binary = b"".join(word.encode() + b" " + row.tobytes() + b"\n" for word, row in zip(words, matrix, strict=True))
    Path("vectors.bin").write_bytes(f"{len(words)} 6\n".encode() + binary)
    Path("vectors.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
    save_vectors(WordVectors.of(words, matrix), Path("vectors.npz"))
    pairs = "".join(f"{f},{m}\n" for f, m in read_pairs("ten"))
    Path("wordpairs.csv").write_text(f"female,male\n{pairs}", encoding="utf-8")


@seed
def corpus(root: Path) -> None:
    """A corpus of sentences and one of pairs."""
    Path("corpus.txt").write_text("\n".join(SENTENCES * 2) + "\n", encoding="utf-8")
    rows = [
        {"premise": text, "hypothesis": SENTENCES[(at + 3) % 8], "gold_label": LABELS[at % 3], "id": str(at)}
        for at, text in enumerate(SENTENCES * 5)
    ]
    Path("corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    Path("corpus.jsonl.xz").write_bytes(lzma.compress(Path("corpus.jsonl").read_bytes()))
    Path("corpus.txt.gz").write_bytes(gzip.compress(Path("corpus.txt").read_bytes()))
    with Path("corpus.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@seed
def scored(root: Path) -> None:
    """A scored corpus."""
    source, words = material(root, "corpus") / "corpus.jsonl", material(root, "vectors") / "vectors.txt"
    command("score", source, "--vectors", words, "-o", "scored")


@seed
def seat_test(root: Path) -> None:
    """A small association test of the user's own."""
    sets = {
        "targ1": ["man", "boy"],
        "targ2": ["woman", "girl"],
        "attr1": ["science", "math"],
        "attr2": ["art", "poetry"],
    }
    content = {role: {"category": role, "examples": words} for role, words in sets.items()}
    Path("own.json").write_text(json.dumps(content), encoding="utf-8")


@seed
def senteval(root: Path) -> None:
    """A few tasks of SentEval in miniature."""
    Path("data").mkdir()
    for name, words in (("pos", ("fine", "new")), ("neg", ("old", "red"))):
        lines = [f"the {words[at % 2]} {word} {at}" for at, word in enumerate(("car", "house", "park", "dogs") * 3)]
        Path(f"data/MR.{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [f"headlines\t{at % 5}\tthe old house\tthe {'old' if at % 2 else 'new'} car {at}" for at in range(8)]
    header = "dataset\tscore\tsentence1\tsentence2"
    Path("data/STS14.tsv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    for split in ("train", "dev", "test"):
        lines = [f'"the old house","the {"old" if at % 2 else "new"} car {at}",{at % 5}' for at in range(12)]
        Path(f"data/stsb-en-{split}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    encoder = f"vectors:{material(root, 'vectors') / 'vectors.txt'}"
    command("senteval", encoder, "--data", "data", "--tasks", "STS14", "-o", "result.json")


@seed
def mitigated(root: Path) -> None:
    """Hard-debiased vectors, and an encoder with an eraser behind it."""
    import numpy as np

    from evenli.core.store import with_hash
    from evenli.encoders.gendered import gendered_set
    from evenli.words.lists import split_words

    words = material(root, "vectors") / "vectors.txt"
    command("mitigate", "hard-debias", words, "-o", "hard")
    known: dict[str, None] = {}
    sentences = gendered_set()
    for part in ("fit", "probe", "test"):
        for pair in getattr(sentences, part):
            known |= dict.fromkeys(split_words(pair.female) + split_words(pair.male))
    known |= dict.fromkeys(word for row in sentences.occupations for word in row.split())
    known |= dict.fromkeys(word for text in (*SENTENCES, *sentences.neutral) for word in split_words(text))
    known |= dict.fromkeys(("science", "art", "poetry", "math", "man", "boy", "woman", "girl"))
    matrix = np.random.default_rng(1).normal(size=(len(known), 6))
    side = {word: at for pair in sentences.fit + sentences.probe + sentences.test for at, word in enumerate(pair.words)}
    matrix[:, 0] += [{0: 3, 1: -3}.get(side.get(word, 2), 0) for word in known]
    lines = [f"{word} {' '.join(f'{x:.4f}' for x in row)}\n" for word, row in zip(known, matrix, strict=True)]
    Path("many.txt").write_text("".join(lines), encoding="utf-8")
    target = root / "mitigated" / "many.txt"
    # The base is named by its final place, which the folder has once it is complete.
    command("mitigate", "leace", f"vectors:{Path('many.txt').absolute()}", "-o", "leace")
    about = Path("leace/mitigated.json")
    text = about.read_text(encoding="utf-8").replace(str(Path("many.txt").absolute()), str(target))
    about.write_text(json.dumps(with_hash(json.loads(text))), encoding="utf-8")


@seed
def checkpoint(root: Path) -> None:
    """A BERT classifier of one narrow layer."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    torch.set_num_threads(1)
    vocab = {word: at for at, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", "man", "woman", "."))}
    for letter in "abcdefghijklmnopqrstuvwxyz0123456789'-,":
        for piece in (letter, f"##{letter}"):
            vocab.setdefault(piece, len(vocab))
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    names = ["input_ids", "token_type_ids", "attention_mask"]
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=names, **special)
    fast.save_pretrained("model")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocab),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=160,
        id2label=dict(enumerate(LABELS)),
        label2id={label: at for at, label in enumerate(LABELS)},
    )
    transformers.BertForSequenceClassification(config).save_pretrained("model")


@seed
def onnx(root: Path) -> None:
    """The checkpoint as ONNX."""
    command(
        "onnx", material(root, "checkpoint") / "model", "-o", "onnx", "--check", material(root, "pairs") / "few.jsonl"
    )


@seed
def infersent(root: Path) -> None:
    """A trained BiLSTM encoder, and the data it is trained on."""
    source = material(root, "corpus") / "corpus.jsonl"
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    Path("train.jsonl").write_text("".join(lines[:30]), encoding="utf-8")
    Path("dev.jsonl").write_text("".join(lines[30:]), encoding="utf-8")
    words = material(root, "vectors") / "vectors.txt"
    options = ("--hidden", "4", "--epochs", "1", "--device", "cpu")
    command(
        "train", "encoder", "--data", "train.jsonl", "--dev", "dev.jsonl", "--vectors", words, "-o", "trained", *options
    )


@seed
def trained(root: Path) -> None:
    """A fine-tuned classifier, and the data it is trained on."""
    lines = (material(root, "corpus") / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    Path("train.jsonl").write_text("".join(lines[:12]), encoding="utf-8")
    base = material(root, "checkpoint") / "model"
    options = ("--epochs", "1", "--batch-size", "4", "--device", "cpu", "--no-graph")
    command("train", "nli", base, "--data", "train.jsonl", "-o", "trained", *options)


@seed
def meta(root: Path) -> None:
    """A sweep whose models are made up: three rates, one seed."""
    import numpy as np

    from evenli.training.meta import Design, MetaFolder
    from evenli.training.meta.controlled import prepare

    folder = MetaFolder("sweep")
    prepare(folder, Design(width=2, rates=(0.0, 0.5, 1.0)))
    folder.check_base("made-up", "0" * 64, {"epochs": 1})
    rows = len(folder.pairs("evaluation"))
    generator = np.random.default_rng(0)
    for cell in folder.cells([0]):
        logits = generator.normal(size=(rows, 3)).astype(np.float32)
        folder.store(cell, logits, {"loss": 0.1, "dev_accuracy": 0.9, "seconds": 1.0})
