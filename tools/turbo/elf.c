/*
 * elf.c - loader, machine and needed libraries of an ELF file.
 *
 * The file is whatever the user wants to run: every offset and length is
 * checked against its size, and nothing in it is executed.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "turbo.h"

#define DYNAMIC_MAX (1u << 16) /* bytes of .dynamic that are looked at: 4096 entries */
#define PHDR_MAX 128

#if defined(__x86_64__)
#define NATIVE_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define NATIVE_MACHINE EM_AARCH64
#else
#error "libturbo knows x86-64 and aarch64"
#endif

struct image {
	int fd;
	uint64_t size;
	ElfW(Ehdr) ehdr;
	ElfW(Phdr) phdr[PHDR_MAX];
};

static bool read_at(const struct image *img, void *buf, uint64_t off, uint64_t n)
{
	if (off > img->size || n > img->size - off)
		return false;
	return pread(img->fd, buf, n, (off_t)off) == (ssize_t)n;
}

/* A string at `off`, cut to the buffer. */
static void read_string(const struct image *img, uint64_t off, char *buf, size_t size)
{
	buf[0] = '\0';
	if (off >= img->size)
		return;
	uint64_t n = img->size - off < size - 1 ? img->size - off : size - 1;
	ssize_t got = pread(img->fd, buf, n, (off_t)off);
	buf[got > 0 ? got : 0] = '\0';
}

/* File offset of a virtual address; 0 when no segment has it. */
static uint64_t offset_of(const struct image *img, uint64_t addr)
{
	for (unsigned i = 0; i < img->ehdr.e_phnum; i++) {
		const ElfW(Phdr) *ph = &img->phdr[i];
		if (ph->p_type == PT_LOAD && addr >= ph->p_vaddr && addr - ph->p_vaddr < ph->p_filesz)
			return ph->p_offset + (addr - ph->p_vaddr);
	}
	return 0;
}

static void read_dynamic(const struct image *img, const ElfW(Phdr) *ph, struct elf_facts *facts)
{
	static ElfW(Dyn) dyn[DYNAMIC_MAX / sizeof(ElfW(Dyn))];
	uint64_t bytes = ph->p_filesz < sizeof(dyn) ? ph->p_filesz : sizeof(dyn);
	if (!read_at(img, dyn, ph->p_offset, bytes))
		return;
	size_t n = bytes / sizeof(dyn[0]);
	uint64_t strtab = 0;
	for (size_t i = 0; i < n && dyn[i].d_tag != DT_NULL; i++) {
		if (dyn[i].d_tag == DT_STRTAB)
			strtab = offset_of(img, dyn[i].d_un.d_ptr);
		if (dyn[i].d_tag == DT_SONAME)
			facts->loader_itself = facts->interp[0] == '\0';
	}
	if (!strtab)
		return;
	size_t max = sizeof(facts->needed) / sizeof(facts->needed[0]);
	for (size_t i = 0; i < n && dyn[i].d_tag != DT_NULL && facts->needed_count < max; i++)
		if (dyn[i].d_tag == DT_NEEDED && dyn[i].d_un.d_val < img->size)
			read_string(img, strtab + dyn[i].d_un.d_val, facts->needed[facts->needed_count++],
						sizeof(facts->needed[0]));
}

static int read_image(struct image *img, struct elf_facts *facts)
{
	if (!read_at(img, &img->ehdr, 0, sizeof(img->ehdr)) || memcmp(img->ehdr.e_ident, ELFMAG, SELFMAG))
		return 0;
	facts->native = img->ehdr.e_ident[EI_CLASS] == ELFCLASS64 && img->ehdr.e_ident[EI_DATA] == ELFDATA2LSB &&
					img->ehdr.e_machine == NATIVE_MACHINE;
	if (!facts->native)
		return 1;
	if (img->ehdr.e_phentsize != sizeof(ElfW(Phdr)) || img->ehdr.e_phnum > PHDR_MAX ||
		!read_at(img, img->phdr, img->ehdr.e_phoff, img->ehdr.e_phnum * sizeof(ElfW(Phdr))))
		return 1;
	for (unsigned i = 0; i < img->ehdr.e_phnum; i++)
		if (img->phdr[i].p_type == PT_INTERP)
			read_string(img, img->phdr[i].p_offset, facts->interp, sizeof(facts->interp));
	for (unsigned i = 0; i < img->ehdr.e_phnum; i++)
		if (img->phdr[i].p_type == PT_DYNAMIC)
			read_dynamic(img, &img->phdr[i], facts);
	return 1;
}

int elf_read(const char *path, struct elf_facts *facts)
{
	static struct image img;
	struct stat st;
	memset(facts, 0, sizeof(*facts));
	memset(&img, 0, sizeof(img));
	img.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (img.fd < 0)
		return -1;
	if (fstat(img.fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(img.fd);
		errno = EACCES;
		return -1;
	}
	img.size = (uint64_t)st.st_size;
	int is_elf = read_image(&img, facts);
	close(img.fd);
	return is_elf;
}
