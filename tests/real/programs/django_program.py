"""Django: a threaded server with clients, the ORM over SQLite, templates, signals, forms, asynchronous views."""

import asyncio
import http.client
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import django
from django.conf import settings

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.db", "OPTIONS": {"timeout": 30}}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    MIDDLEWARE=["django.middleware.common.CommonMiddleware", f"{__name__}.counting"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of a test",
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    USE_TZ=True,
)
django.setup(set_prefix=False)

from asgiref.sync import async_to_sync, sync_to_async  # noqa: E402
from django import forms  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.models.signals import post_save  # noqa: E402
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse  # noqa: E402
from django.template import engines  # noqa: E402
from django.test import AsyncClient, Client  # noqa: E402
from django.urls import path  # noqa: E402

steps = 0
lock = threading.Lock()


def step(value: Any) -> Any:
    global steps
    with lock:
        steps += 1
    return value


def refused(call: Any) -> str:
    try:
        return f"no error: {call()}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:70]}"


class Order(models.Model):
    name = models.CharField(max_length=20, unique=True)
    total = models.IntegerField()

    class Meta:
        app_label = "shop"


class OrderForm(forms.Form):
    name = forms.CharField(max_length=5)
    total = forms.IntegerField(min_value=1)

    def clean_name(self) -> str:
        if self.cleaned_data["name"] == "bad":
            raise forms.ValidationError("a bad name")
        return step(self.cleaned_data["name"])


def counting(answer: Any) -> Any:
    def middleware(request: HttpRequest) -> HttpResponse:
        step(request.path)
        return answer(request)

    return middleware


def listing(request: HttpRequest) -> HttpResponse:
    template = engines["django"].from_string(
        "{% for o in orders %}{{ o.name|upper }}={{ o.total }}{{ mark }} {% endfor %}"
    )
    orders = Order.objects.filter(total__gt=int(request.GET.get("over", "0"))).order_by("id")
    return HttpResponse(template.render({"orders": orders, "mark": lambda: step("!")}))


def create(request: HttpRequest) -> HttpResponse:
    form = OrderForm(request.POST)
    if not form.is_valid():
        return JsonResponse(form.errors, status=400)
    return JsonResponse({"id": Order.objects.create(**form.cleaned_data).name})


def detail(request: HttpRequest, number: int) -> HttpResponse:
    try:
        return JsonResponse({"name": Order.objects.get(total=number).name})
    except Order.DoesNotExist as error:
        raise Http404(str(error)) from error


def broken(request: HttpRequest) -> HttpResponse:
    return {}["nothing"]


def stream(request: HttpRequest) -> StreamingHttpResponse:
    return StreamingHttpResponse(step(f"part {n};") for n in range(4))


async def later(request: HttpRequest) -> HttpResponse:
    await asyncio.sleep(0)
    count = await sync_to_async(lambda: step(sum(range(5))))()
    return JsonResponse({"count": count, "orders": await Order.objects.acount()})


urlpatterns = [
    path("", listing), path("new", create), path("order/<int:number>", detail), path("broken", broken),
    path("stream", stream), path("later", later),
]  # fmt: skip


class Quiet(WSGIRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


def ask(port: int, where: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", where)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text[:60]


def served() -> None:
    server = ThreadedWSGIServer(("127.0.0.1", 0), Quiet)
    server.set_app(WSGIHandler())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            paths = ["/?over=15", "/order/3", "/order/99", "/broken", "/stream", "/nowhere", "/later"] * 3
            for where, answer in sorted(
                set(zip(paths, pool.map(lambda where: ask(server.server_port, where), paths), strict=True))
            ):
                print(where, answer)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def database() -> None:
    with connection.schema_editor() as editor:
        editor.create_model(Order)
    post_save.connect(lambda sender, instance, **rest: step(instance), weak=False)
    for n in range(20):
        Order.objects.create(name=f"o{n}", total=n)
    try:
        with transaction.atomic():
            Order.objects.create(name="half", total=1)
            Order.objects.create(name="o1", total=1)
    except IntegrityError as error:
        print(type(error).__name__, error, Order.objects.filter(name="half").exists())
    print(Order.objects.aggregate(models.Sum("total"), models.Avg("total")))
    print(refused(lambda: Order.objects.get(name="none")), refused(lambda: Order.objects.get(total__gt=3)))
    print(refused(lambda: Order.objects.filter(colour="red")), refused(lambda: Order.objects.raw("select nothing")[0]))
    print(refused(lambda: engines["django"].from_string("{% nothing %}")))


def main() -> int:
    logging.getLogger("django.request").setLevel(logging.CRITICAL)
    database()
    client = Client(raise_request_exception=False)
    print(
        client.post("/new", {"name": "bad", "total": "0"}).json(),
        client.post("/new", {"name": "new", "total": "70"}).json(),
    )
    print(refused(lambda: Client().get("/broken")), client.get("/broken").status_code)
    print(async_to_sync(AsyncClient().get)("/later").content)
    served()
    connection.close()
    print("steps", steps)
    return 12


if __name__ == "__main__":
    sys.modules["django_program"] = sys.modules["__main__"]
    sys.exit(main())
