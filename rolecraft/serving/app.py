"""The paths of the server, and what each does: OpenAI's API over FastAPI.

Invariant: whatever a request says, the answer is what OpenAI's API answers or its error object;
what goes wrong with one request touches no other.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from rolecraft._log import log
from rolecraft.errors import AdapterError, RolecraftError
from rolecraft.models.token_model import TokenModel
from rolecraft.serving.answering import answer_all
from rolecraft.serving.desk import Desk, Place, Settings
from rolecraft.serving.fields import ChatBody, CompletionBody, LoadAdapterBody, UnloadAdapterBody
from rolecraft.serving.orders import Order, chat_order, completion_orders, prompts_of
from rolecraft.serving.refusals import Refusal
from rolecraft.serving.replies import answer, refuse
from rolecraft.serving.streams import EventStream, unless_gone
from rolecraft.serving.wire import Writer

_UNDER_V1 = frozenset(
    {"/chat/completions", "/completions", "/models", "/load_lora_adapter", "/unload_lora_adapter"}
)


def make_app(model: TokenModel, settings: Settings) -> FastAPI:
    """The ASGI application that serves `model`."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, title="Rolecraft")
    desk = Desk(model, settings)
    app.state.desk = desk

    async def reply(
        request: Request, place: Place, orders: list[Order], writer: Writer, body: Any
    ) -> Response:
        if body.stream:
            wants_usage = bool(body.stream_options and body.stream_options.include_usage)
            return EventStream(desk, place.handed_on(), orders, writer, usage=wants_usage)
        return answer(writer.whole(await unless_gone(request, answer_all(model, orders))))

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        desk.check_key(request)
        with desk.place() as place:
            body = await desk.body(ChatBody, request)
            role = desk.role_of(body.model)
            place.widen(body.n or 1)
            order = await desk.prompts(
                lambda: chat_order(
                    model, body, role, max_tokens=settings.max_tokens, longest=desk.longest
                )
            )
            writer = Writer(model, body.model, chat=True, token_ids=bool(body.return_token_ids))
            return await reply(request, place, [order], writer, body)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        desk.check_key(request)
        with desk.place() as place:
            body = await desk.body(CompletionBody, request)
            role = desk.role_of(body.model)
            place.widen(len(prompts_of(body)) * (body.n or 1))
            orders = await desk.prompts(
                lambda: completion_orders(model, body, role, longest=desk.longest)
            )
            writer = Writer(model, body.model, chat=False, token_ids=bool(body.return_token_ids))
            return await reply(request, place, orders, writer, body)

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        desk.check_key(request)
        names = [settings.name, *desk.roles]
        return answer({"object": "list", "data": [_model(desk, name) for name in names]})

    @app.get("/v1/models/{name:path}")
    async def one_model(request: Request, name: str) -> Response:
        desk.check_key(request)
        desk.role_of(name)
        return answer(_model(desk, name))

    @app.get("/health")
    async def health() -> Response:
        return answer({"status": "ok", "under_way": desk.under_way})

    @app.post("/v1/load_lora_adapter")
    async def load(request: Request) -> Response:
        desk.check_admin(request)
        body = await desk.body(LoadAdapterBody, request)
        if body.lora_name == settings.name:
            raise Refusal(
                f"{body.lora_name!r} is the base model's name; give the adapter another.",
                param="lora_name",
            )
        try:
            version = await _adapting(model).load_adapter(body.lora_name, body.lora_path)
        except AdapterError as error:
            log.warning("Adapter {!r} is refused: {}", body.lora_name, error)
            raise Refusal(str(error), param="lora_path", code="adapter_refused") from error
        done = "replaces the one before it" if version.version > 1 else "is loaded"
        log.info("Adapter {!r} {}, from {!r}.", version.name, done, body.lora_path)
        return answer({"name": version.role, "version": version.version, "served": version.name})

    @app.post("/v1/unload_lora_adapter")
    async def unload(request: Request) -> Response:
        desk.check_admin(request)
        body = await desk.body(UnloadAdapterBody, request)
        if desk.role_of(body.lora_name) == "":
            raise Refusal("The base model stays.", param="lora_name")
        await _adapting(model).unload_adapter(body.lora_name)
        log.info("Adapter {!r} is removed.", body.lora_name)
        return answer({"name": body.lora_name})

    @app.exception_handler(RolecraftError)
    async def own_error(request: Request, error: RolecraftError) -> Response:
        return refuse(error)

    @app.exception_handler(HTTPException)
    async def no_such_path(request: Request, error: HTTPException) -> Response:
        asked = f"{request.method} {request.url.path}"
        text = f"Invalid URL ({asked}): {error.detail}.{_instead(request)}"
        return refuse(Refusal(text, status=error.status_code))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=499)  # as nginx counts it; nobody reads it

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return refuse(error)

    return app


def _instead(request: Request) -> str:
    """Where what was asked for is, if it is known."""
    path = request.url.path.rstrip("/")
    if path in _UNDER_V1:
        return " The API is under `/v1`: base_url='http://HOST:PORT/v1'."
    if path.removeprefix("/v1") == "/responses":
        return " This server has no Responses API: use `POST /v1/chat/completions`."
    return ""


def _adapting(model: TokenModel) -> Any:
    if not hasattr(model, "load_adapter"):
        raise Refusal(f"`{model.name}` takes no adapters.", status=403)
    return model


def _model(desk: Desk, name: str) -> dict[str, Any]:
    about: dict[str, Any] = {
        "id": name,
        "object": "model",
        "created": desk.created,
        "owned_by": "rolecraft",
        "max_model_len": desk.model.context,
    }
    if name != desk.settings.name:
        version = desk.model.adapters.current(name)  # type: ignore[attr-defined]
        about |= {"parent": desk.settings.name, "served": version.name, "digest": version.digest}
    return about
