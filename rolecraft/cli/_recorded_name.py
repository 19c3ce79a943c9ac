"""Under which name a file was a module when a run was recorded.

A record names classes with their modules. The same file is `__main__` to who runs it as a script,
`job` to who imports it from its folder, and `shop.job` from the one above: to go on with a run or
to replay it, it gets the name again that it had.
"""

from __future__ import annotations

import ast
import contextlib
import sys
from pathlib import Path
from types import ModuleType

from rolecraft.errors import TraceError
from rolecraft.trajectories.reader import Reader

SCRIPT = "__main__"


def recorded_name(path: Path, journal: Path) -> str:
    """The module that the file at `path` was in the journal; empty if it does not say."""
    tail = path.with_suffix("").parts
    for module in _modules(journal):
        parts = tuple(module.split("."))
        if module == SCRIPT or tail[-len(parts) :] == parts:
            return module
    return ""


def _modules(journal: Path) -> list[str]:
    """The modules of the classes of roles, and of actions, that a journal names."""
    reader = Reader(journal)
    names: dict[str, None] = {}
    with contextlib.suppress(TraceError):  # whoever goes on with it says what is wrong
        for event in reader.events():
            names.setdefault(str(event.data.get("cause_by", "")))
    roles = (reader.header or {}).get("roles")
    for role in roles if isinstance(roles, list) else ():
        names.setdefault(str(role.get("class", "")) if isinstance(role, dict) else "")
    return list(dict.fromkeys(name.rpartition(".")[0] for name in names if "." in name))


def import_as_script(path: Path) -> ModuleType:
    """The file as the module `__main__`, without what stands under `if __name__ == "__main__"`."""
    tree = ast.parse(path.read_bytes(), str(path))
    tree.body = [statement for statement in tree.body if not _is_main_block(statement)]
    module = ModuleType(SCRIPT)
    module.__file__ = str(path)
    ours = sys.modules[SCRIPT]
    sys.modules[SCRIPT] = module  # where annotations and recorded values look for their classes
    try:
        exec(compile(tree, str(path), "exec"), module.__dict__)
    except BaseException:
        sys.modules[SCRIPT] = ours
        raise
    return module


def _is_main_block(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If):
        return False
    names = {ast.unparse(part) for part in ast.walk(statement.test) if isinstance(part, ast.expr)}
    return {"__name__", "'__main__'"} <= names
