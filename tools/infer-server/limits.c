#include "limits.h"

#include <math.h>

#include "shared.h"

/* Clients are remembered in sets of 8 places; in a full set the one that has not called for longest gives way, which at worst fills its bucket early. */
#define SETS 1024u
#define WAYS 8u

struct bucket {
    uint64_t client; /* 0: free */
    uint64_t at;     /* when `tokens` was true, microseconds */
    double tokens;
};

struct limits {
    pthread_mutex_t lock;
    double rate, most;
    struct bucket buckets[SETS][WAYS];
};

struct limits *limits_create(double rate)
{
    struct limits *l = shared_alloc(sizeof *l);
    if (l && !shared_lock_init(&l->lock)) {
        limits_free(l);
        l = NULL;
    }
    if (l) {
        l->rate = rate;
        l->most = rate < 1 ? 1 : rate; /* a second's worth may come at once */
    }
    return l;
}

void limits_free(struct limits *l)
{
    shared_free(l, sizeof *l);
}

static struct bucket *find(struct limits *l, uint64_t client, uint64_t now)
{
    struct bucket *set = l->buckets[(client * 0x9E3779B97F4A7C15u) >> 54], *oldest = set;
    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].client == client)
            return &set[i];
        if (set[i].client == 0 || (oldest->client && set[i].at < oldest->at))
            oldest = &set[i];
    }
    *oldest = (struct bucket){client, now, l->most};
    return oldest;
}

static uint32_t take(struct limits *l, uint64_t client, uint64_t now)
{
    struct bucket *b = find(l, client, now);
    if (now < b->at) /* another process has been here since its clock was read */
        now = b->at;
    b->tokens = fmin(l->most, b->tokens + (double)(now - b->at) * 1e-6 * l->rate);
    b->at = now;
    if (b->tokens >= 1) {
        b->tokens -= 1;
        return 0;
    }
    return (uint32_t)fmin(3600, fmax(1, ceil((1 - b->tokens) / l->rate)));
}

uint32_t limits_take(struct limits *l, uint64_t client, uint64_t now)
{
    shared_lock(&l->lock);
    uint32_t wait = take(l, client, now);
    shared_unlock(&l->lock);
    return wait;
}
