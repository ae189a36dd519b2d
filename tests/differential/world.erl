%% Carries out scenarios of trace sessions on a real Erlang, for tests.differential.world (which describes the steps).
%%
%% A line of standard input is a list of scenarios, a line of standard output that begins with '=' the list of their answers; both are
%% terms in the external format, in base64. Processes, ports and sessions stand in terms as {'$named', Kind, Name}.
-module(world).
-export([main/1, subject/0]).

main(Port) ->
    say(Port, {ready, erlang:system_info(otp_release)}),
    loop(Port, []).

loop(Port, Line) ->
    receive
        {Port, {data, {noeol, Part}}} ->
            loop(Port, [Line, Part]);
        {Port, {data, {eol, Part}}} ->
            Asked = binary_to_term(base64:decode(iolist_to_binary([Line, Part]))),
            say(Port, answers(Asked)),
            loop(Port, []);
        {Port, eof} ->
            halt(0)
    end.

say(Port, Term) ->
    port_command(Port, ["\n=", base64:encode(term_to_binary(Term)), "\n"]).

answers({atoms, Names}) -> [binary_to_atom(Name, utf8) || Name <- Names];
answers(Scenarios) -> [scenario(Steps) || Steps <- Scenarios].

%% The function that the traced processes call.
subject() -> ok.

scenario(Steps) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({answer, play(Steps)}) end),
    receive
        {'DOWN', Monitor, process, Pid, {answer, Answer}} -> Answer;
        {'DOWN', Monitor, process, Pid, Why} -> {died, unicode:characters_to_binary(io_lib:format("~p", [Why]))}
    end.

play(Steps) ->
    Collectors = [{{pid, Name}, spawn(fun collect/0)} || Name <- [t1, t2]],
    {Answers, Named} = lists:mapfoldl(fun step/2, [{{ref, r1}, make_ref()} | Collectors], Steps),
    [try trace:session_destroy(Session) catch error:_ -> gone end || {{session, _}, Session} <- Named],
    [exit(Pid, kill) || {{pid, _}, Pid} <- Named, Pid =/= self()],
    Answers.

collect() ->
    receive _ -> collect() end.

step(Step, Named) ->
    try do(values(Step, Named), Named) of
        {Value, Next} -> {{ok, names(Value, Next)}, Next}
    catch
        error:badarg:Stack -> {{badarg, blamed(Stack)}, Named};
        error:{badarg, _}:Stack -> {{badarg, blamed(Stack)}, Named};
        error:Reason when is_atom(Reason) -> {{error, Reason}, Named};
        error:{Reason, _} when is_atom(Reason) -> {{error, Reason}, Named}
    end.

%% The arguments that Erlang's error information blames, by their positions.
blamed([{Module, Function, Arguments, Info} | _] = Stack) ->
    case proplists:get_value(error_info, Info) of
        #{module := Formats} when is_list(Arguments) ->
            Said = Formats:format_error(badarg, Stack),
            Off = case {Module, Function} of {erlang, trace_delivered} -> 1; _ -> 0 end,
            [Position + Off || Position <- lists:sort(maps:keys(Said)), is_integer(Position)];
        _ ->
            []
    end.

do({create, Name, As, Tracer, Options}, Named) ->
    Session = trace:session_create(As, Tracer, Options),
    {ok, [{{session, Name}, Session} | Named]};
do({end_collector, Pid}, Named) ->
    {gone(Pid, fun() -> exit(Pid, kill) end), Named};
do({spawn, Name}, Named) ->
    {ok, [{{pid, Name}, spawn(fun serve/0)} | Named]};
do({spawn, Name, By, Link}, Named) ->
    {ok, Pid} = ask(By, fun() -> case Link of true -> spawn_link(fun serve/0); false -> spawn(fun serve/0) end end),
    {ok, [{{pid, Name}, Pid} | Named]};
do({link, By, Pid}, Named) ->
    {element(1, ask(By, fun() -> link(Pid) end)), Named};
do({unlink, By, Pid}, Named) ->
    {element(1, ask(By, fun() -> unlink(Pid) end)), Named};
do({'end', Pid}, Named) ->
    {gone(Pid, fun() -> Pid ! stop end), Named};
do({open, Name, By}, Named) ->
    {ok, Port} = ask(By, fun() -> open_port({spawn_driver, "udp_inet"}, [binary]) end),
    {ok, [{{port, Name}, Port} | Named]};
do({close, By, Port}, Named) ->
    {element(1, ask(By, fun() -> port_close(Port) end)), Named};
do({run, By}, Named) ->
    {element(1, ask(By, fun() -> world:subject() end)), Named};
do({call, Function, Arguments}, Named) ->
    {apply(trace, Function, Arguments), Named}.

serve() ->
    receive
        {do, From, Job} -> From ! {done, try {ok, Job()} catch error:Reason -> {Reason, none} end}, serve();
        stop -> ok;
        _ -> serve()
    end.

ask(Pid, Job) ->
    Monitor = monitor(process, Pid),
    Pid ! {do, self(), Job},
    receive
        {done, Answer} -> demonitor(Monitor, [flush]), Answer;
        {'DOWN', Monitor, process, Pid, _} -> {noproc, none}
    end.

gone(Pid, End) ->
    Monitor = monitor(process, Pid),
    End(),
    receive {'DOWN', Monitor, process, Pid, _} -> ok end.

values({'$named', Kind, Name}, Named) ->
    {_, Value} = lists:keyfind({Kind, Name}, 1, Named),
    Value;
values(Term, Named) ->
    inside(Term, fun(Part) -> values(Part, Named) end).

names(Term, Named) when is_pid(Term); is_port(Term); is_reference(Term) ->
    case lists:keyfind(Term, 2, Named) of
        {{Kind, Name}, _} -> {'$named', Kind, Name};
        false -> {'$named', other, other}
    end;
names({Session, Id} = Term, Named) when is_atom(Session), is_integer(Id); Term =:= {legacy, default} ->
    case [Name || {{session, Name}, {_, Weak}} <- Named, Weak =:= Term] of
        [Name] -> {'$named', session, Name};
        [] when Session =:= legacy -> {'$named', session, default};
        [] -> Term
    end;
names(Term, Named) ->
    inside(Term, fun(Part) -> names(Part, Named) end).

inside([Head | Tail], Change) ->
    [Change(Head) | inside_tail(Tail, Change)];
inside(Term, Change) when is_tuple(Term) ->
    list_to_tuple([Change(Part) || Part <- tuple_to_list(Term)]);
inside(Term, Change) when is_map(Term) ->
    maps:from_list([{Change(Key), Change(Value)} || {Key, Value} <- maps:to_list(Term)]);
inside(Term, _) ->
    Term.

inside_tail([Head | Tail], Change) -> [Change(Head) | inside_tail(Tail, Change)];
inside_tail([], _) -> [];
inside_tail(Tail, Change) -> Change(Tail).
