"""A WSGI application that answers with its process id."""

import os


def price(number):
    return number + 1


def application(environ, start_response):
    text = f"{os.getpid()} {price(int(environ['QUERY_STRING']))}"
    start_response("200 OK", [("content-type", "text/plain"), ("content-length", str(len(text)))])
    return [text.encode()]
