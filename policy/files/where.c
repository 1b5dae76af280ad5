/* where.c - see where.h. */
#include "where.h"

#include <string.h>
#include <sys/vfs.h>

static bool begins(const char *path, size_t length, const char *prefix)
{
	size_t n = strlen(prefix);

	return length >= n && memcmp(path, prefix, n) == 0;
}

static bool ends(const char *path, size_t length, const char *suffix)
{
	size_t n = strlen(suffix);

	return length >= n && memcmp(path + length - n, suffix, n) == 0;
}

bool where_may_be_file(const char *path, size_t length)
{
	if (length == 0)
		return false;
	if (path[0] != '/')
		return true;
	return !begins(path, length, "/proc/") && !begins(path, length, "/sys/") &&
		   !begins(path, length, "/dev/");
}

bool where_may_be_data(const char *path, size_t length)
{
	if (!where_may_be_file(path, length))
		return false;
	if (path[0] == '/' && length > 5) {
		switch (path[1]) {
		case 'u':
			if (begins(path, length, "/usr/"))
				return false;
			break;
		case 'e':
			if (begins(path, length, "/etc/"))
				return false;
			break;
		case 'l':
			if (begins(path, length, "/lib/") || begins(path, length, "/lib64/"))
				return false;
			break;
		case 'r':
			if (begins(path, length, "/run/"))
				return false;
			break;
		default: break;
		}
	}
	return !ends(path, length, ".py") && !ends(path, length, ".pyc") && !ends(path, length, ".so");
}

bool where_may_be_tree(const char *dir, size_t length, bool below)
{
	static const char *const never[] = {"/usr", "/lib",  "/lib64", "/bin", "/sbin", "/etc",
										"/run", "/proc", "/sys",   "/dev", "/boot"};
	static const char *const shared[] = {"/home",  "/root", "/tmp",  "/var",     "/opt",    "/mnt",
										 "/media", "/srv",  "/snap", "/var/tmp", "/var/lib"};

	if (length < 2 || dir[0] != '/')
		return false;
	for (unsigned i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (begins(dir, length, never[i]) && (length == strlen(never[i]) || dir[strlen(never[i])] == '/'))
			return false;
	for (unsigned i = 0; below && i < sizeof(shared) / sizeof(shared[0]); i++)
		if (length == strlen(shared[i]) && memcmp(dir, shared[i], length) == 0)
			return false;
	/* A user's own directory holds everything, too. */
	if (below && begins(dir, length, "/home/") && !memchr(dir + 6, '/', length - 6))
		return false;
	return !memmem(dir, length, "/site-packages", 14) && !memmem(dir, length, "/dist-packages", 14) &&
		   !memmem(dir, length, "/__pycache__", 12) && !memmem(dir, length, "/.git", 5);
}

enum where_kind where_kind_of_magic(uint64_t magic)
{
	switch (magic & 0xffffffffu) {
	case 0xef53:     /* ext2, 3, 4 */
	case 0x58465342: /* xfs */
	case 0x9123683e: /* btrfs */
	case 0xf2f52010: /* f2fs */
	case 0x2fc12fc1: /* zfs */
	case 0x794c7630: /* overlayfs */
	case 0x73717368: /* squashfs */
	case 0xe0f5e1e2: /* erofs */
	case 0xca451a4e: /* bcachefs */
	case 0x2011bab0: /* exfat */
	case 0x7366746e: /* ntfs3 */
	case 0x4d44:     /* vfat */
	case 0x9660:     /* isofs */
	case 0x15013346: /* udf */
	case 0x52654973: /* reiserfs */
	case 0x3153464a: /* jfs */
	case 0x3434: /* nilfs2 */ return WHERE_LOCAL;
	case 0x6969:     /* nfs */
	case 0x517b:     /* smb */
	case 0xff534d42: /* cifs */
	case 0xfe534d42: /* smb2 */
	case 0x0bd00bd0: /* lustre */
	case 0x47504653: /* gpfs */
	case 0x00c36400: /* ceph */
	case 0x5346414f: /* afs */
	case 0x6b414653: /* kafs */
	case 0x01021997: /* 9p */
	case 0x7461636f: /* ocfs2 */
	case 0x01161970: /* gfs2 */
	case 0x19830326: /* beegfs */
	case 0x20030528: /* orangefs */
	case 0x73757245: /* coda */
	case 0xaad7aaea: /* panfs */
	case 0x786f4256: /* vboxsf */
	case 0x65735546: /* fuse, virtiofs */ return WHERE_NETWORK;
	default: return WHERE_NEVER;
	}
}

enum where_kind where_kind(int fd)
{
	struct statfs s;

	return fstatfs(fd, &s) == 0 ? where_kind_of_magic((uint64_t)s.f_type) : WHERE_NEVER;
}

uint64_t where_extension(const char *name, size_t length)
{
	uint64_t value = 0;

	for (unsigned n = 0; n < 8 && length > 1; n++) {
		char c = name[--length];
		if (c == '/')
			return 0;
		if (c == '.')
			return value;
		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		value = value << 8 | (unsigned char)c;
	}
	/* Longer ones are known by their last letters, if it is one at all. */
	for (unsigned n = 0; n < 8 && length > 1 && name[length - 1] != '/'; n++)
		if (name[--length] == '.')
			return value;
	return 0;
}

bool where_is_shard_extension(uint64_t extension)
{
	static const char *const known[] = {"tar",  "bin", "safetensors", "pt",    "pth",     "ckpt",
										"npy",  "npz", "gguf",        "arrow", "parquet", "h5",
										"hdf5", "rec", "tfrecord",    "mds",   "beton",   "lmdb",
										"mdb",  "zip", "dat",         "data",  "idx",     "raw"};
	static uint64_t value[sizeof(known) / sizeof(known[0])];

	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint64_t v = __atomic_load_n(&value[i], __ATOMIC_RELAXED);
		if (v == 0) {
			char name[32] = "x.";
			strcat(name, known[i]);
			v = where_extension(name, strlen(name));
			__atomic_store_n(&value[i], v, __ATOMIC_RELAXED);
		}
		if (v == extension)
			return true;
	}
	return false;
}
