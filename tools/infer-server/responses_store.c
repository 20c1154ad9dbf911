#include "responses_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUCKETS 4096
#define FILE_MAX (256u << 20) /* of a response: larger is no file of ours */
#define HEAD "{\"format\":\"infer-server response\",\"version\":1,\"blake2b\":\""
#define HEAD_END "\"}\n"
#define HASH 32

struct entry {
    struct entry *chain;          /* of the bucket */
    struct entry *older, *newer;
    char id[RESPONSE_ID];
    bool has_state;
    bool reported;                /* its file is damaged, and that has been said */
    uint64_t bytes;
    json_t *doc;                  /* NULL: in its file */
    infer_checkpoint *state;      /* not yet in the store of checkpoints */
};

struct worker {
    struct store *store;
    pthread_t thread;
    pid_t pid;                    /* of the process that the thread runs in; 0: none yet */
    pthread_cond_t wake;
    struct task *first, **last;
    uint32_t backlog;
    bool stop;
};

struct store {
    pthread_mutex_t lock;
    struct entry *buckets[BUCKETS];
    struct entry *oldest, *newest;
    uint64_t count, bytes, max_count, max_bytes;
    char *path;
    int dir;                      /* -1: in memory */
    infer_model *model;
    infer_store *states;

    struct worker workers[N_WORKS];
    pid_t scanned_by;             /* the process that has looked at the folder */
};

/* ---- Identifiers ------------------------------------------------------------------------------------------------- */

bool response_id_make(char id[RESPONSE_ID])
{
    unsigned char raw[RESPONSE_DIGITS / 2];
    size_t n = 0;
    while (n < sizeof raw) {
        ssize_t got = getrandom(raw + n, sizeof raw - n, 0);
        if (got < 0 && errno != EINTR)
            return false;
        n += got > 0 ? (size_t)got : 0;
    }
    memcpy(id, "resp_", 5);
    sodium_bin2hex(id + 5, RESPONSE_DIGITS + 1, raw, sizeof raw);
    return true;
}

bool response_id_valid(const char *id)
{
    return strlen(id) == RESPONSE_ID - 1 && memcmp(id, "resp_", 5) == 0 && strspn(id + 5, "0123456789abcdef") == RESPONSE_DIGITS;
}

static void hash_hex(const void *data, size_t len, char out[2 * HASH + 1])
{
    unsigned char hash[HASH];
    crypto_generichash(hash, sizeof hash, data, len, NULL, 0);
    sodium_bin2hex(out, 2 * HASH + 1, hash, sizeof hash);
}

void store_tenant(const char *salt, char out[TENANT_SIZE])
{
    hash_hex(salt, strlen(salt), out);
}

/* ---- The index: in order of age ---------------------------------------------------------------------------------- */

static struct entry **bucket_of(struct store *s, const char *id)
{
    unsigned n = 0;
    for (int i = 5; i < 9; i++) /* the digits are random */
        n = n * 16 + (unsigned)(id[i] <= '9' ? id[i] - '0' : id[i] - 'a' + 10);
    return &s->buckets[n % BUCKETS];
}

static struct entry *entry_find(struct store *s, const char *id)
{
    struct entry *e = *bucket_of(s, id);
    while (e && strcmp(e->id, id) != 0)
        e = e->chain;
    return e;
}

static struct entry *entry_add(struct store *s, const char *id)
{
    struct entry *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    memcpy(e->id, id, RESPONSE_ID);
    struct entry **bucket = bucket_of(s, id);
    e->chain = *bucket;
    *bucket = e;
    e->older = s->newest;
    if (s->newest)
        s->newest->newer = e;
    else
        s->oldest = e;
    s->newest = e;
    s->count++;
    return e;
}

