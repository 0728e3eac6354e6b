/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of the access log. Each field that a client chooses has a maximum size for its escaped form. All
 * of these together fit into a line, and an escape is never cut. So every line is complete and ends with
 * its newline, whatever the input.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "log/log.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/*
 * Maximum bytes of the escaped form of each field. Together with the rest of a line, which is less than
 * 800 bytes, they fit into a line.
 */
enum {
	METHOD_SHARE = 64,
	PATH_SHARE = 3072,
	QUERY_SHARE = 1024,
	HOST_SHARE = 512,
	REFERER_SHARE = 1024,
	AGENT_SHARE = 512,
	TEXT_SHARE = 200, /* route, stage, shed, note, error: 5 of them */
	NAME_SHARE = 64,  /* class_name, session */
};
_Static_assert(METHOD_SHARE + PATH_SHARE + QUERY_SHARE + HOST_SHARE + REFERER_SHARE + AGENT_SHARE +
			       5 * TEXT_SHARE + 2 * NAME_SHARE + 800 <
		       WEIR_LOG_LINE_MAX,
	       "a line has room for all of its fields");

/* ---- the clock ---- */

#define RECHECK_S 1

static void print_local(char *text, size_t size, time_t second)
{
	static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
					   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
	struct tm t;
	localtime_r(&second, &t);
	long minutes = t.tm_gmtoff / 60;
	snprintf(text, size, "%02d/%s/%04d:%02d:%02d:%02d %c%02ld%02ld", t.tm_mday % 100, months[t.tm_mon],
		 (t.tm_year + 1900) % 10000, t.tm_hour % 100, t.tm_min % 100, t.tm_sec % 100,
		 minutes < 0 ? '-' : '+', (minutes < 0 ? -minutes : minutes) / 60 % 100,
		 (minutes < 0 ? -minutes : minutes) % 60);
}

static void print_utc(char *text, size_t size, time_t second)
{
	struct tm t;
	gmtime_r(&second, &t);
	snprintf(text, size, "%04d-%02d-%02dT%02d:%02d:%02d", (t.tm_year + 1900) % 10000,
		 (t.tm_mon + 1) % 100, t.tm_mday % 100, t.tm_hour % 100, t.tm_min % 100, t.tm_sec % 100);
}

void weir_log_clock_at(weir_log_clock *clock, int64_t wall_ns)
{
	int64_t second = wall_ns / 1000000000;
	clock->millisecond = (unsigned)(wall_ns % 1000000000 / 1000000);
	if (second == clock->second && clock->local[0] != '\0')
		return;
	clock->second = second;
	print_local(clock->local, sizeof(clock->local), (time_t)second);
	print_utc(clock->utc, sizeof(clock->utc), (time_t)second);
}

