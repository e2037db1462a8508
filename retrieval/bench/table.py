"""A bench's report as lines for people."""

from __future__ import annotations

from retrieval.bench.records import BATCH, DEPTHS, REFERENCE, BenchReport


def table(report: BenchReport) -> str:
    """Builds, then searches; a ratio to what was not measured is left blank."""
    lines = [f"{report.passages:,} passages, {report.questions:,} questions"]
    if report.encoding is not None:
        lines[0] += (
            f"; encoding alone took {report.encoding.seconds:.1f} s "
            f"({report.encoding.cpu_seconds:.1f} s of processor time)"
        )
    if report.builds:
        lines.append(
            f"{'index':<10}{'build s':>9}{'ratio':>7}{'cpu s':>9}{'ratio':>7}{'B/passage':>11}"
            f"{'peak MB':>9}"
        )
    lines += [
        f"{b.index:<10}{b.seconds:>9.1f}{_times(b.ratio):>7}{b.cpu_seconds:>9.1f}"
        f"{_times(b.cpu_ratio):>7}{b.bytes_per_passage:>11,.0f}{b.peak_mb:>9,.0f}"
        for b in report.builds
    ]
    depths = "".join(f"{f'R@{k}':>7}" for k in DEPTHS)
    lines.append(
        f"{'engine':<13}{'n':>5}{depths}{'±R@5':>7}{'all@5':>7}{'q/s':>8}{'×':>7}"
        f"{f'q/s by {BATCH}':>11}{'×':>7}{'p50 ms':>8}{'differ':>8}{'peak MB':>9}"
    )
    for s in report.searches:
        recalls = "".join(f"{s.recall[k]:>7.3f}" for k in DEPTHS)
        lines.append(
            f"{s.engine:<13}{s.questions:>5}{recalls}{s.recall_5_margin:>7.3f}"
            f"{s.all_support_5:>7.3f}{s.single_qps:>8.1f}{_times(s.single_speedup):>7}"
            f"{s.batch_qps:>11.1f}{_times(s.batch_speedup):>7}{s.p50_ms:>8.1f}{s.differ:>8}"
            f"{s.peak_mb:>9,.0f}"
        )
    if any(s.single_speedup is not None for s in report.searches):
        lines.append(f"× is the speed of {REFERENCE}'s own Searcher on the same questions")
    lines += [f"left out: {name}: {why}" for name, why in report.left_out.items()]
    return "\n".join(lines)


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
