/* The manifest: what the library can do to its host and the machine, as a text. One object is both the ELF note and what the function
 * returns. tests/abi/test_capabilities.py compares it with the header and the library's imports. */
#include "api/api.h"

#define MANIFEST                                                                                                                        \
    "library: libinfer " INFER_VERSION_STRING "\n"                                                                                      \
    "network: none\n"                                                                                                                   \
    "processes: none\n"                                                                                                                 \
    "environment: none\n"                                                                                                               \
    "clock: none\n"                                                                                                                     \
    "locale: none\n"                                                                                                                    \
    "signals: none\n"                                                                                                                   \
    "output: none\n"                                                                                                                    \
    "exit: none\n"                                                                                                                      \
    "code: none\n"                                                                                                                      \
    "threads: infer_engine_options.threads\n"                                                                                           \
    "reads: infer_source_path infer_source_descriptor infer_model_open_path infer_model_estimate infer_adapter_open_path infer_checkpoint_open "             \
    "infer_checkpoint_clone_file infer_checkpoint_save infer_store_open infer_store_get infer_store_get_info infer_store_next\n"        \
    "reads-system: /proc/self/cgroup /sys/devices/system/cpu /sys/fs/cgroup\n"                                                          \
    "writes: infer_checkpoint_save infer_checkpoint_clone_file infer_store_open infer_store_put infer_store_branch infer_store_rename " \
    "infer_store_delete infer_engine_cache_flush\n"                                                                                     \
    "writes-folders: infer_engine_options.cache_dir infer_scheduler_options.spill_path\n"

/* An ELF note is three words, the owner and the descriptor, here the text; both with their terminating zeros, and padded to whole words. */
struct note {
    uint32_t owner_bytes, text_bytes, type;
    char owner[(sizeof "libinfer" + 3) / 4 * 4];
    char text[(sizeof MANIFEST + 3) / 4 * 4];
};

#ifdef __ELF__
__attribute__((section(".note.libinfer"), used, aligned(4)))
#endif
static const struct note manifest = {sizeof "libinfer", sizeof MANIFEST, 1, "libinfer", MANIFEST};

const char *infer_capabilities(void)
{
    return manifest.text;
}
