"""What every long-term memory must do, as tests that anybody's can be put through.

    class TestMyMemory(LongTermMemoryConformance):
        def make(self):
            return MyMemory()

pytest (with pytest-asyncio in auto mode) collects the rest.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rolecraft.roles.long_term import LongTermMemory, Remembered

ANN = Remembered("The harvest begins in September.", "Ann", "farm.Report", "run-1", "Ann:1")
BOB = Remembered("In September it rains on the harvest.", "Bob", "farm.Report", "run-1", "Bob:1")
CY = Remembered("The ship leaves on Monday.", "Cy", "port.Plan", "run-2", "Cy:1")

LEGAL_QUERIES = (
    '"', "'", "*", "harvest*", "NEAR(harvest", "harvest AND", "AND", "NOT harvest", "(", ")",
    "source:Ann", "-harvest", "^harvest", "a:b:c", "{a b}: c", "%", "_", "\\", ";", "--", "/*",
    "'; DROP TABLE memories; --", "\0", "a\0b", "\ud800", "😀", "\u202e", "ﷺ", " ", "",
    "harvest " * 5_000, " ".join(f"word{number}" for number in range(5_000)), "x" * 100_000,
)  # fmt: skip
"""Texts that mean something to some search engine or database, and must mean nothing here."""


class LongTermMemoryConformance:
    """Adding, finding, forgetting."""

    @abstractmethod
    def make(self) -> LongTermMemory:
        """An empty memory to test."""

    @asynccontextmanager
    async def filled(self, *memories: Remembered) -> AsyncIterator[LongTermMemory]:
        memory = self.make()
        try:
            await memory.add(memories)
            yield memory
        finally:
            await memory.aclose()

    async def test_an_empty_memory_finds_nothing(self) -> None:
        async with self.filled() as memory:
            assert await memory.search("harvest") == []
            assert await memory.forget(["x"]) == 0

    async def test_what_was_added_is_found_whole(self) -> None:
        odd = Remembered("a\0b \ud800 wörd\n", "Ä\0\ud800", "x.Y", "r\ud800", "é:1")
        async with self.filled(ANN, odd) as memory:
            assert await memory.search("september") == [ANN]
            assert await memory.search("wörd") == [odd]

    async def test_the_best_comes_first_and_what_shares_nothing_does_not_come(self) -> None:
        async with self.filled(BOB, CY, ANN) as memory:
            assert await memory.search("when does the harvest begin?", 1) == [ANN]
            assert await memory.search("does it rain on the harvest?", 1) == [BOB]
            assert await memory.search("elephants") == []

    async def test_of_equals_the_later_comes_first_however_often_it_is_asked(self) -> None:
        same = [Remembered("tea at four", "Ann", message=f"Ann:{number}") for number in range(9)]
        async with self.filled(*same[:5]) as memory:
            await memory.add(same[5:])
            for _ in range(3):
                assert await memory.search("tea", 20) == same[::-1]

    async def test_no_more_than_k_are_found(self) -> None:
        many = [Remembered(f"tea {number}") for number in range(20)]
        async with self.filled(*many) as memory:
            for k in (1, 5, 20, 21):
                assert len(await memory.search("tea", k)) == min(k, 20)

    async def test_what_is_added_twice_is_kept_once(self) -> None:
        async with self.filled(ANN, ANN, BOB) as memory:
            await memory.add([BOB, ANN])
            assert len(await memory.search("harvest", 9)) == 2

    async def test_any_text_is_a_query_and_none_has_a_syntax(self) -> None:
        async with self.filled(ANN, CY) as memory:
            for query in LEGAL_QUERIES:
                assert set(await memory.search(query, 9)) <= {ANN, CY}, query[:40]
            assert await memory.search("NOT harvest", 9) == [ANN]
            assert await memory.search("ship OR harvest NOT monday", 1) == [CY]
            assert await memory.search("ann") == [], "who said it is no word of what was said"

    async def test_any_text_can_be_remembered(self) -> None:
        texts = [Remembered(text, message=str(at)) for at, text in enumerate(LEGAL_QUERIES)]
        async with self.filled(*texts, CY) as memory:
            assert await memory.search("ship on monday", 1) == [CY]
            assert len(await memory.search("harvest", 99)) >= 6

    async def test_texts_without_spaces_are_found_by_their_words(self) -> None:
        weather = Remembered("明天的天气预报说会下雨。", "小明")
        harvest = Remembered("九月开始收割小麦。", "小红")
        rain = Remembered("明日の天気は雨でしょう。", "花子")
        train = Remembered("電車は八時に出発します。", "太郎")
        async with self.filled(weather, harvest, rain, train) as memory:
            assert (await memory.search("天气怎么样？"))[0] == weather
            assert (await memory.search("小麦什么时候收割"))[0] == harvest
            assert (await memory.search("天気"))[0] == rain
            assert (await memory.search("電車の出発"))[0] == train
            assert await memory.search("雨") in ([rain, weather], [weather, rain])
            assert await memory.search("カラス") == []

    async def test_what_is_forgotten_is_gone_and_may_come_again(self) -> None:
        async with self.filled(ANN, BOB, CY) as memory:
            assert await memory.forget([BOB.id, BOB.id, "unknown"]) == 1
            assert await memory.search("harvest", 9) == [ANN]
            await memory.add([BOB])
            assert len(await memory.search("harvest", 9)) == 2

    async def test_a_run_or_a_speaker_is_forgotten_as_a_whole(self) -> None:
        async with self.filled(ANN, BOB, CY) as memory:
            assert await memory.forget(source="Bob") == 1
            assert await memory.search("harvest", 9) == [ANN]
            assert await memory.forget([CY.id], trajectory="run-1") == 2
            assert await memory.search("harvest ship", 9) == []

    async def test_many_at_once_disturb_each_other_as_little_as_the_loop(self) -> None:
        """While it works, other tasks go on."""
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        async with self.filled() as memory:
            clock = asyncio.create_task(tick())
            parts = [[Remembered(f"tea {n} {m}") for m in range(20)] for n in range(10)]
            await asyncio.gather(*map(memory.add, parts), *[memory.search("tea")] * 1)
            clock.cancel()
            assert ticks > 1
            assert len(await memory.search("tea", 999)) == 200

    async def test_closing_twice_is_harmless(self) -> None:
        memory = self.make()
        await memory.add([ANN])
        await memory.aclose()
        await memory.aclose()
