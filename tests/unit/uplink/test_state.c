/* SPDX-License-Identifier: Apache-2.0 */
/* The file with what was there before: what is written is read, and nothing else is. */
#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "uplink/state.h"

static const weir_uplink_state some = {.device = "eth0",
				       .index = 3,
				       .rate = 10000000,
				       .bands = 5,
				       .gso = {.size = 65536, .count = 65535, .ipv4_size = 0}};

#define TEXT                                                                                      \
	"weir uplink 1\ndevice eth0\nindex 3\nrate 10000000\nbands 5\ngso-size 65536\ngso-count " \
	"65535\ngso-ipv4-size 0\n"

static bool same(const weir_uplink_state *a, const weir_uplink_state *b)
{
	return strcmp(a->device, b->device) == 0 && a->index == b->index && a->rate == b->rate &&
	       a->bands == b->bands && a->gso.size == b->gso.size && a->gso.count == b->gso.count &&
	       a->gso.ipv4_size == b->gso.ipv4_size;
}

static void test_prints_and_reads(void **state)
{
	char text[WEIR_UPLINK_STATE_BYTES], small[40];
	weir_uplink_state got = {0}, largest = {.index = INT32_MAX,
						.rate = WEIR_UPLINK_RATE_MOST,
						.bands = 8,
						.gso = {INT32_MAX, INT32_MAX, INT32_MAX}};
	size_t length = weir_uplink_state_print(&some, text, sizeof(text));
	assert_string_equal(text, TEXT);
	assert_int_equal(weir_uplink_state_read(text, length, &got), 0);
	assert_true(same(&got, &some));
	memset(largest.device, 'x', sizeof(largest.device) - 1);
	length = weir_uplink_state_print(&largest, text, sizeof(text));
	assert_int_equal(weir_uplink_state_read(text, length, &got), 0);
	assert_true(same(&got, &largest));
	assert_int_equal(weir_uplink_state_print(&some, small, sizeof(small)), 0);
}

/* Every shorter part, and every byte replaced: refused, or read as something within the bounds. */
static void test_damaged(void **state)
{
	char text[] = TEXT;
	size_t length = strlen(text);
	weir_uplink_state got;
	for (size_t part = 0; part < length; part++)
		assert_int_equal(weir_uplink_state_read(text, part, &got), -EINVAL);
	for (size_t i = 0; i < length; i++)
		for (int byte = 0; byte < 256; byte += 5) {
			char kept = text[i];
			text[i] = (char)byte;
			got = some;
			if (weir_uplink_state_read(text, length, &got) != 0)
				assert_true(same(&got, &some));
			assert_in_range(got.bands, 1, 8);
			assert_in_range(got.rate, WEIR_UPLINK_RATE_LEAST, WEIR_UPLINK_RATE_MOST);
			assert_true(got.index > 0 && strlen(got.device) < IF_NAMESIZE);
			text[i] = kept;
		}
}

static void test_refused(void **state)
{
	static const struct {
		const char *from, *to, *says;
	} cases[] = {{"uplink 1", "uplink 2", "version"},
		     {"eth0", "", "'device'"},
		     {"eth0", "0123456789abcdef", "'device'"},
		     {"eth0", "a/b", "'device'"},
		     {"eth0", "a b", "'device'"},
		     {"index 3", "index 0", "'index'"},
		     {"index 3", "index -3", "'index'"},
		     {"index 3", "index +3", "'index'"},
		     {"index 3", "index 03", "'index'"},
		     {"index 3", "index 3 ", "'index'"},
		     {"index 3", "index 2147483648", "'index'"},
		     {"index 3", "index", "'index'"},
		     {"rate 10000000", "rate 0", "'rate'"},
		     {"rate 10000000", "rate 18446744073709551617", "'rate'"},
		     {"rate 10000000", "rate 1e7", "'rate'"},
		     {"bands 5", "bands 9", "'bands'"},
		     {"bands 5", "bands 5\nbands 5", "'gso-size'"},
		     {"gso-size 65536", "gso-size 4294967296", "'gso-size'"},
		     {"ipv4-size 0\n", "ipv4-size 0\nmore 1\n", "more lines"},
		     {"ipv4-size 0\n", "ipv4-size 0", "'gso-ipv4-size'"}};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[WEIR_UPLINK_STATE_BYTES];
		const char *at = strstr(TEXT, cases[i].from);
		weir_uplink_state got = some;
		int length = snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - TEXT), TEXT, cases[i].to,
				      at + strlen(cases[i].from));
		assert_int_equal(weir_uplink_state_read(text, (size_t)length, &got), -EINVAL);
		assert_non_null(strstr(weir_error(), cases[i].says));
		assert_true(same(&got, &some));
	}
}

static void test_long_one_is_refused(void **state)
{
	char text[WEIR_UPLINK_STATE_BYTES + 1];
	weir_uplink_state got;
	memset(text, '\n', sizeof(text));
	memcpy(text, TEXT, strlen(TEXT));
	assert_int_equal(weir_uplink_state_read(text, sizeof(text), &got), -EINVAL);
}

