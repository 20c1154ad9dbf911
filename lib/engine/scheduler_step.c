/* One step: ends what is to end, computes one batch, and tells everyone what came of it. */
#include "engine/scheduler_state.h"

/* ---- Ends that come from outside ---- */

static int32_t end_of(const infer_request *r, uint64_t now)
{
    if (r->cancelled)
        return INFER_FINISH_CANCELLED;
    /* a callback may have submitted it since the clock was read */
    return r->time_limit && now > r->info.submitted && now - r->info.submitted >= r->time_limit ? INFER_FINISH_TIME : 0;
}

static infer_request *next_to_end(infer_scheduler *s, uint64_t now, int32_t *reason)
{
    infer_request *found = NULL;
    os_mutex_lock(&s->lock);
    for (infer_request *r = s->admitted.first; r && !found; r = r->next)
        if ((*reason = end_of(r, now)) != 0)
            found = r;
    for (infer_request *r = s->waiting.first; r && !found; r = r->next)
        if ((*reason = end_of(r, now)) != 0)
            found = r;
    os_mutex_unlock(&s->lock);
    return found;
}

static void end_requests(infer_scheduler *s)
{
    int32_t reason;
    uint64_t now = scheduler_now(s);
    for (infer_request *r; (r = next_to_end(s, now, &reason)) != NULL;)
        request_finish(s, r, reason, NULL);
}

/* ---- What came of it ---- */

/* Errors of memory are no fault of the answer's: others can be set aside. */
static bool wants_memory(infer_status st)
{
    return st == INFER_ERROR_NO_MEMORY || st == INFER_ERROR_LIMIT;
}

/* Tells what was taken, and of the end when that has come. */
static void tell_token(infer_scheduler *s, struct answer *a, uint64_t now)
{
    infer_request *r = a->request;
    infer_event ev = a->event;
    infer_error e = a->error;
    infer_status st = a->status;
    if (st == INFER_OK && ev.kind == INFER_EVENT_TOKEN) {
        infer_request_event out = {.size = (uint32_t)sizeof out, .kind = INFER_REQUEST_EVENT_TOKEN, .choice = a->choice, .id = ev.id, .stop_index = -1,
                                   .text = ev.text, .text_len = ev.text_len, .logprob = ev.logprob, .top_count = ev.top_count, .top = ev.top};
        os_mutex_lock(&s->lock);
        r->info.generated_tokens++;
        s->info.generated_tokens++;
        if (r->info.generated_tokens == 1)
            r->info.first_token = now;
        os_mutex_unlock(&s->lock);
        st = request_tell(r, &out, &e);
        if (st == INFER_OK && a->session->gen.finishing)
            st = generate_take(a->session, &ev, NULL, &e); /* the end: nothing that takes long */
    }
    if (st != INFER_OK)
        answer_fail(s, a, st, &e);
    else if (ev.kind == INFER_EVENT_DONE)
        answer_done(s, a, &ev);
}

/* The other choices: forks of the first, each with a seed of its own. */
static void fork_choices(infer_scheduler *s, infer_request *r)
{
    infer_session *first = r->answers[0].session;
    for (uint32_t i = 1; i < r->n; i++) {
        struct answer *a = &r->answers[i];
        infer_error e = {.size = (uint32_t)sizeof e};
        infer_status st = session_copy(first, &a->session, &e);
        if (st != INFER_OK) {
            answer_fail(s, a, st, &e);
            continue;
        }
        a->session->sampler.set.seed += i;
        if (scheduler_slots(s) < s->max_active)
            answer_activate(s, a);
        else
            answer_set_aside(s, a);
    }
}

/* The prompt is computed up to somewhere. */
static infer_status prompt_told(infer_scheduler *s, infer_request *r)
{
    infer_error e = {.size = (uint32_t)sizeof e};
    infer_status st = r->flags & INFER_REQUEST_ECHO ? request_echo(r, &e) : INFER_OK;
    if (st != INFER_OK) {
        e.code = st;
        request_finish(s, r, INFER_FINISH_ERROR, &e);
    }
    return st;
}

static void prompt_done(infer_scheduler *s, struct answer *a)
{
    infer_request *r = a->request;
    const infer_cache_report *report = &a->session->prefix.report;
    os_mutex_lock(&s->lock);
    if (r->info.cached_tokens > r->prompt_length)
        r->info.cached_tokens = r->prompt_length;
    r->info.cache_reason = report->reason;
    r->info.own_reason = report->own_reason;
    r->info.near_length = report->near_length;
    r->info.difference = report->difference;
    s->info.prompt_tokens += r->prompt_length;
    s->info.cached_tokens += r->info.cached_tokens;
    infer_request_event ev = {.size = (uint32_t)sizeof ev, .kind = INFER_REQUEST_EVENT_STARTED, .id = -1, .stop_index = -1, .text = "",
                              .done = r->info.cached_tokens, .total = r->prompt_length};
    os_mutex_unlock(&s->lock);
    r->started = true;
    infer_error e = {.size = (uint32_t)sizeof e};
    infer_status st = request_tell(r, &ev, &e);
    if (st != INFER_OK) {
        e.code = st;
        request_finish(s, r, INFER_FINISH_ERROR, &e);
    } else if (!r->generates) {
        request_finish(s, r, INFER_FINISH_LENGTH, NULL);
    } else {
        fork_choices(s, r);
    }
}

