/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink/message.h"

#include <string.h>
#include <sys/socket.h>

/* ---- building ---- */

/* Room at the end of the message, zeroed; NULL: it does not fit. */
static void *extend(weir_message *message, size_t size)
{
	size_t at = NLMSG_ALIGN(message->head.nlmsg_len), end = at + NLMSG_ALIGN(size);
	if (message->failed || size > WEIR_MESSAGE_BYTES || end > WEIR_MESSAGE_BYTES) {
		message->failed = true;
		return NULL;
	}
	memset(message->bytes + at, 0, end - at);
	message->head.nlmsg_len = (uint32_t)end;
	return message->bytes + at;
}

static void begin(weir_message *message, uint16_t type, uint16_t flags, const void *about, size_t size)
{
	message->failed = false;
	message->head = (struct nlmsghdr){.nlmsg_len = NLMSG_HDRLEN,
					  .nlmsg_type = type,
					  .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags)};
	memcpy(extend(message, size), about, size);
}

void weir_message_begin_tc(weir_message *message, uint16_t type, uint16_t flags, const struct tcmsg *about)
{
	begin(message, type, flags, about, sizeof(*about));
}

void weir_message_begin_link(weir_message *message, uint16_t type, uint16_t flags, int index)
{
	struct ifinfomsg about = {.ifi_family = AF_UNSPEC, .ifi_index = index};
	begin(message, type, flags, &about, sizeof(about));
}

void weir_message_put(weir_message *message, uint16_t type, const void *value, size_t size)
{
	struct rtattr *attribute = size <= WEIR_MESSAGE_BYTES ? extend(message, RTA_LENGTH(size)) : NULL;
	if (attribute == NULL) {
		message->failed = true;
		return;
	}
	attribute->rta_type = type;
	attribute->rta_len = (unsigned short)RTA_LENGTH(size);
	if (size > 0)
		memcpy(RTA_DATA(attribute), value, size);
}

void weir_message_put_u32(weir_message *message, uint16_t type, uint32_t value)
{
	weir_message_put(message, type, &value, sizeof(value));
}

void weir_message_put_u64(weir_message *message, uint16_t type, uint64_t value)
{
	weir_message_put(message, type, &value, sizeof(value));
}

void weir_message_put_text(weir_message *message, uint16_t type, const char *text)
{
	weir_message_put(message, type, text, strlen(text) + 1);
}

size_t weir_message_open(weir_message *message, uint16_t type)
{
	size_t where = message->head.nlmsg_len;
	weir_message_put(message, type, NULL, 0);
	return where;
}

void weir_message_close(weir_message *message, size_t where)
{
	struct rtattr attribute;
	if (message->failed)
		return;
	memcpy(&attribute, message->bytes + where, sizeof(attribute));
	attribute.rta_len = (unsigned short)(message->head.nlmsg_len - where);
	memcpy(message->bytes + where, &attribute, sizeof(attribute));
}

/* ---- looking ---- */

weir_attributes weir_attributes_of(const struct nlmsghdr *message, size_t head)
{
	size_t begins = NLMSG_SPACE(head);
	if (message->nlmsg_len < begins)
		return (weir_attributes){NULL, 0};
	return (weir_attributes){(const char *)message + begins, message->nlmsg_len - begins};
}

bool weir_attribute(weir_attributes list, uint16_t type, weir_attributes *ret_value)
{
	struct rtattr attribute;
	for (size_t at = 0; at + sizeof(attribute) <= list.size; at += RTA_ALIGN(attribute.rta_len)) {
		memcpy(&attribute, list.bytes + at, sizeof(attribute));
		if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > list.size - at)
			return false;
		if ((attribute.rta_type & NLA_TYPE_MASK) != type)
			continue;
		*ret_value =
			(weir_attributes){list.bytes + at + RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0)};
		return true;
	}
	return false;
}

bool weir_attribute_read(weir_attributes list, uint16_t type, void *ret_value, size_t size)
{
	weir_attributes value;
	if (!weir_attribute(list, type, &value) || value.size < size)
		return false;
	memcpy(ret_value, value.bytes, size);
	return true;
}

bool weir_attribute_text(weir_attributes list, uint16_t type, char *ret_text, size_t size)
{
	weir_attributes value;
	if (!weir_attribute(list, type, &value))
		return false;
	size_t length = strnlen(value.bytes, value.size);
	if (length >= size)
		return false;
	memcpy(ret_text, value.bytes, length);
	ret_text[length] = '\0';
	return true;
}
