/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be configured for every service: a table for each block. To add a key, add a field to its struct
 * (config.h) and a row here, LIVE if a reload changes it; then put the output of `weir check --markdown` into
 * docs/config.md. Names are those that users of other servers would try first. Kinds have tables of their
 * own.
 */

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
static const char *const police_words[] = {"law", "batch", "threshold", "auto", "value", NULL};
static const char *const loop_words[] = {"auto", "epoll", "uring", NULL};

#define ROW(key, is, member, ...) WEIR_KEY(key, is, BLOCK, member, __VA_ARGS__)
#define BETWEEN(a, b)             .min = a, .max = b
/* Without LIVE, a reload does not change a key; weir_config_keep reports an attempt. */
#define LIVE .flags = WEIR_KEY_LIVE

#define BLOCK weir_config_listen
static const weir_key listen_keys[] = {
	ROW("tls", SWITCH, tls, NULL, "TLS on this address; on where there is a certificate"),
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
	ROW("http2", SWITCH, http2, "on", "HTTP/2 by ALPN, and without TLS by prior knowledge"),
	ROW("proxy-protocol", SWITCH, proxy, "off",
	    "every connection begins with a PROXY header, version 1 or 2, which says who the client is"),
	ROW("backlog", COUNT, backlog, "1024", "connections that wait to be accepted", BETWEEN(1, 65535)),
	ROW("max-connections", COUNT, max_connections, "65536", "open at once; more are not accepted",
	    BETWEEN(1, 10e6)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_admin
static const weir_key admin_keys[] = {
	ROW("token-file", PATH, token_file, NULL,
	    "its first line must be shown by those who change something, and by readers of an address that "
	    "is not loopback"),
	ROW("host", TEXTS, hosts, NULL,
	    "names that requests may ask for it by, besides localhost and addresses; others are refused"),
	ROW("page", SWITCH, page, "on", "the live page at /", LIVE),
	{0}};
#undef BLOCK

#define BLOCK weir_config_class
static const weir_key class_keys[] = {
	ROW("level", COUNT, level, NULL, "0 is the most important, shed last", BETWEEN(0, WEIR_CLASSES - 1),
	    .flags = WEIR_KEY_REQUIRED),
	ROW("match", TEXTS, match, NULL, "rules that must all match; without any, every request does"),
	ROW("revenue", NUMBER, revenue, NULL,
	    "what a request earns that is answered within the promised time; without it 1. Before a backend, "
	    "what must be shed is then chosen by revenue per cost (law value)",
	    BETWEEN(1e-6, 1e9)),
	ROW("guaranteed", RATE, guaranteed_per_s, NULL,
	    "requests up to this rate are admitted whatever the load", BETWEEN(0, 1e6)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_sla
static const weir_key sla_keys[] = {
	ROW("percentile", PERCENTILE, percentile, "p95", "the share of the answers that should come in time",
	    BETWEEN(.5, .999)),
	ROW("times", TEXTS, times, NULL,
	    "the promised response time by arrival rate: {\"1s below 1000/s\", \"2s below 10000/s\", "
	    "\"3s\"}",
	    .flags = WEIR_KEY_REQUIRED),
	{0}};
#undef BLOCK

#define BLOCK weir_config_route
static const weir_key route_keys[] = {
	ROW("match", TEXTS, match, NULL, "rules that must all match; without any, every request does"),
	ROW("class", TEXT, klass, NULL, "the class of all its requests; otherwise as the class blocks say"),
	ROW("target", TEXT, target, "default",
	    "the target block that its requests are held to; off: none. That there is no target default is "
	    "no mistake"),
	ROW("law", TEXT, law, NULL, "instead of its target's"),
	ROW("exempt", SWITCH, exempt, "off",
	    "no law and no limit turns them away, a full queue does: health checks"),
	ROW("queue", COUNT, queue, "1024", "requests that may wait for it", BETWEEN(1, 1e6)),
	ROW("deadline", TIME, deadline_ns, "0s",
	    "requests older than this are dropped instead of started; 0s: none", BETWEEN(0, 24 * H)),
	ROW("collect", SIZE, collect_bytes, "0",
	    "bodies up to this size are read whole before the request is let in; 0: handlers read them",
	    BETWEEN(0, GB)),
	ROW("reject", TEXT, reject, "503",
	    "what is answered to those turned away: a status (503, 429), redirect URL, page FILE"),
	ROW("session", TEXT, session, NULL,
	    "admission by session, known by cookie NAME or header NAME: requests of a session that was let "
	    "in "
	    "keep their class, others are handled one level lower"),
	ROW("session-idle", TIME, session_idle_ns, "10m",
	    "a session that is not used for so long is forgotten", BETWEEN(1e9, 24 * H)),
	ROW("session-keys", COUNT, session_keys, "65536", "sessions that are remembered",
	    BETWEEN(1, WEIR_SESSIONS_KEYS_MAX)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_target
static const weir_key target_keys[] = {
	ROW("law", TEXT, law, NULL, "by default adaptive, and before a backend adaptive-remote"),
	ROW("sla", TEXT, sla, NULL, "the sla block whose times it holds, instead of a time of its own",
	    .block = "sla"),
	ROW("police", CHOICE, police, "law",
	    "how requests are chosen: as the law does, or by Cataclysm's policing: batch, threshold, auto "
	    "(either, by the processor's use); or value: by revenue per cost",
	    .words = police_words),
	ROW("dry-run", SWITCH, dry_run, "off", "decides and counts, but turns nobody away"),
	ROW("shed-ceiling", FRACTION, shed_ceiling, "100%", "at most this part is turned away",
	    BETWEEN(0, 1)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_limit
static const weir_key limit_keys[] = {
	ROW("match", TEXTS, match, NULL, "rules that must all match; without any, every request does"),
	ROW("key", TEXT, key, "client", "who has a quota: client, header NAME, cookie NAME, all (together)"),
	ROW("rate", RATE, rate_per_s, NULL, "what is beyond it is answered with 429", BETWEEN(1e-3, 1e9),
	    .flags = WEIR_KEY_REQUIRED),
	ROW("burst", NUMBER, burst, "0", "at once, after a pause; 0: those of a second", BETWEEN(0, 1e9)),
	ROW("keys", COUNT, keys, "65536", "that are remembered", BETWEEN(1, WEIR_QUOTA_KEYS_MAX)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_limits
static const weir_key limits_keys[] = {
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
	ROW("shed-details", SWITCH, shed_details, "on",
	    "tells rejected clients why, with the names of stages, in the field Weir-Shed"),
	{0}};
#undef BLOCK

#define BLOCK weir_config_log
static const weir_key log_keys[] = {
	ROW("access", OUTPUT, access, "off", "the access log: a file, - for standard output, or off"),
	ROW("format", CHOICE, format, "combined", "of the access log", .words = format_words),
	ROW("error", OUTPUT, error, "-", "the error log: a file, - for standard error, or off"),
	ROW("level", CHOICE, level, "info", "of the error log, the least that is said", .words = level_words),
	{0}};
#undef BLOCK

#define BLOCK weir_config_process
static const weir_key process_keys[] = {
	ROW("user", TEXT, user, NULL, "to become once the addresses are bound; needs root"),
	ROW("group", TEXT, group, NULL, "likewise; by default the user's own"),
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
	    "files and folders that may be read and executed besides, also by what a reload brings",
	    .flags = WEIR_KEY_ALLOW),
	ROW("allow-write", PATHS, allow_write, NULL, "files and folders that may be changed besides the logs",
	    .flags = WEIR_KEY_ALLOW | WEIR_KEY_WRITTEN),
	{0}};
#undef BLOCK

#define BLOCK weir_config_resources
static const weir_key resources_keys[] = {
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

#define MANY(array, count) \
	.offset = offsetof(weir_config, array), .count_offset = offsetof(weir_config, count)
#define ONE(member) .offset = offsetof(weir_config, member)

const weir_config_core weir_config_core_blocks[] = {
	{{"listen", "address, as 127.0.0.1:8080, [::1]:8080 or *:8080",
	  "An address that is served. Without any: 127.0.0.1:8080.", listen_keys, sizeof(weir_config_listen),
	  .single = false},
	 MANY(listen, listens)},
	{{"admin", "address, or off", "Where metrics, API and live page are. Without one: 127.0.0.1:7777.",
	  admin_keys, sizeof(weir_config_admin), .single = true},
	 ONE(admin)},
	{{"class", "name",
	  "How important requests are. The first whose rules match is taken; those that none matches are of "
	  "level 0.",
	  class_keys, sizeof(weir_config_class), .live = true},
	 MANY(klass, classes)},
	{{"route", "name",
	  "Where requests go. The first whose rules match is taken; those that none matches are answered "
	  "with "
	  "404. Other keys than these are parameters of its law, instead of its target's.",
	  route_keys, sizeof(weir_config_route), .live = true},
	 MANY(route, routes),
	 .params_offset = offsetof(weir_config_route, params)},
	{{"target", "name",
	  "A response time to hold. Other keys than these are parameters of its law: p90 = 200ms is all that "
	  "is needed; target[2] = 1s and minimum[2] = .05 are for class level 2.",
	  target_keys, sizeof(weir_config_target), .live = true},
	 MANY(target, targets),
	 .params_offset = offsetof(weir_config_target, params)},
	{{"sla", "name",
	  "A service level agreement: the response time that is promised depends on how many requests "
	  "arrive.",
	  sla_keys, sizeof(weir_config_sla), .live = true},
	 MANY(sla, slas)},
	{{"limit", "name", "A quota. Every one whose rules match is asked, in order, before the route's law.",
	  limit_keys, sizeof(weir_config_limit), .live = true},
	 MANY(limit, limits)},
	{{"limits", NULL, "What clients may make the server keep, or wait for.", limits_keys,
	  sizeof(weir_config_limits), .single = true},
	 ONE(http)},
	{{"log", NULL, "Logs; logs.md has their formats.", log_keys, sizeof(weir_config_log), .single = true},
	 ONE(log)},
	{{"process", NULL, "The process itself.", process_keys, sizeof(weir_config_process), .single = true},
	 ONE(process)},
	{{"resources", NULL,
	  "What the whole process may use: beyond it requests are turned away whatever their targets say, "
	  "lowest class first, and more the further beyond. What the system does not tell is not watched.",
	  resources_keys, sizeof(weir_config_resources), .single = true, .live = true},
	 ONE(resources)},
	{{0}, 0, 0, 0}};
