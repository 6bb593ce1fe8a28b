"""Completes requests with what the settings say, so that later changes leave jobs alone."""

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import cache
from itertools import repeat

from queuectl.fields import REQUESTED
from queuectl.job import Like, NewJob
from queuectl.request import (
    Values,
    check_commands,
    current_environment,
    current_folder,
    with_environment,
)
from queuectl.settings import Settings
from queuectl.values import fields, in_order, replace

MOST_MODELS = 1_000
"""What is different each time need not be remembered."""
_RAISED = {f.name: f.at_least for f in REQUESTED if f.at_least}
_NOTHING: Values = {}
"""What a request says that is no more than a command."""


class Completion:
    """What a request gets where it says nothing itself."""

    def __init__(self, settings: Settings, *, hidden: Collection[str] = ()) -> None:
        """Take the settings, and the variables in which passwords of the store may be."""
        self._hidden = tuple(hidden)
        # All fields of a job, in their order.
        self._usual: Values = {
            **{f.name: f.default for f in fields(NewJob)},
            **{f.name: getattr(settings, f.setting) for f in REQUESTED if f.setting},
        }

    def job(
        self,
        given: Values,
        *,
        folder: Callable[[], str] = current_folder,
        environment: Callable[[tuple[str, ...]], Mapping[str, str]] = current_environment,
    ) -> NewJob:
        """Make a job of what is given.

        `folder` finds the current folder, and `environment` the current one, if that is needed.
        """
        values = self._usual | given
        for name, other in _RAISED.items():
            if other in given and name not in given:
                values[name] = max(values[name], given[other])
        if "cwd" not in given:
            values["cwd"] = folder()
        if "env" not in given:
            values["env"] = {}
        if values["env_all"]:
            values["env"] = with_environment(environment(self._hidden), values["env"])
        return in_order(NewJob, values.values())


class Series:
    """Completes requests that are enqueued together, here and now."""

    def __init__(self, completion: Callable[[], Completion]) -> None:
        """Take from `completion` what goes for a request at the moment."""
        self._completion = completion
        self._folder = cache(current_folder)
        self._environment = cache(current_environment)
        self._by: Completion | None = None
        self._models: dict[Hashable, NewJob] = {}
        self._given: Values | None = None
        self._model = NewJob()

    def job(self, given: Values) -> Like:
        """Make a job of what is given, which is taken apart.

        What doesn't differ from a request before isn't made again.
        """
        id = given.pop("id", None)
        command = given.pop("command", None)
        argv = given.pop("argv", None)
        stdin = given.pop("stdin", None)
        model = self._model_for(given)
        if stdin is not None:
            # It may be long, and so isn't kept for those that follow.
            model = replace(model, stdin=stdin)
        return id, command, argv, model

    def commands(self, texts: list[str]) -> list[Like]:
        """Make jobs of commands that say no more."""
        nothing, model = repeat(None), repeat(self._model_for(_NOTHING))
        return list(zip(nothing, check_commands(texts), nothing, model, strict=False))

    def _model_for(self, given: Values) -> NewJob:
        completion = self._completion()
        if completion is not self._by:
            self._by, self._given = completion, None
            self._models.clear()
        if given != self._given:
            self._given, self._model = given, self._find_model(completion, given)
        return self._model

    def _find_model(self, completion: Completion, given: Values) -> NewJob:
        what = tuple(given.items())
        try:
            model = self._models.get(what)
        except TypeError:
            # It sets variables, and so can't be looked up.
            return self._make(completion, given)
        if model is None:
            if len(self._models) == MOST_MODELS:
                self._models.clear()
            model = self._models[what] = self._make(completion, given)
        return model

    def _make(self, completion: Completion, given: Values) -> NewJob:
        return completion.job(given, folder=self._folder, environment=self._environment)
