"""Gunicorn traces itself from its start, and so do its workers. Each has its own log, which is whole at its end."""

from collections import Counter
from pathlib import Path

from service_tools import by_node, calls, end, get, merged, service

CASE = """
inviso_rt.tpl("shop_wsgi", "_", "_", [])
inviso_rt.tf("all", ["call", "timestamp"])
"""
INIT = [("tracerdata", ("file", "web.log")), ("cmdfiles", ["all.case"])]
CONFIG = [
    ("repeat", 1),
    ("node", "web"),
    ("follow", True),
    ("log_dir", "logs"),
    ("mfa", ("inviso.autostart", "init", [INIT])),
]
WORDS = ("-m", "gunicorn", "--no-control-socket", "--log-level", "error", "-w", "2", "-b", "unix:web.sock")

for name, text in (("all.case", CASE), ("auto.config", "".join(f"{pair!r}\n" for pair in CONFIG))):
    Path(name).write_text(text)
    Path(name).chmod(0o600)

answers: Counter[int] = Counter()
with service(*WORDS, "shop_wsgi:application", INVISO_AUTOSTART="auto.config") as gunicorn:
    while len(answers) < 2:
        number = answers.total()
        pid, price = map(int, get("web.sock", f"/?{number}").split())
        assert price == number + 1 and number < 10_000, answers
        answers[pid] += 1
    end(gunicorn)
assert Path("auto.config").read_text().startswith("('repeat', 0)")
assert {each.name for each in Path("logs").iterdir()} == {"web.log", *(f"web-{pid}.log" for pid in answers)}
for pid, number in answers.items():
    assert calls(f"logs/web-{pid}.log", "shop_wsgi:price") == number
assert calls("logs/web.log", "shop_wsgi:price") == 0
messages = [message for message in merged("logs") if message[3][1] != "<module>"]  # the import of the application
assert by_node(messages) == {f"web-{pid}": 2 * number for pid, number in answers.items()}
