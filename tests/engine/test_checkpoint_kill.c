/* kill -9 in a loop while a process saves: what has the name is whole, and temporary files do not pile up. */
#define _DEFAULT_SOURCE
#include "ckpt_tests.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/outfile.h"

static int kills = 20;

/* Saves for ever: whole, packed, delta, in turn, always one element further. */
static void save_for_ever(const struct ckpt_model *m, infer_session *s)
{
    failing_io.real_sync = 1; /* most of the time is spent there, with the file under its temporary name */
    for (uint64_t i = 0;; i++) {
        uint32_t flags = i % 4 == 3 && pack_available() ? INFER_SAVE_ZSTD : 0;
        if (s->length == 400 && infer_session_truncate(s, 300, NULL, &error) != INFER_OK)
            _exit(3);
        if (i % 8 == 0)
            ckpt_append(m, s, i, 1);
        if (ckpt_try_step(s) != INFER_OK || ckpt_save(s, "k", flags, i % 2 ? "parent" : NULL) != INFER_OK)
            _exit(4);
    }
}

static void test_kill(void **state)
{
    (void)state;
    NEEDS_HASH();
    struct ckpt_model m = ckpt_open("gemma3");
    infer_session *s = ckpt_session(&m, INFER_KV_F16);
    uint64_t seed = 11;
    int left_temps = 0;
    ckpt_append(&m, s, 0, 300);
    ckpt_step(s);
    ok(ckpt_save(s, "parent", 0, NULL));
    for (int i = 0; i < kills || (!left_temps && i < 20 * kills); i++) {
        int status;
        pid_t child = fork(); /* no thread is running: the engine has one */
        if (child == 0)
            save_for_ever(&m, s);
        assert_true(child > 0);
        usleep((useconds_t)(test_rand(&seed) % 40000));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); /* and not an error of its own */
        assert_true(tempdir_count(OUTFILE_PREFIX) <= 1);
        left_temps += tempdir_count(OUTFILE_PREFIX);
        infer_checkpoint *c;
        infer_session *r;
        infer_status st = ckpt_load(&m, "k", INFER_MAP_AUTO, INFER_VERIFY_LOAD, &c);
        if (st == INFER_OK) {
            ok(infer_checkpoint_session(c, &r, &error));
            ckpt_append(&m, r, 0, 1);
            ckpt_step(r);
            infer_session_release(r);
            infer_checkpoint_release(c);
        } else if (st != INFER_ERROR_NOT_FOUND || tempdir_size("k") >= 0) {
            fail_msg("kill %d: %s: %s", i, infer_status_name(st), error.text);
        }
        if (i % 2) {
            ok(ckpt_save(s, "other", 0, NULL)); /* the next save in this folder, by another process, tidies up */
            assert_int_equal(tempdir_count(OUTFILE_PREFIX), 0);
        }
    }
    print_message("# %d kills, %d of them in the middle of a file\n", kills, left_temps);
    if (!left_temps)
        fail_msg("no kill hit a save: nothing was tested");
    assert_true(tempdir_size("k") > 0);
    infer_session_release(s);
    ckpt_close(&m);
}

/* argument: how many kills */
int main(int argc, char **argv)
{
    kills = argc > 1 ? atoi(argv[1]) : kills;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};
    return cmocka_run_group_tests_name("checkpoint_kill", tests, ckpt_setup, ckpt_teardown);
}
