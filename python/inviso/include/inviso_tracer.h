/*
 * Tracer modules in C, for inviso: a shared library whose callbacks are called where a trace event happens, in the thread that it
 * happens in.
 *
 *     cc -shared -fPIC -I"$(python -c 'import inviso; print(inviso.include_dir())')" -o my_tracer.so my_tracer.c
 *
 *     tracer = inviso.tracer.load("./my_tracer.so")
 *     session = inviso.trace.session_create("mine", (tracer, state))
 *
 * A library defines an inviso_tracer and names it: INVISO_TRACER(my_table). Everything else goes through the inline functions below.
 *
 * - Terms are handles: good until the callback that got or made them returns, in its thread, with its env. 0 is no term.
 * - Callbacks run in several threads at the same time, with the interpreter's lock held where there is one: be short, don't wait. What
 *   is declared here runs none of Python's code and gives that lock to nobody, so a callback may hold a lock of the library's own.
 * - What a callback sends or calls is told to no tracer module.
 * - No exception of C++ may leave a callback: it ends the program.
 * - Each inviso.tracer.load() loads the library anew, with its own load, priv_data and unload; but what is loaded twice from one file has
 *   its code and its static variables in memory once. Keep what belongs to one load in priv_data.
 */
#ifndef INVISO_TRACER_H
#define INVISO_TRACER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever something below changes that a compiled library relies on. A library of another number is refused. */
#define INVISO_TRACER_ABI 1u

typedef uint64_t inviso_term;

typedef struct {
    uint64_t number;
} inviso_pid;

typedef enum {
    INVISO_NOTHING = 0,
    INVISO_INT,        /* within 64 bits */
    INVISO_BIG,        /* a larger one */
    INVISO_FLOAT,
    INVISO_ATOM,
    INVISO_STR,        /* text; a binary to Erlang */
    INVISO_BYTES,      /* a binary */
    INVISO_TUPLE,
    INVISO_LIST,
    INVISO_MAP,
    INVISO_PID,
    INVISO_PORT,
    INVISO_REFERENCE,
    INVISO_OTHER       /* objects that are not copied, functions, records, sets, bit strings, improper lists, what was cut */
} inviso_kind;

typedef enum {
    INVISO_TRACE = 0,   /* tell me */
    INVISO_DISCARD = 1, /* don't */
    INVISO_REMOVE = 2   /* don't, and the tracee is not traced by this session any more */
} inviso_answer;

typedef struct inviso_env inviso_env;

/* What inviso offers. Use the inline functions. Answers that are ints are 1 for yes or done, 0 for no. */
typedef struct {
    uint32_t abi;
    uint32_t size; /* bytes of this table */
    inviso_kind (*kind)(inviso_env *env, inviso_term term);
    int (*is_identical)(inviso_env *env, inviso_term one, inviso_term other);
    int (*get_int)(inviso_env *env, inviso_term term, int64_t *value);
    int (*get_float)(inviso_env *env, inviso_term term, double *value);
    int (*get_text)(inviso_env *env, inviso_term term, const char **text, size_t *length);
    int (*get_length)(inviso_env *env, inviso_term term, size_t *length);
    inviso_term (*get_element)(inviso_env *env, inviso_term term, size_t n);
    int (*get_map_value)(inviso_env *env, inviso_term map, inviso_term key, inviso_term *value);
    int (*get_local_pid)(inviso_env *env, inviso_term term, inviso_pid *pid);
    int (*is_process_alive)(inviso_env *env, const inviso_pid *pid);
    inviso_term (*make_atom)(inviso_env *env, const char *name);
    inviso_term (*make_int)(inviso_env *env, int64_t value);
    inviso_term (*make_float)(inviso_env *env, double value);
    inviso_term (*make_str)(inviso_env *env, const char *text, size_t length);
    inviso_term (*make_bytes)(inviso_env *env, const void *bytes, size_t length);
    inviso_term (*make_tuple)(inviso_env *env, const inviso_term *elements, size_t n);
    inviso_term (*make_list)(inviso_env *env, const inviso_term *elements, size_t n);
    inviso_term (*make_map)(inviso_env *env, const inviso_term *keys, const inviso_term *values, size_t n);
    inviso_term (*make_pid)(inviso_env *env, const inviso_pid *pid);
    int (*send)(inviso_env *env, const inviso_pid *to, inviso_term message);
} inviso_host;

struct inviso_env {
    const inviso_host *host;
    void *priv_data; /* what load or upgrade has set */
    /* more of inviso's own follows */
};

typedef inviso_answer (*inviso_enabled)(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee);
typedef void (*inviso_trace)(inviso_env *env, inviso_term tag, inviso_term state, inviso_term tracee, inviso_term term,
                             inviso_term opts);

/* What a library offers. Tags, states, tracees, terms and opts are those of inviso.tracer.Tracer; an absent tracee is the atom
 * undefined. Load, upgrade and unload may be NULL, and so may any but the first pair: that is called in the others' place. */
