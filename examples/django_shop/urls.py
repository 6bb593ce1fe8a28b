"""The pages of the shop."""

import json

from django.http import HttpRequest, JsonResponse
from django.urls import path
from django_tasks.exceptions import TaskResultDoesNotExist

from examples.django_shop.tasks import send_mail


def send(request: HttpRequest) -> JsonResponse:
    """Have a mail sent, and answer at once."""
    given = json.loads(request.body)
    result = send_mail.enqueue(to=given["to"], text=given["text"])
    return JsonResponse({"job": result.id}, status=202)


def receipt(request: HttpRequest, id: str) -> JsonResponse:
    """Say what became of it."""
    try:
        result = send_mail.get_result(id)
    except TaskResultDoesNotExist:
        return JsonResponse({"error": "There is no such mail."}, status=404)
    value = result.return_value if result.status == "SUCCESSFUL" else None
    return JsonResponse({"status": result.status, "receipt": value})


urlpatterns = [path("mails", send), path("mails/<id>", receipt)]
