/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS context of a listen block. The check makes one too, to see whether it can be made. */
#include "service/config.h"
#include "tls/tls.h"

int weir_config_tls(const weir_config_listen *listen, weir_tls **ret_tls)
{
	weir_tls_certificate certificates[WEIR_CONFIG_CERTIFICATES_MAX];
	size_t count = 0;
	for (; listen->certificates != NULL && listen->certificates[count] != NULL &&
	       count < WEIR_CONFIG_CERTIFICATES_MAX;
	     count++)
		certificates[count] =
			(weir_tls_certificate){listen->certificates[count], listen->keys[count]};
	weir_tls_options options = {.certificates = certificates,
				    .certificate_count = count,
				    .client_ca = listen->client_ca,
				    .client_required =
					    listen->client_certificate == WEIR_CONFIG_CLIENT_REQUIRED,
				    .min_version = listen->tls_version == 1 ? "1.3" : "1.2",
				    .ciphers = listen->ciphers,
				    .http2 = listen->http2,
				    .no_tickets = !listen->tickets};
	return weir_tls_new(&options, ret_tls);
}
