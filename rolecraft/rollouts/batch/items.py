"""What is to be run: one item for each sample of each row that is not over yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass

from rolecraft.environments.row_files import Row
from rolecraft.errors import UsageError
from rolecraft.rollouts.batch.config import BatchConfig
from rolecraft.rollouts.batch.identity import SAMPLE_BYTES, ItemId, digest
from rolecraft.rollouts.batch.ledger import DISCARDED, Entry, Ledger
from rolecraft.rollouts.batch.rows import Discarded, prompt_of, sandbox_of
from rolecraft.rollouts.batch.survey import Survey
from rolecraft.sandboxes.live import SandboxSpec

STRETCH = 256
"""Rows that are looked at before other tasks have their turn."""


@dataclass(slots=True, eq=False)
class Item:
    """One sample of one row, with all that depends on them."""

    id: ItemId
    row: Row
    prompt: str
    seed: int
    toolsets: tuple[str, ...] = ()
    sandbox: SandboxSpec | None = None
    noted: int = 0
    """Attempts that the ledger has already."""

    def entry(self, status: str, *, ended: str = "", error: str = "", attempts: int = 1) -> Entry:
        """An entry of this item, without anything measured."""
        return Entry(
            row=self.id.row,
            occurrence=self.id.occurrence,
            sample=self.id.sample,
            number=self.row.number,
            status=status,
            attempts=attempts,
            ended=ended,
            error=error[:2000],
            toolsets=self.toolsets,
        )


def count_left(
    rows: Survey, ledger: Ledger, config: BatchConfig, *, retry_failed: bool = False
) -> int:
    """How many items are to be run."""
    samples = [sample.to_bytes(SAMPLE_BYTES, "big") for sample in range(config.samples)]
    return sum(
        not ledger.key_is_over(row + sample, retry_failed=retry_failed)
        for row in rows.keys()  # noqa: SIM118 - it is no mapping
        for sample in samples
    )


async def items_left(
    rows: Iterable[Row],
    surveyed: Survey,
    ledger: Ledger,
    config: BatchConfig,
    *,
    sandbox: SandboxSpec | None = None,
    in_sandboxes: bool = True,
    retry_failed: bool = False,
    discard: Callable[[Entry], None],
) -> AsyncGenerator[Item, None]:
    """The items that are to be run, in the order of the rows.

    Without `in_sandboxes`, what rows say of a sandbox is none of ours. `discard` gets the entries
    of those that cannot be. Raises `UsageError` if a row is not the one that was surveyed.
    """
    for count, row in enumerate(rows, 1):
        if not count % STRETCH:
            await asyncio.sleep(0)
        try:
            said, occurrence = surveyed[row.number]
        except IndexError:
            said, occurrence = "", 0
        ids = [ItemId(said, occurrence, sample) for sample in range(config.samples)]
        left = [each for each in ids if not ledger.is_over(each, retry_failed=retry_failed)]
        if not left:
            continue
        if digest(row, config.volatile) != said:
            raise UsageError(
                f"{row.place.capitalize()} of the data set was changed while the batch ran. Call "
                f"it again: what is finished is kept."
            )
        for each in left:
            seed = each.seed(config.seed)
            drawn = config.toolsets.draw(seed) if config.toolsets is not None else ()
            item = Item(each, row, "", seed, drawn)
            try:
                item.prompt = prompt_of(row, config.prompt)
                if in_sandboxes:
                    item.sandbox = sandbox_of(row.fields, sandbox)
            except Discarded as error:
                discard(
                    item.entry(DISCARDED + error.reason, error=f"{row.place}: {error}", attempts=0)
                )
            else:
                yield item
