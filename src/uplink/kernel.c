/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink/kernel.h"

#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

#define ANSWER_BYTES 32768u
#define ANSWERS_MOST 4096u /* datagrams of one dump */

/* ---- asking ---- */

typedef void on_answer(const struct nlmsghdr *message, void *arg);

int weir_kernel_open(weir_kernel *ret_kernel)
{
	struct timeval second = {.tv_sec = 1};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return weir_error_set(-errno, "this system does not show its links (rtnetlink): %s",
				      strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	*ret_kernel = (weir_kernel){.fd = fd};
	return 0;
}

void weir_kernel_close(weir_kernel *kernel)
{
	if (kernel->fd >= 0)
		close(kernel->fd);
	kernel->fd = -1;
}

/* One datagram from the kernel itself; others may send to this socket too. */
static ssize_t receive(weir_kernel *kernel, char *bytes, size_t size)
{
	for (;;) {
		struct sockaddr_nl from = {0};
		socklen_t length = sizeof(from);
		ssize_t got = recvfrom(kernel->fd, bytes, size, 0, (struct sockaddr *)&from, &length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		if (from.nl_pid == 0)
			return got;
	}
}

/* Answers in a datagram. Returns 1: it goes on; 0 or a negative errno: that was the end. */
static int take(const weir_kernel *kernel, char *bytes, ssize_t left, on_answer *fn, void *arg)
{
	for (struct nlmsghdr *m = (void *)bytes; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
		if (m->nlmsg_seq != kernel->sequence)
			continue; /* the answer to a question that was given up */
		if (m->nlmsg_type == NLMSG_DONE)
			return 0;
		if (m->nlmsg_type == NLMSG_ERROR)
			return m->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr))
				       ? -EPROTO
				       : ((const struct nlmsgerr *)NLMSG_DATA(m))->error;
		if (fn != NULL)
			fn(m, arg);
	}
	return 1;
}

static int ask(weir_kernel *kernel, weir_message *message, on_answer *fn, void *arg)
{
	_Alignas(struct nlmsghdr) char bytes[ANSWER_BYTES];
	const struct sockaddr_nl to = {.nl_family = AF_NETLINK};
	int status = 1;
	if (message->failed)
		return -EMSGSIZE;
	message->head.nlmsg_seq = ++kernel->sequence;
	if (sendto(kernel->fd, message->bytes, message->head.nlmsg_len, 0, (const struct sockaddr *)&to,
		   sizeof(to)) < 0)
		return -errno;
	for (unsigned i = 0; i < ANSWERS_MOST && status == 1; i++) {
		ssize_t got = receive(kernel, bytes, sizeof(bytes));
		status = got < 0 ? (int)got : take(kernel, bytes, got, fn, arg);
	}
	return status == 1 ? -EPROTO : status;
}

int weir_kernel_send(weir_kernel *kernel, weir_message *message)
{
	return ask(kernel, message, NULL, NULL);
}

/* ---- links ---- */

bool weir_kernel_read_link(const struct nlmsghdr *message, weir_kernel_link *ret_link)
{
	struct ifinfomsg about;
	weir_kernel_link link = {0};
	if (message->nlmsg_type != RTM_NEWLINK || message->nlmsg_len < NLMSG_LENGTH(sizeof(about)))
		return false;
	memcpy(&about, NLMSG_DATA(message), sizeof(about));
	weir_attributes list = weir_attributes_of(message, sizeof(about));
	link.index = about.ifi_index;
	link.loopback = (about.ifi_flags & IFF_LOOPBACK) != 0;
	if (link.index <= 0 || !weir_attribute_text(list, IFLA_IFNAME, link.name, sizeof(link.name)) ||
	    !weir_attribute_read(list, IFLA_MTU, &link.mtu, sizeof(link.mtu)))
		return false;
	weir_attribute_read(list, IFLA_GSO_MAX_SIZE, &link.gso.size, sizeof(link.gso.size));
	weir_attribute_read(list, IFLA_GSO_MAX_SEGS, &link.gso.count, sizeof(link.gso.count));
	weir_attribute_read(list, WEIR_LINK_GSO_IPV4_SIZE, &link.gso.ipv4_size, sizeof(link.gso.ipv4_size));
	weir_attribute_read(list, IFLA_TSO_MAX_SIZE, &link.tso_size, sizeof(link.tso_size));
	weir_attribute_read(list, IFLA_TSO_MAX_SEGS, &link.tso_count, sizeof(link.tso_count));
	*ret_link = link;
	return true;
}

