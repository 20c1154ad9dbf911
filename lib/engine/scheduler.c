/* The life of schedulers and their requests: everything that threads other than the stepping one call. */
#include "engine/scheduler_state.h"

static const struct alloc *alloc_of(const infer_scheduler *s)
{
    return &s->model->engine->env->alloc;
}

uint64_t scheduler_now(const infer_scheduler *s)
{
    return s->clock ? s->clock(s->clock_user) : 0;
}

/* ---- Schedulers ---- */

static infer_status check_options(const infer_model *m, const infer_scheduler_options *o, infer_error *err)
{
    if (m->net->h.encoder)
        return err_set(err, INFER_ERROR_UNSUPPORTED, "this model is an encoder (%s): it does not generate", m->net->arch->name);
    if (o->max_active > SCHEDULER_MAX_ACTIVE)
        return err_at(err, INFER_ERROR_ARGUMENT, "max_active", 10, ERR_NO_OFFSET, "at most %u answers", SCHEDULER_MAX_ACTIVE);
    if (o->step_elements > ENGINE_BATCH_ROWS)
        return err_at(err, INFER_ERROR_ARGUMENT, "step_elements", 13, ERR_NO_OFFSET, "at most %u elements", ENGINE_BATCH_ROWS);
    return INFER_OK;
}

static bool init_locks(infer_scheduler *s)
{
    if (!os_mutex_init(&s->lock))
        return false;
    if (os_cond_init(&s->wake))
        return true;
    os_mutex_destroy(&s->lock);
    return false;
}

static void all_put(infer_scheduler *s)
{
    if (!ref_put(&s->all))
        return;
    infer_model *m = s->model;
    store_release(s->spill);
    os_cond_destroy(&s->wake);
    os_mutex_destroy(&s->lock);
    mem_free(alloc_of(s), s);
    model_release(m);
}

infer_status scheduler_create(infer_model *m, const infer_scheduler_options *o, infer_scheduler **out, infer_error *err)
{
    infer_status st = check_options(m, o, err);
    if (st != INFER_OK)
        return st;
    infer_scheduler *s = mem_zalloc(&m->engine->env->alloc, sizeof *s);
    if (!s || !init_locks(s)) {
        mem_free(&m->engine->env->alloc, s);
        return err_no_memory(err);
    }
    ref_init(&s->handles);
    ref_init(&s->all);
    s->model = model_ref(m);
    s->step_lock = turns_in(&m->engine->hall);
    s->max_active = o->max_active ? o->max_active : 16;
    s->max_waiting = o->max_waiting ? o->max_waiting : 1024;
    s->step_elements = o->step_elements ? o->step_elements : 64;
    s->kv_budget = o->kv_budget ? o->kv_budget : m->engine->kv_budget;
    s->info.kv_budget = s->kv_budget;
    s->kv_budget = s->kv_budget ? s->kv_budget : UINT64_MAX;
    s->reserve_tokens = o->reserve_tokens ? o->reserve_tokens : 256;
    s->clock = o->clock;
    s->clock_user = o->clock_user;
    s->next_seq = 1;
    if (o->spill_path) {
        infer_store_options so = {.size = (uint32_t)sizeof so};
        st = store_open(m->engine, o->spill_path, o->spill_path_len, &so, &s->spill, err);
        if (st != INFER_OK) {
            all_put(s);
            return st;
        }
    }
    *out = s;
    return INFER_OK;
}

infer_scheduler *scheduler_ref(infer_scheduler *s)
{
    ref_get(&s->handles);
    return s;
}

static infer_request *first_of(infer_scheduler *s)
{
    os_mutex_lock(&s->lock);
    s->closing = true;
    infer_request *r = s->admitted.first ? s->admitted.first : s->waiting.first;
    os_mutex_unlock(&s->lock);
    return r;
}

