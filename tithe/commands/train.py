"""`tithe train`: a new model from what the store holds, promoted only if it is better."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from tithe import options, output
from tithe.data import paths
from tithe.data.text import safe_line
from tithe.wiring import Project


@click.command("train", short_help="Train the model, backtest it, and promote it if it is better.")
@options.seed_option
@options.project_options
@options.format_options
def command(seed: int, repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Train the model on the outcomes in the store.

    The backtest trains on earlier changes and scores later ones. The new model is promoted only if it is
    better there than the one that serves now.
    """
    from tithe.selector.train import train

    with Project(repo, config_path) as project:
        incumbent, fault = project.known.incumbent()
        report = train(
            project.known.history,
            project.config,
            project.known.graph_then,
            paths.models_dir(project.repo.root),
            incumbent=incumbent,
            now=time.time(),
            seed=seed,
        )
        if fault:
            report = replace(report, warnings=(safe_line(fault, limit=400), *report.warnings))
        if report.version:
            store = project.store
            store.add_model(report.version, report.version, time.time(), {"why": report.why})
            if report.better:
                store.promote(report.version)

        def text(style: str) -> str:
            rows = [
                (
                    row.policy,
                    *(output.percent(share, digits=0) for share in row.change_recall),
                    f"{row.apfd:.2f}",
                )
                for row in report.backtest.rows
            ]
            headers = (
                "policy",
                *(f"@{output.percent(b, digits=0)}" for b in report.backtest.budgets),
                "APFD",
            )
            backtest = ""
            if rows:
                backtest = (
                    f"backtest on {report.backtest.changes} later changes, {report.backtest.faulty} of them faulty: "
                    f"share of faulty changes caught at a share of the full cost\n\n"
                    f"{output.table(headers, rows, style)}\n\n"
                )
            saved = ""
            if report.version:
                what = (
                    "and promoted"
                    if report.better
                    else f"not promoted; `tithe select --model {report.version}` tries it"
                )
                saved = f"\nsaved as version {report.version}, {what}"
            return f"{backtest}{report.why}{saved}" + output.warnings_text(report.warnings)

        output.emit(report, style, output_path, text)