typedef struct link_search {
	const char *name;
	weir_kernel_link *found;
	bool any;
} link_search;

static void take_link(const struct nlmsghdr *message, void *arg)
{
	link_search *search = arg;
	weir_kernel_link link;
	if (!weir_kernel_read_link(message, &link) || strcmp(link.name, search->name) != 0)
		return;
	*search->found = link;
	search->any = true;
}

int weir_kernel_find_link(weir_kernel *kernel, const char *name, weir_kernel_link *ret_link)
{
	weir_message message;
	char quoted[48];
	link_search search = {name, ret_link, false};
	size_t length = strnlen(name, IF_NAMESIZE);
	int error = -ENODEV;
	if (length > 0 && length < IF_NAMESIZE) {
		weir_message_begin_link(&message, RTM_GETLINK, 0, 0);
		weir_message_put_text(&message, IFLA_IFNAME, name);
		error = ask(kernel, &message, take_link, &search);
	}
	if (search.any)
		return 0;
	if (error != 0 && error != -ENODEV && error != -EINVAL)
		return weir_error_set(error, "asking for links: %s", strerror(-error));
	return weir_error_set(-ENODEV, "there is no device '%s'; 'ip link' lists them",
			      weir_text_quote(quoted, sizeof(quoted), name));
}

/* ---- qdiscs ---- */

static void read_counters(weir_attributes list, weir_kernel_qdisc *qdisc)
{
	weir_attributes stats;
	struct gnet_stats_basic basic = {0};
	struct gnet_stats_queue queue = {0};
	if (!weir_attribute(list, TCA_STATS2, &stats))
		return;
	/* Its bytes end before the padding of the struct. */
	if (weir_attribute_read(stats, TCA_STATS_BASIC, &basic,
				offsetof(struct gnet_stats_basic, packets) + sizeof(basic.packets))) {
		qdisc->bytes = basic.bytes;
		qdisc->packets = basic.packets;
	}
	weir_attribute_read(stats, TCA_STATS_PKT64, &qdisc->packets, sizeof(qdisc->packets));
	if (weir_attribute_read(stats, TCA_STATS_QUEUE, &queue, sizeof(queue))) {
		qdisc->dropped = queue.drops;
		qdisc->waiting = queue.qlen;
	}
}

bool weir_kernel_read_qdisc(const struct nlmsghdr *message, weir_kernel_qdisc *ret_qdisc)
{
	struct tcmsg about;
	weir_kernel_qdisc qdisc = {0};
	if (message->nlmsg_type != RTM_NEWQDISC || message->nlmsg_len < NLMSG_LENGTH(sizeof(about)))
		return false;
	memcpy(&about, NLMSG_DATA(message), sizeof(about));
	weir_attributes list = weir_attributes_of(message, sizeof(about));
	if (about.tcm_ifindex <= 0 || !weir_attribute_text(list, TCA_KIND, qdisc.kind, sizeof(qdisc.kind)))
		return false;
	qdisc.index = about.tcm_ifindex;
	qdisc.handle = about.tcm_handle;
	qdisc.parent = about.tcm_parent;
	read_counters(list, &qdisc);
	*ret_qdisc = qdisc;
	return true;
}

typedef struct qdisc_search {
	int index;
	weir_kernel_qdiscs *found;
} qdisc_search;

/* A device with many queues has a qdisc for each: only roots and what may be ours is kept. */
static bool matters(const weir_kernel_qdisc *qdisc, int index)
{
	uint32_t major = qdisc->handle >> 16;
	if (index == 0)
		return qdisc->parent == TC_H_ROOT && qdisc->handle == WEIR_UPLINK_HANDLE;
	if (index != qdisc->index)
		return false;
	return qdisc->parent == TC_H_ROOT || major == WEIR_UPLINK_PRIO >> 16 ||
	       (major >= WEIR_UPLINK_OTHER >> 16 &&
		major < (WEIR_UPLINK_QUEUE >> 16) + (uint32_t)WEIR_BANDS_MOST);
}

