/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be configured for every service: a table for each block. To add a key, add a field to its struct
 * (config.h) and a row here, LIVE if a reload changes it; then run `tools/manuals`. Names are those that users of
 * other servers would try first. Kinds have tables of their own.
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
static const char *const path_words[] = {"cleaned", "raw", NULL};
static const char *const scheduling_words[] = {"fair", "srpt", "classes", "kernel", NULL};
static const char *const loop_words[] = {"auto", "epoll", "uring", NULL};

#define ROW(key, is, member, ...) WEIR_KEY(key, is, BLOCK, member, __VA_ARGS__)
#define BETWEEN(a, b)             .min = a, .max = b
/* Without LIVE, a reload does not change a key; weir_config_keep reports an attempt. */
#define LIVE .flags = WEIR_KEY_LIVE

static const weir_key_form mode_form = {"file mode, as 0660", sizeof(uint32_t), weir_config_read_mode};

#define BLOCK weir_config_listen
static const weir_key listen_keys[] = {
	ROW("tls", SWITCH, tls, NULL, "Speaks TLS on this address. Without it: on if there is a certificate"),
	ROW("certificate", PATHS, certificates, NULL,
	    "PEM files, each with the leaf first. The first is for clients that ask for a host of none of "
	    "them",
	    LIVE),
	ROW("key", PATHS, keys, NULL, "PEM files, one for each certificate, in the same order", LIVE),
	ROW("client-certificate", CHOICE, client_certificate, "off",
	    "Whether clients may or must show a certificate", .words = client_words, LIVE),
	ROW("client-ca", PATH, client_ca, NULL,
	    "A PEM file with the authorities that sign clients' certificates", LIVE),
	ROW("tls-version", CHOICE, tls_version, "1.2", "The oldest version of TLS that is accepted",
	    .words = tls_words, LIVE),
	ROW("ciphers", TEXT, ciphers, NULL,
	    "The ciphers of TLS 1.2, as OpenSSL names them. Without it: those with forward secrecy", LIVE),
	ROW("tickets", SWITCH, tickets, "on", "TLS sessions can be resumed", LIVE),
	ROW("http2", SWITCH, http2, "on", "Speaks HTTP/2: by ALPN, and without TLS by prior knowledge"),
	ROW("proxy-protocol", SWITCH, proxy, "off",
	    "Every connection begins with a PROXY header, version 1 or 2, which names the client"),
	ROW("trusted-proxies", TEXTS, trusted, NULL,
	    "Addresses and networks of proxies in front, as 10.0.0.0/8, or unix for those on a Unix socket. "
	    "From "
	    "these the client is who X-Forwarded-For says",
	    BETWEEN(0, 256)),
	ROW("weir-hops", SWITCH, hops, "off",
	    "Believes Weir-Class and Weir-Deadline from trusted-proxies. These must be Weirs (pass-on of the "
	    "backend), or remove such fields where clients send them"),
	ROW("backlog", COUNT, backlog, "1024", "The number of connections that may wait to be accepted",
	    BETWEEN(1, 65535)),
	ROW("max-connections", COUNT, max_connections, "65536",
	    "The number of connections open at once. Further ones are not accepted", BETWEEN(1, 10e6)),
	ROW("mode", FORM, mode, NULL,
	    "The mode of a Unix socket's file. Who may write to it may connect. Without it: by the umask",
	    .form = &mode_form, LIVE),
	ROW("user", TEXT, user, NULL, "The owner of a Unix socket's file, by name or number. Needs root",
	    LIVE),
	ROW("group", TEXT, group, NULL, "The group of a Unix socket's file, by name or number", LIVE),
	{0}};
#undef BLOCK

#define BLOCK weir_config_admin
static const weir_key admin_keys[] = {
	ROW("token-file", PATH, token_file, NULL,
	    "The first line of this file is the token. It is required for changes, and for reading if the "
	    "address is not loopback",
	    .flags = WEIR_KEY_TOKEN),
	ROW("host", TEXTS, hosts, NULL,
	    "Host names that requests may use, besides localhost and addresses. Other names are refused"),
	ROW("page", SWITCH, page, "on", "Serves the live page at /", LIVE),
	{0}};
