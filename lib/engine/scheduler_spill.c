/* Answers that are set aside for want of memory: their computed state goes to a checkpoint file, or is forgotten and computed again. Either way
 * what comes later has the same bits. */
#include "engine/scheduler_state.h"

#include <string.h>

/* What nobody can compute again is not forgotten. */
bool answer_can_free(const infer_scheduler *s, const struct answer *a)
{
    return a->session->computed > 0 && (s->spill || !session_is_approximate(a->session));
}

static void put_hex(char **at, uint64_t v)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *(*at)++ = "0123456789abcdef"[v >> shift & 15];
}

/* Schedulers of several processes may use one folder. */
static struct store_name name_of(const infer_scheduler *s, const struct answer *a, char text[STORE_NAME_MAX])
{
    char *at = text;
    memcpy(at, "aside-", 6);
    at += 6;
    put_hex(&at, os_process_id());
    put_hex(&at, (uint64_t)(uintptr_t)s);
    put_hex(&at, a->request->seq << 8 | a->choice);
    return (struct store_name){text, (uint64_t)(at - text)};
}

static infer_status write_state(infer_scheduler *s, struct answer *a, infer_error *err)
{
    char text[STORE_NAME_MAX];
    infer_checkpoint *c = NULL;
    infer_status st = checkpoint_create(a->session, &c, err);
    if (st == INFER_OK)
        st = s->spill->ops->put(s->spill, name_of(s, a, text), c, INFER_STORE_REPLACE, NULL, err);
    checkpoint_release(c);
    a->spilled = st == INFER_OK;
    a->has_file |= a->spilled;
    return st;
}

infer_status answer_free_state(infer_scheduler *s, struct answer *a, infer_error *err)
{
    infer_session *session = a->session;
    bool approximate = session_is_approximate(session);
    infer_status st = INFER_OK;
    if (s->spill && (approximate || session->computed >= PREFIX_LEAST))
        st = write_state(s, a, err);
    if (approximate && !a->spilled)
        return st;
    a->approximate = approximate;
    if (!a->spilled)
        prefix_leave(session); /* a prefix cache keeps it as long as nobody needs the room */
    session_rewind(session, 0);
    session->prefix.asked = 0;
    prefix_left(session->model->engine);
    return INFER_OK;
}

void answer_forget_file(infer_scheduler *s, struct answer *a)
{
    char text[STORE_NAME_MAX];
    if (a->has_file && s->spill->ops->remove(s->spill, name_of(s, a, text), NULL) == INFER_OK)
        a->has_file = false;
}

infer_status answer_bring_back(infer_scheduler *s, struct answer *a, infer_error *err)
{
    char text[STORE_NAME_MAX];
    infer_checkpoint *c = NULL;
    if (!a->spilled)
        return INFER_OK;
    a->spilled = false;
    infer_status st = s->spill->ops->get(s->spill, s->model, name_of(s, a, text), NULL, &c, err);
    if (st == INFER_OK)
        st = session_take_state(a->session, c->frozen, a->session->length, err);
    if (st == INFER_OK)
        st = session_ready(a->session, NULL, err);
    if (st != INFER_OK)
        session_rewind(a->session, 0);
    checkpoint_release(c);
    answer_forget_file(s, a); /* what is mapped stays mapped; where such a file cannot be removed it is when the answer ends */
    return a->approximate ? st : INFER_OK;
}
