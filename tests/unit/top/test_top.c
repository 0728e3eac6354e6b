/* SPDX-License-Identifier: Apache-2.0 */
/* `weir top` without a terminal: bytes of an answer, snapshots, the picture made of them. */
#include "support/unit.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "top/feed.h"
#include "top/screen.h"

/* ---- the stream ---- */

typedef struct events {
	unsigned count;
	char last[256];
} events;

static void note(const char *data, size_t length, void *arg)
{
	events *seen = arg;
	seen->count++;
	snprintf(seen->last, sizeof(seen->last), "%.*s", (int)length, data);
}

#define HEAD         "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
#define CHUNKED      HEAD "Transfer-Encoding: chunked\r\n\r\n"
#define EVENT        "event: snapshot\ndata: {\"a\":1}\n\n"
#define EVENT_LENGTH "1f"

/* Takes a text in pieces of this size; the first failure, or 0. */
static int take(const char *text, size_t length, size_t piece, events *seen)
{
	weir_top_stream stream = {0};
	int failed = 0;
	*seen = (events){0};
	for (size_t at = 0; at < length && failed == 0; at += piece)
		failed = weir_top_stream_take(&stream, text + at, length - at < piece ? length - at : piece,
					      note, seen);
	weir_top_stream_fini(&stream);
	return failed;
}

static void events_whatever_the_pieces(void **state)
{
	static const char *const answers[] = {
		CHUNKED EVENT_LENGTH "\r\n" EVENT "\r\n" EVENT_LENGTH "\r\n" EVENT "\r\n",
		HEAD "\r\n" EVENT EVENT,
		HEAD "\r\n\n: a comment\n" EVENT ": another\n\n" EVENT "event: snapshot\ndata: {not yet",
		HEAD "\r\nevent: snapshot\r\ndata: {\"a\":1}\r\n\r\nevent:snapshot\r\ndata:{\"a\":1}\r\n\r\n",
		HEAD "\r\nevent: other\ndata: {\"b\":1}\n\ndata: {\"c\":1}\n\nevent: snapshot\n\n" EVENT
		     "id: 1\nevent: snapshot\nretry: 5\ndata: {\"a\":1}\n\n",
	};
	events seen;
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		for (size_t piece = 1; piece < 300; piece++) {
			assert_int_equal(take(answers[i], strlen(answers[i]), piece, &seen), 0);
			assert_int_equal(seen.count, 2);
			assert_string_equal(seen.last, "{\"a\":1}");
		}
}

static void answers_that_are_no_stream(void **state)
{
	static const struct {
		const char *answer;
		int failed;
		const char *said;
	} cases[] = {
		{"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", -EACCES, "--token-file"},
		{"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", -ENOENT, "404"},
		{"HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\n\r\n", -EACCES, "421"},
		{"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", -EPROTO, "503"},
		{"SSH-2.0-OpenSSH_9.2\r\n\r\n", -EPROTO, "no HTTP"},
		{CHUNKED "zz\r\n", -EPROTO, "no HTTP"},
		{CHUNKED "0\r\n\r\n", -ENODATA, "ended"},
	};
	events seen;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t piece = 1; piece < 100; piece += 7) {
			assert_int_equal(take(cases[i].answer, strlen(cases[i].answer), piece, &seen),
					 cases[i].failed);
			assert_non_null(strstr(weir_error(), cases[i].said));
			assert_int_equal(seen.count, 0);
		}
}

static void sizes_are_bounded(void **state)
{
	size_t size = WEIR_TOP_EVENT_BYTES + 1024;
	char *text = malloc(size);
	events seen;
	memset(text, 'a', size);
	memcpy(text, HEAD "X: ", sizeof(HEAD "X: ") - 1);
	assert_int_equal(take(text, size, 65536, &seen), -EPROTO); /* a head that does not end */
	memcpy(text, HEAD "\r\n", sizeof(HEAD "\r\n") - 1);
	assert_int_equal(take(text, size, 65536, &seen), -EMSGSIZE); /* an event that does not */
	assert_int_equal(take(text, WEIR_TOP_EVENT_BYTES / 2, 65536, &seen), 0);
	free(text);
}

static void stream_without_memory(void **state)
{
	static const char answer[] = CHUNKED EVENT_LENGTH "\r\n" EVENT "\r\n";
	events seen;
	int failed = -ENOMEM;
	unsigned tries = 0;
	for (; failed == -ENOMEM && tries < 20; tries++) {
		weir_mem_fail_after(tries + 1);
		failed = take(answer, sizeof(answer) - 1, 1000, &seen);
		weir_mem_fail_after(0);
	}
	assert_int_equal(failed, 0);
	assert_true(tries > 1);
}

/* ---- the feed ---- */

typedef struct peer {
	int listening, fd;
	char address[64];
} peer;

