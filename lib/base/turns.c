#include "base/turns.h"

bool turns_init(struct turns *t)
{
    t->next = t->now = 0;
    if (!os_mutex_init(&t->lock))
        return false;
    if (os_cond_init(&t->moved))
        return true;
    os_mutex_destroy(&t->lock);
    return false;
}

void turns_destroy(struct turns *t)
{
    os_cond_destroy(&t->moved);
    os_mutex_destroy(&t->lock);
}

void turns_take(struct turns *t)
{
    os_mutex_lock(&t->lock);
    uint64_t mine = t->next++;
    while (t->now != mine)
        os_cond_wait(&t->moved, &t->lock);
    os_mutex_unlock(&t->lock);
}

void turns_give(struct turns *t)
{
    os_mutex_lock(&t->lock);
    t->now++;
    if (t->now != t->next)
        os_cond_broadcast(&t->moved);
    os_mutex_unlock(&t->lock);
}

bool turns_wanted(struct turns *t)
{
    os_mutex_lock(&t->lock);
    bool wanted = t->next != t->now + 1;
    os_mutex_unlock(&t->lock);
    return wanted;
}
