"""What is stored of the queues that a node serves, and of what it has."""

from typing import TYPE_CHECKING, Any

from queuectl.values import fields

if TYPE_CHECKING:
    from queuectl.admission import Serving


def written(serving: "Serving") -> object:
    """Return what is stored of the queues that a node serves: most often a list of names."""
    said = {f.name: getattr(serving, f.name) for f in fields(serving)}
    if not any(value for name, value in said.items() if name != "names"):
        return serving.names
    return {name: value for name, value in said.items() if value}


def serving_of(stored: Any) -> "Serving":
    """Return which queues a node serves, by what is stored of that."""
    from queuectl.admission import Serving

    said: dict[str, Any] = {"names": stored} if isinstance(stored, list) else stored
    names, excluded, weights, handlers, labels = (
        tuple(said.get(word, ())) for word in ("names", "excluded", "weights", "handlers", "labels")
    )
    in_order, no_commands = said.get("in_order", False), said.get("no_commands", False)
    resources = said.get("resources", "")
    return Serving(names, excluded, weights, in_order, handlers, no_commands, resources, labels)
