#define _XOPEN_SOURCE 700 /* nftw */
#include "oom.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/outfile.h"
#include "tempdir.h"

enum mode { ONE, REST, GIVE_UP }; /* only the n-th fails; it and all later ones; the same, and everything is released while they do */

static const char *const mode_names[] = {"the n-th", "the n-th and all later", "all later, and the host gives up"};

void oom_add(struct world *w, const void *data, uint64_t n)
{
    const unsigned char *p = data;
    for (uint64_t i = 0; i < n; i++)
        w->digest = (w->digest ^ p[i]) * 0x100000001b3u;
}

void oom_add_u64(struct world *w, uint64_t v)
{
    oom_add(w, &v, sizeof v);
}

infer_status oom_check_made(infer_status st, const void *where)
{
    const void *handle;
    memcpy(&handle, where, sizeof handle);
    if ((st == INFER_OK) != (handle != NULL))
        fail_msg("%s, and %s handle was given out", infer_status_name(st), handle ? "a" : "no");
    return st;
}

/* ---- The folder of the runs */

static char folder[512];
static uint64_t temporary; /* files found that only a writer at work may have */

const char *oom_path(const char *name)
{
    static char paths[4][1024];
    static int at;
    at = (at + 1) % 4;
    snprintf(paths[at], sizeof paths[at], "%s/%s", folder, name);
    return paths[at];
}

void oom_folder_make(void)
{
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0); /* thousands of syncs */
    snprintf(folder, sizeof folder, "%s/runs", tempdir_make());
    if (mkdir(folder, 0700) != 0)
        fail_msg("cannot make %s", folder);
}

void oom_write(const char *path, const void *data, uint64_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        fail_msg("cannot write %s", path);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    temporary += strncmp(path + at->base, OUTFILE_PREFIX, strlen(OUTFILE_PREFIX)) == 0;
    return at->level ? remove(path) : 0;
}

static void empty_folder(void)
{
    temporary = 0;
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fail_msg("cannot empty %s", folder);
}

void oom_folder_remove(void)
{
    empty_folder();
    (void)rmdir(folder);
    tempdir_remove();
}

static void release(struct world *w)
{
    infer_engine_release(w->engine); /* first what the others hold */
    infer_model_release(w->model);
    infer_scheduler_release(w->scheduler);
    infer_request_release(w->request);
    for (int i = 0; i < OOM_SESSIONS; i++)
        infer_session_release(w->s[i]);
    for (int i = 0; i < OOM_KEPT; i++) {
        infer_checkpoint_release(w->c[i]);
        infer_adapter_release(w->a[i]);
    }
    infer_store_release(w->store);
    infer_file_release(w->file);
    infer_tokenizer_release(w->tokenizer);
    infer_template_release(w->tmpl);
    infer_cancel_release(w->cancel);
    w->seam->arm(0, false);
    w->seam->check(w->scenario->name);
    empty_folder();
    if (temporary && !w->seam->leaves_files)
        fail_msg("%s: %llu temporary files were left", w->scenario->name, (unsigned long long)temporary);
}

struct seen {
    infer_session_info info[OOM_SESSIONS];
};

static void look(const struct world *w, struct seen *seen)
{
    memset(seen, 0, sizeof *seen);
    for (int i = 0; i < OOM_SESSIONS; i++) {
        INFER_INIT(&seen->info[i]);
        if (w->s[i])
            assert_int_equal(infer_session_get_info(w->s[i], &seen->info[i], NULL), INFER_OK);
    }
}

static bool allowed(const struct seam *seam, infer_status st)
{
    for (int i = 0; i < OOM_ERRORS && seam->errors[i]; i++)
        if (seam->errors[i] == st)
            return true;
    return false;
}