void scheduler_release(infer_scheduler *s)
{
    if (!s || !ref_put(&s->handles))
        return;
    for (infer_request *r; (r = first_of(s)) != NULL;)
        request_finish(s, r, INFER_FINISH_CANCELLED, NULL);
    all_put(s);
}

void scheduler_wait(infer_scheduler *s)
{
    os_mutex_lock(&s->lock);
#ifndef INFER_NO_THREADS
    while (!s->woken && !s->waiting.first && !s->admitted.first)
        os_cond_wait(&s->wake, &s->lock);
#endif
    s->woken = false;
    os_mutex_unlock(&s->lock);
}

void scheduler_wake(infer_scheduler *s)
{
    os_mutex_lock(&s->lock);
    s->woken = true;
    os_cond_broadcast(&s->wake);
    os_mutex_unlock(&s->lock);
}

void scheduler_get_info(infer_scheduler *s, infer_scheduler_info *out)
{
    os_mutex_lock(&s->lock);
    *out = s->info;
    os_mutex_unlock(&s->lock);
}

/* ---- Requests ---- */

void request_list_add(struct request_list *l, infer_request *r)
{
    r->next = NULL;
    r->prev = l->last;
    if (l->last)
        l->last->next = r;
    else
        l->first = r;
    l->last = r;
}

void request_list_remove(struct request_list *l, infer_request *r)
{
    *(r->prev ? &r->prev->next : &l->first) = r->next;
    *(r->next ? &r->next->prev : &l->last) = r->prev;
    r->prev = r->next = NULL;
}

/* Clients of equal priority take turns: each request gets a number one above that of its client's last one that waits, and no lower than what is
 * next for the others. So a client with many requests waits behind a client with one. */
static uint64_t tag_of(const infer_scheduler *s, const infer_request *r)
{
    uint64_t next = UINT64_MAX, last = 0;
    for (const infer_request *w = s->waiting.first; w; w = w->next)
        if (w->priority == r->priority) {
            next = w->tag < next ? w->tag : next;
            last = w->client == r->client && w->tag > last ? w->tag : last;
        }
    return last ? last + 1 : next == UINT64_MAX ? 1 : next;
}

static infer_status check_request(const infer_scheduler *s, const struct submission *sub, infer_error *err)
{
    uint64_t least = scheduler_least_bytes(s, sub->session, sub->max_tokens);
    if (sub->options->n > SCHEDULER_MAX_CHOICES)
        return err_at(err, INFER_ERROR_ARGUMENT, "n", 1, ERR_NO_OFFSET, "at most %u choices", SCHEDULER_MAX_CHOICES);
    if (!sub->session->length)
        return err_at(err, INFER_ERROR_ARGUMENT, "ids", 3, ERR_NO_OFFSET, "the prompt is empty");
    if (least > s->kv_budget)
        return err_set(err, INFER_ERROR_LIMIT, "prompt and answer need %llu bytes of KV, the budget is %llu", (unsigned long long)least,
                       (unsigned long long)s->kv_budget);
    return INFER_OK;
}

static infer_request *make_request(infer_scheduler *s, const struct submission *sub)
{
    const infer_request_options *o = sub->options;
    uint32_t n = o->n ? o->n : 1;
    infer_request *r = mem_zalloc(alloc_of(s), sizeof *r + n * sizeof r->answers[0]);
    if (!r)
        return NULL;
    ref_init(&r->ref);
    r->client = o->client;
    r->priority = o->priority;
    r->flags = o->flags;
    r->generates = !(o->flags & INFER_REQUEST_PROMPT_ONLY);
    r->logprobs = (o->flags & INFER_REQUEST_PROMPT_LOGPROBS) != 0;
    r->max_tokens = sub->max_tokens ? sub->max_tokens : UINT64_MAX;
    r->time_limit = o->time_limit;
    r->callback = o->callback;
    r->callback_user = o->callback_user;
    r->prompt_length = sub->session->length;
    r->told = sub->prompt_from;
    r->echo.size = (uint32_t)sizeof r->echo;
    r->echo.flags = o->flags & INFER_REQUEST_SHOW_SPECIAL ? INFER_DETOKENIZE_SHOW_SPECIAL : 0;
    r->began = UINT64_MAX;
    r->events_end = &r->events;
    r->info = (infer_request_info){.size = (uint32_t)sizeof r->info, .prompt_tokens = r->prompt_length, .cached_tokens = sub->cached};
    r->n = n;
    for (uint32_t i = 0; i < n; i++) {
        r->answers[i].request = r;
        r->answers[i].choice = i;
        r->answers[i].error.size = (uint32_t)sizeof r->answers[i].error;
    }
    r->answers[0].session = sub->session;
    return r;
}

