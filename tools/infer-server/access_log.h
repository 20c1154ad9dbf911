/* The access log: lines that a thread of its own writes, so that nobody waits for a slow disk or pipe. */
#ifndef SERVER_ACCESS_LOG_H
#define SERVER_ACCESS_LOG_H

#include <stdbool.h>
#include <stddef.h>

struct access_log;
/* path "-": standard error. NULL after a message on standard error. */
struct access_log *access_log_open(const char *path);
bool access_log_start(struct access_log *log); /* its thread, in the process that will write */
/* One line, with its newline. When the writer is far behind, lines are dropped, and a line tells how many. */
void access_log_put(struct access_log *log, const char *line, size_t len);
void access_log_close(struct access_log *log); /* writes what is left */

#endif
