/* The protocol between psrun and its agent on another machine, over ssh's standard input and output. Pure.
 *
 *     psrun ──stdin: order, then commands──► psrun @remote (agent.h) ──► supervisor ──► program
 *           ◄──stdout: hello, then frames──
 *
 * The order says all that is to be run. It goes through stdin, not through the command line: there every user of that
 * machine could read the environment, and a shell would interpret it. ssh's stderr is ssh's own.
 *
 * stdin is also the lifeline: when it ends, or nothing comes for silence_ms (psrun sends a beat REMOTE_BEATS times in
 * it), the agent kills all below it. So nothing outlives psrun, ssh or the network.
 *
 * Output of login shells before the hello is passed on as noise. */
#ifndef CLIENT_TOOLS_PSRUN_REMOTE_H
#define CLIENT_TOOLS_PSRUN_REMOTE_H

#include "client/tools/shared/strlist.h"
#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define REMOTE_ARG       "@remote" /* first argument of a psrun that is an agent */
#define REMOTE_HELLO     "\001psrun remote 1\002"
#define REMOTE_BEATS     4
#define REMOTE_ORDER_MAX (16 * MIB)
#define REMOTE_BODY_MAX  (1 * MIB)

/* Single bytes after the order. */
enum remote_command { REMOTE_BEAT = '.', REMOTE_STOP = 'T', REMOTE_KILL = 'K', REMOTE_RELEASE = 'R' };

/* All that is to be run there. */
struct remote_order {
    char *dir;        /* working directory */
    char *remove_dir; /* as of struct process_start */
    bool shard;       /* a psd: it reports when it is ready; argv[0] "": the one that is found there */
    bool hold;        /* as of struct process_start */
    uint32_t silence_ms;
    uint32_t memory_shards;         /* that share the filesystem of the last of dirs; 0: psd's own choice */
    uint32_t workers;               /* that share the machine's cores; 0: their threads are set already */
    struct strlist dirs, env, argv; /* to be made; to be added to the environment there; to be run */
};

/* To bytes, freed with free(); and back: *used 0 when it is not whole yet. PS_ERR_PROTOCOL. */
char *remote_order_pack(const struct remote_order *order, size_t *len);
enum ps_err remote_order_unpack(const char *bytes, size_t len, struct remote_order *out, size_t *used,
                                struct ps_error *e) PS_MUST_USE;
void remote_order_finish(struct remote_order *order); /* accepts a zeroed one */

enum remote_kind {
    REMOTE_OUTPUT = 'o', /* a, b: stream and kind of the line; body: text */
    REMOTE_READY = 'r',  /* body: where the shard listens */
    REMOTE_ENDED = 'e',  /* body: struct remote_end; a: 1 when its directory is held */
    REMOTE_FAILED = 'f'  /* body: why nothing can be run there */
};

struct remote_end {
    int32_t pid, status, failure; /* as of struct process */
};

#define REMOTE_HEADER_SIZE 8
#define REMOTE_END_SIZE    12

struct remote_header {
    enum remote_kind kind;
    uint8_t a, b;
    uint32_t len; /* of the body */
};
void remote_header_pack(const struct remote_header *h, uint8_t out[REMOTE_HEADER_SIZE]);
void remote_end_pack(const struct remote_end *end, uint8_t out[REMOTE_END_SIZE]);
enum ps_err remote_end_unpack(const char *body, size_t len, struct remote_end *out, struct ps_error *e) PS_MUST_USE;

/* The agent's bytes, taken apart however they come. */
struct remote_reader {
    void (*frame)(void *arg, const struct remote_header *header, const char *body);
    void (*noise)(void *arg, const char *bytes, size_t len); /* before the hello */
    void *arg;
    bool hello;

    /* private */
    size_t matched; /* bytes of the hello */
    char *bytes;    /* header and body of the next frame */
    size_t len, size;
};

/* PS_ERR_PROTOCOL: it is no agent of ours, stop reading. body is valid during the call, with a 0 behind it. */
enum ps_err remote_read(struct remote_reader *r, const char *bytes, size_t len, struct ps_error *e) PS_MUST_USE;
void remote_reader_finish(struct remote_reader *r); /* accepts a zeroed one */

#endif
