/* SPDX-License-Identifier: Apache-2.0 */
/* Logging in: few passwords are hashed at one time, and those who guess are slowed down. */
#include <errno.h>
#include <stdio.h>
#include <webmail/views.h>
#include <weir/cookie.h>
#include <weir/form.h>

#include "password.h"
#include "webmail.h"

enum { USER, PASSWORD, NEXT, FIELDS };

static const weir_span names[FIELDS] = {WEIR_SPAN("user"), WEIR_SPAN("password"), WEIR_SPAN("next")};

weir_span login_name(weir_request *request)
{
	weir_span values[FIELDS];
	weir_form_reader form;
	bool read = weir_request_form(request, 0, &form) == 0 &&
		    weir_form_read(&form, names, FIELDS, values) == 0;
	return read ? values[USER] : (weir_span){NULL, 0};
}

/* The form again, with what was wrong. The password has to be typed anew. */
static int ask_again(visit *v, const weir_span values[FIELDS], unsigned status, weir_span wrong)
{
	put_top(&v->page, &(view_top){.title = WEIR_SPAN("Webmail")});
	put_login(&v->page, &(view_login){.user = values[USER],
					  .known = values[USER].length > 0,
					  .next = visit_is_path(values[NEXT]) ? values[NEXT] : WEIR_SPAN(""),
					  .wrong = wrong});
	return visit_reply(v, status, NULL);
}

static int begin_session(visit *v, const store_user *user, weir_span next)
{
	char token[STORE_TOKEN_CHARS + 1];
	weir_field cookie;
	int64_t expires_s = v->now_s + (int64_t)v->mail->session_s;
	int failed = store_session_new(v->db, user->id, v->now_s, expires_s, token);
	if (failed == 0)
		failed = weir_request_set_cookie(v->request,
						 &(weir_cookie){.name = WEIR_SPAN(WEBMAIL_COOKIE),
								.value = page_span(token),
								.max_age_s = (int64_t)v->mail->session_s,
								.secure = v->mail->secure},
						 &cookie);
	if (failed != 0)
		return failed;
	store_session is = {.user = user->id, .expires_s = expires_s};
	snprintf(is.name, sizeof(is.name), "%s", user->name);
	snprintf(is.class, sizeof(is.class), "%s", user->class);
	sessions_put(v->mail->sessions, page_span(token), &is, weir_world_now(v->mail->world));
	return visit_redirect(v, visit_is_path(next) ? next : WEIR_SPAN("/"), &cookie);
}

/* A user who does not exist takes as long as a wrong password. */
static int check(visit *v, const weir_span values[FIELDS], store_user *ret_user)
{
	store_user user = {.hash = ""};
	int failed = store_user_find(v->db, values[USER], &user);
	if (failed != 0 && failed != -ENOENT && failed != -EINVAL)
		return failed;
	if (values[PASSWORD].length > PASSWORD_MAX || !password_matches(user.hash, values[PASSWORD]))
		return -EACCES;
	*ret_user = user;
	return 0;
}

int login_visit(visit *v)
{
	weir_span values[FIELDS];
	weir_form_reader form;
	store_user user;
	weir_throttle *throttle = v->mail->throttle;
	const struct sockaddr *client = weir_request_client(v->request);
	if (weir_request_form(v->request, 0, &form) != 0 ||
	    weir_form_read(&form, names, FIELDS, values) != 0 || !visit_is_same_origin(v))
		return -EILSEQ;
	uint64_t now_ns = weir_world_now(v->mail->world);
	uint64_t wait_ns = weir_throttle_wait(throttle, values[USER], client, now_ns);
	uint64_t seconds = (wait_ns + WEIR_NS_PER_S - 1) / WEIR_NS_PER_S;
	if (wait_ns > 0)
		return ask_again(v, values, 429,
				 visit_print(v, "Too many wrong passwords. Try again in %llu s.",
					     (unsigned long long)seconds));
	int failed = check(v, values, &user);
	if (failed == -EACCES) {
		weir_throttle_failed(throttle, values[USER], client, weir_world_now(v->mail->world));
		return ask_again(v, values, 401, WEIR_SPAN("User or password is wrong."));
	}
	if (failed != 0)
		return failed;
	weir_throttle_passed(throttle, values[USER], client);
	return begin_session(v, &user, values[NEXT]);
}
