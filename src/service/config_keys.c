/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be configured: a table for each kind of block. To add a key: a field in its struct (config.h) and a row here, then
 * `weir check --markdown` for docs/config.md; LIVE if a reload changes it. Names are those that users of other servers would try first.
 */
#include <string.h>

#include "rules/match.h"
#include "rules/sessions.h"
#include "service/config_inside.h"

#define COUNT_MAX 4294967295.0
#define S         1e9
#define H         3600e9
#define KB        1024.0
#define MB        (1024.0 * KB)
#define GB        (1024.0 * MB)

static const char *const client_words[] = {"off", "optional", "required", NULL};
static const char *const tls_words[] = {"1.2", "1.3", NULL};
static const char *const format_words[] = {"combined", "json", NULL};
static const char *const level_words[] = {"debug", "info", "warn", "error", NULL};
static const char *const confine_words[] = {"off", "calls", "on", "strict", NULL};
static const char *const loop_words[] = {"auto", "epoll", "uring", NULL};

#define ROW(key, is, member, otherwise, tells, ...)                                       \
	{                                                                                 \
		.name = key, .kind = WEIR_CONFIG_##is, .offset = offsetof(BLOCK, member), \
		.initial = otherwise, .help = tells, __VA_ARGS__                          \
	}
#define ANY           .required = false
#define BETWEEN(a, b) .min = a, .max = b
/* What a reload does not change goes without; weir_config_keep says so to whoever changes it. */
#define LIVE .live = true