/* After the batch: a prompt that is whole now starts its answers, and each answer that has its logits takes a token. */
static infer_status take_tokens(infer_scheduler *s, const infer_cancel *cancel, infer_error *err)
{
    struct answer *ready[SCHEDULER_MAX_ACTIVE];
    uint64_t now = scheduler_now(s);
    uint32_t n = s->n_active;
    for (uint32_t i = 0; i < n; i++)
        ready[i] = s->active[i];
    for (uint32_t i = 0; i < n; i++)
        if (!ready[i]->request->started && prompt_told(s, ready[i]->request) == INFER_OK && ready[i]->session->computed == ready[i]->session->length)
            prompt_done(s, ready[i]);
    n = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        if (s->active[i]->request->started && !generate_pending(s->active[i]->session))
            ready[n++] = s->active[i];
    scheduler_sample(s, ready, n, cancel);
    infer_error memory = {.size = (uint32_t)sizeof memory};
    infer_status st = INFER_OK;
    bool moved = false;
    for (uint32_t i = 0; i < n; i++)
        if (ready[i]->status == INFER_ERROR_CANCELLED) { /* comes in the next step */
            st = err_set(err, INFER_ERROR_CANCELLED, "cancelled");
        } else if (wants_memory(ready[i]->status)) { /* its session is as it was */
            memory = ready[i]->error;
            memory.code = ready[i]->status;
        } else {
            moved = true;
            ready[i]->failed = 0;
            tell_token(s, ready[i], now);
        }
    if (memory.code)
        scheduler_make_room(s, &memory, !moved);
    return st;
}

static void item_done(infer_scheduler *s, struct answer *a, const infer_step_item *it)
{
    infer_request *r = a->request;
    uint64_t taken = it->session->prefix.taken, computed = it->done - taken;
    if (!r->started)
        a->failed = 0;
    os_mutex_lock(&s->lock);
    s->info.computed += computed;
    if (!r->started)
        r->info.cached_tokens += taken;
    os_mutex_unlock(&s->lock);
    if (r->started)
        return;
    if (r->began == UINT64_MAX)
        r->began = it->session->computed - computed;
    share_update(s, r, it->session->computed < it->session->length);
}

/* An item's own failure: of the step's errors only the first one's text is known. */
static infer_error error_of(infer_status st, infer_status first, const infer_error *text)
{
    infer_error e = {.size = (uint32_t)sizeof e};
    if (st == first)
        e = *text;
    else
        (void)err_set(&e, st, "%s", infer_status_message(st));
    e.code = st;
    return e;
}

static infer_status run(infer_scheduler *s, uint32_t n, const infer_cancel *cancel, infer_error *err)
{
    infer_error e = {.size = (uint32_t)sizeof e}, memory = e;
    infer_status st = engine_step(s->items, n, cancel, &e), result = INFER_OK;
    bool moved = false;
    for (uint32_t i = 0; i < n; i++) {
        infer_status one = s->items[i].status;
        infer_error own = error_of(one, st, &e);
        if (one == INFER_OK) {
            item_done(s, s->stepped[i], &s->items[i]);
            moved = true;
        } else if (one == INFER_ERROR_CANCELLED) {
            result = one;
        } else if (wants_memory(one)) {
            memory = own;
        } else {
            answer_fail(s, s->stepped[i], one, &own);
        }
    }
    if (memory.code)
        scheduler_make_room(s, &memory, !moved);
    if (result != INFER_OK && err)
        *err = e;
    return result;
}

/* What others may ask for at any time. */
static bool publish(infer_scheduler *s)
{
    uint64_t bytes = scheduler_kv_bytes(s), aside = 0;
    for (const struct answer *a = s->aside; a; a = a->next)
        aside++;
    os_mutex_lock(&s->lock);
    s->info.steps++;
    s->info.active = s->n_active;
    s->info.suspended = aside;
    s->info.kv_bytes = bytes;
    bool more = s->waiting.first || s->admitted.first;
    os_mutex_unlock(&s->lock);
    return more;
}

infer_status scheduler_step(infer_scheduler *s, int32_t *more, const infer_cancel *cancel, infer_error *err)
{
    infer_status st = INFER_OK;
    if (!turns_take(&s->step_lock, cancel)) { /* while another thread steps */
        if (more)
            *more = 1;
        return err_set(err, INFER_ERROR_CANCELLED, "cancelled");
    }
    scheduler_ref(s); /* a callback may release the last of the host's */
    end_requests(s);
    uint32_t n = scheduler_plan(s);
    if (n)
        st = run(s, n, cancel, err);
    infer_status taken = take_tokens(s, cancel, st == INFER_OK ? err : NULL);
    bool left = publish(s);
    turns_give(&s->step_lock);
    st = st == INFER_OK ? taken : st;
    if (more)
        *more = left;
    scheduler_release(s);
    return st;
}
