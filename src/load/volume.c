/* SPDX-License-Identifier: Apache-2.0 */
#include "load/volume.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/mix.h"
#include "load/draw.h"
#include "load/work.h"
#include "sim/trace.h"

#define ARRIVALS_MOST 20000000u
#define SLOTS_FIRST   1024u

double load_wire_bytes(double size, uint32_t per_connection)
{
	double bytes = size + LOAD_WIRE_HEAD;
	double share = per_connection > 0 ? (double)LOAD_WIRE_CONNECTION / per_connection : 0;
	return bytes + ceil(bytes / LOAD_WIRE_SEGMENT) * LOAD_WIRE_HEADERS + share;
}

/* ---- sizes, one after the other ---- */

typedef struct volume_shape {
	const char *name;
	double median, sigma, least, most;
	double tail, tail_from, tail_alpha; /* tail: share of the answers */
} volume_shape;

static const volume_shape shapes[] = {{"worldcup", 920, 1.72, 41, 2.02e6, 0.005, 60e3, 1.1},
				      {"nasa", 3600, 1.5, 50, 1.93e6, 0.02, 150e3, 1.1}};

typedef struct volume_source {
	weir_random random;
	/* one of these */
	const volume_shape *shape;
	const load_trace *trace;
	load_draw draw;
	double *list; /* what is drawn of; owned */
	/* of the trace */
	double *bytes; /* of each text; owned */
	size_t line;
} volume_source;

static double draw_tail(const volume_shape *shape, weir_random *random)
{
	double low = pow(shape->tail_from / shape->most, shape->tail_alpha);
	return shape->tail_from * pow(1 - weir_random_unit(random) * (1 - low), -1 / shape->tail_alpha);
}

static double three_digits(double bytes)
{
	double unit = pow(10, fmax(floor(log10(bytes)) - 2, 0));
	return round(bytes / unit) * unit;
}

static double draw_shape(const volume_shape *shape, weir_random *random)
{
	double bytes = weir_random_unit(random) < shape->tail
			       ? draw_tail(shape, random)
			       : shape->median * exp(shape->sigma * weir_random_normal(random));
	return three_digits(fmin(fmax(bytes, shape->least), shape->most));
}

/* Lines of 0 bytes are answers without a body; check_trace has seen that there are others. */
static double next_of_trace(volume_source *source)
{
	double bytes;
	do {
		bytes = source->bytes[source->trace->asked[source->line]];
		source->line = (source->line + 1) % source->trace->count;
	} while (bytes == 0);
	return bytes;
}

static double next_size(volume_source *source)
{
	if (source->trace != NULL)
		return next_of_trace(source);
	if (source->shape != NULL)
		return draw_shape(source->shape, &source->random);
	return source->list[load_draw_one(&source->draw, &source->random)];
}