#define BLOCK weir_config_listen
static const weir_config_key listen_keys[] = {
	ROW("tls", SWITCH, tls, NULL, "TLS on this address; on where there is a certificate", ANY),
	ROW("certificate", PATHS, certificates, NULL,
	    "PEM files, leaf first; the first answers clients that name no other's host", LIVE),
	ROW("key", PATHS, keys, NULL, "PEM files, one for each certificate, in the same order", LIVE),
	ROW("client-certificate", CHOICE, client_certificate, "off", "whether clients may or must show one",
	    .words = client_words, LIVE),
	ROW("client-ca", PATH, client_ca, NULL,
	    "PEM file with the authorities that sign clients' certificates", LIVE),
	ROW("tls-version", CHOICE, tls_version, "1.2", "the oldest that is spoken", .words = tls_words, LIVE),
	ROW("ciphers", TEXT, ciphers, NULL,
	    "of TLS 1.2, as OpenSSL names them; by default those with forward secrecy", LIVE),
	ROW("tickets", SWITCH, tickets, "on", "sessions can be resumed", LIVE),
	ROW("http2", SWITCH, http2, "on", "HTTP/2 by ALPN, and without TLS by prior knowledge", ANY),
	ROW("proxy-protocol", SWITCH, proxy, "off",
	    "every connection begins with a PROXY header, version 1 or 2, which says who the client is", ANY),
	ROW("backlog", COUNT, backlog, "1024", "connections that wait to be accepted", BETWEEN(1, 65535)),
	ROW("max-connections", COUNT, max_connections, "65536", "open at once; more are not accepted",
	    BETWEEN(1, 10e6)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_admin
static const weir_config_key admin_keys[] = {
	ROW("token-file", PATH, token_file, NULL,
	    "its first line must be shown by those who change something, and by readers of an address that "
	    "is not loopback",
	    ANY),
	ROW("host", TEXTS, hosts, NULL,
	    "names that requests may ask for it by, besides localhost and addresses; others are refused",
	    ANY),
	ROW("page", SWITCH, page, "on", "the live page at /", LIVE),
	{0}};
#undef BLOCK

#define BLOCK weir_config_class
static const weir_config_key class_keys[] = {
	ROW("level", COUNT, level, NULL, "0 is the most important, shed last", BETWEEN(0, WEIR_CLASSES - 1),
	    .required = true),
	ROW("match", TEXTS, match, NULL, "rules that must all match; without any, every request does", ANY),
	{0}};
#undef BLOCK

#define BLOCK weir_config_route
static const weir_config_key route_keys[] = {
	ROW("match", TEXTS, match, NULL, "rules that must all match; without any, every request does", ANY),
	ROW("backend", TEXT, backend, NULL, "the backend block that gets its requests", ANY),
	ROW("root", PATH, root, NULL, "the folder whose files are served", ANY),
	ROW("demo", TEXT, demo, NULL, "a built-in page: bottleneck", ANY),
	ROW("index", TEXTS, index, "index.html", "files to look for in a folder", ANY),
	ROW("listing", SWITCH, listing, "off", "lists folders that have no index", ANY),
	ROW("class", TEXT, klass, NULL, "the class of all its requests; otherwise as the class blocks say",
	    ANY),
	ROW("target", TEXT, target, "default",
	    "the target block that its requests are held to; off: none. That there is no target default is "
	    "no mistake",
	    ANY),
	ROW("law", TEXT, law, NULL, "instead of its target's", ANY),
	ROW("exempt", SWITCH, exempt, "off",
	    "no law and no limit turns them away, a full queue does: health checks", ANY),
	ROW("queue", COUNT, queue, "1024", "requests that may wait for it", BETWEEN(1, 1e6)),
	ROW("deadline", TIME, deadline_ns, "0s",
	    "requests older than this are dropped instead of started; 0s: none", BETWEEN(0, 24 * H)),
	ROW("collect", SIZE, collect_bytes, "0",
	    "bodies up to this size are read whole before the request is let in; 0: handlers read them",
	    BETWEEN(0, GB)),
	ROW("reject", TEXT, reject, "503",
	    "what is answered to those turned away: a status (503, 429), redirect URL, page FILE", ANY),
	ROW("session", TEXT, session, NULL,
	    "admission by session, known by cookie NAME or header NAME: requests of a session that was let "
	    "in "
	    "keep their class, others are handled one level lower",
	    ANY),
	ROW("session-idle", TIME, session_idle_ns, "10m",
	    "a session that is not used for so long is forgotten", BETWEEN(1e9, 24 * H)),
	ROW("session-keys", COUNT, session_keys, "65536", "sessions that are remembered",
	    BETWEEN(1, WEIR_SESSIONS_KEYS_MAX)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_backend
static const weir_config_key backend_keys[] = {
	ROW("server", TEXTS, servers, NULL, "http://HOST:PORT or https://HOST:PORT, as many as there are",
	    .required = true),
	ROW("health", TEXT, health, NULL,
	    "path that answers with 2xx or 3xx while a server is well; requests for it, with whatever query, "
	    "are exempt, unless it is /; without one, a server is judged by its answers",
	    ANY),
	ROW("health-interval", TIME, health_interval_ns, "2s", "between two such checks", BETWEEN(10e6, H)),
	ROW("health-timeout", TIME, health_timeout_ns, "1s", "an answer that takes longer is none",
	    BETWEEN(1e6, H)),
	ROW("health-rise", COUNT, health_rise, "2", "good answers in a row that bring a server back",
	    BETWEEN(1, 1000)),
	ROW("health-fall", COUNT, health_fall, "3", "bad ones in a row that take it out", BETWEEN(1, 1000)),
	ROW("concurrency", COUNT, concurrency, "0",
	    "requests that all servers together work on at once, each until its answer begins; more wait in "
	    "the queue; 0: as "
	    "many as connections lets",
	    BETWEEN(0, 1e6)),
	ROW("connections", COUNT, connections, "1024", "to each server, at once", BETWEEN(1, 1e6)),
	ROW("idle-connections", COUNT, idle_connections, "64",
	    "to each server, kept by each thread for the next request", BETWEEN(1, 1e6)),
	ROW("idle-timeout", TIME, idle_timeout_ns, "50s",
	    "how long one is kept; less than the server keeps it", BETWEEN(1e6, 24 * H)),
	ROW("connect-timeout", TIME, connect_timeout_ns, "1s", "until a connection is made", BETWEEN(1e6, H)),
	ROW("first-byte-timeout", TIME, first_byte_timeout_ns, "30s", "until an answer begins",
	    BETWEEN(1e6, 24 * H)),
	ROW("body-timeout", TIME, body_timeout_ns, "30s", "between two parts of an answer",
	    BETWEEN(1e6, 24 * H)),
	ROW("retry-budget", FRACTION, retry_budget, "10%",
	    "retries of idempotent requests, as a part of all requests; each thread may besides make one a "
	    "second; 0: none",
	    BETWEEN(0, 1)),
	ROW("slow-start", TIME, slow_start_ns, "10s",
	    "how long a server that came back gets less than its share", BETWEEN(0, H)),
	ROW("host", TEXT, host, NULL, "the Host field it is sent; without one, the client's", ANY),
	ROW("forwarded", SWITCH, forwarded, "on", "adds X-Forwarded-For, -Proto and -Host", ANY),
	ROW("quality", SWITCH, quality, "on",
	    "adds Weir-Quality, by which it may degrade before anybody is turned away", ANY),
	ROW("heed-refusals", SWITCH, heed_refusals, "off",
	    "lets in no more than its servers take, once they answer with 429 or 503; for laws that do not "
	    "look at that, which adaptive-remote "
	    "does",
	    ANY),
	ROW("verify", SWITCH, verify, "on", "checks certificates of https servers", ANY),
	ROW("ca", PATH, ca, NULL, "PEM file with their authorities; without one, the system's", ANY),
	{0}};
#undef BLOCK

#define BLOCK weir_config_target
static const weir_config_key target_keys[] = {
	ROW("law", TEXT, law, NULL, "by default adaptive, and before a backend adaptive-remote", ANY),
	ROW("dry-run", SWITCH, dry_run, "off", "decides and counts, but turns nobody away", ANY),
	ROW("shed-ceiling", FRACTION, shed_ceiling, "100%", "at most this part is turned away",
	    BETWEEN(0, 1)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_limit
static const weir_config_key limit_keys[] = {
	ROW("match", TEXTS, match, NULL, "rules that must all match; without any, every request does", ANY),
	ROW("key", TEXT, key, "client", "who has a quota: client, header NAME, cookie NAME, all (together)",
	    ANY),
	ROW("rate", RATE, rate_per_s, NULL, "what is beyond it is answered with 429", BETWEEN(1e-3, 1e9),
	    .required = true),
	ROW("burst", NUMBER, burst, "0", "at once, after a pause; 0: those of a second", BETWEEN(0, 1e9)),
	ROW("keys", COUNT, keys, "65536", "that are remembered", BETWEEN(1, WEIR_QUOTA_KEYS_MAX)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_limits
static const weir_config_key limits_keys[] = {
	ROW("line", SIZE32, http.line_bytes, "8KB", "of a request line", BETWEEN(64, MB)),
	ROW("head", SIZE32, http.head_bytes, "32KB", "of a request line and all fields",
	    BETWEEN(256, 16 * MB)),
	ROW("fields", COUNT, http.fields, "100", "of a request", BETWEEN(1, 1000)),
	ROW("body", SIZE, http.body_bytes, "1GB", "of a request's body", BETWEEN(1, 1024 * GB)),
	ROW("body-rate", SIZE32, http.body_bytes_per_s, "100B",
	    "a second; slower bodies are cut after ten seconds", BETWEEN(1, GB)),
	ROW("requests", COUNT, http.requests, "0", "on one connection; 0: any number", BETWEEN(0, COUNT_MAX)),
	ROW("streams", COUNT, http.streams, "128", "of one HTTP/2 connection at once", BETWEEN(1, 10000)),
	ROW("output", SIZE32, http.output_bytes, "256KB", "of an answer that wait to be sent",
	    BETWEEN(16 * KB, GB)),
	ROW("handshake-timeout", TIME, http.handshake_ns, "10s", "of TLS", BETWEEN(1e6, H)),
	ROW("first-byte-timeout", TIME, http.first_byte_ns, "10s", "from accept to the first byte",
	    BETWEEN(1e6, H)),
	ROW("head-timeout", TIME, http.head_ns, "10s", "from the first byte to the last of the head",
	    BETWEEN(1e6, H)),
	ROW("body-timeout", TIME, http.body_gap_ns, "30s", "between two parts of a body", BETWEEN(1e6, H)),
	ROW("idle-timeout", TIME, http.idle_ns, "60s", "between two requests", BETWEEN(1e6, 24 * H)),
	ROW("output-timeout", TIME, http.output_ns, "30s", "without progress of an answer",
	    BETWEEN(1e6, 24 * H)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_log
static const weir_config_key log_keys[] = {
	ROW("access", OUTPUT, access, "off", "the access log: a file, - for standard output, or off", ANY),
	ROW("format", CHOICE, format, "combined", "of the access log", .words = format_words),
	ROW("error", OUTPUT, error, "-", "the error log: a file, - for standard error, or off", ANY),
	ROW("level", CHOICE, level, "info", "of the error log, the least that is said", .words = level_words),
	{0}};
#undef BLOCK

#define BLOCK weir_config_files
static const weir_config_key files_keys[] = {
	ROW("cache", SIZE, cache_bytes, "200MB", "memory for files", BETWEEN(0, 1024 * GB)),
	ROW("cache-file", SIZE, cache_file_bytes, "1MB", "the largest file that is kept in it",
	    BETWEEN(0, GB)),
	ROW("revalidate", TIME, revalidate_ns, "1s",
	    "how long a kept file is believed before it is looked at again", BETWEEN(0, 24 * H)),
	ROW("precompressed", SWITCH, precompressed, "on", "sends FILE.br, .zst or .gz to those who take it",
	    ANY),
	ROW("types", PATH, types, NULL, "a file as /etc/mime.types, on top of the built-in types", ANY),
	{0}};
#undef BLOCK

#define BLOCK weir_config_process
static const weir_config_key process_keys[] = {
	ROW("user", TEXT, user, NULL, "to become once the addresses are bound; needs root", ANY),
	ROW("group", TEXT, group, NULL, "likewise; by default the user's own", ANY),
	ROW("threads", COUNT, threads, "0", "that serve; 0: one for each core", BETWEEN(0, 1024)),
	ROW("drain-delay", TIME, drain_delay_ns, "0s",
	    "how long an end goes on serving while /readyz says 503 already, so that balancers hear of it "
	    "before connections are refused",
	    BETWEEN(0, H), LIVE),
	ROW("drain-timeout", TIME, drain_timeout_ns, "30s", "how long an end waits for requests under way",
	    BETWEEN(0, H), LIVE),
	ROW("loop", CHOICE, loop, "auto", "the back end of the event loop", .words = loop_words),
	ROW("confine", CHOICE, confine, "on",
	    "what it gives up at the start, where the kernel lets it; config.md says what each word means",
	    .words = confine_words),
	ROW("allow-read", PATHS, allow_read, NULL,
	    "files and folders that may be read and executed besides, also by what a reload brings", ANY),
	ROW("allow-write", PATHS, allow_write, NULL, "files and folders that may be changed besides the logs",
	    ANY),
	{0}};
#undef BLOCK

#define BLOCK weir_config_resources
static const weir_config_key resources_keys[] = {
	ROW("memory", FRACTION, memory, "90%",
	    "of the control group's limit, or of the machine's if we have a twentieth of it; 0: never",
	    BETWEEN(0, .99)),
	ROW("cpu", FRACTION, cpu, "0",
	    "of the last ten seconds in which somebody waited for a processor (PSI); 0: never, as a busy "
	    "machine is no "
	    "mistake",
	    BETWEEN(0, .99)),
	ROW("loop-lag", TIME, loop_lag_ns, "500ms", "that an event loop is late; 0s: never",
	    BETWEEN(0, 60 * S)),
	{0}};
#undef BLOCK

#define MANY(array, count) offsetof(weir_config, array), offsetof(weir_config, count)
#define ONE(member)        offsetof(weir_config, member), 0

const weir_config_block weir_config_blocks[] = {
	{"listen", "address, as 127.0.0.1:8080, [::1]:8080 or *:8080",
	 "An address that is served. Without any: 127.0.0.1:8080.", listen_keys, sizeof(weir_config_listen),
	 MANY(listen, listens), 0, false},
	{"admin", "address, or off", "Where metrics, API and live page are. Without one: 127.0.0.1:7777.",
	 admin_keys, sizeof(weir_config_admin), ONE(admin), 0, false},
	{"class", "name",
	 "How important requests are. The first whose rules match is taken; those that none matches are of "
	 "level 0.",
	 class_keys, sizeof(weir_config_class), MANY(klass, classes), 0, true},
	{"route", "name",
	 "Where requests go. The first whose rules match is taken; those that none matches are answered with "
	 "404. Other keys than these "
	 "are parameters of its law, instead of its target's.",
	 route_keys, sizeof(weir_config_route), MANY(route, routes), offsetof(weir_config_route, params),
	 true},
	{"backend", "name", "Servers that do the same work.", backend_keys, sizeof(weir_config_backend),
	 MANY(backend, backends), 0, true},
	{"target", "name",
	 "A response time to hold. Other keys than these are parameters of its law: p90 = 200ms is all that "
	 "is needed; target[2] = 1s and "
	 "minimum[2] = .05 are for class level 2.",
	 target_keys, sizeof(weir_config_target), MANY(target, targets), offsetof(weir_config_target, params),
	 true},
	{"limit", "name", "A quota. Every one whose rules match is asked, in order, before the route's law.",
	 limit_keys, sizeof(weir_config_limit), MANY(limit, limits), 0, true},
	{"limits", NULL, "What clients may make the server keep, or wait for.", limits_keys,
	 sizeof(weir_config_limits), ONE(http), 0, false},
	{"log", NULL, "Logs; logs.md has their formats.", log_keys, sizeof(weir_config_log), ONE(log), 0,
	 false},
	{"files", NULL, "Files of the routes with a root.", files_keys, sizeof(weir_config_files), ONE(files),
	 0, false},
	{"process", NULL, "The process itself.", process_keys, sizeof(weir_config_process), ONE(process), 0,
	 false},
	{"resources", NULL,
	 "What the whole process may use: beyond it requests are turned away whatever their targets say, "
	 "lowest class first, "
	 "and more the further beyond. What the system does not tell is not watched.",
	 resources_keys, sizeof(weir_config_resources), ONE(resources), 0, true},
	{0}};

const weir_config_block *weir_config_block_find(const char *name)
{
	for (const weir_config_block *block = weir_config_blocks; block->name != NULL; block++)
		if (strcmp(block->name, name) == 0)
			return block;
	return NULL;
}

const weir_config_key *weir_config_key_find(const weir_config_block *block, const char *name)
{
	for (const weir_config_key *key = block->keys; key->name != NULL; key++)
		if (strcmp(key->name, name) == 0)
			return key;
	return NULL;
}

const char *weir_config_block_name_at(const void *ignored, size_t at)
{
	return weir_config_blocks[at].name;
}

const char *weir_config_key_name_at(const void *keys, size_t at)
{
	return ((const weir_config_key *)keys)[at].name;
}

const char *weir_config_kind_text(weir_config_kind kind)
{
	static const char *const texts[] = {
		[WEIR_CONFIG_TEXT] = "text",
		[WEIR_CONFIG_PATH] = "file",
		[WEIR_CONFIG_OUTPUT] = "file",
		[WEIR_CONFIG_TEXTS] = "list of texts",
		[WEIR_CONFIG_PATHS] = "list of files",
		[WEIR_CONFIG_SWITCH] = "on or off",
		[WEIR_CONFIG_COUNT] = "number",
		[WEIR_CONFIG_SIZE] = "size",
		[WEIR_CONFIG_SIZE32] = "size",
		[WEIR_CONFIG_TIME] = "time",
		[WEIR_CONFIG_NUMBER] = "number",
		[WEIR_CONFIG_FRACTION] = "part, as 10% or .1",
		[WEIR_CONFIG_RATE] = "rate, as 100/s or 600/m",
		[WEIR_CONFIG_CHOICE] = "one of",
	};
	return texts[kind];
}

weir_config_head *weir_config_element(const weir_config *config, const weir_config_block *block, unsigned at)
{
	const char *base = (const char *)config;
	unsigned count;
	char *array;
	if (block->count_offset == 0)
		return at == 0 ? (weir_config_head *)(void *)(base + block->offset) : NULL;
	memcpy(&count, base + block->count_offset, sizeof(count));
	memcpy(&array, base + block->offset, sizeof(array));
	return at < count ? (weir_config_head *)(void *)(array + at * block->size) : NULL;
}
