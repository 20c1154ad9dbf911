/* Tokens of the prompt, told in order, with log-probabilities when those are wanted: each needs the logits of the element before it, so the prompt
 * is computed in small pieces with all their logits. */
#include "engine/scheduler_state.h"

/* The text that element i adds; of the last one also what the text ends with. */
static infer_status decode(infer_request *r, uint64_t i, struct buf *text, infer_error *err)
{
    const infer_session *s = r->answers[0].session;
    const infer_tokenizer *t = s->model->tokenizer;
    infer_status st = t ? tokenizer_decode_next(t, &r->echo, s->elements[i].id, text, err) : INFER_OK;
    if (st == INFER_OK && t && i + 1 == r->prompt_length)
        st = tokenizer_decode_next(t, &r->echo, -1, text, err);
    return st != INFER_OK || buf_ok(text) ? st : err_no_memory(err);
}

/* Nothing comes before the first one, and no logits come from a learned prefix. */
static bool has_logprob(const infer_request *r, uint64_t i)
{
    return r->logprobs && i && r->answers[0].session->elements[i - 1].id != ELEMENT_PREFIX;
}

/* The logits behind which element i comes; NULL: the last step did not give them. */
static const float *logits_before(const infer_session *s, uint64_t i)
{
    for (uint64_t row = 0; row < s->n_logits_rows; row++)
        if (s->logits_pos[row] + 1 == i)
            return s->logits + row * s->model->net->h.n_logits;
    return NULL;
}

static infer_status tell(infer_request *r, uint64_t i, struct buf *text, infer_error *err)
{
    const infer_session *s = r->answers[0].session;
    infer_logprob top[SAMPLER_MAX_TOP];
    infer_sample_result score = {.size = (uint32_t)sizeof score};
    infer_detokenizer before = r->echo;
    text->len = 0;
    infer_status st = decode(r, i, text, err);
    if (st == INFER_OK && has_logprob(r, i))
        st = sampler_score(logits_before(s, i), session_vocab(s), s->elements[i].id, s->sampler.set.top_logprobs, top, &score, err);
    infer_request_event ev = {.size = (uint32_t)sizeof ev, .kind = INFER_REQUEST_EVENT_PROMPT, .id = s->elements[i].id, .stop_index = -1,
                              .text = text->len ? text->data : "", .text_len = text->len, .logprob = score.logprob, .top_count = score.top_count,
                              .top = score.top};
    if (st == INFER_OK)
        st = request_tell(r, &ev, err);
    if (st != INFER_OK) {
        r->echo = before;
        return st;
    }
    os_mutex_lock(&r->scheduler->lock);
    r->info.prompt_logprob += (double)score.logprob;
    os_mutex_unlock(&r->scheduler->lock);
    return INFER_OK;
}

infer_status request_echo(infer_request *r, infer_error *err)
{
    const infer_session *s = r->answers[0].session;
    struct buf text;
    infer_status st = INFER_OK;
    buf_init(&text, &s->model->engine->env->alloc, 0);
    for (; r->told < r->prompt_length && r->told <= s->computed && st == INFER_OK; r->told += st == INFER_OK) {
        bool token = s->elements[r->told].id >= 0;
        if (token && has_logprob(r, r->told) && !logits_before(s, r->told))
            break;
        if (token)
            st = tell(r, r->told, &text, err);
    }
    buf_free(&text);
    return st;
}
