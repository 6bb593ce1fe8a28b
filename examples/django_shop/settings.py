"""The settings of a small shop. Its tables would be in `DATABASES`; its tasks are in `jobs.db`."""

import os

SECRET_KEY = "only an example"
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "examples.django_shop.urls"
INSTALLED_APPS = ["django_tasks", "examples.django_shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
USE_TZ = True

TASKS = {
    "default": {
        "BACKEND": "queuectl.contrib.django.QueuectlBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"database": os.environ.get("SHOP_DB", "jobs.db"), "retries": 3},
    }
}