#undef BLOCK

#define BLOCK weir_config_class
static const weir_key class_keys[] = {
	ROW("level", COUNT, level, NULL, "The importance: 0 is the highest, and shed last",
	    BETWEEN(0, WEIR_CLASSES - 1), .flags = WEIR_KEY_REQUIRED),
	ROW("match", TEXTS, match, NULL, "Rules that must all match. Without any, every request matches"),
	ROW("revenue", NUMBER, revenue, NULL,
	    "The revenue of a request that is answered within the promised time. Without it: 1. Before a "
	    "backend, requests to shed are then chosen by revenue per cost (law value)",
	    BETWEEN(1e-6, 1e9)),
	ROW("guaranteed", RATE, guaranteed_per_s, NULL,
	    "Requests up to this rate are admitted whatever the load; each backend counts by itself",
	    BETWEEN(0, 1e6)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_sla
static const weir_key sla_keys[] = {
	ROW("percentile", PERCENTILE, percentile, "p95", "The share of the answers that should come in time",
	    BETWEEN(.5, .999)),
	ROW("times", TEXTS, times, NULL,
	    "The promised response time by arrival rate: {\"1s below 1000/s\", \"2s below 10000/s\", \"3s\"}",
	    .flags = WEIR_KEY_REQUIRED),
	{0}};
#undef BLOCK

#define BLOCK weir_config_route
static const weir_key route_keys[] = {
	ROW("match", TEXTS, match, NULL, "Rules that must all match. Without any, every request matches"),
	ROW("class", TEXT, klass, NULL, "The class of all its requests. Without it: as the class blocks say"),
	ROW("target", TEXT, target, "default",
	    "The target block for its requests; off: none. A configuration without a target named default is "
	    "valid"),
	ROW("law", TEXT, law, NULL, "The law, instead of its target's"),
	ROW("exempt", SWITCH, exempt, "off",
	    "No law and no limit rejects its requests; only a full queue does. For health checks"),
	ROW("queue", COUNT, queue, "1024", "The number of requests that may wait", BETWEEN(1, 1e6)),
	ROW("deadline", TIME, deadline_ns, "0s",
	    "Requests older than this are dropped instead of started; 0s: none", BETWEEN(0, 24 * H)),
	ROW("collect", SIZE, collect_bytes, "0",
	    "Bodies up to this size are read whole before admission; 0: handlers read them", BETWEEN(0, GB)),
	ROW("gather", SIZE, gather_bytes, "64KB",
	    "A request is offered to its stage once this much of its body has arrived, or all of it, so that "
	    "slow clients take no place; 0: once its head has arrived",
	    BETWEEN(0, 64 * MB)),
	ROW("reject", TEXT, reject, "503",
	    "The answer to rejected requests: a status (503, 429), redirect URL, or page FILE"),
	ROW("session", TEXT, session, NULL,
	    "Admission by session, known by cookie NAME or header NAME. Requests of an admitted session keep "
	    "their class, others are handled one level lower"),
	ROW("session-idle", TIME, session_idle_ns, "10m", "A session that is idle for this long is forgotten",
	    BETWEEN(1e9, 24 * H)),
	ROW("session-keys", COUNT, session_keys, "65536", "The number of sessions that are remembered",
	    BETWEEN(1, WEIR_SESSIONS_KEYS_MAX)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_target
static const weir_key target_keys[] = {
	ROW("law", TEXT, law, NULL, "The law. Without it: adaptive, and before a backend adaptive-remote"),
	ROW("sla", TEXT, sla, NULL, "The sla block whose times it holds, instead of a time of its own",
	    .block = "sla"),
	ROW("police", CHOICE, police, "law",
	    "How requests are chosen: by the law; by Cataclysm's policing (batch, threshold, or auto, which "
	    "chooses by the "
	    "processor's use); or by value, which is revenue per cost",
	    .words = police_words),
	ROW("dry-run", SWITCH, dry_run, "off", "The law decides and counts, but nothing is rejected"),
	ROW("shed-ceiling", FRACTION, shed_ceiling, "100%",
	    "The largest fraction of the requests that the law may reject", BETWEEN(0, 1)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_limit
static const weir_key limit_keys[] = {
	ROW("match", TEXTS, match, NULL, "Rules that must all match. Without any, every request matches"),
	ROW("key", TEXT, key, "client",
	    "Who has a quota: each client, header NAME or cookie NAME; or all of them together"),
	ROW("rate", RATE, rate_per_s, NULL, "The rate. Requests beyond it are answered with 429",
	    BETWEEN(1e-3, 1e9), .flags = WEIR_KEY_REQUIRED),
	ROW("burst", NUMBER, burst, "0",
	    "The requests that may come at once, after a pause; 0: those of a second", BETWEEN(0, 1e9)),
	ROW("keys", COUNT, keys, "65536", "The number of clients, or other keys, that are remembered",
	    BETWEEN(1, WEIR_QUOTA_KEYS_MAX)),
	{0}};
#undef BLOCK

#define BLOCK weir_config_limits
static const weir_key limits_keys[] = {
	ROW("line", SIZE32, http.line_bytes, "8KB", "The longest request line", BETWEEN(64, MB)),
	ROW("head", SIZE32, http.head_bytes, "32KB", "The longest request line with all fields",
	    BETWEEN(256, 16 * MB)),
	ROW("fields", COUNT, http.fields, "100", "The number of fields of a request", BETWEEN(1, 1000)),
	ROW("body", SIZE, http.body_bytes, "1GB", "The longest body of a request", BETWEEN(1, 1024 * GB),
	    LIVE),
	ROW("gather", SIZE, http.gather_bytes, "64MB",
	    "The memory for bodies that are being gathered. While it is used up, requests do not wait for "
	    "their "
	    "bodies",
	    BETWEEN(64 * KB, 64 * GB), LIVE),
	ROW("body-rate", SIZE32, http.body_bytes_per_s, "100B",
	    "The lowest rate of a body, per second. Slower bodies are cut after ten seconds", BETWEEN(1, GB),
	    LIVE),
	ROW("requests", COUNT, http.requests, "0", "The number of requests on one connection; 0: any number",
	    BETWEEN(0, COUNT_MAX), LIVE),
	ROW("streams", COUNT, http.streams, "128", "The number of concurrent streams of an HTTP/2 connection",
	    BETWEEN(1, 10000)),
	ROW("output", SIZE32, http.output_bytes, "256KB", "The bytes of an answer that may wait to be sent",
	    BETWEEN(16 * KB, GB)),
	ROW("handshake-timeout", TIME, http.handshake_ns, "10s", "The time for a TLS handshake",
	    BETWEEN(1e6, H), LIVE),
	ROW("first-byte-timeout", TIME, http.first_byte_ns, "10s", "The time from accept to the first byte",
	    BETWEEN(1e6, H), LIVE),
	ROW("head-timeout", TIME, http.head_ns, "10s", "The time from the first byte to the end of the head",
	    BETWEEN(1e6, H), LIVE),
	ROW("body-timeout", TIME, http.body_gap_ns, "30s", "The time between two parts of a body",
	    BETWEEN(1e6, H), LIVE),
	ROW("idle-timeout", TIME, http.idle_ns, "60s", "The time between two requests", BETWEEN(1e6, 24 * H),
	    LIVE),
	ROW("output-timeout", TIME, http.output_ns, "30s", "The time that an answer may make no progress",
	    BETWEEN(1e6, 24 * H)),
	ROW("hammering", RATE, http.hammering_per_s, "0/s",
	    "Rejections to one address beyond this rate wait for hammering-delay before they are sent; 0/s: "
	    "none wait",
	    BETWEEN(0, 1e9)),
	ROW("hammering-delay", TIME, http.hammering_delay_ns, "250ms",
	    "The time that a rejection to such a client waits", BETWEEN(1e6, 60e9), LIVE),
	ROW("requests-at-once", COUNT, http.requests_at_once, "65536",
	    "The number of requests of all connections that are in progress at once. Further ones are "
	    "rejected",
	    BETWEEN(1, 10e6), LIVE),
	ROW("client-share", FRACTION, http.client_share, "25%",
	    "While three quarters of the connections, of requests-at-once, of gather, of a queue or of a "
	    "backend's "
	    "connections are in use, a client address that holds this part of them gets no more, unless it "
	    "is the "
	    "only one. 100%: no such bound",
	    BETWEEN(.001, 1), LIVE),
	ROW("shed-details", SWITCH, shed_details, "on",
	    "Tells rejected clients the reason, with the names of stages, in the field Weir-Shed"),
	ROW("server-field", SWITCH, server_field, "on",
	    "Answers have the field 'Server: weir', instead of that of a backend's server; off: they have "
	    "none. Those of the admin listener always do"),
	ROW("server-timing", SWITCH, server_timing, "off",
	    "Tells in the field Server-Timing how long a request waited for its turn and, from pools of "
	    "threads, its processor time, for a sentry in front"),
	ROW("paths", CHOICE, paths, "cleaned",
	    "Whether rules see paths decoded with dot segments resolved, and backends get the same; or as "
	    "they were sent",
	    .words = path_words, LIVE),
	ROW("endpoint-load-metrics", SWITCH, load_metrics, "off",
	    "Tells in the field endpoint-load-metrics, as ORCA's text, how busy this server is, for a sentry "
	    "or "
	    "another proxy in front. Whoever can ask can read it"),
	{0}};
#undef BLOCK

#define BLOCK weir_config_log
static const weir_key log_keys[] = {
	ROW("access", OUTPUT, access, "off", "The access log: a file, - for standard output, or off", LIVE),
	ROW("format", CHOICE, format, "combined", "The format of the access log", .words = format_words,
	    LIVE),
	ROW("error", OUTPUT, error, "-", "The error log: a file, - for standard error, or off", LIVE),
	ROW("level", CHOICE, level, "info", "The lowest level that the error log has", .words = level_words,
	    LIVE),
	{0}};
#undef BLOCK

#define BLOCK weir_config_process
static const weir_key process_keys[] = {
	ROW("user", TEXT, user, NULL, "The user to become once the addresses are bound. Needs root"),
	ROW("group", TEXT, group, NULL, "The group to become. Without it: the user's own"),
	ROW("threads", COUNT, threads, "0", "The number of serving threads; 0: one per core",
	    BETWEEN(0, 1024)),
	ROW("drain-delay", TIME, drain_delay_ns, "0s",
	    "At the end, the process goes on serving for this long while /readyz answers 503, so that load "
	    "balancers notice before connections are refused",
	    BETWEEN(0, H), LIVE),
	ROW("drain-timeout", TIME, drain_timeout_ns, "30s",
	    "At the end, the process waits this long for requests in flight", BETWEEN(0, H), LIVE),
	ROW("loop", CHOICE, loop, "auto", "The back end of the event loop", .words = loop_words),
	ROW("confine", CHOICE, confine, "on",
	    "The rights that the process gives up at the start, if the kernel allows it. docs/config.md "
	    "explains each word",
	    .words = confine_words),
	ROW("allow-read", PATHS, allow_read, NULL,
	    "Further files and folders that may be read and executed, also after a reload",
	    .flags = WEIR_KEY_ALLOW),
	ROW("allow-write", PATHS, allow_write, NULL,
	    "Further files and folders that may be changed, besides the logs",
	    .flags = WEIR_KEY_ALLOW | WEIR_KEY_WRITTEN),
	{0}};
#undef BLOCK

#define BLOCK weir_config_resources
static const weir_key resources_keys[] = {
	ROW("memory", FRACTION, memory, "90%",
	    "The fraction of the control group's memory limit; or of the machine's memory, if the process "
	    "has a twentieth of it; 0: never",
	    BETWEEN(0, .99)),
	ROW("cpu", FRACTION, cpu, "0",
	    "The fraction of the last ten seconds in which a task waited for a processor (PSI); 0: never, "
	    "since a busy machine is not an error",
	    BETWEEN(0, .99)),
	ROW("loop-lag", TIME, loop_lag_ns, "500ms", "The time that an event loop may be late; 0s: never",
	    BETWEEN(0, 60 * S)),
	{0}};
#undef BLOCK

static const weir_key_form uplink_form = {"rate, as 10mbit or 1.5gbit, or auto", sizeof(uint64_t),
					  weir_config_read_uplink};

#define BLOCK weir_config_transmit
static const weir_key transmit_keys[] = {
	ROW("scheduling", CHOICE, scheduling, "fair",
	    "The order: fair sends everything at once, srpt what is nearly finished first, classes by class "
	    "and then as srpt. kernel leaves the order to the queues of 'weir uplink install', and tells "
	    "them "
	    "what is left of each answer",
	    .words = scheduling_words, LIVE),
	ROW("uplink", FORM, uplink_per_s, "auto",
	    "The rate of the uplink, with all headers; auto estimates it. A rate that is too high does "
	    "nothing",
	    .form = &uplink_form, LIVE),
	ROW("ageing", TIME, ageing_ns, "30s",
	    "An answer that came this much earlier goes first although it has 2.7 times as many bytes left",
	    BETWEEN(S, 24 * H), LIVE),
	ROW("state", PATH, state, NULL,
	    "A file in which an estimate of the uplink is kept from one start to the next. Without it a "
	    "restart "
	    "begins without a limit",
	    .flags = WEIR_KEY_WRITTEN),
	{0}};
#undef BLOCK

#define MANY(array, count) \
	.offset = offsetof(weir_config, array), .count_offset = offsetof(weir_config, count)
#define ONE(member) .offset = offsetof(weir_config, member)

const weir_config_core weir_config_core_blocks[] = {
	{{"listen", "address, as 127.0.0.1:8080, [::1]:8080, *:8080 or unix:/PATH",
	  "An address that is served. Without any: 127.0.0.1:8080.", listen_keys, sizeof(weir_config_listen),
	  .single = false},
	 MANY(listen, listens)},
	{{"admin", "address, or off",
	  "The address of metrics, API and live page. Without one: 127.0.0.1:7777.", admin_keys,
	  sizeof(weir_config_admin), .single = true},
	 ONE(admin)},
	{{"class", "name",
	  "The importance of requests. The first class whose rules match applies. A request that no class "
	  "matches has level 0.",
	  class_keys, sizeof(weir_config_class), .live = true},
	 MANY(klass, classes)},
	{{"route", "name",
	  "Where requests go. The first route whose rules match applies. A request that no route matches is "
	  "answered with 404. Other keys are parameters of its law, instead of its target's.",
	  route_keys, sizeof(weir_config_route), .live = true},
	 MANY(route, routes),
	 .params_offset = offsetof(weir_config_route, params)},
	{{"target", "name",
	  "A response time to hold. Other keys are parameters of its law: p90 = 200ms is all that is needed; "
	  "target[2] = 1s and minimum[2] = .05 are for class level 2.",
	  target_keys, sizeof(weir_config_target), .live = true},
	 MANY(target, targets),
	 .params_offset = offsetof(weir_config_target, params)},
	{{"sla", "name",
	  "A service level agreement: the response time that is promised depends on how many requests "
	  "arrive.",
	  sla_keys, sizeof(weir_config_sla), .live = true},
	 MANY(sla, slas)},
	{{"limit", "name",
	  "A quota. Every quota whose rules match is applied, in order, before the route's law.", limit_keys,
	  sizeof(weir_config_limit), .live = true},
	 MANY(limit, limits)},
	{{"limits", NULL, "Bounds on what clients can make the server store or wait for.", limits_keys,
	  sizeof(weir_config_limits), .single = true},
	 ONE(http)},
	{{"log", NULL, "Logs; logs.md has their formats.", log_keys, sizeof(weir_config_log), .single = true},
	 ONE(log)},
	{{"process", NULL, "The process itself.", process_keys, sizeof(weir_config_process), .single = true},
	 ONE(process)},
	{{"resources", NULL,
	  "What the whole process may use. Beyond it, requests are rejected whatever their targets, lowest "
	  "class first, and more of them the further beyond. Resources that the kernel does not report are "
	  "not monitored.",
	  resources_keys, sizeof(weir_config_resources), .single = true, .live = true},
	 ONE(resources)},
	{{"transmit", NULL,
	  "The order in which answers are sent when the uplink is crowded; transmit.md explains it.",
	  transmit_keys, sizeof(weir_config_transmit), .single = true},
	 ONE(transmit)},
	{{0}, 0, 0, 0}};
