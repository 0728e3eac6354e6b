/* SPDX-License-Identifier: Apache-2.0 */
#include "nucleus/diag.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"

/* The states of linux/tcp_states.h, which programs cannot include. */
#define STATE_ESTABLISHED 1u
#define STATE_CLOSE_WAIT  8u
#define STATE_LISTEN      10u
#define BIT(state)        (1u << (state))

#define ANSWER_BYTES 32768u
#define HEARD_BYTES  (1 << 20)
#define PORTS_MOST   8u

/* ---- netlink ---- */

typedef void on_message(const struct nlmsghdr *message, void *arg);

/* Reads answers up to the end of a dump, or the answer to a request for one socket. */
static int read_answers(weir_diag *diag, bool dump, on_message *fn, void *arg)
{
	_Alignas(struct nlmsghdr) char bytes[ANSWER_BYTES];
	for (;;) {
		ssize_t got = recv(diag->ask, bytes, sizeof(bytes), 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return weir_error_set(-errno, "sock_diag: %s", strerror(errno));
		ssize_t left = got;
		for (struct nlmsghdr *m = (void *)bytes; NLMSG_OK(m, left); m = NLMSG_NEXT(m, left)) {
			if (m->nlmsg_seq != diag->sequence)
				continue; /* of a request that was given up */
			if (m->nlmsg_type == NLMSG_DONE)
				return 0;
			if (m->nlmsg_type == NLMSG_ERROR) {
				int error = ((const struct nlmsgerr *)NLMSG_DATA(m))->error;
				return error == 0 || error == -ENOENT
					       ? error
					       : weir_error_set(error, "sock_diag: %s", strerror(-error));
			}
			fn(m, arg);
			if (!dump)
				return 0;
		}
	}
}

static int ask(weir_diag *diag, struct nlmsghdr *request, bool dump, on_message *fn, void *arg)
{
	request->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	request->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | (dump ? NLM_F_DUMP : 0));
	request->nlmsg_seq = ++diag->sequence;
	if (send(diag->ask, request, request->nlmsg_len, 0) < 0)
		return weir_error_set(-errno, "sock_diag: %s", strerror(errno));
	return read_answers(diag, dump, fn, arg);
}

int weir_diag_open(weir_diag *ret_diag)
{
	struct timeval second = {.tv_sec = 1};
	*ret_diag = (weir_diag){.ask = -1, .hear = -1};
	ret_diag->ask = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (ret_diag->ask < 0)
		return weir_error_set(-errno, "this system does not show its sockets (sock_diag): %s",
				      strerror(errno));
	setsockopt(ret_diag->ask, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	return 0;
}

void weir_diag_close(weir_diag *diag)
{
	if (diag->ask >= 0)
		close(diag->ask);
	if (diag->hear >= 0)
		close(diag->hear);
	*diag = (weir_diag){.ask = -1, .hear = -1};
}

/* ---- TCP ---- */

typedef struct inet_request {
	struct nlmsghdr head;
	struct inet_diag_req_v2 body;
} inet_request;

static inet_request tcp_request(const weir_diag_place *place, int family, uint32_t states)
{
	inet_request request = {.head = {.nlmsg_len = sizeof(request)},
				.body = {.sdiag_family = (uint8_t)family,
					 .sdiag_protocol = IPPROTO_TCP,
					 .idiag_states = states,
					 .id = {.idiag_sport = htons(place->port)}}};
	return request;
}

static struct in6_addr address_of(const struct inet_diag_msg *message)
{
	struct in6_addr address = {0};
	if (message->idiag_family == AF_INET6) {
		memcpy(&address, message->id.idiag_src, sizeof(address));
		return address;
	}
	address.s6_addr[10] = address.s6_addr[11] = 0xff;
	memcpy(&address.s6_addr[12], message->id.idiag_src, 4);
	return address;
}

/* Whether a socket that is bound to this address serves the place, or one of its connections has it. */
static bool is_at(const weir_diag_place *place, const struct inet_diag_msg *message)
{
	static const struct in6_addr unbound = {0};
	struct in6_addr own = address_of(message);
	bool wild = memcmp(&own, &unbound, sizeof(own)) == 0 ||
		    (IN6_IS_ADDR_V4MAPPED(&own) && memcmp(&own.s6_addr[12], &unbound, 4) == 0);
	return ntohs(message->id.idiag_sport) == place->port &&
	       (place->any || wild || memcmp(&own, &place->address, sizeof(own)) == 0);
}

typedef struct finding {
	weir_diag_place *place;
	weir_diag_listeners *listeners;
} finding;

static void add_listener(weir_diag_listeners *listeners, uint32_t inode, uint32_t backlog, uint32_t most)
{
	if (listeners->count < WEIR_DIAG_LISTENERS)
		listeners->inode[listeners->count] = inode;
	else
		return;
	listeners->count++;
	listeners->backlog += backlog;
	listeners->most += most;
}

static void take_listener(const struct nlmsghdr *m, void *arg)
{
	const struct inet_diag_msg *message = NLMSG_DATA(m);
	finding *f = arg;
	if (m->nlmsg_len < NLMSG_LENGTH(sizeof(*message)) || message->idiag_state != STATE_LISTEN ||
	    !is_at(f->place, message))
		return;
	f->place->ipv4 |= message->idiag_family == AF_INET;
	f->place->ipv6 |= message->idiag_family == AF_INET6;
	add_listener(f->listeners, message->idiag_inode, message->idiag_rqueue, message->idiag_wqueue);
}

static int find_tcp(weir_diag *diag, weir_diag_place *place, weir_diag_listeners *listeners)
{
	finding f = {place, listeners};
	inet_request request = tcp_request(place, AF_INET, BIT(STATE_LISTEN));
	int error = ask(diag, &request.head, true, take_listener, &f);
	if (error != 0)
		return error;
	request = tcp_request(place, AF_INET6, BIT(STATE_LISTEN));
	error = ask(diag, &request.head, true, take_listener, &f);
	return error == -ENOENT ? 0 : error; /* a kernel without IPv6 */
}

/* Older kernels have a shorter tcp_info: what is missing is 0. */
static bool read_info(const struct nlmsghdr *m, struct tcp_info *ret_info)
{
	const struct inet_diag_msg *message = NLMSG_DATA(m);
	const struct rtattr *at = (const void *)(message + 1);
	int left = (int)m->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*message));
	*ret_info = (struct tcp_info){0};
	for (; RTA_OK(at, left); left -= (int)RTA_ALIGN(at->rta_len),
				 at = (const void *)((const char *)at + RTA_ALIGN(at->rta_len)))
		if (at->rta_type == INET_DIAG_INFO) {
			size_t length = RTA_PAYLOAD(at);
			memcpy(ret_info, RTA_DATA(at),
			       length < sizeof(*ret_info) ? length : sizeof(*ret_info));
			return true;
		}
	return false;
}

