/* Runs a fuzz target on every file of a folder, whole, cut short, and with seeded damage: `driver FOLDER`. Output is TAP. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"

#define MAX_INPUT ((size_t)1 << 22)
#define MUTANTS 300

static uint8_t *read_input(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = f ? malloc(MAX_INPUT) : NULL;
    *size = data ? fread(data, 1, MAX_INPUT, f) : 0;
    if (f)
        fclose(f);
    return data;
}

/* Each run gets a block of the exact size, so that a sanitizer sees a read past its end. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void run_mutants(uint8_t *data, size_t size)
{
    uint64_t state = 0x9E3779B97F4A7C15u + size;
    for (int i = 0; i < MUTANTS && size; i++) {
        uint8_t saved[4];
        size_t at[4];
        for (int k = 0; k < 4; k++) {
            at[k] = (size_t)(draw(&state) % size);
            saved[k] = data[at[k]];
            data[at[k]] = (uint8_t)draw(&state);
        }
        run(data, i % 8 ? size : (size_t)(draw(&state) % size));
        for (int k = 3; k >= 0; k--)
            data[at[k]] = saved[k];
    }
}

static int run_folder(const char *folder)
{
    char path[4096];
    int n = 0;
    DIR *d = opendir(folder);
    for (const struct dirent *e; d && (e = readdir(d));) {
        size_t size;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        uint8_t *data = e->d_name[0] == '.' ? NULL : read_input(path, &size);
        if (!data)
            continue;
        run(data, size);
        run_mutants(data, size);
        free(data);
        printf("ok %d - %s\n", ++n, e->d_name);
        fflush(stdout);
    }
    if (d)
        closedir(d);
    return n;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? run_folder(argv[1]) : 0;
    if (n == 0)
        printf("not ok 1 - no inputs in %s\n", argc > 1 ? argv[1] : "(no folder)");
    printf("1..%d\n", n ? n : 1);
    return n == 0;
}
