/* For tests of the public interface, which pass &error to every call. */
#ifndef OK_H
#define OK_H

#include "infer/infer.h"
#include "testutil.h"

static infer_error error;

static void ok(infer_status st)
{
    if (st != INFER_OK)
        fail_msg("%s: %s (%s)", infer_status_name(st), error.text, error.name);
}

#endif
