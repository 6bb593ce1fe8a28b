"""The settings that all nodes and users of a queue share: changing them."""

from collections.abc import Mapping

from queuectl.history import event_of
from queuectl.request import plain
from queuectl.settings import Layer, canonical, layered, write_value
from queuectl.store.contract import Store


def set_shared(store: Store, name: str, value: object) -> tuple[str, str]:
    key, text = write_value(name, plain(value))
    _change(store, key, text)
    return key, text


def unset_shared(store: Store, name: str) -> str:
    key = canonical(name)
    key = "max_retries" if key == "max_attempts" else key
    _change(store, key, None)
    return key


def _change(store: Store, key: str, text: str | None) -> None:
    """Change a shared setting, if those that are shared then still fit together."""

    def check(shared: Mapping[str, str]) -> None:
        layered([Layer("the config table", shared)])

    detail = f"{key} unset" if text is None else f"{key} = {text}"
    event = event_of(store.clock.now(), "config", detail=detail)
    store.settings.set_config(key, text, now=event.at, check=check, event=event)
