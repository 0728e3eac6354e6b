/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handshakes of a server, as events of a stage. OpenSSL gets only whole records, and input that arrives
 * meanwhile is put aside. So all computation happens in the stage, and bytes that come one at a time cost
 * only their copy. Input that cannot be TLS is refused before it takes a place.
 */
#include <errno.h>
#include <openssl/err.h>

#include "base/error.h"
#include "tls/priv.h"

#define HEAD_BYTES  5
#define RECORD_MOST (16384 + 256)
#define STEPS_MOST  32 /* a handshake needs two to six; one split into many tiny records is not worth more */

enum { TYPE_LEAST = 20, TYPE_ALERT = 21, TYPE_HANDSHAKE = 22, TYPE_MOST = 23 };
enum { ALERT_UNEXPECTED = 10, ALERT_INTERNAL = 80 };

static weir_tls_session *session_of(weir_event *event)
{
	return (weir_tls_session *)(void *)((char *)event - offsetof(weir_tls_session, event));
}

/* Unencrypted, for a peer that shares no keys with us. */
static void send_alert(weir_tls_session *s, uint8_t alert)
{
	const uint8_t record[] = {TYPE_ALERT, 3, 3, 0, 2, 2, alert};
	weir_conn_write(s->link->conn, record, sizeof(record));
}

static void refuse(weir_tls_session *s, int why, uint8_t alert, const char *error)
{
	send_alert(s, alert);
	weir_tls_fail(s, why, error);
}

/* ---- records ---- */

static bool head_is_sane(const weir_tls_session *s, const uint8_t *head, size_t seen)
{
	bool type = s->steps == 0 ? head[0] == TYPE_HANDSHAKE : head[0] >= TYPE_LEAST && head[0] <= TYPE_MOST;
	if (!type || (seen > 1 && head[1] != 3))
		return false;
	unsigned length = seen == HEAD_BYTES ? (unsigned)head[3] << 8 | head[4] : 1;
	return length > 0 && length <= RECORD_MOST;
}

/* Bytes of whole records at the beginning of the input; -1: it is not TLS. */
static int64_t whole_records(const weir_tls_session *s)
{
	size_t whole = 0, bytes = weir_tls_input_bytes(s);
	while (whole < bytes) {
		uint8_t head[HEAD_BYTES];
		size_t seen = weir_tls_input_peek(s, whole, head, sizeof(head));
		if (!head_is_sane(s, head, seen))
			return -1;
		if (seen < HEAD_BYTES)
			break;
		size_t length = HEAD_BYTES + ((size_t)head[3] << 8 | head[4]);
		if (bytes - whole < length)
			break;
		whole += length;
	}
	return (int64_t)whole;
}

/* ---- steps ---- */

int weir_tls_shake_step(weir_tls_session *s)
{
	ERR_clear_error();
	int result = SSL_do_handshake(s->ssl);
	if (result == 1)
		return 1;
	switch (SSL_get_error(s->ssl, result)) {
	case SSL_ERROR_WANT_READ:
		return 0;
	case SSL_ERROR_WANT_WRITE:
		s->write_first = true;
		return 0;
	default:
		break;
	}
	/* A missing or wrong certificate is reported separately: that peer is unauthorised, not broken. */
	long verified = SSL_get_verify_result(s->ssl);
	int reason = ERR_GET_REASON(ERR_peek_last_error());
	bool denied = reason == SSL_R_CERTIFICATE_VERIFY_FAILED ||
		      reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE;
	const char *text = weir_tls_reason();
	if (denied && verified != X509_V_OK)
		text = X509_verify_cert_error_string(verified);
	weir_tls_fail(s, denied ? -EACCES : -EPROTO, text);
	return -EPROTO;
}

/* Reading stops meanwhile: a waiting handshake must not collect bytes. */
static void offer_step(weir_tls_session *s)
{
	weir_event_init(&s->event, 0);
	s->waiting = true;
	weir_verdict verdict = weir_offer(s->stage, &s->event);
	if (verdict == WEIR_ADMITTED) {
		weir_conn_pause(s->link->conn);
		return;
	}
	s->waiting = false;
	refuse(s, -EBUSY, ALERT_INTERNAL, weir_verdict_name(verdict));
}

static void take_step(weir_tls_session *s)
{
	if (weir_tls_shake_step(s) == 1)
		weir_tls_become_ready(s);
}

static void shake_server(weir_tls_session *s)
{
	int64_t whole = whole_records(s);
	if (whole < 0) {
		refuse(s, -EPROTO, ALERT_UNEXPECTED, "not a TLS record");
		return;
	}
	if (whole == 0 && !s->write_first)
		return;
	if (++s->steps > STEPS_MOST) {
		refuse(s, -EPROTO, ALERT_UNEXPECTED, "a handshake in too many records");
		return;
	}
	s->serve = (uint32_t)whole;
	s->write_first = false;
	if (s->stage != NULL)
		offer_step(s);
	else
		take_step(s);
}

/* To a backend that we chose: at once. */
static void shake_client(weir_tls_session *s)
{
	s->write_first = false;
	take_step(s);
}

void weir_tls_shake(weir_tls_session *s)
{
	if (s->waiting)
		return;
	if (s->tls != NULL)
		shake_server(s);
	else
		shake_client(s);
}

/* ---- the stage ---- */

static void after_step(weir_tls_session *s, int result)
{
	if (result == 1) {
		weir_tls_become_ready(s);
	} else if (result == 0) {
		weir_conn_resume(s->link->conn);
		/* What must be written first will be written when drained is called. */
		if (!s->write_first)
			weir_tls_shake(s);
	}
}

static void handle_one(weir_tls_session *s)
{
	s->waiting = false;
	if (s->link == NULL) {
		weir_fail(&s->event);
		weir_tls_session_destroy(s);
		return;
	}
	if (s->phase != WEIR_TLS_SHAKING || weir_tls_conn_is_gone(s)) {
		weir_fail(&s->event);
		return;
	}
	s->inside = true;
	int result = weir_tls_shake_step(s);
	if (result < 0)
		weir_fail(&s->event);
	else
		weir_done(&s->event);
	after_step(s, result);
	s->inside = false;
	weir_tls_pump(s);
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		handle_one(session_of(events[i]));
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	weir_tls_session *s = session_of(event);
	s->waiting = false;
	if (s->link == NULL)
		weir_tls_session_destroy(s);
	else if (s->phase == WEIR_TLS_SHAKING)
		refuse(s, -EBUSY, ALERT_INTERNAL, weir_verdict_name(why));
}

int weir_tls_stage_new(weir_domain *domain, uint32_t capacity, weir_stage **ret_stage)
{
	const weir_stage_options options = {
		.name = "handshake",
		.handle = handle,
		.drop = drop,
		.capacity = capacity,
		.no_inline = true,
		.batch = 1,
	};
	return weir_stage_new(domain, &options, ret_stage);
}
