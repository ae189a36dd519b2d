%% Answers cases of match specifications from a real Erlang, for tests.differential.
%%
%% A line of standard input is a list of cases, a line of standard output that begins with '=' the list of their answers;
%% both are terms in the external format, in base64. Other output is not read. Processes, references, the port
%% and functions stand in terms as {'$named', Kind, Name}.
-module(answer).
-export([main/1]).

main(Port) ->
    P1 = spawn(fun wait/0),
    P2 = spawn(fun wait/0),
    true = register(known_name, P1),
    R1 = make_ref(),
    R2 = make_ref(),
    Named = [{{pid, 'P1'}, P1}, {{pid, 'P2'}, P2}, {{ref, 'R1'}, R1}, {{ref, 'R2'}, R2}, {{port, 'O1'}, Port},
             {{'fun', 1}, fun(X) -> X end}],
    say(Port, {ready, erlang:system_info(otp_release)}),
    loop(Port, Named, []).

wait() ->
    receive never -> ok end.

loop(Port, Named, Line) ->
    receive
        {Port, {data, {noeol, Part}}} ->
            loop(Port, Named, [Line, Part]);
        {Port, {data, {eol, Part}}} ->
            Asked = binary_to_term(base64:decode(iolist_to_binary([Line, Part]))),
            say(Port, answers(Asked, Named)),
            loop(Port, Named, []);
        {Port, eof} ->
            halt(0)
    end.

say(Port, Term) ->
    port_command(Port, ["\n=", base64:encode(term_to_binary(Term)), "\n"]).

%% A list of atoms only creates the atoms, so that their order as keys of a map is the list's.
answers({atoms, Names}, _) ->
    [binary_to_atom(Name, utf8) || Name <- Names];
answers(Cases, Named) ->
    [answer(Case, Named) || Case <- Cases].

%% Each in a process of its own.
answer({Mode, Spec, Subject}, Named) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({answer, outcome(Mode, Spec, Subject, Named)}) end),
    receive
        {'DOWN', Monitor, process, Pid, {answer, Answer}} -> Answer;
        {'DOWN', Monitor, process, Pid, _} -> died
    end.

outcome(Mode, Spec, Subject, Others) ->
    Named = [{{pid, 'SELF'}, self()} | Others],
    To = fun(Term) -> with_values(Term, Named) end,
    try erlang:match_spec_test(To(Subject), To(Spec), Mode) of
        {ok, Result, Flags, Warnings} -> {ok, with_names(Result, Named), Flags, length(Warnings)};
        {error, Problems} -> {error, [{Severity, text(Text)} || {Severity, Text} <- Problems]}
    catch
        error:Reason when is_atom(Reason) -> {exception, Reason};
        _:_ -> {exception, other}
    end.

text(Text) ->
    case unicode:characters_to_binary(Text) of
        Binary when is_binary(Binary) -> Binary;
        _ -> <<>>
    end.

with_values({'$named', Kind, Name}, Named) ->
    {_, Value} = lists:keyfind({Kind, Name}, 1, Named),
    Value;
with_values(Term, Named) ->
    inside(Term, fun(Part) -> with_values(Part, Named) end).

with_names(Term, Named) when is_pid(Term); is_port(Term); is_reference(Term); is_function(Term) ->
    case lists:keyfind(Term, 2, Named) of
        {{Kind, Name}, _} -> {'$named', Kind, Name};
        false -> {'$named', other, other}
    end;
with_names(Term, Named) ->
    inside(Term, fun(Part) -> with_names(Part, Named) end).

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
