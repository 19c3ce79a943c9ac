"""Search services of the web, through LiteLLM: `LiteLLMSearch("tavily", api_key=...)`."""

from __future__ import annotations

import asyncio
from typing import Any

from rolecraft.environments.tool_context_web import WebHit
from rolecraft.environments.web_research.web import WebUnavailable
from rolecraft.errors import ToolError, UsageError
from rolecraft.models import _litellm

_REFUSED = (400, 413, 414, 422)
"""HTTP statuses that are about the query, and not about the service."""


class LiteLLMSearch:
    """A `WebSearch` that asks one of LiteLLM's search providers, such as `perplexity` or `searxng`.

    LiteLLM is imported at the first search. Without an `api_key` it looks for one where it looks
    for those of models. `options` go to `litellm.asearch` (`country`, `search_domain_filter`, …).
    """

    def __init__(
        self,
        provider: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        seconds: float = 30.0,
        **options: Any,
    ) -> None:
        if not provider or not isinstance(provider, str):
            raise UsageError(f"`LiteLLMSearch` wants a provider's name, got {provider!r}.")
        self.provider, self.base_url, self.seconds = provider, base_url, seconds
        self.options = options
        self._api_key = api_key

    async def search(self, query: str, *, limit: int) -> list[WebHit]:
        """See `WebSearch`. Raises `WebUnavailable`, and `ToolError` for a query it refuses."""
        litellm = await asyncio.to_thread(_litellm.load)
        if not hasattr(litellm, "asearch"):
            raise UsageError("This LiteLLM cannot search: `pip install --upgrade litellm`.")
        _litellm.enter(self)
        settings = {"api_key": self._api_key, "api_base": self.base_url, **self.options}
        try:
            async with asyncio.timeout(self.seconds):
                answer = await litellm.asearch(
                    query=query,
                    search_provider=self.provider,
                    max_results=limit,
                    **{name: value for name, value in settings.items() if value is not None},
                )
        except TimeoutError as error:
            raise WebUnavailable(self.provider, f"nothing within {self.seconds:g} s") from error
        except Exception as error:
            if getattr(error, "status_code", None) in _REFUSED:
                raise ToolError(f"The search was refused: {str(error)[:300]}") from error
            raise WebUnavailable(self.provider, f"{type(error).__name__}: {error}") from error
        return [WebHit(hit.url, hit.title or "", hit.snippet or "") for hit in answer.results][
            :limit
        ]

    async def aclose(self) -> None:
        """Close the connections. Harmless when called twice."""
        await _litellm.leave(self)
