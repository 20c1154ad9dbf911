#define _XOPEN_SOURCE 700
#include "tempdir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "testutil.h"

static char dir[256];

const char *tempdir_make(void)
{
    snprintf(dir, sizeof dir, "%s/infer-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(dir))
        fail_msg("no temporary folder");
    return dir;
}

const char *tempdir_path(const char *name)
{
    static char paths[8][1024];
    static int at;
    at = (at + 1) % 8;
    snprintf(paths[at], sizeof paths[at], "%s/%s", dir, name);
    return paths[at];
}

static int walk(const char *prefix, int remove_too)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strncmp(e->d_name, prefix, strlen(prefix)) == 0) {
            n++;
            if (remove_too && unlink(tempdir_path(e->d_name)) != 0)
                (void)rmdir(tempdir_path(e->d_name));
        }
    if (d)
        closedir(d);
    return n;
}

int tempdir_count(const char *prefix)
{
    return walk(prefix, 0);
}

void tempdir_clear(const char *suffix)
{
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));) {
        size_t n = strlen(e->d_name), k = strlen(suffix);
        if (n >= k && strcmp(e->d_name + n - k, suffix) == 0)
            (void)unlink(tempdir_path(e->d_name));
    }
    if (d)
        closedir(d);
}

void tempdir_remove(void)
{
    (void)walk("", 1);
    (void)rmdir(dir);
}

void tempdir_write(const char *name, const void *data, size_t n)
{
    FILE *f = fopen(tempdir_path(name), "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0)
        fail_msg("cannot write %s", tempdir_path(name));
}

int64_t tempdir_size(const char *name)
{
    struct stat st;
    return stat(tempdir_path(name), &st) == 0 ? (int64_t)st.st_size : -1;
}
