"""Peak memory of opening a table whose files were added many times, without a checkpoint.

    python -m benchmarks.replay_memory [--files 1000000] [--rounds 1 10 100] [--folder DIR]

Each round adds the same files again, so that only the last round's adds are live. The figure is the
peak of a process that opens the latest version and lists its files: it must grow with the live
files, not with the log. The commits of all rounds are hard links to the commits of one round.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from benchmarks.open_table import LIST_OURS, OURS, actions, adds, run
from delta_ops import DeltaLog
from delta_ops.log.commit_file import create_commit
from delta_ops.protocol.file_names import commit_name

COMMITS = 100
"""The figures of a round."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--folder", type=Path, help="where to write; a temporary one if not given")
    arguments = parser.parse_args()
    print("| rounds | s | peak, MB | of the first |\n|---|---|---|---|")
    first_mb = 0.0
    for rounds in arguments.rounds:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            make_table(Path(folder), arguments.files, rounds)
            seconds, peak_mb, num_files = run(OURS, LIST_OURS, Path(folder))
        assert num_files == arguments.files // COMMITS * COMMITS
        first_mb = first_mb or peak_mb
        print(
            f"| {rounds} | {seconds:.1f} | {peak_mb:,.0f} | {peak_mb / first_mb:.2f} |", flush=True
        )


def make_table(root: Path, files: int, rounds: int) -> None:
    log = DeltaLog(root)
    each = files // COMMITS
    for version in range(COMMITS):
        first = [*actions(version), *adds(version, each)]
        create_commit(log.storage, log.log_directory, version, first)
    directory = root / log.log_directory
    for version in range(COMMITS, COMMITS * rounds):
        os.link(directory / commit_name(version % COMMITS), directory / commit_name(version))


if __name__ == "__main__":
    main()
