"""The demonstration behind ``make demo``: every command that it runs is one that you can type."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

WORLD = "synthetic:12,60"
SIZES = {"--limit": "3", "--trials": "3", "--candidates": "1", "--demos": "1"}
BUDGET = "passages=3,lm_calls=10"
EXPECTED = {"index": 40, "ask": 90, "compile": 600, "ask the export": 90}
"""Seconds on two cores, as measured; a faster machine takes less."""


class Demo:
    """Runs commands, each announced with what it shows and how long it takes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = time.monotonic()

    def run(self, step: str, about: str, *words: str) -> None:
        """One command; its output is the user's to read. Ends the demonstration if it fails."""
        elapsed = time.monotonic() - self.started
        print(f"\n── {step}: {about}")
        print(f"   {elapsed / 60:.1f} min so far; this takes about {EXPECTED[step]} s on 2 cores")
        print(f"   $ hopsmith {shlex.join(words)}\n", flush=True)
        began = time.monotonic()
        code = subprocess.run([sys.executable, "-m", "hopsmith", *words], check=False).returncode
        if code:
            sys.exit(f"the demonstration stops here: exit code {code}")
        print(f"\n   done in {time.monotonic() - began:.0f} s", flush=True)


def main(folder: Path = Path("demo")) -> None:
    """Index a small world, ask it, compile ``decompose`` for it with the local LM, ask again."""
    from benchmarks import load

    demo = Demo(folder)
    index, out = str(folder / "index"), str(folder / "compile")
    world = load(WORLD)
    bridge = next(q for q in world.questions["test"] if q.kind == "bridge")
    print(
        f"Hopsmith's demonstration: {len(world.corpus)} invented passages, a local model of 1.5 "
        "billion parameters, no key and no network. About 14 minutes on 2 cores; what was done is "
        f"kept in {folder}/, so started again it goes on where it stopped."
    )
    if not (folder / "index" / "manifest.json").is_file():
        demo.run("index", "encode the passages for ColBERT", "index", WORLD, "--out", index)
    ask = ["ask", bridge.question, "--index", index]
    print(f"\nThe question needs {len(bridge.hops)} documents; its answer is {bridge.answer!r}.")
    demo.run("ask", "plan, look up, answer", *ask, "--budget", BUDGET)
    flags = [word for pair in SIZES.items() for word in pair]
    demo.run(
        "compile",
        "tune budget and prompts on training questions",
        *("compile", "--method", "decompose", "--benchmark", WORLD, "--index", index),
        *("--budget", BUDGET, "--out", out, *flags),
    )
    export = str(Path(out) / "export")
    demo.run("ask the export", "the tuned pipeline, as exported", *ask, "--pipeline", export)
    told = json.loads((Path(out) / "compiled.json").read_text())["final"]
    print(
        f"\n── the end, after {(time.monotonic() - demo.started) / 60:.1f} min\n"
        f"   F1 on {told['n']} test questions: {told['baseline']['f1']:.2f} before, "
        f"{told['compiled']['f1']:.2f} after. So few questions prove nothing: the difference's "
        f"95 % interval is [{told['difference']['f1']['low']:+.2f}, "
        f"{told['difference']['f1']['high']:+.2f}].\n"
        f"   The pipeline: {export}/card.md\n"
        f"   Its runs, prompts and plots: .venv/bin/mlflow ui --backend-store-uri "
        f"sqlite:///{out}/mlflow.db   then open http://127.0.0.1:5000"
    )


if __name__ == "__main__":
    main()
