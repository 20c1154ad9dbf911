/* Tokens of many answers are chosen side by side: with a large vocabulary, or log-probabilities, that would else take longer than computing the logits. */
#include "base/pool.h"
#include "engine/scheduler_state.h"

struct sampling {
    struct turns *lock;
    struct answer *answers[SCHEDULER_MAX_ACTIVE];
};

static void take(struct answer *a, const infer_cancel *cancel)
{
    a->error = (infer_error){.size = (uint32_t)sizeof a->error};
    a->status = generate_take(a->session, &a->event, cancel, &a->error);
}

static void take_one(void *arg, uint32_t worker, uint64_t task)
{
    (void)worker;
    struct sampling *s = arg;
    (void)turns_stop(s->lock); /* a token once drawn is told: what is begun here ends */
    take(s->answers[task], NULL);
}

/* The host's functions are called on the thread that steps only, and a shift of the context takes the lock under which the pool runs. */
static bool may_run_anywhere(const infer_session *s)
{
    return !s->sampler.set.callback && !(s->length == s->n_ctx && s->gen.shift_drop);
}

void scheduler_sample(infer_scheduler *s, struct answer *const *answers, uint32_t n, const infer_cancel *cancel)
{
    infer_engine *e = s->model->engine;
    struct pool *pool = e->own_threads ? cpu_device_pool(e->dev) : NULL; /* tasks on a host's threads must not allocate */
    struct sampling many = {.lock = &e->step_lock};
    uint32_t n_many = 0;
    for (uint32_t i = 0; i < n; i++)
        if (pool && may_run_anywhere(answers[i]->session))
            many.answers[n_many++] = answers[i];
        else
            take(answers[i], cancel);
    if (n_many == 1) {
        take(many.answers[0], NULL);
    } else if (n_many && engine_take(e, cancel, NULL) == INFER_OK) {
        (void)pool_run(pool, n_many, take_one, &many); /* where no thread can be started, it is done all the same */
        engine_give(e);
    } else {
        for (uint32_t i = 0; i < n_many; i++) {
            many.answers[i]->error = (infer_error){.size = (uint32_t)sizeof(infer_error)};
            many.answers[i]->status = err_set(&many.answers[i]->error, INFER_ERROR_CANCELLED, "cancelled");
        }
    }
}
