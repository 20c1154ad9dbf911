/* Failure on purpose, through the public interface. A scenario is a list of steps, each of them one call or a few that belong together; a seam is
 * something that can be made to fail at its n-th use (the host's allocator, the C library's, system calls). The loop runs a scenario once undisturbed,
 * then again and again with the n-th use failing, for every n until a run goes through without reaching it. Wherever it fails:
 *
 * - the step tells an error that fits, with a text, and gives out no handle; sessions are as they were;
 * - the same step with the same objects then succeeds, and so does all that follows, with the results of the undisturbed run to the bit;
 * - or, in the third mode, the host gives up at once and releases everything while nothing can be had yet;
 * - in the end nothing is left: no block, descriptor, map, thread, temporary file. */
#ifndef OOM_H
#define OOM_H

#include <stdbool.h>

#include "infer/scheduler.h"
#include "testutil.h"

#define OOM_ERRORS 6

struct seam {
    const char *name;
    void (*arm)(uint64_t fail_at, bool rest); /* counts from 1 again; fail_at 0: nothing fails */
    void (*pause)(bool on);                   /* for what a test does itself */
    uint64_t (*calls)(void);                  /* since then */
    void (*check)(const char *when);          /* fails the test when something is left */
    void (*forget)(void);                     /* what failed tests have left */
    const infer_allocator *allocator;         /* for engines; NULL: the C library's */
    bool tells;                               /* every failure must be told, where the scenario does not say that it may be made up for */
    bool leaves_files;                        /* temporary files may stay: what fails is their removal */
    const char *says;                         /* what the text of the error must contain; NULL: anything */
    infer_status errors[OOM_ERRORS];          /* that a failure may become; ends at 0. None: calls must not fail at all */
};

enum { OOM_SESSIONS = 4, OOM_KEPT = 6 };

struct world {
    const struct scenario *scenario;
    const struct seam *seam;
    infer_error err;
    infer_engine *engine;
    infer_model *model;
    infer_file *file;
    infer_tokenizer *tokenizer;
    infer_template *tmpl;
    infer_session *s[OOM_SESSIONS];
    infer_checkpoint *c[OOM_KEPT];
    infer_adapter *a[OOM_KEPT];
    infer_store *store;
    infer_scheduler *scheduler;
    infer_request *request;
    infer_cancel *cancel;
    int32_t ids[1024];
    uint64_t n_ids;
    char text[8192]; /* what an answer has said so far, across failures */
    uint64_t text_len;
    bool late;       /* the last failure came when all was done, or half: its text says so */
    uint64_t digest; /* of all results; a step adds to it when it succeeds */
};

enum { STEP_ADVANCES = 1 }; /* a failure may leave part of the work done, as the header says of this call, or the step lets go of a session first */

struct step {
    const char *name;
    infer_status (*run)(struct world *w, int arg);
    int arg;
    uint32_t flags;
};

struct scenario {
    const char *name;
    const struct step *steps; /* the last has no name */
    uint32_t threads;         /* of the engine; 0: 1 */
    bool cache, cache_dir, executor;
    bool makes_up; /* for files that cannot be written: the engine does without */
    bool hash;     /* needs a build with xxHash */
};
bool oom_can_run(const struct scenario *scenario);

extern const struct scenario oom_files[], oom_sessions[], oom_state[], oom_more[]; /* the last of each has no name */

void oom_folder_make(void);
void oom_folder_remove(void);

/* Whether a run may be left out: for a short test. */
struct oom_plan {
    uint64_t most; /* runs of a scenario in each mode, spread over all n; 0: every n */
};

/* Runs one scenario with one seam, in all modes. Returns how many failing points were tried; *of: how many there are. */
uint64_t oom_loop(const struct scenario *scenario, const struct seam *seam, const struct oom_plan *plan, uint64_t *of);

/* ---- for steps */

void oom_add(struct world *w, const void *data, uint64_t n); /* to the digest */
void oom_add_u64(struct world *w, uint64_t v);
/* What a step returns that makes a handle, a variable that was NULL: checks that a failure gave none. */
#define oom_made(call, handle) oom_check_made((call), &(handle))
infer_status oom_check_made(infer_status st, const void *where);
/* A file of the folder that is emptied after each run; in one of 4 static buffers. */
const char *oom_path(const char *name);
void oom_write(const char *path, const void *data, uint64_t n);

#define DATA INFER_SOURCE_DIR "/tests/data/"
#define TINY INFER_SOURCE_DIR "/models/tiny.gguf"
#define FIXTURE(name) DATA "fixtures/" name ".gguf"

#endif
