/* Who is active, and what each computes in the next step. */
#include "engine/scheduler_state.h"

/* ---- Memory ---- */

/* Pages of a group that a session of this many elements holds at most: of a sliding window what kv_seq.h says is kept. */
static uint64_t group_pages(const struct kv_seq *k, uint64_t length)
{
    uint64_t all = (length + DEV_KV_PAGE - 1) / DEV_KV_PAGE;
    if (!k->window)
        return all;
    uint64_t window = k->window / DEV_KV_PAGE + 1;
    uint64_t kept = window + ENGINE_BATCH_ROWS / DEV_KV_PAGE + 2 + length / kv_resume_interval(k->window) * window;
    return kept < all ? kept : all;
}

static uint64_t session_bytes(const infer_session *s, uint64_t length)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        bytes += group_pages(&s->kv[g], length) * s->kv[g].page_bytes;
    return bytes;
}

/* One page of each group: what a fork copies of what it shares when it goes its own way. */
static uint64_t page_bytes(const infer_session *s)
{
    uint64_t bytes = 0;
    for (uint32_t g = 0; g < NET_KV_GROUPS; g++)
        bytes += s->kv[g].page_bytes;
    return bytes;
}

/* Elements of a session that begins with `from` elements, for which memory is set apart. */
static uint64_t reserved_length(const infer_scheduler *s, const infer_session *session, uint64_t from, uint64_t max_tokens)
{
    uint64_t more = max_tokens < s->reserve_tokens ? max_tokens : s->reserve_tokens, room = session->n_ctx - from;
    return from + (more < room ? more : room);
}

uint64_t scheduler_least_bytes(const infer_scheduler *s, const infer_session *session, uint64_t max_tokens)
{
    return session_bytes(session, reserved_length(s, session, session->length, max_tokens ? max_tokens : UINT64_MAX));
}

/* Bytes that the answer may come to need beyond what it holds. */
static uint64_t growth(const infer_scheduler *s, const struct answer *a)
{
    const infer_request *r = a->request;
    const infer_session *session = a->session;
    uint64_t max = r->generates ? r->max_tokens : 0, length = reserved_length(s, session, r->prompt_length, max);
    if (length < session->length)
        length = session->length;
    uint64_t whole = session_bytes(session, length), has = session_kv_use(session).bytes;
    uint64_t bytes = whole > has ? whole - has : 0;
    if (!r->started) /* the other choices share the prompt's whole pages */
        bytes += (r->n - 1) * (whole - session_bytes(session, r->prompt_length) + page_bytes(session));
    return bytes;
}

/* The sessions of all answers, for kv_pages_count_once. */
struct every_table {
    infer_scheduler *s;
    uint32_t active, group;
    const struct answer *aside;
};

static bool next_table(void *user, struct kv_page *const **pages, uint64_t *n)
{
    struct every_table *t = user;
    for (;;) {
        const struct answer *a = t->active < t->s->n_active ? t->s->active[t->active] : t->aside;
        if (!a)
            return false;
        if (t->group < NET_KV_GROUPS) {
            const struct kv_seq *k = &a->session->kv[t->group++];
            *pages = k->pages;
            *n = k->n;
            return true;
        }
        t->group = 0;
        if (t->active < t->s->n_active)
            t->active++;
        else
            t->aside = a->next;
    }
}

uint64_t scheduler_kv_bytes(infer_scheduler *s)
{
    struct every_table t = {.s = s, .aside = s->aside};
    return kv_pages_count_once(s->model->engine->kv, next_table, &t);
}

/* ---- Lists ---- */

static uint32_t slots_of(const infer_scheduler *s, const infer_request *r)
{
    return r->started ? 1 : r->n < s->max_active ? r->n : s->max_active;
}

uint32_t scheduler_slots(const infer_scheduler *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        n += slots_of(s, s->active[i]->request);
    return n;
}

void answer_activate(infer_scheduler *s, struct answer *a)
{
    a->state = ANSWER_ACTIVE;
    s->active[s->n_active++] = a;
}