infer_status scheduler_submit(infer_scheduler *s, const struct submission *sub, infer_request **out, infer_error *err)
{
    infer_status st = check_request(s, sub, err);
    if (st != INFER_OK)
        return st;
    infer_request *r = make_request(s, sub);
    if (!r)
        return err_no_memory(err);
    uint64_t now = scheduler_now(s);
    os_mutex_lock(&s->lock);
    if (s->closing)
        st = err_set(err, INFER_ERROR_STATE, "the scheduler is being released");
    else if (s->info.waiting >= s->max_waiting)
        st = err_set(err, INFER_ERROR_LIMIT, "the queue is full: %u requests wait", s->max_waiting);
    if (st == INFER_OK) {
        r->scheduler = s;
        ref_get(&s->all);
        r->seq = s->next_seq++;
        r->info.submitted = now;
        r->tag = tag_of(s, r);
        request_list_add(&s->waiting, r);
        s->info.waiting++;
        s->info.submitted++;
        if (out) {
            ref_get(&r->ref);
            *out = r;
        }
        os_cond_broadcast(&s->wake);
    }
    os_mutex_unlock(&s->lock);
    if (st != INFER_OK)
        mem_free(alloc_of(s), r);
    return st;
}

infer_request *request_ref(infer_request *r)
{
    ref_get(&r->ref);
    return r;
}

void request_release(infer_request *r)
{
    if (!r || !ref_put(&r->ref))
        return;
    infer_scheduler *s = r->scheduler;
    const struct alloc *a = alloc_of(s);
    for (uint32_t i = 0; i < r->n; i++) {
        session_release(r->answers[i].session);
        mem_free(a, r->answers[i].tail);
    }
    while (r->events) {
        struct event_node *e = r->events;
        r->events = e->next;
        if (e->event.kind != INFER_REQUEST_EVENT_DONE) /* that one is part of the answer */
            mem_free(a, e);
    }
    mem_free(a, r->borrowed);
    mem_free(a, r);
    all_put(s);
}

void request_cancel(infer_request *r)
{
    os_mutex_lock(&r->scheduler->lock);
    r->cancelled = true;
    os_mutex_unlock(&r->scheduler->lock);
}

void request_get_info(infer_request *r, infer_request_info *out)
{
    os_mutex_lock(&r->scheduler->lock);
    *out = r->info;
    os_mutex_unlock(&r->scheduler->lock);
}

infer_status request_checkpoint(infer_request *r, uint32_t choice, infer_checkpoint **out, infer_error *err)
{
    if (choice >= r->n)
        return err_at(err, INFER_ERROR_ARGUMENT, "choice", 6, ERR_NO_OFFSET, "the request has %u choices", r->n);
    os_mutex_lock(&r->scheduler->lock);
    bool done = r->answers[choice].state == ANSWER_DONE;
    os_mutex_unlock(&r->scheduler->lock);
    if (!done || !(r->flags & INFER_REQUEST_KEEP) || !r->answers[choice].session) /* the last: it never began */
        return err_set(err, INFER_ERROR_STATE, done ? "the choice was not kept: see INFER_REQUEST_KEEP" : "the choice has not ended");
    return checkpoint_create(r->answers[choice].session, out, err); /* nobody changes the session any more */
}
