/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of session tickets. They are random and kept only in memory, so that recorded traffic cannot be
 * decrypted once they are gone. They rotate at the first use in a new hour: there is no timer, and a
 * server without handshakes does nothing.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <string.h>

#include "tls/priv.h"

#define KEY_NS (3600 * WEIR_NS_PER_S)

int weir_tickets_init(weir_tickets *tickets)
{
	return -pthread_mutex_init(&tickets->lock, NULL);
}

void weir_tickets_fini(weir_tickets *tickets)
{
	pthread_mutex_destroy(&tickets->lock);
	OPENSSL_cleanse(&tickets->now, sizeof(tickets->now));
	OPENSSL_cleanse(&tickets->before, sizeof(tickets->before));
}

static bool expired(const weir_ticket_key *key, uint64_t now_ns, uint64_t after_ns)
{
	return key->from_ns == 0 || (now_ns > key->from_ns && now_ns - key->from_ns >= after_ns);
}

static int make_key(weir_ticket_key *ret_key, uint64_t now_ns)
{
	weir_ticket_key key = {.from_ns = now_ns != 0 ? now_ns : 1};
	if (RAND_bytes(key.name, sizeof(key.name)) != 1 ||
	    RAND_priv_bytes(key.cipher, sizeof(key.cipher)) != 1 ||
	    RAND_priv_bytes(key.mac, sizeof(key.mac)) != 1)
		return -EIO;
	*ret_key = key;
	OPENSSL_cleanse(&key, sizeof(key));
	return 0;
}

/*
 * The key of the last hour is accepted for one more. Older ones are dropped, even if there was no use in
 * between.
 */
static int turn_over_locked(weir_tickets *tickets, uint64_t now_ns)
{
	weir_ticket_key next;
	if (!expired(&tickets->now, now_ns, KEY_NS))
		return 0;
	int error = make_key(&next, now_ns);
	if (error != 0)
		return error;
	tickets->before = tickets->now;
	tickets->now = next;
	OPENSSL_cleanse(&next, sizeof(next));
	return 0;
}

static void forget_locked(weir_tickets *tickets, uint64_t now_ns)
{
	if (expired(&tickets->now, now_ns, 2 * KEY_NS))
		OPENSSL_cleanse(&tickets->now, sizeof(tickets->now));
	if (expired(&tickets->before, now_ns, 2 * KEY_NS))
		OPENSSL_cleanse(&tickets->before, sizeof(tickets->before));
}

int weir_tickets_current(weir_tickets *tickets, uint64_t now_ns, weir_ticket_key *ret_key)
{
	pthread_mutex_lock(&tickets->lock);
	forget_locked(tickets, now_ns);
	int error = turn_over_locked(tickets, now_ns);
	if (error == 0)
		*ret_key = tickets->now;
	pthread_mutex_unlock(&tickets->lock);
	return error;
}

static bool has_name(const weir_ticket_key *key, const uint8_t *name)
{
	return key->from_ns != 0 && memcmp(key->name, name, WEIR_TICKET_NAME_BYTES) == 0;
}

int weir_tickets_find(weir_tickets *tickets, const uint8_t *name, uint64_t now_ns, weir_ticket_key *ret_key)
{
	int which = 0;
	pthread_mutex_lock(&tickets->lock);
	forget_locked(tickets, now_ns);
	if (has_name(&tickets->now, name)) {
		*ret_key = tickets->now;
		/* It may be past its hour if nobody has requested a new one yet. */
		which = expired(&tickets->now, now_ns, KEY_NS) ? 2 : 1;
	} else if (has_name(&tickets->before, name)) {
		*ret_key = tickets->before;
		which = 2;
	}
	pthread_mutex_unlock(&tickets->lock);
	return which;
}
