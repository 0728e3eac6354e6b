/* SPDX-License-Identifier: Apache-2.0 */
/* Load in bytes: what phases have, where sizes come from, and the file that keeps it all. */
#include "support/check.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/volume.h"
#include "sim/trace.h"

#define S    WEIR_NS_PER_S
#define RATE 1.25e6 /* 10 Mbit/s */

static const load_phase w1[] = {{25 * S, 0.2}, {25 * S, 1.2}};

static load_volume volume_of(uint64_t seed)
{
	return (load_volume){.bytes_per_s = RATE,
			     .phases = w1,
			     .phase_count = 2,
			     .repeat = true,
			     .until_ns = 100 * S,
			     .poisson = true,
			     .per_connection = 1,
			     .seed = seed};
}

static load_trace *trace_of(const load_volume *volume)
{
	load_trace *trace = NULL;
	if (load_volume_trace(volume, &trace) < 0)
		fail_msg("%s", weir_error());
	return trace;
}

static double size_at(const load_trace *trace, size_t at)
{
	return strtod(trace->texts[trace->asked[at]], NULL);
}

static double bytes_between(const load_trace *trace, uint64_t from_ns, uint64_t to_ns)
{
	double sum = 0;
	for (size_t i = 0; i < trace->count; i++)
		if (trace->times_ns[i] >= from_ns && trace->times_ns[i] < to_ns)
			sum += load_wire_bytes(size_at(trace, i), 1);
	return sum;
}

static load_trace *parsed(const char *text)
{
	load_trace *trace = NULL;
	assert_int_equal(weir_tracefile_parse("x", text, strlen(text), true, &trace), 0);
	return trace;
}

/* ---- what is offered ---- */

static void bytes_on_the_wire(void **state)
{
	/* 1048 bytes and their head are one segment; one more byte needs two, of three requests a connection. */
	assert_true(load_wire_bytes(1248, 0) == 1248 + 200 + 52);
	assert_true(load_wire_bytes(1249, 0) == 1249 + 200 + 104);
	assert_true(load_wire_bytes(1248, 1) == 1248 + 200 + 52 + 164);
	assert_true(load_wire_bytes(1248, 4) == 1248 + 200 + 52 + 41);
}

static void phases_have_their_bytes(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		load_volume volume = volume_of(seed);
		load_trace *trace = trace_of(&volume);
		double largest = 0, sum = 0, wanted = 0;
		for (size_t i = 0; i < trace->count; i++) {
			largest = fmax(largest, load_wire_bytes(size_at(trace, i), 1));
			assert_for_seed(seed, trace->times_ns[i] < 100 * S);
			assert_for_seed(seed, i == 0 || trace->times_ns[i] >= trace->times_ns[i - 1]);
		}
		for (unsigned p = 0; p < 4; p++) {
			sum += bytes_between(trace, p * 25 * S, (p + 1) * 25 * S);
			wanted += w1[p % 2].rate * 25 * RATE;
			assert_for_seed(seed, sum >= wanted && sum <= wanted + largest);
		}
		weir_tracefile_free(&trace);
	}
}

static void the_end_cuts_a_phase(void **state)
{
	load_volume volume = volume_of(1);
	volume.until_ns = 30 * S;
	load_trace *trace = trace_of(&volume);
	double sum = bytes_between(trace, 0, 30 * S), wanted = (25 * 0.2 + 5 * 1.2) * RATE;
	assert_true(sum >= wanted && sum <= wanted + 2.2e6);
	assert_true(trace->times_ns[trace->count - 1] < 30 * S);
	weir_tracefile_free(&trace);
	/* Without an end: once through the phases. */
	volume.repeat = false;
	volume.until_ns = UINT64_MAX;
	trace = trace_of(&volume);
	assert_true(trace->times_ns[trace->count - 1] > 49 * S && trace->times_ns[trace->count - 1] < 50 * S);
	weir_tracefile_free(&trace);
}