/* The offset between the two clocks is checked once a second: the wall clock may be set. */
void weir_log_clock_set(weir_log_clock *clock, uint64_t monotonic_ns)
{
	int64_t second = (int64_t)(monotonic_ns / WEIR_NS_PER_S);
	if (second != clock->checked_s || clock->local[0] == '\0') {
		struct timespec wall;
		clock_gettime(CLOCK_REALTIME, &wall);
		clock->wall_less_monotonic_ns =
			(int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (int64_t)weir_clock_ns();
		clock->checked_s = second;
	}
	weir_log_clock_at(clock, (int64_t)monotonic_ns + clock->wall_less_monotonic_ns);
}

/* ---- numbers, addresses ---- */

/* Inlined, so that a literal takes only a few moves. */
#define INLINE static inline __attribute__((always_inline))

INLINE char *put_text(char *at, const char *text)
{
	return stpcpy(at, text);
}

static char *put_number(char *at, uint64_t number)
{
	char digits[20];
	unsigned count = 0;
	do
		digits[count++] = (char)('0' + number % 10);
	while ((number /= 10) != 0);
	while (count > 0)
		*at++ = digits[--count];
	return at;
}

/* Milliseconds with three decimals. */
static char *put_ms(char *at, uint64_t ns)
{
	uint64_t us = ns / 1000;
	at = put_number(at, us / 1000);
	*at++ = '.';
	*at++ = (char)('0' + us / 100 % 10);
	*at++ = (char)('0' + us / 10 % 10);
	*at++ = (char)('0' + us % 10);
	return at;
}

static char *put_ipv4(char *at, const unsigned char *bytes)
{
	for (unsigned i = 0; i < 4; i++) {
		at = put_number(at, bytes[i]);
		*at++ = '.';
	}
	return at - 1;
}

static char *put_ipv6(char *at, const struct in6_addr *address)
{
	if (IN6_IS_ADDR_V4MAPPED(address))
		return put_ipv4(at, address->s6_addr + 12);
	inet_ntop(AF_INET6, address, at, INET6_ADDRSTRLEN);
	return at + strlen(at);
}

static char *put_address(char *at, const struct sockaddr *address)
{
	switch (address != NULL ? address->sa_family : AF_UNSPEC) {
	case AF_INET:
		return put_ipv4(at,
				(const unsigned char *)&((const struct sockaddr_in *)(const void *)address)
					->sin_addr.s_addr);
	case AF_INET6:
		return put_ipv6(at, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
	case AF_UNIX:
		return put_text(at, "unix");
	default:
		return put_text(at, "-");
	}
}

size_t weir_log_print_address(char *text, const struct sockaddr *address)
{
	char *end = put_address(text, address);
	*end = '\0';
	return (size_t)(end - text);
}

/* ---- escapes ---- */

static const char hex[] = "0123456789abcdef";

typedef struct escape {
	size_t used;     /* bytes of the input */
	unsigned length; /* of the output; 0: the bytes unchanged */
	char text[8];
} escape;

/* Bytes that are not printable ASCII, quotes and backslashes: \xHH, as other servers write them. */
static escape escape_plain(const unsigned char *at, size_t left)
{
	unsigned char c = *at;
	if (c >= ' ' && c <= '~' && c != '"' && c != '\\')
		return (escape){.used = 1};
	return (escape){1, 4, {'\\', 'x', hex[c >> 4], hex[c & 15]}};
}

/* Length of a complete and shortest UTF-8 sequence of a character that may occur in text; 0: it is none. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
	unsigned char c = at[0];
	size_t length = c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
	if (length == 0 || left < length)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	bool overlong = (c == 0xe0 && at[1] < 0xa0) || (c == 0xf0 && at[1] < 0x90);
	bool beyond = (c == 0xed && at[1] > 0x9f) || (c == 0xf4 && at[1] > 0x8f);
	return overlong || beyond ? 0 : length;
}

/*
 * NUL and bytes that are not UTF-8 become U+FFFD; DEL and the C1 controls are escaped to protect
 * terminals.
 */
static escape escape_json(const unsigned char *at, size_t left)
{
	unsigned char c = *at;
	if (c == '"' || c == '\\')
		return (escape){1, 2, {'\\', (char)c}};
	if (c == 0) /* many JSON readers refuse it */
		return (escape){1, 6, {'\\', 'u', 'f', 'f', 'f', 'd'}};
	if (c < ' ' || c == 127)
		return (escape){1, 6, {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}};
	if (c < 127)
		return (escape){.used = 1};
	size_t length = utf8_length(at, left);
	if (length == 0)
		return (escape){1, 6, {'\\', 'u', 'f', 'f', 'f', 'd'}};
	if (length == 2 && c == 0xc2 && at[1] < 0xa0)
		return (escape){2, 6, {'\\', 'u', '0', '0', hex[at[1] >> 4], hex[at[1] & 15]}};
	return (escape){.used = length};
}

typedef escape escaper(const unsigned char *at, size_t left);

/* How many of the next bytes are unchanged in both formats: nearly all, so sixteen are checked at a time. */
static size_t plain_run(const unsigned char *from, size_t left)
{
	size_t run = 0;
#ifdef __SSE2__
	for (; left - run >= 16; run += 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + run));
		/* As signed numbers, bytes beyond ASCII are less than a space. */
		__m128i odd = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(' ')),
					   _mm_cmpeq_epi8(bytes, _mm_set1_epi8(127)));
		odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')));
		odd = _mm_or_si128(odd, _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
		unsigned mask = (unsigned)_mm_movemask_epi8(odd);
		if (mask != 0)
			return run + (unsigned)__builtin_ctz(mask);
	}
