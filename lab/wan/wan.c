/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wan: a network of a server and its clients, inside this machine. Packets go from the server's TUN device
 * through the uplink (a FIFO with a rate), then over the path of their client (delay, losses) to the clients'
 * device; packets of clients go over the same path, without an uplink.
 *
 * It prints where its namespaces are, in lines of "key value" that end with "ready 1", and runs until its
 * standard input ends or a signal tells it to; then it prints what it has counted. Whoever starts it keeps
 * the other end of its input, so that it ends with them.
 *
 * One thread. It sleeps until the next packet is due or comes; the time at which a packet was read is that of
 * its arrival. How late packets were written is counted.
 */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "network.h"
#include "timers.h"

#define PACKETS      32768u
#define PACKET_BYTES 1536u
#define READ_AT_ONCE 64
/* Packets are written so much too early rather than after another sleep. */
#define EARLY_NS 40000u
/* Sleeps end later than asked, by a time that is learnt up to this. */
#define OVERSLEPT_MOST_NS 200000.0

enum { TO_CLIENTS, TO_SERVER, WAYS };

static const char *const way_names[WAYS] = {"to_clients", "to_server"};

typedef struct wan_counts {
	uint64_t packets, bytes, written;
	uint64_t full, lost, odd; /* full: dropped by the queue; odd: not IPv4, or no client's */
	double late_sum_ns, late_max_ns;
} wan_counts;

typedef struct wan_relay {
	/* const after start */
	wan_side side[WAYS]; /* by where packets go to */
	wan_path path[WAYS][WAN_CLIENTS_MAX + 1];
	unsigned clients;
	/* owner */
	wan_link uplink;
	wan_line line;
	weir_random random;
	uint8_t (*packet)[PACKET_BYTES];
	uint16_t *length;
	uint32_t *spare, spares;
	double overslept_ns; /* in the mean of the last sleeps */
	wan_counts counts[WAYS];
} wan_relay;

typedef struct wan_options {
	double bits_per_s, delay_ms, loss, time;
	unsigned queue, clients, mtu, seed;
	const char *client[WAN_CLIENTS_MAX];
	unsigned client_count;
	wan_timers timers;
} wan_options;

static uint64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- packets ---- */

/* The client whose packet it is, by the third number of its address; 0: nobody's. */
static unsigned client_of(const wan_relay *relay, unsigned way, const uint8_t *packet, size_t length)
{
	if (length < 20 || packet[0] >> 4 != 4)
		return 0;
	unsigned client = packet[way == TO_CLIENTS ? 18 : 14];
	return client <= relay->clients ? client : 0;
}

static void forward(wan_relay *relay, unsigned way, uint32_t slot, uint64_t at_ns)
{
	wan_counts *counts = &relay->counts[way];
	unsigned client = client_of(relay, way, relay->packet[slot], relay->length[slot]);
	uint64_t left_ns = at_ns;
	const wan_path *path = &relay->path[way][client];
	if (client == 0)
		counts->odd++;
	else if (way == TO_CLIENTS && !wan_link_offer(&relay->uplink, at_ns, relay->length[slot], &left_ns))
		counts->full++;
	else if (wan_path_loses(path, &relay->random))
		counts->lost++;
	else if (wan_line_add(&relay->line, left_ns + path->delay_ns, slot, way))
		return;
	relay->spare[relay->spares++] = slot;
}

/* Without a spare slot a packet is read all the same, and dropped: otherwise poll would not let us sleep. */
static void read_some(wan_relay *relay, unsigned way)
{
	static uint8_t nowhere[PACKET_BYTES];
	int from = relay->side[1 - way].tun;
	for (unsigned i = 0; i < READ_AT_ONCE; i++) {
		uint8_t *room = relay->spares > 0 ? relay->packet[relay->spare[relay->spares - 1]] : nowhere;
		ssize_t length = read(from, room, PACKET_BYTES);
		if (length <= 0)
			return;
		relay->counts[way].packets++;
		relay->counts[way].bytes += (uint64_t)length;
		if (room == nowhere) {
			relay->counts[way].full++;
			continue;
		}
		uint32_t slot = relay->spare[--relay->spares];
		relay->length[slot] = (uint16_t)length;
		forward(relay, way, slot, now());
	}
}

