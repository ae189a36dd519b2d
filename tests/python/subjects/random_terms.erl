%% Makes random terms and writes them in every way that this node has; compares the terms that came back.
%% A file of terms is: the length of each in 4 bytes, high end first, and its external form.
-module(random_terms).
-export([make/3, compare/2]).

make(File, Seed, Count) ->
    rand:seed(exsss, Seed),
    Borders = [S * (1 bsl E) + O || E <- lists:seq(0, 70) ++ [255 * 8 - 1, 255 * 8, 256 * 8, 5000], S <- [1, -1], O <- [-1, 0, 1]],
    Terms = [{B, []} || B <- Borders] ++ [{term(u(5) - 1), pick(ways())} || _ <- lists:seq(1, Count)],
    ok = file:write_file(File, [framed(term_to_binary(T, W)) || {T, W} <- Terms]),
    io:format("~p", [length(Terms)]).

compare(Was, Is) ->
    {W, I} = {read(Was), read(Is)},
    Differ = [{A, B} || {A, B} <- lists:zip(W, I), binary_to_term(A) =/= binary_to_term(B)],
    [io:format("~s~n  ~s~n", [binary:encode_hex(A), binary:encode_hex(B)]) || {A, B} <- lists:sublist(lists:sort(fun({A, _}, {B, _}) -> byte_size(A) < byte_size(B) end, Differ), 8)],
    io:format("~p of ~p differ~n", [length(Differ), length(W)]).

framed(Binary) -> [<<(byte_size(Binary)):32>>, Binary].

read(File) ->
    {ok, Bytes} = file:read_file(File),
    [Term || <<N:32, Term:N/binary>> <= Bytes].

ways() ->
    Old = [[], [compressed], [{compressed, 1}], [{compressed, 9}], [{minor_version, 0}], [{minor_version, 1}], [{minor_version, 2}]],
    try term_to_binary(a, [deterministic]) of
        _ -> [[deterministic], [deterministic, compressed] | Old]
    catch
        error:badarg -> Old
    end.

term(0) -> leaf(u(20));
term(D) ->
    case u(10) of
        10 -> record(D);
        1 -> terms(D, 6);
        2 -> list_to_tuple(terms(D, 6));
        3 -> maps:from_list([{term(D - 1), term(D - 1)} || _ <- lists:seq(1, u(5) - 1)]);
        4 -> [term(D - 1) | term(0)];
        5 -> maps:from_list([{K, K} || K <- [1, 1.0, term(0), true, <<"a">>, []]]);
        6 -> list_to_tuple([term(0) || _ <- lists:seq(1, pick([254, 255, 256, 300]))]);
        7 -> {trace_ts, term(0), call, {m, f, terms(D, 4)}, {u(9), u(9), u(9)}};
        8 -> maps:from_list([{K, term(0)} || K <- lists:seq(1, pick([31, 32, 33, 100]))]);
        9 -> term(0)
    end.

%% A native record, as bytes: only OTP 29 and later has the syntax, and older nodes can't read them.
record(D) ->
    Values = terms(D, 4),
    Names = lists:sublist(pick([[a, b, c], ['X y', 'a', '$inviso.set']]), length(Values)),
    Part = fun(T) -> <<131, Bytes/binary>> = term_to_binary(T), Bytes end,
    Parts = [[Part(T) || T <- [pick([m, 'M']), pick([q, r]) | Names]], [Part(V) || V <- Values]],
    try binary_to_term(iolist_to_binary([<<131, 67, (length(Names)):32, (u(2) - 1)>>, Parts]))
    catch
        error:badarg -> term(0)
    end.

terms(D, Most) -> [term(D - 1) || _ <- lists:seq(1, u(Most) - 1)].

leaf(1) -> (1 bsl (u(12) * u(12) - 1)) * pick([1, -1]) + pick([-1, 0, 1]);
leaf(2) -> u(300) - 20;
leaf(3) -> u(1 bsl 40) - (1 bsl 39);
leaf(4) -> pick([0.0, -0.0, 1.5, -1.0e308, 5.0e-324, 1.7976931348623157e308, 0.1]);
leaf(5) -> rand:normal() * math:exp(u(100));
leaf(6) -> pick([ok, true, false, undefined, '', nan, '$inviso', '$', 'a b', 'nonode@nohost']);
leaf(7) -> list_to_atom(some(pick([1, 5, 100, 255]), [$a, $z, 16#e4, 16#20ac, 16#1f600]));
leaf(8) -> unicode:characters_to_binary(some(u(20) - 1, [$a, 0, 16#e4, 16#20ac, 16#1f600]));
leaf(9) -> bytes(u(300) - 1);
leaf(10) -> Bytes = bytes(u(9)), Size = bit_size(Bytes) - u(7), <<Bits:Size/bitstring, _/bitstring>> = Bytes, Bits;
leaf(11) -> [u(256) - 1 || _ <- lists:seq(1, u(300) - 1)];
leaf(12) -> pick([self(), whereis(init), group_leader()]);
leaf(13) -> hd(erlang:ports());
leaf(14) -> make_ref();
leaf(15) -> other(88, [node_name(), number(), <<(u(9)):32>>, creation()]);
leaf(16) -> other(89, [node_name(), number(), creation()]);
leaf(17) -> other(120, [node_name(), number(), number(), creation()]);
leaf(18) -> Words = u(5), other(90, [<<Words:16>>, node_name(), creation(), [<<(u(1 bsl 18) - 1):32>> || _ <- lists:seq(1, Words)]]);
leaf(19) -> pick([fun lists:map/2, fun erlang:'+'/2, fun true:undefined/0, fun a:'ä'/255]);
leaf(20) -> X = term(0), pick([fun() -> X end, fun(A) -> {A, X} end, fun(A, B) -> {A, B, X} end]).

other(Tag, Parts) -> binary_to_term(iolist_to_binary([131, Tag, Parts])).

node_name() -> Name = pick([<<"a@b">>, <<"node@host.example">>, <<"nonode@nohost">>]), [119, byte_size(Name), Name].

creation() -> pick([<<1:32>>, <<2:32>>, <<16#deadbeef:32>>]).

number() -> <<(u(16#ffffff)):32>>.

bytes(N) -> list_to_binary([u(256) - 1 || _ <- lists:seq(1, N)]).

some(N, Of) -> [pick(Of) || _ <- lists:seq(1, N)].

u(N) -> rand:uniform(N).

pick(Of) -> lists:nth(u(length(Of)), Of).
