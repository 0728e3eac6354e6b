/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UPLINK_MESSAGE_H
#define WEIR_UPLINK_MESSAGE_H

/*
 * Messages of rtnetlink(7): building one, and looking into those that came. Both are pure.
 *
 * A message is built in a fixed buffer. What does not fit marks it as failed, and nothing is written beyond
 * the end; whoever sends it looks at `failed` once. What came is not trusted: an attribute is only shown if
 * all of it is inside of its message, and a value only if it is as long as its type.
 *
 * Threads: any; a message belongs to its caller.
 */

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_MESSAGE_BYTES 1024u

typedef struct weir_message {
	union {
		struct nlmsghdr head;
		char bytes[WEIR_MESSAGE_BYTES];
	};
	bool failed; /* something did not fit */
} weir_message;

/* Begins a message about a qdisc, a class or a filter, with flags besides NLM_F_REQUEST and NLM_F_ACK. */
void weir_message_begin_tc(weir_message *message, uint16_t type, uint16_t flags, const struct tcmsg *about);
/* Begins a message about a link. */
void weir_message_begin_link(weir_message *message, uint16_t type, uint16_t flags, int index);
/* Adds an attribute. */
void weir_message_put(weir_message *message, uint16_t type, const void *value, size_t size);
void weir_message_put_u32(weir_message *message, uint16_t type, uint32_t value);
void weir_message_put_u64(weir_message *message, uint16_t type, uint64_t value);
void weir_message_put_text(weir_message *message, uint16_t type, const char *text);
/* Begins an attribute that has others in it. Returns where it is, for weir_message_close. */
size_t weir_message_open(weir_message *message, uint16_t type);
void weir_message_close(weir_message *message, size_t where);

/* Bytes that are a list of attributes. */
typedef struct weir_attributes {
	const char *bytes;
	size_t size;
} weir_attributes;

/* Those of a message, behind a head of its own of this size. None, if the message is too short. */
weir_attributes weir_attributes_of(const struct nlmsghdr *message, size_t head);
/* Finds the first of a type; false: there is none. */
bool weir_attribute(weir_attributes list, uint16_t type, weir_attributes *ret_value);
/* Finds one and copies it; false: there is none, or it is shorter than `size`. */
bool weir_attribute_read(weir_attributes list, uint16_t type, void *ret_value, size_t size);
/* Finds a text and copies it, with a NUL at its end; false: there is none, or it is too long. */
bool weir_attribute_text(weir_attributes list, uint16_t type, char *ret_text, size_t size);

#endif