static void write_due(wan_relay *relay)
{
	wan_due due;
	while (wan_line_take(&relay->line, now() + EARLY_NS, &due)) {
		wan_counts *counts = &relay->counts[due.way];
		double late_ns = (double)now() - (double)due.at_ns;
		if (write(relay->side[due.way].tun, relay->packet[due.slot], relay->length[due.slot]) < 0)
			counts->odd++;
		counts->written++;
		counts->late_sum_ns += late_ns;
		counts->late_max_ns = late_ns > counts->late_max_ns ? late_ns : counts->late_max_ns;
		relay->spare[relay->spares++] = due.slot;
	}
}

static volatile sig_atomic_t told_to_end;

static void on_signal(int number)
{
	(void)number;
	told_to_end = 1;
}

/* False: the input has ended. */
static bool input_goes_on(void)
{
	char some[64];
	ssize_t got = read(STDIN_FILENO, some, sizeof some);
	return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
}

/* Until the next packet is due or something comes; as ppoll. */
static int sleep_until_due(wan_relay *relay, struct pollfd from[3])
{
	uint64_t next_ns = wan_line_next(&relay->line), at_ns = now();
	uint64_t before_ns = at_ns + (uint64_t)relay->overslept_ns;
	uint64_t wait_ns = next_ns > before_ns ? next_ns - before_ns : 0;
	wait_ns = wait_ns < 1000000000u ? wait_ns : 1000000000u;
	const struct timespec wait = {.tv_sec = (time_t)(wait_ns / 1000000000u),
				      .tv_nsec = (long)(wait_ns % 1000000000u)};
	int ready = ppoll(from, 3, &wait, NULL);
	if (ready == 0 && wait_ns > 0) {
		double late_ns = (double)(now() - at_ns - wait_ns);
		relay->overslept_ns += (fmin(late_ns, OVERSLEPT_MOST_NS) - relay->overslept_ns) / 16;
	}
	return ready;
}

static void run(wan_relay *relay)
{
	struct pollfd from[] = {{.fd = relay->side[TO_CLIENTS].tun, .events = POLLIN},
				{.fd = relay->side[TO_SERVER].tun, .events = POLLIN},
				{.fd = STDIN_FILENO, .events = POLLIN}};
	while (!told_to_end) {
		int ready = sleep_until_due(relay, from);
		write_due(relay);
		if (ready <= 0)
			continue;
		/* A device that somebody has removed is always ready, and never has a packet. */
		if (((from[0].revents | from[1].revents) & (POLLERR | POLLHUP | POLLNVAL)) != 0)
			return;
		if (from[0].revents != 0)
			read_some(relay, TO_SERVER);
		if (from[1].revents != 0)
			read_some(relay, TO_CLIENTS);
		if (from[2].revents != 0 && !input_goes_on())
			return;
	}
}

/* ---- the beginning and the end ---- */

static int refuse(const char *why)
{
	fprintf(stderr, "wan: %s\n", why);
	return 1;
}

static int make_paths(wan_relay *relay, const wan_options *options)
{
	for (unsigned way = 0; way < WAYS; way++)
		for (unsigned i = 1; i <= options->clients; i++)
			relay->path[way][i] = (wan_path){(uint64_t)(options->delay_ms * 1e6), options->loss};
	for (unsigned i = 0; i < options->client_count; i++) {
		unsigned client;
		double delay_ms, loss;
		if (sscanf(options->client[i], "%u:%lf:%lf", &client, &delay_ms, &loss) != 3 || client < 1 ||
		    client > options->clients || !(delay_ms >= 0 && delay_ms <= 10000) ||
		    !(loss >= 0 && loss <= 1))
			return refuse("--client is NUMBER:DELAY_MS:LOSS, of a client that there is");
		for (unsigned way = 0; way < WAYS; way++)
			relay->path[way][client] = (wan_path){(uint64_t)(delay_ms * 1e6), loss};
	}
	return 0;
}

