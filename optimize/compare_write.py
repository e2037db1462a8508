"""A comparison written down: Markdown, CSV, JSON and PNG in a folder, and runs in MLflow."""

from __future__ import annotations

from pathlib import Path

from metrics import STAGES
from optimize.compare import Comparison, definition
from optimize.compare_figures import by_hops, pareto, png
from optimize.run import write_json, write_text
from optimize.tables import csv_rows, markdown, tables, title_of, to_csv
from optimize.tracking import Tracker
from programs.fingerprint import digest

FIGURES = {"pareto.png": pareto, "by_hops.png": by_hops}


def write_comparison(comparison: Comparison, folder: Path) -> dict[str, Path]:
    """``compare.md``, ``compare.csv``, ``compare.json`` and the plots that there is something to
    plot for."""
    figures = {name: figure for name, draw in FIGURES.items() if (figure := draw(comparison))}
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in figures.items():
        (folder / name).write_bytes(png(figure))
    write_text(folder / "compare.md", compared_markdown(comparison, list(figures)))
    write_text(folder / "compare.csv", to_csv(csv_rows(comparison)))
    write_json(folder / "compare.json", comparison.to_json())
    return {n: folder / n for n in ("compare.md", "compare.csv", "compare.json", *figures)}


def compared_markdown(comparison: Comparison, figures: list[str]) -> str:
    """The whole comparison as text."""
    lines = [f"# {title_of(comparison)}", ""]
    lines += [f"**Note:** {warning}.\n" for warning in comparison.warnings]
    lines += [markdown(table) for table in tables(comparison)]
    lines += [f"![{name}]({name})\n" for name in figures]
    lines += ["## What the metrics are", ""]
    lines += [f"- `{name}`: {definition(name)}" for name in comparison.names]
    lines += ["", "## Runs", ""]
    for entry in comparison.entries:
        about = entry.run.header
        lm = f", `{entry.run.lm}`" if entry.run.lm else ""
        ceiling = ", ceiling (the oracle answered)" if about.ceiling else ""
        lines.append(
            f"- {entry.label}: `{entry.run.folder}`{lm}{ceiling}, fingerprint "
            f"`{about.fingerprint[:16]}`"
        )
    return "\n".join([*lines, ""])


def log_comparison(
    comparison: Comparison, tracker: Tracker, files: dict[str, Path]
) -> dict[str, str]:
    """One MLflow run with a nested one a run compared. Returns keys by label, ``compare`` for the
    outer one; logged again under the same runs, it goes on in the same MLflow runs."""
    about = comparison.first.header
    marks = [entry.run.header.fingerprint for entry in comparison.entries]
    key = "compare-" + digest([about.questions_hash, comparison.baseline, marks])[:16]
    keys = {"compare": key}
    with tracker.run(key, f"compare on {about.benchmark} {about.split}") as outer:
        outer.params(
            {
                "benchmark": about.benchmark,
                "split": about.split,
                "n": comparison.n,
                "questions_hash": about.questions_hash,
                "baseline": comparison.baseline,
                "runs": ", ".join(entry.label for entry in comparison.entries),
                "resamples": comparison.resamples,
                "seed": comparison.seed,
            }
        )
        outer.dataset(f"{about.benchmark}-{about.split}", about.questions_hash, about.split)
        for path in files.values():
            outer.folder(path.name, path)
        for entry in comparison.entries:
            keys[entry.label] = f"{key}-{entry.run.header.fingerprint[:16]}"
            with tracker.run(keys[entry.label], entry.label, outer) as nested:
                header = entry.run.header
                nested.params(
                    {
                        "method": header.method,
                        "lm": entry.run.lm,
                        "ceiling": header.ceiling,
                        "fingerprint": header.fingerprint,
                        "folder": entry.run.folder,
                    }
                )
                nested.metrics(
                    {n: c.value.value for n, c in entry.cells.items() if c.value}
                    | {f"{n}.low": c.value.low for n, c in entry.cells.items() if c.value}
                    | {f"{n}.high": c.value.high for n, c in entry.cells.items() if c.value}
                )
                nested.metrics(
                    {
                        f"difference.{n}{part}": value
                        for n, c in entry.cells.items()
                        if c.difference
                        for part, value in (
                            ("", c.difference.difference),
                            (".low", c.difference.low),
                            (".high", c.difference.high),
                            (".p_holm", c.p),
                        )
                    }
                )
                nested.metrics({f"broken.{s}": float(entry.broken["all"][s]) for s in STAGES})
    return keys
