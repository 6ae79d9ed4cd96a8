"""Whether the records of a trace tell one story: what a person is to be shown must follow from it."""

from __future__ import annotations

from specviz.trace.records import Round, Settings, Source, Step, Trace, is_lossy


def contradiction(trace: Trace) -> str | None:
    """Where the records of a trace contradict one another, as the end of a sentence; None if they do not."""
    if trace.branch and trace.branch.tokens >= len(trace.prompt.token_ids):
        return "it took over more tokens than its prompt has"
    if trace.branch and trace.branch.first_row > trace.branch.tokens:
        return "it left more rounds behind than it took over tokens"
    for run in trace.runs:
        records: tuple[Round | Step, ...] = run.rounds if run.kind == "speculative" else run.steps
        if len(records) != len(run.rounds) + len(run.steps):
            return f"a {run.kind} run holds records of the other kind"
        context_length, end_s = len(trace.prompt.token_ids), 0.0
        for index, record in enumerate(records):
            place = f"record {index + 1} of the {run.kind} run"
            if (record.index, record.context_length) != (index, context_length):
                return f"{place} is not where its numbers say"
            if record.timing.start_s < end_s - 1e-6:
                return f"{place} begins before the one ahead of it has ended"
            emitted = record.emitted if isinstance(record, Round) else (record.emitted,)
            if isinstance(record, Round):
                if len(record.drafted) > trace.settings.gamma:
                    return f"{place} drafts more than its settings allow"
                if not _drawn(record, trace.settings):
                    return f"{place} tests a token without the draw that its rule needs"
                if not _explained(record, trace.settings, is_last=index == len(records) - 1):
                    return f"{place} emits what its verdicts do not explain"
            elif record.emitted.source != "target":
                return f"{place} emits a token that was not the target's own"
            context_length, end_s = context_length + len(emitted), record.timing.end_s
    return None


def _drawn(round_: Round, settings: Settings) -> bool:
    """Whether each tested token has its u, where tokens are tested with one."""
    tested = [position for position in round_.drafted if position.verdict != "untested"]
    return settings.temperature == 0 or is_lossy(settings) or all(position.u is not None for position in tested)


def _explained(round_: Round, settings: Settings, is_last: bool) -> bool:
    """Whether a round emits its accepted prefix and one token more; only the end of a run may cut that short."""
    verdicts = [position.verdict for position in round_.drafted]
    accepted = verdicts.count("accepted")
    rejected = verdicts[accepted : accepted + 1] == ["rejected"]
    behind = verdicts[accepted + rejected :]
    if verdicts[:accepted] != ["accepted"] * accepted or behind != ["untested"] * len(behind):
        return False
    replaced: Source = "target" if is_lossy(settings) else "residual"
    final: Source = replaced if rejected else "bonus" if verdicts else "target"
    prefix = [(position.token_id, "draft") for position in round_.drafted[:accepted]]
    emitted = [(token.token_id, token.source) for token in round_.emitted]
    if emitted == prefix:
        return is_last and not rejected
    return emitted[:-1] == prefix and emitted[-1][1] == final and (rejected or not behind)
