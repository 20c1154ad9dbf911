/* Opens arbitrary bytes as a PyTorch file and looks at everything that opened. */
#include "fuzz/fuzz.h"
#include "fuzz/look_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct infer_file *f;
    infer_error err;
    infer_source s = {.size = (uint32_t)sizeof s, .kind = INFER_SOURCE_MEMORY, .data = data, .length = size};
    if (file_open(&env_default, &s, INFER_MAP_AUTO, NULL, &f, &err) != INFER_OK)
        return 0;
    look_at_file(f);
    file_release(f);
    return 0;
}
