"""A supervised fine-tuning from its settings on: data, base model, and one adapter for each role.

Everything that can be wrong is looked at before it costs time: settings, then the data row by row,
then the adapter that is gone on from; weights are loaded last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecraft.errors import ModelError, UsageError
from rolecraft.training.checkpoints import Checkpoints
from rolecraft.training.ranks import is_alone, is_first_process
from rolecraft.training.sft.folders import DATA, check_output, folders_of, holds_work
from rolecraft.training.sft.listener import Listener
from rolecraft.training.sft.settings import SFTSettings
from rolecraft.training.sft.summary import Summary, Trained
from rolecraft.trajectories.whole_file import write_whole

if TYPE_CHECKING:
    from rolecraft.training.sft.loading import Device
    from rolecraft.training.sft.plan import DataPlan
    from rolecraft.training.sft.prepare import Prepared

CACHE = "data"
"""In the folder of a run: the prepared data, where no other cache is named."""

Fetch = Callable[[str], Path]
FetchModel = Callable[[str, str | None], Path]
"""From a name on a hub, and a branch, tag or commit, to a folder."""


class _Stopped(Exception):
    """The run was told to stop before its first step."""


@dataclass(frozen=True, slots=True)
class SFTResult:
    """What a run made."""

    output: Path
    trained: tuple[Trained, ...]
    """One for each role; one without any. The last one was stopped where a run is not finished, and
    those after it were not begun."""

    @property
    def finished(self) -> bool:
        """Whether all were trained to their end; else the run was stopped, and can be resumed."""
        return all(one.summary is not None for one in self.trained)

    def how_it_stopped(self) -> str:
        """What a run that was stopped has to go on from, in one sentence."""
        last = self.trained[-1]
        whose = "" if last.role is None else f" of `{last.role}`"
        if checkpoints := Checkpoints(last.folder).all():
            step = checkpoints[-1].step
            return f"Stopped, with a checkpoint{whose} that has {step:,} steps done."
        first = f"Stopped before the first step{whose}"
        if (last.folder / DATA).exists():
            return f"{first}; nothing to resume from but prepared data."
        return f"{first}, and before the data was prepared; nothing to resume from."


def fine_tune(
    settings: SFTSettings,
    *,
    resume: bool = False,
    listener: Listener | None = None,
    stop: Callable[[], bool] = lambda: False,
    cache: Path | None = None,
    fetch_model: FetchModel | None = None,
    fetch_data: Fetch | None = None,
    made_by: Sequence[str] = (),
) -> SFTResult:
    """Fine-tune as `settings` say, and write all that comes of it to `settings.output`.

    With several roles each adapter is in a folder of its role's name. `resume` goes on with what is
    there, by the same settings, data and base. `stop` is asked after each step: where it says so,
    the run ends with a checkpoint. Before the first step it is asked between the phases, and while
    samples become tokens. `cache` is where prepared data is kept. `fetch_model` and `fetch_data`
    bring what is no path from a hub. `made_by` is the command line that the model card names.

    Raises `UsageError` for settings, data and folders that cannot be used, `AdapterError` for an
    adapter of another base, `ModelError` for a base that cannot be loaded, `HubError` for one that
    cannot be had, `NotFinite` for numbers that are not finite, and `CheckpointError` for a disk
    that takes nothing more.
    """
    listener = listener or Listener()
    output = settings.output
    roles: Sequence[str | None] = settings.roles or (None,)
    folders = folders_of(output, roles)
    check_output(settings, resume=resume)
    summaries = [Summary.load(folder) if resume else None for folder in folders]
    if all(summaries):
        return SFTResult(output, tuple(map(Trained, roles, folders, summaries)))

    def look() -> None:
        # Of several processes one must not leave the others waiting: they stop at the first step.
        if is_alone() and stop():
            raise _Stopped

    cache = output / CACHE if cache is None else cache
    trained: list[Trained] = []
    try:
        plans = []
        for role in roles:
            plans.append(_plan(settings, role, cache, fetch_data))
            look()
        _name_what_is_not_read(plans[0], listener)
        for role, plan in zip(roles, plans, strict=True):
            if role is not None and plan.roles and role not in plan.roles:
                listener.warn(
                    f"The data never names the role `{role}`: it learns from what names no role. "
                    f"Roles in the data: {', '.join(plan.roles)}."
                )

        from rolecraft.models.model_folder import check_folder
        from rolecraft.training.sft.base import find_base
        from rolecraft.training.sft.loading import check_adapter, choose_device, load_tokenizer
        from rolecraft.training.sft.training import train_on

        device = choose_device(settings)
        settings, base = find_base(settings, fetch_model, resume=resume)
        look()
        check_folder(base)
        check_adapter(settings, base)
        tokenizer = load_tokenizer(base, listener.warn)
        _use_template(settings, tokenizer)
        for role, folder, plan, done in zip(roles, folders, plans, summaries, strict=True):
            if done is not None:
                trained.append(Trained(role, folder, done))
                continue
            data = _prepare(settings, plan, tokenizer, base, cache, listener, look)
            if is_first_process():
                output.mkdir(parents=True, exist_ok=True)
                settings.save(output)
            _note_data(folder, data, resume=resume)
            look()
            _show_sample(data, tokenizer, listener)
            _estimate(settings, device, base, data, listener)
            one = train_on(
                settings,
                data,
                tokenizer,
                folder,
                base=base,
                role=role,
                resume=resume,
                listener=listener,
                stop=stop,
                made_by=made_by,
            )
            trained.append(one)
            if one.summary is None:
                break
    except _Stopped:
        at = len(trained)
        trained.append(Trained(roles[at], folders[at], None))
    return SFTResult(output, tuple(trained))


def _plan(settings: SFTSettings, role: str | None, cache: Path, fetch: Fetch | None) -> DataPlan:
    from rolecraft.training.sft.plan import check_data
    from rolecraft.training.sft.selection import Selection

    selection = Selection(
        role=role,
        min_reward=settings.min_reward,
        without_failures=settings.without_failures,
        stop_reasons=settings.stop_reasons,
    )
    return check_data(
        settings.data,
        selection=selection,
        split=settings.split,
        skip_broken=settings.skip_broken,
        fetch=fetch,
        cache=cache,
    )


def _name_what_is_not_read(plan: DataPlan, listener: Listener) -> None:
    """Say which rows `skip_broken` leaves out, the first ones of each file; and which files."""
    from rolecraft.training.sft.plan import SHOWN

    for file in plan.files:
        for problem in file.problems[:SHOWN]:
            listener.warn(f"Left out: {problem}")
        if file.broken > SHOWN:
            listener.warn(f"Left out: `{file.path}`: {file.broken - SHOWN} more broken rows")
    for folder, others in plan.not_read.items():
        named = ", ".join(f"`{each.relative_to(folder)}`" for each in others[:SHOWN])
        more = f" and {len(others) - SHOWN:,} more" if len(others) > SHOWN else ""
        listener.warn(
            f"`{folder}` holds journals of runs: they are read, and the files of rows beside them "
            f"are not ({named}{more}). To learn from these too, name each with `--data`."
        )


def _use_template(settings: SFTSettings, tokenizer: Any) -> None:
    """Write with the chat template of the settings. It is saved beside the result."""
    if settings.template is None:
        return
    try:
        tokenizer.chat_template = Path(settings.template).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"The template `{settings.template}` cannot be read: {error}.") from error


def _prepare(
    settings: SFTSettings,
    plan: DataPlan,
    tokenizer: Any,
    base: str | Path,
    cache: Path,
    listener: Listener,
    look: Callable[[], None],
) -> Prepared:
    from rolecraft.training.sft.prepare import prepare

    def on_progress(done: int, samples: int) -> None:
        listener.preparing(done, samples)
        look()

    data = prepare(
        plan,
        tokenizer,
        name=settings.model,
        max_length=settings.max_length,
        eval_share=settings.eval_share,
        seed=settings.seed,
        cache=cache,
        overlong=settings.overlong,
        template=settings.template_settings or None,
        ends=_ends(base),
        on_progress=on_progress,
    )
    listener.note(str(data.report))
    if data.from_cache:
        listener.note("The prepared data is from the cache.")
    for text in data.report.of_evaluation(settings.eval_share):
        listener.warn(text)
    return data


def _ends(base: str | Path) -> list[int]:
    """The tokens that end an answer by the model's generation settings; none if it has none."""
    from rolecraft.models.torch_extra import transformers

    try:
        found = transformers.GenerationConfig.from_pretrained(base).eos_token_id
    except OSError:
        return []
    return [found] if isinstance(found, int) else list(found or ())