typedef struct walking {
	const weir_diag_place *place; /* NULL: all */
	void (*fn)(const weir_diag_conn *conn, void *arg);
	void *arg;
} walking;

static void take_conn(const struct nlmsghdr *m, void *arg)
{
	const struct inet_diag_msg *message = NLMSG_DATA(m);
	const walking *walk = arg;
	struct tcp_info info;
	if (m->nlmsg_len < NLMSG_LENGTH(sizeof(*message)) ||
	    (walk->place != NULL && !is_at(walk->place, message)) || !read_info(m, &info))
		return;
	weir_diag_conn conn = {.cookie = (uint64_t)message->id.idiag_cookie[1] << 32 |
					 message->id.idiag_cookie[0],
			       .unread = message->idiag_rqueue,
			       .unsent = info.tcpi_notsent_bytes,
			       .received_ms = info.tcpi_last_data_recv,
			       .sent_ms = info.tcpi_last_data_sent,
			       .segments_in = info.tcpi_data_segs_in,
			       .segments_out = info.tcpi_data_segs_out,
			       .accepted = message->idiag_inode != 0};
	walk->fn(&conn, walk->arg);
}

int weir_diag_connections(weir_diag *diag, const weir_diag_place *place,
			  void (*fn)(const weir_diag_conn *conn, void *arg), void *arg)
{
	const int families[] = {place->ipv4 ? AF_INET : AF_UNSPEC, place->ipv6 ? AF_INET6 : AF_UNSPEC};
	walking walk = {place, fn, arg};
	int error = 0;
	for (unsigned i = 0; i < 2 && error == 0 && !place->local; i++) {
		inet_request request =
			tcp_request(place, families[i], BIT(STATE_ESTABLISHED) | BIT(STATE_CLOSE_WAIT));
		request.body.idiag_ext = 1u << (INET_DIAG_INFO - 1);
		if (families[i] != AF_UNSPEC)
			error = ask(diag, &request.head, true, take_conn, &walk);
	}
	return error;
}

/* ---- connections that end ---- */

/*
 * Only messages of these ports wake us: a machine may end many other connections. The port is the first field
 * of the socket's identity, behind the message's head and four bytes.
 */
static int filter_ports(int fd, const uint16_t *ports, size_t count)
{
	struct sock_filter code[PORTS_MOST + 3];
	size_t at = 0;
	uint32_t offset = NLMSG_HDRLEN + offsetof(struct inet_diag_msg, id.idiag_sport);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offset);
	for (size_t i = 0; i < count; i++)
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ports[i],
							  (uint8_t)(count - i), 0);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
	code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
	struct sock_fprog program = {.len = (uint16_t)at, .filter = code};
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0 ? 0 : -errno;
}

static int join(int fd, unsigned group)
{
	return setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) == 0 ? 0 : -errno;
}

