%% The processes of a scenario: they do the steps that the driver puts into a table. They get messages only from each other.
-module(host).
-export([proc/1, loop/4, exec/2, collector/1]).

proc(Name) ->
    loop(Name, 0, 0, 0).

loop(Name, A, B, C) ->
    case ets:lookup(asked, Name) of
        [{_, Number, Op}] ->
            ets:delete(asked, Name),
            case outcome(Name, Op) of
                {leave, Why} -> exit(Why);
                Outcome -> ets:insert(answered, {Number, Outcome})
            end;
        [] ->
            erlang:yield()
    end,
    loop(Name, A, B, C).

outcome(Name, Op) ->
    try exec(Op, Name) of
        {called, Value} -> {ok, Value};
        Value -> {ok, Value}
    catch
        error:Reason -> {error, Reason};
        throw:Value -> {throw, Value};
        exit:{leave, Why} -> {leave, Why};
        exit:Why -> {'exit', Why}
    end.

exec({send, To, Term}, _) -> To ! Term, ok;
exec(recv, _) -> receive Message -> Message end;
exec({recv, Term}, _) -> receive Term -> Term end;
exec(recv_timeout, _) -> receive {never, ever, sent} -> ok after 0 -> timeout end;
exec(peek, _) -> {messages, All} = process_info(self(), messages), All;
exec({spawn, Name}, _) -> Pid = spawn(host, proc, [Name]), Pid;
exec({spawn_link, Name}, _) -> Pid = spawn_link(host, proc, [Name]), Pid;
exec({link, Pid}, _) -> link(Pid);
exec({unlink, Pid}, _) -> unlink(Pid);
exec({monitor, Pid}, _) -> monitor(process, Pid), ok;
exec({register, Name, Pid}, _) -> register(Name, Pid);
exec({unregister, Name}, _) -> unregister(Name);
exec({trap_exit, How}, _) -> process_flag(trap_exit, How);
exec({exit, Reason}, _) -> exit({leave, Reason});
exec({exit_signal, Pid, Reason}, _) -> exit(Pid, Reason);
exec({send_after, Pid, Term}, _) -> erlang:send_after(0, Pid, Term), ok;
exec({call, Module, Function, Arguments}, _) -> Value = apply(Module, Function, Arguments), {called, Value};
exec({catch_call, Module, Function, Arguments}, _) ->
    try Value = apply(Module, Function, Arguments), {returned, Value} catch Class:Reason -> {Class, Reason} end;
exec({set_token, Key, Value}, _) -> seq_trace:set_token(Key, Value);
exec({set_token, Token}, _) -> seq_trace:set_token(Token);
exec(get_token, _) -> seq_trace:get_token();
exec({get_token, Key}, _) -> seq_trace:get_token(Key);
exec({print, Term}, _) -> seq_trace:print(Term), ok;
exec({print, Label, Term}, _) -> seq_trace:print(Label, Term), ok;
exec(save_token, _) -> Token = seq_trace:get_token(), put(saved, Token), Token;
exec(restore_token, _) -> seq_trace:set_token(get(saved));
exec(reset_trace, _) -> seq_trace:reset_trace();
exec({set_system_tracer, Tracer}, _) -> seq_trace:set_system_tracer(Tracer);
exec(get_system_tracer, _) -> seq_trace:get_system_tracer().

%% Keeps its messages, in the order of their arrival.
collector(Name) ->
    process_flag(priority, max),
    receive
        Message ->
            ets:insert(seen, {{Name, ets:update_counter(seen, count, 1)}, Message}),
            collector(Name)
    end.
