/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink/plan.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <string.h>

#define TICK_SHIFT      6       /* the scheduler's clock has ticks of 64 ns */
#define QUEUE_PACKETS   1000u   /* of a queue: what devices have by default */
#define QUANTUM_MOST    200000u /* a larger one is refused with a warning */
#define RATE_TO_QUANTUM 10u
#define HTB_VERSION     3u
#define LEAF_PART       200u /* a band is guaranteed this part of the rate */
#define OTHER_PART      2u   /* other traffic */
#define PRIO_LAST       7u   /* of htb */
#define LINK_HEADER     14u

/* ---- numbers ---- */

void weir_uplink_plan_init(weir_uplink_plan *plan, int index, unsigned bands, uint64_t rate, uint32_t mtu)
{
	uint64_t bytes_per_ms = rate / 8 / 1000;
	*plan = (weir_uplink_plan){.index = index, .bands = bands, .rate = rate};
	plan->shaped = rate / 100 * 98 / 8;
	plan->frame = mtu + LINK_HEADER;
	plan->gso_size = bytes_per_ms < plan->frame      ? plan->frame
			 : bytes_per_ms > UINT32_MAX / 4 ? UINT32_MAX / 4
							 : (uint32_t)bytes_per_ms;
	plan->gso_count = plan->gso_size / plan->frame;
	plan->burst = 2 * plan->gso_size;
}

/* ---- htb ---- */