typedef struct {
    uint32_t abi;  /* INVISO_TRACER_ABI */
    uint32_t size; /* sizeof(inviso_tracer) */
    const char *name;
    /* 0 if all is well; with anything else the library is refused. */
    int (*load)(inviso_env *env, void **priv_data, inviso_term info);
    /* This library takes the place of another one, or of an older build of itself, whose data *old_priv_data is. The other one's callbacks
     * may be running, with that data; when the last has returned its unload is called, with what *old_priv_data is by then: set that to
     * NULL if this library has taken the data over, and free there nothing that callbacks use. */
    int (*upgrade)(inviso_env *env, void **priv_data, void **old_priv_data, inviso_term info);
    /* No callback of what was loaded with this data is running any more, and none will. */
    void (*unload)(inviso_env *env, void *priv_data);
    inviso_enabled enabled;
    inviso_trace trace;
    inviso_enabled enabled_call;
    inviso_trace trace_call;
    inviso_enabled enabled_send;
    inviso_trace trace_send;
    inviso_enabled enabled_receive;
    inviso_trace trace_receive;
    inviso_enabled enabled_procs;
    inviso_trace trace_procs;
    inviso_enabled enabled_ports;
    inviso_trace trace_ports;
    inviso_enabled enabled_running_procs;
    inviso_trace trace_running_procs;
    inviso_enabled enabled_running_ports;
    inviso_trace trace_running_ports;
    inviso_enabled enabled_garbage_collection;
    inviso_trace trace_garbage_collection;
} inviso_tracer;

#if defined(_WIN32)
#define INVISO_EXPORT __declspec(dllexport)
#else
#define INVISO_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
#define INVISO_EXTERN_C extern "C"
#else
#define INVISO_EXTERN_C
#endif

/* The library's one symbol. It is called first, with the number of the inviso that loads it. No semicolon follows. */
#define INVISO_TRACER(table)                                                  \
    INVISO_EXTERN_C INVISO_EXPORT const inviso_tracer *inviso_tracer_entry(   \
        uint32_t host_abi);                                                   \
    INVISO_EXTERN_C INVISO_EXPORT const inviso_tracer *inviso_tracer_entry(   \
        uint32_t host_abi)                                                    \
    {                                                                         \
        (void)host_abi;                                                       \
        return &(table);                                                      \
    }

static inline inviso_kind inviso_kind_of(inviso_env *env, inviso_term term) { return env->host->kind(env, term); }

/* Equality is Erlang's exact one: 1 is not 1.0, but text is equal to the bytes that it is in UTF-8. Python's None, True and False are the
 * atoms undefined, true and false. */
static inline int inviso_is_identical(inviso_env *env, inviso_term one, inviso_term other)
{
    return env->host->is_identical(env, one, other);
}

static inline int inviso_get_int(inviso_env *env, inviso_term term, int64_t *value)
{
    return env->host->get_int(env, term, value);
}

static inline int inviso_get_float(inviso_env *env, inviso_term term, double *value)
{
    return env->host->get_float(env, term, value);
}

/* Of an atom, a str or bytes. Not ended by a zero; good as long as the term. */
static inline int inviso_get_text(inviso_env *env, inviso_term term, const char **text, size_t *length)
{
    return env->host->get_text(env, term, text, length);
}

/* Of a tuple, a list or a map. */
static inline int inviso_get_length(inviso_env *env, inviso_term term, size_t *length)
{
    return env->host->get_length(env, term, length);
}

/* Of a tuple or a list, from 0; 0 beyond its end. */
static inline inviso_term inviso_get_element(inviso_env *env, inviso_term term, size_t n)
{
    return env->host->get_element(env, term, n);
}

/* By a key that is identical. */
static inline int inviso_get_map_value(inviso_env *env, inviso_term map, inviso_term key, inviso_term *value)
{
    return env->host->get_map_value(env, map, key, value);
}

/* 0 if the term is no pid, or one of another node. */
static inline int inviso_get_local_pid(inviso_env *env, inviso_term term, inviso_pid *pid)
{
    return env->host->get_local_pid(env, term, pid);
}

static inline int inviso_is_process_alive(inviso_env *env, const inviso_pid *pid)
{
    return env->host->is_process_alive(env, pid);
}

/* The name ends with a zero, and is UTF-8, as all text is; 0 if it isn't. */
static inline inviso_term inviso_make_atom(inviso_env *env, const char *name) { return env->host->make_atom(env, name); }

static inline inviso_term inviso_make_int(inviso_env *env, int64_t value) { return env->host->make_int(env, value); }

static inline inviso_term inviso_make_float(inviso_env *env, double value) { return env->host->make_float(env, value); }

static inline inviso_term inviso_make_str(inviso_env *env, const char *text, size_t length)
{
    return env->host->make_str(env, text, length);
}

static inline inviso_term inviso_make_bytes(inviso_env *env, const void *bytes, size_t length)
{
    return env->host->make_bytes(env, bytes, length);
}

/* 0 if one of the elements is no term, here and below. */
static inline inviso_term inviso_make_tuple(inviso_env *env, const inviso_term *elements, size_t n)
{
    return env->host->make_tuple(env, elements, n);
}

static inline inviso_term inviso_make_list(inviso_env *env, const inviso_term *elements, size_t n)
{
    return env->host->make_list(env, elements, n);
}

static inline inviso_term inviso_make_map(inviso_env *env, const inviso_term *keys, const inviso_term *values, size_t n)
{
    return env->host->make_map(env, keys, values, n);
}

static inline inviso_term inviso_make_pid(inviso_env *env, const inviso_pid *pid)
{
    return env->host->make_pid(env, pid);
}

/* Puts a message into a process's mailbox, behind what traces have sent there before; 0 if the process has ended, or is a queue, or the
 * message is no term. What nests too deep is cut. */
static inline int inviso_send(inviso_env *env, const inviso_pid *to, inviso_term message)
{
    return env->host->send(env, to, message);
}

#ifdef __cplusplus
}
#endif

#endif
