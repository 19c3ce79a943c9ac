"""Running out of memory: named with its shapes, or answered with smaller micro-batches of the same
gradient. The memory that runs out is real: torch is asked for more than there is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rolecraft.models.tiny_chat import byte_tokenizer, tiny_chat_model
from rolecraft.training.sft.libraries import SFTTrainer, datasets, trl
from rolecraft.training.sft.out_of_memory import FitsIntoMemory, OutOfMemory, is_out_of_memory
from rolecraft.training.sft.rows import NOT_TRAINED, PackedRows
from rolecraft.training.sft.splitting import halves, longest

torch.set_num_threads(1)

# transformers', about the name of a setting whose default TRL sets itself.
pytestmark = pytest.mark.filterwarnings("ignore:`gradient_checkpointing` is deprecated")

ROWS = [[5 + (row * 7 + at) % 200 for at in range(length)] for row, length in enumerate((9, 4, 7))]
ROWS = [ids for ids in ROWS for _ in range(4)]


class Trainer(FitsIntoMemory, SFTTrainer):  # type: ignore[misc]
    pass


def trainer(
    out: Path,
    *,
    rows: list[list[int]] = ROWS,
    collate: Any = None,
    dropout: float = 0.0,
    **more: Any,
) -> Any:
    lora = peft.LoraConfig(
        r=4, target_modules="all-linear", init_lora_weights=False, lora_dropout=dropout
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = peft.get_peft_model(tiny_chat_model().module, lora)
    labels = [[NOT_TRAINED, *ids[1:]] for ids in rows]
    made = Trainer(
        model=module,
        train_dataset=datasets.Dataset.from_dict({"input_ids": rows, "labels": labels}),
        processing_class=byte_tokenizer(),
        args=trl.SFTConfig(
            output_dir=str(out),
            use_cpu=True,
            bf16=False,
            max_length=None,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            optim="sgd",
            learning_rate=0.1,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            dataloader_pin_memory=False,
            gradient_checkpointing=False,
            dataset_kwargs={"skip_prepare_dataset": True},
            **{"per_device_train_batch_size": 4, "max_steps": 2, **more},
        ),
    )
    made.data_collator = collate or made.data_collator
    return made


def weights(trainer: Any) -> dict[str, Any]:
    return {
        name: weight.detach().clone()
        for name, weight in trainer.model.named_parameters()
        if weight.requires_grad
    }


def runs_out(trainer: Any, fits: Callable[[Any], bool], *, backward: bool = False) -> list[Any]:
    """Let the model ask for more memory than any machine has, where `fits(input_ids)` is false.

    Returns the shapes of what did fit. With `backward` it asks in the backward pass, when part of
    the gradients has been added up already.
    """
    seen: list[Any] = []
    later: list[bool] = []

    def look(module: Any, args: Any, kwargs: Any) -> None:
        ids = kwargs["input_ids"]
        if fits(ids):
            seen.append(tuple(ids.shape))
        elif backward:
            later.append(True)
        else:
            torch.empty(1 << 55)

    def first_layer(module: Any, args: Any, output: Any) -> None:
        if later:
            later.clear()
            output.register_hook(lambda grad: torch.empty(1 << 55))

    base = trainer.model.get_base_model().model
    base.register_forward_pre_hook(look, with_kwargs=True)
    base.layers[0].register_forward_hook(first_layer)
    return seen


@pytest.mark.parametrize("backward", [False, True])
def test_halved_micro_batches_train_the_same_weights(tmp_path: Path, backward: bool) -> None:
    """Also where the gradients had been added to in part when memory ran out, in the second
    micro-batch of a step.
    """
    plain = trainer(tmp_path, gradient_accumulation_steps=3)
    start = weights(plain)
    plain.train()
    small = trainer(tmp_path, gradient_accumulation_steps=3)
    small.auto_batch = True
    told: list[str] = []
    small.on_halved = told.append
    at = 0

    def fits(ids: Any) -> bool:
        nonlocal at
        at += 1
        return at < 2 or len(ids) <= 1

    seen = runs_out(small, fits, backward=backward)
    small.train()
    assert small.halvings == 2
    assert [text.startswith("Out of memory at step 1 with 4 x ") for text in told] == [True] * 2
    assert all(rows == 1 for rows, _ in seen[1:])
    after = weights(plain)
    for name, weight in weights(small).items():
        assert not torch.equal(weight, start[name]), name
        torch.testing.assert_close(weight, after[name], atol=1e-6, rtol=1e-6)
    assert small._total_train_tokens == plain._total_train_tokens


def test_packed_rows_are_split_where_documents_begin(tmp_path: Path) -> None:
    """A row of several documents, and the same gradient: none of them is cut."""
    packed = [[*a, *b, *c] for a, b, c in zip(ROWS[::3], ROWS[1::3], ROWS[2::3], strict=True)]

    def collate(rows: Any) -> dict[str, Any]:
        lengths = {tuple(ids): [len(a) for a in parts] for ids, parts in by_row.items()}
        for row in rows:
            row["seq_lengths"] = lengths[tuple(row["input_ids"])]
        return PackedRows(1)(rows)

    parts = list(zip(ROWS[::3], ROWS[1::3], ROWS[2::3], strict=True))
    by_row = {tuple(ids): part for ids, part in zip(packed, parts, strict=True)}
    found = []
    for limit in (1 << 30, 9):
        each = trainer(
            tmp_path, rows=packed, collate=collate, per_device_train_batch_size=2, max_steps=1
        )
        each.auto_batch = True
        seen = runs_out(each, lambda ids, limit=limit: ids.numel() <= limit)  # type: ignore[misc]
        each.train()
        found.append((weights(each), seen))
    whole, split = found
    assert len(split[1]) > 2
    for name, weight in whole[0].items():
        torch.testing.assert_close(weight, split[0][name], atol=1e-6, rtol=1e-6)


def test_what_comes_again_after_a_failure_drops_out_the_same(tmp_path: Path) -> None:
    """A micro-batch that was done before the one that failed is computed again as it was."""
    plain = trainer(tmp_path, dropout=0.5, gradient_accumulation_steps=2, max_steps=1)
    plain.train()
    small = trainer(tmp_path, dropout=0.5, gradient_accumulation_steps=2, max_steps=1)
    small.auto_batch = True
    failed: list[bool] = []

    def fits(ids: Any) -> bool:
        failed.append(True)
        return len(failed) != 2

    runs_out(small, fits)
    halve = small._halve
    small._halve = lambda *args, **kw: None  # fails once, and fits as it is when tried again
    small.train()
    assert callable(halve)
    assert len(failed) == 4  # done, failed, done again, done
    after = weights(plain)
    for name, weight in weights(small).items():
        assert torch.equal(weight, after[name]), name


def test_without_auto_batch_the_error_names_shapes_and_a_smaller_setting(tmp_path: Path) -> None:
    plain = trainer(tmp_path)
    plain.instead = lambda: "--batch 2 --accumulate 2"
    runs_out(plain, lambda ids: False)
    with pytest.raises(OutOfMemory, match=r"step 1, in a micro-batch of 4 x \d tokens") as caught:
        plain.train()
    assert "Use `--batch 2 --accumulate 2`; `--auto-batch` halves" in str(caught.value)
    assert "can't allocate memory" in str(caught.value)
    assert (caught.value.batch, caught.value.longest) == (4, caught.value.tokens // 4)


def test_a_single_document_that_does_not_fit_is_an_error_after_all(tmp_path: Path) -> None:
    small = trainer(tmp_path)
    small.auto_batch = True
    runs_out(small, lambda ids: False)
    with pytest.raises(OutOfMemory, match="Take a smaller model or a larger device"):
        small.train()
    assert small.halvings == 2


def test_the_optimisers_first_step_and_evaluation_are_named_too(tmp_path: Path) -> None:
    plain = trainer(tmp_path)
    plain.create_optimizer()
    plain.optimizer.step = lambda *args, **kw: torch.empty(1 << 55)
    with pytest.raises(OutOfMemory, match="step 1"):
        plain.train()
    plain = trainer(tmp_path)
    runs_out(plain, lambda ids: False)
    with pytest.raises(OutOfMemory, match="micro-batch of"):
        plain.evaluate(plain.train_dataset)


def test_other_errors_are_none_of_memory(tmp_path: Path) -> None:
    plain = trainer(tmp_path)
    plain.model.register_forward_pre_hook(lambda *_: torch.zeros(2) @ torch.zeros(3))
    with pytest.raises(RuntimeError, match="size"):
        plain.train()
    for error in (
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
    ):
        assert is_out_of_memory(error)
    assert not is_out_of_memory(ValueError("out of memory"))


@settings(deadline=None, max_examples=60)
@given(
    documents=st.lists(st.integers(1, 9), min_size=1, max_size=7),
    padding=st.integers(0, 5),
    flat=st.booleans(),
)
def test_halves_of_packed_documents_hold_each_of_them_once_and_whole(
    documents: list[int], padding: int, flat: bool
) -> None:
    ids = list(range(sum(documents)))
    row = {"input_ids": ids, "labels": ids, "seq_lengths": documents}
    wide = {**row, "input_ids": [*ids, *[0] * padding], "labels": [*ids, *[0] * padding]}
    wide["seq_lengths"] = [len(wide["input_ids"])]
    batch = PackedRows(0)([row, wide])
    batch = {name: value[:1] for name, value in batch.items()}  # the first is padded now
    if flat:
        starts = torch.tensor([0, *documents]).cumsum(0).to(torch.int32)
        batch = {name: value[:, : len(ids)] for name, value in batch.items()}
        batch |= {"cu_seq_lens_q": starts, "cu_seq_lens_k": starts}
        batch |= {"max_length_q": max(documents), "max_length_k": max(documents)}
    todo, done = [batch], []
    while todo:
        part = todo.pop(0)
        parts = halves(part)
        if len(parts) == 1:
            done.append(parts[0])
        todo = [*(parts if len(parts) > 1 else []), *todo]
    expected = [n for n in documents if n > 1]  # one token alone predicts nothing
    found = [part for part in done if (part["labels"] != NOT_TRAINED).any()]
    assert [longest(part) for part in found] == expected
    ends = [sum(documents[: at + 1]) for at, n in enumerate(documents) if n > 1]
    trained = [part["labels"][part["labels"] != NOT_TRAINED].tolist() for part in found]
    assert trained == [ids[end - n + 1 : end] for n, end in zip(expected, ends, strict=True)]
    for part in found:
        if flat:
            assert part["cu_seq_lens_q"].tolist()[-1] == part["input_ids"].shape[1]
            assert part["max_length_q"] == int(part["cu_seq_lens_q"].diff().max())


LIMITED = """
import json, resource, sys
import torch
from pathlib import Path
from rolecraft.training.device_memory import process_memory
sys.path.insert(0, sys.argv[1])
from test_out_of_memory import trainer, weights

mebibytes, out = int(sys.argv[2]), Path(sys.argv[3])
rows = [[5 + (row * 7 + at) % 200 for at in range(400)] for row in range(16)]
trainer(out, rows=rows[:2], per_device_train_batch_size=1).train()  # libraries and threads
small = trainer(out, rows=rows, per_device_train_batch_size=8)
if mebibytes:
    limit = process_memory("VmSize") + (mebibytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    small.auto_batch = True
small.train()
torch.save(weights(small), out / f"{mebibytes}.pt")
print(json.dumps(small.halvings))
"""


@pytest.mark.slow
def test_under_a_limit_of_the_system_a_run_goes_on_with_the_same_weights(tmp_path: Path) -> None:
    """`RLIMIT_AS` refuses memory for real, in the middle of whatever torch does."""
    halvings = []
    for mebibytes in (0, 224):
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, Path(__file__).parent, str(mebibytes), tmp_path],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        halvings.append(json.loads(done.stdout.splitlines()[-1]))
    assert halvings[0] == 0 < halvings[1]
    free, limited = (torch.load(tmp_path / f"{size}.pt") for size in (0, 224))
    for name, weight in free.items():
        torch.testing.assert_close(weight, limited[name], atol=1e-6, rtol=1e-6)
