/* ps_variable.h: variables: named tensors that live on the shards, each with a shape, an initializer and an optimizer.
 * Part of psclient.h, which has the rules.
 *
 * Parameters:
 *   client  from ps_client_open()
 *   var     from ps_client_declare() or ps_client_attach()
 *   error   filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for a client and its variables; with options.progress_thread any. */
#ifndef PS_VARIABLE_H
#define PS_VARIABLE_H

#include <stddef.h>
#include <stdint.h>

#include "ps_client.h"
#include "ps_err.h"
#include "ps_optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most dimensions of a variable, and the longest name in bytes of UTF-8.
 * Since: 0.1 */
#define PS_RANK_MAX 8
#define PS_NAME_MAX 255

/* A variable as a client knows it. Belongs to the client and lives as long.
 * Since: 0.1 */
typedef struct ps_var ps_var;

/* Which first values a variable's elements have. a and b are those of struct ps_init.
 * Since: 0.1 */
enum ps_init_kind {
    PS_INIT_ZEROS = 0,
    PS_INIT_ONES = 1,
    PS_INIT_CONSTANT = 2,         /* a */
    PS_INIT_UNIFORM = 3,          /* low a, high b */
    PS_INIT_NORMAL = 4,           /* mean a, standard deviation b */
    PS_INIT_TRUNCATED_NORMAL = 5, /* the same, within two deviations */
    PS_INIT_GLOROT_UNIFORM = 6,
    PS_INIT_GLOROT_NORMAL = 7,
    PS_INIT_HE_UNIFORM = 8,
    PS_INIT_HE_NORMAL = 9,
    PS_INIT_LECUN_UNIFORM = 10,
    PS_INIT_LECUN_NORMAL = 11,
    PS_INIT_GIVEN = 12 /* workers give them (ps_client_declare_values()); nobody gets the variable before */
};

/* A variable's first values.
 * Since: 0.1 */
struct ps_init {
    enum ps_init_kind kind;
    double a, b;
    uint64_t seed; /* the variable's values depend on seed and element index alone */
};

/* What a variable is.
 * Since: 0.1 */
struct ps_var_spec {
    const char *name; /* 1 to PS_NAME_MAX bytes of UTF-8; not "__metadata__", which no checkpoint could hold */
    uint32_t rank;    /* 0 (a scalar) to PS_RANK_MAX */
    uint64_t dims[PS_RANK_MAX];
    struct ps_init init;
    struct ps_optimizer optimizer; /* from ps_optimizer_by_name() or _parse(); zeroed is none */
    int allow_nonfinite;           /* nonzero: gradients with NaN or Inf are applied instead of refused */
};

/* Declare a variable on every shard that holds a block of it, and wait until its blocks have their first values.
 *
 * A variable of PS_INIT_GIVEN is waited for until some worker has given its values (ps_client_declare_values()).
 *
 * Declaring the same again, by any worker, is fine. A shard that lost its data is asked again by itself. To freeze a
 * variable, set the learning rate to 0 later (ps_client_set()): in a declaration a rate of 0 is refused, as a forgotten
 * one is 0.
 *
 * Parameters:
 *   spec  what the variable is; copied
 *   out   the variable
 * Errors:
 *   PS_ERR_MISMATCH  declared before with another definition, by any worker: says in what
 *   PS_ERR_FULL      the shards have no memory: what was made stays, and the same call goes on from there
 *   PS_ERR_IO        a shard cannot write: as PS_ERR_FULL
 *   PS_ERR_INVALID   the name, the shape, the initializer or the optimizer is not valid; an optimizer whose learning
 *                    rate is 0; an observer; NULL
 *   PS_ERR_LIMIT     a limit of the shard would be exceeded
 *   PS_ERR_TIMEOUT   not done by the client's time-out: nothing has changed, or the shards go on; call again
 *   PS_ERR_DRAINING  a shard is shutting down
 *   PS_ERR_NOMEM     no memory
 *   (session)        what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_declare(ps_client *client, const struct ps_var_spec *spec, ps_var **out,
                                     struct ps_error *error) PS_MUST_USE;

/* Find a variable of the client's job that some worker has declared, with the shape that it was declared with.
 *
 * For workers and for observers, which cannot declare: an evaluator attaches, pulls and computes what it wants. (Names:
 * ps_client_query() of PS_QUERY_VARIABLES, of every shard.) Waits, up to the client's time-out, while its blocks are
 * being made. What it returns is as good as a declared one.
 *
 * An observer's pulls are as with options.now: they never wait for a mode's condition and hold nobody back; every block
 * is of one version, different ones may be of different moments. The job's mode and workers need not be given. The
 * values are there while workers train and after they have finished. After a restart of a shard pulls go on; when it
 * came back empty, they wait until a worker has declared there again, and end with PS_ERR_MISMATCH for good if that is
 * another variable. An observer that pushes, declares, ticks or meets at a barrier gets PS_ERR_INVALID.
 *
 * Parameters:
 *   name  of the variable
 *   out   the variable
 * Errors:
 *   PS_ERR_NOT_FOUND  no such job, or no such variable in it: the sentence says which; nobody has declared it yet
 *   PS_ERR_MISMATCH   this client, or another shard, knows it by another definition: names what differs
 *   PS_ERR_INVALID    no name; a client of any_cluster, which does not know where blocks lie; NULL
 *   PS_ERR_TIMEOUT    not found by the client's time-out
 *   PS_ERR_NOMEM      no memory
 *   (session)         what ended the session
 * Since: 0.1 */
PS_API enum ps_err ps_client_attach(ps_client *client, const char *name, ps_var **out,
                                    struct ps_error *error) PS_MUST_USE;

/* Find many variables of the client's job: as ps_client_attach() of each, but many are asked for at once.
 *
 * Parameters:
 *   n      how many
 *   names  [n], of the variables
 *   out    [n]: the variables. After a failure those from the first to the one before the failed are filled
 * Errors:
 *   ps_client_attach()  of the first that failed; PS_ERR_TIMEOUT: for so long after the one before it was found
 *   PS_ERR_INVALID      NULL
 * Since: 0.1 */
PS_API enum ps_err ps_client_attach_many(ps_client *client, size_t n, const char *const names[], ps_var *out[],
                                         struct ps_error *error) PS_MUST_USE;

/* What a variable is.
 *
 * Parameters:
 *   i  a dimension, from 0 on
 * Returns:
 *   ps_var_name()      its name, owned by the variable
 *   ps_var_elements()  the product of its dimensions; 1 for a scalar
 *   ps_var_rank()      number of dimensions
 *   ps_var_dim()       elements along dimension i; 0 past the last
 *   ps_var_blocks()    blocks that it is cut into
 * Since: 0.1 */
PS_API const char *ps_var_name(const ps_var *var);
PS_API uint64_t ps_var_elements(const ps_var *var);
PS_API uint32_t ps_var_rank(const ps_var *var);
PS_API uint64_t ps_var_dim(const ps_var *var, uint32_t i);
PS_API uint64_t ps_var_blocks(const ps_var *var);

/* Lowest and highest version among the variable's blocks, as last pulled or answered.
 *
 * Parameters:
 *   lowest   filled, or NULL
 *   highest  filled, or NULL
 * Since: 0.1 */
PS_API void ps_var_versions(const ps_var *var, uint64_t *lowest, uint64_t *highest);

#ifdef __cplusplus
}
#endif

#endif
