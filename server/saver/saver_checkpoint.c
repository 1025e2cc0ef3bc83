/* Writes a checkpoint: the same blocks in the same order as a save's, written to files instead. */
#include "server/saver/checkpoint_sink.h"
#include "server/saver/saver_state.h"

void
saver_checkpoint_drop(struct saver *s)
{
    checkpoint_sink_drop(s->sink);
    s->sink = NULL;
}

static enum ps_err
write_blocks(struct saver *s, uint64_t most, uint64_t redo_to, uint64_t *written, struct ps_error *e)
{
    struct shard_save_block block;
    uint64_t read = 0;
    enum ps_err err = PS_OK;

    while (err == PS_OK && read < most && saver_next_block(s, read, redo_to, &block)) {
        struct span value;
        size_t bytes = 0;

        if ((err = saver_read(s, &block.key, &value)) != PS_OK)
            return ps_fail(e, err, "the live store cannot be read: %s", ps_strerror(err));
        read += value.len;
        saver_block_was_read(s, value.len);
        err = checkpoint_sink_write(s->sink, &block.key, value, &bytes, e);
        *written += bytes;
    }
    uv_async_send(&s->async);
    return err;
}

static enum ps_err
close_files(struct saver *s, struct ps_error *e)
{
    struct checkpoint_sink *sink = s->sink;

    s->sink = NULL;
    return checkpoint_sink_end(sink, &s->own->left_out, e);
}

void
saver_checkpoint_go_on(struct saver *s, bool closing, uint64_t most, uint64_t redo_to)
{
    struct ps_error e = {0};
    uint64_t written = 0;
    enum ps_err err = PS_OK;

    if (s->sink == NULL)
        err = checkpoint_sink_open(s->own->save, s->config.checkpoint_root, &s->sink, &e);
    else if (!closing)
        err = checkpoint_sink_wanted(s->sink, &e);
    if (err == PS_OK && !closing)
        err = write_blocks(s, most, redo_to, &written, &e);
    else if (err == PS_OK)
        err = close_files(s, &e);
    s->tokens -= (double)written;
    s->own->written += written;
    if (err == PS_OK && !closing)
        return;
    saver_checkpoint_drop(s);
    saver_end_job(s, err, e.text);
}