#endif
	while (run < left && from[run] >= ' ' && from[run] < 127 && from[run] != '"' && from[run] != '\\')
		run++;
	return run;
}

/* At most `share` bytes; a text that is cut ends with "...". */
static inline char *put_escaped(char *at, weir_span span, size_t share, escaper *escape_one)
{
	const unsigned char *from = (const unsigned char *)span.at;
	size_t left = from != NULL ? span.length : 0, room = share - 3;
	while (left > 0) {
		escape e = {.used = plain_run(from, left < room + 1 ? left : room + 1)};
		if (e.used == 0)
			e = escape_one(from, left);
		size_t length = e.length != 0 ? e.length : e.used;
		if (length > room) {
			/* A run of plain bytes may be cut anywhere, a character or an escape may not. */
			size_t part = e.length == 0 && *from < 128 ? room : 0;
			memcpy(at, from, part);
			return put_text(at + part, "...");
		}
		memcpy(at, e.length != 0 ? e.text : (const char *)from, length);
		at += length;
		room -= length;
		from += e.used;
		left -= e.used;
	}
	return at;
}

static weir_span span_of(const char *text)
{
	return (weir_span){text, text != NULL ? strlen(text) : 0};
}

/* ---- combined ---- */

static char *put_plain(char *at, weir_span span, size_t share)
{
	return put_escaped(at, span, share, escape_plain);
}

/* Quoted; a missing value is "-". */
static char *put_quoted(char *at, weir_span span, size_t share)
{
	*at++ = '"';
	at = span.at == NULL ? put_text(at, "-") : put_plain(at, span, share);
	*at++ = '"';
	return at;
}

static char *put_version(char *at, unsigned version)
{
	at = put_text(at, "HTTP/");
	*at++ = (char)('0' + version / 10 % 10);
	*at++ = '.';
	*at++ = (char)('0' + version % 10);
	return at;
}

static char *put_request_line(char *at, const weir_log_entry *entry)
{
	if (entry->version == 0)
		return put_text(at, "\"-\"");
	*at++ = '"';
	at = put_plain(at, entry->method, METHOD_SHARE);
	*at++ = ' ';
	at = put_plain(at, entry->path, PATH_SHARE);
	if (entry->query.at != NULL) {
		*at++ = '?';
		at = put_plain(at, entry->query, QUERY_SHARE);
	}
	*at++ = ' ';
	at = put_version(at, entry->version);
	*at++ = '"';
	return at;
}

/* In name=value, the part that a client chose is always quoted. */
INLINE char *put_pair(char *at, const char *name, weir_span value, size_t share)
{
	if (value.at == NULL)
		return at;
	*at++ = ' ';
	at = put_text(at, name);
	return put_quoted(at, value, share);
}

size_t weir_log_format_combined(char *line, const weir_log_clock *clock, const weir_log_entry *entry)
{
	char *at = put_address(line, entry->client);
	at = put_text(at, " - - [");
	at = put_text(at, clock->local);
	at = put_text(at, "] ");
	at = put_request_line(at, entry);
	*at++ = ' ';
	at = put_number(at, entry->status);
	*at++ = ' ';
	at = put_number(at, entry->bytes);
	*at++ = ' ';
	at = put_quoted(at, entry->referer, REFERER_SHARE);
	*at++ = ' ';
	at = put_quoted(at, entry->agent, AGENT_SHARE);
	at = put_text(at, " ms=");
	at = put_ms(at, entry->duration_ns);
	at = put_text(at, " class=");
	at = put_number(at, entry->klass);
	at = put_pair(at, "class_name=", span_of(entry->class_name), NAME_SHARE);
	at = put_pair(at, "session=", span_of(entry->session), NAME_SHARE);
	at = put_pair(at, "route=", span_of(entry->route), TEXT_SHARE);
	at = put_pair(at, "shed=", span_of(entry->shed), TEXT_SHARE);
	at = put_pair(at, "note=", entry->note, TEXT_SHARE);
	at = put_pair(at, "error=", span_of(entry->error), TEXT_SHARE);
	if (entry->gone)
		at = put_text(at, " gone");
	*at++ = '\n';
	return (size_t)(at - line);
}