void answer_leave(infer_scheduler *s, struct answer *a)
{
    if (!a->request->started && a->state == ANSWER_ACTIVE)
        share_update(s, a->request, false);
    if (a->state == ANSWER_ACTIVE) {
        uint32_t i = 0;
        while (s->active[i] != a)
            i++;
        for (s->n_active--; i < s->n_active; i++) /* in order, so that turns stay turns */
            s->active[i] = s->active[i + 1];
    } else if (a->state == ANSWER_ASIDE) {
        struct answer **link = &s->aside;
        while (*link != a)
            link = &(*link)->next;
        *link = a->next;
    }
    if (a->state == ANSWER_ACTIVE || a->state == ANSWER_ASIDE)
        s->short_of_memory = false;
}

void answer_set_aside(infer_scheduler *s, struct answer *a)
{
    answer_leave(s, a);
    if (a->state == ANSWER_ACTIVE) {
        os_mutex_lock(&s->lock);
        a->request->info.preemptions++;
        s->info.preemptions++;
        os_mutex_unlock(&s->lock);
    }
    a->state = ANSWER_ASIDE;
    a->next = s->aside;
    s->aside = a;
}

/* ---- The order ---- */

#define ANYBODY INT64_MAX
#define STARVED (INT64_MAX - 1)

static int64_t priority_of(const infer_request *r)
{
    return r->passed >= STARVED_AFTER ? STARVED : r->priority;
}

/* Among requests that wait. */
static bool waits_before(const infer_request *a, const infer_request *b)
{
    int64_t pa = priority_of(a), pb = priority_of(b);
    if (pa != pb)
        return pa > pb;
    return pa != STARVED && a->tag != b->tag ? a->tag < b->tag : a->seq < b->seq;
}

/* Among answers that have begun. */
static bool goes_before(const struct answer *a, const struct answer *b)
{
    int64_t pa = priority_of(a->request), pb = priority_of(b->request);
    if (pa != pb)
        return pa > pb;
    return a->request != b->request ? a->request->seq < b->request->seq : a->choice < b->choice;
}

/* The answer that is set aside first. Only those below a priority; in_memory: those that give memory back, set aside or not. */
static struct answer *last_in_order(infer_scheduler *s, int64_t below, bool in_memory)
{
    struct answer *worst = NULL;
    for (uint32_t i = 0; i < s->n_active; i++) {
        struct answer *a = s->active[i];
        if (priority_of(a->request) < below && (!in_memory || answer_can_free(s, a)) && (!worst || goes_before(worst, a)))
            worst = a;
    }
    for (struct answer *a = in_memory ? s->aside : NULL; a; a = a->next)
        if (priority_of(a->request) < below && answer_can_free(s, a) && (!worst || goes_before(worst, a)))
            worst = a;
    return worst;
}

static struct answer *first_aside(const infer_scheduler *s)
{
    struct answer *best = s->aside;
    for (struct answer *a = best; a; a = a->next)
        if (goes_before(a, best))
            best = a;
    return best;
}

/* Without those that wait for somebody's prompt. */
static infer_request *first_waiting(infer_scheduler *s)
{
    infer_request *best = NULL;
    os_mutex_lock(&s->lock);
    for (infer_request *r = s->waiting.first; r; r = r->next)
        if (!r->leader && (!best || waits_before(r, best)))
            best = r;
    os_mutex_unlock(&s->lock);
    return best;
}

/* ---- Becoming active ---- */

/* Whether there are places in the batch for an answer of this priority, or lower ones could give theirs. */
static bool has_slots(const infer_scheduler *s, int64_t priority, uint32_t slots)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        used += priority_of(s->active[i]->request) < priority ? 0 : slots_of(s, s->active[i]->request);
    return used + slots <= s->max_active;
}

static void make_slots(infer_scheduler *s, int64_t priority, uint32_t slots)
{
    while (scheduler_slots(s) + slots > s->max_active)
        answer_set_aside(s, last_in_order(s, priority, false));
}

static uint64_t reserved_bytes(const infer_scheduler *s)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->n_active; i++)
        bytes += growth(s, s->active[i]);
    return bytes;
}

static void free_memory_of(infer_scheduler *s, struct answer *a)
{
    infer_error e = {.size = (uint32_t)sizeof e};
    if (a->state == ANSWER_ACTIVE)
        answer_set_aside(s, a);
    infer_status st = answer_free_state(s, a, &e);
    if (st != INFER_OK)
        answer_fail(s, a, st, &e);
}

