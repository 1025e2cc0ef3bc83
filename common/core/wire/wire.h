/* Messages: metadata bytes to validated protobuf-c structs and back. Pure.
 *
 * Everything that can be checked in a message without the receiver's state is checked here, once: enums in range,
 * lengths within limits, parallel arrays of equal length, names of valid UTF-8, numbers finite, definitions that make
 * sense. Past wire_decode() the receiver checks only what needs its own state (is the id known, does the payload fit),
 * and finds no NULL: a message inside a message that was not sent is filled in with its defaults.
 *
 * wire.c packs and unpacks, wire_check.c checks, wire_describe.c compares and prints definitions. */
#ifndef COMMON_CORE_WIRE_WIRE_H
#define COMMON_CORE_WIRE_WIRE_H

#include "common/core/base/arena.h"
#include "common/core/base/base.h"
#include "common/core/model/age.h"
#include "common/core/model/initializer.h"
#include "common/core/optimizer/optimizer.h"
#include "common/core/wire/frame.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

#define WIRE_NAME_MAX        255            /* bytes of UTF-8 in a variable, job or barrier name */
#define WIRE_NAME_RESERVED   "__metadata__" /* no variable has it: an entry of every safetensors file does */
#define WIRE_PATH_MAX        3500 /* bytes of UTF-8 in the path of a directory; file names are put behind it */
#define WIRE_SURVIVED_MAX    8192 /* bytes of WELCOME.survived: a bit for each sequence that may be unanswered */
#define WIRE_ODD_MAX         32   /* outcomes other than OK in one welcome */
#define WIRE_CLUSTER_MAX     255  /* bytes of UTF-8 in a cluster name */
#define WIRE_AGENT_MAX       255  /* bytes */
#define WIRE_RANK_MAX        8    /* dimensions of a variable */
#define WIRE_ELEMENTS_MAX    (1ull << 48) /* elements of one variable */
#define WIRE_BLOCKS_MAX      8192         /* blocks in one pull or push: its metadata always fits FRAME_META_MAX */
#define WIRE_WORKERS_MAX     65536        /* workers in one job */
#define WIRE_SHARDS_MAX      4096         /* shards in one cluster */
#define WIRE_BUCKETS_MAX     64           /* of a histogram */
#define WIRE_PARAMETERS_MAX  64           /* in one set */
#define WIRE_METRICS_MAX     32           /* of one worker */
#define WIRE_METRIC_NAME_MAX 63           /* bytes of UTF-8 in the name of one */
#define WIRE_LEASE_MS        300000u      /* of a worker that requests none */
#define WIRE_LEASE_MS_MAX    (24u * 3600u * 1000u)
#define WIRE_GROUP_MAX       256                  /* workers in one group */
#define WIRE_FIELDS_MAX      32                   /* in a job's definition */
#define WIRE_FIELD_NAME_MAX  63                   /* bytes of the name of one */
#define WIRE_FIELD_VALUE_MAX 127                  /* bytes of its value */
#define WIRE_ADDRESS_MAX     63                   /* bytes of a member's address */
#define WIRE_HOST_MAX        127                  /* bytes of the name of a member's machine */
#define WIRE_ERROR_TEXT_MAX  2048                 /* bytes of a sentence */
#define WIRE_ASSIGN_MAX      4611686018427387903u /* 2^62 - 1: number of an assign, as a block keeps it (layout.h) */

/* A pong is the ping that it answers. */
#define psd__pong__descriptor psd__ping__descriptor

struct wire_msg {
    enum msg_type type;
    uint64_t request;
    uint64_t payload_len;
    union {
        ProtobufCMessage *base;
#define X(id, number, name, type, ...) Psd__##type *name;
        MESSAGE_LIST(X)
#undef X
    } u;
};

/* Unpack and validate. msg lives in the arena until its reset; meta is no longer needed. Errors: PS_ERR_PROTOCOL
 * (garbage, a payload where there may be none, a type that is not known), PS_ERR_LIMIT, PS_ERR_INVALID (a value out of
 * its range), PS_ERR_NOMEM. *e names the field.
 *
 * Corrected instead of refused: bytes that are no UTF-8 and control characters in sentences and reports become '?';
 * codes that this build does not know become PS_ERR_INTERNAL; fields that it does not know are dropped. */
enum ps_err wire_decode(const struct frame_head *head, const void *meta, struct arena *arena, struct wire_msg *msg,
                        struct ps_error *e) PS_MUST_USE;

/* Bytes of header, metadata and pad that wire_encode() writes. */
size_t wire_size(const ProtobufCMessage *message);

