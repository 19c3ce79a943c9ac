"""Runs pytest for grading, and watches that the code under test leaves the runner alone.

Never imported: its text is handed to `python -I -c`, so no file of it lies in the work folder. The
first line of standard input has the patch, what to watch, and the texts of the guard's other parts
(see `_guarded_run.py`); the rest goes on to the driver of `rolecraft.sandboxes.test_reports`, which
reports the tests. What is found here is reported beside them, as lines of the kind `Guard`.
All of it must run on every Python from 3.8 on: that of the project.

In force before conftest files and what they import:

- the runner's functions are counted, before any plug-in that settings name, and must be the same
  ones whenever one looks again;
- the tests' sources are read once; pytest gets them from memory, whatever is on disk by then;
- tests and hooks are held as they were collected;
- twins: copies of the tests to mend, under the same ids, that fail. One that is reported as passed
  shows that results are forged; of one that is skipped, what is reported of its test tells. They
  run last.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import json
import operator
import os
import random
import sys
import types

TYPE_CHECKING = False  # so that `typing` is not imported
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

TWINS = 8
"""Of the tests to mend; two of the others get one, too."""


SAMPLED = 1 / 8
"""So many of the other tests are followed by a look at the runner; nobody knows which."""


RESULTS = (
    *("pytest_runtest_protocol", "pytest_runtestloop", "pytest_runtest_call", "pytest_pyfunc_call"),
    *("pytest_runtest_makereport", "pytest_runtest_logreport", "pytest_report_teststatus"),
    *("pytest_collection_modifyitems", "pytest_pycollect_makeitem", "pytest_itemcollected"),
    *("pytest_assertrepr_compare", "pytest_exception_interact", "pytest_sessionfinish"),
)
"""Hooks that have a say in results: a patch may not edit those of the base."""


class Guard:
    """The plug-in of pytest."""

    def __init__(self, settings: dict[str, Any], parts: Any, write: Callable[..., None]) -> None:
        self.write = write
        self.root = os.getcwd()
        self.changed = {self.absolute(path) for path in settings["changed"]}
        self.wanted = set(settings["wanted"])
        self.unpatched: bool = settings["unpatched"]
        self.path = [self.absolute(path) for path in settings["path"]]
        self.random = random.Random(settings["seed"])
        ready = {self.absolute(path): each for path, each in settings["compiled"].items()}
        self.sources: Any = parts["Sources"](map(self.absolute, settings["held"]), ready)
        self.compiling: list[str] = settings["compiling"]
        self.twin_of: Any = parts["Twins"](self.random).twin_of
        self.ini: str = settings["ini"][0] if settings["ini"] else ""
        self.parts: Any = parts
        self.early: Any = parts["Runner"]()
        self.runner: Any = None
        self.hook: Any = None
        self.manager: Any = None
        self.first: set[int] = set()
        self.runs: Any = None
        self.held_hooks: dict[int, tuple[Any, Any, Any]] = {}
        self.items: dict[int, tuple[Any, Any, list[Any], dict[str, Any]]] = {}
        self.twins: dict[int, Any] = {}
        self.said: set[str] = set()

    def absolute(self, path: str) -> str:
        return os.path.normpath(os.path.join(self.root, path))

    def tampered(self, what: str) -> None:
        """Report it, once; an empty text says that all is well."""
        if what and what not in self.said:
            self.said.add(what)
            self.write("Guard", tampered=what)

    # --- before the code under test ------------------------------------------------------------

    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        self.sources.hold()
        if self.ini:  # it has been read
            with contextlib.suppress(OSError):
                os.unlink(self.absolute(self.ini))
        if self.compiling:
            made = self.sources.compiled(map(self.absolute, self.compiling), early_config)
            found = {os.path.relpath(each, self.root): made[each] for each in made}
            self.write("Guard", compiled=found)
            os._exit(0)
        if self.early.replaced() and self.has_run():
            self.tampered(f"`{self.early.replaced()}` of the runner was replaced by a plug-in")
        self.runner = self.parts["Runner"]()
        self.manager = early_config.pluginmanager
        self.hook = self.manager.hook
        self.runs = vars(self.manager).get("_inner_hookexec")
        self.first = {id(each) for _, each in self.hooks()}
        self.look_at_hooks()
        sys.path[:0] = self.path

    def has_run(self) -> bool:
        """Whether a module of the work folder is there already: a plug-in that settings name."""
        files = [str(getattr(each, "__file__", "")) for each in list(sys.modules.values())]
        return any(file.startswith(self.root + os.sep) for file in files)

    # --- the tests -----------------------------------------------------------------------------

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        self.look()
        for item in items:
            self.tampered(self.sources.other_code(item))
            self.tampered(self.sources.other_names(item))
            self.tampered(self.sources.unread(item, config))
            self.say_marks(item)
            self.items[id(item)] = (item, *definition_of(item))
        wanted = [item for item in items if self.is_wanted(item.nodeid)]
        others = [item for item in items if not self.is_wanted(item.nodeid)]
        chosen = self.random.sample(wanted, min(TWINS, len(wanted)))
        chosen += self.random.sample(others, min(2, len(others)))
        self.random.shuffle(chosen)
        for item in chosen:
            twin = self.twin_of(item, self.parts["path_of"](item), config)
            if twin is not None:
                self.twins[id(twin)] = twin
                items.append(twin)

    def is_wanted(self, name: str) -> bool:
        return name in self.wanted or name.partition("[")[0] in self.wanted

    def say_marks(self, item: Any) -> None:
        """Say which tests are skipped, or expected to fail, by their own marks as they are now."""
        from _pytest import skipping

        for name, outcome in (("skip", "skipped"), ("xfail", "xfailed")):
            if not self.sources.says(item, name):
                continue
            try:  # as pytest does later; of an old pytest, or odd marks, the base tells
                found = getattr(skipping, f"evaluate_{name}_marks")(item)
            except BaseException:
                continue
            if found:
                self.write("Guard", marked=item.nodeid, outcome=outcome)

    def check_item(self, item: Any) -> None:
        """A test must still be what it was when it was collected."""
        if id(item) in self.items:
            _, *before = self.items[id(item)]
            now = definition_of(item)
            if not all(map(same, before, now)):
                self.tampered(f"the test {item.nodeid} was replaced after it was collected")

    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> bool | None:
        if id(item) not in self.twins:
            return None
        from _pytest import runner

        # Looked up now: what a test would be run by is what must run the twin.
        reports = runner.runtestprotocol(item, log=False, nextitem=nextitem)
        outcomes = {report.outcome for report in reports}
        if "skipped" in outcomes:  # by what skips the test too, if that was not reported as passed
            self.write("Guard", skipped_twin=item.nodeid)
        elif "failed" not in outcomes:
            self.tampered(f"a copy of {item.nodeid} that fails was reported as passed")
        return True

    def pytest_runtest_setup(self, item: Any) -> Generator[None, Any, None]:
        """Look where no call follows, after which one looks anyway."""
        ended = yield
        if ended.excinfo is not None and self.is_wanted(item.nodeid):
            self.look()

    def pytest_runtest_call(self, item: Any) -> Generator[None, Any, None]:
        """Look at once when a test has ended, and before anything is made of it."""
        self.check_item(item)
        yield
        self.check_item(item)
        wanted = self.is_wanted(item.nodeid)
        if wanted or self.random.random() < SAMPLED:
            self.tampered(self.sources.other_names(item))
            self.look(wholly=wanted)

    # --- what is looked at ---------------------------------------------------------------------

    def look(self, *, wholly: bool = True) -> None:
        if name := self.runner.differs(wholly=wholly):
            self.tampered(f"`{name}` of the runner was replaced")
        if wholly:
            self.look_at_hooks()

    def look_at_hooks(self) -> None:
        if vars(self.manager).get("_inner_hookexec") is not self.runs:
            self.tampered("what calls the hooks was replaced")
        for name, each in self.hooks():
            function = self.parts["function_of"](each.function)
            code = getattr(function, "__code__", None)
            # The hook itself is held too, so that no other one gets its id.
            held = self.held_hooks.setdefault(id(each), (each, each.function, code))
            if held[1] is not each.function or held[2] is not code:
                self.tampered(f"the function of a hook `{name}` was replaced")
            place = getattr(code, "co_filename", "<none>")
            if id(each) in self.first or not (place in self.changed or place.startswith("<")):
                continue
            # That of the base may be there, and edited, if it makes no results.
            if not (self.unpatched and name in RESULTS):
                where = os.path.relpath(place) if place in self.changed else place
                self.tampered(f"a hook `{name}` was added by the code under test ({where})")

    def hooks(self) -> list[tuple[str, Any]]:
        return [
            (name, each)
            for name, caller in list(vars(self.hook).items())
            if hasattr(caller, "get_hookimpls")
            for each in caller.get_hookimpls()
        ]

    def pytest_sessionfinish(self) -> None:
        self.look()
        for path in self.sources.changed():
            self.tampered(f"`{os.path.relpath(path)}` was changed while the tests ran")
        self.write("Guard", finished=True, twins=len(self.twins))


HOOKS: dict[str, dict[str, Any]] = {
    # After pytest's own plug-ins, which replace functions here, and before conftest files.
    "pytest_load_initial_conftests": {},
    "pytest_collection_modifyitems": {"trylast": True},
    "pytest_runtest_protocol": {"tryfirst": True},
    "pytest_runtest_setup": {"hookwrapper": True, "trylast": True},
    "pytest_runtest_call": {"hookwrapper": True, "trylast": True},
    "pytest_sessionfinish": {"tryfirst": True},
}


def definition_of(item: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """What runs when a test runs: its function, the code of that and of what it wraps, and what
    is set on the item in place of a method.
    """
    function = each = getattr(item, "function", None)
    codes: list[Any] = []
    while each is not None and len(codes) < 20:
        codes.append(getattr(each, "__code__", None))
        each = getattr(each, "__wrapped__", None)
    own = {name: value for name, value in vars(item).items() if name in methods_of(type(item))}
    return function, codes, own


METHODS: dict[type, frozenset[str]] = {}


def methods_of(kind: type) -> frozenset[str]:
    if kind not in METHODS:
        METHODS[kind] = frozenset(
            name
            for each in kind.__mro__
            for name, value in vars(each).items()
            if isinstance(value, types.FunctionType)
        )
    return METHODS[kind]


def same(before: Any, now: Any) -> bool:
    """By identity: what is put there may say that it equals anything."""
    if isinstance(before, dict):
        return before.keys() == now.keys() and all(now[name] is before[name] for name in before)
    if isinstance(before, list):
        return len(before) == len(now) and all(map(operator.is_, before, now))
    return before is now


def main() -> int:
    run, watch = prepared()  # and nothing else: this frame is on the stack of every test
    return int(run(watch))


def put(settings: dict[str, Any]) -> str:
    """Make the patch's changes, then write pytest's settings. Why that cannot be, if so."""
    space: dict[str, Any] = {"__name__": "put"}
    exec(compile(settings["put"], "<put>", "exec"), space)
    try:
        space["put"](settings.pop("orders"))
        if settings["ini"]:
            path, content = settings["ini"]
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "xb") as file:
                file.write(bytes.fromhex(content))
    except SystemExit as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def prepared() -> tuple[Any, Callable[..., list[object]]]:
    """Read what is to be watched. Gives the driver's `main`, and what it is to call."""
    settings = json.loads(sys.stdin.readline())
    if unfit := put(settings):  # nothing of the patch has run, so no token is needed to say so
        print(json.dumps({"unfit": unfit}))
        sys.exit(1)
    sys.path += settings["site"]
    sys.dont_write_bytecode = True
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "PYTHON"))]:
        del os.environ[name]

    import pytest
    from _pytest.config import default_plugins

    for name in default_plugins:  # so that what they consist of is known before any other plug-in
        importlib.import_module(f"_pytest.{name}")
    for method, options in HOOKS.items():
        pytest.hookimpl(**options)(getattr(Guard, method))
    if importlib.util.find_spec("xdist"):
        sys.argv.append("-n0")  # its workers would run unwatched

    def watch(write: Callable[..., None]) -> list[object]:
        if os.getcwd() in sys.path:  # the driver's; it comes back once pytest is ready
            sys.path.remove(os.getcwd())
        write("Guard", started=True)
        return [Guard(settings, parts, write)]

    driver: dict[str, Any] = {"__name__": "driver"}
    exec(compile(settings["driver"], "<driver>", "exec"), driver)
    parts: dict[str, Any] = {"__name__": "parts"}
    for text in settings["parts"]:
        exec(compile(text, "<parts>", "exec"), parts)
    gc.collect()
    if hasattr(gc, "freeze"):  # what is there for good is not looked at again: a fifth of the time
        gc.freeze()
    return driver["main"], watch


if __name__ == "__main__":
    sys.exit(main())
