/* Generation as a pull: each call does one bounded piece of work. */
#include "engine/engine.h"

/* Whether a full context could be shifted as asked for. */
static infer_status check_shift(const infer_session *s, const infer_generate_options *o, infer_error *err)
{
    if (!o->shift_drop)
        return INFER_OK;
    if (s->model->net->arch->positions == POSITIONS_LEARNED)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "a model with learned positions cannot shift its context");
    if (o->shift_keep >= s->n_ctx || o->shift_drop >= s->n_ctx - o->shift_keep)
        return err_at(err, INFER_ERROR_ARGUMENT, "shift_drop", 10, ERR_NO_OFFSET,
                      "shift_keep and shift_drop together must be less than the context of %u", s->n_ctx);
    return INFER_OK;
}

infer_status generate_begin(infer_session *s, const infer_generate_options *options, infer_error *err)
{
    if (options->flags & ~(uint32_t)(INFER_IGNORE_EOS | INFER_SHOW_SPECIAL_TEXT))
        return err_at(err, INFER_ERROR_ARGUMENT, "flags", 5, ERR_NO_OFFSET, "unknown flags");
    if (options->stop_count || options->stop_id_count || options->repeat_guard)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "stop conditions are not there yet");
    if (s->length == 0)
        return err_set(err, INFER_ERROR_STATE, "the session is empty: append a prompt first");
    infer_status st = check_shift(s, options, err);
    if (st != INFER_OK)
        return st;
    session_want_last_logits(s);
    s->gen = (struct generation){.active = true, .flags = options->flags, .max_tokens = options->max_tokens,
                               .shift_keep = options->shift_keep, .shift_drop = options->shift_drop};
    s->gen.detok.size = (uint32_t)sizeof s->gen.detok;
    s->gen.detok.flags = options->flags & INFER_SHOW_SPECIAL_TEXT ? INFER_SHOW_SPECIAL : 0;
    return INFER_OK;
}

/* Text of one more token (or, with id -1, of what was held back) into s->text. */
static infer_status decode(infer_session *s, infer_detokenizer *d, int32_t id, infer_event *event, infer_error *err)
{
    s->text.len = 0;
    if (s->model->tokenizer) {
        infer_status st = tokenizer_decode_next(s->model->tokenizer, d, id, &s->text, err);
        if (st != INFER_OK)
            return st;
        if (!buf_ok(&s->text)) {
            buf_free(&s->text);
            buf_init(&s->text, &s->model->engine->env->alloc, 0);
            return err_no_memory(err);
        }
    }
    event->text = s->text.len ? s->text.data : "";
    event->text_len = s->text.len;
    return INFER_OK;
}

static infer_status done_event(infer_session *s, infer_event *event, infer_error *err)
{
    infer_detokenizer d = s->gen.detok;
    infer_status st = decode(s, &d, -1, event, err);
    if (st != INFER_OK)
        return st;
    event->kind = INFER_EVENT_DONE;
    event->id = -1;
    event->finish_reason = s->gen.finish_reason;
    s->gen.active = false;
    return INFER_OK;
}

static infer_status shift_event(infer_session *s, infer_event *event, infer_error *err)
{
    uint64_t drop = s->gen.shift_drop;
    infer_status st = session_shift(s, s->gen.shift_keep, drop, err);
    if (st != INFER_OK)
        return st;
    event->kind = INFER_EVENT_SHIFT;
    event->id = -1;
    event->done = drop;
    event->total = s->length;
    return INFER_OK;
}

/* Chooses, decodes and appends one token; on failure the session is as before. */
static infer_status token_event(infer_session *s, infer_event *event, infer_error *err)
{
    struct generation *g = &s->gen;
    infer_sample_result r = {.size = (uint32_t)sizeof r};
    infer_detokenizer d = g->detok;
    infer_status st = session_sample(s, &r, err);
    if (st != INFER_OK)
        return st;
    bool ends = s->model->tokenizer && tokenizer_ends_turn(s->model->tokenizer, r.id);
    bool stop = ends && !(g->flags & INFER_IGNORE_EOS);
    if (!stop || (g->flags & INFER_SHOW_SPECIAL_TEXT))
        st = decode(s, &d, r.id, event, err);
    else {
        event->text = "";
        event->text_len = 0;
    }
    if (st == INFER_OK)
        st = session_append(s, &r.id, 1, err);
    if (st != INFER_OK)
        return st;
    g->detok = d;
    g->produced++;
    g->finishing = stop || g->produced == g->max_tokens;
    g->finish_reason = stop ? INFER_FINISH_STOP : INFER_FINISH_LENGTH;
    event->kind = INFER_EVENT_TOKEN;
    event->id = r.id;
    event->logprob = r.logprob;
    event->top = r.top;
    event->top_count = r.top_count;
    return INFER_OK;
}

uint64_t generate_pending(infer_session *s)
{
    if (s->gen.finishing)
        return 0;
    session_want_last_logits(s); /* the host may have stepped since begin */
    return s->length - s->computed;
}

infer_status generate_take(infer_session *s, infer_event *event, infer_error *err)
{
    struct generation *g = &s->gen;
    *event = (infer_event){.size = (uint32_t)sizeof *event, .text = "", .stop_index = -1};
    if (!g->active)
        return err_set(err, INFER_ERROR_STATE, "no generation is in progress: begin one");
    if (g->finishing)
        return done_event(s, event, err);
    if (s->length == s->n_ctx && g->shift_drop)
        return shift_event(s, event, err);
    if (s->length == s->n_ctx) {
        g->finishing = true;
        g->finish_reason = INFER_FINISH_CONTEXT;
        return done_event(s, event, err);
    }
    return token_event(s, event, err);
}

infer_status generate_next(infer_session *s, infer_event *event, infer_cancel *cancel, infer_error *err)
{
    uint64_t pending = s->gen.active ? generate_pending(s) : 0;
    if (pending) {
        infer_step_item it = {.size = (uint32_t)sizeof it, .session = s, .max_elements = ENGINE_BATCH_ROWS};
        infer_status st = engine_step(&it, 1, cancel, err);
        if (st != INFER_OK)
            return st;
    }
    if (pending <= 1)
        return generate_take(s, event, err);
    *event = (infer_event){.size = (uint32_t)sizeof *event, .text = "", .stop_index = -1};
    event->kind = INFER_EVENT_PREFILL;
    event->id = -1;
    event->done = s->computed;
    event->total = s->length;
    return INFER_OK;
}
