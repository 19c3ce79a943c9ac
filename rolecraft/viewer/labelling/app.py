"""The labelling page as a web application: what its scripts may ask, each as a short function.

Everything that is read or said goes through a `Desk`, which knows the rules. Answers are JSON;
what is wrong comes as `{"error": …}` with the status that says whose mistake it is.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from rolecraft.errors import RolecraftError, UsageError
from rolecraft.failure_taxonomy.labels import finding_to_dict
from rolecraft.failure_taxonomy.modes import MODES
from rolecraft.viewer.labelling.comparing import compare_all, compare_trace
from rolecraft.viewer.labelling.desk import Desk, NotAllowed, answered
from rolecraft.viewer.labelling.edits import Conflict, Edit
from rolecraft.viewer.labelling.exporting import exports
from rolecraft.viewer.labelling.guard import Guard
from rolecraft.viewer.labelling.sheet import MODE

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
CHUNK = 200
"""Events that are sent at once, at most."""

Answer = dict[str, Any] | list[Any]


def make_app(desk: Desk, *, token: str, port: int) -> ASGIApp:
    """The page for a desk, behind its guard."""
    page = _Page(desk)
    gets: dict[str, Callable[..., Answer]] = {
        "/api/project": page.project,
        "/api/trace": page.trace,
        "/api/events": page.events,
        "/api/text": page.text,
        "/api/search": page.search,
        "/api/sheet": page.sheet,
        "/api/compare": page.compare,
        "/api/compare-trace": page.compare_trace,
        "/api/exports": page.exports,
    }
    posts: dict[str, Callable[..., Answer]] = {
        "/api/join": page.join,
        "/api/edit": page.edit,
        "/api/finish": page.finish,
        "/api/reopen": page.reopen,
        "/api/reveal": page.reveal,
        "/api/begin": page.begin,
        "/api/suggest": page.suggest,
        "/api/adjudicate": page.adjudicate,
    }
    routes: list[BaseRoute] = [
        *(Route(path, _answering(do), methods=["GET"]) for path, do in gets.items()),
        *(Route(path, _answering(do, body=True), methods=["POST"]) for path, do in posts.items()),
        Route("/export/{name}", page.export, methods=["GET"]),
        Route("/", _static, methods=["GET"]),
        Route("/static/{name}", _static, methods=["GET"]),
    ]
    return Guard(Starlette(routes=routes), token=token, port=port)


class _Page:
    """The answers. Parameters are those of the request, as text in a query."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    # --- reading ------------------------------------------------------------------------------

    def project(self, annotator: str = "") -> Answer:
        desk = self.desk
        known = annotator in desk.annotators
        return {
            "modes": [
                {
                    "id": mode.id,
                    "name": mode.name,
                    "category": str(mode.category),
                    "definition": mode.definition,
                    "positive": mode.positive,
                    "near_miss": mode.near_miss,
                    "confused_with": list(mode.confused_with),
                    "absence": mode.absence,
                }
                for mode in MODES.values()
            ],
            "annotators": desk.annotators,
            "known": known,
            "folder": str(desk.folder),
            "traces": [
                {
                    "key": trace.key,
                    "name": trace.name,
                    "events": len(trace.trajectory.events),
                    "suggestions": trace.key in desk.has_suggestions,
                    **(self._progress(annotator, trace.key) if known else {}),
                }
                for trace in desk.traces.values()
            ],
            "strays": [f"{name} (by {', '.join(people)})" for name, people in desk.strays.items()],
            "problems": desk.problems[:20],
        }

    def _progress(self, annotator: str, key: str) -> dict[str, Any]:
        sheet = self.desk.sheet(annotator, key)
        return {
            "round": sheet.round,
            "answered": answered(sheet),
            "done": sheet.done,
            "looked": self.desk.has_looked(annotator, key),
            "finished_by": len(self.desk.others(key)),
        }

    def trace(self, trace: str) -> Answer:
        opened = self.desk.trace(trace)
        return {"about": opened.about(), "index": opened.index()}

    def events(self, trace: str, start: str, count: str) -> Answer:
        return self.desk.trace(trace).rows(_number(start), min(_number(count), CHUNK))

    def text(self, trace: str, at: str) -> Answer:
        try:
            return {"text": self.desk.trace(trace).text(_number(at))}
        except IndexError:
            raise UsageError(f"There is no event at position {at}.") from None

    def search(self, trace: str, words: str) -> Answer:
        return self.desk.trace(trace).search(words) if words else []

    def sheet(self, annotator: str, trace: str) -> Answer:
        return self._sheet(annotator, trace)

    def _sheet(self, annotator: str, trace: str) -> dict[str, Any]:
        sheet = self.desk.sheet(annotator, trace)
        return {
            "round": sheet.round,
            "done": sheet.done,
            "revealed": sheet.revealed,
            "looked": self.desk.has_looked(annotator, trace),
            "saw": list(sheet.saw),
            "values": sheet.values,
            "revs": sheet.revs,
            "unfinished": sheet.unfinished(self.desk.trace(trace)),
        }

    # --- labelling ----------------------------------------------------------------------------

    def join(self, name: str) -> Answer:
        return {"annotator": self.desk.join(name)}

    def edit(
        self,
        annotator: str,
        trace: str,
        field: str,
        value: Any,
        base: int,
        in_round: int,
        tab: str = "",
        turn: int = 0,
    ) -> Answer:
        edit = self.desk.edit(
            annotator, trace, field, value, base=base, in_round=in_round, tab=tab, turn=turn
        )
        sheet = self.desk.sheet(annotator, trace)
        return {
            "rev": edit.rev,
            "value": edit.value,
            "unfinished": sheet.unfinished(self.desk.trace(trace)),
        }

    def finish(self, annotator: str, trace: str) -> Answer:
        self.desk.finish(annotator, trace)
        return self._sheet(annotator, trace)

    def reopen(self, annotator: str, trace: str) -> Answer:
        self.desk.reopen(annotator, trace)
        return self._sheet(annotator, trace)

    def reveal(self, annotator: str, trace: str) -> Answer:
        self.desk.reveal(annotator, trace)
        return self._sheet(annotator, trace)

    def begin(self, annotator: str, trace: str) -> Answer:
        self.desk.begin_next(annotator, trace)
        return self._sheet(annotator, trace)

    def suggest(self, annotator: str, trace: str) -> Answer:
        labels = self.desk.suggest(annotator, trace)
        return [
            {"by": row.annotator or "detectors", **finding_to_dict(finding)}
            for row in labels
            for finding in row.findings
        ]

    # --- comparing and deciding ---------------------------------------------------------------

    def compare(self, annotator: str) -> Answer:
        return compare_all(self.desk, annotator)

    def compare_trace(self, annotator: str, trace: str) -> Answer:
        return compare_trace(self.desk, annotator, trace)

    def adjudicate(
        self,
        annotator: str,
        trace: str,
        field: str,
        value: Any,
        base: int,
        tab: str = "",
        turn: int = 0,
    ) -> Answer:
        edit = self.desk.adjudicate(annotator, trace, field, value, base=base, tab=tab, turn=turn)
        flaw = self.desk.gold_flaws(trace).get(field.removeprefix(MODE), "")
        return {"rev": edit.rev, "value": edit.value, "by": edit.by, "flaw": flaw}

    # --- export -------------------------------------------------------------------------------

    def exports(self, annotator: str) -> Answer:
        return [
            {"name": name, "lines": text.count("\n") - name.endswith(".csv")}
            for name, text in exports(self.desk, seen_by=annotator).items()
        ]

    async def export(self, request: Request) -> Response:
        name, who = request.path_params["name"], request.query_params.get("annotator", "")
        try:
            text = (await run_in_threadpool(exports, self.desk, seen_by=who)).get(name)
        except RolecraftError as error:
            return _json({"error": str(error)}, 400)
        if text is None:
            return _json({"error": f"There is no file {name!r} to export."}, 404)
        return Response(
            text.encode("utf-8", "backslashreplace"),
            media_type="text/csv" if name.endswith(".csv") else "application/x-ndjson",
            headers={"Content-Disposition": "attachment"},
        )


