/* SPDX-License-Identifier: Apache-2.0 */
#include "service.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lmtp.h"
#include "submit.h"

#define PASSWORD_BYTES 512

struct service {
	/* const after service_prepare */
	char *lmtp_at; /* NULL: no mail comes in this way */
	char *url, *user, *ca;
	char password[PASSWORD_BYTES];
	char host[256];
	/* the main thread; readers see them once they are there */
	bool started;
	lmtp *lmtp;
	submit *submit;
};

int service_address(const char *text, struct sockaddr_storage *ret_address, socklen_t *ret_length)
{
	char host[128];
	const char *colon = strrchr(text, ':');
	struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM},
			*found;
	size_t skip = text[0] == '[', length = colon != NULL ? (size_t)(colon - text) : 0;
	if (length < 2 * skip + 1 || length >= sizeof(host) || (skip == 1 && text[length - 1] != ']'))
		return weir_error_set(-EINVAL, "'%s': write an address and a port: 127.0.0.1:2424", text);
	snprintf(host, sizeof(host), "%.*s", (int)(length - 2 * skip), text + skip);
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
		return weir_error_set(-EINVAL, "'%s': write an address and a port: 127.0.0.1:2424", text);
	if (ret_address != NULL) {
		memcpy(ret_address, found->ai_addr, found->ai_addrlen);
		*ret_length = found->ai_addrlen;
	}
	freeaddrinfo(found);
	return 0;
}

static int read_password(const char *path, char ret_password[PASSWORD_BYTES])
{
	FILE *file = fopen(path, "re");
	int failed = file == NULL || fgets(ret_password, PASSWORD_BYTES, file) == NULL ? -EIO : 0;
	if (file != NULL)
		fclose(file);
	ret_password[strcspn(ret_password, "\r\n")] = '\0';
	return failed != 0 ? weir_error_set(failed, "submit-password-file: %s cannot be read", path) : 0;
}

static char *copy(const char *text)
{
	return text != NULL ? strdup(text) : NULL;
}

int service_prepare(webmail *mail, const mail_keys *keys)
{
	struct service *service = calloc(1, sizeof(*service));
	if (service == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	mail->service = service;
	service->lmtp_at = strcmp(keys->lmtp, "off") != 0 ? copy(keys->lmtp) : NULL;
	service->url = copy(keys->submit);
	service->user = copy(keys->submit_user);
	service->ca = copy(keys->submit_ca);
	if (gethostname(service->host, sizeof(service->host) - 1) != 0)
		snprintf(service->host, sizeof(service->host), "localhost");
	return keys->submit_password_file != NULL
		       ? read_password(keys->submit_password_file, service->password)
		       : 0;
}

static int start_lmtp(const webmail *mail, struct service *service)
{
	struct sockaddr_storage address;
	lmtp_options options = {.reactor = mail->reactor,
				.address = (const struct sockaddr *)&address,
				.store_url = mail->url,
				.spool = mail->data,
				.host = service->host};
	char at[128];
	lmtp *made;
	int failed = service_address(service->lmtp_at, &address, &options.address_length);
	if (failed == 0)
		failed = lmtp_new(&options, &made);
	if (failed != 0)
		return failed;
	if (lmtp_address(made, at, sizeof(at)) == 0)
		fprintf(stderr, "  mail comes in by LMTP at %s\n", at);
	__atomic_store_n(&service->lmtp, made, __ATOMIC_RELEASE);
	return 0;
}

/*
 * Passwords and mail do not travel in the clear, except within this machine. A mail server there seldom has a
 * certificate that anybody else would trust, so TLS is used if it is said who signed it.
 */
static int start_submit(const webmail *mail, struct service *service)
{
	submit_options options = {
		.smtp = {.url = service->url,
			 .starttls = service->ca != NULL || !smtp_is_local(service->url),
			 .ca_file = service->ca,
			 .user = service->user,
			 .password = service->password[0] != '\0' ? service->password : NULL,
			 .host = service->host},
		.spool = mail->data};
	submit *made;
	int failed = submit_new(mail->world, mail->url, &options, &made);
	if (failed == 0)
		__atomic_store_n(&service->submit, made, __ATOMIC_RELEASE);
	return failed;
}

int service_start(webmail *mail)
{
	struct service *service = mail->service;
	if (service->started)
		return 0;
	service->started = true;
	int failed = service->lmtp_at != NULL ? start_lmtp(mail, service) : 0;
	if (failed == 0 && service->url != NULL)
		failed = start_submit(mail, service);
	return failed;
}

void service_end(webmail *mail)
{
	struct service *service = mail->service;
	if (service == NULL)
		return;
	lmtp_free(&service->lmtp);
	submit_free(&service->submit);
	free(service->lmtp_at);
	free(service->url);
	free(service->user);
	free(service->ca);
	explicit_bzero(service->password, sizeof(service->password));
	free(service);
	mail->service = NULL;
}

void service_read(const void *shared, void *ret_counts)
{
	const webmail *mail = shared;
	const lmtp *in = __atomic_load_n(&mail->service->lmtp, __ATOMIC_ACQUIRE);
	const submit *out = __atomic_load_n(&mail->service->submit, __ATOMIC_ACQUIRE);
	lmtp_stats came = {0};
	submit_stats went = {0};
	if (in != NULL)
		lmtp_read_stats(in, &came);
	if (out != NULL)
		submit_read_stats(out, &went);
	*(service_counts *)ret_counts = (service_counts){.sessions = sessions_count(mail->sessions),
							 .delivered = came.delivered,
							 .refused = came.refused,
							 .deferred = came.failed,
							 .sent = went.sent,
							 .retries = went.retries,
							 .bounced = went.bounced};
}
