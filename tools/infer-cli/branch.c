/* /fork, /switch and /branches: conversations put aside in memory. Their states share what they have in common. */
#include "chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "state_file.h"

#define MOST_BRANCHES 1000
#define NAME_LEN 64

static size_t find(const struct chat *ch, const char *name)
{
    size_t i = 0;
    while (i < ch->n_branches && strcmp(ch->branches[i].name, name) != 0)
        i++;
    return i;
}

/* A new entry at the end, not counted yet. */
static struct branch *room_for_branch(struct chat *ch, const char *name)
{
    struct branch *list = realloc(ch->branches, (ch->n_branches + 1) * sizeof *list);
    if (!list)
        return NULL;
    ch->branches = list;
    list[ch->n_branches] = (struct branch){.name = malloc(strlen(name) + 1)};
    if (!list[ch->n_branches].name)
        return NULL;
    strcpy(list[ch->n_branches].name, name);
    return &list[ch->n_branches];
}

/* The first branch gets its name when a second one is wanted. */
static bool name_the_first(struct chat *ch)
{
    if (!ch->n_branches && room_for_branch(ch, "main"))
        ch->n_branches = 1;
    return ch->n_branches > 0;
}

/* arg, or a name that is free. */
static bool choose_name(const struct chat *ch, const char *arg, char name[NAME_LEN])
{
    if (strlen(arg) >= NAME_LEN || strpbrk(arg, " \t")) {
        complain(INFER_ERROR_ARGUMENT, "/fork: a name is one word of at most %d bytes", NAME_LEN - 1);
        return false;
    }
    if (arg[0]) {
        strcpy(name, arg);
        if (find(ch, name) == ch->n_branches)
            return true;
        complain(INFER_ERROR_ARGUMENT, "/fork: there is a branch %s already; /switch goes to it", name);
        return false;
    }
    for (size_t i = 1; i <= MOST_BRANCHES; i++) {
        (void)snprintf(name, NAME_LEN, "fork%zu", i);
        if (find(ch, name) == ch->n_branches)
            return true;
    }
    return false;
}

void chat_fork(struct chat *ch, const char *arg)
{
    infer_error err;
    infer_checkpoint *state = NULL;
    struct talk copy = {0};
    char name[NAME_LEN];
    INFER_INIT(&err);
    if (!name_the_first(ch)) {
        complain(INFER_ERROR_NO_MEMORY, "/fork: out of memory");
        return;
    }
    if (ch->n_branches > MOST_BRANCHES) {
        complain(INFER_ERROR_LIMIT, "/fork: there are %zu branches already", ch->n_branches);
        return;
    }
    if (!choose_name(ch, arg, name))
        return;
    if (infer_checkpoint_create(ch->c->session, &state, &err) != INFER_OK) {
        note_error("/fork", &err);
        return;
    }
    if (!talk_copy(&copy, &ch->talk) || !room_for_branch(ch, name)) {
        complain(INFER_ERROR_NO_MEMORY, "/fork: out of memory");
        talk_free(&copy);
        infer_checkpoint_release(state);
        return;
    }
    struct branch *old = &ch->branches[ch->current];
    old->talk = copy;
    old->state = state;
    ch->current = ch->n_branches++;
    remark("now in branch %s; %s stays as it is", name, old->name);
}

void chat_switch(struct chat *ch, const char *arg)
{
    infer_error err;
    infer_checkpoint *state = NULL;
    INFER_INIT(&err);
    size_t to = name_the_first(ch) ? find(ch, arg) : 0;
    if (to == ch->n_branches) {
        complain(INFER_ERROR_ARGUMENT, "/switch: there is no branch \"%s\"; /branches lists them", arg);
        return;
    }
    if (to == ch->current) {
        remark("already in branch %s", arg);
        return;
    }
    infer_status st = infer_checkpoint_create(ch->c->session, &state, &err);
    if (st == INFER_OK)
        st = state_restore(ch->c, ch->branches[to].state, &err);
    if (st != INFER_OK) {
        note_error("/switch", &err);
        infer_checkpoint_release(state);
        return;
    }
    struct branch *from = &ch->branches[ch->current], *b = &ch->branches[to];
    from->talk = ch->talk;
    from->state = state;
    ch->talk = b->talk;
    b->talk = (struct talk){0};
    infer_checkpoint_release(b->state);
    b->state = NULL;
    ch->current = to;
    remark("now in branch %s: %zu exchange%s", b->name, ch->talk.count, ch->talk.count == 1 ? "" : "s");
}

void chat_branches(struct chat *ch, const char *arg)
{
    (void)arg;
    if (!name_the_first(ch)) {
        complain(INFER_ERROR_NO_MEMORY, "out of memory");
        return;
    }
    for (size_t i = 0; i < ch->n_branches; i++) {
        const struct branch *b = &ch->branches[i];
        const struct talk *t = b->state ? &b->talk : &ch->talk;
        infer_checkpoint_info at;
        infer_session_info now;
        INFER_INIT(&at);
        INFER_INIT(&now);
        if (b->state)
            (void)infer_checkpoint_get_info(b->state, &at, NULL);
        else
            (void)infer_session_get_info(ch->c->session, &now, NULL);
        remark("%c %-16s %zu exchange%s, %llu tokens", b->state ? ' ' : '*', b->name, t->count, t->count == 1 ? "" : "s",
               (unsigned long long)(b->state ? at.length : now.length));
    }
}

void chat_free_branches(struct chat *ch)
{
    for (size_t i = 0; i < ch->n_branches; i++) {
        free(ch->branches[i].name);
        talk_free(&ch->branches[i].talk);
        infer_checkpoint_release(ch->branches[i].state);
    }
    free(ch->branches);
}
