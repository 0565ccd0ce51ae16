/*
 * libfabric for Rust: most of its interface is inline functions over tables of pointers, which only C can call.
 * One port is one endpoint for reliable datagrams with all that belongs to it. Functions return 0 or a count, or one
 * of libfabric's errors, negative. Nothing here keeps state of its own; shim.rs says what callers have to hold to.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

/* As in shim.rs. */
_Static_assert(sizeof(struct fi_cq_msg_entry) == 24, "a completion is a context, flags and a length");
_Static_assert(sizeof(struct fi_context2) == 64, "a context is eight words");

struct greenwave_port {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_cq *queue;
    struct fid_ep *endpoint;
};

struct greenwave_facts {
    uint64_t inject_bytes;
    uint64_t receives;
    uint64_t sends;
    uint64_t message_bytes;
    uint32_t is_registered;
    uint32_t name_bytes;
    char provider[64];
    uint8_t name[256];
};

const char *greenwave_fabric_error(int error) {
    return fi_strerror(error < 0 ? -error : error);
}

/*
 * Signals belong to the program. A library that Debian's libfabric brings along (for PSM adapters) takes over six of them
 * when it is loaded, and ends the process by exit(1) where a server is to drain; it is put out before main begins, so
 * that whoever sets up a handler later finds the default. Shared memory takes four when an endpoint is opened; that is
 * undone by whoever opens it.
 */
static const int SIGNALS[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGABRT};
enum { SIGNAL_COUNT = sizeof SIGNALS / sizeof SIGNALS[0] };

