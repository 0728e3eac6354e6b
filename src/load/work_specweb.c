/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static part of SPECweb99: directories of 36 files, nine in each of four classes, of 102.4 (j + 1)
 * 10^class bytes. The classes get 35, 50, 14 and 1 % of the requests. The files within a class, and the
 * directories, are drawn by Zipf with alpha 1; the files have a rank order of their own.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "load/make_files.h"
#include "load/syntax.h"
#include "load/work_priv.h"

#define CLASSES 4
#define FILES   9

static const double class_share[CLASSES] = {0.35, 0.50, 0.14, 0.01};
/* The file at each rank: the middle sizes are requested most. */
static const unsigned file_at_rank[FILES] = {4, 3, 5, 2, 6, 1, 7, 8, 0};

uint32_t load_specweb_file(unsigned klass, unsigned number)
{
	uint32_t tenths = 1024;
	if (klass >= CLASSES || number >= FILES)
		return 0;
	for (unsigned i = 0; i < klass; i++)
		tenths *= 10;
	return tenths * (number + 1) / 10;
}

uint64_t load_specweb_bytes(unsigned directories)
{
	uint64_t bytes = 0;
	for (unsigned klass = 0; klass < CLASSES; klass++)
		for (unsigned j = 0; j < FILES; j++)
			bytes += load_specweb_file(klass, j);
	return bytes * directories;
}

static int check_directories(unsigned directories)
{
	if (directories >= 1 && directories <= LOAD_SPECWEB_DIRECTORIES)
		return 0;
	return weir_error_set(-EINVAL, "the SPECweb99 files are in 1 to %d directories",
			      LOAD_SPECWEB_DIRECTORIES);
}

/* ---- files ---- */

static int make_directory(const char *folder, unsigned directory)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/dir%05u", folder, directory);
	int failed = load_make_folder(path);
	for (unsigned i = 0; i < CLASSES * FILES && !failed; i++) {
		snprintf(path, sizeof path, "%s/dir%05u/class%u_%u", folder, directory, i / FILES, i % FILES);
		failed = load_make_file(path, load_specweb_file(i / FILES, i % FILES));
	}
	return failed;
}

int load_specweb_make(const char *folder, unsigned directories)
{
	int failed = check_directories(directories);
	if (!failed && strlen(folder) > 4000)
		failed = weir_error_set(-ENAMETOOLONG, "the name of the folder is too long");
	for (unsigned i = 0; i < directories && !failed; i++)
		failed = make_directory(folder, i);
	return failed;
}

/* ---- the work ---- */

/* The share of each file within its class. */
static void file_shares(double share[FILES])
{
	double sum = 0;
	for (unsigned rank = 0; rank < FILES; rank++)
		sum += 1.0 / (rank + 1);
	for (unsigned rank = 0; rank < FILES; rank++)
		share[file_at_rank[rank]] = 1.0 / (rank + 1) / sum;
}

static int make_items(load_work *work, const char *prefix, unsigned directories, load_item *item,
		      double *weight)
{
	double share[FILES];
	char target[LOAD_TARGET_MAX + 1];
	file_shares(share);
	for (unsigned i = 0; i < directories * CLASSES * FILES; i++) {
		unsigned directory = i / (CLASSES * FILES), klass = i / FILES % CLASSES, j = i % FILES;
		int length =
			snprintf(target, sizeof target, "%s/dir%05u/class%u_%u", prefix, directory, klass, j);
		const char *kept = load_work_keep(work, target, (size_t)length);
		if (kept == NULL)
			return -ENOMEM;
		item[i] = (load_item){.target = {kept, (size_t)length}, .row = (uint16_t)klass};
		weight[i] = class_share[klass] * share[j] / (directory + 1);
	}
	return 0;
}

/* "", "/", "/files/": without a trailing '/'. */
static int copy_prefix(const char *prefix, char *copy, size_t room)
{
	size_t length = strlen(prefix);
	while (length > 0 && prefix[length - 1] == '/')
		length--;
	if (length + 40 > room)
		return weir_error_set(-EINVAL, "the path before the files is too long");
	memcpy(copy, prefix, length);
	copy[length] = '\0';
	return length == 0 ? 0 : load_check_target(copy);
}

int load_work_specweb(const load_habits *habits, const char *prefix, unsigned directories, load_work **ret)
{
	char copy[LOAD_TARGET_MAX], name[16];
	load_work *work = NULL;
	uint32_t count = directories * CLASSES * FILES;
	int failed = check_directories(directories);
	if (!failed)
		failed = copy_prefix(prefix, copy, sizeof copy);
	if (!failed)
		failed = load_work_begin(habits, &work);
	if (failed)
		return failed;
	for (unsigned klass = 0; klass < CLASSES; klass++) {
		snprintf(name, sizeof name, "class %u", klass);
		load_work_add_row(work, name);
	}
	load_item *item = weir_mem_array(count, sizeof *item);
	double *weight = weir_mem_array(count, sizeof *weight);
	failed = item == NULL || weight == NULL ? weir_error_set(-ENOMEM, "out of memory")
						: make_items(work, copy, directories, item, weight);
	if (failed)
		weir_mem_free(item);
	else
		failed = load_work_set_items(work, item, weight, count);
	weir_mem_free(weight);
	return load_work_finish(work, failed, ret);
}