static int make_room(wan_relay *relay)
{
	relay->packet = calloc(PACKETS, sizeof *relay->packet);
	relay->length = calloc(PACKETS, sizeof *relay->length);
	relay->spare = calloc(PACKETS, sizeof *relay->spare);
	if (relay->packet == NULL || relay->length == NULL || relay->spare == NULL ||
	    wan_line_init(&relay->line, PACKETS) != 0)
		return refuse("out of memory");
	for (uint32_t i = 0; i < PACKETS; i++)
		relay->spare[relay->spares++] = i;
	return 0;
}

static int open_all(wan_relay *relay, const wan_options *options)
{
	char why[200];
	relay->clients = options->clients;
	weir_random_init(&relay->random, options->seed);
	if (make_paths(relay, options) != 0 || make_room(relay) != 0)
		return 1;
	if (wan_link_init(&relay->uplink, options->bits_per_s, options->queue) != 0)
		return refuse("--rate is at least 0, and --queue from 1 to 65536");
	if (wan_side_open(&relay->side[TO_SERVER], 0, options->mtu, why, sizeof why) != 0 ||
	    wan_side_open(&relay->side[TO_CLIENTS], options->clients, options->mtu, why, sizeof why) != 0)
		return refuse(why);
	return 0;
}

static void close_all(wan_relay *relay)
{
	for (unsigned way = 0; way < WAYS; way++)
		wan_side_close(&relay->side[way]);
	wan_link_fini(&relay->uplink);
	wan_line_fini(&relay->line);
	free(relay->packet);
	free(relay->length);
	free(relay->spare);
}

/* Before all others, where that is allowed: a relay that waits for a processor is a longer delay. */
static void be_prompt(void)
{
	const struct sched_param first = {.sched_priority = 1};
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	printf("prompt %d\n", sched_setscheduler(0, SCHED_FIFO, &first) == 0);
}

static void tell_begin(const wan_relay *relay, wan_options *options)
{
	char why[200];
	printf("server /proc/%d/fd/%d\n", (int)getpid(), relay->side[TO_SERVER].space);
	printf("clients /proc/%d/fd/%d\n", (int)getpid(), relay->side[TO_CLIENTS].space);
	if (options->time > 0 || options->timers.congestion[0] != '\0' || options->timers.first_ns > 0) {
		if (wan_timers_open(&options->timers, why, sizeof why) == 0)
			printf("group %s\n", options->timers.path);
		else
			printf("no_group %s\n", why);
	}
	be_prompt();
	printf("ready 1\n");
	fflush(stdout);
}

static void tell_end(const wan_relay *relay)
{
	for (unsigned way = 0; way < WAYS; way++) {
		const wan_counts *counts = &relay->counts[way];
		printf("%s_packets %llu\n%s_bytes %llu\n", way_names[way],
		       (unsigned long long)counts->packets, way_names[way],
		       (unsigned long long)counts->bytes);
		printf("%s_full %llu\n%s_lost %llu\n%s_odd %llu\n", way_names[way],
		       (unsigned long long)counts->full, way_names[way], (unsigned long long)counts->lost,
		       way_names[way], (unsigned long long)counts->odd);
		printf("%s_late_mean_us %.3f\n%s_late_max_us %.3f\n", way_names[way],
		       counts->written > 0 ? counts->late_sum_ns / (double)counts->written / 1e3 : 0,
		       way_names[way], counts->late_max_ns / 1e3);
	}
	fflush(stdout);
}

/* ---- the command line ---- */