static void set_up_peer(peer *at)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	at->fd = -1;
	at->listening = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(at->listening, (struct sockaddr *)&address, length), 0);
	assert_int_equal(getsockname(at->listening, (struct sockaddr *)&address, &length), 0);
	snprintf(at->address, sizeof(at->address), "http://127.0.0.1:%u/", ntohs(address.sin_port));
}

static void count_snapshot(json_t *snapshot, void *arg)
{
	unsigned *count = arg;
	(*count)++;
	json_decref(snapshot);
}

/* Lets it do what it waits for, at a time of ours. */
static void turn(weir_top_feed *feed, uint64_t now_ms)
{
	struct pollfd wait;
	weir_top_feed_wait(feed, now_ms, &wait);
	if (wait.fd >= 0)
		poll(&wait, 1, 20000);
	weir_top_feed_turn(feed, wait.revents, now_ms);
}

static void feed_comes_back(void **state)
{
	static const char answer[] = CHUNKED EVENT_LENGTH "\r\n" EVENT "\r\n";
	char request[512] = "";
	unsigned count = 0;
	weir_top_feed feed;
	peer at;
	set_up_peer(&at);
	assert_int_equal(weir_top_feed_init(&feed, at.address, "secret", count_snapshot, &count), 0);
	weir_top_feed_turn(&feed, 0, 0); /* nobody listens yet */
	if (feed.state == WEIR_TOP_CONNECTING)
		turn(&feed, 0);
	assert_int_equal(feed.state, WEIR_TOP_IDLE);
	assert_string_equal(feed.problem, strerror(ECONNREFUSED));
	struct pollfd wait;
	assert_int_equal(weir_top_feed_wait(&feed, 0, &wait), WEIR_TOP_AGAIN_MS);
	assert_int_equal(wait.fd, -1);

	assert_int_equal(listen(at.listening, 4), 0);
	weir_top_feed_turn(&feed, 0, WEIR_TOP_AGAIN_MS - 1);
	assert_int_equal(feed.state, WEIR_TOP_IDLE);
	turn(&feed, WEIR_TOP_AGAIN_MS);
	turn(&feed, WEIR_TOP_AGAIN_MS);
	assert_int_equal(feed.state, WEIR_TOP_READING);
	at.fd = accept(at.listening, NULL, NULL);
	assert_true(recv(at.fd, request, sizeof(request) - 1, 0) > 0);
	assert_non_null(strstr(request, "GET /api/stream HTTP/1.1\r\nHost: 127.0.0.1:"));
	assert_non_null(strstr(request, "\r\nAuthorization: Bearer secret\r\n"));
	assert_non_null(strstr(request, "\r\n\r\n"));
	assert_int_equal(send(at.fd, answer, sizeof(answer) - 1, 0), (int)sizeof(answer) - 1);
	turn(&feed, 2000);
	assert_int_equal(count, 1);
	assert_string_equal(feed.problem, "");
	close(at.fd);
	turn(&feed, 3000);
	assert_int_equal(feed.state, WEIR_TOP_IDLE);
	assert_string_equal(feed.problem, "it ended the connection");

	/* One that takes the request and says nothing is left. */
	turn(&feed, 3000 + WEIR_TOP_AGAIN_MS);
	turn(&feed, 3000 + WEIR_TOP_AGAIN_MS);
	assert_int_equal(feed.state, WEIR_TOP_READING);
	weir_top_feed_turn(&feed, 0, 3000 + WEIR_TOP_AGAIN_MS + WEIR_TOP_SILENCE_MS - 1);
	assert_int_equal(feed.state, WEIR_TOP_READING);
	weir_top_feed_turn(&feed, 0, 3000 + WEIR_TOP_AGAIN_MS + WEIR_TOP_SILENCE_MS);
	assert_int_equal(feed.state, WEIR_TOP_IDLE);
	assert_string_equal(feed.problem, "it does not answer");
	weir_top_feed_fini(&feed);
	close(at.listening);
}

