"""From a plan to data that a trainer takes: token ids and labels, on disk, made once.

Invariant: the same files, tokenizer, template and settings give the same bytes, and are made only
once for a cache. Samples go to disk in batches as they are made, so memory does not grow with their
number.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rolecraft.environments.row_files import library
from rolecraft.errors import UsageError
from rolecraft.training.sft import cache as cached
from rolecraft.training.sft.arrow_file import ArrowFile
from rolecraft.training.sft.encoding import Encoder, Tokens
from rolecraft.training.sft.fingerprint import tokenizer_digest
from rolecraft.training.sft.lengths import Lengths, Overlong
from rolecraft.training.sft.pieces import mask_pieces
from rolecraft.training.sft.plan import FORMAT, BadData, DataPlan, LeftOut, Problem, check_data
from rolecraft.training.sft.report import DataReport, FileReport
from rolecraft.training.sft.samples import AnySample
from rolecraft.training.sft.selection import Selection
from rolecraft.training.sft.written import NO_WAY

if TYPE_CHECKING:
    import datasets  # type: ignore[import-untyped]

__all__ = [
    "BadData",
    "DataPlan",
    "Overlong",
    "Prepared",
    "Selection",
    "check_data",
    "mask_pieces",
    "prepare",
]

_TOLD_EVERY = 1000
"""Samples."""
_TRAIN, _EVAL = "train.arrow", "eval.arrow"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Data for a trainer. The columns are `input_ids` and `labels`, both lists of int32.

    A label is the token's id where it is trained and -100 elsewhere.
    """

    train: datasets.Dataset
    eval: datasets.Dataset | None
    """None where no share was asked for, or none of the samples fell into it."""
    report: DataReport
    fingerprint: str
    """Names all that the data was made from."""
    from_cache: bool


def prepare(
    plan: DataPlan,
    tokenizer: Any,
    *,
    name: str,
    max_length: int,
    eval_share: float = 0.0,
    seed: int = 0,
    cache: Path | None = None,
    overlong: Overlong = "leave-out",
    template: Mapping[str, Any] | None = None,
    ends: Collection[int] = (),
    on_progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Token ids and labels of all samples of a plan, or what `cache` has of an earlier call.

    `name` is the model's, for messages. `max_length` is in tokens. `eval_share`, from 0 to below 1,
    is the share of samples that are evaluated on instead: chosen by `seed` and each sample's
    content, so that rows that come or move change nothing for the others, and equal samples are
    always on the same side. `cache` is a folder; without one the data goes when the program ends.
    `template` and `ends` are as for `Encoder`. `on_progress` hears now and then how many samples
    are done, and of how many there are; never where the cache has them.

    Raises `UsageError` for settings that make no sense, a tokenizer that cannot write the data
    (without a chat template or an end token), and where nothing is left to train on; `MissingExtra`
    without `datasets`.
    """
    if max_length < 2 or not 0.0 <= eval_share < 1.0:
        raise UsageError(
            f"`max_length` wants 2 tokens or more and `eval_share` a share from 0 to below 1, got "
            f"{max_length!r} and {eval_share!r}."
        )
    if overlong not in get_args(Overlong):
        raise UsageError(f"`overlong` is {overlong!r}; it wants one of {get_args(Overlong)}.")
    encoder = Encoder(tokenizer, name=name, template=template, ends=ends)
    if encoder.template is None and plan.needs_template:
        raise encoder.no_template()
    key = cached.key_of(
        [
            FORMAT,
            plan.key(),
            tokenizer_digest(tokenizer),
            dict(template or {}),
            sorted(ends),
            [max_length, eval_share, seed, overlong],
        ]
    )
    if cache is None:
        cache = Path(tempfile.mkdtemp(prefix="rolecraft-sft-"))
        atexit.register(shutil.rmtree, cache, ignore_errors=True)
    known = cached.read_entry(cache, key)
    from_cache = known is not None
    if known is None:
        work = _Work(plan, encoder, max_length, eval_share, seed, overlong, on_progress)
        cached.write_entry(cache, key, work.fill)
        known = cached.read_entry(cache, key)
        if known is None:
            raise UsageError(f"Prepared data in `{cache}` changed while it was written.")
    report = DataReport.from_dict(known)
    for file, checked in zip(report.files, plan.files, strict=True):
        file.path = checked.path  # the same bytes may have been elsewhere then
    if not report.sequences:
        raise UsageError(_nothing_left(report))
    datasets = library("datasets", "datasets", "Fine-tuning")
    train = datasets.Dataset.from_file(str(cache / key / _TRAIN))
    held_out = None
    if report.eval_sequences:
        held_out = datasets.Dataset.from_file(str(cache / key / _EVAL))
    return Prepared(train, held_out, report, key, from_cache)


@dataclass
class _Work:
    """One pass over the samples of a plan, into Arrow files."""

    plan: DataPlan
    encoder: Encoder
    max_length: int
    eval_share: float
    seed: int
    overlong: Overlong
    on_progress: Callable[[int, int], None] | None = None

    def fill(self, folder: Path) -> dict[str, Any]:
        """Write both files; returns the report."""
        report = DataReport()
        lengths = Lengths(self.encoder, self.max_length, self.overlong)
        done = 0
        with ArrowFile(folder / _TRAIN) as train, ArrowFile(folder / _EVAL) as held_out:
            for at, checked in enumerate(self.plan.files):
                file = FileReport(checked.path, dict(checked.layouts), checked.rows)
                report.files.append(file)
                left_out: Counter[str] = Counter()
                for layout, sample in self.plan.read_layouts(at):
                    if isinstance(sample, Problem):
                        left_out["broken"] += 1
                        continue
                    if isinstance(sample, LeftOut):
                        left_out[sample.reason] += 1
                        continue
                    done += 1
                    if self.on_progress is not None and done % _TOLD_EVERY == 0:
                        self.on_progress(done, self.plan.samples)
                    kept = lengths.sequences(sample, left_out, report)
                    if not kept:
                        continue
                    file.samples += 1
                    file.sequences += len(kept)
                    is_held_out = self._is_held_out(sample)
                    report.count_side(layout, sample.facts.role, held_out=is_held_out)
                    if is_held_out:
                        report.eval_sequences += len(kept)
                        report.eval_tokens += sum(len(each.ids) for each in kept)
                        held_out.add(kept)
                    else:
                        _count(report, kept)
                        train.add(kept)
                file.left_out = dict(left_out)
        return report.to_dict()

    def _is_held_out(self, sample: AnySample) -> bool:
        if not self.eval_share:
            return False
        digest = hashlib.sha256(f"{self.seed} {sample.key}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.eval_share * 2**64


def _count(report: DataReport, kept: list[Tokens]) -> None:
    for each in kept:
        report.sequences += 1
        report.tokens += len(each.ids)
        report.trained_tokens += each.trained
        report.longest = max(report.longest, len(each.ids))


def _nothing_left(report: DataReport) -> str:
    if report.eval_sequences:
        return (
            f"All {report.eval_sequences} sequences fell into the eval split, and none is left to "
            f"train on. Use more data or a smaller `eval_share`."
        )
    listed = ", ".join(f"{count} ({why})" for why, count in report.left_out.items())
    way_out = ""
    if NO_WAY in report.left_out:
        way_out = (
            " Often a setting of the template opens answers otherwise, such as `enable_thinking`; "
            "else name another template (`--template FILE`)."
        )
    return f"Nothing is left to train on: {listed or 'there was no sample'}.{way_out}"
