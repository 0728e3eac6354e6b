/* SPDX-License-Identifier: Apache-2.0 */
#include "service/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "service/config_inside.h"

/* ---- landlock, as the kernel defines it: its header may be missing, or too old ---- */

#define CALL_CREATE_RULESET 444
#define CALL_ADD_RULE       445
#define CALL_RESTRICT_SELF  446
#define ASK_VERSION         1u
#define RULE_BENEATH        1

typedef struct ruleset {
	uint64_t files, ports, scopes;
} ruleset;

typedef struct beneath {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed)) beneath;

#define EXECUTE    (UINT64_C(1) << 0)
#define WRITE      (UINT64_C(1) << 1)
#define READ       (UINT64_C(1) << 2)
#define READ_DIR   (UINT64_C(1) << 3)
#define REMOVE     (UINT64_C(1) << 5)
#define MAKE_REG   (UINT64_C(1) << 8)
#define MAKE_SOCK  (UINT64_C(1) << 9)
#define VERSION_1  ((UINT64_C(1) << 13) - 1)
#define REFER      (UINT64_C(1) << 13)
#define TRUNCATE   (UINT64_C(1) << 14)
#define IOCTL_DEV  (UINT64_C(1) << 15)
#define OF_FILES   (EXECUTE | WRITE | READ | TRUNCATE | IOCTL_DEV) /* the others are about folders */
#define READING    (READ | READ_DIR)
#define LOGGING    (WRITE | MAKE_REG)
#define LISTENING  (MAKE_SOCK | REMOVE)
#define EVERYTHING ((VERSION_1 | REFER | TRUNCATE) & ~EXECUTE)

#define SCOPE_ABSTRACT UINT64_C(1)
#define SCOPE_SIGNAL   UINT64_C(2)

/* What is in force for the whole process. */
static unsigned held;

unsigned weir_confine_held(void)
{
	return held;
}

void weir_confine_inherited(unsigned what)
{
	held = what;
}

unsigned weir_confine_wanted(const weir_config *config)
{
	unsigned wanted = 0;
	if (config->process.confine >= WEIR_CONFIG_CONFINE_CALLS)
		wanted |= WEIR_CONFINED_CALLS;
	if (config->process.confine >= WEIR_CONFIG_CONFINE_ON)
		wanted |= WEIR_CONFINED_WRITING;
	if (config->process.confine == WEIR_CONFIG_CONFINE_STRICT ||
	    (config->process.confine == WEIR_CONFIG_CONFINE_ON && config->files_read == 0))
		wanted |= WEIR_CONFINED_READING;
	return wanted;
}

/* The version of landlock; 0: there is none. */
static int version(void)
{
	const char *pretended = getenv("WEIR_LANDLOCK");
	long has = syscall(CALL_CREATE_RULESET, NULL, 0, ASK_VERSION);
	uint32_t most;
	if (has > 0 && pretended != NULL && weir_text_count(pretended, &most) == 0 && most < (uint32_t)has)
		has = most;
	return has > 0 ? (int)has : 0;
}

const char *weir_confine_lacks(int of)
{
	return of >= 6   ? ""
	       : of == 5 ? ": signals are not confined"
	       : of >= 3 ? ": signals and devices are not confined"
			 : ": signals, devices and truncating are not confined";
}

static ruleset rules_of(int of, unsigned what, bool relieving)
{
	const char *manager = getenv("NOTIFY_SOCKET");
	ruleset rules = {.files = VERSION_1};
	if (of >= 2)
		rules.files |= REFER;
	if (of >= 3)
		rules.files |= TRUNCATE;
	if (of >= 5)
		rules.files |= IOCTL_DEV;
	if (of >= 6 && !relieving) /* it signals a predecessor, which is outside */
		rules.scopes |= SCOPE_SIGNAL;
	if (of >= 6 && (manager == NULL || manager[0] != '@'))
		rules.scopes |= SCOPE_ABSTRACT;
	if ((what & WEIR_CONFINED_READING) == 0)
		rules.files &= ~READING;
	return rules;
}

/* ---- what is allowed ---- */

typedef struct allowing {
	int fd;         /* the ruleset */
	uint64_t files; /* the rights that it handles */
	int failed;
} allowing;

/* Allows a file, or a folder with all below. A missing file needs no rule; a pipe can have none (EBADFD). */
static void allow(allowing *a, const char *path, uint64_t what)
{
	struct stat status;
	beneath rule = {.fd = path != NULL ? open(path, O_PATH | O_CLOEXEC) : -1};
	if (rule.fd < 0)
		return;
	rule.allowed = what & a->files;
	if (fstat(rule.fd, &status) == 0 && !S_ISDIR(status.st_mode))
		rule.allowed &= OF_FILES;
	if (rule.allowed != 0 && syscall(CALL_ADD_RULE, a->fd, RULE_BENEATH, &rule, 0) != 0 &&
	    errno != EBADFD)
		a->failed = -errno;
	close(rule.fd);
}

