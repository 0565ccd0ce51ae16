/*
 * What shared memory costs through libfabric alone: messages there and back by fi_send and fi_recv, both sides
 * spinning. The limit against which calls over a fabric are measured.
 *
 *   cc -O2 -o ping_pong lab/bench/peers/fabric/ping_pong.c -lfabric
 *   ./ping_pong [provider] [bytes] [server core] [client core] [round trips] [host]
 *
 * The defaults are `shm 64 0 1 200000 127.0.0.1`; a core of -1 leaves the thread where it is, `tcp` is `tcp;ofi_rxm`.
 * Server and client are two processes, and tell each other their addresses over a pair of sockets. The client prints
 * one line of JSON: round trips in nanoseconds, and how many there were in a second.
 */

#define _GNU_SOURCE
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

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define WARM_UP 10000
#define POSTED 16

static void check(const char *doing, long result) {
    if (result < 0) {
        fprintf(stderr, "%s: %s\n", doing, fi_strerror((int)-result));
        exit(1);
    }
}

struct side {
    struct fid_ep *endpoint;
    struct fid_av *addresses;
    struct fid_cq *queue;
    fi_addr_t peer;
    size_t bytes, inject;
    char *message, *buffers[POSTED];
    struct fi_context2 contexts[POSTED + 1];
    int sends;
};

static void open_side(struct side *side, const char *provider, const char *host, size_t bytes) {
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    int is_shm = strcmp(provider, "shm") == 0;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup(strcmp(provider, "tcp") == 0 ? "tcp;ofi_rxm" : provider);
    check("fi_getinfo", fi_getinfo(FI_VERSION(1, 14), is_shm ? NULL : host, NULL, is_shm ? 0 : FI_SOURCE, hints, &info));
    check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    check("fi_domain", fi_domain(fabric, info, &domain, NULL));
    struct fi_cq_attr queue = {.size = 1024, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr addresses = {.type = FI_AV_UNSPEC};
    check("fi_endpoint", fi_endpoint(domain, info, &side->endpoint, NULL));
    check("fi_cq_open", fi_cq_open(domain, &queue, &side->queue, NULL));
    check("fi_av_open", fi_av_open(domain, &addresses, &side->addresses, NULL));
    check("fi_ep_bind", fi_ep_bind(side->endpoint, &side->queue->fid, FI_TRANSMIT | FI_RECV));
    check("fi_ep_bind", fi_ep_bind(side->endpoint, &side->addresses->fid, 0));
    check("fi_enable", fi_enable(side->endpoint));
    side->bytes = bytes;
    side->inject = info->tx_attr->inject_size;
    side->message = calloc(1, bytes);
    for (int index = 0; index < POSTED; index++) {
        side->buffers[index] = calloc(1, bytes);
        check("fi_recv", fi_recv(side->endpoint, side->buffers[index], bytes, NULL, FI_ADDR_UNSPEC,
                                 &side->contexts[index]));
    }
}

static void meet(struct side *side, int socket) {
    char own[256] = {0}, other[256];
    size_t length = sizeof own;
    check("fi_getname", fi_getname(&side->endpoint->fid, own, &length));
    if (write(socket, own, sizeof own) != sizeof own || read(socket, other, sizeof other) != sizeof other) {
        fprintf(stderr, "the other side is gone\n");
        exit(1);
    }
    if (fi_av_insert(side->addresses, other, 1, &side->peer, 0, NULL) != 1) {
        fprintf(stderr, "the address of the other side isn't taken\n");
        exit(1);
    }
}

/* Handles what is complete, and says how many messages came in. */
static int poll_once(struct side *side) {
    struct fi_cq_msg_entry entries[16];
    ssize_t count = fi_cq_read(side->queue, entries, 16);
    int arrived = 0;
    if (count == -FI_EAGAIN)
        return 0;
    check("fi_cq_read", count);
    for (ssize_t index = 0; index < count; index++) {
        if (!(entries[index].flags & FI_RECV)) {
            side->sends--;
            continue;
        }
        struct fi_context2 *context = entries[index].op_context;
        ssize_t which = context - side->contexts;
        check("fi_recv", fi_recv(side->endpoint, side->buffers[which], side->bytes, NULL, FI_ADDR_UNSPEC, context));
        arrived++;
    }
    return arrived;
}

static void say(struct side *side, int *arrived) {
    int is_small = side->bytes <= side->inject;
    for (;;) {
        ssize_t sent = is_small ? fi_inject(side->endpoint, side->message, side->bytes, side->peer)
                                : fi_send(side->endpoint, side->message, side->bytes, NULL, side->peer,
                                          &side->contexts[POSTED]);
        if (sent == 0)
            break;
        if (sent != -FI_EAGAIN)
            check("fi_send", sent);
        *arrived += poll_once(side);
    }
    if (!is_small)
        side->sends++;
    while (side->sends > 0)
        *arrived += poll_once(side);
}

static void hear(struct side *side, int *arrived) {
    while (*arrived == 0)
        *arrived += poll_once(side);
    (*arrived)--;
}

static void pin(int core) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (core < 0)
        return;
    CPU_SET(core, &cores);
    if (sched_setaffinity(0, sizeof cores, &cores) != 0)
        perror("sched_setaffinity");
}

static uint64_t nanos(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int ascending(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **words) {
    const char *provider = count > 1 ? words[1] : "shm", *host = count > 6 ? words[6] : "127.0.0.1";
    size_t bytes = count > 2 ? strtoul(words[2], NULL, 10) : 64;
    int cores[2] = {count > 3 ? atoi(words[3]) : 0, count > 4 ? atoi(words[4]) : 1}, sockets[2], arrived = 0;
    size_t trips = count > 5 ? strtoul(words[5], NULL, 10) : 200000;
    if (bytes == 0 || trips == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
        fprintf(stderr, "usage: ping_pong [provider] [bytes] [server core] [client core] [round trips] [host]\n");
        return 1;
    }
    struct side side = {0};
    pid_t server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(cores[0]);
        open_side(&side, provider, host, bytes);
        meet(&side, sockets[0]);
        for (size_t trip = 0; trip < WARM_UP + trips; trip++) {
            hear(&side, &arrived);
            say(&side, &arrived);
        }
        /* Until the client has heard the last answer, which may need this side's help. */
        for (char bye; recv(sockets[0], &bye, 1, MSG_DONTWAIT) < 0;)
            poll_once(&side);
        fi_close(&side.endpoint->fid);
        return 0;
    }
    pin(cores[1]);
    open_side(&side, provider, host, bytes);
    meet(&side, sockets[1]);
    uint32_t *taken = malloc(trips * sizeof *taken);
    uint64_t begin = 0, last = 0;
    for (size_t trip = 0; trip < WARM_UP + trips; trip++) {
        if (trip == WARM_UP)
            begin = last = nanos();
        say(&side, &arrived);
        hear(&side, &arrived);
        if (trip >= WARM_UP) {
            uint64_t now = nanos();
            taken[trip - WARM_UP] = (uint32_t)(now - last);
            last = now;
        }
    }
    qsort(taken, trips, sizeof *taken, ascending);
    printf("{\"provider\":\"%s\",\"bytes\":%zu,\"trips\":%zu,\"p50\":%u,\"p99\":%u,\"p999\":%u,\"rate\":%.0f}\n", provider,
           bytes, trips, taken[trips / 2], taken[trips * 99 / 100], taken[trips * 999 / 1000],
           (double)trips * 1e9 / (double)(last - begin));
    if (write(sockets[1], "", 1) != 1)
        kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    fi_close(&side.endpoint->fid);
    return 0;
}
