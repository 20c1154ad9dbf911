/* Generation as a pull: each call does one bounded piece of work. */
#include "engine/engine.h"

#include <string.h>

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

infer_status generate_stops(const infer_model *m, const infer_generate_options *options, struct stops **out, infer_error *err)
{
    *out = NULL;
    if (!options->stop_count && !options->stop_id_count)
        return INFER_OK;
    if (options->stop_count && !m->tokenizer)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "stop strings need a tokenizer, and the model has none: %s", m->tokenizer_problem);
    infer_status st = stops_create(&m->engine->env->alloc, options->stops, options->stop_count, options->stop_ids, options->stop_id_count, out, err);
    for (uint64_t i = 0; st == INFER_OK && i < options->stop_id_count; i++)
        if (options->stop_ids[i] < 0 || (uint32_t)options->stop_ids[i] >= m->net->h.n_vocab)
            st = err_at(err, INFER_ERROR_TOKEN, "stop_ids", 8, ERR_NO_OFFSET, "stop token %llu has id %d; the model has ids 0 to %u",
                        (unsigned long long)i, (int)options->stop_ids[i], m->net->h.n_vocab - 1);
    if (st != INFER_OK) {
        stops_release(*out);
        *out = NULL;
    }
    return st;
}

infer_status generate_begin_with(infer_session *s, const infer_generate_options *options, struct stops *stops, infer_error *err)
{
    if (options->flags & ~(uint32_t)(INFER_GENERATE_IGNORE_EOS | INFER_GENERATE_SHOW_SPECIAL))
        return err_at(err, INFER_ERROR_ARGUMENT, "flags", 5, ERR_NO_OFFSET, "unknown flags");
    if (options->repeat_guard && (options->repeat_guard < GENERATE_GUARD_MIN || options->repeat_guard > GENERATE_GUARD_MAX))
        return err_at(err, INFER_ERROR_ARGUMENT, "repeat_guard", 12, ERR_NO_OFFSET, "0, or %u to %u tokens", GENERATE_GUARD_MIN, GENERATE_GUARD_MAX);
    if (s->length == 0)
        return err_set(err, INFER_ERROR_STATE, "the session is empty: append a prompt first");
    infer_status st = check_shift(s, options, err);
    if (st != INFER_OK)
        return st;
    session_want_last_logits(s);
    stops_ref(stops);
    stops_release(s->gen.stops);
    s->gen = (struct generation){.active = true, .flags = options->flags, .max_tokens = options->max_tokens,
                                 .stop_index = -1, .repeat_guard = (uint16_t)options->repeat_guard, .stops = stops};
    if (options->shift_drop) { /* both are less than the context then */
        s->gen.shift_keep = (uint32_t)options->shift_keep;
        s->gen.shift_drop = (uint32_t)options->shift_drop;
    }
    return INFER_OK;
}

infer_status generate_begin(infer_session *s, const infer_generate_options *options, infer_error *err)
{
    struct stops *stops;
    infer_status st = generate_stops(s->model, options, &stops, err);
    if (st == INFER_OK) {
        st = generate_begin_with(s, options, stops, err);
        stops_release(stops);
    }
    return st;
}

/* What of the generation changes with the text of a token. */
struct text_state {
    infer_detokenizer detok;
    struct stops_state stops;
    int32_t found; /* the stop string, or -1 */
};

static struct text_state text_state_of(const struct generation *g)
{
    struct text_state t = {.stops = g->stops_state, .found = -1};
    t.detok = (infer_detokenizer){.size = (uint32_t)sizeof t.detok, .flags = g->flags & INFER_GENERATE_SHOW_SPECIAL ? INFER_DETOKENIZE_SHOW_SPECIAL : 0,
                                  .started = g->detok_started, .pending_len = g->detok_pending_len};
    memcpy(t.detok.pending, g->detok_pending, sizeof t.detok.pending);
    return t;
}

static void keep_text_state(struct generation *g, const struct text_state *t)
{
    g->stops_state = t->stops;
    g->stop_index = (int16_t)t->found;
    g->detok_started = (uint8_t)t->detok.started;
    g->detok_pending_len = (uint8_t)t->detok.pending_len;
    memcpy(g->detok_pending, t->detok.pending, sizeof g->detok_pending);
}

static infer_status try_decode(infer_session *s, struct text_state *t, int32_t id, infer_event *event, infer_error *err)
{
    const struct stops *stops = s->gen.stops;
    s->text.len = 0;
    if (stops)
        stops_held(stops, &t->stops, &s->text);
    size_t held = s->text.len;
    if (s->model->tokenizer) {
        infer_status st = tokenizer_decode_next(s->model->tokenizer, &t->detok, id, &s->text, err);
        if (st != INFER_OK)
            return st;
    }
    if (!buf_ok(&s->text)) {
        buf_free(&s->text);
        buf_init(&s->text, &s->model->engine->env->alloc, 0);
        return err_no_memory(err);
    }
    event->text = s->text.len ? s->text.data : "";
    size_t len = s->text.len;
    if (stops)
        t->found = stops_feed(stops, &t->stops, event->text, len - held, &len, id < 0);
    event->text_len = len;
    return INFER_OK;
}

/* What may be given out once the text of one more token has come (or, with id -1, the end) into s->text. */
static infer_status decode(infer_session *s, struct text_state *t, int32_t id, infer_event *event, infer_error *err)
{
    const struct text_state before = *t;
    infer_status st;
    do {
        *t = before;
        st = try_decode(s, t, id, event, err);
    } while (prefix_retry(s->model->engine, st, err));
    return st;
}

