"""Files and sockets of a running Erlang node, read here as that node itself reads them, term by term."""

from __future__ import annotations

import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import inviso
import pytest
from inviso import etf, log
from otp import command, erl, needs_otp

pytestmark = needs_otp

# traces to a file or a wrap set
TRACE = r"""
[Kind, Name] = init:get_plain_arguments(),
Port = case Kind of "file" -> dbg:trace_port(file, Name); _ -> dbg:trace_port(file, {Name, wrap, ".w", 600, 4}) end,
{ok, _} = dbg:tracer(port, Port),
Run = fun() -> receive go -> ok end,
  [lists:seq(1, N) || N <- lists:seq(0, 20)], catch lists:seq(a, b), self() ! {hello, make_ref()}, receive _ -> ok end,
  lists:reverse([#{1 => one, 1.0 => "two"}, <<1:3>>, [a | b], fun lists:map/2, fun(X) -> X end, 1 bsl 100,
    hd(erlang:ports()),    <<"text">>, <<255>>, 'ä', "string", {}, 0.1, -0.0, undefined, true]),
  Child = spawn_link(fun() -> register(child, self()) end), Monitor = monitor(process, Child),
  receive {'DOWN', Monitor, _, _, _} -> ok end end,
Pid = spawn(Run),
{ok, _} = dbg:p(Pid, [call, send, 'receive', procs, sos, timestamp, running, garbage_collection]),
{ok, _} = dbg:tpl(lists, seq, 2, cx), {ok, _} = dbg:tp(lists, reverse, 1, cx),
Gone = monitor(process, Pid), Pid ! go, receive {'DOWN', Gone, _, _, _} -> ok end,
T = erlang:trace_delivered(all), receive {trace_delivered, _, T} -> ok end, dbg:stop(), halt().
"""

# reads the log, and compares each term with those of a file
COMPARE = r"""
[Kind, Name, Theirs] = init:get_plain_arguments(),
Parameters = case Kind of "file" -> Name; _ -> {Name, wrap, ".w", 600, 4} end,
Me = self(),
Add = fun(end_of_trace, All) -> Me ! {all, lists:reverse(All)}; (M, All) -> [M | All] end,
dbg:trace_client(file, Parameters, {Add, []}),
Own = receive {all, Messages} -> Messages after 20000 -> timeout end,
{ok, Bytes} = file:read_file(Theirs),
Read = [binary_to_term(T) || <<N:32, T:N/binary>> <= Bytes],
[io:format("~0p~n~0p~n", [A, B]) || {A, B} <- lists:zip(Own, Read), A =/= B],
io:format("~p ~p", [length(Own), Own =:= Read]), halt().
"""


@pytest.mark.parametrize("kind", ["file", "wrap"])
def test_logs_of_a_node_are_read_as_that_node_reads_them(kind: str, tmp_path: Path) -> None:
    name = str(tmp_path / "trace")
    erl(TRACE, kind, name)
    source: Any = name if kind == "file" else (name, "wrap", ".w")
    messages = list(log.read(source))
    tags = {"call", "return_from", "exception_from", "send", "receive", "spawn", "in", "out"}
    assert messages and (kind == "wrap" or tags <= log.stats(source).tags.keys())
    theirs = tmp_path / "theirs"
    terms = [etf.dumps(message) for message in messages]
    theirs.write_bytes(b"".join(struct.pack(">I", len(term)) + term for term in terms))
    assert erl(COMPARE, kind, name, str(theirs)) == f"{len(messages)} true"
    if kind == "wrap":
        assert len(list(tmp_path.glob("trace*.w"))) == 4
    # and the log that is made of it here is one for that node
    back, packed = tmp_path / "back", tmp_path / "packed"
    assert log.convert(source, packed, "blocks").damaged == 0
    assert log.convert(packed, back).records == len(messages)
    assert erl(COMPARE, "file", str(back), str(theirs)) == f"{len(messages)} true"


# Controlled by its standard input: a node of OTP 29 with a socket of gen_tcp beside the port dies of SIGBUS.
SERVE = r"""
{ok, _} = dbg:tracer(port, dbg:trace_port(ip, {0, 5})),
{ok, Port} = dbg:trace_port_control(get_listen_port),
Count = fun C(N, To) when N > To -> done; C(N, To) -> lists:seq(1, N), C(N + 1, To) end,
Loop = fun L() -> receive {calls, From, To, Who} -> Who ! Count(From, To), L() end end,
Pid = spawn(Loop),
{ok, _} = dbg:p(Pid, [call]), {ok, _} = dbg:tp(lists, seq, 2, []),
Calls = fun(From, To) -> Pid ! {calls, From, To, self()}, receive done -> ok end,
  T = erlang:trace_delivered(all), receive {trace_delivered, _, T} -> ok end end,
Calls(1, 12),
io:format("~p ~s~n", [Port, pid_to_list(Pid)]),
Go = fun G() -> case io:get_line('') of
    "calls " ++ Rest ->
        [From, To] = [list_to_integer(N) || N <- string:lexemes(Rest, " \n")],
        Calls(From, To), io:format("done~n"), G();
    _ -> dbg:stop() end end,
Go(), halt().
"""


@contextmanager
def node() -> Iterator[tuple[int, str, Any]]:
    """A node that has traced 12 calls to an IP port with room for 5: the port's number, its pid, and a function for
    more calls.
    """
    words = [word for word in command(SERVE) if word != "-noinput"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        told, said = process.stdin, process.stdout
        assert told is not None and said is not None
        end = threading.Timer(60, process.kill)
        end.start()

        def more(text: str) -> None:
            told.write(f"{text}\n")
            told.flush()
            assert text == "end" or said.readline() == "done\n"

        try:
            port, pid = said.readline().split()
            yield int(port), pid, more
        finally:
            end.cancel()
            process.kill()


@pytest.fixture(autouse=True)
def _empty_mailbox() -> None:
    while inviso.peek():
        inviso.receive(timeout=0)


def calls(messages: list[Any], pid: str) -> list[int]:
    assert all(
        m[0] == "trace" and repr(m[1]) == pid and m[2] == "call" and m[3][:2] == ("lists", "seq") for m in messages
    )
    return [message[3][2][1] for message in messages]


def test_a_client_on_a_running_nodes_port() -> None:
    with node() as (port, pid, more):
        reader = log.trace_client("ip", port)
        first = [next(reader) for _ in range(6)]
        assert calls(first[:5], pid) == [1, 2, 3, 4, 5] and first[5] == ("drop", 7)
        more("calls 13 15")
        assert calls([next(reader) for _ in range(3)], pid) == [13, 14, 15]
        more("end")
        assert list(reader) == []


def test_a_client_process_on_a_running_nodes_port_and_another_after_it() -> None:
    me = inviso.self()

    def hand(message: Any, count: int) -> int:
        inviso.send(me, (count, message))
        return count + 1

    with node() as (port, pid, more):
        client = log.trace_client("ip", ("127.0.0.1", port), (hand, 0))
        found = [inviso.receive(timeout=30) for _ in range(6)]
        assert [count for count, _ in found] == [0, 1, 2, 3, 4, 5] and found[5][1] == ("drop", 7)
        log.stop_trace_client(client)
        # the port waits for the next client, which gets messages from then on
        reader = log.trace_client("ip", port)
        more("calls 20 22")
        assert calls([next(reader) for _ in range(3)], pid)[-1] == 22
        more("end")
        assert list(reader) == []
