"""Django in the process of a test: one configuration for all tests of a run, changed as they need.

Importing this configures it.
"""

from typing import Any
from urllib.parse import unquote, urlsplit

import django
import pymysql
from django.conf import settings
from django.db import connections

ENGINES = {"postgresql": "postgresql", "mysql": "mysql"}

# What Django takes for MySQL's client is mysqlclient, which this stands in for.
pymysql.install_as_MySQLdb()

if not settings.configured:
    settings.configure(
        INSTALLED_APPS=["django_tasks", "tests.contrib.django_shop"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        TASKS={
            "default": {
                "BACKEND": "queuectl.contrib.django.QueuectlBackend",
                "QUEUES": ["default", "mail"],
                "OPTIONS": {"database": "unset.db"},
            }
        },
        USE_TZ=True,
    )
    django.setup()


def add_database(alias: str, url: str) -> dict[str, str]:
    """Give Django a database of a server; returns what names our tables there."""
    parts = urlsplit(url)
    settings.DATABASES[alias] = connections.settings[alias] = connections.configure_settings(
        {
            "default": {"ENGINE": "django.db.backends.dummy"},
            alias: {
                "ENGINE": f"django.db.backends.{ENGINES[parts.scheme]}",
                "NAME": unquote(parts.path[1:]),
                "USER": unquote(parts.username or ""),
                "PASSWORD": unquote(parts.password or ""),
                "HOST": parts.hostname,
                "PORT": parts.port,
            },
        }
    )[alias]
    name, _, value = parts.query.partition("=")
    return {name: value}


def remove_database(alias: str) -> None:
    """Take it away again."""
    connections[alias].close()
    del connections[alias], connections.settings[alias]
    settings.DATABASES.pop(alias, None)


def use_backend(**options: Any) -> Any:
    """Have the tasks of Django go to a queue, and return the backend."""
    from django_tasks import task_backends

    task_backends.settings["default"] = {
        "BACKEND": "queuectl.contrib.django.QueuectlBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": options,
    }
    if hasattr(task_backends._connections, "default"):
        del task_backends["default"]
    return task_backends["default"]
