/* The answer in progress of a checkpoint file: its part of the state, and where it has any, its stop conditions with what they hold back. */
#include "engine/checkpoint_file.h"

#include <string.h>

_Static_assert(sizeof(struct ckpt_stops) == 32, "a fixed format; no padding");

#define MAX_HELD  (3 + STOPS_MAX_TEXT - 1)
#define MAX_BYTES (sizeof(struct ckpt_stops) + STOPS_MAX * 8 + MAX_HELD + STOPS_MAX * STOPS_MAX_TEXT)

/* ---- Writing */

void ckpt_describe_generation(const struct generation *g, struct ckpt_state *c)
{
    if (!g->active)
        return;
    c->flags |= CKPT_GENERATING | (g->finishing ? CKPT_FINISHING : 0);
    c->max_tokens = g->max_tokens;
    c->shift_keep = g->shift_keep;
    c->shift_drop = g->shift_drop;
    c->gen_flags = g->flags;
    c->produced = g->produced;
    c->finish_reason = g->finishing ? g->finish_reason : 0;
    c->detok_flags = g->flags & INFER_GENERATE_SHOW_SPECIAL ? INFER_DETOKENIZE_SHOW_SPECIAL : 0;
    c->detok_started = g->detok_started;
    c->detok_pending_len = g->detok_pending_len;
    memcpy(c->detok_pending, g->detok_pending, g->detok_pending_len);
}

bool ckpt_has_stops(const infer_session *s)
{
    return s->gen.active && (s->gen.stops || s->gen.repeat_guard);
}

infer_status ckpt_put_stops(const infer_session *s, struct kv_writer *w, infer_error *err)
{
    const struct generation *g = &s->gen;
    struct ckpt_stops head = {.repeat_guard = g->repeat_guard, .run = g->run_end == s->length ? g->run : 0, .stop_index = g->stop_index};
    const infer_text *texts = NULL;
    const int32_t *ids = NULL;
    struct buf out;
    buf_init(&out, &s->model->engine->env->alloc, 0);
    if (g->stops) {
        texts = stops_texts(g->stops, &head.n_texts);
        ids = stops_ids(g->stops, &head.n_ids);
        head.lead_len = g->stops_state.lead_len;
        head.held_len = (uint32_t)stops_held_len(g->stops, &g->stops_state);
    }
    buf_put(&out, &head, sizeof head);
    buf_put(&out, ids, head.n_ids * sizeof *ids);
    for (uint32_t i = 0; i < head.n_texts; i++) {
        uint32_t len = (uint32_t)texts[i].text_len;
        buf_put(&out, &len, sizeof len);
    }
    if (g->stops)
        stops_held(g->stops, &g->stops_state, &out);
    for (uint32_t i = 0; i < head.n_texts; i++)
        buf_put(&out, texts[i].text, (size_t)texts[i].text_len);
    infer_status st = buf_ok(&out) ? kv_writer_section(w, CKPT_STOPS, KV_SECTION_REQUIRED, 0, out.data, out.len, err) : err_no_memory(err);
    buf_free(&out);
    return st;
}

/* ---- Reading */

struct reading {
    infer_session *s;
    const struct kv_file *file;
    const struct ckpt_state *state;
    infer_error *err;
};

static infer_status impossible(const struct reading *r)
{
    return kv_file_bad(r->file, ERR_NO_OFFSET, r->err, "the state of generation is impossible");
}

/* What the state says by itself. */
static bool state_fits(const struct reading *r)
{
    const struct ckpt_state *c = r->state;
    bool learned = r->s->model->net->arch->positions == POSITIONS_LEARNED;
    return !(c->gen_flags & ~(uint32_t)(INFER_GENERATE_IGNORE_EOS | INFER_GENERATE_SHOW_SPECIAL)) && c->finish_reason >= 0
           && c->finish_reason <= INFER_FINISH_REPETITION && !(c->detok_flags & ~(uint32_t)INFER_DETOKENIZE_SHOW_SPECIAL)
           && c->detok_started <= TOKENIZER_MAX_STARTED
           && !(c->shift_drop && (learned || c->shift_keep >= c->n_ctx || c->shift_drop >= c->n_ctx - c->shift_keep));
}