/* Folders that would allow far more than the file in them. */
static bool is_too_much(const char *folder)
{
	return strcmp(folder, "/") == 0 || strcmp(folder, "/dev") == 0 || strcmp(folder, "/dev/pts") == 0 ||
	       strncmp(folder, "/proc/", 6) == 0;
}

static void allow_folder_of(allowing *a, const char *path, uint64_t what)
{
	char folder[PATH_MAX], real[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t length = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
	if (length >= sizeof(folder))
		return;
	memcpy(folder, length > 0 ? path : ".", length > 0 ? length : 1);
	folder[length > 0 ? length : 1] = '\0';
	if (realpath(folder, real) != NULL && !is_too_much(real))
		allow(a, real, what);
}

/* A file that may be replaced: the file, its folder as written, and the folder that a link leads to. */
static void allow_file(allowing *a, const char *path, uint64_t what)
{
	char real[PATH_MAX];
	if (path == NULL)
		return;
	allow(a, path, what);
	allow_folder_of(a, path, what);
	if (realpath(path, real) != NULL)
		allow_folder_of(a, real, what);
}

static void allow_list(allowing *a, const char *const *list, uint64_t what)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		allow(a, list[i], what);
}

static void allow_files(allowing *a, const char *const *list, uint64_t what)
{
	for (size_t i = 0; list != NULL && list[i] != NULL; i++)
		allow_file(a, list[i], what);
}

/* Folders separated by colons, as in LD_LIBRARY_PATH. name: of a file in each; NULL: the folders. */
static void allow_path_list(allowing *a, const char *list, const char *name, uint64_t what)
{
	char path[PATH_MAX];
	char *copy = list != NULL ? strdup(list) : NULL, *rest = copy;
	for (char *folder; copy != NULL && (folder = strsep(&rest, ":")) != NULL;) {
		snprintf(path, sizeof(path), "%s%s%s", folder, name != NULL ? "/" : "",
			 name != NULL ? name : "");
		if (path[0] == '/')
			allow(a, path, what);
	}
	free(copy);
}

/* What libraries read on their own, on common systems. Of /etc, only what is not secret. */
static void allow_system(allowing *a)
{
	static const char *const all[] = {
		"/proc", "/sys/fs/cgroup", "/sys/devices/system", "/dev/null", "/dev/zero", "/dev/urandom",
		"/dev/random", "/etc/localtime", "/usr/share/zoneinfo",
		/* the dynamic loader */
		"/etc/ld.so.cache", "/etc/ld.so.preload", "/lib", "/lib64", "/usr/lib", "/usr/lib64",
		"/usr/local/lib",
		/* OpenSSL, and trusted certificates */
		"/etc/ssl/openssl.cnf", "/etc/ssl/certs", "/etc/ssl/cert.pem", "/usr/share/ca-certificates",
		"/usr/local/share/ca-certificates", "/etc/ca-certificates", "/etc/pki/tls/certs",
		"/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust", "/etc/crypto-policies",
		"/usr/share/crypto-policies", "/var/lib/ca-certificates", NULL};
	allow_list(a, all, READING);
	allow(a, getenv("TZDIR"), READING);
	allow_file(a, getenv("OPENSSL_CONF"), READING);
	allow_file(a, getenv("SSL_CERT_FILE"), READING);
	allow_path_list(a, getenv("SSL_CERT_DIR"), NULL, READING);
	allow_path_list(a, getenv("LD_LIBRARY_PATH"), NULL, READING);
	allow(a, "/dev/null", READING | WRITE);
}

/* What name resolution reads. These files are replaced when the network changes, hence their folders. */
static void allow_resolver(allowing *a, const weir_config *config)
{
	static const char *const files[] = {
		"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf",
		"/etc/services",    NULL};
	bool named = false;
	for (unsigned i = 0; i < config->kind_count; i++)
		named |= config->kinds[i]->resolves != NULL && config->kinds[i]->resolves(config);
	if (named)
		allow_files(a, files, READING);
}

/* By the row of a key: logs are written, folders read; a file also allows its folder. */
static void allow_key(allowing *a, const weir_key *key, const void *values)
{
	const void *at = (const char *)values + key->offset;
	bool written = (key->flags & WEIR_KEY_WRITTEN) != 0;
	const char *path = key->type != WEIR_KEY_PATHS ? *(const char *const *)at : NULL;
	const char *const *paths = key->type == WEIR_KEY_PATHS ? *(const char *const *const *)at : NULL;
	if ((key->flags & WEIR_KEY_ALLOW) != 0)
		allow_list(a, paths, written ? EVERYTHING : READING | EXECUTE);
	else if (key->type == WEIR_KEY_FOLDER)
		allow(a, path, written ? EVERYTHING : READING);
	else if (key->type == WEIR_KEY_OUTPUT && path != NULL && strcmp(path, "-") != 0)
		allow_file(a, path, LOGGING);
	else if (key->type == WEIR_KEY_PATH)
		allow_file(a, path, written ? EVERYTHING : READING);
	else if (key->type == WEIR_KEY_PATHS)
		allow_files(a, paths, READING);
}

