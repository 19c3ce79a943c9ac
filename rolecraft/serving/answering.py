"""Answering orders with a model: every answer of a request at once, in pieces or whole.

Invariant: whoever stops waiting (a client that has gone) ends the sampling, and nobody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rolecraft.messages import ToolCall
from rolecraft.models.base import FinishReason
from rolecraft.models.token_model import Sampled, TokenModel, TokenRequest
from rolecraft.models.tool_calls import CallPiece, ContentPiece, ReasoningPiece
from rolecraft.models.tool_calls.output import Piece as Part
from rolecraft.serving.orders import Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One whole answer."""

    order: Order
    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    finish: FinishReason
    sampled: Sampled


@dataclass(frozen=True, slots=True)
class Piece:
    """Something new of answer number `index`: text, reasoning, a call, or all of it (`whole`)."""

    index: int
    text: str = ""
    reasoning: str = ""
    call: tuple[int, ToolCall] | None = None
    whole: Answered | None = None


def numbered(orders: Sequence[Order]) -> list[tuple[Order, int]]:
    """Each answer that is asked for: its order, and which of the order's answers it is."""
    return [(order, n) for order in orders for n in range(order.n)]


async def answer_all(model: TokenModel, orders: Sequence[Order]) -> list[Answered]:
    """All answers, sampled together. If one fails, the others are given up."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_answer(model, *one)) for one in numbered(orders)]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def answer_in_pieces(
    model: TokenModel, orders: Sequence[Order]
) -> AsyncGenerator[Piece, None]:
    """The answers as they come. The last piece of each is `whole`."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Piece | BaseException] = asyncio.Queue()

    def post(piece: Piece) -> None:  # in the thread that samples
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(queue.put_nowait, piece)

    def finish(teller: _Teller, answered: Answered) -> None:
        for piece in teller.rest(answered):
            queue.put_nowait(piece)

    async def one(index: int, order: Order, n: int) -> None:
        teller = _Teller(model, order, post, index)
        try:
            answered = await _answer(model, order, n, listen=teller)
        except Exception as error:
            queue.put_nowait(error)
            return
        # After the pieces that the sampling thread has posted before.
        loop.call_soon(finish, teller, answered)

    asked = numbered(orders)
    tasks = [asyncio.create_task(one(index, *each)) for index, each in enumerate(asked)]
    try:
        left = len(asked)
        while left:
            piece = await queue.get()
            if isinstance(piece, BaseException):
                raise piece
            left -= piece.whole is not None
            yield piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _answer(
    model: TokenModel, order: Order, n: int, *, listen: _Teller | None = None
) -> Answered:
    sampled = await model.sample(
        TokenRequest(
            ids=list(order.ids),
            role=order.role,
            # The order's seed and nothing else, so that the same request has the same answer.
            key=model.key(order.seed, n),
            temperature=order.temperature,
            top_p=order.top_p,
            max_tokens=order.max_tokens,
            stop=order.stop,
            listen=listen,
            report=order.report,
        )
    )
    output, finish = model.read(sampled, first_call=order.first_call, **_reading(order))
    return Answered(
        order=order,
        text=output.content,
        reasoning=output.reasoning,
        calls=tuple(output.tool_calls),
        finish=finish,
        sampled=sampled,
    )


def _reading(order: Order) -> dict[str, Any]:
    """How the order's answers are read, in pieces and whole."""
    return {
        "tools": order.tools,
        "prompt": order.prompt,
        "stop": order.stop,
        "plain": not order.parse,
    }


class _Teller:
    """Hears the parts of one answer and tells them, in the thread that samples.

    What a client has got cannot be taken back. Text that proves to be reasoning has then been told
    as text; the reasoning is told once more in its own field, and the text after it follows.
    """

    def __init__(
        self, model: TokenModel, order: Order, tell: Callable[[Piece], None], index: int
    ) -> None:
        self._tell, self._index = tell, index
        self._first_call = order.first_call
        self._said: list[str] = []
        self._thought: list[str] = []
        self._calls = 0
        self._listen = model.listener(self._hear, **_reading(order))

    def __call__(self, sampled: Sequence[int]) -> None:
        self._listen(sampled)

    def _hear(self, part: Part) -> None:
        if isinstance(part, ContentPiece):
            begins = self._thought and not self._said
            self._say(text=part.text.lstrip("\n") if begins else part.text)
        elif isinstance(part, ReasoningPiece):
            self._say(reasoning=part.text)
        elif isinstance(part, CallPiece):
            if not part.call.incomplete:
                self._call(part.call)
        else:
            self._said = []

    def _say(self, *, text: str = "", reasoning: str = "") -> None:
        if text:
            self._said.append(text)
        if reasoning:
            self._thought.append(reasoning)
        if text or reasoning:
            self._tell(Piece(self._index, text=text, reasoning=reasoning))

    def _call(self, call: ToolCall) -> None:
        call.id = call.id or f"call{self._first_call + self._calls:05d}"
        self._tell(Piece(self._index, call=(self._calls, call)))
        self._calls += 1

    def rest(self, answered: Answered) -> list[Piece]:
        """What was not told while the answer was written, and the whole."""
        pieces = []
        thought, said = "".join(self._thought), "".join(self._said)
        if answered.reasoning.startswith(thought):
            pieces.append(Piece(self._index, reasoning=answered.reasoning[len(thought) :]))
        if answered.text.startswith(said):
            pieces.append(Piece(self._index, text=answered.text[len(said) :]))
        for at, call in list(enumerate(answered.calls))[self._calls :]:
            pieces.append(Piece(self._index, call=(at, call)))
        told = [piece for piece in pieces if piece.text or piece.reasoning or piece.call]
        return [*told, Piece(self._index, whole=answered)]
