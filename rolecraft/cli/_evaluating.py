"""What `rolecraft evaluate` compares: models and adapters by label."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rolecraft.cli._exits import CommandLineError
from rolecraft.cli._models import Models, is_stand_in
from rolecraft.cli._thinking import thinking_words
from rolecraft.errors import UnknownName

if TYPE_CHECKING:
    from rolecraft.cli._output import Output
    from rolecraft.models import Model
    from rolecraft.scenarios import Scenario

TUNED = " + adapters"
"""What the label of a model with adapters ends with."""

_LAST_PART = 2**20
"""Bytes of a file of weights."""


class Contestants:
    """The models of a command line by their labels, and what tells them from others."""

    def __init__(
        self,
        models: Sequence[str],
        role_models: Sequence[str],
        adapters: Sequence[str],
        *,
        base_url: str | None,
        thinking: Mapping[str, bool] | None = None,
    ) -> None:
        if len(set(models)) < len(models):
            raise CommandLineError("`--model`: a model is named twice. Each is evaluated once.")
        if base_url is not None and not models and not role_models:
            raise CommandLineError("`--base-url` says where models are: name one with `--model`.")
        if thinking and not models:
            raise CommandLineError("`--thinking` is said to a model: name it with `--model`.")
        self._thinking = dict(thinking or {})
        self._made = [Models(spec, None, base_url=base_url) for spec in models]
        self._roles = Models(None, role_models, base_url=base_url)
        self._adapters = [_pair(text) for text in adapters]
        if len({role for role, _ in self._adapters}) < len(self._adapters):
            raise CommandLineError("`--adapter`: a role is named twice. Each has one adapter.")
        if self._adapters and not models:
            raise CommandLineError("`--adapter` tunes a model: name the base with `--model`.")
        self.by_label: dict[str, Model] = {}
        for spec, made in zip(models, self._made, strict=True):
            label = Path(spec).name if is_stand_in(spec) else spec
            assert made.everyone is not None
            self.by_label[spec if label in self.by_label else label] = made.everyone
        if self._adapters:
            self._add_tuned(models)
        self.identities = {label: _weights(label) for label in self.by_label}
        """What tells a model from others of its name."""

    def _add_tuned(self, models: Sequence[str]) -> None:
        """Each local model once more, so that the base answers without what was learnt."""
        from rolecraft.models.token_model import TokenModel

        for spec in models:
            if not isinstance(self.by_label.get(spec), TokenModel):
                raise CommandLineError(
                    f"`--adapter`: {spec!r} is no model of this process; adapters want "
                    f"transformers:PATH or vllm:PATH."
                )
            again = Models(spec, None)
            self._made.append(again)
            assert again.everyone is not None
            self.by_label[f"{spec}{TUNED}"] = again.everyone

    @property
    def role_models(self) -> dict[str, Model]:
        return self._roles.per_role

    def check_keys(self) -> None:
        """Raise `MissingKey` for a model that certainly has no key."""
        for each in (*self._made, self._roles):
            each.check_keys()

    def say_who_plays(self, scenarios: Sequence[Scenario], output: Output) -> None:
        """Say of a scenario without a model that its untrained one plays.

        Raises `CommandLineError` where it has none.
        """
        if self.by_label:
            return
        for scenario in scenarios:
            own = any(role.model is not None for role in scenario.team())
            if scenario.models is not None or own:
                continue
            if scenario.untrained is not None:
                output.note(
                    f"No --model was given: the roles of `{scenario.name}` have its untrained "
                    f"model."
                )
            elif not self.role_models:
                raise CommandLineError("Say which model plays: `--model MODEL`.")

    def check_roles(self, scenarios: Sequence[Scenario]) -> None:
        """Raise `CommandLineError` for a role to be told to think that no scenario has."""
        known = [role.name for scenario in scenarios for role in scenario.team()]
        for name in self._thinking:
            if name not in known:
                raise CommandLineError(f"`--thinking`: {UnknownName('Role', name, {*known})}")

    async def load(self) -> None:
        """Load the adapters, and say who thinks; both go into `identities`.

        Raises what loading raises, and `UsageError` for a model whose thinking has no switch.
        """
        await self._load_adapters()
        if not self._thinking:
            return
        from rolecraft.models.thinking import Thinking

        said = thinking_words(self._thinking)
        for label, model in self.by_label.items():
            self.by_label[label] = Thinking(model, self._thinking)
            self.identities[label] = ", ".join(filter(None, [self.identities[label], said]))

    async def _load_adapters(self) -> None:
        for label, model in self.by_label.items():
            if label.endswith(TUNED):
                known = [self.identities[label]]
                for role, path in self._adapters:
                    version = await model.load_adapter(role, path)  # type: ignore[attr-defined]
                    known.append(f"adapter {role} {version.digest[:16]}")
                self.identities[label] = ", ".join(filter(None, known))

    async def aclose(self) -> None:
        for each in (*self._made, self._roles):
            await each.aclose()


def _pair(text: str) -> tuple[str, str]:
    role, equals, path = text.partition("=")
    if not (role and equals and path):
        raise CommandLineError(f"`--adapter {text}`: write ROLE=PATH.")
    return role, path


def _weights(label: str) -> str:
    """A digest of the weights in the folder that a label names; empty where it names none.

    It is of each file's size and its last part, not of gigabytes: training changes every weight.
    """
    folder = Path(label.removesuffix(TUNED).partition(":")[2])
    files = sorted(folder.glob("*.safetensors")) if folder.is_dir() else []
    if not files:
        return ""
    digest = sha256()
    for path in files:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_PART))
            digest.update(f"{path.name} {size} ".encode() + file.read())
    return f"weights {digest.hexdigest()[:16]}"
