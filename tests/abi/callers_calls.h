/* For test_callers.c: one call for each public struct that has a size, which is given the struct as a host that may be older or newer would give it. */
#ifndef CALLERS_CALLS_H
#define CALLERS_CALLS_H

#include <stdint.h>

#include "infer/scheduler.h"

enum {
    CALLER_OPTIONS = 1, /* the library reads it */
    CALLER_OUTPUT = 2,  /* the library writes it */
    CALLER_VARIES = 4   /* two calls need not write the same */
};

struct caller {
    const char *type; /* as in API_STRUCTS */
    uint32_t size, min, reserved;
    int kind;
    uint32_t pointer; /* offset of a pointer that is another one in each call, to be left out when outputs are compared; 0: none */
    void (*fill)(void *x); /* what the call needs, into a full struct of zeros; NULL: nothing */
    infer_status (*call)(void *x, infer_error *err);
};

extern const struct caller callers[];
extern const uint32_t n_callers;

/* What the calls work on. */
void callers_open(void);
void callers_close(void);
infer_model *callers_model(void);
infer_adapter *callers_adapter(void);
infer_session *callers_session(void); /* with three elements and logits; another one for each call of this, to be released */

#endif
