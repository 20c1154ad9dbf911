/* --chat: a conversation with commands. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "cli.h"
#include "generate.h"
#include "prompt_cache.h"
#include "talk.h"

/* A conversation that is put aside: what was said, and the session's state then. */
struct branch {
    char *name;
    struct talk talk;        /* empty while the branch is the current one */
    infer_checkpoint *state; /* NULL while it is */
};

struct chat {
    struct cli *c;
    struct talk talk;
    struct answer last;
    struct branch *branches; /* the current one among them */
    size_t n_branches, current;
    struct prompt_cache cache;
    bool started;            /* there was a question */
    bool terminal;
    bool ended;
};

/* An exit code. */
int run_chat(struct cli *c);

/* Commands; arg is what follows the name, "" when nothing does. They say what they did, or why nothing was done. */
void chat_compact(struct chat *ch, const char *arg); /* compact.c */
void chat_undo(struct chat *ch, const char *arg);    /* state.c */
void chat_save(struct chat *ch, const char *arg);
void chat_load(struct chat *ch, const char *arg);
void chat_fork(struct chat *ch, const char *arg); /* branch.c */
void chat_switch(struct chat *ch, const char *arg);
void chat_branches(struct chat *ch, const char *arg);
void chat_free_branches(struct chat *ch);

#endif