static void even_arrivals(void **state)
{
	const load_phase phase = {10 * S, 1};
	load_volume volume = {.bytes_per_s = 1552,
			      .phases = &phase,
			      .phase_count = 1,
			      .until_ns = UINT64_MAX,
			      .sizes = "1300"};
	/* 1300 + 200 + 2 * 52 bytes each: ten of them are a little more than ten seconds' worth. */
	load_trace *trace = trace_of(&volume);
	assert_int_equal(trace->count, 10);
	for (size_t i = 0; i < 10; i++)
		assert_int_equal(trace->times_ns[i], i * S + S / 2);
	weir_tracefile_free(&trace);
}

static void the_same_seed_is_the_same_load(void **state)
{
	load_volume volume = volume_of(7);
	load_trace *one = trace_of(&volume), *same = trace_of(&volume);
	volume.seed = 8;
	load_trace *other = trace_of(&volume);
	assert_int_equal(one->count, same->count);
	assert_memory_equal(one->times_ns, same->times_ns, one->count * sizeof *one->times_ns);
	assert_memory_equal(one->asked, same->asked, one->count * sizeof *one->asked);
	assert_true(other->count != one->count || other->times_ns[0] != one->times_ns[0]);
	weir_tracefile_free(&one);
	weir_tracefile_free(&same);
	weir_tracefile_free(&other);
}

/* ---- sizes ---- */

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* The share of the largest answers that have half of the bytes. */
static double half_by(double *sizes, size_t count, double sum)
{
	double of = 0;
	size_t many = 0;
	qsort(sizes, count, sizeof *sizes, compare);
	while (of < sum / 2 && many < count)
		of += sizes[count - ++many];
	return (double)many / (double)count;
}

static void expect_shape(const char *name, double mean, double median, double half, double most)
{
	const load_phase phase = {4000 * S, 1};
	load_volume volume = {.bytes_per_s = RATE,
			      .phases = &phase,
			      .phase_count = 1,
			      .until_ns = UINT64_MAX,
			      .sizes = name,
			      .seed = 5};
	load_trace *trace = trace_of(&volume);
	double *sizes = weir_mem_array(trace->count, sizeof *sizes), sum = 0;
	for (size_t i = 0; i < trace->count; i++)
		sum += sizes[i] = size_at(trace, i);
	double share = half_by(sizes, trace->count, sum);
	if (fabs(sum / (double)trace->count / mean - 1) > 0.1 || fabs(share / half - 1) > 0.2 ||
	    fabs(sizes[trace->count / 2] / median - 1) > 0.1 || sizes[trace->count - 1] > most)
		fail_msg("%s: mean %g, median %g, half by %g, most %g", name, sum / (double)trace->count,
			 sizes[trace->count / 2], share, sizes[trace->count - 1]);
	/* Files are made of them: there must not be too many. */
	assert_in_range(trace->text_count, 100, 5000);
	weir_mem_free(sizes);
	weir_tracefile_free(&trace);
}

static void shapes_are_those_of_the_sites(void **state)
{
	expect_shape(NULL, 5000, 940, 0.03, 2.02e6);
	expect_shape("worldcup", 5000, 940, 0.03, 2.02e6);
	expect_shape("nasa", 19000, 3800, 0.025, 1.93e6);
}

static void sizes_of_a_trace_in_their_order(void **state)
{
	const load_phase phase = {S, 1};
	load_trace *sizes = parsed("time,bytes\n0,100\n1,0\n2,300\n3,50\n");
	load_volume volume = {.bytes_per_s = 10000,
			      .phases = &phase,
			      .phase_count = 1,
			      .until_ns = UINT64_MAX,
			      .trace = sizes};
	static const double order[] = {100, 300, 50};
	for (volume.seed = 1; volume.seed <= 8; volume.seed++) {
		load_trace *trace = trace_of(&volume);
		unsigned at = 0;
		while (at < 3 && order[at] != size_at(trace, 0))
			at++;
		assert_true(at < 3 && trace->count > 20);
		for (size_t i = 0; i < trace->count; i++)
			assert_true(size_at(trace, i) == order[(at + i) % 3]);
		weir_tracefile_free(&trace);
	}
	weir_tracefile_free(&sizes);
}

/* ---- files ---- */