/* Memory for an answer that is to become active: what it needs beyond what it holds. When nobody is active, it may take it from all others. */
static bool make_bytes(infer_scheduler *s, const struct answer *a)
{
    if (s->short_of_memory && s->n_active) {
        struct answer *lower = last_in_order(s, priority_of(a->request), true);
        if (!lower)
            return false;
        free_memory_of(s, lower);
    }
    if (s->kv_budget == UINT64_MAX)
        return true;
    uint64_t need = growth(s, a);
    while (scheduler_kv_bytes(s) + reserved_bytes(s) + need > s->kv_budget) {
        struct answer *other = last_in_order(s, s->n_active ? priority_of(a->request) : ANYBODY, true);
        if (!other || other == a)
            return !s->n_active;
        free_memory_of(s, other);
    }
    return true;
}

static void overtake(infer_request *r, const infer_request *by)
{
    if (r->seq < by->seq && r->passed_by != by->seq) {
        r->passed_by = by->seq;
        r->passed++;
    }
}

/* Everyone who came earlier and waits was overtaken. */
static void count_overtaken(infer_scheduler *s, const infer_request *by)
{
    os_mutex_lock(&s->lock);
    for (infer_request *r = s->waiting.first; r; r = r->next)
        if (!r->leader)
            overtake(r, by);
    os_mutex_unlock(&s->lock);
    for (struct answer *a = s->aside; a; a = a->next)
        overtake(a->request, by);
}

static void begin(infer_scheduler *s, infer_request *r)
{
    uint64_t now = scheduler_now(s);
    os_mutex_lock(&s->lock);
    request_list_remove(&s->waiting, r);
    request_list_add(&s->admitted, r);
    r->admitted = true;
    r->info.started = now;
    s->info.waiting--;
    os_mutex_unlock(&s->lock);
    share_take(s, r);
    answer_activate(s, &r->answers[0]);
}

static void come_back(infer_scheduler *s, struct answer *a)
{
    infer_error e = {.size = (uint32_t)sizeof e};
    bool was = s->short_of_memory;
    infer_status st = answer_bring_back(s, a, &e);
    if (st != INFER_OK) {
        answer_fail(s, a, st, &e);
        return;
    }
    answer_leave(s, a);
    s->short_of_memory = was; /* nothing was freed */
    answer_activate(s, a);
}

static void admit(infer_scheduler *s)
{
    for (;;) {
        struct answer *a = first_aside(s);
        infer_request *r = first_waiting(s);
        if (r && (!a || priority_of(r) > priority_of(a->request)))
            a = &r->answers[0];
        if (!a)
            return;
        r = a->request;
        if (a->state == ANSWER_UNBORN && share_follow(s, r))
            continue;
        if (!has_slots(s, priority_of(r), slots_of(s, r)) || !make_bytes(s, a))
            return;
        make_slots(s, priority_of(r), slots_of(s, r));
        count_overtaken(s, r);
        if (a->state == ANSWER_ASIDE)
            come_back(s, a);
        else
            begin(s, r);
    }
}

/* ---- Pieces ---- */

static bool is_prompt(struct answer *a)
{
    return !a->request->started || a->session->length - a->session->computed > 1;
}

/* Whether the next piece gives logits for PROMPT events. What was told already, before the answer was set aside, needs none. */
static bool gives_logits(const struct answer *a)
{
    return a->request->logprobs && !a->request->started && a->session->computed + 1 >= a->request->told;
}

/* Elements that the answer could compute now. */
static uint64_t pending_of(struct answer *a)
{
    infer_session *s = a->session;
    uint64_t pending = s->gen.active ? generate_pending(s) : s->length - s->computed;
    uint64_t stop = a->request->lead_to;
    if (stop > s->computed && pending > stop - s->computed)
        pending = stop - s->computed;
    if (!a->request->logprobs || a->request->started || !pending)
        return pending;
    uint64_t most = gives_logits(a) ? ECHO_ROWS : a->request->told - 1 - s->computed;
    return pending < most ? pending : most;
}