static bool head_fits(const struct reading *r, const struct ckpt_stops *h, uint64_t bytes)
{
    const struct ckpt_state *c = r->state;
    bool found = h->stop_index >= 0, says = c->flags & CKPT_FINISHING && c->finish_reason == INFER_FINISH_STOP_STRING;
    return c->flags & CKPT_GENERATING && h->n_texts <= STOPS_MAX && h->n_ids <= STOPS_MAX && (h->n_texts || h->n_ids || h->repeat_guard)
           && (!h->repeat_guard || (h->repeat_guard >= GENERATE_GUARD_MIN && h->repeat_guard <= GENERATE_GUARD_MAX)) && h->run <= c->produced
           && h->run <= c->length && h->stop_index >= -1 && (!found || (uint32_t)h->stop_index < h->n_texts) && found == says
           && h->lead_len <= 3 && h->held_len >= h->lead_len && h->held_len <= MAX_HELD && !h->reserved
           && bytes >= sizeof *h + (uint64_t)4 * h->n_ids + (uint64_t)4 * h->n_texts + h->held_len;
}

/* The stop strings and ids of a section whose head fits. */
static infer_status read_stops(const struct reading *r, const struct ckpt_stops *h, const char *data, uint64_t bytes)
{
    struct generation *g = &r->s->gen;
    int32_t ids[STOPS_MAX];
    uint32_t lens[STOPS_MAX];
    infer_text texts[STOPS_MAX];
    const char *held = data + sizeof *h + (h->n_ids + h->n_texts) * 4, *text = held + h->held_len;
    uint64_t left = bytes - (uint64_t)(text - data);
    memcpy(ids, data + sizeof *h, h->n_ids * sizeof *ids);
    memcpy(lens, data + sizeof *h + h->n_ids * 4, h->n_texts * sizeof *lens);
    for (uint32_t i = 0; i < h->n_ids; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= session_vocab(r->s))
            return impossible(r);
    for (uint32_t i = 0; i < h->n_texts; i++) {
        if (!lens[i] || lens[i] > STOPS_MAX_TEXT || lens[i] > left)
            return impossible(r);
        texts[i] = (infer_text){text, lens[i]};
        text += lens[i];
        left -= lens[i];
    }
    if (left || (h->n_texts && !r->s->model->tokenizer) || (h->held_len && !h->n_texts))
        return impossible(r);
    if (!h->n_texts && !h->n_ids)
        return INFER_OK;
    infer_status st = stops_create(&r->s->model->engine->env->alloc, texts, h->n_texts, ids, h->n_ids, &g->stops, r->err);
    if (st == INFER_OK && !stops_resume(g->stops, held, h->lead_len, h->held_len - h->lead_len, &g->stops_state))
        st = impossible(r);
    return st;
}

static infer_status read_section(const struct reading *r, const struct kv_section *section)
{
    const void *data;
    void *owned = NULL;
    struct ckpt_stops head;
    if (section->raw < sizeof head || section->raw > MAX_BYTES)
        return impossible(r);
    infer_status st = kv_file_data(r->file, section, section->raw, &data, &owned, r->err);
    if (st != INFER_OK)
        return st;
    memcpy(&head, data, sizeof head);
    st = head_fits(r, &head, section->raw) ? read_stops(r, &head, data, section->raw) : impossible(r);
    mem_free(&r->file->env->alloc, owned);
    if (st != INFER_OK)
        return st;
    struct generation *g = &r->s->gen;
    g->repeat_guard = (uint16_t)head.repeat_guard;
    g->run = head.run;
    g->run_end = (uint32_t)r->state->length;
    g->stop_index = (int16_t)head.stop_index;
    return INFER_OK;
}

infer_status ckpt_read_generation(infer_session *s, const struct kv_file *f, const struct ckpt_state *c, infer_error *err)
{
    struct reading r = {s, f, c, err};
    const struct kv_section *section = kv_file_find(f, CKPT_STOPS, 0);
    struct generation *g = &s->gen;
    if (!state_fits(&r))
        return impossible(&r);
    *g = (struct generation){.active = c->flags & CKPT_GENERATING, .finishing = c->flags & CKPT_FINISHING, .flags = c->gen_flags,
                             .finish_reason = (int16_t)c->finish_reason, .stop_index = -1, .max_tokens = c->max_tokens, .produced = c->produced,
                             .detok_started = (uint8_t)c->detok_started, .detok_pending_len = (uint8_t)c->detok_pending_len};
    memcpy(g->detok_pending, c->detok_pending, sizeof g->detok_pending);
    if (c->shift_drop) {
        g->shift_keep = (uint32_t)c->shift_keep;
        g->shift_drop = (uint32_t)c->shift_drop;
    }
    infer_status st = section ? read_section(&r, section) : INFER_OK;
    if (st == INFER_OK && ((c->finish_reason == INFER_FINISH_STOP_STRING && g->stop_index < 0)
                           || (c->finish_reason == INFER_FINISH_REPETITION && !g->repeat_guard)))
        st = impossible(&r);
    return st;
}
