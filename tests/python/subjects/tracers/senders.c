/* A light tracer of messages: it tells a process the senders and receivers, and not the contents.
 *
 * The state is a map: to => the process that gets that. Each message is {trace, Sender, Receiver}. */
#include <inviso_tracer.h>

static int told_of(inviso_env *env, inviso_term state, inviso_pid *to)
{
    inviso_term pid;

    return inviso_get_map_value(env, state, inviso_make_atom(env, "to"), &pid) && inviso_get_local_pid(env, pid, to);
}

static int load(inviso_env *env, void **priv_data, inviso_term info)
{
    (void)env;
    (void)info;
    *priv_data = NULL;
    return 0;
}

/* It keeps no data, and knows none of an earlier version. */
static int upgrade(inviso_env *env, void **priv_data, void **old_priv_data, inviso_term info)
{
    if (*old_priv_data != NULL || *priv_data != NULL)
        return -1;
    return load(env, priv_data, info);
}

static void unload(inviso_env *env, void *priv_data)
{
    (void)env;
    (void)priv_data;
}

static inviso_answer enabled(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee)
{
    const int status = inviso_is_identical(env, tag, inviso_make_atom(env, "trace_status"));
    inviso_pid to;

    if (!told_of(env, state, &to) || !inviso_is_process_alive(env, &to))
        return status ? INVISO_REMOVE : INVISO_DISCARD;
    if (status)
        return INVISO_TRACE;
    /* messages of that process itself would never end */
    if (inviso_is_identical(env, inviso_make_pid(env, &to), tracee))
        return INVISO_DISCARD;
    return inviso_is_identical(env, tag, inviso_make_atom(env, "send")) ? INVISO_TRACE : INVISO_DISCARD;
}

static void trace(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee, inviso_term message,
                  inviso_term opts)
{
    inviso_pid to;
    inviso_term parts[3];

    (void)tag;
    (void)message;
    if (told_of(env, state, &to) && inviso_get_map_value(env, opts, inviso_make_atom(env, "extra"), &parts[2])) {
        parts[0] = inviso_make_atom(env, "trace");
        parts[1] = tracee;
        inviso_send(env, &to, inviso_make_tuple(env, parts, 3));
    }
}

static const inviso_tracer senders = {
    .abi = INVISO_TRACER_ABI,
    .size = sizeof senders,
    .name = "senders",
    .load = load,
    .upgrade = upgrade,
    .unload = unload,
    .enabled = enabled,
    .trace = trace,
};

INVISO_TRACER(senders)
