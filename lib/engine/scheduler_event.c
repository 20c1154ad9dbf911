/* What requests hear: at once by their callback, or kept until they are asked; and how answers and requests end. */
#include "engine/scheduler_state.h"

#include <string.h>

#include "base/budget.h"

static const struct alloc *alloc_of(const infer_scheduler *s)
{
    return &s->model->engine->env->alloc;
}

/* Under the lock. */
static void put_event(infer_request *r, struct event_node *e)
{
    e->next = NULL;
    *r->events_end = e;
    r->events_end = &e->next;
}

/* A copy with the text and the alternatives behind it. */
static struct event_node *copy_event(const infer_scheduler *s, const infer_request_event *ev)
{
    size_t top = ev->top_count * sizeof *ev->top, text = (size_t)ev->text_len;
    struct event_node *e = mem_alloc(alloc_of(s), sizeof *e + top + text + 1);
    if (!e)
        return NULL;
    e->event = *ev;
    char *at = (char *)(e + 1);
    if (top)
        memcpy(at, ev->top, top);
    e->event.top = top ? (const infer_logprob *)(const void *)at : NULL;
    memcpy(at + top, ev->text, text);
    at[top + text] = 0;
    e->event.text = at + top;
    return e;
}

infer_status request_tell(infer_request *r, const infer_request_event *ev, infer_error *err)
{
    if (r->callback) {
        r->callback(r->callback_user, r, ev);
        return INFER_OK;
    }
    struct event_node *e = copy_event(r->scheduler, ev);
    if (!e)
        return err_no_memory(err);
    os_mutex_lock(&r->scheduler->lock);
    put_event(r, e);
    os_mutex_unlock(&r->scheduler->lock);
    return INFER_OK;
}

static infer_status next_event(infer_request *r, infer_request_event *out, infer_error *err)
{
    struct event_node *e = r->events;
    if (!e && r->end_told)
        return err_set(err, INFER_ERROR_STATE, "the request's last event was told");
    if (!e && !r->ended)
        return err_set(err, INFER_ERROR_NOT_FOUND, "the request has no event now");
    mem_free(alloc_of(r->scheduler), r->borrowed);
    r->borrowed = NULL;
    if (!e) {
        r->end_told = true;
        *out = (infer_request_event){.size = (uint32_t)sizeof *out, .kind = INFER_REQUEST_EVENT_END, .id = -1, .stop_index = -1, .text = ""};
        return INFER_OK;
    }
    r->events = e->next;
    if (!r->events)
        r->events_end = &r->events;
    *out = e->event;
    if (e->event.kind != INFER_REQUEST_EVENT_DONE)
        r->borrowed = e;
    return INFER_OK;
}

infer_status request_next(infer_request *r, infer_request_event *out, infer_error *err)
{
    if (r->callback)
        return err_set(err, INFER_ERROR_STATE, "the request's events go to its callback");
    os_mutex_lock(&r->scheduler->lock);
    infer_status st = next_event(r, out, err);
    os_mutex_unlock(&r->scheduler->lock);
    return st;
}

/* ---- The end ---- */

static void take_over(infer_request_event *ev, const infer_event *last)
{
    ev->finish_reason = last->finish_reason;
    ev->stop_index = last->stop_index;
    ev->text = last->text;
    ev->text_len = last->text_len;
}

/* Ends a generation from outside, for the text that was held back. */
static infer_status last_text(struct answer *a, int32_t reason, infer_request_event *ev, infer_error *err)
{
    infer_session *session = a->session;
    infer_event last;
    if (!session || !session->gen.active)
        return INFER_OK;
    session->gen.finishing = true;
    session->gen.finish_reason = (int16_t)reason;
    infer_status st = generate_take(session, &last, NULL, err);
    if (st == INFER_OK)
        take_over(ev, &last);
    return st;
}

static void fail(struct answer *a, infer_request_event *ev, infer_status st)
{
    a->error.code = st;
    budget_explain(a->request->scheduler->model->engine->env->budget, &a->error);
    ev->finish_reason = INFER_FINISH_ERROR;
    ev->stop_index = -1;
    ev->error = &a->error;
}

