"""The commands and how they fail: what a person can mend is one sentence on stderr and exit code 2."""

from __future__ import annotations

import errno
import io
import sys
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

from specviz import __version__, ascend
from specviz.cli.ablate_attention import ablate_attention
from specviz.cli.bench import bench
from specviz.cli.doctor import doctor
from specviz.cli.lossless import lossless
from specviz.cli.run import run
from specviz.cli.serve import serve
from specviz.cli.show import show
from specviz.cli.tiles import tiles
from specviz.errors import UserError
from specviz.runner import OUT_OF_MEMORY, is_out_of_memory
from specviz.trace import TraceError


class Commands(TyperGroup):
    """Turns what is meant for people into a sentence and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # an encoding without the marks shows their numbers instead
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().invoke(ctx)
        except (UserError, TraceError) as refusal:
            _refuse(str(refusal))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            with suppress(OSError):  # or Python fails again, when it flushes at its end
                sys.stdout.close()
            _refuse("What this command prints could not be written: the disk is full. Make room and run it again.")
        except (RuntimeError, MemoryError) as failure:
            if is_out_of_memory(failure):
                _refuse(f"{OUT_OF_MEMORY} A smaller model or another device helps too.")
            if reason := ascend.why_torch_fails(failure):
                _refuse(reason)
            raise
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _refuse(sentence: str) -> NoReturn:
    Console(stderr=True).print(sentence, style="red", markup=False, highlight=False)
    raise typer.Exit(2) from None


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Run real speculative decoding and see it, round by round.",
)
for command in (run, show, lossless, tiles, bench, ablate_attention, doctor, serve):
    app.command()(command)


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        typer.echo(f"specviz {__version__}")
        raise typer.Exit
