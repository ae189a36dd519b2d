/* Sends its arguments to the process that is its state: {Callback, Tag, Tracee, Term, Opts, Calls}, and at the end `unloaded`.
 *
 * Its data counts calls, and stays over an upgrade. VERSION is its name; built with SILENT its `enabled` answers 7. */
#include <inviso_tracer.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION "parrot"
#endif

typedef struct {
    int64_t calls;
    int has_owner;
    inviso_pid owner;
} data;

static int load(inviso_env *env, void **priv_data, inviso_term info)
{
    data *own;

    if (inviso_is_identical(env, info, inviso_make_atom(env, "refuse")))
        return 42;
    own = calloc(1, sizeof *own);
    if (own == NULL)
        return -1;
    own->has_owner = inviso_get_local_pid(env, info, &own->owner);
    *priv_data = own;
    return 0;
}

static int upgrade(inviso_env *env, void **priv_data, void **old_priv_data, inviso_term info)
{
    if (inviso_is_identical(env, info, inviso_make_atom(env, "refuse")))
        return 43;
    *priv_data = *old_priv_data;
    *old_priv_data = NULL;
    return 0;
}

static void unload(inviso_env *env, void *priv_data)
{
    data *own = priv_data;

    if (own != NULL && own->has_owner)
        inviso_send(env, &own->owner, inviso_make_atom(env, "unloaded"));
    free(own);
}

static inviso_answer enabled(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee)
{
    (void)env, (void)tag, (void)state, (void)tracee;
#ifdef SILENT
    return (inviso_answer)7;
#else
    return INVISO_TRACE;
#endif
}

static void repeat(inviso_env *env, const char *name, inviso_term tag, inviso_term state, inviso_term tracee,
                   inviso_term term, inviso_term opts)
{
    data *own = env->priv_data;
    inviso_pid to;
    inviso_term parts[6];

    if (!inviso_get_local_pid(env, state, &to))
        return;
    parts[0] = inviso_make_str(env, name, strlen(name));
    parts[1] = tag;
    parts[2] = tracee;
    parts[3] = term;
    parts[4] = opts;
    parts[5] = inviso_make_int(env, ++own->calls);
    inviso_send(env, &to, inviso_make_tuple(env, parts, 6));
}

#define PAIR(name)                                                                                              \
    static void name(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee, inviso_term term, \
                     inviso_term opts)                                                                          \
    {                                                                                                           \
        repeat(env, #name, tag, state, tracee, term, opts);                                                     \
    }

PAIR(trace)
#ifndef GENERAL
PAIR(trace_call)
PAIR(trace_send)
PAIR(trace_receive)
PAIR(trace_procs)
PAIR(trace_ports)
PAIR(trace_running_procs)
PAIR(trace_running_ports)
PAIR(trace_garbage_collection)
#endif

static const inviso_tracer parrot = {
    .abi = INVISO_TRACER_ABI,
    .size = sizeof parrot,
    .name = VERSION,
    .load = load,
    .upgrade = upgrade,
    .unload = unload,
    .enabled = enabled,
    .trace = trace,
#ifndef GENERAL
    .trace_call = trace_call,
    .trace_send = trace_send,
    .trace_receive = trace_receive,
    .trace_procs = trace_procs,
    .trace_ports = trace_ports,
    .trace_running_procs = trace_running_procs,
    .trace_running_ports = trace_running_ports,
    .trace_garbage_collection = trace_garbage_collection,
#endif
};

INVISO_TRACER(parrot)
