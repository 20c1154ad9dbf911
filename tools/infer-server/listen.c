/* The listening socket: our own, so that its errors, its permissions and its end are in our hands. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "http_core.h"

#define EXIT_USAGE 2
#define EXIT_LISTEN 4
#define BACKLOG 1024
#define SEND_ROOM (256 << 10) /* bytes that the kernel keeps for a client: left to itself it takes megabytes before a slow one is seen to be slow */

static int fail(const char *where, const char *what)
{
    fprintf(stderr, "infer-server: cannot listen on %s: %s\n", where, what);
    return EXIT_LISTEN;
}

/* ---- TCP ---- */

/* With the port that the system has chosen. */
static void name_address(struct http *http, int fd)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    char host[64] = "", port[16] = "";
    if (getsockname(fd, (struct sockaddr *)&a, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&a, len, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a;
    http->local = a.ss_family == AF_INET ? ntohl(v4->sin_addr.s_addr) >> 24 == 127 : a.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
    snprintf(http->address, sizeof http->address, a.ss_family == AF_INET6 ? "%s://[%s]:%s" : "%s://%s:%s", http->options->tls_cert ? "https" : "http",
             host, port);
}

static int listen_tcp(struct http *http)
{
    const struct options *o = http->options;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    char port[16], where[300];
    int one = 1;
    snprintf(port, sizeof port, "%u", o->port);
    snprintf(where, sizeof where, "%s port %u", o->host, o->port);
    int code = getaddrinfo(o->host, port, &hints, &list);
    if (code)
        return fail(where, gai_strerror(code));
    int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        code = fail(where, errno == EADDRINUSE ? "another program listens there" : strerror(errno));
        if (fd >= 0)
            close(fd);
    } else {
        http->listener = fd;
        name_address(http, fd);
    }
    freeaddrinfo(list);
    return code;
}

/* ---- Unix ---- */

/* A socket that a process left behind when it died refuses connections. */
static bool stale(const struct sockaddr_un *a)
{
    struct stat st;
    if (lstat(a->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)a, sizeof *a) != 0 && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused;
}

static int listen_unix(struct http *http)
{
    const char *path = http->options->unix_path;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof a.sun_path) {
        fprintf(stderr, "infer-server: --unix: the path is longer than %zu bytes\n", sizeof a.sun_path - 1);
        return EXIT_USAGE;
    }
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail(path, strerror(errno));
    mode_t mask = umask(0177); /* from its first moment on the socket is this user's alone */
    int bound = bind(fd, (struct sockaddr *)&a, sizeof a);
    if (bound != 0 && errno == EADDRINUSE && stale(&a) && unlink(path) == 0)
        bound = bind(fd, (struct sockaddr *)&a, sizeof a);
    int why = errno;
    umask(mask);
    if (bound != 0 || listen(fd, BACKLOG) != 0) {
        close(fd);
        return fail(path, bound == 0 ? strerror(errno) : why == EADDRINUSE ? "another program listens there, or the file is no socket" : strerror(why));
    }
    http->listener = fd;
    snprintf(http->address, sizeof http->address, "unix:%s", path);
    return 0;
}

int listen_open(struct http *http)
{
    http->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return http->options->unix_path ? listen_unix(http) : listen_tcp(http);
}

/* ---- Under the event loop ---- */

void listen_start(struct http *http)
{
    lws_sock_file_fd_type d;
    d.filefd = http->listener;
    http->listener_wsi = lws_adopt_descriptor_vhost(http->vhost, LWS_ADOPT_RAW_FILE_DESC, d, "listen", NULL);
    if (!http->listener_wsi)
        http->listener = -1;
}

void listen_stop(struct http *http)
{
    if (http->listener < 0)
        return;
    if (http->options->unix_path)
        unlink(http->options->unix_path);
    if (http->listener_wsi)
        lws_set_timeout(http->listener_wsi, PENDING_TIMEOUT_CLOSE_SEND, LWS_TO_KILL_ASYNC);
    else
        close(http->listener);
    http->listener = -1;
    http->listener_wsi = NULL;
    if (http->spare >= 0)
        close(http->spare);
    http->spare = -1;
}

static uint64_t hash(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u; /* FNV-1a */
    return h;
}

/* Who has connected: text for the log, and a number that is equal for equal addresses (of IPv6: /64 networks, which one customer has). */
static uint64_t name_peer(int fd, const struct sockaddr_storage *a, char *out, size_t room)
{
    uint64_t h = 14695981039346656037u;
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;
        inet_ntop(AF_INET, &in->sin_addr, out, (socklen_t)room);
        h = hash(h, &in->sin_addr, sizeof in->sin_addr);
    } else if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)a;
        inet_ntop(AF_INET6, &in->sin6_addr, out, (socklen_t)room);
        h = hash(h, &in->sin6_addr, IN6_IS_ADDR_V4MAPPED(&in->sin6_addr) ? 16 : 8);
    } else {
        struct ucred who = {0};
        socklen_t len = sizeof who;
        (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len);
        snprintf(out, room, "uid:%u", who.uid);
        h = hash(h, &who.uid, sizeof who.uid);
    }
    return h | 1; /* never 0 */
}

void listen_refuse(struct http *http, int fd)
{
    static const char full[] = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    if (!http->options->tls_cert)
        (void)!send(fd, full, sizeof full - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

/* No descriptors are left: the one in reserve lets the client be turned away, where it would wait for ever and keep the loop turning. */
static void turn_away(struct http *http)
{
    if (http->spare < 0)
        return;
    close(http->spare);
    int fd = accept4(http->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    http->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int listen_take(struct http *http, struct peer *peer)
{
    struct sockaddr_storage a = {0};
    socklen_t len = sizeof a;
    int one = 1, room = SEND_ROOM, fd = accept4(http->listener, (struct sockaddr *)&a, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE)
            turn_away(http);
        return -1;
    }
    memset(peer, 0, sizeof *peer);
    peer->address = name_peer(fd, &a, peer->name, sizeof peer->name);
    if (a.ss_family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    }
    return fd;
}

void listen_accept(struct http *http)
{
    for (int i = 0; i < 64 && http->listener >= 0; i++) {
        struct peer peer;
        int fd = listen_take(http, &peer);
        if (fd < 0)
            return;
        if (http->n_conns >= http->options->max_conns)
            listen_refuse(http, fd);
        else
            conn_open(http, fd, &peer);
    }
}
