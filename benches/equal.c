/* A round trip, as short as it can be written: two processes, a connected UDP socket each. Shares no code with hairpin.
 *
 *     equal spin|block|block-100ms CPU_OF_CLIENT CPU_OF_SERVER MILLISECONDS BYTES [NAMESPACE_OF_CLIENT NAMESPACE_OF_SERVER]
 *
 * Over loopback, or between two named network namespaces, at 198.18.0.1 and 198.18.0.2 (benches/peers/veth.rs). With `block-100ms` a receive call waits for
 * at most 100 ms (SO_RCVTIMEO), as hairpin's does.
 * Prints the median RTT in ns, send call entered to receive call returned, and the number of round trips. The first tenth warms up.
 */
#include "plain.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 65507, MOST = 4000000 };

static char bytes[LONGEST];

static ssize_t receive(int fd, int flags) {
    ssize_t n;
    do n = recv(fd, bytes, sizeof bytes, flags); while (n < 0 && flags);
    return n;
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 8) return fprintf(stderr, "equal spin|block|block-100ms CPU CPU MILLISECONDS BYTES [NAMESPACE NAMESPACE]\n"), 2;
    int flags = strcmp(argv[1], "spin") ? 0 : MSG_DONTWAIT;
    struct timeval most = { .tv_usec = strcmp(argv[1], "block-100ms") ? 0 : 100000 };
    size_t size = (size_t)atol(argv[5]);
    int64_t length = atol(argv[4]) * 1000000;
    int fds[2];
    struct sockaddr_in at[2];
    for (int i = 0; i < 2; i++) {
        socklen_t len = sizeof at[i];
        memset(&at[i], 0, sizeof at[i]);
        at[i].sin_family = AF_INET;
        at[i].sin_addr.s_addr = argc == 8 ? inet_addr(i ? "198.18.0.2" : "198.18.0.1") : htonl(INADDR_LOOPBACK);
        if (argc == 8) enter(argv[6 + i]);
        fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&at[i], sizeof at[i])) die("bind");
        if (setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most)) die("SO_RCVTIMEO");
        if (getsockname(fds[i], (struct sockaddr *)&at[i], &len)) die("getsockname");
    }
    for (int i = 0; i < 2; i++)
        if (connect(fds[i], (struct sockaddr *)&at[1 - i], sizeof at[i])) die("connect");
    uint32_t *took = malloc(MOST * sizeof *took);
    if (!took || size < 1 || size > LONGEST) die("arguments");
    memset(took, 0, MOST * sizeof *took);
    pid_t server = fork();
    if (server < 0) die("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(atoi(argv[3]));
        for (;;) {
            ssize_t n = receive(fds[1], flags);
            if (n > 0) send(fds[1], bytes, (size_t)n, 0);
        }
    }
    pin(atoi(argv[2]));
    size_t count = 0;
    int64_t began = now(), counts_from = began + length / 10, until = began + length;
    for (int64_t sent = began; sent < until && count < MOST;) {
        sent = now();
        if (send(fds[0], bytes, size, 0) < 0 || receive(fds[0], flags) != (ssize_t)size) die("round trip");
        int64_t received = now();
        if (sent >= counts_from) took[count++] = (uint32_t)(received - sent);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    qsort(took, count, sizeof *took, ascending);
    printf("%u %zu\n", count ? took[count / 2] : 0, count);
    return count == 0;
}
