"""Flask: a threaded server with clients, contexts, template filters in Python, error handlers, streams, a command."""

import http.client
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click
from flask import (
    Blueprint,
    Flask,
    abort,
    flash,
    g,
    jsonify,
    render_template_string,
    request,
    session,
    stream_with_context,
)
from jinja2 import TemplateSyntaxError, UndefinedError
from werkzeug.serving import WSGIRequestHandler, make_server

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


app = Flask(__name__)
app.secret_key = "of a test"
shop = Blueprint("shop", __name__, url_prefix="/shop")


class OutOfStock(Exception):
    pass


@app.before_request
def begin() -> None:
    g.path = step(request.path)


@app.teardown_request
def end(error: BaseException | None) -> None:
    step(error)


@app.errorhandler(OutOfStock)
def sold_out(error: OutOfStock) -> Any:
    return jsonify(error=str(error), path=g.path), 409


@app.template_filter("stepped")
def stepped(value: Any) -> Any:
    return step(value)


@shop.route("/list/<int:number>")
def listing(number: int) -> str:
    return render_template_string("{% for n in range(number) %}{{ n|stepped }},{% endfor %}{{ g.path }}", number=number)


@shop.post("/order")
def order() -> Any:
    items = request.get_json()["items"]
    if len(items) > 3:
        raise OutOfStock(f"{len(items)} items")
    session["count"] = session.get("count", 0) + len(items)
    flash("ordered")
    return jsonify(total=sum(items), count=session["count"])


@shop.get("/stream")
def stream() -> Any:
    def parts() -> Any:
        for n in range(4):
            yield step(f"part {n} of {request.path};")

    return app.response_class(stream_with_context(parts()))


@app.get("/teapot")
def teapot() -> Any:
    abort(418)


@app.get("/broken")
def broken() -> Any:
    return str({}["nothing"])


@app.cli.command("count")
@click.argument("number", type=int)
def count(number: int) -> None:
    for n in range(number):
        click.echo(step(n))


app.register_blueprint(shop)


class Quiet(WSGIRequestHandler):
    def log_request(self, *arguments: Any) -> None:
        pass


def ask(port: int, where: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", where)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text[:50]


def served() -> None:
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01))
    thread.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            paths = ["/shop/list/20", "/shop/stream", "/teapot", "/broken", "/nowhere", "/shop/order"] * 4
            answers = pool.map(lambda where: ask(server.server_port, where), paths)
            for where, answer in sorted(set(zip(paths, answers, strict=True))):
                print(where, answer)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> int:
    app.logger.setLevel(logging.CRITICAL)
    client = app.test_client()
    for items in ([1, 2], [3], [1, 2, 3, 4]):
        answer = client.post("/shop/order", json={"items": items})
        print(answer.status_code, answer.get_json())
    print(
        client.post("/shop/order", data="{", content_type="application/json").status_code,
        client.get("/broken").status_code,
    )
    app.config["PROPAGATE_EXCEPTIONS"] = True
    print(refused(lambda: client.get("/broken")))
    app.config["PROPAGATE_EXCEPTIONS"] = None
    with app.test_request_context("/?a=1&a=2"):
        print(request.args.getlist("a"), refused(lambda: request.args["b"]))
        for text, kind in (
            ("{% if %}", TemplateSyntaxError),
            ("{{ a.b.c }}", UndefinedError),
            ("{{ 1 / 0 }}", ZeroDivisionError),
        ):
            print(kind.__name__, refused(lambda: render_template_string(text)))  # noqa: B023
    print(refused(lambda: g.path))
    done = app.test_cli_runner().invoke(args=["count", "3"])
    print(repr(done.output), done.exit_code, app.test_cli_runner().invoke(args=["count", "x"]).exit_code)
    served()
    print("steps", steps)
    return 13


if __name__ == "__main__":
    sys.exit(main())