static int open_trace(volume_source *source, const load_volume *volume)
{
	const load_trace *trace = volume->trace;
	bool some = false;
	if (trace->what != WEIR_TRACEFILE_SIZES)
		return weir_error_set(-EINVAL, "a load in bytes needs sizes, and the trace has none");
	source->bytes = weir_mem_array(trace->text_count, sizeof *source->bytes);
	if (source->bytes == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (uint32_t i = 0; i < trace->text_count; i++) {
		source->bytes[i] = strtod(trace->texts[i], NULL);
		some = some || source->bytes[i] > 0;
	}
	if (!some)
		return weir_error_set(-EINVAL, "all sizes of the trace are 0");
	source->trace = trace;
	source->line = (size_t)(weir_mix(volume->seed) % trace->count);
	return 0;
}

static int open_list(volume_source *source, const char *sizes)
{
	double weights[LOAD_SIZES];
	unsigned count;
	source->list = weir_mem_array(LOAD_SIZES, sizeof *source->list);
	if (source->list == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int failed = load_sizes_list(sizes, source->list, weights, &count);
	return failed ? failed : load_draw_init(&source->draw, weights, count);
}

static int open_source(volume_source *source, const load_volume *volume)
{
	const char *sizes = volume->sizes != NULL ? volume->sizes : shapes[0].name;
	*source = (volume_source){.shape = NULL};
	weir_random_init(&source->random, weir_mix(volume->seed));
	if (volume->trace != NULL)
		return open_trace(source, volume);
	for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
		if (strcmp(sizes, shapes[i].name) == 0)
			source->shape = &shapes[i];
	return source->shape != NULL ? 0 : open_list(source, sizes);
}

static void close_source(volume_source *source)
{
	load_draw_fini(&source->draw);
	weir_mem_free(source->list);
	weir_mem_free(source->bytes);
}

/* ---- the trace that is made ---- */

typedef struct volume_maker {
	const load_volume *volume;
	volume_source source;
	weir_random random; /* of times */
	uint64_t *times_ns;
	uint32_t *bytes;
	size_t count, room;
	double offered, wanted; /* bytes on the wire, so far */
} volume_maker;

static int grow(volume_maker *maker)
{
	size_t room = maker->room > 0 ? maker->room * 2 : SLOTS_FIRST;
	if (maker->count < maker->room)
		return 0;
	if (maker->count >= ARRIVALS_MOST)
		return weir_error_set(-EINVAL, "a load in bytes has at most %u arrivals", ARRIVALS_MOST);
	uint64_t *times_ns = weir_mem_array(room, sizeof *times_ns);
	uint32_t *bytes = weir_mem_array(room, sizeof *bytes);
	if (times_ns == NULL || bytes == NULL) {
		weir_mem_free(times_ns);
		weir_mem_free(bytes);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	if (maker->count > 0) {
		memcpy(times_ns, maker->times_ns, maker->count * sizeof *times_ns);
		memcpy(bytes, maker->bytes, maker->count * sizeof *bytes);
	}
	weir_mem_free(maker->times_ns);
	weir_mem_free(maker->bytes);
	maker->times_ns = times_ns;
	maker->bytes = bytes;
	maker->room = room;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* Random times are what a Poisson process has, given its number of arrivals. */
static void set_times(volume_maker *maker, size_t first, uint64_t from_ns, uint64_t length_ns)
{
	size_t many = maker->count - first;
	for (size_t i = 0; i < many; i++) {
		double part = maker->volume->poisson ? weir_random_unit(&maker->random)
						     : ((double)i + 0.5) / (double)many;
		maker->times_ns[first + i] = from_ns + (uint64_t)(part * (double)length_ns);
	}
	if (many > 0)
		qsort(maker->times_ns + first, many, sizeof *maker->times_ns, compare);
}

static int fill_phase(volume_maker *maker, const load_phase *phase, uint64_t from_ns, uint64_t length_ns)
{
	size_t first = maker->count;
	maker->wanted += phase->rate * maker->volume->bytes_per_s * ((double)length_ns / 1e9);
	while (maker->offered < maker->wanted && phase->rate > 0) {
		int failed = grow(maker);
		if (failed)
			return failed;
		double size = next_size(&maker->source);
		if (size > UINT32_MAX)
			return weir_error_set(-EINVAL, "a load in bytes has no answers above 4 GB");
		maker->bytes[maker->count++] = (uint32_t)size;
		maker->offered += load_wire_bytes(size, maker->volume->per_connection);
	}
	set_times(maker, first, from_ns, length_ns);
	return 0;
}

static int fill_all(volume_maker *maker)
{
	const load_volume *volume = maker->volume;
	uint64_t now_ns = 0;
	WEIR_ASSERT(volume->phase_count > 0);
	for (unsigned i = 0; now_ns < volume->until_ns; i++) {
		if (i == volume->phase_count && !volume->repeat)
			break;
		const load_phase *phase = &volume->phases[i % volume->phase_count];
		uint64_t rest_ns = volume->until_ns - now_ns;
		uint64_t length_ns = phase->length_ns < rest_ns ? phase->length_ns : rest_ns;
		int failed = fill_phase(maker, phase, now_ns, length_ns);
		if (failed)
			return failed;
		now_ns += length_ns;
	}
	return maker->count > 0 ? 0 : weir_error_set(-EINVAL, "this load is too small for even one answer");
}

/* ---- as a trace ---- */

static int compare_bytes(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* Each size once, ascending; returns how many. */
static uint32_t different(uint32_t *sizes, size_t count)
{
	uint32_t kept = 0;
	qsort(sizes, count, sizeof *sizes, compare_bytes);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || sizes[i] != sizes[kept - 1])
			sizes[kept++] = sizes[i];
	return kept;
}

static int name_sizes(load_trace *trace, const uint32_t *sizes, uint32_t count)
{
	char digits[16];
	trace->texts = weir_mem_array(count, sizeof *trace->texts);
	if (trace->texts == NULL)
		return -ENOMEM;
	for (; trace->text_count < count; trace->text_count++) {
		snprintf(digits, sizeof digits, "%u", sizes[trace->text_count]);
		trace->texts[trace->text_count] = weir_mem_strdup(digits);
		if (trace->texts[trace->text_count] == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int fill_trace(load_trace *trace, volume_maker *maker, uint32_t *sizes)
{
	memcpy(sizes, maker->bytes, maker->count * sizeof *sizes);
	uint32_t count = different(sizes, maker->count);
	if (name_sizes(trace, sizes, count) != 0)
		return -ENOMEM;
	for (size_t i = 0; i < maker->count; i++) {
		const uint32_t *found = bsearch(&maker->bytes[i], sizes, count, sizeof *sizes, compare_bytes);
		trace->asked[i] = (uint32_t)(found - sizes);
	}
	trace->what = WEIR_TRACEFILE_SIZES;
	trace->count = maker->count;
	trace->times_ns = maker->times_ns;
	maker->times_ns = NULL;
	return 0;
}

static int make_trace(volume_maker *maker, load_trace **ret)
{
	load_trace *trace = weir_mem_zalloc(sizeof *trace);
	uint32_t *sizes = weir_mem_array(maker->count, sizeof *sizes);
	if (trace != NULL)
		trace->asked = weir_mem_array(maker->count, sizeof *trace->asked);
	bool made = trace != NULL && sizes != NULL && trace->asked != NULL &&
		    fill_trace(trace, maker, sizes) == 0;
	weir_mem_free(sizes);
	if (!made) {
		weir_tracefile_free(&trace);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	*ret = trace;
	return 0;
}

static int check(const load_volume *volume)
{
	if (!(volume->bytes_per_s > 0 && isfinite(volume->bytes_per_s)))
		return weir_error_set(-EINVAL, "the rate of an uplink is above 0");
	if (volume->phase_count == 0 || (volume->repeat && volume->until_ns == UINT64_MAX))
		return weir_error_set(-EINVAL, "a load in bytes has phases, and an end");
	for (unsigned i = 0; i < volume->phase_count; i++)
		if (volume->phases[i].length_ns == 0 || !(volume->phases[i].rate >= 0))
			return weir_error_set(-EINVAL, "a phase is longer than 0, and has a load from 0 on");
	return 0;
}

int load_volume_trace(const load_volume *volume, load_trace **ret)
{
	volume_maker maker = {.volume = volume};
	int failed = check(volume);
	if (failed)
		return failed;
	weir_random_init(&maker.random, weir_mix(volume->seed + WEIR_MIX_STEP));
	failed = open_source(&maker.source, volume);
	if (!failed)
		failed = fill_all(&maker);
	if (!failed)
		failed = make_trace(&maker, ret);
	close_source(&maker.source);
	weir_mem_free(maker.times_ns);
	weir_mem_free(maker.bytes);
	return failed;
}

int load_trace_write(FILE *out, const load_trace *trace)
{
	fputs("time_s,bytes\n", out);
	for (size_t i = 0; i < trace->count; i++)
		fprintf(out, "%llu.%09llu,%s\n", (unsigned long long)(trace->times_ns[i] / WEIR_NS_PER_S),
			(unsigned long long)(trace->times_ns[i] % WEIR_NS_PER_S),
			trace->texts[trace->asked[i]]);
	return ferror(out) ? -EIO : 0;
}
