/* Takes the argument of each call apart and puts it together again: the state's process gets {Kinds, Copy, Odd}. */
#include <inviso_tracer.h>
#include <stdio.h>

#define MOST 64

static inviso_term copy(inviso_env *env, inviso_term term, int depth)
{
    inviso_term parts[MOST];
    const char *text;
    double number;
    int64_t whole;
    size_t length, n;
    inviso_pid pid;

    switch (depth ? inviso_kind_of(env, term) : INVISO_NOTHING) {
    case INVISO_INT:
        return inviso_get_int(env, term, &whole) ? inviso_make_int(env, whole) : 0;
    case INVISO_FLOAT:
        return inviso_get_float(env, term, &number) ? inviso_make_float(env, number) : 0;
    case INVISO_ATOM: {
        char name[256];
        if (!inviso_get_text(env, term, &text, &length) || length >= sizeof name)
            return 0;
        snprintf(name, sizeof name, "%.*s", (int)length, text);
        return inviso_make_atom(env, name);
    }
    case INVISO_STR:
        return inviso_get_text(env, term, &text, &length) ? inviso_make_str(env, text, length) : 0;
    case INVISO_BYTES:
        return inviso_get_text(env, term, &text, &length) ? inviso_make_bytes(env, text, length) : 0;
    case INVISO_PID:
        return inviso_get_local_pid(env, term, &pid) ? inviso_make_pid(env, &pid) : 0;
    case INVISO_TUPLE:
    case INVISO_LIST:
        if (!inviso_get_length(env, term, &length) || length > MOST)
            return 0;
        for (n = 0; n < length; n++)
            parts[n] = copy(env, inviso_get_element(env, term, n), depth - 1);
        return inviso_kind_of(env, term) == INVISO_LIST ? inviso_make_list(env, parts, length)
                                                        : inviso_make_tuple(env, parts, length);
    case INVISO_MAP: {
        inviso_term key = inviso_make_str(env, "key", 3), value, twice[2], same[2];
        if (!inviso_get_map_value(env, term, key, &value))
            return inviso_make_map(env, NULL, NULL, 0);
        twice[0] = twice[1] = key;
        same[0] = inviso_make_int(env, 0);
        same[1] = copy(env, value, depth - 1);
        return inviso_make_map(env, twice, same, 2);
    }
    default:
        return 0;
    }
}

static inviso_answer enabled(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee)
{
    (void)env, (void)tag, (void)state, (void)tracee;
    return INVISO_TRACE;
}

static void trace(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee, inviso_term term,
                  inviso_term opts)
{
    inviso_term argument = inviso_get_element(env, inviso_get_element(env, term, 2), 0), parts[3], odd[6];
    const char *text;
    size_t length;
    int64_t whole;
    double number;
    inviso_pid to;

    (void)tag, (void)tracee, (void)opts;
    if (!inviso_get_local_pid(env, state, &to))
        return;
    parts[0] = inviso_make_int(env, inviso_kind_of(env, argument));
    parts[1] = copy(env, argument, 8);
    if (!parts[1])
        parts[1] = inviso_make_atom(env, "none");
    /* invalid terms, and terms of another kind, have to be refused */
    odd[0] = inviso_make_int(env, inviso_kind_of(env, 0) + inviso_kind_of(env, 1000));
    odd[1] = inviso_make_int(env, inviso_get_text(env, parts[0], &text, &length));
    odd[2] = inviso_make_int(env, inviso_get_int(env, state, &whole) + inviso_get_float(env, state, &number));
    odd[3] = inviso_make_int(env, (int64_t)inviso_get_element(env, term, 3) + (int64_t)inviso_make_atom(env, "\xff"));
    odd[4] = inviso_make_int(env, inviso_is_identical(env, inviso_make_int(env, 1), inviso_make_float(env, 1.0)));
    odd[5] = inviso_make_int(env, (int64_t)inviso_make_tuple(env, (inviso_term[]){999}, 1));
    parts[2] = inviso_make_list(env, odd, 6);
    inviso_send(env, &to, inviso_make_tuple(env, parts, 3));
}

static const inviso_tracer terms = {
    .abi = INVISO_TRACER_ABI,
    .size = sizeof terms,
    .name = "terms",
    .enabled = enabled,
    .trace = trace,
};

INVISO_TRACER(terms)
