/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A main for a fuzz target without libFuzzer: feeds it the files and folders named, each input in memory of exactly its
 * size so that ASan sees a read past the end, and then the empty input.
 */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int feed_file(const char *path)
{
	struct stat status;
	FILE *file = fopen(path, "rb");
	if (file == NULL || fstat(fileno(file), &status) < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	size_t size = (size_t)status.st_size;
	uint8_t *data = malloc(size ? size : 1);
	if (data == NULL || fread(data, 1, size, file) != size) {
		fprintf(stderr, "%s: cannot be read\n", path);
		exit(1);
	}
	fclose(file);
	/* Before, not after: if it crashes, this line says with what. */
	printf("%s\n", path);
	fflush(stdout);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	return 1;
}

/* Returns the number of inputs fed; negative: one could not be read. */
static int feed(const char *path)
{
	char name[4096];
	int count = 0, result;
	DIR *folder = opendir(path);
	if (folder == NULL)
		return feed_file(path);
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		result = feed_file(name);
		if (result < 0) {
			count = result;
			break;
		}
		count += result;
	}
	closedir(folder);
	return count;
}

int main(int argc, char **argv)
{
	int total = 0;

	for (int i = 1; i < argc; i++) {
		int count = feed(argv[i]);
		if (count < 0)
			return 1;
		total += count;
	}
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	printf("%d inputs\n", total);
	/* An empty corpus is a mistake in a path, not a pass. */
	return total > 0 ? 0 : 1;
}