/* ---- files ---- */

typedef struct scratch {
	char top[64], folder[80];
	char file[160];
} scratch;

static int find_file(scratch *s)
{
	struct stat about;
	assert_int_equal(stat("/proc/self/ns/net", &about), 0);
	snprintf(s->file, sizeof(s->file), "%s/uplink-%llu-3", s->folder, (unsigned long long)about.st_ino);
	return access(s->file, F_OK);
}

static scratch make_scratch(void)
{
	scratch s = {.top = "/tmp/weir-uplink-XXXXXX"};
	assert_non_null(mkdtemp(s.top));
	snprintf(s.folder, sizeof(s.folder), "%s/state", s.top);
	assert_int_not_equal(find_file(&s), 0);
	return s;
}

static void end_scratch(scratch *s)
{
	unlink(s->file);
	rmdir(s->folder);
	assert_int_equal(rmdir(s->top), 0);
}

static void test_file(void **state)
{
	scratch s = make_scratch();
	weir_uplink_state got;
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -ENOENT);
	assert_int_equal(weir_uplink_state_drop(s.folder, 3), 0);
	assert_int_equal(weir_uplink_state_save(s.folder, &some), 0);
	assert_int_equal(weir_uplink_state_save(s.folder, &some), 0); /* over the old one */
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), 0);
	assert_true(same(&got, &some));
	assert_int_equal(weir_uplink_state_load(s.folder, 4, &got), -ENOENT);
	assert_int_equal(weir_uplink_state_drop(s.folder, 3), 0);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -ENOENT);
	end_scratch(&s);
}

static void test_files_of_others(void **state)
{
	scratch s = make_scratch();
	weir_uplink_state got;
	assert_int_equal(weir_uplink_state_save(s.folder, &some), 0);
	/* writable by others */
	assert_int_equal(chmod(s.file, 0666), 0);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -EPERM);
	/* a symbolic link */
	char target[128];
	snprintf(target, sizeof(target), "%s/elsewhere", s.top);
	assert_int_equal(chmod(s.file, 0644), 0);
	assert_int_equal(rename(s.file, target), 0);
	assert_int_equal(symlink(target, s.file), 0);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -ELOOP);
	/* which is replaced, not followed */
	assert_int_equal(unlink(target), 0);
	assert_int_equal(weir_uplink_state_save(s.folder, &some), 0);
	assert_int_not_equal(access(target, F_OK), 0);
	assert_int_equal(weir_uplink_state_drop(s.folder, 3), 0);
	/* no file at all: nothing blocks */
	assert_int_equal(mkfifo(s.file, 0644), 0);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -EPERM);
	end_scratch(&s);
}

static void test_damaged_file(void **state)
{
	scratch s = make_scratch();
	weir_uplink_state other = some, got;
	assert_int_equal(weir_uplink_state_save(s.folder, &some), 0);
	assert_int_equal(truncate(s.file, 40), 0);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -EINVAL);
	assert_non_null(strstr(weir_error(), s.file));
	assert_int_equal(truncate(s.file, 1 << 20), 0);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -EINVAL);
	/* about another device */
	char four[160];
	other.index = 4;
	assert_int_equal(weir_uplink_state_save(s.folder, &other), 0);
	snprintf(four, sizeof(four), "%.*s4", (int)strlen(s.file) - 1, s.file);
	assert_int_equal(rename(four, s.file), 0);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -EINVAL);
	end_scratch(&s);
}

static void test_folder_of_others(void **state)
{
	scratch s = make_scratch();
	weir_uplink_state got;
	assert_int_equal(mkdir(s.folder, 0755), 0);
	assert_int_equal(chmod(s.folder, 0777), 0);
	assert_int_equal(weir_uplink_state_save(s.folder, &some), -EPERM);
	assert_int_equal(weir_uplink_state_load(s.folder, 3, &got), -EPERM);
	assert_int_equal(weir_uplink_state_drop(s.folder, 3), -EPERM);
	assert_int_equal(weir_uplink_state_lock(s.folder), -EPERM);
	assert_int_equal(weir_uplink_state_save("/nowhere/at/all", &some), -ENOENT);
	assert_non_null(strstr(weir_error(), "/nowhere/at/all"));
	end_scratch(&s);
}

static void test_lock(void **state)
{
	scratch s = make_scratch();
	int first = weir_uplink_state_lock(s.folder);
	assert_true(first >= 0);
	assert_int_equal(weir_uplink_state_lock(s.folder), -EBUSY);
	close(first);
	first = weir_uplink_state_lock(s.folder);
	assert_true(first >= 0);
	close(first);
	end_scratch(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prints_and_reads),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_long_one_is_refused),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_files_of_others),
		cmocka_unit_test(test_damaged_file),
		cmocka_unit_test(test_folder_of_others),
		cmocka_unit_test(test_lock),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
