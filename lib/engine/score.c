/* Log-probabilities of ids that are given, not drawn. */
#include "base/fpenv.h"
#include "engine/engine.h"

#define ROWS_AT_ONCE 32u /* of logits: bounds memory */

struct scoring {
    infer_session *s; /* a copy to work on */
    uint64_t from, count; /* the elements that are scored */
    const int32_t *ids;
    infer_score *out;
};

/* The log-probability of the element behind each row of logits that there is. */
static void take_rows(const struct scoring *c)
{
    const infer_session *s = c->s;
    infer_score *o = c->out;
    uint32_t n_top = o->top ? o->top_logprobs : 0;
    struct fpenv fp = fpenv_enter();
    for (uint64_t r = 0; r < s->n_logits_rows; r++) {
        if (s->logits_pos[r] + 1 < c->from)
            continue;
        uint64_t i = s->logits_pos[r] + 1 - c->from;
        double p = sampler_logprob(s->logits + r * s->model->net->h.n_logits, session_vocab(s), c->ids[i], n_top, n_top ? o->top + i * n_top : NULL);
        if (o->logprobs)
            o->logprobs[i] = (float)p;
        o->sum += p;
    }
    fpenv_leave(fp);
}

/* The first id, when nothing stands before it. */
static void take_none(const struct scoring *c)
{
    infer_score *o = c->out;
    o->first = 1;
    if (o->logprobs)
        o->logprobs[0] = 0;
    for (uint32_t k = 0; o->top && k < o->top_logprobs; k++)
        o->top[k] = (infer_logprob){-1, 0};
}

static infer_status score(const struct scoring *c, const infer_cancel *cancel, infer_error *err)
{
    infer_session *s = c->s;
    infer_step_item it = {.size = (uint32_t)sizeof it, .session = s, .logits = INFER_ROWS_LAST};
    infer_status st = engine_step(&it, 1, cancel, err);
    if (st == INFER_OK)
        st = session_append(s, c->ids, c->count, err);
    if (st != INFER_OK)
        return st;
    if (s->n_logits_rows && s->logits_pos[s->n_logits_rows - 1] + 1 == c->from)
        take_rows(c);
    else
        take_none(c);
    it.logits = INFER_ROWS_ALL;
    for (uint64_t left; st == INFER_OK && (left = s->length - 1 - s->computed) > 0;) { /* what follows the last id is not asked */
        it.max_elements = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
        st = engine_step(&it, 1, cancel, err);
        if (st == INFER_OK)
            take_rows(c);
    }
    return st;
}

infer_status session_score(infer_session *s, const int32_t *ids, uint64_t count, infer_score *out, const infer_cancel *cancel, infer_error *err)
{
    struct scoring c = {.from = s->length, .count = count, .ids = ids, .out = out};
    infer_status st = session_check_ids(s, ids, count, err);
    out->first = 0;
    out->sum = 0;
    if (st != INFER_OK || !count)
        return st;
    st = session_copy(s, &c.s, err);
    if (st == INFER_OK)
        st = score(&c, cancel, err);
    if (st == INFER_OK) {
        session_swap(s, c.s);
        c.s->prefix.kept = c.s->computed; /* what s was need not go to the cache: s has it */
    }
    session_release(c.s);
    return st;
}