static void addresses(void **state)
{
	static char too_long[100];
	static const char *const good[] = {"127.0.0.1:7777", "[::1]:7777", "localhost:7777",
					   "http://127.0.0.1:7777", "http://127.0.0.1:7777/"};
	const char *const bad[] = {"",      "7777", "127.0.0.1", "http://", "a\033[2J:1", "127.0.0.1:7777/x",
				   too_long};
	weir_top_feed feed;
	memset(too_long, 'a', sizeof(too_long) - 1);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(weir_top_feed_init(&feed, good[i], NULL, count_snapshot, NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(weir_top_feed_init(&feed, bad[i], NULL, count_snapshot, NULL), -EINVAL);
		assert_null(strchr(weir_error(), '\033'));
	}
}

/* ---- the model ---- */

/* A snapshot with one stage "app" and some sheds with ids from `first` on, the newest first. */
static json_t *snapshot_with(int pid, double p90_ns, double shed, int first, int sheds)
{
	json_t *list = json_array();
	for (int id = first + sheds - 1; id >= first; id--)
		json_array_append_new(list, json_pack("{s:i,s:s}", "id", id, "reason", "full"));
	json_t *stage =
		json_pack("{s:s,s:s,s:{s:i,s:{s:f},s:{s:i,s:f}}}", "name", "app", "law", "adaptive", "all",
			  "offered", 5, "rate", "shed", shed, "recent", "count", 3, "p90_ns", p90_ns);
	return json_pack("{s:{s:{s:i},s:[o]},s:o}", "stages", "process", "pid", pid, "stages", stage, "sheds",
			 list);
}

static void minute_of_a_stage(void **state)
{
	weir_top_model model;
	assert_int_equal(weir_top_model_init(&model), 0);
	for (unsigned i = 0; i < WEIR_TOP_POINTS + 5; i++)
		weir_top_model_add(&model, snapshot_with(1, 1000.0 + i, i, 1, 0));
	const weir_top_history *history = weir_top_history_of(&model, weir_top_stage(&model, 0));
	assert_non_null(history);
	assert_int_equal(history->at, 5);
	assert_true(history->p90_ns[4] == 1000.0 + WEIR_TOP_POINTS + 4);
	assert_true(history->shed_per_s[5] == 5);
	/* One that is not told of any more has a gap. */
	weir_top_model_add(&model, json_pack("{s:{s:[]}}", "stages", "stages"));
	assert_true(isnan(history->p90_ns[5]) && isnan(history->shed_per_s[5]));
	assert_int_equal(weir_top_stage_count(&model), 0);
	weir_top_model_fini(&model);
}

static void sheds_come_once(void **state)
{
	weir_top_model model;
	assert_int_equal(weir_top_model_init(&model), 0);
	weir_top_model_add(&model, snapshot_with(1, 1, 1, 1, 50));
	weir_top_model_add(&model, snapshot_with(1, 1, 1, 31, 50)); /* after a reconnect: twenty are known */
	assert_int_equal(json_array_size(model.sheds), 80);
	assert_true(weir_top_number(json_array_get(model.sheds, 0), "id") == 80);
	assert_true(weir_top_number(json_array_get(model.sheds, 79), "id") == 1);
	for (int i = 0; i < 10; i++)
		weir_top_model_add(&model, snapshot_with(1, 1, 1, 81 + 50 * i, 50));
	assert_int_equal(json_array_size(model.sheds), WEIR_TOP_SHEDS);
	weir_top_model_add(&model, snapshot_with(2, 1, 1, 1, 3)); /* another process counts anew */
	assert_int_equal(json_array_size(model.sheds), 3);
	weir_top_model_fini(&model);
}

static void pausing(void **state)
{
	weir_top_model model;
	assert_int_equal(weir_top_model_init(&model), 0);
	weir_top_model_add(&model, snapshot_with(1, 1, 1, 1, 1));
	weir_top_model_pause(&model, true);
	for (unsigned i = 0; i < WEIR_TOP_HELD + 10; i++)
		weir_top_model_add(&model, snapshot_with(1, 2, 1, 2 + (int)i, 1));
	assert_true(weir_top_number(weir_top_stage(&model, 0), "all.recent.p90_ns") == 1);
	assert_int_equal(json_array_size(model.sheds), 1);
	assert_int_equal(model.held_count, WEIR_TOP_HELD);
	weir_top_model_pause(&model, false);
	assert_true(weir_top_number(weir_top_stage(&model, 0), "all.recent.p90_ns") == 2);
	assert_int_equal(json_array_size(model.sheds), 1 + WEIR_TOP_HELD); /* the oldest ten did not fit */
	weir_top_model_pause(&model, true);
	weir_top_model_add(&model, snapshot_with(1, 1, 1, 1, 1));
	weir_top_model_fini(&model); /* with one held */
}

/* One without a target is not what people look at first. */
static void usual_stage(void **state)
{
	weir_top_model model;
	assert_int_equal(weir_top_model_init(&model), 0);
	assert_int_equal(weir_top_usual_stage(&model), 0);
	weir_top_model_add(&model, json_pack("{s:{s:[{s:s,s:s},{s:s,s:s,s:[{s:n},{s:i}]}]}}", "stages",
					     "stages", "name", "admin", "law", "fixed", "name", "app", "law",
					     "adaptive", "class", "target_ns", "target_ns", 5));
	assert_int_equal(weir_top_stage_count(&model), 2);
	assert_int_equal(weir_top_usual_stage(&model), 1);
	weir_top_model_fini(&model);
}

static void model_without_memory(void **state)
{
	weir_top_model model;
	weir_mem_fail_after(1);
	assert_int_equal(weir_top_model_init(&model), -ENOMEM);
	weir_mem_fail_after(0);
}

/* ---- the picture ---- */

/* clang-format off */
static const char sample[] =
"{\"stages\":{\"process\":{\"version\":\"0.1.0\",\"verb\":\"sentry\",\"pid\":4711,\"uptime_s\":123.4,\"ready\":true,\"connections\":210,\"busy\":12},"
"\"resources\":{\"memory\":{\"value\":0.41,\"level\":0},\"cpu\":{\"value\":0.93,\"level\":0},\"loop-lag\":{\"value\":0.0004,\"level\":0}},\"stages\":["
"{\"name\":\"idle\",\"law\":null,\"all\":{\"offered\":0}},"
"{\"name\":\"app\",\"domain\":\"http\",\"kind\":\"reactor\",\"threads\":2,\"mode\":\"dry-run\",\"law\":\"adaptive-remote\",\"params\":{\"percentile\":\"p90\",\"target\":\"200ms\"},"
"\"waiting\":3,\"in_service\":9,\"limit\":12,\"admit_per_s\":396.1,\"unreachable\":true,\"alone_ns\":340000000,\"quality\":0.5,\"values\":{\"drain\":398.25},"
"\"all\":{\"offered\":5000,\"admitted\":3900,\"shed\":1100,\"completed\":3880,\"failed\":3,\"dropped\":5,\"rate\":{\"offered\":800,\"admitted\":398,\"shed\":12345},"
"\"recent\":{\"count\":3990,\"p50_ns\":61000000,\"p90_ns\":181000000,\"p99_ns\":1212000000},\"shed_by\":{\"predicted-late\":1100}},"
"\"class\":[{\"class\":0,\"name\":\"gold\",\"target_ns\":200000000,\"percentile\":0.8999999985,\"rate\":{\"offered\":1,\"admitted\":1,\"shed\":0},"
"\"recent\":{\"count\":1,\"p50_ns\":1000,\"p90_ns\":2000,\"p99_ns\":3000},\"shed_by\":{}},"
"{\"class\":1,\"name\":\"rest\",\"target_ns\":null,\"rate\":{\"offered\":799,\"admitted\":397,\"shed\":402},\"recent\":{\"count\":0},\"shed_by\":{\"predicted-late\":1100}}]}]},"
"\"backends\":[{\"address\":\"127.0.0.1:9000\",\"state\":\"up\",\"in_flight\":9,\"requests\":3900,\"failures\":2,\"latency_ns\":42000000},"
"{\"address\":\"127.0.0.1:9001\",\"state\":\"down\",\"in_flight\":0,\"requests\":7,\"failures\":7,\"latency_ns\":0}],"
"\"sheds_total\":1100,\"sheds\":[{\"id\":9,\"when\":\"2026-11-16T03:22:51.123Z\",\"stage\":\"app\",\"class\":1,\"class_name\":\"rest\",\"method\":\"GET\",\"path\":\"/list\","
"\"reason\":\"predicted-late\",\"estimate_ns\":412000000,\"bound_ns\":196000000,\"target_ns\":200000000}]}";
/* Names that would move a terminal's cursor, turn its writing round, or be wider than they look. */
static const char hostile[] =
"{\"stages\":{\"process\":{\"version\":\"\\u001b[2J\",\"verb\":\"\\u009b31m\\r\\n\",\"pid\":1e300,\"uptime_s\":-1e300,\"ready\":7},\"resources\":[],\"stages\":[null,3,[],"
"{\"name\":\"\\u001b]0;x\\u0007\\u202eabc\\u6f22\\u0301\\ud83d\\ude00\",\"law\":\"a\\u0000b\",\"mode\":\"\\t\",\"params\":{\"\\u001b\":\"\\u001b\"},\"values\":{\"x\":1e308},"
"\"limit\":-5,\"waiting\":1e30,\"all\":{\"offered\":1e300,\"rate\":{\"offered\":-1,\"shed\":1e300},\"recent\":{\"count\":1,\"p50_ns\":1e300,\"p90_ns\":-1,\"p99_ns\":\"x\"},\"shed_by\":{\"\\u001b\":1}},"
"\"class\":[{\"class\":1e300,\"name\":\"\\u001b\",\"target_ns\":1e300,\"percentile\":5,\"shed_by\":{\"\\u001b\":\"\\u001b\"}},7]}]},"
"\"backends\":[{\"address\":\"\\u001b\",\"state\":\"\\u001b\"},1],\"sheds\":[{\"id\":1,\"when\":\"\\u001b\",\"path\":\"\\u001b[31m\\u202e\",\"reason\":\"\\u001b\"},5],\"sheds_total\":\"x\"}";
/* clang-format on */

typedef struct drawing {
	weir_top_model model;
	weir_screen screen;
	weir_top_view view;
} drawing;

static void set_up_drawing(drawing *at, const char *json, unsigned rows, unsigned columns, bool utf8)
{
	json_t *snapshot = json_loads(json, JSON_ALLOW_NUL, NULL);
	assert_non_null(snapshot);
	assert_int_equal(weir_top_model_init(&at->model), 0);
	weir_top_model_add(&at->model, snapshot);
	assert_int_equal(weir_screen_init(&at->screen, rows, columns, utf8), 0);
	at->view = (weir_top_view){.connected = true, .problem = "", .keys = true};
}

static void tear_down_drawing(drawing *at)
{
	weir_screen_fini(&at->screen);
	weir_top_model_fini(&at->model);
}

static const char *line(const drawing *at, unsigned row)
{
	static char text[4 * 1000 + 1];
	weir_screen_line(&at->screen, row, text);
	return text;
}

/* Some row has it; the row, or the test fails. */
static unsigned row_with(const drawing *at, const char *text)
{
	for (unsigned row = 0; row < at->screen.rows; row++)
		if (strstr(line(at, row), text) != NULL)
			return row;
	for (unsigned row = 0; row < at->screen.rows; row++)
		print_message("|%s\n", line(at, row));
	fail_msg("no row has \"%s\"", text);
	return 0;
}

static void overview_of_80_columns(void **state)
{
	drawing at;
	set_up_drawing(&at, sample, 24, 80, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_string_equal(
		line(&at, 0),
		" weir sentry  0.1.0, pid 4711, up 2 min, 210 connections, 12 busy          live");
	row_with(&at, " memory 41 %   cpu 93 %   loop lag 400us");
	unsigned head =
		row_with(&at, " stage       offered let in  shed wait inside limit   p50   p90   p99  used");
	assert_string_equal(
		line(&at, head + 1),
		">app             800    398   12k    3      9    12  61ms 181ms  1.2s  #####.|.");
	assert_true(at.screen.cells[(size_t)(head + 1) * 80].chosen);
	assert_false(at.screen.cells[(size_t)head * 80].chosen);
	unsigned law = row_with(
		&at, " app  adaptive-remote, dry-run, target p90 200ms, at most 396/s, quality 0.50,");
	assert_string_equal(line(&at, law + 1), "      target out of reach: needs about 340ms");
	row_with(&at, "181ms of p90 200ms");
	row_with(&at, " 127.0.0.1:9000                up               9     42ms      3900        2");
	unsigned down = row_with(&at, "9001                down");
	assert_int_equal(at.screen.cells[(size_t)down * 80 + 31].tone, WEIR_TONE_BAD);
	row_with(&at, " 03:22:51.123 app         rest      GET /list                 predicted-late");
	assert_string_equal(
		line(&at, 23),
		" q quit   j k choose   Enter stage   s turned away   c costs   p pause   ? help");
	assert_int_equal(weir_top_usual_stage(&at.model), 0);
	for (unsigned row = 0; row < 24; row++)
		assert_null(strstr(line(&at, row), "idle")); /* it has nothing to tell */
	tear_down_drawing(&at);
}

/* Stages of the server itself that have nothing to tell are one line. */
static void inner_stages_are_folded(void **state)
{
	static const char two[] =
		"{\"stages\":{\"stages\":[{\"name\":\"admin\",\"law\":null,\"all\":{\"offered\":5}},"
		"{\"name\":\"app\",\"law\":\"adaptive\",\"all\":{\"offered\":9}},"
		"{\"name\":\"file\",\"law\":null,\"all\":{\"offered\":9,\"shed\":1}}]}}";
	drawing at;
	set_up_drawing(&at, two, 24, 80, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_int_equal(weir_top_stage_count(&at.model), 2);
	assert_string_equal(weir_top_text(weir_top_stage(&at.model, 0), "name"), "app");
	assert_string_equal(weir_top_text(weir_top_stage(&at.model, 1), "name"), "file");
	row_with(&at, " and 1 inner stage: i shows it");
	at.model.unfolded = true;
	assert_int_equal(weir_top_stage_count(&at.model), 3);
	assert_string_equal(weir_top_text(weir_top_stage(&at.model, 0), "name"), "admin");
	tear_down_drawing(&at);
	set_up_drawing(
		&at, "{\"stages\":{\"stages\":[{\"name\":\"admin\",\"law\":null,\"all\":{\"offered\":5}}]}}",
		24, 80, false);
	assert_int_equal(weir_top_stage_count(&at.model), 1); /* rather than nothing */
	tear_down_drawing(&at);
}

/* The server's verdict is above everything, on as many rows as it takes. */
static void the_verdict_is_on_top(void **state)
{
	static const char overloaded[] =
		"{\"verdict\":{\"state\":\"overloaded\",\"text\":\"app: overloaded since 13:02 UTC: capacity "
		"about "
		"380/s, 90 % of 3800/s turned away (predicted-late); add capacity\"}}";
	static const char dry[] = "{\"verdict\":{\"state\":\"dry-run\",\"text\":\"app: dry run: would turn "
				  "away 90 %\"},\"stages\":{\"stages\":"
				  "[{\"name\":\"app\",\"law\":\"adaptive\",\"all\":{\"offered\":9,\"rate\":{"
				  "\"shed\":0,\"spared\":34.2},\"spared_by\":{\"predicted-late\":400,"
				  "\"full\":12}}}]}}";
	drawing at;
	set_up_drawing(&at, overloaded, 24, 80, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_string_equal(line(&at, 2),
			    " app: overloaded since 13:02 UTC: capacity about 380/s, 90 % of 3800/s turned");
	assert_string_equal(line(&at, 3), " away (predicted-late); add capacity");
	assert_int_equal(at.screen.cells[2 * 80 + 1].tone, WEIR_TONE_BAD);
	tear_down_drawing(&at);
	set_up_drawing(&at, dry, 24, 80, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_int_equal(at.screen.cells[2 * 80 + 1].tone, WEIR_TONE_SHED);
	row_with(&at, "  (34)");
	row_with(&at, "0/s; would be 34/s");
	row_with(&at, "nothing was turned away; 412 would have been");
	tear_down_drawing(&at);
	set_up_drawing(&at,
		       "{\"verdict\":{\"state\":\"well\",\"text\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}}",
		       24, 10, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_string_equal(line(&at, 5), " aaaaaaaa");
	assert_int_equal(at.screen.cells[2 * 10 + 1].tone, WEIR_TONE_GOOD);
	tear_down_drawing(&at);
}

static void wider_screens_show_more(void **state)
{
	drawing at;
	set_up_drawing(&at, sample, 40, 130, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, "p90 200ms  adaptive-remote  dry-run");
	row_with(&at, "412ms, allowed 196ms");
	row_with(&at, "quality 0.50, target out of reach: needs about 340ms");
	tear_down_drawing(&at);
}

/* What is a little more than allowed does not look the same. */
static void times_that_are_near(void **state)
{
	static const struct {
		double ns, other_ns;
		const char *shown, *other;
	} cases[] = {
		{412e6, 196e6, "412ms", "196ms"},          {200.4e6, 200e6, "200.4ms", "200.0ms"},
		{200.04e6, 200e6, "200.04ms", "200.00ms"}, {200e6, 200e6, "200ms", "200ms"},
		{1.52e9, 1.5e9, "1.52s", "1.50s"},         {200e6 + 1, 200e6, "200.0000ms", "200.0000ms"},
		{(double)NAN, (double)NAN, "-", "-"},
	};
	char text[WEIR_SCREEN_TIME], other[WEIR_SCREEN_TIME];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		weir_screen_times(text, cases[i].ns, other, cases[i].other_ns);
		assert_string_equal(text, cases[i].shown);
		assert_string_equal(other, cases[i].other);
	}
}

static void sheds_tell_what_decided(void **state)
{
	static const char near[] =
		"{\"sheds\":[{\"id\":1,\"when\":\"2026-11-16T03:22:51.123Z\",\"stage\":\"app\","
		"\"method\":\"GET\",\"path\":\"/a-path-that-is-long\",\"reason\":\"waited-too-long\","
		"\"estimate_ns\":200400000,\"bound_ns\":200000000}]}";
	drawing at;
	set_up_drawing(&at, near, 24, 100, false);
	at.view.page = WEIR_TOP_SHEDDING;
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, " GET /a-path-that-is- waited-too-long  200.4ms, allowed 200.0ms");
	tear_down_drawing(&at);
}

static void other_pages(void **state)
{
	drawing at;
	set_up_drawing(&at, sample, 24, 100, false);
	at.view.page = WEIR_TOP_STAGE;
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, " in all  offered 5000 admitted 3900 shed 1100 completed 3880 failed 3 dropped 5");
	row_with(&at, " set     percentile p90   target 200ms");
	row_with(&at, " law     drain 398.25");
	row_with(&at, "2 threads of domain http, reactor");
	row_with(&at, " 0 gold               1       1       0  1.0us  2.0us  3.0us  p90 200ms  none");
	row_with(&at, " 1 rest             799     397     402      -      -      -  -          "
		      "predicted-late 1100");
	at.view.page = WEIR_TOP_SHEDDING;
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, "turned away: 1100 in all, the newest first");
	row_with(&at, "GET /list");
	at.view.page = WEIR_TOP_COSTS;
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, "nothing is known yet of what requests cost");
	at.view.page = WEIR_TOP_HELP;
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, "choose a stage");
	tear_down_drawing(&at);
}

