/* Many processes, one model: prefork MODEL.gguf "TEXT" [CHILDREN] [TOKENS]
 *
 * The parent opens the model and computes a prompt once; children are fork()ed. Each makes a session of the parent's checkpoint and goes on by
 * itself: weights and the prompt's state stay one copy in memory, shared by all, and a child has for itself only what it writes. Here
 * every child continues the text with a seed of its own, and the first one is killed in the middle, which disturbs nobody.
 *
 * The one rule: fork while no thread is inside the library. What children need is made before (a model opened by a child is its own).
 * Several children that compute at once want few threads each: an engine's number of threads is the parent's choice. */
#define _DEFAULT_SOURCE
#include <infer/state.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CHILDREN = 100, KILLED = 0 };

#define TRY(call)                      \
    do {                               \
        infer_status st = (call);      \
        if (st != INFER_OK)            \
            return st;                 \
    } while (0)

struct child {
    pid_t pid;
    int from; /* what it writes */
    size_t len;
    char text[8192];
};

/* What this process has for itself, in KiB: Linux tells it. */
static long private_dirty(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Private_Dirty: %ld", &kib) != 1)
        ;
    if (f)
        fclose(f);
    return kib;
}

static infer_status warm_up(infer_model *model, const char *text, infer_checkpoint **out, infer_error *err)
{
    infer_session *session = NULL;
    infer_step_item prompt;
    INFER_INIT(&prompt);
    TRY(infer_session_create(model, NULL, &session, err));
    prompt.session = session;
    infer_status st = infer_session_append_text(session, text, strlen(text), INFER_TOKENIZE_ADD_SPECIAL, err);
    if (st == INFER_OK)
        st = infer_step(&prompt, 1, NULL, err);
    if (st == INFER_OK)
        st = infer_checkpoint_create(session, out, err);
    infer_session_release(session);
    return st;
}

/* The child's whole life. Its standard output is the pipe to the parent. */
static int32_t print(void *user, const infer_event *event)
{
    (void)user;
    fwrite(event->text, 1, event->text_len, stdout);
    return fflush(stdout);
}

static infer_status child_main(const infer_checkpoint *warm, uint64_t seed, uint64_t tokens, infer_error *err)
{
    infer_session *session = NULL;
    infer_generate_options options;
    infer_sampling sampling;
    INFER_INIT(&options);
    INFER_INIT(&sampling);
    options.max_tokens = tokens;
    options.flags = INFER_GENERATE_IGNORE_EOS;
    TRY(infer_checkpoint_session(warm, &session, err));
    TRY(infer_sampling_default(&sampling, err));
    sampling.seed = seed;
    TRY(infer_session_set_sampling(session, &sampling, err));
    TRY(infer_generate(session, &options, print, NULL, NULL, err));
    printf("\n[private dirty memory: %ld KiB]", private_dirty());
    fflush(stdout);
    infer_session_release(session);
    return INFER_OK;
}

static int start(struct child *c, const infer_checkpoint *warm, uint64_t seed, uint64_t tokens)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    c->pid = fork();
    if (c->pid == 0) {
        infer_error err;
        INFER_INIT(&err);
        close(ends[0]);
        dup2(ends[1], STDOUT_FILENO);
        infer_status st = child_main(warm, seed, tokens, &err);
        if (st != INFER_OK)
            printf("%s", err.text);
        fflush(stdout);
        _exit(st != INFER_OK); /* not exit(): what the parent registered for its own end is not the child's */
    }
    close(ends[1]);
    c->from = ends[0];
    return c->pid > 0 ? 0 : -1;
}

/* Reads on; false at the end. */
static int hear(struct child *c)
{
    ssize_t n = read(c->from, c->text + c->len, sizeof c->text - c->len);
    c->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static void show(struct child *c, int number)
{
    int status = 0;
    while (hear(c))
        ;
    close(c->from);
    waitpid(c->pid, &status, 0);
    printf("child %d%s: ...%.*s\n\n", number, WIFSIGNALED(status) ? " (killed)" : "", (int)c->len, c->text);
}

static int run(const infer_checkpoint *warm, int count, uint64_t tokens)
{
    static struct child children[MOST_CHILDREN];
    infer_checkpoint_info prompt;
    infer_model_info model;
    INFER_INIT(&prompt);
    INFER_INIT(&model);
    infer_checkpoint_get_info(warm, &prompt, NULL);
    infer_model_get_info(infer_checkpoint_model(warm), &model, NULL);
    printf("all share %llu KiB of weights and %llu KiB of state for %llu tokens\n\n", (unsigned long long)model.weight_bytes / 1024,
           (unsigned long long)prompt.kv_bytes / 1024, (unsigned long long)prompt.length);
    int started = 0;
    while (started < count && start(&children[started], warm, (uint64_t)started, tokens) == 0)
        started++;
    if (started > 1 && hear(&children[KILLED])) /* it has begun to answer */
        kill(children[KILLED].pid, SIGKILL);
    for (int i = 0; i < started; i++)
        show(&children[i], i);
    return started == count ? 0 : -1;
}

int main(int argc, char **argv)
{
    infer_error err;
    infer_engine *engine = NULL;
    infer_engine_options options;
    infer_model *model = NULL;
    infer_checkpoint *warm = NULL;
    int count = argc > 3 ? atoi(argv[3]) : 20, tokens = argc > 4 ? atoi(argv[4]) : 16;
    INFER_INIT(&err);
    INFER_INIT(&options);
    options.threads = 1; /* each child computes with one thread; they share the cores by being many */
    if (argc < 3 || count < 1 || count > MOST_CHILDREN || tokens < 1)
        return fprintf(stderr, "usage: prefork MODEL.gguf TEXT [CHILDREN] [TOKENS]\n"), 1;
    infer_status st = infer_engine_create(&options, &engine, &err);
    if (st == INFER_OK)
        st = infer_model_open_path(engine, argv[1], &model, &err);
    if (st == INFER_OK)
        st = warm_up(model, argv[2], &warm, &err);
    if (st != INFER_OK)
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
    int bad = st != INFER_OK || run(warm, count, (uint64_t)tokens) != 0;
    infer_checkpoint_release(warm);
    infer_model_release(model);
    infer_engine_release(engine);
    return bad;
}