static void allow_block(allowing *a, const weir_config_block *block)
{
	weir_block_head *head;
	for (unsigned at = 0; (head = weir_config_element(block, at)) != NULL; at++)
		for (unsigned i = 0; i < block->row_count; i++)
			if (weir_key_is_path(block->rows[i].key))
				allow_key(a, block->rows[i].key, weir_config_values(&block->rows[i], head));
}

/* The folder of a Unix socket: it is made there, and removed at the end. */
static void allow_socket(allowing *a, const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_UNIX)
		allow_folder_of(a, ((const struct sockaddr_un *)(const void *)address)->sun_path, LISTENING);
}

/* The owners of sockets are looked up again by a reload. */
static void allow_listeners(allowing *a, const weir_config *config)
{
	static const char *const accounts[] = {"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", NULL};
	for (unsigned i = 0; i < config->listens; i++) {
		allow_socket(a, &config->listen[i].address);
		if (config->listen[i].user != NULL || config->listen[i].group != NULL)
			allow_list(a, accounts, READING);
	}
	if (!config->admin.off)
		allow_socket(a, &config->admin.address);
}

/* All files that keys name. The pages for rejected requests are only a part of their key's text. */
static void allow_configured(allowing *a, const weir_config *config)
{
	for (unsigned i = 0; i < config->files_read; i++)
		allow_file(a, config->file_read[i], READING);
	for (unsigned i = 0; i < config->block_count; i++)
		allow_block(a, &config->block[i]);
	for (unsigned i = 0; i < config->routes; i++)
		allow_file(a, config->route[i].reject_page, READING);
	allow_listeners(a, config);
}

/* Libraries are read; the loader is executed. */
static int allow_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	bool loader = info->dlpi_addr != 0 && info->dlpi_addr == getauxval(AT_BASE);
	if (strchr(info->dlpi_name, '/') != NULL)
		allow_file(arg, info->dlpi_name, loader ? READING | EXECUTE : READING);
	return 0;
}

static void allow_program(allowing *a, const char *program)
{
	allow_file(a, "/proc/self/exe", READING | EXECUTE);
	if (program != NULL && strchr(program, '/') != NULL)
		allow_file(a, program, READING | EXECUTE);
	dl_iterate_phdr(allow_library, a);
}

#ifdef WEIR_CONFINE_SANITIZED
/* "...:log_path=PATH:..."; the sanitizer appends a pid. */
static void allow_report(allowing *a, const char *variable)
{
	char path[PATH_MAX];
	const char *options = getenv(variable), *at = options != NULL ? strstr(options, "log_path=") : NULL;
	if (at != NULL && sscanf(at + strlen("log_path="), "%4095[^:]", path) == 1)
		allow_folder_of(a, path, LOGGING);
}

static void allow_sanitizer(allowing *a)
{
	allow_path_list(a, getenv("PATH"), "llvm-symbolizer", READING | EXECUTE);
	allow_report(a, "ASAN_OPTIONS");
	allow_report(a, "TSAN_OPTIONS");
	allow_report(a, "UBSAN_OPTIONS");
}
#endif

static int allow_all(int fd, uint64_t files, const weir_config *config, const char *program)
{
	allowing a = {.fd = fd, .files = files};
	allow_system(&a);
	allow_resolver(&a, config);
	allow_configured(&a, config);
	allow_program(&a, program);
#ifdef WEIR_CONFINE_SANITIZED
	allow_sanitizer(&a);
#endif
	return a.failed;
}

/* ---- applying ---- */

int weir_confine_files(const weir_config *config, unsigned what, const char *program, bool relieving)
{
	int has = version();
	if (has == 0)
		return -ENOSYS;
	ruleset rules = rules_of(has, what, relieving);
	int fd = (int)syscall(CALL_CREATE_RULESET, &rules, sizeof(rules), 0);
	int failed = fd < 0 ? -errno : allow_all(fd, rules.files, config, program);
	if (failed == 0 &&
	    (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || syscall(CALL_RESTRICT_SELF, fd, 0) != 0))
		failed = -errno;
	if (fd >= 0)
		close(fd);
	if (failed != 0)
		return weir_error_set(failed, "process: files cannot be confined: %s", strerror(-failed));
	held |= what & (WEIR_CONFINED_WRITING | WEIR_CONFINED_READING);
	return has;
}

bool weir_confine_hides(const char *path)
{
	/* access() looks at the permissions of a file; landlock only acts when it is opened. */
	if ((held & WEIR_CONFINED_READING) == 0 || access(path, R_OK) != 0)
		return false;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int error = errno;
	if (fd >= 0)
		close(fd);
	return fd < 0 && error == EACCES;
}
