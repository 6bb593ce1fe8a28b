"""What workers do for the shop. From Django 6.0 on, `task` is in `django.tasks`."""

from django_tasks import task


@task(queue_name="mail", priority=5)
def send_mail(to: str, text: str) -> dict[str, str | int]:
    """Send a mail, and return a receipt."""
    return {"to": to, "bytes": len(text.encode())}
