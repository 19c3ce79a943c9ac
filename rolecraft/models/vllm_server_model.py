"""The model that a `VLLMServer` serves, with exact tokens: ids go out, ids come back.

It speaks to `/v1/completions`, which takes a prompt as token ids and, asked to, answers with the
ids that were sampled; nothing is tokenised on the way.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from rolecraft.errors import AdapterError, ModelError, ModelUnavailable
from rolecraft.models._vllm_sampling import Drawn, Listen, Logprobs, VLLMSampling
from rolecraft.models.adapters import AdapterVersion
from rolecraft.models.vllm_settings import VLLMSettings

if TYPE_CHECKING:
    from rolecraft.models.vllm_server import VLLMServer

_TOKEN = "token_id:"
"""How the server spells a token that it was asked to name by its id."""

# A long answer on a busy server takes its time; that the server lives is watched otherwise.
_TIMEOUT = httpx.Timeout(None, connect=30.0)
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=64)


class VLLMServerModel(VLLMSampling):
    """What `VLLMServer.model` is. `path` and `settings` are as for `VLLMModel`."""

    def __init__(self, path: str | Path, server: VLLMServer, settings: VLLMSettings) -> None:
        super().__init__(path, settings)
        self._server = server
        self._client: httpx.AsyncClient | None = None

    async def prepare(self) -> None:
        await self._server.ready()

    async def connect(self) -> None:
        """The server has started, perhaps anew: learn its limit, and give it the adapters."""
        await self._disconnect()
        self._client = self._server.client(timeout=_TIMEOUT, limits=_LIMITS)
        listed = (await self._client.get("/models")).json()
        self._context = int(listed["data"][0]["max_model_len"])
        await self.adapters.reload()

    async def aclose(self) -> None:
        await self._disconnect()
        await self.adapters.aclose()

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _draw(
        self,
        ids: list[int],
        settings: dict[str, Any],
        adapter: AdapterVersion | None,
        listen: Listen | None = None,
    ) -> Drawn:
        body = {
            **settings,
            "model": self.name if adapter is None else adapter.name,
            "prompt": ids,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "stream": listen is not None,
        }
        drawn: Drawn | None = None
        try:
            async for choice in self._answers(body):
                part = _drawn(choice)
                if drawn is None:
                    drawn = part
                else:
                    drawn.ids += part.ids
                    drawn.logprobs += part.logprobs
                    drawn.finish = part.finish
                if listen is not None and part.ids:
                    listen(drawn.ids)
        except httpx.HTTPError as error:
            raise ModelUnavailable(
                f"The vLLM server of `{self.name}` broke off: {error or type(error).__name__}. It "
                f"is started anew if it has crashed. Its log ends:\n{self._server.tail()}",
                model=self.name,
            ) from error
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise ModelError(
                f"The vLLM server of `{self.name}` answered something that is no completion with "
                f"token ids ({error!r}). It must be vLLM 0.20 or newer.",
                model=self.name,
            ) from error
        if drawn is None or drawn.finish not in ("stop", "length"):
            raise ModelUnavailable(
                f"The vLLM server of `{self.name}` ended an answer before its end.",
                model=self.name,
            )
        return drawn

    async def _answers(self, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """The answer's only choice, or its pieces. A cancelled request is aborted by the server."""
        client = self._connected()
        if not body["stream"]:
            answer = await client.post("/completions", json=body)
            self._check(answer)
            yield answer.json()["choices"][0]
            return
        async with client.stream("POST", "/completions", json=body) as answer:
            if answer.is_error:
                await answer.aread()
            self._check(answer)
            async for line in answer.aiter_lines():
                data = line.removeprefix("data:").strip()
                if not line.startswith("data:") or data == "[DONE]":
                    continue
                piece = json.loads(data)
                if "error" in piece:
                    raise ModelError(f"vLLM: {_message(piece)}", model=self.name)
                if piece["choices"]:
                    yield piece["choices"][0]

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            raise ModelUnavailable(
                f"The vLLM server of `{self.name}` is not there just now.", model=self.name
            )
        return self._client

    def _check(self, answer: httpx.Response) -> None:
        if answer.is_success:
            return
        kind = ModelUnavailable if answer.status_code >= 500 else ModelError
        raise kind(
            f"The vLLM server of `{self.name}` refused a request (HTTP {answer.status_code}): "
            f"{_why(answer)}",
            model=self.name,
            status=answer.status_code,
        )

    async def _take_in(self, version: AdapterVersion) -> None:
        body = {"lora_name": version.name, "lora_path": str(version.path)}
        answer = await self._connected().post("/load_lora_adapter", json=body)
        if answer.is_error:
            raise AdapterError(
                f"vLLM refuses the adapter `{version.source}` of role {version.role!r}: "
                f"{_why(answer)}",
                model=self.name,
                status=answer.status_code,
            )

    async def _take_out(self, version: AdapterVersion) -> None:
        if self._client is not None:
            body = {"lora_name": version.name}
            self._check(await self._client.post("/unload_lora_adapter", json=body))


def _why(answer: httpx.Response) -> str:
    try:
        return _message(answer.json())
    except ValueError:
        return answer.text


def _message(body: Any) -> str:
    """What an error of the server says."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    return str(error.get("message", error) if isinstance(error, Mapping) else error)


def _drawn(choice: Mapping[str, Any]) -> Drawn:
    ids = list(choice.get("token_ids") or ())
    found = choice.get("logprobs") or {}
    own = found.get("token_logprobs") or ()
    tops = found.get("top_logprobs") or [None] * len(own)
    return Drawn(
        ids=ids,
        logprobs=[
            {**_numbers(top or {}), token: logprob}
            for token, logprob, top in zip(ids if own else (), own, tops, strict=True)
        ],
        finish=choice.get("finish_reason") or "unknown",
        prompt_logprobs=[
            {int(token): about["logprob"] for token, about in at.items()}
            for at in (choice.get("prompt_logprobs") or ())[1:]
        ],
    )


def _numbers(top: Mapping[str, float]) -> Logprobs:
    return {int(token.removeprefix(_TOKEN)): logprob for token, logprob in top.items()}