static void a_trace_that_is_written_reads_the_same(void **state)
{
	load_volume volume = volume_of(3);
	load_trace *trace = trace_of(&volume), *again = NULL;
	char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);
	assert_int_equal(load_trace_write(file, trace), 0);
	fclose(file);
	assert_int_equal(weir_tracefile_parse("x", text, length, true, &again), 0);
	assert_int_equal(again->count, trace->count);
	assert_memory_equal(again->times_ns, trace->times_ns, trace->count * sizeof *trace->times_ns);
	for (size_t i = 0; i < trace->count; i++)
		assert_true(size_at(again, i) == size_at(trace, i));
	weir_tracefile_free(&again);
	weir_tracefile_free(&trace);
	free(text);
}

static void a_full_disk_is_an_error(void **state)
{
	load_volume volume = volume_of(3);
	load_trace *trace = trace_of(&volume);
	FILE *file = fopen("/dev/full", "w");
	assert_non_null(file);
	assert_int_equal(load_trace_write(file, trace), -EIO);
	fclose(file);
	weir_tracefile_free(&trace);
}

/* ---- what is refused ---- */

static void refused(const load_volume *volume, const char *word)
{
	load_trace *trace = NULL;
	assert_int_equal(load_volume_trace(volume, &trace), -EINVAL);
	assert_null(trace);
	check_contains(weir_error(), word);
}

static void what_is_wrong_is_refused(void **state)
{
	const load_phase endless = {S, 1}, idle = {S, 0}, none = {0, 1};
	load_trace *times = parsed("0\n1\n"), *empty = parsed("time,bytes\n0,0\n1,0\n");
	load_volume volume = volume_of(1);
	volume.bytes_per_s = 0;
	refused(&volume, "above 0");
	volume = volume_of(1);
	volume.until_ns = UINT64_MAX;
	refused(&volume, "an end");
	volume.until_ns = 100 * S;
	volume.phases = &none;
	volume.phase_count = 1;
	refused(&volume, "longer than 0");
	volume.phases = &idle;
	refused(&volume, "too small");
	volume.phases = &endless;
	volume.trace = times;
	refused(&volume, "needs sizes");
	volume.trace = empty;
	refused(&volume, "are 0");
	volume.trace = NULL;
	volume.sizes = "moon";
	refused(&volume, "not a distribution");
	volume.sizes = "5GB";
	refused(&volume, "above 4 GB");
	volume.sizes = "1";
	volume.bytes_per_s = 1e11;
	refused(&volume, "at most");
	weir_tracefile_free(&times);
	weir_tracefile_free(&empty);
}

static void no_memory(void **state)
{
	const load_phase phase = {S, 1};
	load_trace *sizes = parsed("time,bytes\n0,100\n2,300\n");
	load_volume volumes[] = {
		{.bytes_per_s = 1e5,
		 .phases = &phase,
		 .phase_count = 1,
		 .until_ns = UINT64_MAX,
		 .trace = sizes},
		{.bytes_per_s = 1e5,
		 .phases = &phase,
		 .phase_count = 1,
		 .until_ns = UINT64_MAX,
		 .sizes = "1KB .5, 9KB .5"},
	};
	for (unsigned v = 0; v < 2; v++) {
		for (uint64_t nth = 1;; nth++) {
			load_trace *trace = NULL;
			weir_mem_fail_after(nth);
			int failed = load_volume_trace(&volumes[v], &trace);
			weir_mem_fail_after(0);
			weir_tracefile_free(&trace);
			if (failed == 0)
				break;
			assert_int_equal(failed, -ENOMEM);
			assert_true(nth < 40);
		}
	}
	weir_tracefile_free(&sizes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CHECK_TEST(bytes_on_the_wire),
		CHECK_TEST(phases_have_their_bytes),
		CHECK_TEST(the_end_cuts_a_phase),
		CHECK_TEST(even_arrivals),
		CHECK_TEST(the_same_seed_is_the_same_load),
		CHECK_TEST(shapes_are_those_of_the_sites),
		CHECK_TEST(sizes_of_a_trace_in_their_order),
		CHECK_TEST(a_trace_that_is_written_reads_the_same),
		CHECK_TEST(a_full_disk_is_an_error),
		CHECK_TEST(what_is_wrong_is_refused),
		CHECK_TEST(no_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
