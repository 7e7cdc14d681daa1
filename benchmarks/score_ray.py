"""Two machines of a Ray cluster beside one: rows a second of ``score_corpus_ray``, and whether no byte differs.

pip install 'evenli[scale]'
python benchmarks/score_ray.py --lines 10000000             # needs 8 processors and some for the driver
python benchmarks/score_ray.py --lines 200000 --cpus 1      # tries it out on a small machine; the ratio says nothing

The machines are processes on this one (``ray.cluster_utils.Cluster``) with 4 processors each, as far as Ray is
concerned; the head does no work itself. Lines and vectors are those of score_memory.py.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from evenli.corpus.ray_engine import score_corpus_ray
from evenli.corpus.run import score_corpus
from evenli.corpus.scoring import ScoreSettings, make_scorer
from score_memory import SNLI, read_texts, write_lines, write_vectors


def digest(scored: Path) -> dict[str, str]:
    """Hashes of the shards by name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (scored / "shards").iterdir()}


def main() -> None:
    """Print rows a second with one machine and with two, the ratio, and whether the shards are those of one process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--cpus", type=int, default=4, help="processors of a machine")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each, of which the fastest counts")
    parser.add_argument("--file", type=Path, default=SNLI, help="pairs to take the sentences from")
    parser.add_argument("--folder", type=Path, help="where the files are written for the time of the run")
    arguments = parser.parse_args()
    texts = read_texts(arguments.file)
    if (os.cpu_count() or 1) < 2 * arguments.cpus:
        print(f"only {os.cpu_count()} processors: the ratio of two machines with {arguments.cpus} each says nothing")
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        write_vectors(texts, folder / "vectors.txt")
        write_lines(texts, arguments.lines, folder / "lines.txt")
        scorer = make_scorer(ScoreSettings(vectors=folder / "vectors.txt"))
        score_corpus(folder / "lines.txt", folder / "local", scorer)
        expected = digest(folder / "local")
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        speeds = []
        try:
            ray.init(address=cluster.address, log_to_driver=False)
            for machines in (1, 2):
                cluster.add_node(num_cpus=arguments.cpus)
                cluster.wait_for_nodes()
                runs = []
                for _ in range(arguments.repeats):
                    how = {"identity": scorer.identity, "gpus": False, "overwrite": True}
                    started = time.perf_counter()
                    score_corpus_ray(folder / "lines.txt", folder / "ray", lambda: scorer, **how)
                    runs.append(arguments.lines / (time.perf_counter() - started))
                same = "the same bytes" if digest(folder / "ray") == expected else "OTHER BYTES"
                print(f"{machines} machine(s): {max(runs):>9,.0f} rows/s, {same} as one process", flush=True)
                speeds.append(max(runs))
        finally:
            ray.shutdown()
            cluster.shutdown()
    print(f"ratio {speeds[1] / speeds[0]:.2f}; load {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors")


if __name__ == "__main__":
    main()
