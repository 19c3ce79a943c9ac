"""Adapters: checked before they are served, never changed under a name, removed when unused."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from rolecraft.errors import AdapterError, ModelError, UsageError
from rolecraft.models._base_names import compare_bases
from rolecraft.models.adapter_files import base_shapes
from rolecraft.models.adapters import Adapters, AdapterVersion, digest_of
from rolecraft.models.tiny import tiny_model

BASE = "models/tiny"
SHAPES = {f"model.layers.{n}.self_attn.{m}_proj": (8, 8) for n in range(2) for m in "qv"}


def tensors(seed: int = 0, *, rank: int = 2, width: int = 8) -> dict[str, torch.Tensor]:
    random = torch.Generator().manual_seed(seed)
    made = {}
    for module in SHAPES:
        for half, shape in (("lora_A", (rank, width)), ("lora_B", (width, rank))):
            name = f"base_model.model.{module}.{half}.weight"
            made[name] = torch.randn(shape, generator=random)
    return made


def save(folder: Path, made: dict[str, torch.Tensor] | None = None, **config: Any) -> Path:
    """A folder as peft's `save_pretrained` writes it."""
    folder.mkdir(exist_ok=True, parents=True)
    about = {"peft_type": "LORA", "base_model_name_or_path": BASE, "r": 2, **config}
    (folder / "adapter_config.json").write_text(json.dumps(about))
    save_file(tensors() if made is None else made, folder / "adapter_model.safetensors")
    return folder


class Engine:
    """Holds what is loaded, and reads the files only when asked to: as late as an engine may."""

    def __init__(self) -> None:
        self.held: list[str] = []
        self.refuses = False
        self.cannot_unload = False

    async def load(self, version: AdapterVersion) -> None:
        await asyncio.sleep(0)
        if self.refuses:
            raise RuntimeError("no memory left")
        assert version.name not in self.held
        self.held.append(version.name)

    async def unload(self, version: AdapterVersion) -> None:
        await asyncio.sleep(0)
        if self.cannot_unload:
            raise RuntimeError("the wire is cut")
        self.held.remove(version.name)


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
async def adapters(engine: Engine) -> Any:
    made = Adapters(load=engine.load, unload=engine.unload, base=(BASE,), shapes=SHAPES, max_rank=4)
    yield made
    await made.aclose()


async def test_each_version_has_a_name_of_its_own(
    adapters: Adapters, engine: Engine, tmp_path: Path
) -> None:
    folder = save(tmp_path / "a")
    names = [(await adapters.swap(role, folder)).name for role in ("planner", "critic", "planner")]
    assert names == ["planner@1", "critic@1", "planner@2"]
    await adapters.settle()
    assert engine.held == ["critic@1", "planner@2"]
    assert adapters.roles == ["critic", "planner"]
    await adapters.remove("planner")
    assert (await adapters.swap("planner", folder)).name == "planner@3"
    assert (await adapters.swap("planner", folder, version=7)).version == 7
    with pytest.raises(UsageError, match="has had version 7"):
        await adapters.swap("planner", folder, version=7)


async def test_a_request_keeps_the_version_it_began_with_until_it_ends(
    adapters: Adapters, engine: Engine, tmp_path: Path
) -> None:
    folder = save(tmp_path / "a")
    first = await adapters.swap("planner", folder)
    with adapters.hold("planner") as mine, adapters.hold("planner"):
        second = await adapters.swap("planner", folder)
        with adapters.hold("planner") as newer:
            assert (mine, newer) == (first, second)
        await adapters.settle()
        assert engine.held == ["planner@1", "planner@2"]
        assert mine is not None
        assert mine.path.is_dir()
    await adapters.settle()
    assert engine.held == ["planner@2"]
    assert not first.path.exists()


async def test_a_role_without_an_adapter_is_served_by_the_base_model(adapters: Adapters) -> None:
    with adapters.hold("nobody") as version:
        assert version is None


