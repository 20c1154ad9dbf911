#include "output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool failed;
static bool progress_shown;
static bool json;

/* Windows counts in an unsigned int. */
static unsigned part_of(size_t n)
{
    return n < 1u << 20 ? (unsigned)n : 1u << 20;
}

bool out_write(const char *bytes, size_t n)
{
    while (n > 0 && !failed) {
        ssize_t w = write(STDOUT_FILENO, bytes, part_of(n));
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            failed = true;
            if (errno != EPIPE)
                note("cannot write to standard output: %s", strerror(errno));
            break;
        }
        bytes += w;
        n -= (size_t)w;
    }
    return !failed;
}

bool out_puts(const char *s)
{
    return out_write(s, strlen(s));
}

bool out_text(struct text *t)
{
    if (t->failed && !failed) {
        failed = true;
        note("out of memory");
    }
    bool ok = out_write(t->data, t->len);
    text_clear(t);
    return ok;
}

bool out_failed(void)
{
    return failed;
}

static void err_write(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t w = write(STDERR_FILENO, bytes, part_of(n));
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return; /* nowhere left to say it */
        bytes += w;
        n -= (size_t)w;
    }
}

static void put_line(const char *before, const char *fmt, va_list ap)
{
    char line[1400];
    progress_clear();
    size_t at = (size_t)snprintf(line, sizeof line, "%s", before);
    int n = vsnprintf(line + at, sizeof line - at - 1, fmt, ap);
    if (n < 0)
        return;
    at += (size_t)n;
    if (at > sizeof line - 2)
        at = sizeof line - 2;
    line[at++] = '\n';
    err_write(line, at);
}

void note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line("infer-cli: ", fmt, ap);
    va_end(ap);
}

static void json_error(infer_status status, const char *message)
{
    struct text t = {0};
    text_putf(&t, "{\"event\":\"error\",\"status\":\"%s\",\"message\":", infer_status_name(status));
    text_put_json(&t, message, strlen(message));
    text_puts(&t, "}\n");
    out_text(&t);
    text_free(&t);
}

void output_json(bool on)
{
    json = on;
}

void complain(infer_status status, const char *fmt, ...)
{
    char message[1400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    if (json)
        json_error(status, message);
    note("%s", message);
}

void remark(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    put_line("", fmt, ap);
    va_end(ap);
}

void note_error(const char *before, const infer_error *err)
{
    char place[512];
    size_t at = 0;
    place[0] = 0;
    if (before)
        at += (size_t)snprintf(place, sizeof place, "%s: ", before);
    if (err->file[0] && !(before && strcmp(before, err->file) == 0) && at < sizeof place)
        at += (size_t)snprintf(place + at, sizeof place - at, "%s: ", err->file);
    if (err->name[0] && !strstr(err->text, err->name) && at < sizeof place)
        (void)snprintf(place + at, sizeof place - at, "%s: ", err->name);
    const char *text = err->text[0] ? err->text : infer_status_message(err->code);
    if (err->offset != UINT64_MAX && err->offset != 0)
        complain(err->code, "%s%s (at byte %llu)", place, text, (unsigned long long)err->offset);
    else
        complain(err->code, "%s%s", place, text);
}

void progress_show(const char *what, uint64_t done, uint64_t total)
{
    char line[128];
    if (!isatty(STDERR_FILENO) || total == 0)
        return;
    int n = snprintf(line, sizeof line, "\r\033[K%s %llu%%", what, (unsigned long long)(done * 100 / total));
    err_write(line, (size_t)n);
    progress_shown = true;
}

void progress_clear(void)
{
    if (progress_shown)
        err_write("\r\033[K", 4);
    progress_shown = false;
}

int exit_code(infer_status status, bool generating)
{
    switch (status) {
    case INFER_OK: return EXIT_OK;
    case INFER_ERROR_NO_MEMORY:
    case INFER_ERROR_LIMIT:
    case INFER_ERROR_CONTEXT_FULL: return EXIT_LIMIT;
    case INFER_ERROR_CANCELLED: return EXIT_INTERRUPTED;
    default: return generating ? EXIT_GENERATION : EXIT_MODEL;
    }
}
