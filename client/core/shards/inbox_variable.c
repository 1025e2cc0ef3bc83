/* DECLARED: a shard's id of a variable, and for an attach its definition. */
#include "client/core/shards/inbox.h"

#include <string.h>

/* A shard's definition of a variable must be what the others sent. The variable, or NULL with *e. */
static struct core_var *
attached_var(struct core *c, struct shard_link *l, const struct request *p, struct ps_error *e)
{
    const Psd__Declare *d = l->msg.u.declared->declare;
    const char *name = p->var != NULL ? p->var->name : p->op->name;
    struct core_var *v;
    struct ps_error why;
    enum ps_err err;

    if (d == NULL || strcmp(d->name, name) != 0)
        core_error_set(c, l, e, PS_ERR_PROTOCOL, "did not say what variable '%.80s' is", name);
    else if ((err = variables_attach(&c->vars, d, &v, &why)) == PS_OK)
        return v;
    else
        core_error_set(c, l, e, err, "%s", why.text);
    return NULL;
}

static void
var_known(struct shard_link *l, struct core_var *v)
{
    var_learn_id(v, l->shard, l->msg.u.declared->var);
}

/* What the shard lost were first values that a worker had given: only a worker can give them again. */
static void
report_awaits(struct core *c, struct shard_link *l, const struct core_var *v)
{
    struct ps_error e;

    core_error_set(c, l, &e, PS_ERR_ROLLED_BACK,
                   "lost variable '%.64s', whose first values workers give: declare it with them again", v->name);
    core_emit_event(c, &e);
}

static void
on_attached(struct core *c, struct shard_link *l, struct request *p)
{
    struct core_op *op = p->op;
    struct core_var *v;
    struct ps_error e;

    if (p->given_up) {
        inbox_answered(c, l, p, NULL);
        return;
    }
    if ((v = attached_var(c, l, p, &e)) == NULL) {
        inbox_answered(c, l, p, &e);
        return;
    }
    var_known(l, v);
    e.code = PS_OK;
    if (p->var == NULL && op_attach_others(c, op, v, l->shard) != PS_OK)
        core_error_set(c, l, &e, PS_ERR_NOMEM, "no memory to attach to '%s'", v->name);
    inbox_answered(c, l, p, e.code != PS_OK ? &e : NULL);
    op_pump(c, op); /* the caller's: what is given up has no operation */
}

static void
on_restored(struct core *c, struct shard_link *l, struct request *p)
{
    struct ps_error e;

    if (c->config.observer && attached_var(c, l, p, &e) == NULL) {
        core_fail(c, &e); /* it is another variable now */
        return;
    }
    var_known(l, p->var);
    if (l->msg.u.declared->awaits)
        report_awaits(c, l, p->var);
    inbox_answered(c, l, p, NULL);
    shard_link_restored(c, l);
}

void
inbox_declared(struct core *c, struct shard_link *l)
{
    struct request *p = request_ids_find(&l->requests, l->msg.request);

    if (p != NULL && p->kind == REQUEST_ATTACH) {
        on_attached(c, l, p);
    } else if (p != NULL && p->kind == REQUEST_RESTORE) {
        on_restored(c, l, p);
    } else if (p != NULL && p->kind == REQUEST_DECLARE) {
        if (!p->given_up) {
            var_known(l, p->var);
            p->var->shard[l->shard].awaits = l->msg.u.declared->awaits;
        }
        inbox_answered(c, l, p, NULL);
    } else {
        inbox_broke(c, l, "answered a declaration that was not made");
    }
}
