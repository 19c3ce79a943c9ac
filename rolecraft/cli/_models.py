"""One way to give every role its model, one to override it per role."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from rolecraft.cli._exits import CommandLineError
from rolecraft.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from rolecraft.environments import Team
    from rolecraft.models import Model
    from rolecraft.scenarios import Scenario


class Models:
    """The models of one command line: `everyone`, and `per_role` by the role's name.

    Roles with the same model share one object. With a `base_url` they are models of the server that
    is there. Raises `CommandLineError` for what names no model.
    """

    def __init__(
        self,
        model: str | None,
        role_models: Sequence[str] | None = None,
        *,
        option: str = "--model",
        base_url: str | None = None,
    ) -> None:
        self._base_url = base_url
        self._made: dict[str, Model] = {}
        self.everyone = self._make(model, option) if model is not None else None
        self.per_role: dict[str, Model] = {}
        for pair in role_models or ():
            name, equals, spec = pair.partition("=")
            if not (name and equals and spec):
                raise CommandLineError(f"`--role-model {pair}`: write ROLE=MODEL.")
            self.per_role[name] = self._make(spec, "--role-model")

    def _make(self, spec: str, option: str) -> Model:
        from rolecraft.models.resolve import resolve_model

        if spec not in self._made:
            if is_stand_in(spec):
                self._made[spec] = _stand_in(spec, option)
                return self._made[spec]
            if self._base_url is not None:
                self._made[spec] = self._at(spec, option)
                return self._made[spec]
            try:
                self._made[spec] = resolve_model(spec)
            except UsageError as error:
                if "no model" not in str(error):
                    raise CommandLineError(f"`{option}`: {error}") from error
                raise CommandLineError(
                    f"`{option}`: {spec!r} names no model. Write PROVIDER/NAME for one behind "
                    f"an API, such as `openai/gpt-4o-mini`; `transformers:PATH` for one in this "
                    f"process, a folder or a name on the Hugging Face hub; `human` for you; or "
                    f"FILE.py:NAME for a stand-in of your own."
                ) from error
        return self._made[spec]

    def _at(self, spec: str, option: str) -> Model:
        """A model on a server of the user's own."""
        from rolecraft.cli._keys import has_key
        from rolecraft.models import LiteLLMModel
        from rolecraft.models.resolve import API_NAME, BETWEEN

        assert self._base_url is not None
        if not self._base_url.startswith(("http://", "https://")):
            raise CommandLineError(
                f"`--base-url {self._base_url}`: write the whole address, such as "
                f"http://localhost:8000/v1."
            )
        if not API_NAME.fullmatch(spec) or BETWEEN in spec:
            raise CommandLineError(
                f"`{option} {spec}` is no model behind an API, so `--base-url` does not apply. "
                f"Write openai/NAME for a model of that server."
            )
        # A server of one's own mostly wants no key, and LiteLLM wants one to send.
        key = None if has_key(spec.partition("/")[0]) else "none"
        return LiteLLMModel(spec, base_url=self._base_url, api_key=key)

    def check_keys(self, team: Team | None = None) -> None:
        """Raise `MissingKey` if one of these models, or of the team's, certainly has no key."""
        from rolecraft.cli._keys import check_keys

        theirs = () if team is None else map(team.env.model_of, team.roles.values())
        check_keys((*self._made.values(), *theirs))

    def check_roles(self, roles: Iterable[str]) -> None:
        """Raise `CommandLineError` for a role that does not exist."""
        known = list(roles)
        for name in self.per_role:
            if name not in known:
                raise CommandLineError(f"`--role-model`: {UnknownName('Role', name, known)}")

    def give_to(self, team: Team) -> None:
        """Set the models of a team; `everyone` also takes the place of roles' own models."""
        self.check_roles(team.roles)
        if self.everyone is not None:
            team.env.model = self.everyone
        for name, role in team.roles.items():
            if self.everyone is not None or name in self.per_role:
                role.model = self.per_role.get(name)

    async def aclose(self) -> None:
        for model in self._made.values():
            await model.aclose()


def is_stand_in(spec: str) -> bool:
    """Whether a model is written as FILE.py:NAME."""
    file, _, name = spec.rpartition(":")
    return file.endswith(".py") and name.isidentifier()


def _stand_in(spec: str, option: str) -> Model:
    """The model that `FILE.py:NAME` is: a `Model`, or a function that answers a `ModelCall`.

    Raises `CommandLineError` for what is neither.
    """
    from rolecraft.cli._target import load_file
    from rolecraft.models import FunctionModel, Model

    file, _, name = spec.rpartition(":")
    found = getattr(load_file(file), name, None)
    if isinstance(found, Model):
        return found
    if inspect.isfunction(found) and len(inspect.signature(found).parameters) == 1:
        return FunctionModel(found, name=name)
    raise CommandLineError(
        f"`{option} {spec}`: {name!r} is {found!r} there. Name a `Model`, or a function of one "
        f"`ModelCall` that returns its answer."
    )


def stand_ins(team: Team) -> list[str]:
    """Names of the team's models that are no real ones: doubles, rules, chance."""
    models = (team.env.model_of(role) for role in team.roles.values())
    return sorted({model.name for model in models if model is not None and not model.real})


def set_phase(target: Team | Scenario, phase: Literal["api", "local"], name: str) -> None:
    """Let the target's `Phases` play in this phase. Raises `CommandLineError` if it has none."""
    from rolecraft.environments import Team
    from rolecraft.models.phases import Phases

    if isinstance(target, Team):
        models = {target.env.model, *(role.model for role in target.roles.values())}
    else:
        models = {target.models}
    found = [model for model in models if isinstance(model, Phases)]
    if not found:
        raise CommandLineError(
            f"`--phase {phase}`: `{name}` has no two models to choose from. Give it "
            f"`Phases(api=..., local=...)`, or name the model itself with --model."
        )
    for model in found:
        model.phase = phase