/* Cuts the elements of this step: one of each running answer, and prompts share the rest fairly. Who is first to round up takes turns. */
static void cut_pieces(infer_scheduler *s)
{
    uint32_t running = 0, prompts = 0;
    for (uint32_t i = 0; i < s->n_active; i++) {
        struct answer *a = s->active[i];
        uint64_t pending = pending_of(a);
        bool prompt = pending && is_prompt(a);
        a->piece = prompt ? 0 : pending;
        prompts += prompt;
        running += !prompt;
    }
    uint64_t left = running ? s->step_elements : ENGINE_BATCH_ROWS;
    left = left < ENGINE_BATCH_ROWS - running ? left : ENGINE_BATCH_ROWS - running;
    for (bool more = prompts > 0; more && left;) { /* what short ones leave over goes to the others */
        uint64_t share = left / prompts ? left / prompts : 1;
        more = false;
        for (uint32_t i = 0; i < s->n_active && left; i++) {
            struct answer *a = s->active[(s->turn + i) % s->n_active];
            uint64_t pending = pending_of(a), want = pending && is_prompt(a) ? pending - a->piece : 0;
            uint64_t n = want < share ? want : share;
            n = n < left ? n : left;
            a->piece += n;
            left -= n;
            more |= n > 0;
        }
    }
    s->turn = s->n_active ? (s->turn + 1) % s->n_active : 0;
}

/* Bytes of the pages that the answer's piece adds. A look-up in the prefix cache may give it all of its prompt's at once. alone: a copy takes the place
 * of the page that the cache keeps then. */
static uint64_t piece_bytes(const struct answer *a, bool alone)
{
    const infer_session *s = a->session;
    const infer_engine *e = s->model->engine;
    bool looks_up = e->cache && !(s->prefix.flags & INFER_CACHE_NO_LOOKUP) && (!s->computed || s->length - s->computed > PREFIX_LEAST);
    uint64_t to = looks_up ? s->length : s->computed + a->piece, bytes = 0;
    for (uint32_t g = 0; g < NET_KV_GROUPS && a->piece; g++) {
        uint64_t wanted = kv_seq_wanted(&s->kv[g], e->kv, s->computed, to, !alone);
        uint64_t most = group_pages(&s->kv[g], to) * s->kv[g].page_bytes; /* a window does not keep all */
        bytes += wanted < most ? wanted : most;
    }
    return bytes;
}

static bool pieces_fit(infer_scheduler *s)
{
    uint64_t more = 0;
    bool alone = s->n_active == 1;
    if (s->kv_budget == UINT64_MAX)
        return true;
    for (const struct answer *a = s->aside; a && alone; a = a->next)
        alone = !a->session->computed;
    for (uint32_t i = 0; i < s->n_active; i++)
        more += piece_bytes(s->active[i], alone);
    return !more || scheduler_kv_bytes(s) + more <= s->kv_budget;
}

/* Sets answers aside until the pieces fit; where nothing can be, the last in the order ends. */
static void fit_pieces(infer_scheduler *s)
{
    while (!pieces_fit(s)) {
        struct answer *last = last_in_order(s, ANYBODY, true);
        if (last && (s->n_active > 1 || last != s->active[0])) {
            free_memory_of(s, last);
        } else {
            infer_error e = {.size = (uint32_t)sizeof e};
            infer_status st = err_set(&e, INFER_ERROR_LIMIT, "the KV budget of %llu bytes is used up", (unsigned long long)s->kv_budget);
            answer_fail(s, last_in_order(s, ANYBODY, false), st, &e);
        }
        cut_pieces(s);
    }
}

uint32_t scheduler_plan(infer_scheduler *s)
{
    uint32_t n = 0;
    admit(s);
    cut_pieces(s);
    fit_pieces(s);
    for (uint32_t i = 0; i < s->n_active; i++) {
        struct answer *a = s->active[i];
        if (!a->piece)
            continue;
        s->stepped[n] = a;
        s->items[n++] = (infer_step_item){.size = (uint32_t)sizeof s->items[0], .session = a->session, .max_elements = a->piece,
                                          .logits = gives_logits(a)           ? INFER_ROWS_ALL
                                                    : a->request->generates ? INFER_ROWS_LAST
                                                                              : INFER_ROWS_NONE};
    }
    return n;
}

void scheduler_make_room(infer_scheduler *s, infer_error *why, bool stuck)
{
    struct answer *last = last_in_order(s, ANYBODY, true);
    if (last && (s->n_active > 1 || last != s->active[0])) {
        free_memory_of(s, last);
        s->short_of_memory = true;
        return;
    }
    last = last_in_order(s, ANYBODY, false);
    if (last && stuck && ++last->failed > 1) /* once more: other sessions of the engine may have ended */
        answer_fail(s, last, why->code, why);
}