static const char usage[] =
	"usage: wan [OPTION...]\n\n"
	"  --rate BITS        of the uplink, a second; 0: no bottleneck here (default)\n"
	"  --queue PACKETS    in front of it (100)\n"
	"  --delay MS         of each path, in each direction (0)\n"
	"  --loss P           of each path, in each direction (0)\n"
	"  --clients N        10.77.1.1 to 10.77.N.1 (8)\n"
	"  --client N:MS:P    delay and loss of one of them\n"
	"  --mtu BYTES        (1500)\n"
	"  --time X           TCP's timers are X times as short, for programs in the group that is printed\n"
	"  --first-rto MS     of a SYN; otherwise 1000, divided by --time\n"
	"  --congestion NAME  of sockets of programs in the group\n"
	"  --seed N           (1)\n";

static const struct option table[] = {
	{"rate", required_argument, NULL, 'r'},      {"queue", required_argument, NULL, 'q'},
	{"delay", required_argument, NULL, 'd'},     {"loss", required_argument, NULL, 'l'},
	{"clients", required_argument, NULL, 'n'},   {"client", required_argument, NULL, 'c'},
	{"mtu", required_argument, NULL, 'm'},       {"time", required_argument, NULL, 't'},
	{"first-rto", required_argument, NULL, 'f'}, {"congestion", required_argument, NULL, 'g'},
	{"seed", required_argument, NULL, 's'},      {NULL, 0, NULL, 0}};

static bool number(const char *text, double least, double most, double *ret)
{
	char *end;
	double found = strtod(text, &end);
	if (end == text || *end != '\0' || !(found >= least && found <= most))
		return false;
	*ret = found;
	return true;
}

static bool whole(const char *text, double least, double most, unsigned *ret)
{
	double found;
	if (!number(text, least, most, &found))
		return false;
	*ret = (unsigned)found;
	return true;
}

static bool take(wan_options *options, int option, const char *text)
{
	double ms;
	switch (option) {
	case 'r':
		return number(text, 0, 1e11, &options->bits_per_s);
	case 'q':
		return whole(text, 1, WAN_QUEUE_MAX, &options->queue);
	case 'd':
		return number(text, 0, 10000, &options->delay_ms);
	case 'l':
		return number(text, 0, 1, &options->loss);
	case 'n':
		return whole(text, 1, WAN_CLIENTS_MAX, &options->clients);
	case 'c':
		if (options->client_count == WAN_CLIENTS_MAX)
			return false;
		options->client[options->client_count++] = text;
		return true;
	case 'm':
		return whole(text, 576, 1500, &options->mtu);
	case 't':
		return number(text, 1, 20, &options->time);
	case 'f':
		if (!number(text, 10, 60000, &ms))
			return false;
		options->timers.first_ns = (uint64_t)(ms * 1e6);
		return true;
	case 'g':
		return snprintf(options->timers.congestion, sizeof options->timers.congestion, "%s", text) <
		       (int)sizeof options->timers.congestion;
	case 's':
		return whole(text, 0, 4294967295.0, &options->seed);
	default:
		return false;
	}
}

/* As the kernel has them: 1 s, 200 ms, 200 ms. */
static void scale_timers(wan_options *options)
{
	wan_timers *timers = &options->timers;
	if (options->time <= 1)
		return;
	timers->rto_min_ns = timers->delack_max_ns = (uint64_t)(200e6 / options->time);
	if (timers->first_ns == 0)
		timers->first_ns = (uint64_t)(1e9 / options->time);
}

int main(int argc, char **argv)
{
	static wan_relay relay;
	static wan_options options = {.queue = 100, .clients = 8, .mtu = 1500, .seed = 1};
	int option;
	while ((option = getopt_long(argc, argv, "", table, NULL)) != -1)
		if (!take(&options, option, optarg)) {
			fputs(usage, stderr);
			return 2;
		}
	relay.side[TO_CLIENTS] = relay.side[TO_SERVER] = (wan_side){-1, -1};
	scale_timers(&options);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	signal(SIGHUP, on_signal);
	int status = open_all(&relay, &options);
	if (status == 0) {
		tell_begin(&relay, &options);
		run(&relay);
		tell_end(&relay);
	}
	wan_timers_close(&options.timers);
	close_all(&relay);
	return status;
}
