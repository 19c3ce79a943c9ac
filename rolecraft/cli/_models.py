"""One way to give every role its model, one to override it per role."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rolecraft.cli._exits import CommandLineError
from rolecraft.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from rolecraft.environments import Team
    from rolecraft.models import Model


class Models:
    """The models of one command line: `everyone`, and `per_role` by the role's name.

    Roles with the same model share one object. Raises `CommandLineError` for what names no model.
    """

    def __init__(
        self,
        model: str | None,
        role_models: Sequence[str] | None = None,
        *,
        option: str = "--model",
    ) -> None:
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
            try:
                self._made[spec] = resolve_model(spec)
            except UsageError as error:
                if "no model" not in str(error):
                    raise CommandLineError(f"`{option}`: {error}") from error
                raise CommandLineError(
                    f"`{option}`: {spec!r} names no model. Write PROVIDER/NAME for one behind "
                    f"an API, such as `openai/gpt-4o-mini`; `transformers:PATH` for one in this "
                    f"process, a folder or a name on the Hugging Face hub; or `human` for you."
                ) from error
        return self._made[spec]

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


def stand_ins(team: Team) -> list[str]:
    """Names of the team's models that are no real ones: doubles, rules, chance."""
    models = (team.env.model_of(role) for role in team.roles.values())
    return sorted({model.name for model in models if model is not None and not model.real})
