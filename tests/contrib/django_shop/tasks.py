"""The tasks of an app of Django's."""

from typing import Any

from django_tasks import task

from queuectl import Retry, Snooze, current_job


class ShopError(Exception):
    pass


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task(queue_name="mail", priority=7, takes_context=True, job={"retries": 0, "timeout": "5m"})
def send(context: Any, to: str) -> list[Any]:
    return [context.task_result.id == current_job().id, context.attempt, to]


@task
async def fetch(url: str) -> dict[str, str]:
    return {"url": url}


@task
def fail(how: str) -> None:
    if how == "retry":
        raise Retry(after="1h")
    if how == "snooze":
        raise Snooze("1h")
    raise ShopError(how)
