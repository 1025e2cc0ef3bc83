/* A safetensors file from an untrusted source, and its import: fuzz_checkpoint.c has the header alone.
 *
 * The first two bytes: what the import may do (patterns, declare), and how many values lie behind the bytes; the rest
 * is the file. What is accepted becomes variables that could have been declared, each of a tensor with its name, shape
 * and as many values; values become floats of the same bits on every path; and what is written again is read again as
 * the same tensors. What is refused has a code of its own and a sentence that names the file. */
#include "tests/fuzz/bytes.h"

#include <stdlib.h>

#include "client/core/shards/import_plan.h"
#include "common/core/codec/half.h"
#include "common/core/wire/wire.h"

static struct checkpoint job;

/* "w" of 2 x 2, as a shard knows it. */
static void
know_job(void)
{
    Psd__Job declared = PSD__JOB__INIT;
    Psd__Declare w = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct ps_optimizer optimizer;
    struct wire_optimizer room;
    uint64_t dims[] = {2, 2};
    struct ps_error e;

    declared.name = (char *)"fuzz";
    declared.workers = 1;
    w.name = (char *)"w";
    w.n_dims = 2;
    w.dims = dims;
    w.init = &init;
    ps_assert(ps_optimizer_by_name("momentum", &optimizer, &e) == PS_OK);
    w.optimizer = wire_optimizer_message(&optimizer, &room);
    ps_assert(checkpoint_set_job(&job, &declared, &declared, &e) == PS_OK);
    ps_assert(checkpoint_add(&job, &w, &w, &e) == PS_OK);
}

static void
check_refusal(enum ps_err err, const struct ps_error *e)
{
    ps_assert(err == e->code && strncmp(e->text, "f: ", 3) == 0);
    ps_assert(err == PS_ERR_DATA || err == PS_ERR_NOT_FOUND || err == PS_ERR_SHAPE || err == PS_ERR_UNSUPPORTED ||
              err == PS_ERR_INVALID || err == PS_ERR_LIMIT);
}

static void
check_variables(const struct checkpoint *c, const struct safetensors *s)
{
    for (size_t i = 0; i < c->variables_len; i++) {
        const struct checkpoint_variable *v = &c->variables[i];
        const struct safetensors_tensor *t = safetensors_find(s, v->declared->name);

        ps_assert(t != NULL && safetensors_is_float(t->type) && t->rank == v->declared->n_dims);
        ps_assert(t->rank == 0 || memcmp(t->dims, v->declared->dims, t->rank * sizeof *t->dims) == 0);
        ps_assert(v->layout.elements * safetensors_type_bytes(t->type) == t->bytes && v->layout.elements > 0);
    }
}

static void
fuzz_safetensors_plan(const struct safetensors *s, uint8_t how)
{
    static const char *const patterns[] = {NULL, "w", "*", "?*a"}, *const except[] = {"*.n", "b?"};
    struct ps_optimizer optimizer;
    struct import_choice choice = {.pattern = patterns[how & 3], .except = except, .except_len = how >> 3 & 2};
    struct checkpoint out = {0};
    struct ps_error e = {0};
    uint64_t declared;
    enum ps_err err;

    ps_assert(ps_optimizer_by_name("adagrad", &optimizer, &e) == PS_OK);
    choice.declare = how & 4 ? &optimizer : NULL;
    err = import_plan("f", s, &job, &choice, &out, &declared, &e);
    if (err != PS_OK)
        check_refusal(err, &e);
    else
        check_variables(&out, s);
    ps_assert(err != PS_OK || (out.variables_len > 0 && declared <= out.variables_len));
    checkpoint_finish(&out);
}

/* Those that lie in the bytes. */
static void
fuzz_safetensors_convert(const struct safetensors *s, const uint8_t *file, size_t len)
{
    uint16_t halves[16];
    float floats[16];

    for (size_t i = 0; i < s->len; i++) {
        const struct safetensors_tensor *t = &s->tensors[i];
        size_t n = MIN(t->bytes / 2, (uint64_t)ARRAY_LEN(halves));

        if ((t->type != SAFETENSORS_F16 && t->type != SAFETENSORS_BF16) || t->begin + 2 * n > len)
            continue;
        memcpy(halves, file + t->begin, 2 * n);
        safetensors_to_floats(t->type, halves, n, floats);
        for (size_t k = 0; k < n; k++)
            if (t->type == SAFETENSORS_BF16)
                ps_assert(half_bits(floats[k]) == (uint32_t)halves[k] << 16);
            else
                ps_assert(half_from_float(floats[k]) == halves[k] || floats[k] != floats[k]);
    }
}

static bool
has_other(const struct safetensors *s)
{
    for (size_t i = 0; i < s->len; i++)
        if (s->tensors[i].type == SAFETENSORS_OTHER)
            return true;
    return false;
}

/* Tensors of types that are not known are not written. */
static void
write_again(const struct safetensors *s)
{
    struct safetensors made = {0}, read = {0};
    struct ps_error e;
    char *head = NULL;
    enum ps_err err = PS_OK;

    if (has_other(s))
        return;

    for (size_t i = 0; err == PS_OK && i < s->len; i++)
        err =
            safetensors_add(&made, s->tensors[i].name, s->tensors[i].type, s->tensors[i].rank, s->tensors[i].dims, &e);
    if (err == PS_OK)
        err = safetensors_head(&made, "fuzz", &head, &e);
    ps_assert(err == PS_OK || err == PS_ERR_LIMIT);
    if (err == PS_OK) {
        ps_assert(safetensors_parse("f", (struct span){head, made.data}, made.bytes, &read, &e) == PS_OK);
        ps_assert(read.len == s->len);
        for (size_t i = 0; i < s->len; i++)
            ps_assert(strcmp(read.tensors[i].name, s->tensors[i].name) == 0 &&
                      read.tensors[i].type == s->tensors[i].type && read.tensors[i].bytes == s->tensors[i].bytes);
    }
    free(head);
    safetensors_finish(&made);
    safetensors_finish(&read);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size};
    struct safetensors s = {0};
    struct ps_error e = {0};
    uint8_t how = bytes_one(&b);
    uint64_t more = (uint64_t)bytes_one(&b) * 2, n;
    enum ps_err err;

    if (job.declared == NULL)
        know_job();
    if (b.left < 8)
        return 0;
    if ((err = safetensors_head_bytes("f", b.at, b.left + more, &n, &e)) == PS_OK && n <= b.left)
        err = safetensors_parse("f", (struct span){b.at, n}, b.left + more, &s, &e);
    if (err != PS_OK) {
        check_refusal(err, &e);
    } else if (n <= b.left) {
        fuzz_safetensors_plan(&s, how);
        fuzz_safetensors_convert(&s, b.at, b.left);
        write_again(&s);
    }
    safetensors_finish(&s);
    return 0;
}
