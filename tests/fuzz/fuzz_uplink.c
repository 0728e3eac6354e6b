/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the state file of an uplink, and as an answer of the kernel. What is read is within its bounds, and
 * a state that is read is printed as the same bytes.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "uplink/kernel.h"
#include "uplink/state.h"

static void read_state(const char *text, size_t size)
{
	weir_uplink_state state;
	char printed[WEIR_UPLINK_STATE_BYTES + 1];
	if (weir_uplink_state_read(text, size, &state) != 0) {
		check_sentence();
		return;
	}
	CHECK(state.index > 0 && state.bands >= 1 && state.bands <= WEIR_BANDS_MOST);
	CHECK(state.rate >= WEIR_UPLINK_RATE_LEAST && state.rate <= WEIR_UPLINK_RATE_MOST);
	CHECK(strlen(state.device) > 0 && strlen(state.device) < IF_NAMESIZE);
	CHECK(weir_uplink_state_print(&state, printed, sizeof(printed)) == size);
	CHECK(memcmp(printed, text, size) == 0);
}

/* As recv would have it: a head, and no more bytes than it says. */
static void read_answer(char *bytes, size_t size)
{
	struct nlmsghdr *message = (struct nlmsghdr *)(void *)bytes;
	weir_kernel_link link;
	weir_kernel_qdisc qdisc;
	uint64_t rate;
	if (size < sizeof(*message))
		return;
	message->nlmsg_len = (uint32_t)size;
	if (weir_kernel_read_link(message, &link))
		CHECK(link.index > 0 && strlen(link.name) < IF_NAMESIZE);
	if (weir_kernel_read_qdisc(message, &qdisc))
		CHECK(qdisc.index > 0 && strlen(qdisc.kind) < sizeof(qdisc.kind));
	(void)weir_kernel_read_rate(message, &rate);
}

/* In memory of exactly its size. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = calloc(1, size + (size == 0));
	CHECK(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	read_state(copy, size);
	read_answer(copy, size);
	free(copy);
	return 0;
}