/* Write header, metadata (at most FRAME_META_MAX) and pad to out (wire_size() bytes). The caller sends payload_len
 * bytes and frame_pad(payload_len) zero bytes after it. */
void wire_encode(enum msg_type type, uint64_t request, const ProtobufCMessage *message, uint64_t payload_len,
                 uint8_t *out);

/* The same into a new heap buffer; *len bytes. NULL when out of memory. */
uint8_t *wire_encode_new(enum msg_type type, uint64_t request, const ProtobufCMessage *message, uint64_t payload_len,
                         size_t *len);

/* A copy in heap memory, freed as protobuf-c frees; NULL when out of memory. */
void *wire_copy(const ProtobufCMessage *message);

/* The messages of a step, which are not searched for bytes 0 in texts: they have no texts. */
bool wire_is_of_numbers(enum msg_type type);

/* "push"; "unknown message" for a number that is not known. */
const char *wire_type_name(enum msg_type type);

/* "a" or "an", as that name has it. */
const char *wire_type_article(enum msg_type type);

/* Beside the rules of all names: a variable may not have the one that has another meaning in a checkpoint's files.
 * PS_ERR_INVALID. */
enum ps_err wire_check_variable_name(const char *name, struct ps_error *e) PS_MUST_USE;

/* Elements of a shape: the product of dims (1 for rank 0). PS_ERR_INVALID when a dimension is 0, PS_ERR_LIMIT past
 * WIRE_RANK_MAX or WIRE_ELEMENTS_MAX. */
enum ps_err wire_elements(const uint64_t *dims, size_t rank, uint64_t *elements) PS_MUST_USE;

/* Definitions as the core works with them. Parameters that the kind does not use come out as 0. */
struct age_policy wire_age(const Psd__AgePolicy *a);
struct initializer wire_initializer(const Psd__Initializer *i);
struct ps_optimizer wire_optimizer(const Psd__Optimizer *o);
struct ps_schedule wire_schedule(const Psd__Schedule *s); /* NULL: constant */
struct ps_clip wire_clip(const Psd__Clip *c);             /* NULL: none */

/* The reverse, into structs that the message borrows: optimizers are sent with all that their kind uses. */
struct wire_optimizer {
    Psd__Optimizer optimizer;
    Psd__Schedule schedule;
    Psd__Clip clip;
};
double wire_optimizer_parameter(const Psd__Optimizer *o, enum optimizer_parameter p);
Psd__Optimizer *wire_optimizer_message(const struct ps_optimizer *o, struct wire_optimizer *room);
void wire_schedule_message(const struct ps_schedule *s, Psd__Schedule *out);
void wire_clip_message(const struct ps_clip *c, Psd__Clip *out);

/* True when two declarations mean the same variable (name apart; parameters that the kinds do not use apart). */
bool wire_declare_equal(const Psd__Declare *a, const Psd__Declare *b);

/* The same for a declaration, `is`, of a variable that was declared so and whose optimizer SETs have changed since:
 * each of its parameters, its schedule and its clip may be as declared or as now. Of `now` only the optimizer counts.
 */
bool wire_declare_fits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is);

/* The text of a MISMATCH sentence for two that are not: "shape float32[3,4], not float32[4,4]; optimizer
 * sgd:learning_rate=0.1, not adam:learning_rate=0.001". Numbers are printed with as many digits as tell them apart.
 * Terminated; cut off when size is too small. */
void wire_declare_differences(const Psd__Declare *was, const Psd__Declare *is, char *out, size_t size);

/* The text for one that does not fit: "optimizer sgd:learning_rate=0.1, or sgd:learning_rate=0.05 since psctl set, not
 * sgd:learning_rate=0.3". */
void wire_declare_misfits(const Psd__Declare *was, const Psd__Declare *now, const Psd__Declare *is, char *out,
                          size_t size);

/* True when two jobs are the same (options that the mode does not use apart). */
bool wire_job_equal(const Psd__Job *a, const Psd__Job *b);

/* As wire_declare_fits() and wire_declare_misfits(), for bound, age, and the workers with their quorum. */
bool wire_job_fits(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is);
void wire_job_misfits(const Psd__Job *was, const Psd__Job *now, const Psd__Job *is, char *out, size_t size);

/* What differs when they are not, name apart: "mode async, 2 workers, not sync(2 of 2); age none, not inverse". */
void wire_job_differences(const Psd__Job *was, const Psd__Job *is, char *out, size_t size);

/* All of a job's options: "sync(3 of 4), lapse shrink, age exponential(0.9)". */
void wire_job_options(const Psd__Job *j, char *out, size_t size);

/* True when two age policies are the same. */
bool wire_age_equal(const struct age_policy *a, const struct age_policy *b);

#endif
