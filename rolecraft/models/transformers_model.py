"""A language model in this process: transformers, exact tokens, calls batched across sessions.

For small models, tests and training. Each answer carries the tokens that were given and sampled,
with the log-probability of each under the distribution it was drawn from. Sampling depends on the
weights, the seeds and the position alone, so a run repeats whatever else runs beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rolecraft.errors import ModelError, UsageError
from rolecraft.models._batching import Batcher
from rolecraft.models._decoding import Flight, Row
from rolecraft.models._lora_layers import LoraLayers
from rolecraft.models.adapters import Adapters, AdapterVersion
from rolecraft.models.model_folder import check_folder
from rolecraft.models.reasoning import ReasoningFormat
from rolecraft.models.token_model import OnRewrite, Sampled, TokenModel, TokenRequest, end_tokens
from rolecraft.models.tool_calls import ToolCallParser
from rolecraft.models.torch_extra import no_progress_bars, torch, transformers

Out = TypeVar("Out")

ANY_RANK = 2**16
"""No memory is set aside for adapters here, so that each may have the rank it was trained with."""


class TransformersModel(TokenModel):
    """A causal language model of `transformers` with its tokenizer.

    `module` is the torch module, `tokenizer` its fast tokenizer, which needs a chat template.
    `max_batch` bounds the answers written at once (memory: each holds a key-value cache).
    `also_known_as` are further names that adapters may call this base model by. For the other
    settings see `TokenModel`.
    """

    # Nothing leaves this process and nothing is paid: tests may use it.
    real = False

    def __init__(
        self,
        module: Any,
        tokenizer: Any,
        *,
        name: str = "transformers",
        seed: int = 0,
        max_batch: int = 256,
        max_tokens: int = 512,
        device: str | None = None,
        also_known_as: Sequence[str] = (),
        template: Mapping[str, Any] | None = None,
        parser: ToolCallParser | str | None = None,
        reasoning: ReasoningFormat | str | None = None,
        on_rewrite: OnRewrite = "fork",
    ) -> None:
        if not (max_batch >= 1 and max_tokens >= 1):
            raise UsageError(
                f"`max_batch` and `max_tokens` want numbers from 1, got {max_batch!r} and "
                f"{max_tokens!r}."
            )
        settings = getattr(module, "generation_config", None)
        super().__init__(
            tokenizer,
            name=name,
            ends=end_tokens(tokenizer, getattr(settings, "eos_token_id", None)),
            context=getattr(module.config, "max_position_embeddings", None),
            seed=seed,
            max_tokens=max_tokens,
            template=template,
            parser=parser,
            reasoning=reasoning,
            on_rewrite=on_rewrite,
        )
        self.module = (module if device is None else module.to(device)).eval()
        self._lora = LoraLayers(self.module, name)
        self.adapters = Adapters(
            load=self._take_in,
            unload=self._take_out,
            base=[
                name,
                *filter(None, [getattr(module.config, "_name_or_path", "")]),
                *also_known_as,
            ],
            shapes=self._lora.places(),
            max_rank=ANY_RANK,
        )
        """The adapters of the roles. A role without one is served by the base model."""
        self._batcher = Batcher(
            self._fly, version=lambda: self.version, max_batch=max_batch, name=name
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        name: str | None = None,
        dtype: str = "auto",
        device: str | None = None,
        **settings: Any,
    ) -> TransformersModel:
        """Load a folder written by `save` or `save_pretrained`, or a model of the Hugging Face hub.

        `device` defaults to `cuda` where there is one. `settings` are those of the constructor.
        Raises `ModelError` if there is no model at `path`.
        """
        check_folder(path)
        try:
            with no_progress_bars():
                tokenizer = transformers.AutoTokenizer.from_pretrained(
                    path, trust_remote_code=False
                )
                module = transformers.AutoModelForCausalLM.from_pretrained(
                    path, dtype=dtype, trust_remote_code=False
                )
        except Exception as error:  # each of the libraries underneath has errors of its own
            raise ModelError(
                f"`{path}` holds no model and tokenizer that `transformers` can load: "
                f"{str(error).rstrip('. ')}. "
                f"Check the path; files that are cut off or damaged must be fetched or saved again."
            ) from error
        return cls(
            module,
            tokenizer,
            name=name or str(path),
            device=device or ("cuda" if torch.cuda.is_available() else "cpu"),
            **settings,
        )

    def save(self, folder: str | Path) -> None:
        """Write weights and tokenizer to a folder that `load` reads."""
        self.module.save_pretrained(folder, state_dict=self._lora.base_state())
        self.tokenizer.save_pretrained(folder)

    async def run(self, function: Callable[[], Out]) -> Out:
        """Run `function` between batches, in the thread that samples: there weights may change."""
        return await self._batcher.call(function)

    async def load_adapter(
        self, role: str, path: str | Path, *, version: int | None = None
    ) -> AdapterVersion:
        """Serve a LoRA adapter to the calls of `role` that begin from now on: `Adapters.swap`.

        Calls under way finish on the version they began with. Needs peft.
        """
        return await self.adapters.swap(role, path, version=version)

    async def unload_adapter(self, role: str) -> None:
        """Serve the base model to the calls of `role` that begin from now on."""
        await self.adapters.remove(role)

    async def sample(self, request: TokenRequest) -> Sampled:
        with self.adapters.hold(request.role) as held:
            row, version = await self._batcher.submit(
                Row(
                    ids=[*request.ids],
                    key=request.key,
                    temperature=request.temperature,
                    top_p=request.top_p,
                    max_tokens=request.max_tokens,
                    choices=request.choices,
                    stopped=self.stopped(request.stop),
                    listen=request.listen,
                    adapter="" if held is None else held.name,
                    report=request.report,
                )
            )
        restricted = any(ids is not None for ids in row.support)
        return Sampled(
            ids=row.sampled,
            logprobs=row.logprobs,
            finish=row.finish or "unknown",
            version=version if held is None else held.version,
            adapter=row.adapter,
            support=row.support if restricted else None,
            reported=None if row.report is None else row.reported,
        )

    async def aclose(self) -> None:
        await self.adapters.aclose()
        await self.run(lambda: None)
        self._batcher.close()

    def _fly(self, rows: Sequence[Row]) -> Flight:
        return Flight(self.module, rows, ends=self.ends, lora=self._lora)

    async def _take_in(self, version: AdapterVersion) -> None:
        await self._batcher.call(
            lambda: self._lora.load(version.name, version.path, version.source), at_once=True
        )

    async def _take_out(self, version: AdapterVersion) -> None:
        await self._batcher.call(lambda: self._lora.unload(version.name), at_once=True)
