%% Random scenarios with the answers of this Erlang, in the form of tests/data/gold (README.md there); OTP 27 or later.
%%
%%     erlc -o DIR tests/differential/scenarios/*.erl tests/data/gold/fx.erl
%%     erl -noshell -pa DIR -run scenarios main tokens|sessions SEED COUNT FILE
%%     python -m tests.conformance FILE
-module(scenarios).
-export([main/1]).

main([Kind, Seed, Count, File]) ->
    process_flag(priority, high),
    code:ensure_loaded(fx),
    [ets:new(Table, [named_table, public, ordered_set]) || Table <- [asked, answered, seen]],
    rand:seed(exsss, {list_to_integer(Seed), 7, 9}),
    {ok, Out} = file:open(File, [write]),
    [io:put_chars(Out, [json:encode(scenario(list_to_atom(Kind), [Seed, "-", integer_to_list(N)])), "\n"])
     || N <- lists:seq(1, list_to_integer(Count))],
    file:close(Out),
    halt(0).

scenario(Kind, Id) ->
    [ets:delete_all_objects(Table) || Table <- [asked, answered, seen]],
    ets:insert(seen, {count, 0}),
    Collectors = [{Name, spawn(host, collector, [Name])} || Name <- ['T1', 'T2']],
    Procs = [{Name, spawn(host, proc, [Name])} || Name <- ['A', 'B', 'C']],
    erlang:system_flag(trace_control_word, 0),
    seq_trace:reset_trace(),
    Names = #{Pid => Name || {Name, Pid} <- Collectors ++ Procs},
    Begun = begin_with(Kind, #{
        procs => Procs, collectors => Collectors, sessions => [], unborn => ['D', 'E', 'F', 'G'], refs => #{},
        names => Names#{self() => driver, group_leader() => 'GL'}, steps => [], returns => [], trace => []}),
    Done = steps(Kind, 10 + rand:uniform(16), Begun),
    [try trace:session_destroy(Session) catch error:_ -> gone end || {_, Session} <- maps:get(sessions, Done)],
    [exit(Pid, kill) || {_, Pid} <- maps:get(procs, Done) ++ Collectors],
    timer:sleep(2),
    Prefix = case Kind of tokens -> "st-random-"; sessions -> "te-random-" end,
    #{id => iolist_to_binary([Prefix, Id]), procs => [text(Name) || {Name, _} <- Procs],
      steps => lists:reverse(maps:get(steps, Done)), returns => lists:reverse(maps:get(returns, Done)),
      trace => maps:get(trace, Done)}.

begin_with(tokens, S) ->
    seq_trace:set_system_tracer(collector('T1', S)),
    Flags = case rand:uniform(10) of N when N =< 7 -> [{label, 3} | [{Flag, true} || Flag <- [send, 'receive', print]]]; _ -> [] end,
    lists:foldl(fun({Key, Value}, Now) -> ask('A', [set_token, {Key}, {Value}], {set_token, Key, Value}, Now) end, S, Flags);
begin_with(sessions, S) ->
    lists:foldl(
        fun({Name, Collector}, Now) ->
            do(drv, [session_create, Name, Collector], fun() -> trace:session_create(Name, collector(Collector, S), []) end, Now)
        end, S, [{'S1', 'T1'} | [{'S2', 'T2'} || rand:uniform(3) =:= 1]]).

steps(_, 0, S) ->
    S;
steps(Kind, Left, S) ->
    case [Proc || {_, Pid} = Proc <- maps:get(procs, S), is_process_alive(Pid)] of
        [] -> S;
        Alive -> steps(Kind, Left - 1, step(Kind, rand:uniform(100), Alive, S))
    end.

pick(All) -> lists:nth(rand:uniform(length(All)), All).
some(All, Most) -> lists:usort([pick(All) || _ <- lists:seq(1, rand:uniform(Most))]).
term() -> pick([m, 1, -5, <<"bin">>, [1, 2, a], {a, b}, #{k => v}, [], 1.5, <<5:3>>, {nested, [{x, 1}]}, 12345678901234567890]).

%% Steps of sequential tracing. In a step's words a tuple is a term, and an atom a name.
step(tokens, R, Alive, S) ->
    {P, Pid} = pick(Alive),
    {Q, Other} = pick(Alive),
    {Any, Anybody} = pick(maps:get(procs, S)),
    Box = mailbox(Pid),
    Ask = fun(Words, Op) -> ask(P, Words, Op, S) end,
    Token = pick([[], {7, 1, 0, Pid, 0}, {7, label(), 5, Other, 3}, {1, l, 2, Pid, 1}, {0, 0, 0, Pid, 0}, {63, 1, 4, Pid, 4},
                  {16, a, -2, Other, 4}, {32, a, 1, Pid, -3}, {128, a, 1, Pid, 3}, {-2, q, 3, Pid, 1}, {a, a, 1, Pid, 3},
                  {1, a, 1, a, 3}, {1, a, b, Pid, 3}, {1, a, 1, Pid, b}, {1, a, 1, Pid}, [a], 5, a, {}]),
    Term = term(),
    Label = label(),
    if
        R =< 22 -> Ask([send, Q, {Term}], {send, Other, Term});
        R =< 23 -> Ask([send, Any, {Term}], {send, Anybody, Term});
        R =< 24 -> Ask([send_name, {nm}, {Term}], {send, nm, Term});
        R =< 42, Box =/= [] -> Ask([recv], recv);
        R =< 46, Box =/= [] -> Message = pick(Box), Ask([recv, {Message}], {recv, Message});
        R =< 47 -> Ask([recv_timeout], recv_timeout);
        R =< 49 -> Ask([peek], peek);
        R =< 55 -> Ask([set_token, {label}, {Label}], {set_token, label, Label});
        R =< 65 -> {Key, Value} = {flag(), pick([true, true, false])}, Ask([set_token, {Key}, {Value}], {set_token, Key, Value});
        R =< 68 -> Serial = serial(), Ask([set_token, {serial}, {Serial}], {set_token, serial, Serial});
        R =< 70 -> {Key, Value} = wrong(), Ask([set_token, {Key}, {Value}], {set_token, Key, Value});
        R =< 74 -> Ask([set_token, {Token}], {set_token, Token});
        R =< 78 -> Ask([get_token], get_token);
        R =< 82 -> Key = pick([label, serial, send, print, timestamp, nosuch, 5]), Ask([get_token, {Key}], {get_token, Key});
        R =< 87 -> Ask([print, {Term}], {print, Term});
        R =< 90 -> Ask([print, {Label}, {Term}], {print, Label, Term});
        R =< 91 -> Ask([save_token], save_token);
        R =< 93, P =/= Q -> Ask([link, Q], {link, Other});
        R =< 94, P =/= Q -> Ask([unlink, Q], {unlink, Other});
        R =< 95, P =/= Q -> Why = pick([normal, boom]), Ask([exit_signal, Q, {Why}], {exit_signal, Other, Why});
        R =< 96, length(Alive) > 1 -> Why = pick([normal, bye]), Ask([exit, {Why}], {exit, Why});
        R =< 97 -> How = pick([true, true, false]), Ask([trap_exit, {How}], {trap_exit, How});
        R =< 98 -> Ask([send_after, Q, {Term}], {send_after, Other, Term});
        R =< 99 -> Ask([register, {nm}, Q], {register, nm, Other});
        true -> of_all(pick([reset, get, none, 'T2', Q, own]), P, S)
    end;
%% Steps of sessions.
step(sessions, R, Alive, S) ->
    {P, Pid} = pick(Alive),
    {Q, Other} = pick(Alive),
    {Any, Anybody} = pick(maps:get(procs, S)),
    {Name, Session} = pick(maps:get(sessions, S)),
    Box = mailbox(Pid),
    Ask = fun(Words, Op) -> ask(P, Words, Op, S) end,
    Do = fun(Words, Call) -> do(drv, Words, Call, S) end,
    Term = term(),
    {Target, How, Flags} = {pick([Pid, Pid, Pid, new]), pick([true, true, true, false]), flags()},
    {Function, Spec, Kinds} = {pick(functions()), spec(), kinds()},
    {Call, Arguments} = call(),
    case {R, maps:get(unborn, S)} of
        {_, _} when R =< 22 -> Do([process, Name, {Target}, {How}, {Flags}], fun() -> trace:process(Session, Target, How, Flags) end);
        {_, _} when R =< 37 -> Do([function, Name, {Function}, {Spec}, {Kinds}], fun() -> trace:function(Session, Function, Spec, Kinds) end);
        {_, _} when R =< 41 -> Sent = sent(), Do([send_pattern, Name, {Sent}, {[]}], fun() -> trace:send(Session, Sent, []) end);
        {_, _} when R =< 44 -> Got = received(), Do([recv_pattern, Name, {Got}, {[]}], fun() -> trace:recv(Session, Got, []) end);
        {_, _} when R =< 49 -> Do([info, Name, {Pid}, {flags}], fun() -> trace:info(Session, Pid, flags) end);
        {_, _} when R =< 53 ->
            One = pick([F || {_, _, Arity} = F <- functions(), is_integer(Arity)]),
            Item = pick([traced, match_spec, meta, meta_match_spec, call_count, all]),
            Do([info, Name, {One}, {Item}], fun() -> trace:info(Session, One, Item) end);
        {_, _} when R =< 54 -> seldom(rand:uniform(7), Name, Session, S);
        {_, _} when R =< 72 -> How2 = pick([call, call, catch_call]), Ask([How2, {fx}, {Call}, {Arguments}], {How2, fx, Call, Arguments});
        {_, _} when R =< 83 -> Ask([send, Q, {Term}], {send, Other, Term});
        {_, _} when R =< 84 -> Ask([send, Any, {Term}], {send, Anybody, Term});
        {_, _} when R =< 88, Box =/= [] -> Ask([recv], recv);
        {_, _} when R =< 89 -> Ask([recv_timeout], recv_timeout);
        {_, [New | Rest]} when R =< 91 -> Spawn = pick([spawn, spawn_link]), ask(P, [Spawn, New], {Spawn, New}, S#{unborn := Rest});
        {_, _} when R =< 93, P =/= Q -> Ask([link, Q], {link, Other});
        {_, _} when R =< 94, P =/= Q -> Ask([unlink, Q], {unlink, Other});
        {_, _} when R =< 95, length(Alive) > 2 -> Why = pick([normal, bye]), Ask([exit, {Why}], {exit, Why});
        {_, _} when R =< 96, P =/= Q -> Why = pick([normal, boom]), Ask([exit_signal, Q, {Why}], {exit_signal, Other, Why});
        {_, _} when R =< 97 -> Trap = pick([true, false]), Ask([trap_exit, {Trap}], {trap_exit, Trap});
        {_, _} when R =< 98 -> Ask([register, {nm}, Q], {register, nm, Other});
        {_, _} when R =< 99 -> Ask([unregister, {nm}], {unregister, nm});
        _ -> Do([session_info, {Pid}], fun() -> trace:session_info(Pid) end)
    end.

of_all(reset, _, S) -> do(all, [reset_trace], fun seq_trace:reset_trace/0, S);
of_all(get, _, S) -> do(all, [get_system_tracer], fun seq_trace:get_system_tracer/0, S);
of_all(none, _, S) -> do(all, [set_system_tracer, false], fun() -> seq_trace:set_system_tracer(false) end, S);
of_all(own, P, S) -> ask(P, [set_system_tracer, 'T1'], {set_system_tracer, collector('T1', S)}, S);
of_all(Name, _, S) ->
    Pid = proplists:get_value(Name, maps:get(collectors, S) ++ maps:get(procs, S)),
    do(all, [set_system_tracer, Name], fun() -> seq_trace:set_system_tracer(Pid) end, S).

seldom(1, Name, Session, S) -> do(drv, [info, Name, {new}, {flags}], fun() -> trace:info(Session, new, flags) end, S);
seldom(2, Name, Session, S) -> do(drv, [info, Name, {new_processes}, {flags}], fun() -> trace:info(Session, new_processes, flags) end, S);
seldom(3, Name, Session, S) -> do(drv, [info, Name, {send}, {match_spec}], fun() -> trace:info(Session, send, match_spec) end, S);
seldom(4, Name, Session, S) -> do(drv, [info, Name, {'receive'}, {match_spec}], fun() -> trace:info(Session, 'receive', match_spec) end, S);
seldom(5, Name, Session, S) -> do(drv, [session_destroy, Name], fun() -> trace:session_destroy(Session) end, S);
seldom(6, _, _, S) -> do(drv, [kill, 'T2'], fun() -> exit(collector('T2', S), kill) end, S);
seldom(7, _, _, S) -> do(drv, [set_tcw, {7}], fun() -> erlang:system_flag(trace_control_word, 7) end, S).

label() -> pick([0, 1, 17, -1, lbl, {l, 1}, <<"lab">>, [1, 2], #{a => 1}, 1.0, 12345678901234567890, []]).
flag() -> pick([send, 'receive', print, send, 'receive', print, timestamp, strict_monotonic_timestamp, monotonic_timestamp]).
serial() -> pick([{0, 0}, {1, 5}, {5, 1}, {-1, 3}, {10, 10}, {100, 7}, {2, -1}, {-3, -2}, {0, -1}, {7, -5}]).
wrong() ->
    pick([{send, 1}, {label, x}, {serial, {a, 1}}, {serial, 5}, {nosuch, true}, {5, 1}, {print, undefined}, {timestamp, false},
          {serial, {1, 2, 3}}, {'receive', []}, {serial, {1.0, 2}}]).

flags() ->
    some([send, 'receive', procs, call, send, 'receive', procs, call, return_to, set_on_spawn, set_on_first_spawn, set_on_link,
          set_on_first_link, arity, silent, timestamp, monotonic_timestamp, strict_monotonic_timestamp], 3).

functions() ->
    [{fx, F, A} || {F, A} <- [{id, 1}, {add, 2}, {two, 2}, {loc, 1}, {calls_local, 1}, {calls_global, 1}, {body_sum, 1}, {raise, 2},
     {catches, 2}, {catch_deep, 3}, {multi, '_'}, {list_of, 1}, {outer, 1}, {middle, 1}, {inner, 1}, {nested, 1}, {calls_three, 1},
     {'_', '_'}, {pair, 2}, {deep, 3}, {pass_through, 2}, {catches_outer, 2}]].

kinds() ->
    pick([[call_count], [meta], [local], [local], [local], [global], [], [meta], [call_count], [local, call_count], [local, meta],
          [call_count, meta]]).

spec() ->
    Always = [[{return_trace}], [{exception_trace}], [{message, false}], [{message, {process_self}}], [{silent, true}], [{silent, false}],
              [{enable_trace, send}], [{disable_trace, send}], [{trace, [], [procs]}, {return_trace}], [{message, {caller}}],
              [{return_trace}, {message, false}], [{exception_trace}, {message, {{a, b}}}], [{set_tcw, 5}, {message, {get_tcw}}],
              [{enable_trace, {self}, procs}], [{message, {is_seq_trace}}], [{set_seq_token, label, 5}, {message, {get_seq_token}}],
              [{set_seq_token, send, true}], [{silent, true}, {message, hm}], [{trace, [call], [send, 'receive']}],
              [{disable_trace, call}, {return_trace}], [{message, '$_'}], [{message, '$$'}, {exception_trace}], [{message, {node}}]],
    pick([true, true, false, [], pause, restart, pause, restart, [{['$1'], [], [{message, '$1'}]}],
          [{['$1', '_'], [], [{message, {{'$1', x}}}]}], [{['$1'], [{is_integer, '$1'}], []}],
          [{[1], [], [{return_trace}]}, {['$1'], [{'>', '$1', 2}], [{message, {{big, '$1'}}}]}],
          [{'_', [{'==', {get_tcw}, 5}], [{message, true}, {set_tcw, 0}]}], [{'_', [{is_seq_trace}], [{message, {get_seq_token}}]}],
          [{['$1', '$1'], [], [{message, same}]}], [{['$1' | '_'], [], [{message, {{first, '$1'}}}]}],
          [{'_', [{'=:=', {self}, {self}}], [{return_trace}, {exception_trace}]}] | [[{'_', [], Body}] || Body <- Always]]).

sent() ->
    pick([true, false, [], [{['_', m], [], []}], [{['$1', '$2'], [{is_integer, '$2'}], [{message, '$2'}]}],
          [{['$1', '$2'], [], [{message, {{x, '$2'}}}]}] | [[{'_', [], [Action]}] || Action <- [{message, false}, {silent, true}, {enable_trace, procs}]]]).

received() ->
    pick([true, false, [], [{['_', '_', m], [], []}], [{['_', '$1', '$2'], [{is_integer, '$2'}], [{message, '$1'}]}],
          [{['_', '$1', '$2'], [], [{message, {{x, '$1', '$2'}}}]}], [{'_', [], [{message, false}]}]]).

call() ->
    {Class, Reason} = {pick([error, throw, 'exit']), pick([oops, 1])},
    pick([{id, [pick([1, 3, a])]}, {add, [1, 2]}, {two, [1, x]}, {calls_local, [1]}, {calls_global, [3]}, {body_sum, [2]},
          {catches, [Class, Reason]}, {catch_deep, [2, Class, Reason]}, {multi, [1]}, {multi, [1, 2]}, {multi, [1, 2, 3]}, {list_of, [2]},
          {outer, [1]}, {nested, [5]}, {calls_three, [1]}, {pair, [1, 2]}, {raise, [Class, Reason]}, {catches_outer, [Class, Reason]},
          {deep, [1, Class, Reason]}, {pass_through, [Class, Reason]}]).

mailbox(Pid) ->
    case process_info(Pid, messages) of {messages, All} -> All; undefined -> [] end.

collector(Name, S) ->
    proplists:get_value(Name, maps:get(collectors, S)).

%% A step of a process.
ask(Name, Words, Op, S) ->
    Pid = proplists:get_value(Name, maps:get(procs, S)),
    Number = make_ref(),
    ets:insert(asked, {Name, Number, Op}),
    noted(Name, Words, answer(Number, Pid), S).

answer(Number, Pid) ->
    Alive = is_process_alive(Pid),
    case ets:take(answered, Number) of
        [{_, Outcome}] -> Outcome;
        [] when Alive -> erlang:yield(), answer(Number, Pid);
        [] -> exited
    end.

%% A step of the driver.
do(Who, Words, Call, S) ->
    noted(Who, Words, try {ok, Call()} catch error:Reason -> {error, Reason} end, S).

noted(Who, Words, Outcome, Before) ->
    Known = learned(Words, Outcome, Before),
    settle(Known),
    Seen = [One || {{_, _}, _} = One <- ets:tab2list(seen)],
    [ets:delete(seen, Key) || {Key, _} <- Seen],
    {Shown, S1} = lists:mapfoldl(fun({Term}, S) -> json(Term, S); (Name, S) -> {text(Name), S} end, Known, Words),
    {Return, S2} = returned(Words, Outcome, S1),
    Step = length(maps:get(steps, Before)),
    {Trace, S3} = lists:mapfoldl(
        fun({{To, _}, Message}, S) -> {Term, Next} = message(Message, S), {#{step => Step, to => text(To), msg => Term}, Next} end, S2, Seen),
    S3#{steps := [[text(Who) | Shown] | maps:get(steps, S3)], returns := [Return | maps:get(returns, S3)], trace := maps:get(trace, S3) ++ Trace}.

learned([session_create, Name, _], {ok, Session}, #{sessions := All} = S) -> S#{sessions := [{Name, Session} | All]};
learned([Spawn, Name], {ok, Pid}, #{procs := All, names := Names} = S) when Spawn =:= spawn; Spawn =:= spawn_link ->
    S#{procs := All ++ [{Name, Pid}], names := Names#{Pid => Name}};
learned(_, _, S) -> S.

%% Waits until everything has arrived: processes have taken their signals, sessions have delivered, and no more messages come.
settle(#{procs := Procs, sessions := Sessions} = S) ->
    [process_info(Pid, message_queue_len) || {_, Pid} <- Procs],
    [receive {trace_delivered, all, Ref} -> ok end
     || {_, Session} <- Sessions, Ref <- try [trace:delivered(Session, all)] catch error:_ -> [] end],
    [{_, Count}] = ets:lookup(seen, count),
    timer:sleep(10),
    case ets:lookup(seen, count) of
        [{_, Count}] -> ok;
        _ -> settle(S)
    end.

returned(_, exited, S) -> {#{exited => true}, S};
returned([session_create, Name, _], {ok, _}, S) -> {#{ok => #{session => text(Name)}}, S};
returned([session_info, _], {ok, All}, S) when is_list(All) -> {#{ok => [#{weak => text(Name)} || {Name, _} <- lists:sort(All)]}, S};
returned([info, _, _, {flags}], {ok, {flags, All}}, S) when is_list(All) -> outcome(ok, {flags, lists:sort(All)}, S);
returned(_, {Tag, Value}, S) -> outcome(Tag, Value, S).

outcome(Tag, Value, S) ->
    {Term, Next} = json(Value, S),
    {#{Tag => Term}, Next}.

message(Message, S) when element(1, Message) =:= trace_ts; element(1, Message) =:= seq_trace, tuple_size(Message) =:= 4 ->
    All = tuple_to_list(Message),
    Kind = case lists:last(All) of {_, _, _} -> timestamp; {_, _} -> strict_monotonic_timestamp; _ -> monotonic_timestamp end,
    {Terms, Next} = lists:mapfoldl(fun json/2, S, lists:droplast(All)),
    {#{t => Terms ++ [#{ts => Kind}]}, Next};
message(Message, S) ->
    json(Message, S).

text(Name) -> atom_to_binary(Name).

json(A, S) when is_atom(A) -> {#{a => text(A)}, S};
json(I, S) when is_integer(I), abs(I) < 1 bsl 53 -> {I, S};
json(I, S) when is_integer(I) -> {#{i => integer_to_binary(I)}, S};
json(F, S) when is_float(F) -> {#{f => F}, S};
json(B, S) when is_binary(B) -> {#{b => base64:encode(B)}, S};
json(B, S) when is_bitstring(B) ->
    Bits = bit_size(B),
    {#{bits => base64:encode(<<B/bitstring, 0:(-Bits band 7)>>), n => Bits}, S};
json([], S) -> {[], S};
json(L, S) when is_list(L) ->
    {Front, Tail} = apart(L, []),
    {Terms, S1} = lists:mapfoldl(fun json/2, S, Front),
    case Tail of
        [] -> {Terms, S1};
        _ -> {Last, S2} = json(Tail, S1), {#{il => Terms, tail => Last}, S2}
    end;
json(T, S) when is_tuple(T) -> {Terms, Next} = json_all(tuple_to_list(T), S), {#{t => Terms}, Next};
json(M, S) when is_map(M) ->
    {Pairs, Next} = lists:mapfoldl(fun({K, V}, Now) -> json_all([K, V], Now) end, S, lists:sort(maps:to_list(M))),
    {#{m => Pairs}, Next};
json(P, #{names := Names} = S) when is_pid(P) -> {#{pid => text(maps:get(P, Names))}, S};
json(R, #{refs := Refs} = S) when is_reference(R), is_map_key(R, Refs) -> {#{ref => maps:get(R, Refs)}, S};
json(R, #{refs := Refs} = S) when is_reference(R) ->
    Name = iolist_to_binary(["R", integer_to_list(map_size(Refs) + 1)]),
    {#{ref => Name}, S#{refs := Refs#{R => Name}}}.

json_all(Terms, S) -> lists:mapfoldl(fun json/2, S, Terms).

apart([Head | Tail], Front) -> apart(Tail, [Head | Front]);
apart(Tail, Front) -> {lists:reverse(Front), Tail}.
