/* A checkpoint: a job's variables as a directory that people and other programs can read. Pure: the content of its
 * files; the code that opens and fills them is elsewhere (checkpoint_dir.h, the client's and the server's
 * checkpoint.c).
 *
 *     DIR/clock-500/weights.safetensors   "dense/w": F32 of the variable's shape
 *     DIR/clock-500/slots.safetensors     "dense/w#0": the optimizer's first slot, F32 of the same shape;
 *                                         "dense/w#1" ...
 *                                         "dense/w#version", "dense/w#clock": I64 [blocks], of each block
 *     DIR/clock-500/manifest.json         struct checkpoint; written last
 *     DIR/latest -> clock-500
 *
 * How a variable is cut into blocks depends on its shape and optimizer alone (layout.h), so a checkpoint goes into any
 * number of shards. proto/PROTOCOL.md specifies the format for other programs. */
#ifndef COMMON_CORE_FORMAT_CHECKPOINT_H
#define COMMON_CORE_FORMAT_CHECKPOINT_H

#include "common/core/base/base.h"
#include "common/core/format/safetensors.h"
#include "common/core/model/layout.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

#define CHECKPOINT_FORMAT        2
#define CHECKPOINT_MANIFEST      "manifest.json"
#define CHECKPOINT_LATEST        "latest"
#define CHECKPOINT_PARTIAL       ".partial" /* behind the name, until it is whole */
#define CHECKPOINT_MANIFEST_MAX  GIB
#define CHECKPOINT_VARIABLES_MAX (1u << 20)
#define CHECKPOINT_DIGEST        65 /* SHA-256 in hexadecimal digits, terminated */

enum checkpoint_file { CHECKPOINT_WEIGHTS, CHECKPOINT_SLOTS, CHECKPOINT_FILES };
const char *checkpoint_file_name(enum checkpoint_file file); /* "weights.safetensors" */

struct checkpoint_variable {
    Psd__Declare *declared; /* as its first worker did */
    Psd__Declare *now;      /* with the optimizer as SET left it */
    struct layout layout;
};

/* One shard's part. */
struct checkpoint_share {
    uint64_t clock; /* of the job's slowest live worker at the instant */
    uint64_t blocks, bytes;
};

/* The manifest. Messages are its own. */
struct checkpoint {
    char *version; /* of psd */
    uint64_t unix_ms;
    Psd__Job *declared, *now; /* as its first worker opened it; with age and bound as SET left them */
    bool at_clock;            /* all of one clock; false: one instant of each shard */
    uint64_t clock;           /* of the slowest share */
    struct checkpoint_share *shares;
    uint32_t shares_len;
    struct checkpoint_variable
        *variables; /* in the order in which they were added; in files they are in that of names */
    size_t variables_len, variables_room;
    struct checkpoint_names *names; /* of the variables; NULL: they are in the order of their names */
    struct {
        uint64_t bytes;
        char sha256[CHECKPOINT_DIGEST];
    } files[CHECKPOINT_FILES];
};

/* Accepts a zeroed one. */
void checkpoint_finish(struct checkpoint *c);

/* Copies. job, variable: PS_ERR_INVALID when they are not valid in a hello and a declare; PS_ERR_NOMEM. A variable that
 * is there already is left out when it is the same, else PS_ERR_MISMATCH. */
enum ps_err checkpoint_set_job(struct checkpoint *c, const Psd__Job *declared, const Psd__Job *now,
                               struct ps_error *e) PS_MUST_USE;
enum ps_err checkpoint_add(struct checkpoint *c, const Psd__Declare *declared, const Psd__Declare *now,
                           struct ps_error *e) PS_MUST_USE;

/* Variables that come in any order, one shard after the other: each that is added before others by its name moves
 * these, so many are collected first, and added in the order of their names. */
struct checkpoint_gather {
    struct checkpoint_gathered *items;
    size_t len, room;
};

/* As checkpoint_add(), but that nothing is checked before all are added. PS_ERR_NOMEM. */
enum ps_err checkpoint_gather_take(struct checkpoint_gather *g, const Psd__Declare *declared, const Psd__Declare *now,
                                   struct ps_error *e) PS_MUST_USE;

/* Add all of them. Errors of checkpoint_add(). */
enum ps_err checkpoint_gather_add(struct checkpoint_gather *g, struct checkpoint *to, struct ps_error *e) PS_MUST_USE;
void checkpoint_gather_finish(struct checkpoint_gather *g); /* accepts a zeroed one */

/* Of this name; NULL: there is none. */
const struct checkpoint_variable *checkpoint_find(const struct checkpoint *c, const char *name);
uint64_t checkpoint_blocks(const struct checkpoint *c);

/* The manifest's text, freed by the caller. NULL: no memory. It ends with a checksum of itself, in all formats. */
char *checkpoint_text(const struct checkpoint *c);

/* Append that checksum to any text, which lacks its last brace. Freed by the caller; NULL: no memory. */
char *checkpoint_seal(struct span text);

/* Parse the text. An error is PS_ERR_DATA with the place: "manifest.json: variables[3].shape: ...". PS_ERR_VERSION: a
 * newer format. *out is ended by checkpoint_finish(), also after a failure. */
enum ps_err checkpoint_parse(struct span text, struct checkpoint *out, struct ps_error *e) PS_MUST_USE;

/* ---- Its files ---- */

/* Add the file's tensors to s, a zeroed one, in order. */
enum ps_err checkpoint_tensors(const struct checkpoint *c, enum checkpoint_file file, struct safetensors *s,
                               struct ps_error *e) PS_MUST_USE;

/* Checks that the headers of both files have exactly the manifest's tensors. PS_ERR_DATA. */
enum ps_err checkpoint_check_tensors(const struct checkpoint *c, const struct safetensors files[CHECKPOINT_FILES],
                                     struct ps_error *e) PS_MUST_USE;

/* Where the tensors of one variable begin. */
struct checkpoint_places {
    uint64_t weights, slot[LAYOUT_SLOTS_MAX]; /* [elements] f32 */
    uint64_t version, clock;                  /* [blocks] i64 */
};

/* False: the files do not have all of this variable, with this shape. */
bool checkpoint_places(const struct safetensors files[CHECKPOINT_FILES], const char *name, const struct layout *layout,
                       struct checkpoint_places *out) PS_MUST_USE;

#endif
