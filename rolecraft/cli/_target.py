"""From `FILE.py:NAME` to what can be run."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rolecraft.actions import Action
from rolecraft.cli._exits import CommandLineError, ExitCode
from rolecraft.cli._recorded_name import SCRIPT, import_as_script, recorded_name
from rolecraft.environments import Environment, Team
from rolecraft.roles import Role

if TYPE_CHECKING:
    from rolecraft.scenarios import Scenario

KINDS = (
    "a `Team`, a `Role` (class or object), a `Scenario`, a `TaskEnvironment`, or a function "
    "without arguments that returns one"
)


def load_target(spec: str, journal: Path | None = None) -> Team | Scenario:
    """What `FILE.py:NAME` means, ready to run; its classes are named as those of `journal`.

    Raises `CommandLineError` with the way out.
    """
    file, separator, name = spec.rpartition(":")
    if not separator or not file or "/" in name or "\\" in name:
        module = load_file(spec) if spec.endswith(".py") and Path(spec).is_file() else None
        raise CommandLineError(
            f"{spec!r} does not say what to run: write FILE.py:NAME.{_candidates(module)}"
        )
    module = load_file(file, recorded_name(Path(file).resolve(), journal) if journal else "")
    if not hasattr(module, name):
        raise CommandLineError(f"`{file}` has no {name!r}.{_candidates(module)}")
    return as_runnable(getattr(module, name), spec, module)


def as_runnable(thing: Any, spec: str, module: ModuleType | None = None) -> Team | Scenario:
    """`thing` as a team or scenario; roles get a team of their own."""
    found = _runnable(thing)
    if isinstance(thing, Action) or (isinstance(thing, type) and issubclass(thing, Action)):
        name = (thing if isinstance(thing, type) else type(thing)).__name__
        raise CommandLineError(
            f"`{spec}` is an action, and only a role can run one: write `{name.lower()} = "
            f"Role(actions=[{name}])` and name that.{_candidates(module)}"
        )
    if found is None and callable(thing):
        _check_callable(thing, spec)
        with user_errors(f"`{spec}()` failed"):
            thing = thing()
        found = _runnable(thing)
        if found is None:
            raise CommandLineError(f"`{spec}()` returned {thing!r}. Return {KINDS}.")
    if found is None:
        raise CommandLineError(f"`{spec}` is {thing!r}; expected {KINDS}.{_candidates(module)}")
    return found


def _runnable(thing: Any) -> Team | Scenario | None:
    from rolecraft.scenarios import Scenario

    if isinstance(thing, (Team, Scenario)):
        return thing
    if isinstance(thing, Role):
        return Team([thing])
    if isinstance(thing, Environment):
        return Team(env=thing)
    if isinstance(thing, type) and issubclass(thing, Role):
        return Team([thing()])
    if isinstance(thing, (list, tuple)) and thing and all(isinstance(role, Role) for role in thing):
        return Team(thing)
    return None


def _check_callable(thing: Any, spec: str) -> None:
    if inspect.iscoroutinefunction(thing):
        raise CommandLineError(f"`{spec}` is an `async def`; make it a plain function.")
    if not _needs_nothing(thing):
        raise CommandLineError(
            f"`{spec}` takes arguments: {inspect.signature(thing)}. Name a function without any."
        )


def _needs_nothing(thing: Any) -> bool:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(
        parameter.default is not parameter.empty
        or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        for parameter in parameters
    )


def _candidates(module: ModuleType | None) -> str:
    """The names of a module that could be run, as a sentence."""
    if module is None:
        return ""
    names = [name for name, value in vars(module).items() if _could_run(name, value, module)]
    listed = ", ".join(f"`{name}`" for name in names)
    return f" It has: {listed}." if names else f" It has nothing that can be run: {KINDS}."


def _could_run(name: str, value: Any, module: ModuleType) -> bool:
    from rolecraft.scenarios import Scenario

    if name.startswith("_"):
        return False
    if isinstance(value, (Team, Role, Scenario, Environment)):
        return True
    own = getattr(value, "__module__", None) == module.__name__
    if isinstance(value, type):
        return issubclass(value, Role) and own
    return own and inspect.isfunction(value) and _needs_nothing(value)


# --- loading a file ------------------------------------------------------------------------------


def load_file(file: str, name: str = "") -> ModuleType:
    """Import a Python file of the user's, as the module `name` if that is given.

    Its project (the nearest folder above it with a `pyproject.toml`; else the current folder, if
    the file is in it) comes first on `sys.path`, so that `from roles.writer import Writer` finds
    the user's packages, and the module gets its dotted name from there.
    """
    path = Path(file).resolve()
    if path.suffix != ".py":
        raise CommandLineError(f"`{file}` is no Python file. Write FILE.py:NAME.")
    if not path.is_file():
        raise CommandLineError(f"There is no file `{file}` (looked in `{Path.cwd()}`).")
    as_script = name == SCRIPT
    root = path.parents[name.count(".")] if name and not as_script else _root(path)
    for folder in (Path.cwd(), _root(path), root):
        while str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    with user_errors(f"`{file}` could not be loaded"):
        return import_as_script(path) if as_script else _import(path, root)


def _root(path: Path) -> Path:
    for folder in path.parents:
        if (folder / "pyproject.toml").is_file():
            return folder
    return Path.cwd() if path.is_relative_to(Path.cwd()) else path.parent


def _import(path: Path, root: Path) -> ModuleType:
    parts = path.relative_to(root).with_suffix("").parts
    dotted = ".".join(parts)
    if all(part.isidentifier() for part in parts) and _is_at(_find(dotted), path):
        return importlib.import_module(dotted)
    # Not importable by name, or the name belongs to somebody else's module.
    name = path.stem if path.stem.isidentifier() else "user_file"
    if name in sys.modules:
        name = f"rolecraft_user_{name}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _find(dotted: str) -> Any:
    try:
        return importlib.util.find_spec(dotted)
    except (ImportError, ValueError):  # a parent that is no package, or a module without a spec
        return None


def _is_at(spec: Any, path: Path) -> bool:
    origin = getattr(spec, "origin", None)
    return origin is not None and Path(origin).resolve() == path


class user_errors:
    """Reports what code of the user raises: its traceback without our own frames, exit code 1."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        import typer

        from rolecraft.errors import RolecraftError

        if not isinstance(error, Exception) or isinstance(error, RolecraftError):
            return  # one line is enough for those, see `main`
        typer.echo("".join(_told(error)).rstrip(), err=True)
        typer.echo(f"rolecraft: {self.what}: {type(error).__name__}", err=True)
        raise typer.Exit(ExitCode.ERROR) from None


def _told(error: Exception) -> Sequence[str]:
    """The traceback that Python would print, without the frames of Rolecraft and of importing."""
    told = traceback.TracebackException.from_exception(error)
    ours = str(Path(__file__).parents[1])
    kept = [
        frame
        for frame in told.stack
        if not frame.filename.startswith((ours, "<frozen importlib"))
        and "/asyncio/" not in frame.filename
        and "/importlib/" not in frame.filename
    ]
    told.stack[:] = kept
    return list(told.format())