async def test_what_a_trainer_writes_into_the_folder_later_changes_nothing(
    adapters: Adapters, tmp_path: Path
) -> None:
    folder = save(tmp_path / "a")
    first = await adapters.swap("planner", folder)
    with adapters.hold("planner"):
        save(folder, tensors(1))
        second = await adapters.swap("planner", folder)
        assert first.digest == digest_of(tensors(0)) != second.digest == digest_of(tensors(1))
        for version, seed in ((first, 0), (second, 1)):
            held = load_file(version.path / "adapter_model.safetensors")
            assert digest_of(held) == digest_of(tensors(seed))


def test_the_digest_tells_names_shapes_types_and_values_apart() -> None:
    one = {"a": torch.zeros(2, 3), "b": torch.ones(6)}
    others: list[dict[str, torch.Tensor]] = [
        {"a": torch.zeros(3, 2), "b": torch.ones(6)},
        {"b": torch.zeros(2, 3), "a": torch.ones(6)},
        {"a": torch.zeros(2, 3, dtype=torch.int32), "b": torch.ones(6)},
        {"a": torch.zeros(2, 3), "b": torch.tensor([1.0, 1, 1, 1, 1, 1.0001])},
        {"a": torch.zeros(2, 3)},
    ]
    assert len({digest_of(made) for made in (one, *others)}) == 6
    assert digest_of(dict(reversed(one.items()))) == digest_of(one)


def config_of(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def weights_of(folder: Path) -> Path:
    return folder / "adapter_model.safetensors"


def damage(how: str, folder: Path) -> None:
    weights = weights_of(folder)
    data = weights.read_bytes()
    match how:
        case "no folder":
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
        case "no config":
            (folder / "adapter_config.json").unlink()
        case "cut config":
            (folder / "adapter_config.json").write_text('{"peft_type":')
        case "prompt tuning":
            config_of(folder, peft_type="PROMPT_TUNING")
        case "no weights":
            weights.unlink()
        case "pickle":
            weights.rename(folder / "adapter_model.bin")
        case "cut weights":
            weights.write_bytes(data[:-1])
        case "cut header":
            weights.write_bytes(data[:50])
        case "empty":
            weights.write_bytes(b"")
        case "huge header":
            weights.write_bytes(struct.pack("<Q", 2**62) + data[8:])
        case "noise":
            weights.write_bytes(struct.pack("<Q", 9) + b"[1, 2, 3]")
        case "odd header":
            body = b'{"x": {"dtype": 3}}'
            weights.write_bytes(struct.pack("<Q", len(body)) + body)
        case "no matrices":
            save_file({"x": torch.zeros(2)}, weights)
        case "half a pair":
            save_file(dict(list(tensors().items())[:1]), weights)
        case "config of another":
            config_of(folder, r=1)
        case "rank in words":
            config_of(folder, r="eight")
        case "ranks in a list":
            config_of(folder, rank_pattern=["a"])
        case "rank in a pattern":
            config_of(folder, rank_pattern={"q": "x"})
        case "base in a list":
            config_of(folder, base_model_name_or_path=["a"])
        case "nested config":
            (folder / "adapter_config.json").write_text("[" * 100_000)
        case "rank":
            save(folder, tensors(rank=8), r=8)
        case "base":
            config_of(folder, base_model_name_or_path="elsewhere/other")
        case "modules":
            made = {name.replace("q_proj", "mixer"): t for name, t in tensors().items()}
            save(folder, made)
        case "width":
            save(folder, tensors(width=16))
        case "layers":
            made = {name.replace("layers.1", "layers.9"): t for name, t in tensors().items()}
            save(folder, made)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("no folder", r"no adapter folder `.*wrong`"),
        ("no config", r"no `adapter_config\.json`"),
        ("cut config", r"adapter_config\.json` cannot be read"),
        ("prompt tuning", r"'PROMPT_TUNING'; only 'LORA'"),
        ("no weights", r"no `adapter_model\.safetensors`"),
        ("pickle", "a pickle, which could run any code"),
        ("cut weights", r"should take \d+ bytes and there are \d+"),
        ("cut header", "cut off within its header"),
        ("empty", "cut off before its header"),
        ("huge header", "cut off within its header"),
        ("noise", "no JSON object"),
        ("odd header", "nothing sensible of 'x'"),
        ("no matrices", "no LoRA matrices"),
        ("half a pair", "no pair of rank x width"),
        ("config of another", "do not belong together"),
        ("rank in words", r"`r` is 'eight', and it wants a whole number from 1"),
        ("ranks in a list", r"`rank_pattern` is \['a'\], and it wants an object"),
        ("rank in a pattern", r"`rank_pattern` is \{'q': 'x'\}"),
        ("base in a list", r"`base_model_name_or_path` is \['a'\]"),
        ("nested config", r"adapter_config\.json` cannot be read"),
        ("rank", r"rank 8, and the engine has room for 4.*`max_rank=8`"),
        ("base", r"trained on 'elsewhere/other', and the engine serves 'models/tiny'"),
        ("modules", "changes modules named 'mixer', and the base model has none"),
        ("width", r"of another base model.*\[16, 16\], the base model has \[8, 8\] there"),
        ("layers", r"another base model.*layers\.9.*no such module"),
    ],
)
async def test_a_wrong_adapter_is_one_clear_error_and_the_old_one_stays(
    adapters: Adapters, engine: Engine, tmp_path: Path, how: str, words: str
) -> None:
    good = await adapters.swap("planner", save(tmp_path / "good"))
    wrong = save(tmp_path / "wrong")
    damage(how, wrong)
    with pytest.raises(AdapterError, match=words) as caught:
        await adapters.swap("planner", wrong)
    assert str(wrong) in str(caught.value)
    assert str(good.path.parent) not in str(caught.value)
    assert adapters.current("planner") == good
    assert engine.held == ["planner@1"]
    assert [path.name for path in good.path.parent.iterdir()] == [good.path.name]