static void entry_drop(struct store *s, struct entry *e)
{
    struct entry **at = bucket_of(s, e->id);
    while (*at != e)
        at = &(*at)->chain;
    *at = e->chain;
    *(e->older ? &e->older->newer : &s->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &s->newest) = e->older;
    s->count--;
    s->bytes -= e->bytes;
    json_decref(e->doc);
    infer_checkpoint_release(e->state);
    free(e);
}

/* ---- Files ------------------------------------------------------------------------------------------------------- */

static void file_name(const char *id, char out[RESPONSE_ID + 5])
{
    (void)snprintf(out, RESPONSE_ID + 5, "%s.json", id);
}

static bool write_all(int fd, const char *data, size_t n)
{
    while (n) {
        ssize_t put = write(fd, data, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        data += put;
        n -= (size_t)put;
    }
    return true;
}

/* Under a temporary name, synced, renamed; then the folder. Temporary names tell their process: store_open removes those of dead ones. */
static bool file_write(struct store *s, const char *id, const char *text, size_t len)
{
    char name[RESPONSE_ID + 5], temporary[RESPONSE_ID + 32], hash[2 * HASH + 1];
    file_name(id, name);
    (void)snprintf(temporary, sizeof temporary, ".%s.%ld.tmp", id, (long)getpid());
    hash_hex(text, len, hash);
    int fd = openat(s->dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0;
    ok = ok && write_all(fd, HEAD, strlen(HEAD)) && write_all(fd, hash, strlen(hash)) && write_all(fd, HEAD_END, strlen(HEAD_END));
    ok = ok && write_all(fd, text, len) && write_all(fd, "\n", 1) && fsync(fd) == 0;
    int saved = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        saved = errno;
    }
    if (ok && renameat(s->dir, temporary, s->dir, name) != 0) {
        ok = false;
        saved = errno;
    }
    if (!ok) {
        if (fd >= 0)
            (void)unlinkat(s->dir, temporary, 0);
        errno = saved;
        return false;
    }
    return fsync(s->dir) == 0;
}

static char *file_text(struct store *s, const char *name, size_t *len, const char **problem)
{
    *problem = NULL;
    int fd = openat(s->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        *problem = errno == ENOENT ? NULL : strerror(errno);
        return NULL;
    }
    struct stat st;
    char *text = NULL;
    size_t n = 0;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)FILE_MAX)
        *problem = "no file of this kind";
    else if (!(text = malloc((size_t)st.st_size + 1)))
        *problem = "out of memory";
    while (text && n < (size_t)st.st_size) {
        ssize_t got = read(fd, text + n, (size_t)st.st_size - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    (void)close(fd);
    if (text)
        text[n] = 0;
    *len = n;
    return text;
}

static bool doc_whole(const json_t *doc, const char *id)
{
    const json_t *response = json_object_get(doc, "response");
    const char *own = json_string_value(json_object_get(response, "id"));
    return own && strcmp(own, id) == 0 && json_is_string(json_object_get(doc, "tenant")) && json_is_array(json_object_get(response, "output"))
           && json_is_array(json_object_get(doc, "history")) && json_is_array(json_object_get(doc, "input"));
}

/* NULL with *problem NULL: there is no such file. */
static json_t *file_read(struct store *s, const char *id, const char **problem)
{
    char name[RESPONSE_ID + 5], hash[2 * HASH + 1];
    size_t len, head = strlen(HEAD), skip = head + 2 * HASH + strlen(HEAD_END);
    file_name(id, name);
    char *text = file_text(s, name, &len, problem);
    if (!text)
        return NULL;
    json_t *doc = NULL;
    if (len <= skip + 1 || memcmp(text, HEAD, head) != 0 || memcmp(text + skip - strlen(HEAD_END), HEAD_END, strlen(HEAD_END)) != 0) {
        *problem = "does not begin as a response's file does";
    } else {
        hash_hex(text + skip, len - skip - 1, hash);
        if (memcmp(text + head, hash, 2 * HASH) != 0)
            *problem = "its checksum is another one: damaged";
        else if (!(doc = json_loadb(text + skip, len - skip, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)) || !doc_whole(doc, id))
            *problem = "is not the response that its name says";
    }
    free(text);
    if (*problem) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}

/* ---- Responses --------------------------------------------------------------------------------------------------- */

static void report_damage(struct store *s, const char *id, const char *problem)
{
    (void)pthread_mutex_lock(&s->lock);
    struct entry *e = entry_find(s, id);
    bool say = !e || !e->reported;
    if (e)
        e->reported = true;
    (void)pthread_mutex_unlock(&s->lock);
    if (say)
        (void)fprintf(stderr, "infer-server: %s/%s.json: %s; skipped\n", s->path, id, problem);
}

json_t *store_find(struct store *s, const char *id, const char *tenant)
{
    if (!response_id_valid(id))
        return NULL;
    (void)pthread_mutex_lock(&s->lock);
    struct entry *e = entry_find(s, id);
    json_t *doc = e ? json_incref(e->doc) : NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (!doc && s->dir >= 0) {
        const char *problem;
        doc = file_read(s, id, &problem);
        if (problem)
            report_damage(s, id, problem);
    }
    if (doc && strcmp(json_string_value(json_object_get(doc, "tenant")), tenant) != 0) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}

static void forget_files(struct store *s, const char *id)
{
    if (s->dir >= 0) {
        char name[RESPONSE_ID + 5];
        file_name(id, name);
        (void)unlinkat(s->dir, name, 0);
    }
    if (s->states)
        (void)infer_store_delete(s->states, id, RESPONSE_ID - 1, NULL);
}

static bool scan(struct store *s);

/* Takes the oldest out until the limits hold; the newest stays whatever its size. */
static void evict(struct store *s)
{
    for (;;) {
        char id[RESPONSE_ID] = "";
        (void)pthread_mutex_lock(&s->lock);
        if (s->oldest != s->newest && (s->count > s->max_count || s->bytes > s->max_bytes)) {
            memcpy(id, s->oldest->id, sizeof id);
            entry_drop(s, s->oldest);
        }
        (void)pthread_mutex_unlock(&s->lock);
        if (!id[0])
            return;
        forget_files(s, id);
    }
}

void store_put(struct store *s, const char *id, json_t *doc, infer_checkpoint *state)
{
    bool on_disk = false;
    char *text = s->dir >= 0 ? json_dumps(doc, JSON_COMPACT) : NULL;
    size_t len = text ? strlen(text) : json_dumpb(doc, NULL, 0, JSON_COMPACT);
    if (s->dir >= 0) {
        errno = ENOMEM;
        on_disk = text && file_write(s, id, text, len);
        if (!on_disk)
            (void)fprintf(stderr, "infer-server: %s/%s.json: cannot be written: %s; the response is kept in memory only\n", s->path, id, strerror(errno));
    }
    free(text);
    (void)pthread_mutex_lock(&s->lock);
    if (s->dir >= 0 && s->scanned_by != getpid()) /* a forked child: others have put theirs there meanwhile */
        (void)scan(s);
    struct entry *e = entry_find(s, id);
    if (!e)
        e = entry_add(s, id);
    if (e) {
        json_decref(e->doc);
        e->doc = on_disk ? NULL : json_incref(doc);
        if (state && !e->state)
            e->state = infer_checkpoint_ref(state);
        s->bytes += len - e->bytes;
        e->bytes = len;
    }
    (void)pthread_mutex_unlock(&s->lock);
    evict(s);
}

bool store_remove(struct store *s, const char *id)
{
    (void)pthread_mutex_lock(&s->lock);
    struct entry *e = entry_find(s, id);
    if (e)
        entry_drop(s, e);
    (void)pthread_mutex_unlock(&s->lock);
    forget_files(s, id);
    return e != NULL;
}

bool store_has(struct store *s, const char *id)
{
    char name[RESPONSE_ID + 5];
    (void)pthread_mutex_lock(&s->lock);
    const struct entry *e = entry_find(s, id);
    bool found = e && e->doc;
    (void)pthread_mutex_unlock(&s->lock);
    file_name(id, name);
    return found || (s->dir >= 0 && faccessat(s->dir, name, F_OK, 0) == 0);
}

bool doc_unfinished(const json_t *doc)
{
    const char *status = json_string_value(json_object_get(json_object_get(doc, "response"), "status"));
    return status && (strcmp(status, "queued") == 0 || strcmp(status, "in_progress") == 0);
}

static int open_file(struct store *s, const char *id)
{
    char name[RESPONSE_ID + 5];
    file_name(id, name);
    return s->dir < 0 ? -1 : openat(s->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

int store_hold(struct store *s, const char *id)
{
    int fd = open_file(s, id);
    if (fd >= 0)
        (void)flock(fd, LOCK_SH);
    return fd;
}

bool store_held(struct store *s, const char *id)
{
    int fd = open_file(s, id);
    bool held = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        (void)close(fd);
    return held;
}

/* ---- Checkpoints ------------------------------------------------------------------------------------------------- */

/* false: no response has one any more. */
static bool drop_oldest_state(struct store *s, const char *but)
{
    char id[RESPONSE_ID] = "";
    (void)pthread_mutex_lock(&s->lock);
    for (struct entry *e = s->oldest; e && !id[0]; e = e->newer)
        if (e->has_state && strcmp(e->id, but) != 0) {
            e->has_state = false;
            memcpy(id, e->id, sizeof id);
        }
    (void)pthread_mutex_unlock(&s->lock);
    return id[0] && infer_store_delete(s->states, id, RESPONSE_ID - 1, NULL) == INFER_OK;
}

void store_put_state(struct store *s, const char *id)
{
    (void)pthread_mutex_lock(&s->lock);
    struct entry *e = entry_find(s, id);
    infer_checkpoint *state = e && e->state ? infer_checkpoint_ref(e->state) : NULL;
    (void)pthread_mutex_unlock(&s->lock);
    if (!state)
        return;
    infer_error err;
    INFER_INIT(&err);
    infer_status status;
    do
        status = infer_store_put(s->states, id, RESPONSE_ID - 1, state, INFER_STORE_REPLACE, NULL, &err);
    while (status == INFER_ERROR_LIMIT && drop_oldest_state(s, id));
    infer_checkpoint_release(state);
    if (status != INFER_OK && status != INFER_ERROR_LIMIT)
        (void)fprintf(stderr, "infer-server: the checkpoint of %s was not kept: %s\n", id, err.text);
    (void)pthread_mutex_lock(&s->lock);
    e = entry_find(s, id);
    if (e) {
        infer_checkpoint_release(e->state);
        e->state = NULL;
        e->has_state = status == INFER_OK;
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!e && status == INFER_OK) /* deleted in between */
        (void)infer_store_delete(s->states, id, RESPONSE_ID - 1, NULL);
}

infer_checkpoint *store_state(struct store *s, const char *id)
{
    infer_checkpoint *state = NULL;
    (void)pthread_mutex_lock(&s->lock);
    struct entry *e = entry_find(s, id);
    if (e && e->state)
        state = infer_checkpoint_ref(e->state);
    (void)pthread_mutex_unlock(&s->lock);
    infer_error err;
    INFER_INIT(&err);
    if (!state && s->states) {
        infer_status status = infer_store_get(s->states, s->model, id, RESPONSE_ID - 1, NULL, &state, &err);
        if (status != INFER_OK) {
            state = NULL;
            if (status != INFER_ERROR_NOT_FOUND)
                (void)fprintf(stderr, "infer-server: the checkpoint of %s: %s; skipped\n", id, err.text);
        }
    }
    return state;
}

void store_drop_state(struct store *s, const char *id)
{
    (void)pthread_mutex_lock(&s->lock);
    struct entry *e = entry_find(s, id);
    if (e) {
        infer_checkpoint_release(e->state);
        e->state = NULL;
        e->has_state = false;
    }
    (void)pthread_mutex_unlock(&s->lock);
    (void)infer_store_delete(s->states, id, RESPONSE_ID - 1, NULL);
}

/* ---- Jobs -------------------------------------------------------------------------------------------------------- */

static void *work(void *arg)
{
    struct worker *w = arg;
    struct store *s = w->store;
    (void)pthread_mutex_lock(&s->lock);
    while (w->first || !w->stop) {
        struct task *task = w->first;
        if (!task) {
            (void)pthread_cond_wait(&w->wake, &s->lock);
            continue;
        }
        w->first = task->next;
        if (!w->first)
            w->last = &w->first;
        (void)pthread_mutex_unlock(&s->lock);
        task->run(task);
        (void)pthread_mutex_lock(&s->lock);
        w->backlog--;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* A thread begins with its first task; a forked child begins its own. Without one the work is done at once. */
void store_queue(struct store *s, enum work kind, struct task *task)
{
    struct worker *w = &s->workers[kind];
    task->next = NULL;
    (void)pthread_mutex_lock(&s->lock);
    if (w->pid != getpid() && pthread_create(&w->thread, NULL, work, w) == 0)
        w->pid = getpid();
    bool queued = w->pid == getpid();
    if (queued) {
        *w->last = task;
        w->last = &task->next;
        w->backlog++;
        (void)pthread_cond_signal(&w->wake);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!queued)
        task->run(task);
}

uint32_t store_backlog(struct store *s, enum work kind)
{
    (void)pthread_mutex_lock(&s->lock);
    uint32_t n = s->workers[kind].backlog;
    (void)pthread_mutex_unlock(&s->lock);
    return n;
}

/* The first kind makes work for the second. */
static void stop_workers(struct store *s)
{
    for (int i = 0; i < N_WORKS; i++) {
        struct worker *w = &s->workers[i];
        (void)pthread_mutex_lock(&s->lock);
        w->stop = true;
        bool started = w->pid == getpid();
        (void)pthread_cond_signal(&w->wake);
        (void)pthread_mutex_unlock(&s->lock);
        if (started)
            (void)pthread_join(w->thread, NULL);
    }
}

/* ---- Opening ----------------------------------------------------------------------------------------------------- */

struct found { char id[RESPONSE_ID]; uint64_t bytes; struct timespec time; };

static int by_age(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->time.tv_sec != y->time.tv_sec)
        return x->time.tv_sec < y->time.tv_sec ? -1 : 1;
    if (x->time.tv_nsec != y->time.tv_nsec)
        return x->time.tv_nsec < y->time.tv_nsec ? -1 : 1;
    return strcmp(x->id, y->id);
}

/* ".resp_....PID.tmp" of a process that is no more. */
static bool left_behind(const char *name)
{
    char id[RESPONSE_ID];
    if (name[0] != '.' || strlen(name) < RESPONSE_ID + 1)
        return false;
    memcpy(id, name + 1, RESPONSE_ID - 1);
    id[RESPONSE_ID - 1] = 0;
    char *end;
    long pid = strtol(name + RESPONSE_ID + 1, &end, 10);
    return response_id_valid(id) && name[RESPONSE_ID] == '.' && strcmp(end, ".tmp") == 0 && pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Adds what is there and not known. false: out of memory, or the folder cannot be read. Only names, sizes and times are looked at: what a file holds is read when it is asked for. */
static bool scan(struct store *s)
{
    struct found *all = NULL;
    DIR *d = opendir(s->path);
    s->scanned_by = getpid();
    if (!d)
        return false;
    size_t n = 0, room = 0;
    const struct dirent *item;
    bool ok = true;
    while (ok && (item = readdir(d))) {
        struct stat st;
        char id[RESPONSE_ID] = "";
        if (left_behind(item->d_name))
            (void)unlinkat(s->dir, item->d_name, 0);
        if (strlen(item->d_name) != RESPONSE_ID + 4 || strcmp(item->d_name + RESPONSE_ID - 1, ".json") != 0)
            continue;
        memcpy(id, item->d_name, RESPONSE_ID - 1);
        if (!response_id_valid(id) || fstatat(s->dir, item->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        if (n == room) {
            struct found *more = realloc(all, (room = room ? 2 * room : 64) * sizeof *all);
            ok = more != NULL;
            all = more ? more : all;
        }
        if (ok) {
            memcpy(all[n].id, id, sizeof id);
            all[n].bytes = (uint64_t)st.st_size;
            all[n++].time = st.st_mtim;
        }
    }
    (void)closedir(d);
    if (n)
        qsort(all, n, sizeof *all, by_age);
    for (size_t i = 0; ok && i < n; i++) {
        struct entry *e = entry_find(s, all[i].id) ? NULL : entry_add(s, all[i].id);
        if (e)
            s->bytes += e->bytes = all[i].bytes;
    }
    free(all);
    return ok;
}

/* Checkpoints whose response has gone go too. */
static void scan_states(struct store *s)
{
    infer_store_entry item;
    INFER_INIT(&item);
    char after[256] = "";
    while (infer_store_next(s->states, after[0] ? after : NULL, strlen(after), &item, NULL) == INFER_OK) {
        memcpy(after, item.name, sizeof after);
        struct entry *e = response_id_valid(item.name) ? entry_find(s, item.name) : NULL;
        if (e)
            e->has_state = true;
        else
            (void)infer_store_delete(s->states, item.name, item.name_len, NULL);
    }
}

static infer_status open_dir(struct store *s, const char *path, infer_error *err)
{
    s->path = strdup(path);
    if (!s->path)
        return INFER_ERROR_NO_MEMORY;
    if ((mkdir(path, 0700) != 0 && errno != EEXIST) || (s->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) {
        if (err) {
            err->code = INFER_ERROR_IO;
            (void)snprintf(err->file, sizeof err->file, "%s", path);
            (void)snprintf(err->text, sizeof err->text, "%s: %s", path, strerror(errno));
        }
        return INFER_ERROR_IO;
    }
    return scan(s) ? INFER_OK : INFER_ERROR_NO_MEMORY;
}

infer_status store_open(struct server *server, const struct responses_options *o, struct store **out, infer_error *err)
{
    struct store *s = calloc(1, sizeof *s);
    if (!s || sodium_init() < 0) {
        free(s);
        return INFER_ERROR_NO_MEMORY;
    }
    (void)pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < N_WORKS; i++) {
        s->workers[i].store = s;
        s->workers[i].last = &s->workers[i].first;
        (void)pthread_cond_init(&s->workers[i].wake, NULL);
    }
    s->dir = -1;
    s->max_count = o->max_count;
    s->max_bytes = o->max_bytes;
    s->model = infer_model_ref(server->model);
    infer_store_options options;
    INFER_INIT(&options);
    options.max_bytes = o->max_state_bytes;
    char states[4096] = "";
    infer_status status = o->dir ? open_dir(s, o->dir, err) : INFER_OK;
    if (o->dir)
        (void)snprintf(states, sizeof states, "%s/checkpoints", o->dir);
    if (status == INFER_OK)
        status = infer_store_open(server->engine, o->dir ? states : NULL, strlen(states), &options, &s->states, err);
    if (status != INFER_OK) {
        store_close(s);
        return status;
    }
    scan_states(s);
    evict(s);
    *out = s;
    return INFER_OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    stop_workers(s);
    while (s->oldest)
        entry_drop(s, s->oldest);
    infer_store_release(s->states);
    infer_model_release(s->model);
    if (s->dir >= 0)
        (void)close(s->dir);
    for (int i = 0; i < N_WORKS; i++)
        (void)pthread_cond_destroy(&s->workers[i].wake);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
}
