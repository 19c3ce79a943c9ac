"""The work that requests ask for, and the answers to requests that come a second time.

Invariant: of the requests of one client with the same id, one is worked on, once; the others get
its answer, or are told that it is no longer kept. Work goes on when the connection is lost, for the
client will ask again; it ends when the client takes it back or its lease is over.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from rolecraft.sandboxes._remote_wire import Body, Line, encoded
from rolecraft.sandboxes.server.answers import Answer, NotServed, answer, answer_to

Undo = Callable[[], Awaitable[None]]
_OF_A_LINE = 64
"""Bytes that a line takes besides its own."""


class Job:
    """One request that is or was worked on."""

    def __init__(self, fingerprint: bytes) -> None:
        self.fingerprint = fingerprint
        self.pieces: list[bytes] = []
        """What has been said of it so far: lines for a client that listens."""
        self.answer: Answer | None = None
        self.followed = False
        """Somebody wants to hear what is said of it."""
        self.forgotten = False
        self.undo: Undo | None = None
        """Takes back what it made; only called if the client never takes it up."""
        self.task: asyncio.Task[None] | None = None
        self._news: asyncio.Future[None] | None = None

    def say(self, line: bytes) -> None:
        self.pieces.append(line)
        self._tell()

    def end(self, given: Answer) -> None:
        self.task = None
        self.answer = given
        self._tell()

    def news(self) -> asyncio.Future[None]:
        """Done as soon as there is another piece or the answer."""
        if self._news is None or self._news.done():
            self._news = asyncio.get_running_loop().create_future()
        return self._news

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    @property
    def size(self) -> int:
        return sum(map(len, self.pieces)) + (len(self.answer.body) if self.answer else 0)


class Told:
    """Has a job say what its command prints: the first `most` bytes, in no more than `most_lines`
    bytes of lines. Called in any thread.
    """

    def __init__(self, job: Job, most: int, most_lines: int) -> None:
        self._job, self._left, self._left_lines = job, most, most_lines
        self._loop = asyncio.get_running_loop()

    def __call__(self, piece: bytes) -> None:
        piece = piece[: self._left]
        self._left -= len(piece)
        if piece:
            line = encoded(Line(output=piece)) + b"\n"
            self._left_lines -= len(line) + _OF_A_LINE
            if self._left_lines < 0:
                self._left = 0
                return
            self._loop.call_soon_threadsafe(self._job.say, line)


Work = Callable[[Job], Awaitable[Body | Answer]]


class Remembered:
    """The answers that are kept for all clients: at most `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[int, str], tuple[Jobs, int]] = OrderedDict()
        """By client and id; the oldest stands first."""
        self.bytes = 0

    def add(self, jobs: Jobs, key: str, size: int) -> None:
        """Keep one more; the oldest ones are forgotten, and this one too if it is too large."""
        self._kept[id(jobs), key] = jobs, size
        self.bytes += size
        while self.bytes > self._most_bytes:
            (_, oldest), (owner, _) = next(iter(self._kept.items()))
            owner.forget(oldest)

    def drop(self, jobs: Jobs, key: str) -> None:
        _, size = self._kept.pop((id(jobs), key), (jobs, 0))
        self.bytes -= size


class Jobs:
    """The requests of one client: those under way, and the last ones that were answered."""

    def __init__(self, *, most: int, most_bytes: int, remembered: Remembered) -> None:
        self._most, self._most_bytes, self._remembered = most, most_bytes, remembered
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._kept: OrderedDict[str, int] = OrderedDict()
        self._bytes = 0

    def find(self, key: str, fingerprint: bytes) -> Job | None:
        """The request of this id that came before. Raises `NotServed` if it cannot be answered."""
        job = self._jobs.get(key)
        if job is None:
            return None
        if job.forgotten:
            raise NotServed(
                f"The request {key!r} was answered before, and its answer is no longer kept.",
                status=409,
                code="forgotten",
            )
        if job.fingerprint != fingerprint:
            raise NotServed(
                f"The id {key!r} was another request's. Each request has an id of its own.",
                status=409,
            )
        return job

    def start(self, key: str, fingerprint: bytes, work: Work, *, ended: Callable[[], None]) -> Job:
        """Begin; `ended` is called at its end, however it ends."""
        job = self._jobs[key] = Job(fingerprint)
        job.task = asyncio.create_task(self._work(key, job, work))

        def done(task: asyncio.Task[None]) -> None:
            if job.answer is None:  # it was taken back before it began
                job.end(answer_to(_TAKEN_BACK))
            ended()

        job.task.add_done_callback(done)
        self._trim()
        return job

    def _trim(self) -> None:
        """Forget the oldest requests altogether, if there are too many."""
        while len(self._jobs) > self._most:
            oldest = next((k for k, j in self._jobs.items() if j.answer is not None), None)
            if oldest is None:
                break  # all are under way, which `max_commands` bounds
            self._drop(oldest)
            del self._jobs[oldest]

    def _drop(self, key: str) -> None:
        """Its answer is no longer counted."""
        self._bytes -= self._kept.pop(key, 0)
        self._remembered.drop(self, key)

    def forget(self, key: str) -> None:
        """Keep only that it was answered. Who waits for its answer gets it all the same."""
        self._drop(key)
        if key in self._jobs:
            self._jobs[key] = _FORGOTTEN

    async def _work(self, key: str, job: Job, work: Work) -> None:
        try:
            made = await work(job)
            given = made if isinstance(made, Answer) else answer(made)
        except asyncio.CancelledError:
            given = answer_to(_TAKEN_BACK)
        except Exception as error:
            given = answer_to(error)
        job.end(given)
        if given.status in (429, 503):  # nothing was done, and it is to come again
            self._jobs.pop(key, None)
            return
        if self._jobs.get(key) is not job:
            return
        self._kept[key] = job.size
        self._bytes += job.size
        # The last one stays: a client that lost the connection asks for it at once.
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            self.forget(next(iter(self._kept)))
        self._remembered.add(self, key, job.size)

    async def take_back(self, key: str) -> None:
        """End the request of this id, also if it only comes after this, and undo what it made."""
        job = self._jobs.get(key)
        if job is None:
            self._jobs[key] = _FORGOTTEN
            self._trim()
            return
        if (task := job.task) is not None and not task.done():
            task.cancel()
            await asyncio.wait([task])
        undo, job.undo = job.undo, None
        if undo is not None:
            await undo()

    async def end(self) -> None:
        """End all that is under way."""
        tasks = [job.task for job in self._jobs.values() if job.task and not job.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            with suppress(asyncio.CancelledError):
                await asyncio.wait(tasks)
        for key in list(self._kept):
            self._drop(key)


_TAKEN_BACK = NotServed("The request was taken back.", status=409, code="cancelled")
_FORGOTTEN = Job(b"")
"""Stands for every request of which only the id is known."""
_FORGOTTEN.forgotten = True
_FORGOTTEN.end(answer_to(NotServed("The answer is no longer kept.", status=409, code="forgotten")))