async def test_what_the_engine_refuses_is_an_error_of_the_adapter(
    adapters: Adapters, engine: Engine, tmp_path: Path
) -> None:
    engine.refuses = True
    with pytest.raises(ModelError, match=r"refuses the adapter .* of role 'planner': no memory"):
        await adapters.swap("planner", save(tmp_path / "a"))
    assert adapters.current("planner") is None
    engine.refuses = False
    assert (await adapters.swap("planner", tmp_path / "a")).name == "planner@2"


async def test_an_engine_that_does_not_let_go_of_an_old_version_stops_nobody(
    adapters: Adapters, engine: Engine, tmp_path: Path, logged: list[Any]
) -> None:
    await adapters.swap("planner", save(tmp_path / "a"))
    engine.cannot_unload = True
    await adapters.swap("planner", tmp_path / "a")
    await adapters.settle()
    assert [version.name for version in adapters.loaded] == ["planner@2"]
    assert "did not remove the old adapter `planner@1`: the wire is cut" in logged[0]


@pytest.mark.parametrize(
    "base",
    [
        "models/tiny",
        "./models/tiny",
        "/elsewhere/Tiny",
        "tiny",
        "/x/merged",
        "/checkpoint-5",
        "",
        None,
    ],
)
async def test_one_base_model_may_go_by_several_names(
    adapters: Adapters, tmp_path: Path, base: str | None
) -> None:
    await adapters.swap("planner", save(tmp_path / "a", base_model_name_or_path=base))


@pytest.mark.parametrize(
    ("trained_on", "served", "verdict"),
    [
        ("Qwen/Qwen3-8B", ("qwen", "Qwen/Qwen3-8B"), "same"),
        ("Qwen/Qwen3-8B", ("/models/Qwen3-8B",), "taken as the same"),
        ("Qwen/Qwen3-8B", ("Other/Qwen3-8B",), "another"),
        ("someone/else/tiny-chat", ("tiny-chat",), "taken as the same"),
        ("/train/final", ("Qwen/Qwen3-8B",), "unknown"),
        ("Qwen/Qwen3-8B", ("/train/checkpoint-500", "policy"), "unknown"),
        ("org/merged", ("other/merged",), "another"),
        ("/train/one", ("/train/two",), "another"),
    ],
)
def test_names_of_base_models_are_compared(
    trained_on: str, served: tuple[str, ...], verdict: str
) -> None:
    assert compare_bases(trained_on, served) == verdict