/* With what was held back. That may still turn out to have a stop string in it, when half a character at the very end is one. */
static infer_status done_event(infer_session *s, infer_event *event, infer_error *err)
{
    struct generation *g = &s->gen;
    struct text_state t = text_state_of(g);
    if (g->finish_reason == INFER_FINISH_STOP_STRING)
        t.detok.pending_len = 0; /* it comes behind the stop string */
    infer_status st = decode(s, &t, -1, event, err);
    if (st != INFER_OK)
        return st;
    if (t.found >= 0) {
        g->finish_reason = INFER_FINISH_STOP_STRING;
        g->stop_index = (int16_t)t.found;
    }
    event->kind = INFER_EVENT_DONE;
    event->id = -1;
    event->finish_reason = g->finish_reason;
    event->stop_index = g->stop_index;
    g->active = false;
    return INFER_OK;
}

static infer_status shift_event(infer_session *s, infer_event *event, const infer_cancel *cancel, infer_error *err)
{
    uint32_t drop = s->gen.shift_drop;
    infer_status st = session_shift(s, s->gen.shift_keep, drop, cancel, err);
    if (st != INFER_OK)
        return st;
    event->kind = INFER_EVENT_SHIFT;
    event->id = -1;
    event->done = drop;
    event->total = s->length;
    return INFER_OK;
}

/* Whether the elements, all tokens, are a pattern of at most a quarter of their number, over and over. */
static bool repeats(const struct element *e, uint32_t n)
{
    uint16_t border[GENERATE_GUARD_MAX]; /* [i]: the longest proper beginning of e[0..i] that it ends with */
    uint32_t b = 0;
    border[0] = 0;
    for (uint32_t i = 1; i < n; i++) {
        while (b && e[i].id != e[b].id)
            b = border[b - 1];
        b += e[i].id == e[b].id;
        border[i] = (uint16_t)b;
    }
    return n - b <= n / 4;
}

/* Counts the token that was appended last, and says why the answer ends here, or 0. */
static int16_t count_token(infer_session *s, bool stop)
{
    struct generation *g = &s->gen;
    g->produced++;
    g->run = g->run_end + 1 == s->length ? g->run + 1 : 1;
    g->run_end = (uint32_t)s->length;
    if (g->stop_index >= 0)
        return INFER_FINISH_STOP_STRING;
    if (stop)
        return INFER_FINISH_STOP;
    if (g->repeat_guard && g->run >= g->repeat_guard && repeats(s->elements + s->length - g->repeat_guard, g->repeat_guard))
        return INFER_FINISH_REPETITION;
    return g->produced == g->max_tokens ? INFER_FINISH_LENGTH : 0;
}

/* Chooses, decodes and appends one token; on failure the session is as before. */
static infer_status token_event(infer_session *s, infer_event *event, infer_error *err)
{
    struct generation *g = &s->gen;
    infer_sample_result r = {.size = (uint32_t)sizeof r};
    struct text_state t = text_state_of(g);
    infer_status st = session_sample(s, &r, err);
    if (st != INFER_OK)
        return st;
    bool ends = s->model->tokenizer && tokenizer_ends_turn(s->model->tokenizer, r.id);
    bool stop = (ends && !(g->flags & INFER_GENERATE_IGNORE_EOS)) || (g->stops && stops_has_id(g->stops, r.id));
    if (!stop || (g->flags & INFER_GENERATE_SHOW_SPECIAL))
        st = decode(s, &t, r.id, event, err);
    if (st == INFER_OK)
        st = session_append(s, &r.id, 1, err);
    if (st != INFER_OK)
        return st;
    keep_text_state(g, &t);
    g->finish_reason = count_token(s, stop);
    g->finishing = g->finish_reason != 0;
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

infer_status generate_take(infer_session *s, infer_event *event, const infer_cancel *cancel, infer_error *err)
{
    struct generation *g = &s->gen;
    *event = (infer_event){.size = (uint32_t)sizeof *event, .text = "", .stop_index = -1};
    if (!g->active)
        return err_set(err, INFER_ERROR_STATE, "no generation is in progress: begin one");
    if (g->finishing)
        return done_event(s, event, err);
    if (s->length == s->n_ctx && g->shift_drop)
        return shift_event(s, event, cancel, err);
    if (s->length == s->n_ctx) {
        g->finishing = true;
        g->finish_reason = INFER_FINISH_CONTEXT;
        return done_event(s, event, err);
    }
    return token_event(s, event, err);
}

infer_status generate_next(infer_session *s, infer_event *event, const infer_cancel *cancel, infer_error *err)
{
    if (cancel_is_set(cancel)) /* a token that needs no step, and DONE, do not ask */
        return err_set(err, INFER_ERROR_CANCELLED, "cancelled");
    uint64_t pending = s->gen.active ? generate_pending(s) : 0;
    if (pending) {
        infer_step_item it = {.size = (uint32_t)sizeof it, .session = s, .max_elements = ENGINE_BATCH_ROWS};
        infer_status st = engine_step(&it, 1, cancel, err);
        if (st != INFER_OK)
            return st;
    }
    if (pending <= 1)
        return generate_take(s, event, cancel, err);
    *event = (infer_event){.size = (uint32_t)sizeof *event, .text = "", .stop_index = -1};
    event->kind = INFER_EVENT_PREFILL;
    event->id = -1;
    event->done = s->computed;
    event->total = s->length;
    return INFER_OK;
}