__attribute__((constructor)) static void put_out_foreign_handlers(void) {
    for (int index = 0; index < SIGNAL_COUNT; index++) {
        struct sigaction action;
        Dl_info where;
        if (sigaction(SIGNALS[index], NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
            action.sa_handler == SIG_IGN || dladdr((void *)action.sa_sigaction, &where) == 0)
            continue;
        if (strstr(where.dli_fname, "libinfinipath") != NULL || strstr(where.dli_fname, "libpsm") != NULL)
            signal(SIGNALS[index], SIG_DFL);
    }
}

static void save_handlers(struct sigaction saved[SIGNAL_COUNT]) {
    for (int index = 0; index < SIGNAL_COUNT; index++)
        sigaction(SIGNALS[index], NULL, &saved[index]);
}

/* Only those that are in libfabric now: another thread may have set up one of its own meanwhile. */
static void restore_handlers(const struct sigaction saved[SIGNAL_COUNT]) {
    for (int index = 0; index < SIGNAL_COUNT; index++) {
        struct sigaction now;
        Dl_info where;
        if (sigaction(SIGNALS[index], NULL, &now) != 0 || now.sa_sigaction == saved[index].sa_sigaction)
            continue;
        if (dladdr((void *)now.sa_sigaction, &where) != 0 && strstr(where.dli_fname, "libfabric") != NULL)
            sigaction(SIGNALS[index], &saved[index], NULL);
    }
}

/* What a provider offers for a source: an address of the network, a name (with ://), or NULL for any. */
static int offers(const char *provider, const char *source, struct fi_info **info) {
    struct fi_info *hints = fi_allocinfo();
    if (hints == NULL)
        return -FI_ENOMEM;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->tx_attr->msg_order = FI_ORDER_SAS;
    hints->rx_attr->msg_order = FI_ORDER_SAS;
    if (provider != NULL)
        hints->fabric_attr->prov_name = strdup(provider);
    struct sigaction saved[SIGNAL_COUNT];
    save_handlers(saved);
    int result = fi_getinfo(FI_VERSION(1, 14), source, NULL, source != NULL ? FI_SOURCE : 0, hints, info);
    restore_handlers(saved);
    fi_freeinfo(hints);
    return result;
}

int greenwave_fabric_offers(const char *provider, const char *source) {
    struct fi_info *info = NULL;
    int result = offers(provider, source, &info);
    if (result == 0)
        fi_freeinfo(info);
    return result;
}

void greenwave_port_close(struct greenwave_port *port) {
    if (port->endpoint != NULL)
        fi_close(&port->endpoint->fid);
    if (port->queue != NULL)
        fi_close(&port->queue->fid);
    if (port->addresses != NULL)
        fi_close(&port->addresses->fid);
    if (port->domain != NULL)
        fi_close(&port->domain->fid);
    if (port->fabric != NULL)
        fi_close(&port->fabric->fid);
    if (port->info != NULL)
        fi_freeinfo(port->info);
    free(port);
}

/* Ends what is posted, so that the memory it works on can be given back. */
void greenwave_port_shut(struct greenwave_port *port) {
    if (port->endpoint != NULL && fi_close(&port->endpoint->fid) == 0)
        port->endpoint = NULL;
}

static int set_up(struct greenwave_port *port, size_t completions, struct greenwave_facts *facts, const char **doing) {
    struct fi_info *info = port->info;
    /* No wait object: a queue that sleeps is woken by its peers over sockets, which makes the polls cheaper. */
    struct fi_cq_attr queue = {.size = completions, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr addresses = {.type = info->domain_attr->av_type};
    size_t name_bytes = sizeof facts->name;
    int result;
    *doing = "fi_fabric";
    if ((result = fi_fabric(info->fabric_attr, &port->fabric, NULL)) != 0)
        return result;
    *doing = "fi_domain";
    if ((result = fi_domain(port->fabric, info, &port->domain, NULL)) != 0)
        return result;
    *doing = "fi_av_open";
    if ((result = fi_av_open(port->domain, &addresses, &port->addresses, NULL)) != 0)
        return result;
    *doing = "fi_cq_open";
    if ((result = fi_cq_open(port->domain, &queue, &port->queue, NULL)) != 0)
        return result;
    *doing = "fi_endpoint";
    if ((result = fi_endpoint(port->domain, info, &port->endpoint, NULL)) != 0)
        return result;
    *doing = "fi_ep_bind";
    if ((result = fi_ep_bind(port->endpoint, &port->addresses->fid, 0)) != 0)
        return result;
    if ((result = fi_ep_bind(port->endpoint, &port->queue->fid, FI_TRANSMIT | FI_RECV)) != 0)
        return result;
    *doing = "fi_enable";
    if ((result = fi_enable(port->endpoint)) != 0)
        return result;
    *doing = "fi_getname";
    if ((result = fi_getname(&port->endpoint->fid, facts->name, &name_bytes)) != 0)
        return result;
    if (name_bytes > sizeof facts->name)
        return -FI_ETOOSMALL;
    facts->name_bytes = (uint32_t)name_bytes;
    facts->inject_bytes = info->tx_attr->inject_size;
    facts->receives = info->rx_attr->size;
    facts->sends = info->tx_attr->size;
    facts->message_bytes = info->ep_attr->max_msg_size;
    facts->is_registered = (info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    strncpy(facts->provider, info->fabric_attr->prov_name, sizeof facts->provider - 1);
    return 0;
}

int greenwave_port_open(const char *provider, const char *source, size_t receives, struct greenwave_port **out,
                        struct greenwave_facts *facts, const char **doing) {
    struct greenwave_port *port = calloc(1, sizeof *port);
    int result;
    *doing = "fi_getinfo";
    if (port == NULL)
        return -FI_ENOMEM;
    if ((result = offers(provider, source, &port->info)) == 0) {
        size_t most = port->info->rx_attr->size;
        size_t completions = (receives < most ? receives : most) + port->info->tx_attr->size;
        struct sigaction saved[SIGNAL_COUNT];
        save_handlers(saved);
        result = set_up(port, completions, facts, doing);
        restore_handlers(saved);
    }
    if (result != 0) {
        greenwave_port_close(port);
        return result;
    }
    *out = port;
    return 0;
}

int greenwave_port_register(struct greenwave_port *port, void *memory, size_t bytes, uint64_t key, struct fid_mr **out,
                            void **descriptor) {
    int result = fi_mr_reg(port->domain, memory, bytes, FI_SEND | FI_RECV, 0, key, 0, out, NULL);
    if (result == 0)
        *descriptor = fi_mr_desc(*out);
    return result;
}

void greenwave_memory_close(struct fid_mr *memory) {
    fi_close(&memory->fid);
}

int greenwave_port_insert(struct greenwave_port *port, const void *name, uint64_t *peer) {
    int count = fi_av_insert(port->addresses, name, 1, peer, 0, NULL);
    return count == 1 ? 0 : count < 0 ? count : -FI_EADDRNOTAVAIL;
}

int greenwave_port_remove(struct greenwave_port *port, uint64_t peer) {
    return fi_av_remove(port->addresses, &peer, 1, 0);
}

ssize_t greenwave_port_read(struct greenwave_port *port, struct fi_cq_msg_entry *entries, size_t count) {
    return fi_cq_read(port->queue, entries, count);
}

/* The completion at the front that failed: its context, and its error, positive. */
ssize_t greenwave_port_read_error(struct greenwave_port *port, void **context, int *error) {
    struct fi_cq_err_entry entry = {0};
    ssize_t count = fi_cq_readerr(port->queue, &entry, 0);
    *context = entry.op_context;
    *error = entry.err;
    return count;
}

ssize_t greenwave_port_receive(struct greenwave_port *port, void *buffer, size_t bytes, void *descriptor,
                               void *context) {
    return fi_recv(port->endpoint, buffer, bytes, descriptor, FI_ADDR_UNSPEC, context);
}

ssize_t greenwave_port_send(struct greenwave_port *port, const void *buffer, size_t bytes, void *descriptor,
                            uint64_t peer, void *context) {
    return fi_send(port->endpoint, buffer, bytes, descriptor, peer, context);
}

ssize_t greenwave_port_inject(struct greenwave_port *port, const void *buffer, size_t bytes, uint64_t peer) {
    return fi_inject(port->endpoint, buffer, bytes, peer);
}