async def test_a_folder_whose_name_says_nothing_wants_shapes_to_compare(
    engine: Engine, tmp_path: Path
) -> None:
    blind = Adapters(load=engine.load, unload=engine.unload, base=(BASE,), max_rank=4)
    with pytest.raises(AdapterError, match="--also-known-as /train/merged"):
        await blind.swap("planner", save(tmp_path / "a", base_model_name_or_path="/train/merged"))
    await blind.aclose()


async def test_a_swap_that_is_cancelled_while_the_engine_loads_is_undone(tmp_path: Path) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()
    held: list[str] = []

    async def load(version: AdapterVersion) -> None:
        begun.set()
        await go_on.wait()
        assert version.path.is_dir()
        held.append(version.name)

    async def unload(version: AdapterVersion) -> None:
        held.remove(version.name)

    adapters = Adapters(load=load, unload=unload, base=(BASE,), shapes=SHAPES)
    folder = save(tmp_path / "a")
    swapping = asyncio.create_task(adapters.swap("planner", folder))
    await begun.wait()
    swapping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await swapping
    go_on.set()
    second = await adapters.swap("planner", folder)
    await adapters.settle()
    assert held == ["planner@2"]
    assert adapters.loaded == [second]
    assert [path.name for path in second.path.parent.iterdir()] == [second.path.name]
    await adapters.aclose()


async def test_a_swap_that_is_cancelled_while_it_is_read_leaves_no_copy(
    adapters: Adapters, engine: Engine, tmp_path: Path
) -> None:
    first = await adapters.swap("critic", save(tmp_path / "a"))
    swapping = asyncio.create_task(adapters.swap("planner", tmp_path / "a"))
    await asyncio.sleep(0)
    swapping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await swapping
    await adapters.settle()
    assert engine.held == ["critic@1"]
    assert [path.name for path in first.path.parent.iterdir()] == [first.path.name]


async def test_an_engine_that_starts_anew_gets_the_current_versions_only(
    adapters: Adapters, engine: Engine, tmp_path: Path
) -> None:
    folder = save(tmp_path / "a")
    await adapters.swap("planner", folder)
    await adapters.swap("critic", folder)
    with adapters.hold("planner"):
        await adapters.swap("planner", folder)
        engine.held = []
        await adapters.reload()
        assert engine.held == ["critic@1", "planner@2"]
    await adapters.settle()
    assert engine.held == ["critic@1", "planner@2"]


async def test_closing_deletes_the_copies_even_while_a_request_lasts(
    adapters: Adapters, tmp_path: Path
) -> None:
    version = await adapters.swap("planner", save(tmp_path / "a"))
    with adapters.hold("planner"):
        await adapters.aclose()
        await adapters.aclose()
    assert not version.path.parent.exists()


async def test_swaps_under_load_never_serve_a_removed_version(
    adapters: Adapters, engine: Engine, tmp_path: Path
) -> None:
    folder = save(tmp_path / "a")
    await adapters.swap("planner", folder)
    served = set()
    swapped = asyncio.Event()

    async def ask() -> None:
        while not swapped.is_set():
            with adapters.hold("planner") as version:
                assert version is not None
                for _ in range(3):
                    assert version.name in engine.held
                    await asyncio.sleep(0)
                served.add(version.version)

    asking = asyncio.gather(*(ask() for _ in range(8)))
    for _ in range(5):
        await adapters.swap("planner", folder)
    swapped.set()
    await asking
    await adapters.settle()
    assert engine.held == ["planner@6"]
    assert served >= {1, 2, 3, 4, 5}


async def test_an_adapter_without_a_role_is_refused(adapters: Adapters, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`role` is empty"):
        await adapters.swap("", save(tmp_path / "a"))


def test_shapes_of_a_base_come_from_the_headers_of_its_files(tmp_path: Path) -> None:
    model = tiny_model("abc")
    model.save(tmp_path)
    shapes = base_shapes(tmp_path)
    assert shapes is not None
    modules = {
        name.removesuffix(".weight"): tuple(weight.shape)
        for name, weight in model.module.named_parameters()
    }
    assert shapes == modules
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(
        json.dumps({**config, "quantization_config": {"bits": 4}})
    )
    assert base_shapes(tmp_path) is None
    assert base_shapes(tmp_path / "nowhere") is None
