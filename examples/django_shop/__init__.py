"""Django: one request has a mail sent, another one asks for its receipt.

export DJANGO_SETTINGS_MODULE=examples.django_shop.settings
django-admin runserver
queuectl --db jobs.db worker start --app queuectl.contrib.django:app
"""
