/* The chat page at "/": three files that lie in the program. Open to everybody, as they hold nothing; what they ask for wants a key. */
#include <string.h>

#include "http.h"

/* Made of page/ by page/embed.py. */
extern const unsigned char page_index_html[], page_page_css[], page_page_js[];
extern const size_t page_index_html_len, page_page_css_len, page_page_js_len;
extern const char page_index_html_etag[], page_page_css_etag[], page_page_js_etag[];

/* Nothing but the page's own files runs, loads or is talked to, and no other site may frame it. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                             "frame-ancestors 'none'";

static void give(struct call *call, const char *type, const unsigned char *data, size_t len, const char *etag)
{
    const char *known = call_header(call, "if-none-match");
    call_header_add(call, "etag", etag);
    call_header_add(call, "cache-control", "no-cache");
    call_header_add(call, "content-security-policy", policy);
    call_header_add(call, "x-content-type-options", "nosniff");
    call_header_add(call, "referrer-policy", "no-referrer");
    if (known && (strstr(known, etag) || !strcmp(known, "*")))
        call_bytes(call, 304, type, "", 0);
    else
        call_bytes(call, 200, type, data, len);
}

static void index_(struct server *server, struct call *call)
{
    (void)server;
    give(call, "text/html; charset=utf-8", page_index_html, page_index_html_len, page_index_html_etag);
}

static void css(struct server *server, struct call *call)
{
    (void)server;
    give(call, "text/css; charset=utf-8", page_page_css, page_page_css_len, page_page_css_etag);
}

static void js(struct server *server, struct call *call)
{
    (void)server;
    give(call, "text/javascript; charset=utf-8", page_page_js, page_page_js_len, page_page_js_etag);
}

const struct route page_routes[] = {
    {"GET", "/", API_NATIVE, ROUTE_OPEN | ROUTE_NO_BODY | ROUTE_QUICK, index_},
    {"GET", "/page.css", API_NATIVE, ROUTE_OPEN | ROUTE_NO_BODY | ROUTE_QUICK, css},
    {"GET", "/page.js", API_NATIVE, ROUTE_OPEN | ROUTE_NO_BODY | ROUTE_QUICK, js},
    {0},
};
