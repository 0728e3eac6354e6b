/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as an LMTP client. What is said and what is delivered do not depend on how the bytes arrive: in pieces
 * of 16 KB, or of a size that the first byte gives.
 */
#include <errno.h>
#include <mail/lmtp_talk.h>
#include <string.h>

#include "target.h"

#define BYTES_MAX 600000u

typedef struct fuzz_owner {
	lmtp_talk talk;
	uint64_t said, stored; /* hashes of all that was said, and of all that was delivered */
	unsigned delivered;
	bool quit;
} fuzz_owner;

static void mix(uint64_t *hash, const void *bytes, size_t length)
{
	for (size_t i = 0; i < length; i++)
		*hash = (*hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
}

static void hear(void *arg, const char *text, size_t length)
{
	CHECK(length >= 5 && memcmp(text + length - 2, "\r\n", 2) == 0);
	CHECK(memchr(text, '\n', length - 1) == NULL && (text[3] == ' ' || text[3] == '-'));
	mix(&((fuzz_owner *)arg)->said, text, length);
}

static void deliver(fuzz_owner *o)
{
	int results[LMTP_RECIPIENTS_MAX] = {0, -EIO, -ENOENT, -E2BIG};
	CHECK(o->talk.recipients > 0 && o->talk.recipients <= LMTP_RECIPIENTS_MAX);
	CHECK(o->talk.message_bytes <= BYTES_MAX && o->talk.data_bytes <= LMTP_DATA_BYTES);
	mix(&o->stored, o->talk.data, o->talk.data_bytes);
	o->delivered++;
	lmtp_talk_delivered(&o->talk, results);
}

static void go_on(fuzz_owner *o)
{
	for (lmtp_step step; !o->quit && (step = lmtp_talk_step(&o->talk)) != LMTP_WAIT;) {
		if (step == LMTP_FIND) {
			lmtp_talk_found(&o->talk, o->talk.address[0] == 'n' ? -ENOENT : 0, 7);
		} else if (step == LMTP_SPOOL) {
			mix(&o->stored, o->talk.data, o->talk.data_bytes);
			lmtp_talk_spooled(&o->talk, 0);
		} else if (step == LMTP_DELIVER) {
			deliver(o);
		} else {
			o->quit = true;
		}
	}
}

static void run(fuzz_owner *o, const uint8_t *data, size_t size, size_t piece)
{
	*o = (fuzz_owner){.talk = {.host = "box", .bytes_max = BYTES_MAX, .say = hear, .arg = o}};
	CHECK(lmtp_talk_begin(&o->talk) == 0);
	for (size_t at = 0; at < size && !o->quit; at += piece) {
		CHECK(lmtp_talk_feed(&o->talk, data + at, size - at < piece ? size - at : piece) == 0);
		go_on(o);
	}
	lmtp_talk_end(&o->talk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_owner whole, pieces;
	if (size == 0)
		return 0;
	run(&whole, data + 1, size - 1, 16384);
	run(&pieces, data + 1, size - 1, data[0] % 64 + 1u);
	CHECK(whole.said == pieces.said && whole.stored == pieces.stored &&
	      whole.delivered == pieces.delivered);
	return 0;
}
