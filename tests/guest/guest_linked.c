#include "guest.h"

const struct guest_api guest_linked = {
#define X(name) .name = infer_##name,
    GUEST_API(X)
#undef X
};
