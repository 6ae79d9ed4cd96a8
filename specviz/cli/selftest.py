"""``doctor --selftest``: what the project claims, checked on this device, as a table and as a file to send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specviz.cli import files

if TYPE_CHECKING:
    from specviz.selftest.report import Report
    from specviz.selftest.subject import Subject

RESULTS = {True: ("✓ passed", "green"), False: ("✗ failed", "red"), None: ("– left out", "dim")}


def selftest(subject: Subject, json_file: Path | None) -> None:
    """Make all checks, print what they found and leave with exit code 1 if one failed."""
    from specviz.selftest.run import selftest as make_checks

    with Console(stderr=True).status("Self-test") as status:
        report = make_checks(subject, lambda name: status.update(Text(f"Self-test: {name}")))
    console = Console(highlight=False)
    console.print(_facts(report), _checks(report), *_details(report), _verdict(report), sep="\n")
    if json_file:
        files.write(json_file, json.dumps(report.document(), indent=1, ensure_ascii=False, allow_nan=False))
    else:
        console.print("--json FILE writes this report to a file, to be sent to us.")
    if not report.passed:
        raise typer.Exit(1)


def _facts(report: Report) -> Text:
    facts = report.facts
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    draft = f", draft {facts['draft']['name']}" if facts["draft"] else ""
    return Text(
        f"{facts['device']}: {facts['chip']}, {facts['dtype']}, attention {facts['attention']}. "
        f"Held against the CPU in {facts['reference']['dtype']}.\n"
        f"Target {facts['target']['name']}{draft}. {versions}."
    )


def _checks(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for column in ("check", "result", "measured", "limit"):
        table.add_column(column, no_wrap=column == "result")
    for check in report.checks:
        word, style = RESULTS[check.passed]
        table.add_row(check.name, Text(word, style), check.measured, check.limit)
    return table


def _details(report: Report) -> Iterator[Text]:
    """Why what failed failed, and what was left out was."""
    for check in report.checks:
        if check.passed is not True and check.detail:
            yield Text(f"{check.name}: {check.detail}")


def _verdict(report: Report) -> Text:
    failed = sum(check.passed is False for check in report.checks)
    made = sum(check.passed is not None for check in report.checks)
    return Text(f"{made - failed} of {made} checks passed; {len(report.checks) - made} could not be made here.")