static uint32_t ticks_for(uint64_t bytes, uint64_t bytes_per_s)
{
	unsigned __int128 ticks = ((unsigned __int128)bytes * 1000000000u / bytes_per_s) >> TICK_SHIFT;
	return ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

static uint32_t short_rate(uint64_t bytes_per_s)
{
	return bytes_per_s > UINT32_MAX ? UINT32_MAX : (uint32_t)bytes_per_s;
}

static void put_class(weir_message *message, const weir_uplink_plan *plan, uint64_t rate, unsigned prio)
{
	struct tc_htb_opt opt = {0};
	uint32_t quantum = plan->gso_size < QUANTUM_MOST ? plan->gso_size : QUANTUM_MOST;
	opt.rate.linklayer = opt.ceil.linklayer = TC_LINKLAYER_ETHERNET; /* so no table of rates is needed */
	opt.rate.rate = short_rate(rate);
	opt.ceil.rate = short_rate(plan->shaped);
	opt.buffer = ticks_for(plan->burst, rate);
	opt.cbuffer = ticks_for(plan->burst, plan->shaped);
	opt.quantum = quantum;
	opt.prio = prio;
	weir_message_put_text(message, TCA_KIND, "htb");
	size_t options = weir_message_open(message, TCA_OPTIONS);
	weir_message_put(message, TCA_HTB_PARMS, &opt, sizeof(opt));
	if (rate > UINT32_MAX)
		weir_message_put_u64(message, TCA_HTB_RATE64, rate);
	if (plan->shaped > UINT32_MAX)
		weir_message_put_u64(message, TCA_HTB_CEIL64, plan->shaped);
	weir_message_close(message, options);
}

static void begin_new(weir_message *message, uint16_t type, int index, uint32_t parent, uint32_t handle)
{
	const struct tcmsg about = {.tcm_ifindex = index, .tcm_parent = parent, .tcm_handle = handle};
	weir_message_begin_tc(message, type, NLM_F_CREATE | NLM_F_EXCL, &about);
}

void weir_uplink_build_root(const weir_uplink_plan *plan, weir_message *ret_message)
{
	const struct tc_htb_glob glob = {.version = HTB_VERSION,
					 .rate2quantum = RATE_TO_QUANTUM,
					 .defcls = WEIR_UPLINK_CLASS_OTHER & 0xffff};
	begin_new(ret_message, RTM_NEWQDISC, plan->index, TC_H_ROOT, WEIR_UPLINK_HANDLE);
	weir_message_put_text(ret_message, TCA_KIND, "htb");
	size_t options = weir_message_open(ret_message, TCA_OPTIONS);
	weir_message_put(ret_message, TCA_HTB_INIT, &glob, sizeof(glob));
	weir_message_put_u32(ret_message, TCA_HTB_DIRECT_QLEN, QUEUE_PACKETS);
	weir_message_close(ret_message, options);
}

void weir_uplink_build_link(const weir_uplink_plan *plan, weir_message *ret_message)
{
	begin_new(ret_message, RTM_NEWTCLASS, plan->index, WEIR_UPLINK_HANDLE, WEIR_UPLINK_CLASS_LINK);
	put_class(ret_message, plan, plan->shaped, 0);
}

void weir_uplink_build_other(const weir_uplink_plan *plan, weir_message *ret_message)
{
	begin_new(ret_message, RTM_NEWTCLASS, plan->index, WEIR_UPLINK_CLASS_LINK, WEIR_UPLINK_CLASS_OTHER);
	put_class(ret_message, plan, plan->shaped / OTHER_PART,
		  plan->bands < PRIO_LAST ? plan->bands : PRIO_LAST);
}

void weir_uplink_build_answers(const weir_uplink_plan *plan, weir_message *ret_message)
{
	begin_new(ret_message, RTM_NEWTCLASS, plan->index, WEIR_UPLINK_CLASS_LINK, WEIR_UPLINK_CLASS_ANSWERS);
	put_class(ret_message, plan, plan->shaped / LEAF_PART * plan->bands, 0);
}

void weir_uplink_build_band(const weir_uplink_plan *plan, unsigned band, weir_message *ret_message)
{
	begin_new(ret_message, RTM_NEWTCLASS, plan->index, WEIR_UPLINK_CLASS_LINK,
		  (uint32_t)weir_band_class(band));
	put_class(ret_message, plan, plan->shaped / LEAF_PART, band);
}

/* ---- what is in the classes ---- */

/*
 * The bands of the four lowest bits of a priority, plain or a class. 0 and what is not ours do not come
 * here.
 */
void weir_uplink_build_prio(const weir_uplink_plan *plan, weir_message *ret_message)
{
	struct tc_prio_qopt opt = {.bands = (int)plan->bands};
	unsigned last = plan->bands - 1;
	memset(opt.priomap, (int)last, sizeof(opt.priomap));
	opt.priomap[TC_PRIO_CONTROL] = 0;
	for (unsigned band = 0; band < plan->bands; band++)
		opt.priomap[weir_band_nibble(band) & TC_PRIO_MAX] = (uint8_t)band;
	begin_new(ret_message, RTM_NEWQDISC, plan->index, WEIR_UPLINK_CLASS_ANSWERS, WEIR_UPLINK_PRIO);
	weir_message_put_text(ret_message, TCA_KIND, "prio");
	weir_message_put(ret_message, TCA_OPTIONS, &opt, sizeof(opt));
}

void weir_uplink_build_queue(const weir_uplink_plan *plan, unsigned band, weir_message *ret_message)
{
	const struct tc_fifo_qopt opt = {.limit = QUEUE_PACKETS};
	uint32_t parent = band == WEIR_BANDS_MOST ? WEIR_UPLINK_CLASS_OTHER
			  : plan->prio            ? WEIR_UPLINK_PRIO | (band + 1)
						  : (uint32_t)weir_band_class(band);
	uint32_t handle = band == WEIR_BANDS_MOST ? WEIR_UPLINK_OTHER : WEIR_UPLINK_QUEUE + (band << 16);
	begin_new(ret_message, RTM_NEWQDISC, plan->index, parent, handle);
	weir_message_put_text(ret_message, TCA_KIND, "pfifo");
	weir_message_put(ret_message, TCA_OPTIONS, &opt, sizeof(opt));
}

void weir_uplink_build_filter(const weir_uplink_plan *plan, int program, weir_message *ret_message)
{
	const struct tcmsg about = {.tcm_ifindex = plan->index,
				    .tcm_parent = WEIR_UPLINK_HANDLE,
				    .tcm_handle = 1,
				    .tcm_info = TC_H_MAKE(1u << 16, htons(ETH_P_ALL))};
	weir_message_begin_tc(ret_message, RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, &about);
	weir_message_put_text(ret_message, TCA_KIND, "bpf");
	size_t options = weir_message_open(ret_message, TCA_OPTIONS);
	weir_message_put_u32(ret_message, TCA_BPF_FD, (uint32_t)program);
	weir_message_put_text(ret_message, TCA_BPF_NAME, "weir uplink");
	weir_message_close(ret_message, options);
}

/* ---- removing, and the link ---- */

void weir_uplink_build_drop_class(int index, uint32_t class_id, weir_message *ret_message)
{
	const struct tcmsg about = {
		.tcm_ifindex = index, .tcm_parent = WEIR_UPLINK_CLASS_LINK, .tcm_handle = class_id};
	weir_message_begin_tc(ret_message, RTM_DELTCLASS, 0, &about);
}

/* With its handle, so that the kernel refuses if another root has taken its place. */
void weir_uplink_build_drop(int index, weir_message *ret_message)
{
	const struct tcmsg about = {
		.tcm_ifindex = index, .tcm_parent = TC_H_ROOT, .tcm_handle = WEIR_UPLINK_HANDLE};
	weir_message_begin_tc(ret_message, RTM_DELQDISC, 0, &about);
}

void weir_uplink_build_gso(int index, const weir_uplink_gso *gso, weir_message *ret_message)
{
	weir_message_begin_link(ret_message, RTM_NEWLINK, 0, index);
	if (gso->size > 0)
		weir_message_put_u32(ret_message, IFLA_GSO_MAX_SIZE, gso->size);
	if (gso->count > 0)
		weir_message_put_u32(ret_message, IFLA_GSO_MAX_SEGS, gso->count);
	if (gso->ipv4_size > 0)
		weir_message_put_u32(ret_message, WEIR_LINK_GSO_IPV4_SIZE, gso->ipv4_size);
}

/* ---- the filter's program ---- */

typedef struct coder {
	struct bpf_insn *code;
	unsigned count;
} coder;

static void emit(coder *c, uint8_t operation, unsigned to, unsigned from, int16_t skip, int32_t value)
{
	c->code[c->count++] = (struct bpf_insn){.code = operation,
						.dst_reg = (uint8_t)(to & 15),
						.src_reg = (uint8_t)(from & 15),
						.off = skip,
						.imm = value};
}

#define SET(to, value)           emit(&c, BPF_ALU | BPF_MOV | BPF_K, to, 0, 0, (int32_t)(value))
#define COPY(to, from)           emit(&c, BPF_ALU | BPF_MOV | BPF_X, to, from, 0, 0)
#define JUMP(test, of, by, skip) emit(&c, BPF_JMP | (test) | BPF_K, of, 0, skip, (int32_t)(by))
#define RETURN()                 emit(&c, BPF_JMP | BPF_EXIT, 0, 0, 0, 0)

/*
 * htb finds a class by its own number before it asks the filter. So classes that come here are those of bands
 * that do not exist, because fewer were installed, or all bands of a `prio`.
 */
unsigned weir_uplink_program(const weir_uplink_plan *plan, struct bpf_insn ret_code[WEIR_UPLINK_PROGRAM])
{
	coder c = {ret_code, 0};
	uint32_t last = (uint32_t)weir_band_class(plan->bands - 1);
	int32_t least = weir_band_plain(plan->bands - 1);
	emit(&c, BPF_LDX | BPF_MEM | BPF_W, 2, 1, (int16_t)offsetof(struct __sk_buff, priority), 0);
	COPY(0, 2);
	emit(&c, BPF_ALU | BPF_RSH | BPF_K, 0, 0, 0, 16);
	JUMP(BPF_JNE, 0, WEIR_BAND_MAJOR, 2);
	SET(0, plan->prio ? WEIR_UPLINK_CLASS_ANSWERS : last);
	RETURN();
	JUMP(BPF_JEQ, 2, 0, 1);
	JUMP(BPF_JLE, 2, TC_PRIO_CONTROL, 2);
	SET(0, 0);
	RETURN();
	if (plan->prio) {
		SET(0, WEIR_UPLINK_CLASS_ANSWERS);
		RETURN();
		return c.count;
	}
	JUMP(BPF_JLE, 2, WEIR_BAND_PLAIN_MOST, 1);
	SET(2, WEIR_BAND_PLAIN_MOST);
	JUMP(BPF_JGE, 2, least, 1);
	SET(2, least);
	SET(0, WEIR_UPLINK_HANDLE + WEIR_BAND_MINOR);
	emit(&c, BPF_ALU | BPF_OR | BPF_X, 0, 2, 0, 0);
	RETURN();
	return c.count;
}
