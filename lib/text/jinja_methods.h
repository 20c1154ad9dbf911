/* Tables of methods, found through jx_method. */
#ifndef TEXT_JINJA_METHODS_H
#define TEXT_JINJA_METHODS_H

#include "text/jinja_run.h"

extern const struct jbuiltin jx_str_methods[]; /* jinja_strmeth.c */

#endif