/* The DONE event of a request that is asked: only its text needs memory, and without that it tells so. */
static void keep_done(struct answer *a, infer_request_event *ev)
{
    infer_scheduler *s = a->request->scheduler;
    a->tail = ev->text_len ? mem_strdup(alloc_of(s), ev->text, (size_t)ev->text_len) : NULL;
    if (ev->text_len && !a->tail) {
        fail(a, ev, err_no_memory(&a->error));
        ev->text_len = 0;
    }
    a->done.event = *ev;
    a->done.event.text = a->tail ? a->tail : "";
    os_mutex_lock(&s->lock);
    put_event(a->request, &a->done);
    os_mutex_unlock(&s->lock);
}

static void end_request(infer_scheduler *s, infer_request *r, int32_t reason)
{
    static const infer_request_event end = {.size = (uint32_t)sizeof end, .kind = INFER_REQUEST_EVENT_END, .id = -1, .stop_index = -1, .text = ""};
    uint64_t now = scheduler_now(s);
    os_mutex_lock(&s->lock);
    r->info.ended = now;
    r->ended = true;
    s->info.waiting -= !r->admitted;
    request_list_remove(r->admitted ? &s->admitted : &s->waiting, r);
    if (r->failed)
        s->info.failed++;
    else if (reason == INFER_FINISH_CANCELLED)
        s->info.cancelled++;
    else
        s->info.finished++;
    os_mutex_unlock(&s->lock);
    if (r->callback)
        r->callback(r->callback_user, r, &end);
    request_release(r);
}

/* The answer's session and place go, its event goes out. */
static void finish(infer_scheduler *s, struct answer *a, infer_request_event *ev)
{
    infer_request *r = a->request;
    answer_leave(s, a);
    if (!r->callback)
        keep_done(a, ev);
    int32_t reason = ev->finish_reason;
    os_mutex_lock(&s->lock);
    a->state = ANSWER_DONE;
    os_mutex_unlock(&s->lock);
    if (r->callback)
        r->callback(r->callback_user, r, ev);
    if (!(r->flags & INFER_REQUEST_KEEP)) {
        session_release(a->session);
        a->session = NULL;
    }
    answer_forget_file(s, a);
    r->failed |= reason == INFER_FINISH_ERROR;
    if (++r->n_done == r->n)
        end_request(s, r, reason);
}

static infer_request_event done_of(const struct answer *a, int32_t reason)
{
    return (infer_request_event){.size = (uint32_t)sizeof(infer_request_event), .kind = INFER_REQUEST_EVENT_DONE, .choice = a->choice, .id = -1,
                                 .finish_reason = reason, .stop_index = -1, .text = ""};
}

void answer_done(infer_scheduler *s, struct answer *a, const infer_event *last)
{
    infer_request_event ev = done_of(a, 0);
    take_over(&ev, last);
    finish(s, a, &ev);
}

void answer_finish(infer_scheduler *s, struct answer *a, int32_t reason, const infer_error *why)
{
    infer_request_event ev = done_of(a, reason);
    infer_error e = {.size = (uint32_t)sizeof e};
    if (why)
        a->error = *why;
    infer_status st = last_text(a, reason, &ev, &e);
    if (st != INFER_OK && !why)
        a->error = e;
    if (st != INFER_OK || why)
        fail(a, &ev, why ? why->code : st);
    finish(s, a, &ev);
}

void request_finish(infer_scheduler *s, infer_request *r, int32_t reason, const infer_error *why)
{
    request_ref(r);
    for (uint32_t i = 0; i < r->n; i++)
        if (r->answers[i].state != ANSWER_DONE)
            answer_finish(s, &r->answers[i], reason, why);
    request_release(r);
}

void answer_fail(infer_scheduler *s, struct answer *a, infer_status st, infer_error *why)
{
    why->code = st;
    if (a->request->started)
        answer_finish(s, a, INFER_FINISH_ERROR, why);
    else
        request_finish(s, a->request, INFER_FINISH_ERROR, why);
}
