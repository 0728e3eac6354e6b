/* SPDX-License-Identifier: Apache-2.0 */
#include "support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <webmail/sessions.h>

#define T0 (100 * WEIR_NS_PER_S)

typedef struct made_token {
	char text[STORE_TOKEN_CHARS + 1];
} made_token;

static made_token token_of(unsigned number)
{
	made_token token;
	snprintf(token.text, sizeof(token.text), "%043u", number);
	return token;
}

static weir_span span(const made_token *token)
{
	return (weir_span){token->text, STORE_TOKEN_CHARS};
}

static store_session is(uint32_t user, const char *class)
{
	store_session s = {.user = user, .expires_s = 1};
	snprintf(s.name, sizeof(s.name), "user%u", user);
	snprintf(s.class, sizeof(s.class), "%s", class);
	return s;
}

static void what_was_put_is_found(void **state)
{
	sessions *s = sessions_new();
	made_token one = token_of(1), two = token_of(2);
	store_session gold = is(7, "gold");
	session found;
	assert_false(sessions_find(s, span(&one), T0, &found));
	sessions_put(s, span(&one), &gold, T0);
	assert_true(sessions_find(s, span(&one), T0 + 1, &found));
	assert_int_equal(found.is.user, 7);
	assert_string_equal(found.is.class, "gold");
	assert_true(found.fresh);
	assert_false(sessions_find(s, span(&two), T0, &found));
	assert_int_equal(sessions_count(s), 1);
	sessions_drop(s, span(&one));
	assert_false(sessions_find(s, span(&one), T0, &found));
	assert_int_equal(sessions_count(s), 0);
	sessions_free(s);
}

/* It is still found, for its class, but has to be looked up. */
static void trust_ends(void **state)
{
	sessions *s = sessions_new();
	made_token one = token_of(1);
	store_session bronze = is(7, "bronze"), gold = is(7, "gold");
	session found;
	sessions_put(s, span(&one), &bronze, T0);
	assert_true(sessions_find(s, span(&one), T0 + SESSIONS_TRUST_NS - 1, &found) && found.fresh);
	assert_true(sessions_find(s, span(&one), T0 + SESSIONS_TRUST_NS, &found) && !found.fresh);
	sessions_put(s, span(&one), &gold, T0 + SESSIONS_TRUST_NS);
	assert_true(sessions_find(s, span(&one), T0 + SESSIONS_TRUST_NS, &found) && found.fresh);
	assert_string_equal(found.is.class, "gold");
	assert_int_equal(sessions_count(s), 1);
	sessions_free(s);
}

/* Tokens of another length were not given out by us. */
static void other_lengths_are_none(void **state)
{
	sessions *s = sessions_new();
	store_session gold = is(7, "gold");
	session found;
	weir_span bad[] = {
		{NULL, 0}, WEIR_SPAN("x"), {"0000000000000000000000000000000000000000000000000", 44}};
	for (unsigned i = 0; i < 3; i++) {
		sessions_put(s, bad[i], &gold, T0);
		assert_false(sessions_find(s, bad[i], T0, &found));
		sessions_drop(s, bad[i]);
		assert_null(sessions_kept(s, bad[i]));
	}
	assert_int_equal(sessions_count(s), 0);
	sessions_free(s);
}

/*
 * The field of forms follows from the token alone: a restart changes nothing, and each session has its own.
 */
static void csrf_follows_from_the_token(void **state)
{
	made_token one = token_of(1), two = token_of(2);
	char first[SESSIONS_CSRF_CHARS + 1], second[SESSIONS_CSRF_CHARS + 1], other[SESSIONS_CSRF_CHARS + 1];
	sessions_csrf(span(&one), first);
	sessions_csrf(span(&one), second);
	sessions_csrf(span(&two), other);
	assert_int_equal(strlen(first), SESSIONS_CSRF_CHARS);
	assert_string_equal(first, second);
	assert_string_not_equal(first, other);
}

/* At the bound, those that were not used make room, and one that is in use stays. */
static void it_is_bounded(void **state)
{
	sessions *s = sessions_new();
	made_token used = token_of(0);
	store_session gold = is(7, "gold");
	session found;
	sessions_put(s, span(&used), &gold, T0);
	for (unsigned i = 1; i < 3 * SESSIONS_MAX; i++) {
		made_token token = token_of(i);
		sessions_put(s, span(&token), &gold, T0 + i);
		assert_true(sessions_find(s, span(&used), T0 + i, &found));
	}
	assert_true(sessions_count(s) <= SESSIONS_MAX);
	assert_true(sessions_count(s) > SESSIONS_MAX / 2);
	sessions_free(s);
}

static void folders_are_kept(void **state)
{
	sessions *s = sessions_new();
	made_token one = token_of(1), two = token_of(2);
	store_session gold = is(7, "gold");
	weir_buf *list = weir_buf_new(SESSIONS_KEPT_BYTES + 1), *kept;
	list->length = 3;
	memcpy(list->data, "abc", 3);
	sessions_keep(s, span(&one), list); /* nobody is there */
	assert_null(sessions_kept(s, span(&one)));
	sessions_put(s, span(&one), &gold, T0);
	sessions_keep(s, span(&one), list);
	sessions_keep(s, span(&one), list);
	kept = sessions_kept(s, span(&one));
	assert_ptr_equal(kept, list);
	weir_buf_unref(kept);
	assert_null(sessions_kept(s, span(&two)));
	sessions_drop(s, span(&one));
	sessions_put(s, span(&one), &gold, T0);
	assert_null(sessions_kept(s, span(&one)));
	list->length = SESSIONS_KEPT_BYTES + 1;
	sessions_keep(s, span(&one), list);
	assert_null(sessions_kept(s, span(&one)));
	list->length = 3;
	sessions_keep(s, span(&one), list);
	sessions_free(s); /* with what it keeps */
	assert_int_equal(list->refs, 1);
	weir_buf_unref(list);
	sessions_free(NULL);
}

#define THREADS 4

static void *use_it(void *arg)
{
	sessions *s = arg;
	weir_buf *list = weir_buf_new(8);
	list->length = 8;
	memset(list->data, 0, 8);
	for (unsigned i = 0; i < 20000; i++) {
		made_token token = token_of(i % 500);
		store_session gold = is(i % 500, "gold");
		session found;
		if (i % 7 == 0)
			sessions_drop(s, span(&token));
		else if (!sessions_find(s, span(&token), T0 + i, &found))
			sessions_put(s, span(&token), &gold, T0 + i);
		else
			assert_int_equal(found.is.user, i % 500);
		sessions_keep(s, span(&token), list);
		weir_buf_unref(sessions_kept(s, span(&token)));
	}
	weir_buf_unref(list);
	return NULL;
}

static void several_threads_use_it(void **state)
{
	sessions *s = sessions_new();
	pthread_t threads[THREADS];
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, use_it, s), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(sessions_count(s) <= 500);
	sessions_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_put_is_found),  cmocka_unit_test(trust_ends),
		cmocka_unit_test(other_lengths_are_none), cmocka_unit_test(csrf_follows_from_the_token),
		cmocka_unit_test(it_is_bounded),          cmocka_unit_test(folders_are_kept),
		cmocka_unit_test(several_threads_use_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