/* ---- JSON ---- */

INLINE char *put_member(char *at, const char *name, weir_span value, size_t share)
{
	if (value.at == NULL)
		return at;
	at = put_text(at, ",\"");
	at = put_text(at, name);
	at = put_text(at, "\":\"");
	at = put_escaped(at, value, share, escape_json);
	*at++ = '"';
	return at;
}

INLINE char *put_count(char *at, const char *name, uint64_t value)
{
	at = put_text(at, ",\"");
	at = put_text(at, name);
	at = put_text(at, "\":");
	return put_number(at, value);
}

INLINE char *put_time(char *at, const char *name, uint64_t ns)
{
	at = put_text(at, ",\"");
	at = put_text(at, name);
	at = put_text(at, "\":");
	return put_ms(at, ns);
}

static char *put_request(char *at, const weir_log_entry *entry)
{
	if (entry->version == 0)
		return at;
	at = put_member(at, "method", entry->method, METHOD_SHARE);
	at = put_member(at, "path", entry->path, PATH_SHARE);
	at = put_member(at, "query", entry->query, QUERY_SHARE);
	at = put_text(at, ",\"protocol\":\"");
	at = put_version(at, entry->version);
	*at++ = '"';
	at = put_member(at, "host", entry->host, HOST_SHARE);
	at = put_text(at, entry->secure ? ",\"scheme\":\"https\"" : ",\"scheme\":\"http\"");
	at = put_member(at, "referer", entry->referer, REFERER_SHARE);
	return put_member(at, "agent", entry->agent, AGENT_SHARE);
}

static char *put_fate(char *at, const weir_log_entry *entry)
{
	at = put_count(at, "status", entry->status);
	at = put_count(at, "bytes", entry->bytes);
	at = put_time(at, "ms", entry->duration_ns);
	if (entry->first_byte_ns != 0)
		at = put_time(at, "first_byte_ms", entry->first_byte_ns);
	at = put_count(at, "class", entry->klass);
	at = put_member(at, "class_name", span_of(entry->class_name), NAME_SHARE);
	at = put_member(at, "session", span_of(entry->session), NAME_SHARE);
	at = put_member(at, "route", span_of(entry->route), TEXT_SHARE);
	at = put_member(at, "stage", entry->stage, TEXT_SHARE);
	at = put_member(at, "shed", span_of(entry->shed), TEXT_SHARE);
	at = put_member(at, "note", entry->note, TEXT_SHARE);
	at = put_member(at, "error", span_of(entry->error), TEXT_SHARE);
	return entry->gone ? put_text(at, ",\"gone\":true") : at;
}

size_t weir_log_format_json(char *line, const weir_log_clock *clock, const weir_log_entry *entry)
{
	char *at = put_text(line, "{\"time\":\"");
	at = put_text(at, clock->utc);
	*at++ = '.';
	*at++ = (char)('0' + clock->millisecond / 100 % 10);
	*at++ = (char)('0' + clock->millisecond / 10 % 10);
	*at++ = (char)('0' + clock->millisecond % 10);
	at = put_text(at, "Z\",\"client\":\"");
	at = put_address(at, entry->client);
	*at++ = '"';
	at = put_request(at, entry);
	at = put_fate(at, entry);
	at = put_text(at, "}\n");
	return (size_t)(at - line);
}
