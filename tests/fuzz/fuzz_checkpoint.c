/* Files of a checkpoint from an untrusted source: the header of a safetensors file, and the manifest.
 *
 * The first byte chooses the reader, the rest is the file; a manifest without its last brace, since its checksum is
 * made here: with a wrong one all of them would be refused alike. What is accepted holds what the headers promise:
 * places that fill the file, each byte once; a manifest that is written again and read again is the same. What is
 * refused has a code and a sentence that names the file. */
#include "tests/fuzz/bytes.h"

#include "common/core/format/checkpoint.h"
#include "common/core/format/safetensors.h"

static void
check_refusal(enum ps_err err, const struct ps_error *e, const char *file)
{
    ps_assert(err == e->code && (err == PS_ERR_DATA || err == PS_ERR_VERSION));
    ps_assert(strncmp(e->text, file, strlen(file)) == 0);
}

static void
check_places(const struct safetensors *s)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < s->len; i++) {
        const struct safetensors_tensor *t = &s->tensors[i];
        uint64_t bytes = safetensors_type_bytes(t->type);

        ps_assert(safetensors_find(s, t->name) == t && t->rank <= SAFETENSORS_RANK_MAX);
        for (uint32_t d = 0; d < t->rank; d++)
            bytes *= t->dims[d];
        ps_assert(t->begin >= s->data && t->begin + t->bytes <= s->bytes);
        ps_assert(t->type == SAFETENSORS_OTHER || t->bytes == bytes);
        sum += t->bytes;
    }
    ps_assert(sum == s->bytes - s->data);
}

/* The bytes stand for a whole file; values may go on behind them, as far as the second byte says. */
static void
fuzz_checkpoint_header(struct fuzz_bytes *b)
{
    uint64_t more = (uint64_t)bytes_one(b) * 4, n;
    struct safetensors s = {0};
    struct ps_error e = {0};
    enum ps_err err;

    if (b->left < 8)
        return;
    if ((err = safetensors_head_bytes("f", b->at, b->left + more, &n, &e)) == PS_OK && n <= b->left)
        err = safetensors_parse("f", (struct span){b->at, n}, b->left + more, &s, &e);
    if (err != PS_OK)
        check_refusal(err, &e, "f: ");
    else
        check_places(&s);
    safetensors_finish(&s);
}

static void
check_again(const struct checkpoint *c)
{
    char *text = checkpoint_text(c), *again;
    struct checkpoint read;
    struct ps_error e;

    ps_assert(text != NULL && checkpoint_parse((struct span){text, strlen(text)}, &read, &e) == PS_OK);
    ps_assert((again = checkpoint_text(&read)) != NULL && strcmp(text, again) == 0);
    checkpoint_finish(&read);
    free(text);
    free(again);
}

/* Files as the manifest describes them can be made, and it then finds them as described. */
static void
check_files(const struct checkpoint *c)
{
    struct safetensors files[CHECKPOINT_FILES] = {{0}};
    struct ps_error e;
    enum ps_err err = PS_OK;

    for (int f = 0; f < CHECKPOINT_FILES && err == PS_OK; f++) {
        char *head = NULL;

        if ((err = checkpoint_tensors(c, (enum checkpoint_file)f, &files[f], &e)) == PS_OK)
            err = safetensors_head(&files[f], "fuzz", &head, &e);
        free(head);
    }
    ps_assert(err == PS_OK || err == PS_ERR_INVALID || err == PS_ERR_LIMIT);
    ps_assert(err != PS_OK || checkpoint_check_tensors(c, files, &e) == PS_OK);
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        safetensors_finish(&files[f]);
}

static void
fuzz_checkpoint_manifest(struct fuzz_bytes *b)
{
    struct checkpoint c;
    struct ps_error e = {0};
    char *text = checkpoint_seal((struct span){b->at, strnlen((const char *)b->at, b->left)});
    enum ps_err err;

    ps_assert(text != NULL);
    err = checkpoint_parse((struct span){text, strlen(text)}, &c, &e);
    free(text);

    if (err != PS_OK) {
        check_refusal(err, &e, CHECKPOINT_MANIFEST);
    } else {
        check_again(&c);
        check_files(&c);
    }
    checkpoint_finish(&c);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size};

    if (bytes_below(&b, 2) == 0)
        fuzz_checkpoint_header(&b);
    else
        fuzz_checkpoint_manifest(&b);
    return 0;
}