static void check_failure(const struct world *w, const struct step *step, infer_status st, const struct seen *before, const char *where)
{
    struct seen after;
    if (!allowed(w->seam, st) || w->err.code != st || !w->err.text[0])
        fail_msg("%s: %s, error %d '%s' (%s, %s)", where, infer_status_name(st), (int)w->err.code, w->err.text, w->err.name, w->err.file);
    if (w->seam->says && !strstr(w->err.text, w->seam->says))
        fail_msg("%s: the text is '%s'", where, w->err.text);
    look(w, &after);
    for (int i = 0; i < OOM_SESSIONS; i++) {
        const infer_session_info *a = &before->info[i], *b = &after.info[i];
        bool same = a->length == b->length && a->computed == b->computed && a->n_ctx == b->n_ctx && a->adapters == b->adapters
                    && a->approximate == b->approximate && a->kv_recent == b->kv_recent;
        if (!same && !(step->flags & STEP_ADVANCES))
            fail_msg("%s: session %d had %llu elements (%llu computed), and has %llu (%llu)", where, i, (unsigned long long)a->length,
                     (unsigned long long)a->computed, (unsigned long long)b->length, (unsigned long long)b->computed);
    }
}

/* One run. Returns whether the n-th use was reached; *digest of its results, 0 when the host gave up. */
static bool run(const struct scenario *scenario, const struct seam *seam, uint64_t n, enum mode mode, uint64_t *digest, uint64_t *calls)
{
    /* a failure must be told by the step in which it comes, not by a later one */
    bool tells = n && seam->tells && !scenario->makes_up;
    struct world w = {.scenario = scenario, .seam = seam, .digest = 0xcbf29ce484222325u};
    bool failed = false;
    INFER_INIT(&w.err);
    seam->arm(n, mode != ONE);
    for (const struct step *step = scenario->steps; step->name; step++) {
        struct seen before;
        char where[256];
        look(&w, &before);
        infer_status st = step->run(&w, step->arg);
        snprintf(where, sizeof where, "%s: %s %llu (%s) fails: %s", scenario->name, seam->name, (unsigned long long)n, mode_names[mode],
                 step->name);
        if (st == INFER_OK && tells && !failed && seam->calls() >= n)
            fail_msg("%s, and it is not told", where);
        if (st == INFER_OK)
            continue;
        if (failed || !n || seam->calls() < n)
            fail_msg("%s: %s '%s' (%s, %s) although nothing failed any more", where, infer_status_name(st), w.err.text, w.err.name, w.err.file);
        failed = true;
        check_failure(&w, step, st, &before, where);
        if (mode == GIVE_UP) {
            release(&w);
            *digest = 0;
            return true;
        }
        seam->arm(0, false);
        w.late = strstr(w.err.text, "may not survive") || strstr(w.err.text, "both names");
        infer_error cleared;
        INFER_INIT(&cleared);
        w.err = cleared;
        st = step->run(&w, step->arg);
        if (st != INFER_OK)
            fail_msg("%s: and again afterwards: %s '%s' (%s, %s)", where, infer_status_name(st), w.err.text, w.err.name, w.err.file);
        w.late = false;
    }
    bool reached = failed || (n && seam->calls() >= n);
    if (calls)
        *calls = seam->calls();
    release(&w);
    *digest = w.digest;
    return reached;
}

bool oom_can_run(const struct scenario *scenario)
{
    return !scenario->hash || hash_available();
}

uint64_t oom_loop(const struct scenario *scenario, const struct seam *seam, const struct oom_plan *plan, uint64_t *of)
{
    uint64_t want, got, total, tried = 0;
    seam->forget();
    (void)run(scenario, seam, 0, ONE, &want, &total);
    (void)run(scenario, seam, 0, ONE, &got, NULL);
    if (want != got)
        fail_msg("%s: two undisturbed runs differ", scenario->name);
    *of = 3 * total;
    for (enum mode mode = ONE; mode <= GIVE_UP; mode++) {
        uint64_t stride = plan->most && total > plan->most ? (total + plan->most - 1) / plan->most : 1;
        for (uint64_t n = 1 + mode % stride;; n += stride) { /* each mode tries others */
            if (!run(scenario, seam, n, mode, &got, NULL))
                break;
            tried++;
            if (got && got != want)
                fail_msg("%s: %s %llu (%s) failed, and the results are others", scenario->name, seam->name, (unsigned long long)n,
                         mode_names[mode]);
        }
    }
    return tried;
}