def _answering(do: Callable[..., Answer], *, body: bool = False) -> Callable[[Request], Any]:
    """A route that calls `do` in a thread, with the request's query or JSON body."""

    async def answer(request: Request) -> Response:
        try:
            given = await request.json() if body else dict(request.query_params)
            if not isinstance(given, dict):
                raise UsageError("A request is a JSON object.")
            _check_names(do, given)
            return _json(await run_in_threadpool(do, **given))
        except Conflict as error:
            return _json({"error": str(error), "now": _told(error.now)}, 409)
        except NotAllowed as error:
            return _json({"error": str(error)}, 403)
        except (UsageError, ValueError) as error:
            return _json({"error": str(error)}, 400)
        except RolecraftError as error:  # the disk is full, the folder is gone
            return _json({"error": str(error)}, 500)

    return answer


def _json(value: Answer, status: int = 200) -> Response:
    """JSON in ASCII: a trace may hold half of a surrogate pair, which has no UTF-8."""
    import json

    return Response(json.dumps(value), status, media_type="application/json")


def _check_names(do: Callable[..., Answer], given: dict[str, Any]) -> None:
    import inspect

    try:
        inspect.signature(do).bind(**given)
    except TypeError as error:
        raise UsageError(f"The request is not understood: {error}.") from None
    for name in ("annotator", "trace", "name", "field", "tab"):
        if not isinstance(given.get(name, ""), str):
            raise UsageError(f"`{name}` is a text, not {given[name]!r}.")
    for name in ("base", "in_round", "turn"):
        if type(given.get(name, 0)) is not int:
            raise UsageError(f"`{name}` is a number, not {given[name]!r}.")


def _told(edit: Edit) -> dict[str, Any]:
    return {"value": edit.value, "rev": edit.rev, "at": edit.at, "by": edit.by}


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UsageError(f"{text!r} is no number.")
    return int(text)


async def _static(request: Request) -> Response:
    """A file of the page itself. Names come from the folder, never from the request."""
    wanted = request.path_params.get("name", "index.html")
    for file in resources.files(__package__).joinpath("static").iterdir():
        if file.name == wanted:
            kind = _TYPES["." + wanted.rpartition(".")[2]]
            return Response(file.read_bytes(), media_type=kind)
    return Response("There is no such page.\n", 404, media_type="text/plain")