int weir_diag_hear_ended(weir_diag *diag, const uint16_t *ports, size_t count)
{
	int bytes = HEARD_BYTES;
	if (count == 0 || count > PORTS_MOST)
		return -EINVAL;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	/* Without an address of its own it would have the kernel's, which gets no copy of what the kernel sends. */
	const struct sockaddr_nl own = {.nl_family = AF_NETLINK};
	int error = filter_ports(fd, ports, count);
	if (error == 0 && bind(fd, (const struct sockaddr *)&own, sizeof(own)) != 0)
		error = -errno;
	if (error == 0)
		error = join(fd, SKNLGRP_INET_TCP_DESTROY);
	if (error == 0)
		error = join(fd, SKNLGRP_INET6_TCP_DESTROY);
	if (error == 0)
		diag->hear = fd;
	else
		close(fd);
	return error;
}

void weir_diag_ended(weir_diag *diag, void (*fn)(const weir_diag_conn *conn, void *arg), void *arg)
{
	_Alignas(struct nlmsghdr) char bytes[4096];
	walking walk = {NULL, fn, arg};
	while (diag->hear >= 0) {
		ssize_t got = recv(diag->hear, bytes, sizeof(bytes), 0);
		if (got < 0 && errno == ENOBUFS)
			diag->lost++;
		if (got < 0 && (errno == ENOBUFS || errno == EINTR))
			continue;
		if (got < 0)
			return;
		if (NLMSG_OK((const struct nlmsghdr *)(void *)bytes, got))
			take_conn((const struct nlmsghdr *)(void *)bytes, &walk);
	}
}

/* ---- Unix sockets ---- */

typedef struct unix_request {
	struct nlmsghdr head;
	struct unix_diag_req body;
} unix_request;

/* Names of abstract sockets begin with a NUL, which people write as @. */
static bool has_name(const weir_diag_place *place, const char *name, size_t length)
{
	size_t wanted = strlen(place->path);
	if (length > 0 && name[length - 1] == '\0' && name[0] != '\0')
		length--;
	if (length != wanted || length == 0)
		return false;
	return place->path[0] == '@' && name[0] == '\0' ? memcmp(place->path + 1, name + 1, length - 1) == 0
							: memcmp(place->path, name, length) == 0;
}

static void take_local(const struct nlmsghdr *m, void *arg)
{
	const struct unix_diag_msg *message = NLMSG_DATA(m);
	const struct rtattr *at = (const void *)(message + 1);
	int left = (int)m->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*message));
	struct unix_diag_rqlen queue = {0};
	finding *f = arg;
	bool named = f->place->inode != 0 && f->place->inode == message->udiag_ino;
	for (; RTA_OK(at, left); left -= (int)RTA_ALIGN(at->rta_len),
				 at = (const void *)((const char *)at + RTA_ALIGN(at->rta_len))) {
		if (at->rta_type == UNIX_DIAG_NAME)
			named |= has_name(f->place, RTA_DATA(at), RTA_PAYLOAD(at));
		if (at->rta_type == UNIX_DIAG_RQLEN && RTA_PAYLOAD(at) >= sizeof(queue))
			memcpy(&queue, RTA_DATA(at), sizeof(queue));
	}
	if (left < 0 || !named || message->udiag_state != STATE_LISTEN)
		return;
	add_listener(f->listeners, message->udiag_ino, queue.udiag_rqueue, queue.udiag_wqueue);
	f->place->inode = message->udiag_ino;
}

static int ask_local(weir_diag *diag, weir_diag_place *place, bool dump, weir_diag_listeners *listeners)
{
	finding f = {place, listeners};
	unix_request request = {.head = {.nlmsg_len = sizeof(request)},
				.body = {.sdiag_family = AF_UNIX,
					 .udiag_states = BIT(STATE_LISTEN),
					 .udiag_ino = dump ? 0 : place->inode,
					 .udiag_show = UDIAG_SHOW_RQLEN | (dump ? UDIAG_SHOW_NAME : 0),
					 .udiag_cookie = {UINT32_MAX, UINT32_MAX}}};
	int error = ask(diag, &request.head, dump, take_local, &f);
	return error == -ENOENT ? 0 : error;
}

/* ---- both ---- */

int weir_diag_find(weir_diag *diag, weir_diag_place *place, weir_diag_listeners *ret_listeners)
{
	*ret_listeners = (weir_diag_listeners){0};
	if (!place->local)
		return find_tcp(diag, place, ret_listeners);
	place->inode = 0;
	return ask_local(diag, place, true, ret_listeners);
}

int weir_diag_look(weir_diag *diag, const weir_diag_place *place, weir_diag_listeners *ret_listeners)
{
	weir_diag_place copy = *place;
	*ret_listeners = (weir_diag_listeners){0};
	if (!place->local)
		return find_tcp(diag, &copy, ret_listeners);
	return place->inode != 0 ? ask_local(diag, &copy, false, ret_listeners) : 0;
}