static void take_qdisc(const struct nlmsghdr *message, void *arg)
{
	qdisc_search *search = arg;
	weir_kernel_qdiscs *found = search->found;
	weir_kernel_qdisc qdisc;
	if (!weir_kernel_read_qdisc(message, &qdisc) || !matters(&qdisc, search->index) ||
	    found->count == WEIR_KERNEL_QDISCS)
		return;
	found->qdisc[found->count++] = qdisc;
}

int weir_kernel_find_qdiscs(weir_kernel *kernel, int index, weir_kernel_qdiscs *ret_qdiscs)
{
	weir_message message;
	qdisc_search search = {index, ret_qdiscs};
	const struct tcmsg about = {.tcm_ifindex = index};
	ret_qdiscs->count = 0;
	weir_message_begin_tc(&message, RTM_GETQDISC, NLM_F_DUMP, &about);
	int error = ask(kernel, &message, take_qdisc, &search);
	return error == 0 ? 0
			  : weir_error_set(error, "asking for queueing disciplines: %s", strerror(-error));
}

/* ---- the rate ---- */

bool weir_kernel_read_rate(const struct nlmsghdr *message, uint64_t *ret_bytes_per_s)
{
	struct tcmsg about;
	struct tc_htb_opt opt;
	weir_attributes options;
	uint64_t rate;
	if (message->nlmsg_type != RTM_NEWTCLASS || message->nlmsg_len < NLMSG_LENGTH(sizeof(about)))
		return false;
	memcpy(&about, NLMSG_DATA(message), sizeof(about));
	if (about.tcm_handle != WEIR_UPLINK_CLASS_LINK ||
	    !weir_attribute(weir_attributes_of(message, sizeof(about)), TCA_OPTIONS, &options) ||
	    !weir_attribute_read(options, TCA_HTB_PARMS, &opt, sizeof(opt)))
		return false;
	rate = opt.rate.rate;
	weir_attribute_read(options, TCA_HTB_RATE64, &rate, sizeof(rate));
	*ret_bytes_per_s = rate;
	return true;
}

static void take_rate(const struct nlmsghdr *message, void *arg)
{
	weir_kernel_read_rate(message, arg);
}

int weir_kernel_find_rate(weir_kernel *kernel, int index, uint64_t *ret_bytes_per_s)
{
	weir_message message;
	uint64_t rate = 0;
	const struct tcmsg about = {.tcm_ifindex = index};
	weir_message_begin_tc(&message, RTM_GETTCLASS, NLM_F_DUMP, &about);
	int error = ask(kernel, &message, take_rate, &rate);
	if (error != 0)
		return weir_error_set(error, "asking for classes: %s", strerror(-error));
	*ret_bytes_per_s = rate;
	return 0;
}

/* ---- the filter ---- */

static void take_filter(const struct nlmsghdr *message, void *arg)
{
	if (message->nlmsg_type == RTM_NEWTFILTER)
		*(bool *)arg = true;
}

int weir_kernel_find_filter(weir_kernel *kernel, int index, bool *ret_there)
{
	weir_message message;
	bool there = false;
	const struct tcmsg about = {.tcm_ifindex = index, .tcm_parent = WEIR_UPLINK_HANDLE};
	weir_message_begin_tc(&message, RTM_GETTFILTER, NLM_F_DUMP, &about);
	int error = ask(kernel, &message, take_filter, &there);
	if (error != 0)
		return weir_error_set(error, "asking for filters: %s", strerror(-error));
	*ret_there = there;
	return 0;
}

int weir_kernel_load_program(const weir_uplink_plan *plan)
{
	struct bpf_insn code[WEIR_UPLINK_PROGRAM];
	union bpf_attr load;
	memset(&load, 0, sizeof(load));
	load.prog_type = BPF_PROG_TYPE_SCHED_CLS;
	load.insn_cnt = weir_uplink_program(plan, code);
	load.insns = (uint64_t)(uintptr_t)code;
	load.license = (uint64_t)(uintptr_t) "Apache-2.0";
	memcpy(load.prog_name, "weir_uplink", sizeof("weir_uplink"));
	long fd = syscall(SYS_bpf, BPF_PROG_LOAD, &load, sizeof(load));
	return fd >= 0 ? (int)fd : -errno;
}
