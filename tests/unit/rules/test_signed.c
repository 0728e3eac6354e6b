/* SPDX-License-Identifier: Apache-2.0 */
/* Signed cookies: against a signature that openssl dgst has made, and with every byte changed in turn. */
#include "support/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rules/signed.h"

#define KEY    "0123456789abcdef0123456789abcdef"
#define COOKIE "gold.2000000000.73ef9d7f8fa65efc4b7d57b64003650c2f75538b79f9237f17eced1cac013ffa"
#define NOW    1999999999

static weir_span span(const char *text)
{
	return (weir_span){text, strlen(text)};
}

static int read_text(const char *text, weir_signed_keys *ret_keys)
{
	char path[] = "/tmp/weir-signed-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	int error = weir_signed_read(path, ret_keys);
	unlink(path);
	return error;
}

static bool check(const char *name, const char *cookie, int64_t now_s)
{
	weir_signed_keys keys;
	weir_span value;
	assert_int_equal(read_text("first key of the file\n" KEY "\n", &keys), 0);
	assert_int_equal(keys.count, 2);
	return weir_signed_check(&keys, span(name), span(cookie), now_s, &value);
}

static void the_right_one(void **state)
{
	weir_signed_keys keys;
	weir_span value;
	assert_int_equal(read_text(KEY, &keys), 0);
	assert_true(weir_signed_check(&keys, span("plan"), span(COOKIE), NOW, &value));
	assert_int_equal(value.length, 4);
	assert_memory_equal(value.at, "gold", 4);
	assert_true(check("plan", COOKIE, NOW));
	assert_true(check("plan", COOKIE, 0));
	assert_false(check("plan", COOKIE, NOW + 1));
	assert_false(check("plans", COOKIE, NOW));
	assert_false(check("", COOKIE, NOW));
}

static void every_change_is_noticed(void **state)
{
	char changed[] = COOKIE;
	for (size_t i = 0; i < strlen(COOKIE); i++) {
		changed[i] ^= 1;
		assert_false(check("plan", changed, NOW));
		changed[i] ^= 1;
		char shorter[sizeof(changed)];
		memcpy(shorter, changed, i);
		shorter[i] = '\0';
		assert_false(check("plan", shorter, NOW));
	}
	assert_true(check("plan", changed, NOW));
}

static void files(void **state)
{
	weir_signed_keys keys;
	char line[200];
	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\0';
	assert_int_equal(weir_signed_read("/nowhere/at/all", &keys), -ENOENT);
	assert_int_equal(read_text("", &keys), -EINVAL);
	assert_int_equal(read_text("\n\n", &keys), -EINVAL);
	assert_int_equal(read_text("too short\n", &keys), -EINVAL);
	assert_int_equal(read_text(line, &keys), -EINVAL);
	assert_int_equal(read_text(KEY "\n" KEY "\n" KEY "\n" KEY "\n" KEY "\n", &keys), -EINVAL);
	line[128] = '\0';
	assert_int_equal(read_text(line, &keys), 0);
	assert_int_equal(keys.length[0], 128);
	assert_int_equal(read_text(KEY "\r\n\r\n" KEY, &keys), 0);
	assert_int_equal(keys.count, 2);
	assert_int_equal(keys.length[0], strlen(KEY));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_right_one),
		cmocka_unit_test(every_change_is_noticed),
		cmocka_unit_test(files),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
