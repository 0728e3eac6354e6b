/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A size distribution as a list of sizes. A continuous one becomes LOAD_SIZES equally likely sizes: the
 * middle of each part of the distribution. The last one stands for the tail and is as large as the mean
 * requires.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "load/make_files.h"
#include "load/syntax.h"
#include "load/work_priv.h"
#include "sim/values.h"

#define SIZE_MOST 1e12
#define SIZES_WANTED                                                                                       \
	"accepted are a size ('10KB'), sizes with shares ('1KB .9, 1MB .1'), and a distribution with its " \
	"mean ('lognormal 10KB sigma=1.5', 'pareto 10KB alpha=1.1 ratio=1000', 'exponential 10KB', "       \
	"'bimodal 10KB share=.1 factor=10')"

typedef struct sizes {
	double bytes[LOAD_SIZES], weight[LOAD_SIZES];
	unsigned count;
} sizes;

static int wrong(const char *text)
{
	char quoted[60];
	return weir_error_set(-EINVAL, "'%s' is not a distribution of sizes; " SIZES_WANTED,
			      weir_text_quote(quoted, sizeof quoted, text));
}

/* "10KB .4" or "10KB"; the text is modified. */
static bool read_size(char *text, double *ret_bytes, double *ret_weight)
{
	uint64_t bytes;
	text = weir_text_trim(text);
	char *space = strpbrk(text, " \t");
	*ret_weight = 1;
	if (space != NULL && weir_text_number(space, ret_weight) == 0)
		*space = '\0';
	if (weir_text_size(text, &bytes) < 0)
		return false;
	*ret_bytes = (double)bytes;
	return *ret_bytes <= SIZE_MOST && *ret_weight > 0 && *ret_weight <= 1e9;
}

static int read_list(const char *text, sizes *ret)
{
	char copy[4096];
	if (strlen(text) >= sizeof copy)
		return weir_error_set(-EINVAL, "a list of sizes has at most %zu characters", sizeof copy - 1);
	memcpy(copy, text, strlen(text) + 1);
	ret->count = 0;
	for (char *from = copy; from != NULL;) {
		char *comma = strchr(from, ',');
		if (comma != NULL)
			*comma++ = '\0';
		if (ret->count == LOAD_SIZES)
			return weir_error_set(-EINVAL, "at most %d sizes are accepted", LOAD_SIZES);
		if (!read_size(from, &ret->bytes[ret->count], &ret->weight[ret->count]))
			return wrong(text);
		ret->count++;
		from = comma;
	}
	return 0;
}

static void cut(const weir_dist *dist, sizes *ret)
{
	double rest = floor(dist->mean * LOAD_SIZES + 0.5);
	ret->count = LOAD_SIZES;
	for (unsigned i = 0; i < LOAD_SIZES; i++) {
		ret->bytes[i] = fmax(floor(weir_dist_quantile(dist, (i + 0.5) / LOAD_SIZES) + 0.5), 1);
		ret->weight[i] = 1;
		if (i + 1 < LOAD_SIZES)
			rest -= ret->bytes[i];
	}
	/* For very small sizes, which are rounded up, there may be nothing left. */
	ret->bytes[LOAD_SIZES - 1] = fmax(rest, 1);
}

static int read_sizes(const char *text, sizes *ret)
{
	weir_dist dist;
	const char *first = text + strspn(text, " \t");
	if (strchr("0123456789.", *first) != NULL)
		return *first != '\0' ? read_list(text, ret) : wrong(text);
	if (weir_value_dist_size(text, &dist) < 0)
		return wrong(text);
	if (dist.kind == WEIR_DIST_DETERMINISTIC) {
		ret->bytes[0] = dist.mean;
		ret->weight[0] = 1;
		ret->count = 1;
	} else {
		cut(&dist, ret);
	}
	for (unsigned i = 0; i < ret->count; i++)
		if (!(ret->bytes[i] <= SIZE_MOST))
			return weir_error_set(-EINVAL, "the largest sizes would be above %g bytes",
					      SIZE_MOST);
	return 0;
}

static int make_items(load_work *work, const char *target, const sizes *all)
{
	load_item *item = weir_mem_array(all->count, sizeof *item);
	char digits[32];
	bool present[LOAD_SIZE_GROUPS] = {false};
	uint16_t row[LOAD_SIZE_GROUPS];
	if (item == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	for (unsigned i = 0; i < all->count; i++)
		present[load_size_group(all->bytes[i])] = true;
	load_work_add_size_rows(work, present, row);
	for (unsigned i = 0; i < all->count; i++) {
		snprintf(digits, sizeof digits, "%.0f", all->bytes[i]);
		item[i].target = load_work_size_target(work, target, digits);
		item[i].row = row[load_size_group(all->bytes[i])];
		if (item[i].target.length == 0) {
			weir_mem_free(item);
			return -ENOMEM;
		}
	}
	return load_work_set_items(work, item, all->weight, all->count);
}

int load_work_sizes(const load_habits *habits, const char *target, const char *text, load_work **ret)
{
	load_work *work = NULL;
	sizes all = {.count = 0};
	int failed = load_check_size_target(target);
	if (!failed)
		failed = read_sizes(text, &all);
	if (!failed)
		failed = load_work_begin(habits, &work);
	if (failed)
		return failed;
	failed = make_items(work, target, &all);
	return load_work_finish(work, failed, ret);
}

int load_sizes_list(const char *text, double ret_bytes[LOAD_SIZES], double ret_weights[LOAD_SIZES],
		    unsigned *ret_count)
{
	sizes all = {.count = 0};
	int failed = read_sizes(text, &all);
	if (failed)
		return failed;
	memcpy(ret_bytes, all.bytes, all.count * sizeof *ret_bytes);
	memcpy(ret_weights, all.weight, all.count * sizeof *ret_weights);
	*ret_count = all.count;
	return 0;
}

int load_sizes_make(const char *folder, const char *text)
{
	char path[4096];
	sizes all = {.count = 0};
	int failed = read_sizes(text, &all);
	if (!failed && strlen(folder) > 4000)
		failed = weir_error_set(-ENAMETOOLONG, "the name of the folder is too long");
	for (unsigned i = 0; i < all.count && !failed; i++) {
		snprintf(path, sizeof path, "%s/%.0f", folder, all.bytes[i]);
		failed = load_make_file(path, (uint64_t)all.bytes[i]);
	}
	return failed;
}