def _note_data(folder: Path, data: Prepared, *, resume: bool) -> None:
    """Write what became of the data; on resuming, refuse other data than the run began with."""
    path = folder / DATA
    if resume and path.exists() and holds_work(folder):
        before = json.loads(path.read_text("utf-8"))["fingerprint"]
        if before != data.fingerprint:
            raise UsageError(
                f"The data of the run in `{folder}` is not what it was when the run began: its "
                f"files, the tokenizer or the chat template have changed. Bring back what it began "
                f"with, or begin in another folder."
            )
        return
    if is_first_process():
        folder.mkdir(parents=True, exist_ok=True)
        record = {"fingerprint": data.fingerprint, "report": data.report.to_dict()}
        write_whole(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _show_sample(data: Prepared, tokenizer: Any, listener: Listener) -> None:
    from rolecraft.training.sft.pieces import mask_pieces

    first = data.train[0]
    listener.sample(mask_pieces(first["input_ids"], first["labels"], tokenizer))


def _estimate(
    settings: SFTSettings, device: Device, base: str | Path, data: Prepared, listener: Listener
) -> None:
    """Say how much memory the run will take, and what would make it fit."""
    from rolecraft.models.adapter_files import read_adapter
    from rolecraft.training.sft.memory_plan import plan_memory

    rank = None if settings.adapter is None else read_adapter(Path(settings.adapter)).rank
    try:
        advice = plan_memory(settings, base, device, rank=rank, longest=data.report.longest)
    except ModelError as error:
        listener.note(f"The memory that the run takes is not estimated: {error}")
        return
    (listener.note if advice.fits else listener.warn)(advice.in_words())