static void costs_are_told(void **state)
{
	static const char text[] = "{\"costs\":{\"kinds\":["
				   "{\"method\":\"GET\",\"path\":\"/reports/"
				   "*\",\"count\":310,\"expected_ns\":812000000,\"p90_ns\":960000000,"
				   "\"confidence\":0.8,\"share\":0.71},"
				   "{\"method\":\"POST\",\"path\":\"/"
				   "a\\u001b[2J\",\"count\":1,\"expected_ns\":null,\"p90_ns\":1000,"
				   "\"confidence\":\"x\",\"share\":7},"
				   "7]}}";
	drawing at;
	set_up_drawing(&at, text, 24, 80, false);
	at.view.page = WEIR_TOP_COSTS;
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, "what is expensive here");
	row_with(&at, " GET /reports/*                         71 %    812ms    960ms      310    80 %");
	row_with(&at, " POST /a");
	at.view.scroll = 1;
	weir_top_draw(&at.screen, &at.model, &at.view);
	row_with(&at, " POST /a");
	tear_down_drawing(&at);
	set_up_drawing(&at, text, 4, 20, false);
	at.view.page = WEIR_TOP_COSTS;
	weir_top_draw(&at.screen, &at.model, &at.view);
	tear_down_drawing(&at);
}

/* The order of sending has a row if there is one. What it says is not trusted. */
static void sending_is_told(void **state)
{
	drawing at;
	set_up_drawing(
		&at,
		"{\"transmit\":[{\"policy\":\"srpt\",\"phase\":\"cruise\",\"rate_bytes_per_s\":1212500,"
		"\"uplink_bytes_per_s\":1250000,\"waiting\":12,\"waiting_to_4kb\":0,"
		"\"waiting_to_32kb\":10,\"waiting_above_2mb\":2}]}",
		24, 80, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_string_equal(line(&at, 2),
			    " sending by srpt, 9.7 of 10 Mbit/s (cruise), 12 wait, 10 to 32 KB, "
			    "2 more");
	assert_string_equal(line(&at, 3), "");
	tear_down_drawing(&at);
	set_up_drawing(&at, "{\"transmit\":[{\"policy\":\"kernel\",\"phase\":\"\",\"waiting\":0}]}", 24, 80,
		       false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_string_equal(line(&at, 2), " sending by kernel, 0 wait");
	tear_down_drawing(&at);
	static const char *const odd[] = {"{\"transmit\":[]}", "{\"transmit\":7}", "{\"transmit\":[7]}",
					  "{\"transmit\":[{\"policy\":3,\"waiting\":5}]}"};
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		set_up_drawing(&at, odd[i], 24, 80, false);
		weir_top_draw(&at.screen, &at.model, &at.view);
		assert_string_equal(line(&at, 2), "");
		tear_down_drawing(&at);
	}
	set_up_drawing(&at,
		       "{\"transmit\":[{\"policy\":\"\\u001b[31m\",\"rate_bytes_per_s\":1e300,"
		       "\"uplink_bytes_per_s\":-1,\"waiting\":\"x\"}]}",
		       4, 20, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	tear_down_drawing(&at);
}

static void states_are_told(void **state)
{
	drawing at;
	set_up_drawing(&at, sample, 24, 80, false);
	weir_top_model_pause(&at.model, true);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_non_null(strstr(line(&at, 0), " paused"));
	at.view.connected = false;
	at.view.problem = "Connection refused";
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_non_null(strstr(line(&at, 0), "no connection"));
	assert_string_equal(line(&at, 1), " Connection refused; trying again");
	tear_down_drawing(&at);
	set_up_drawing(&at, "{\"stages\":{\"process\":{\"ready\":false},\"stages\":[]}}", 24, 80, false);
	weir_top_draw(&at.screen, &at.model, &at.view);
	assert_non_null(strstr(line(&at, 0), "draining"));
	row_with(&at, "no stage has had anything to do");
	row_with(&at, "nothing was turned away");
	tear_down_drawing(&at);
}

/* More stages than rows: the chosen one is always in sight. */
static void many_stages(void **state)
{
	json_t *stages = json_array();
	drawing at;
	for (int i = 0; i < 300; i++) {
		char name[16];
		snprintf(name, sizeof(name), "stage%03d", i);
		json_array_append_new(stages, json_pack("{s:s,s:s}", "name", name, "law", "fixed"));
	}
	json_t *snapshot = json_pack("{s:{s:o}}", "stages", "stages", stages);
	char *text = json_dumps(snapshot, 0);
	json_decref(snapshot);
	set_up_drawing(&at, text, 24, 80, false);
	free(text);
	for (at.view.chosen = 0; at.view.chosen < 300; at.view.chosen++) {
		char name[16];
		snprintf(name, sizeof(name), ">stage%03zu", at.view.chosen);
		weir_top_draw(&at.screen, &at.model, &at.view);
		row_with(&at, name);
	}
	assert_int_equal(at.model.histories, WEIR_TOP_STAGES);
	tear_down_drawing(&at);
}

/* Whatever names hold, what is shown is printable and one column a cell; in every size, on every page. */
static void nothing_but_signs(void **state)
{
	static const char *const texts[] = {sample, hostile, "{}", "[]",
					    "{\"stages\":7,\"sheds\":{},\"backends\":7}"};
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		for (unsigned columns = 1; columns < 150; columns += columns < 20 ? 1 : 13)
			for (unsigned rows = 1; rows < 40; rows += rows < 12 ? 1 : 9) {
				drawing at;
				set_up_drawing(&at, texts[i], rows, columns, (rows & 1) != 0);
				for (unsigned page = 0; page < 4; page++) {
					at.view.page = (weir_top_page)page;
					weir_top_draw(&at.screen, &at.model, &at.view);
					for (size_t c = 0; c < (size_t)rows * columns; c++) {
						uint32_t sign = at.screen.cells[c].sign;
						bool drawn = sign == 0xb7 || sign == 0x2502 ||
							     (sign >= 0x2581 && sign <= 0x2588);
						assert_true((sign >= ' ' && sign <= '~') ||
							    (at.screen.utf8 && drawn));
						assert_true(at.screen.cells[c].tone < WEIR_TONES);
					}
				}
				tear_down_drawing(&at);
			}
}

/* Letters of one column are shown where the locale knows them; those that are wide, combine or turn are not. */
static void letters_of_others(void **state)
{
	weir_screen screen;
	char text[64];
	assert_int_equal(weir_screen_init(&screen, 1, 10, true), 0);
	if (setlocale(LC_CTYPE, "C.UTF-8") != NULL) {
		weir_screen_put(&screen, 0, 0, 10, WEIR_TONE_PLAIN,
				"\xc3\xa9\xe6\xbc\xa2\xcc\x81\xe2\x80\xae\xc2\xa0"
				"b\xff\xc3");
		weir_screen_line(&screen, 0, text);
		assert_string_equal(text, "\xc3\xa9????b??");
		setlocale(LC_CTYPE, "C");
	}
	weir_screen_fini(&screen);
	weir_mem_fail_after(1);
	assert_int_equal(weir_screen_init(&screen, 1, 10, true), -ENOMEM);
	weir_mem_fail_after(0);
	assert_int_equal(weir_screen_init(&screen, 0, 100000, true), 0);
	assert_int_equal(screen.rows, 1);
	assert_int_equal(screen.columns, 1000);
	weir_screen_fini(&screen);
}

static void sparks_and_bars(void **state)
{
	drawing at;
	set_up_drawing(&at, sample, 24, 80, true);
	weir_top_draw(&at.screen, &at.model, &at.view);
	unsigned row = row_with(&at, "181ms of p90 200ms");
	/* 181 of 200 ms is the seventh of eight levels, in the last of the minute's columns. */
	assert_int_equal(at.screen.cells[(size_t)row * 80 + 8 + 49].sign, 0x2581 + 6);
	assert_int_equal(at.screen.cells[(size_t)row * 80 + 8 + 48].sign, ' ');
	row_with(&at, "\xe2\x96\x88\xc2\xb7\xe2\x94\x82"); /* filled, free, the target */
	tear_down_drawing(&at);
}

static void numbers(void **state)
{
	static const struct {
		double value;
		const char *time, *count;
	} cases[] = {
		{0, "0ns", "0"},          {(double)NAN, "-", "-"},  {-1, "-", "-"},
		{1.26, "1ns", "1.3"},     {999, "999ns", "999"},    {1000, "1.0us", "1000"},
		{12345, "12us", "12k"},   {999e3, "999us", "999k"}, {999.9e3, "1.0ms", "1.0M"},
		{181e6, "181ms", "181M"}, {1.5e9, "1.5s", "1.5G"},  {3e12, "3000s", "3.0T"},
		{1e14, "28h", "100T"},    {1e300, "-", "-"},
	};
	char text[16];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_string_equal(weir_screen_time(text, sizeof(text), cases[i].value), cases[i].time);
		assert_string_equal(weir_screen_count(text, sizeof(text), cases[i].value), cases[i].count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_whatever_the_pieces),
		cmocka_unit_test(answers_that_are_no_stream),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(stream_without_memory),
		cmocka_unit_test(feed_comes_back),
		cmocka_unit_test(addresses),
		cmocka_unit_test(minute_of_a_stage),
		cmocka_unit_test(sheds_come_once),
		cmocka_unit_test(pausing),
		cmocka_unit_test(usual_stage),
		cmocka_unit_test(model_without_memory),
		cmocka_unit_test(overview_of_80_columns),
		cmocka_unit_test(the_verdict_is_on_top),
		cmocka_unit_test(inner_stages_are_folded),
		cmocka_unit_test(wider_screens_show_more),
		cmocka_unit_test(times_that_are_near),
		cmocka_unit_test(sheds_tell_what_decided),
		cmocka_unit_test(other_pages),
		cmocka_unit_test(costs_are_told),
		cmocka_unit_test(sending_is_told),
		cmocka_unit_test(states_are_told),
		cmocka_unit_test(many_stages),
		cmocka_unit_test(nothing_but_signs),
		cmocka_unit_test(letters_of_others),
		cmocka_unit_test(sparks_and_bars),
		cmocka_unit_test(numbers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
