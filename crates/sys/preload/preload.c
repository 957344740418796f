/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Loaded before an unmodified program (LD_PRELOAD, ld.so(8)): gives each internet socket that the C library makes for it the options that HAIRPIN_EXEC
 * names, such as busy-poll=50,nodelay,quickack.
 *
 *    socket, accept, accept4      the option is set before the program sees the descriptor
 *    recv, read, …                TCP_QUICKACK is set again: the kernel forgets it (tcp(7))
 *
 * Options that the kernel refuses are left as they are: `hairpin exec` reads the sockets back and reports
 * them. Raw system calls do not pass here.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static int busy_poll = -1, nodelay, quickack;

/* Descriptors that are connections of TCP, a bit for each; those beyond are not acknowledged at once. */
#define DESCRIPTORS 65536
static unsigned char tcp[DESCRIPTORS / 8];

__attribute__((constructor)) static void read_settings(void)
{
	const char *at = getenv("HAIRPIN_EXEC");

	while (at && *at) {
		if (!strncmp(at, "busy-poll=", 10))
			busy_poll = atoi(at + 10);
		else if (!strncmp(at, "nodelay", 7))
			nodelay = 1;
		else if (!strncmp(at, "quickack", 8))
			quickack = 1;
		at = strchr(at, ',');
		at = at ? at + 1 : 0;
	}
}

static int number(int fd, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &length) ? -1 : value;
}

static void set(int fd, int level, int name, int value)
{
	setsockopt(fd, level, name, &value, sizeof(value));
}

static void mark(int fd, int on)
{
	unsigned char bit = 1 << (fd & 7);

	if (fd < 0 || fd >= DESCRIPTORS)
		return;
	if (on)
		__atomic_fetch_or(&tcp[fd / 8], bit, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&tcp[fd / 8], (unsigned char)~bit, __ATOMIC_RELAXED);
}

/* Sets the options of a new descriptor; the program never sees an error of these calls. */
static int dress(int fd)
{
	int kept = errno, family, protocol;

	if (fd < 0)
		return fd;
	family = number(fd, SO_DOMAIN);
	protocol = number(fd, SO_PROTOCOL);
	if (family == AF_INET || family == AF_INET6) {
		if (busy_poll >= 0)
			set(fd, SOL_SOCKET, SO_BUSY_POLL, busy_poll);
		if (nodelay && protocol == IPPROTO_TCP)
			set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	}
	mark(fd, quickack && protocol == IPPROTO_TCP && (family == AF_INET || family == AF_INET6));
	errno = kept;
	return fd;
}

/* Something may have been received. */
static ssize_t received(int fd, ssize_t length)
{
	int kept = errno;

	if (length > 0 && quickack && fd >= 0 && fd < DESCRIPTORS && __atomic_load_n(&tcp[fd / 8], __ATOMIC_RELAXED) >> (fd & 7) & 1) {
		int one = 1;

		/* The number may belong to a file by now. */
		if (setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof(one)) && errno != ENOTCONN && errno != EINVAL)
			mark(fd, 0);
	}
	errno = kept;
	return length;
}

/* The C library's own function. Two threads that look for it at once find the same one. */
static void *next(void **known, const char *name)
{
	if (!*known)
		*known = dlsym(RTLD_NEXT, name);
	return *known;
}

static void *next_socket, *next_accept, *next_accept4, *next_recv, *next_recvfrom, *next_recvmsg, *next_read, *next_readv;

#define NEXT(name) ((__typeof__(&name))next(&next_##name, #name))

int socket(int domain, int type, int protocol)
{
	return dress(NEXT(socket)(domain, type, protocol));
}

int accept(int fd, struct sockaddr *address, socklen_t *length)
{
	return dress(NEXT(accept)(fd, address, length));
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	return dress(NEXT(accept4)(fd, address, length, flags));
}

ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
	return received(fd, NEXT(recv)(fd, bytes, size, flags));
}

ssize_t recvfrom(int fd, void *bytes, size_t size, int flags, struct sockaddr *address, socklen_t *length)
{
	return received(fd, NEXT(recvfrom)(fd, bytes, size, flags, address, length));
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	return received(fd, NEXT(recvmsg)(fd, message, flags));
}

ssize_t read(int fd, void *bytes, size_t size)
{
	return received(fd, NEXT(read)(fd, bytes, size));
}

ssize_t readv(int fd, const struct iovec *parts, int count)
{
	return received(fd, NEXT(readv)(fd, parts, count));
}

/* Called instead by programs compiled with _FORTIFY_SOURCE. */
ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags)
{
	if (size > room)
		abort();
	return recv(fd, bytes, size, flags);
}

ssize_t __read_chk(int fd, void *bytes, size_t size, size_t room)
{
	if (size > room)
		abort();
	return read(fd, bytes, size);
}

ssize_t __recvfrom_chk(int fd, void *bytes, size_t size, size_t room, int flags, struct sockaddr *address, socklen_t *length)
{
	if (size > room)
		abort();
	return recvfrom(fd, bytes, size, flags, address, length);
}
