/* The thread that computes. */
#ifndef SERVER_LOOP_H
#define SERVER_LOOP_H

#include "server.h"

struct loop;
struct loop *loop_start(infer_scheduler *scheduler);
void loop_stop(struct loop *loop); /* after the present step; joins */

#endif
