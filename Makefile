# libturbo: build, test, install.  `make help` lists what there is.
#
# Sources are found by wildcard: a new file in shim/, policy/, tools/ or tests/ needs no
# line here.  Every product goes below $(BUILD); nothing is written beside the sources.

VERSION := 0.1.0
comma := ,

## V=1                  show the full commands
V ?= 0
## O=DIR                build directory of all but `make check` (default: build, build-clang, build-SAN)
## CC=gcc|clang         compiler (default: gcc; clang when SAN is given)
## SAN=address|undefined|thread  build everything with that sanitizer
SAN ?=
## OPT=-O2              optimisation flags
OPT ?= -O2
## CUDA_HOME=DIR        where include/cuda.h is (default: /usr/local/cuda, else an installed or fetched wheel)
CUDA_HOME ?=
## IGNORE_SYSTEM_CUDA=1  do not look into /usr/local/cuda, /usr/local/include and /usr/include
IGNORE_SYSTEM_CUDA ?=
## PREFIX=/usr/local    where `make install` puts bin/turbo and lib/libturbo.so
PREFIX ?= /usr/local
## DESTDIR=DIR          staging root put before PREFIX
DESTDIR ?=
## SOAK_S=600           seconds that `make soak` spends on each randomised test
SOAK_S ?= 600
## FUZZ_S=60            seconds that `make fuzz` runs
FUZZ_S ?= 60
## BENCH=NAME           run only the benchmarks whose name contains NAME
BENCH ?=
## ARGS=...             arguments for the runner of `make check-gpu` and `make bench-gpu`
ARGS ?=

ifneq ($(SAN),)
ifneq ($(filter-out address undefined thread,$(SAN)),)
$(error SAN=$(SAN): expected address, undefined or thread)
endif
endif

# ---- compiler and directories -------------------------------------------------------

# A gcc sanitizer runtime insists on being first in the preload list, before libturbo.so;
# clang links its runtime into the program, so sanitized preload tests use clang.
ifeq ($(origin CC),default)
CC := $(if $(SAN),$(if $(shell command -v clang),clang,gcc),gcc)
endif
IS_CLANG := $(findstring clang,$(notdir $(firstword $(CC))))
ifneq ($(SAN),)
O ?= build-$(SAN)
else ifneq ($(IS_CLANG),)
O ?= build-clang
else
O ?= build
endif
ifneq ($(words $(O)),1)
$(error O=$(O): expected the name of a directory, without blanks)
endif
BUILD := $(patsubst %/,%,$(O))
GEN := $(BUILD)/gen
OBJ := $(BUILD)/obj
ARCH := $(shell uname -m)

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2))

# These goals build nothing themselves, or install what building needs first.
ifeq ($(filter help model clean distclean uninstall format setup check demo fuzz fuzz-seeds,$(MAKECMDGOALS)),)
# Written by tools/cuda_headers.sh: CUDA_INC (compiler flags), CUDA_H, NCCL_H, CUPTI_H
# (paths, empty when not found).  The name carries what the search depends on.
slug := $(subst /,_,$(CUDA_HOME))$(if $(filter 1,$(IGNORE_SYSTEM_CUDA)),-nosys)
CUDA_MK := $(GEN)/cuda$(slug).mk
include $(CUDA_MK)
ifneq ($(CUDA_H),)
ifeq ($(wildcard $(CUDA_H)),)
$(shell rm -f $(CUDA_MK))
$(error $(CUDA_H) is gone; run make again to search anew)
endif
endif
endif

# ---- flags --------------------------------------------------------------------------

WARN := -Wall -Wextra -Werror
# Macros are defined empty so that a source may define them again itself.
BASE_CFLAGS := -std=gnu11 $(OPT) -g $(WARN) -D_GNU_SOURCE= -DTURBO_VERSION='"$(VERSION)"' \
	-fno-strict-aliasing -fno-omit-frame-pointer -pthread
# No PLT: every call of libc from the library goes through a GOT that is read-only after
# start, and never through lazy binding inside somebody else's call.
PIC := -fPIC -fno-plt -fvisibility=hidden -ftls-model=initial-exec \
	-ffunction-sections -fdata-sections -fno-semantic-interposition
# clang ignores some of gcc's options and says so.
ifneq ($(IS_CLANG),)
BASE_CFLAGS += -Wno-unused-command-line-argument -Wno-ignored-optimization-argument
endif

ifeq ($(SAN),address)
SAN_FLAGS := -fsanitize=address
else ifeq ($(SAN),undefined)
SAN_FLAGS := -fsanitize=undefined -fno-sanitize-recover=all
else ifeq ($(SAN),thread)
SAN_FLAGS := -fsanitize=thread
endif
BASE_CFLAGS += $(SAN_FLAGS)

LIB_INC := -Ishim -I. -I$(GEN) -Ipolicy
# With this macro cuda.h declares every symbol under its true name (cuMemcpyHtoD_v2 ...).
# Sanitizers take the functions that glibc.h names by the names that it replaces.
OLD_GLIBC := -include shim/glibc.h $(if $(SAN),-DTURBO_SANITIZED=)
LIB_CFLAGS := $(BASE_CFLAGS) $(PIC) $(LIB_INC) $(OLD_GLIBC) -D__CUDA_API_VERSION_INTERNAL= $(CUDA_INC)
TEST_CFLAGS := $(BASE_CFLAGS) -Itests -Itests/sim -Itests/sim/cuda -Itests/sim/rt -I. -I$(GEN) $(CUDA_INC)
UNIT_CFLAGS := $(BASE_CFLAGS) $(LIB_INC) -Itests -D__CUDA_API_VERSION_INTERNAL= $(CUDA_INC)
SIM_CFLAGS := $(BASE_CFLAGS) $(OLD_GLIBC) -fPIC -Itests/sim -Itests/sim/cuda -Itests/sim/rt -I. -I$(GEN) $(CUDA_INC)

LIB_LDFLAGS := -shared -pthread -Wl,-soname,libturbo.so -Wl,-Bsymbolic-functions -Wl,--gc-sections \
	-Wl,--as-needed -Wl,-z,relro,-z,now,-z,noexecstack -Wl,--version-script=$(GEN)/exports.map \
	-Wl,--dynamic-list=$(GEN)/allocator.list \
	$(if $(SAN),,-Wl,-z,defs) $(SAN_FLAGS)
# Before glibc 2.34 these were libraries; since then they are empty, and libc's packages keep them for old programs.
OLD_LIBS = $(if $(SAN),,-Wl,--push-state,--no-as-needed $(foreach l,libpthread.so.0 libdl.so.2,$(if $(findstring /,$(shell \
	$(CC) -print-file-name=$(l))),-l:$(l))) -Wl,--pop-state)
LDLIBS := -ldl -lpthread -lm

# ---- sources ------------------------------------------------------------------------

LIB_C := $(wildcard shim/*.c policy/*.c policy/*/*.c cupti/*.c)
LIB_S := $(wildcard shim/stubs_$(ARCH).S)
LIB_O := $(LIB_C:%.c=$(OBJ)/%.o) $(LIB_S:%.S=$(OBJ)/%.o)
ifneq ($(wildcard shim/hooks.def),)
LIB_O += $(OBJ)/gen/hook_stubs.o
HOOKS := $(addprefix $(GEN)/,hook_ids.h hook_table.inc hook_stubs.S hook_libc.inc allocator.list exports.map)
DOORS := $(addprefix $(GEN)/,door_table.inc door_stubs.inc)
GENERATED := $(HOOKS) $(DOORS)
endif
TOOL_O := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tools/turbo/*.c))
# What reads timelines: a part of the command, and what its unit tests link.
TIMELINE := $(if $(wildcard tools/timeline/*.c),$(OBJ)/tools/timeline.a)
# What `turbo doctor` looks at.
DOCTOR := $(if $(wildcard tools/doctor/*.c),$(OBJ)/tools/doctor.a)
SIM_CUDA_O := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/sim/cuda/*.c))
SIM_CUPTI_O := $(if $(CUPTI_H),$(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/sim/cupti/*.c)))
SIM_NCCL_O := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/sim/nccl/*.c))
SIM_NVML_O := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/sim/nvml/*.c))
SIM_RT_O := $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/sim/rt/*.c))

LIBTURBO := $(BUILD)/libturbo.so
ARCHIVE := $(BUILD)/libturbo_test.a
COMMAND := $(BUILD)/turbo
SIM_DIR := $(BUILD)/sim
SIM_CUDA := $(if $(SIM_CUDA_O),$(SIM_DIR)/libcuda.so.1)
SIM_RT := $(if $(SIM_RT_O),$(SIM_DIR)/libsimrt.so $(SIM_DIR)/libsimrt.a)
SIM_OLD := $(if $(SIM_CUDA_O),$(BUILD)/sim-old/libcuda.so.1)
# As the process's CUDA has it, of another CUDA, and an older one that lacks symbols.
SIM_CUPTI := $(if $(SIM_CUPTI_O),$(SIM_DIR)/libcupti.so.13 $(BUILD)/sim-12/libcupti.so.12 $(BUILD)/sim-old/libcupti.so.12)
SIM_NCCL := $(if $(SIM_NCCL_O),$(SIM_DIR)/libnccl.so.2)
SIM_NVML := $(if $(SIM_NVML_O),$(SIM_DIR)/libnvidia-ml.so.1)
SIM := $(SIM_NVML) $(SIM_CUDA) $(SIM_OLD) $(SIM_RT) $(SIM_CUPTI) $(SIM_NCCL)

# A program is a file with a main(), together with the files named after it (copy_bench.c and
# copy_bench_*.c), or a directory below tests/gpu with a main.c, and the common/ of its suite.
obj = $(patsubst %.c,$(OBJ)/%.o,$(1))
mains = $(if $(wildcard $(1)),$(shell grep -lw 'int main' $(wildcard $(1)) /dev/null))
UNIT_C := $(call mains,tests/unit/*.c)
SIM_C := $(call mains,tests/sim/*.c)
PRELOAD_C := $(call mains,tests/preload/*.c)
GPU_C := $(call mains,tests/gpu/*.c) $(wildcard tests/gpu/*/main.c)
DEMO_C := $(call mains,tools/demo/*.c)
BENCH_C := $(call mains,tools/bench/*.c tools/bench/*/*.c)
MAIN_C := $(UNIT_C) $(SIM_C) $(PRELOAD_C) $(GPU_C) $(DEMO_C) $(BENCH_C)

# tests/unit/x.c -> $(BUILD)/tests/unit/x, tests/gpu/x/main.c -> $(BUILD)/tests/gpu/x,
# tools/demo/x.c -> $(BUILD)/demo/x, tools/bench/gpu/x.c -> $(BUILD)/bench/gpu/x
progs = $(patsubst tools/%,$(BUILD)/%,$(patsubst tests/%,$(BUILD)/tests/%,$(patsubst %/main,%,$(1:.c=))))
UNIT_TESTS := $(call progs,$(UNIT_C))
SIM_TESTS := $(call progs,$(SIM_C))
PRELOAD_PROGS := $(call progs,$(PRELOAD_C))
GPU_PROGS := $(call progs,$(GPU_C))
DEMO_PROGS := $(call progs,$(DEMO_C))
BENCH_PROGS := $(call progs,$(BENCH_C))

# $(1): source with the main()
parts = $(if $(filter %/main.c,$(1)),$(wildcard $(dir $(1))*.c),$(1) $(filter-out $(MAIN_C),$(wildcard $(1:.c=_*.c))))
# Archives of the suite's own common/ and of tests/gpu/common, which all suites use; a program
# links of them what it needs, its own suite's first.
COMMON_DIRS := $(wildcard tests/*/common)
common_of = $(patsubst %,$(OBJ)/%.a,$(filter $(dir $(1))common,$(COMMON_DIRS)) \
	$(filter-out $(dir $(1))common,$(filter tests/gpu/common,$(COMMON_DIRS))))

.DELETE_ON_ERROR:
.SECONDARY:
.SECONDEXPANSION:
.PHONY: all lib tests demo check check-gpu bench bench-gpu soak format docs setup install uninstall clean distclean help

## all                  the library and the command: build/libturbo.so, build/turbo (the default)
all: $(LIBTURBO) $(if $(TOOL_O),$(COMMAND))

lib: $(LIBTURBO)

# ---- generated files ----------------------------------------------------------------

$(GEN)/cuda%.mk: tools/cuda_headers.sh $(wildcard build/deps/include)
	@mkdir -p $(@D)
	@CUDA_HOME='$(CUDA_HOME)' IGNORE_SYSTEM_CUDA='$(IGNORE_SYSTEM_CUDA)' \
		sh $< > $@

what_hook_ids.h := ids
what_hook_libc.inc := libc
what_hook_table.inc := table
what_hook_stubs.S := stubs
what_allocator.list := list
what_exports.map := map
$(HOOKS): $(GEN)/%: shim/hooks.awk shim/hooks.def
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)LC_ALL=C awk -f shim/hooks.awk -v what=$(what_$*) shim/hooks.def > $@

# What each of the driver's functions means for all-gathers that wait, out of its header.
$(DOORS): $(GEN)/door_%.inc: shim/doors.sh shim/doors.awk shim/doors.def shim/hooks.awk shim/hooks.def tools/declarations.sh \
		$(CUDA_MK) $(CUDA_H)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)CC='$(CC)' CUDA_INC='$(CUDA_INC)' CUDA_H='$(CUDA_H)' timeout 60 sh shim/doors.sh $* > $@

# Every function of the installed headers must have a row in hooks.def; an unlisted one stops
# the build with its name.
HOOKS_OK := $(if $(GENERATED),$(if $(wildcard tests/check_hooks.sh),$(GEN)/hooks.ok))
$(HOOKS_OK): tests/check_hooks.sh tests/check_hooks.awk tools/declarations.sh shim/hooks.def shim/hooks.awk $(CUDA_MK) $(CUDA_H) $(NCCL_H)
	$(call say,CHECK,shim/hooks.def)
	$(Q)CC='$(CC)' CUDA_INC='$(CUDA_INC)' CUDA_H='$(CUDA_H)' NCCL_H='$(NCCL_H)' CUPTI_H='$(CUPTI_H)' \
		timeout 60 sh tests/check_hooks.sh && touch $@

# The page of `turbo report --html`, which report_html.c takes in whole.
REPORT_PAGE := $(GEN)/report_page.html
$(REPORT_PAGE): tools/timeline/page/assemble.sh $(wildcard tools/timeline/page/page*)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)sh $< tools/timeline/page > $@
$(OBJ)/tools/timeline/report_html.o: $(REPORT_PAGE)

# What `turbo doctor` runs in CMD's interpreter.
$(OBJ)/tools/doctor/python.o: tools/doctor/look.py

# ---- objects ------------------------------------------------------------------------

# What answers dlsym() runs before a sanitizer's runtime is up and before interposed string
# functions work: plain code that calls none of them (shim/text.h).
EARLY_O := $(filter $(addprefix $(OBJ)/shim/,elfsym% lookup% hooks.o),$(LIB_O))
$(EARLY_O): EARLY = -fno-builtin $(if $(IS_CLANG),,-fno-tree-loop-distribute-patterns) $(if $(SAN),-fno-sanitize=all)

# The most specific pattern wins.
$(OBJ)/%.o: FLAGS = $(LIB_CFLAGS)
$(OBJ)/tests/%.o $(OBJ)/tools/%.o: FLAGS = $(TEST_CFLAGS)
$(OBJ)/tests/unit/%.o: FLAGS = $(UNIT_CFLAGS)
$(OBJ)/tests/sim/cuda/%.o $(OBJ)/tests/sim/rt/%.o $(OBJ)/tests/sim/cupti/%.o $(OBJ)/tests/sim/nccl/%.o $(OBJ)/tests/sim/nvml/%.o: FLAGS = $(SIM_CFLAGS)
# Called a million times a second, and before anything else is.
$(OBJ)/shim/hostmem.o $(OBJ)/shim/hostmem_early.o: EARLY := -fomit-frame-pointer -fno-builtin
$(OBJ)/tests/sim/cupti/callback.o: $(GEN)/sim_cbid.inc
$(OBJ)/tools/turbo/%.o $(OBJ)/tools/timeline/%.o $(OBJ)/tools/doctor/%.o: FLAGS = $(LIB_CFLAGS)

$(OBJ)/gen/%.o: $(GEN)/%.S | $(GENERATED)
	$(call say,AS,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

$(OBJ)/%.o: %.c | $(GENERATED)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) $(EARLY) $(CFLAGS) -MMD -MP -c -o $@ $<

$(OBJ)/%.o: %.S | $(GENERATED)
	$(call say,AS,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(FLAGS) -MMD -MP -c -o $@ $<

# ---- products -----------------------------------------------------------------------

$(LIBTURBO): $(LIB_O) $(filter %.map %.list,$(GENERATED)) $(HOOKS_OK)
	$(call say,LD,$@)
	$(Q)$(CC) $(LIB_LDFLAGS) $(LDFLAGS) -o $@ $(LIB_O)

# Without the bodies of libc's functions: a program that is linked with the archive calls libc.
$(ARCHIVE): $(LIB_O)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $(filter-out $(OBJ)/shim/files.o $(OBJ)/shim/hostmem.o,$(LIB_O))

# The command takes the option table and the stats format from the library's own objects. libc
# comes first: the archive has a dlsym of its own, which nobody is to find in the command either.
$(COMMAND): $(TOOL_O) $(DOCTOR) $(TIMELINE) $(ARCHIVE)
	$(call say,LD,$@)
	$(Q)$(CC) $(SAN_FLAGS) -pthread -Wl,--exclude-libs,$(notdir $(ARCHIVE)) $(LDFLAGS) -o $@ $(TOOL_O) $(DOCTOR) $(TIMELINE) -ldl -lc $(ARCHIVE) -lz $(LDLIBS) $(OLD_LIBS) \
		$(if $(SAN),,-Wl$(comma)--wrap=__libc_start_main)

# -Bsymbolic: the real driver never calls itself through exported symbols either, so an
# interposer must not see the simulator's inner calls.
$(SIM_DIR)/libcuda.so.1: $(SIM_CUDA_O) $(wildcard tests/sim/cuda/*.map)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread $(SAN_FLAGS) -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
		$(patsubst %,-Wl$(comma)--version-script=%,$(filter %.map,$^)) -o $@ $(SIM_CUDA_O) $(LDLIBS)
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so

# The same driver with symbols missing, as an older one.
$(SIM_OLD): $(SIM_CUDA_O) tests/sim/old.map
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread $(SAN_FLAGS) -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic \
		-Wl,--version-script=tests/sim/old.map -o $@ $(SIM_CUDA_O) $(LDLIBS)

$(GEN)/sim_cbid.inc: tests/sim/cupti/cbid.awk $(CUDA_MK)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)LC_ALL=C awk -f $< $(addprefix $(dir $(CUPTI_H)),cupti_driver_cbid.h cupti_runtime_cbid.h) > $@

# A client may be gone before the library's worker is: it stays loaded.
$(SIM_DIR)/libcupti.so.13: CUPTI_MAP = libcupti.map
$(BUILD)/sim-12/libcupti.so.12: CUPTI_MAP = libcupti12.map
$(BUILD)/sim-old/libcupti.so.12: CUPTI_MAP = old.map
$(SIM_CUPTI): $(SIM_CUPTI_O) $(wildcard tests/sim/cupti/*.map)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread $(SAN_FLAGS) -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,-z,nodelete \
		-Wl,--version-script=tests/sim/cupti/$(CUPTI_MAP) -o $@ $(SIM_CUPTI_O) $(LDLIBS)
	$(Q)ln -sf $(@F) $(@D)/libcupti.so

# Its threads may still be in it when its client closes it: it stays loaded.
$(SIM_NCCL): $(SIM_NCCL_O) tests/sim/nccl/libnccl.map
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread $(SAN_FLAGS) -Wl,-soname,$(@F) -Wl,-Bsymbolic -Wl,-z,nodelete \
		-Wl,--version-script=tests/sim/nccl/libnccl.map -o $@ $(SIM_NCCL_O) $(LDLIBS)
	$(Q)ln -sf $(@F) $(@D)/libnccl.so

$(SIM_DIR)/libnvidia-ml.so.1: $(SIM_NVML_O)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared $(SAN_FLAGS) -Wl,-soname,$(@F) -o $@ $(SIM_NVML_O)

$(SIM_DIR)/libsimrt.so: $(SIM_RT_O)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -pthread $(SAN_FLAGS) -Wl,-soname,libsimrt.so -o $@ $(SIM_RT_O) $(LDLIBS)

$(SIM_DIR)/libsimrt.a: $(SIM_RT_O)
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && ar rcs $@ $(SIM_RT_O)

# ---- test, demo and benchmark programs ----------------------------------------------

# A program asks for libraries in its first line: `LINK: cuda` for libcuda.so.1 (linked with
# the simulator's), `LINK: cupti` for libcupti.so.13, `LINK: nccl` for libnccl.so.2, `LINK: simrt` for the tiny runtime, `LINK: timeline` for the
# reader of timelines, `LINK: turbo` for the library's objects (those it uses). cmocka is there for all but the GPU programs and the tools, which must build where only a compiler is.
MAIN = $(firstword $(SOURCES))
CMOCKA := -Wl,--as-needed -lcmocka -Wl,--no-as-needed
first_line = sed -n '1{/LINK:.*$(1)/s|.*|$(2)|p}' $(MAIN)
link_cuda = $$($(call first_line,cuda,-L$(SIM_DIR) -lcuda))
link_cupti = $$($(call first_line,cupti,-L$(SIM_DIR) -l:libcupti.so.13))
link_nccl = $$($(call first_line,nccl,-L$(SIM_DIR) -l:libnccl.so.2))
link_simrt = $$($(call first_line,simrt,$(SIM_DIR)/libsimrt.a))
link_turbo = $$($(call first_line,turbo,$(ARCHIVE)))
link_timeline = $$($(call first_line,timeline,$(TIMELINE) -lz))
link_cmocka = $(if $(filter tests/gpu/% tools/%,$(MAIN)),,$(CMOCKA))

define program
$(call progs,$(1)): SOURCES = $(call parts,$(1))
$(call progs,$(1)): COMMON = -Wl,--start-group $(call common_of,$(1)) -Wl,--end-group
$(call progs,$(1)): $(call obj,$(call parts,$(1))) $(call common_of,$(1))
endef
$(foreach main,$(MAIN_C),$(eval $(call program,$(main))))

define common
$(OBJ)/$(1).a: $(call obj,$(wildcard $(1)/*.c))
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@ && ar rcs $$@ $$^
endef
$(foreach dir,$(COMMON_DIRS) tools/timeline tools/doctor,$(eval $(call common,$(dir))))

# muldefs: a unit test may put a function or a table of its own in place of the library's.
$(UNIT_TESTS): $(TIMELINE) $(ARCHIVE)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -pthread $(SAN_FLAGS) -Wl,-z,muldefs -o $@ $(filter %.o,$^) \
		$(COMMON) $(TIMELINE) $(ARCHIVE) $(link_cmocka) -Wl,--as-needed -lz -Wl,--no-as-needed $(LDLIBS)

$(SIM_TESTS): $(SIM)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -pthread $(SAN_FLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(COMMON) $(filter %.a,$(SIM)) \
		$(link_nccl) $(link_cupti) -L$(SIM_DIR) -lcuda $(link_cmocka) $(LDLIBS)

# They ask the simulated driver, or are called by the simulated NCCL.
$(filter $(BUILD)/tests/unit/test_nccl_%,$(UNIT_TESTS)): $(SIM_CUDA)
$(BUILD)/tests/unit/test_doors_nccl: $(SIM_NCCL)

# A plugin of NCCL in the program itself.
$(BUILD)/tests/sim/test_sim_nccl_profiler: LDFLAGS += -rdynamic

$(addprefix $(BUILD)/bench/bench_,agree doors heap nccl_progress recording stacks): $(ARCHIVE)
$(PRELOAD_PROGS): $(TIMELINE)
$(PRELOAD_PROGS) $(GPU_PROGS) $(DEMO_PROGS) $(BENCH_PROGS): $(SIM)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -pthread $(SAN_FLAGS) -o $@ $(filter %.o,$^) $(COMMON) \
		$(link_timeline) $(link_turbo) $(link_simrt) $(link_nccl) $(link_cupti) $(link_cuda) $(link_cmocka) $(LDLIBS)

# ---- tests --------------------------------------------------------------------------

RUN = BUILD='$(abspath $(BUILD))' SAN='$(SAN)' CC='$(CC)' NCCL_H='$(NCCL_H)' CUDA_H='$(CUDA_H)' \
	CUPTI_H='$(CUPTI_H)' MAKE='$(MAKE)' bash tests/run.sh

## tests                build every test program
tests: all $(SIM) $(UNIT_TESTS) $(SIM_TESTS) $(PRELOAD_PROGS)

## programs             every program there is, demo, benchmarks and GPU tests included
.PHONY: programs
programs: tests $(GPU_PROGS) $(DEMO_PROGS) $(BENCH_PROGS)

## check                everything that needs no GPU; installs what the tests need
check: setup
	+$(Q)MAKE='$(MAKE)' bash tests/check.sh

## NAME.run_test        build and run one test by its name, e.g. `make test_options.run_test`
%.run_test: $$(or $$(filter $(BUILD)/tests/unit/$$*,$$(UNIT_TESTS)),tests)
	+$(Q)$(RUN) -v $*

## quick                unit, simulator, preload and command tests of this build only
.PHONY: quick
quick: tests
	+$(Q)$(RUN) unit sim preload tools

# For the hook coverage test: CUPTI's counter, and where there is nvcc the programs with a static
# CUDA runtime.  The runner builds what is missing, on the machine with the GPU.
NVCC := $(shell command -v nvcc)
STATIC_PROGS := $(addprefix $(BUILD)/tests/gpu/,static_client static_ptds_client static_mem)
GPU_EXTRA := $(if $(CUPTI_H),$(BUILD)/tests/gpu/libcuptitrace.so) $(if $(NVCC),$(STATIC_PROGS))

$(BUILD)/tests/gpu/libcuptitrace.so: tests/gpu/hook_coverage/cuptitrace.c
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) -fPIC -fvisibility=hidden -shared -isystem $(dir $(CUPTI_H)) $(CUDA_INC) -o $@ $< -ldl

$(BUILD)/tests/gpu/static_client $(BUILD)/tests/gpu/static_ptds_client: tests/gpu/hook_coverage/static_client.cu
$(BUILD)/tests/gpu/static_mem: tests/gpu/static_mem.cu
$(STATIC_PROGS):
	$(call say,NVCC,$@)
	@mkdir -p $(@D)
	$(Q)$(NVCC) -O2 -std=c++17 -cudart static -arch=sm_75 $(if $(findstring ptds,$@),--default-stream per-thread) -o $@ $< -ldl

## gpu-programs         what check-gpu and bench-gpu need, to be carried to a machine with a GPU
.PHONY: gpu-programs
gpu-programs: all $(GPU_PROGS) $(filter $(BUILD)/bench/gpu/%,$(BENCH_PROGS)) $(GPU_EXTRA)

## check-gpu            the promises that need a real GPU
check-gpu: gpu-programs
	$(Q)BUILD='$(abspath $(BUILD))' python3 tests/gpu/run_check.py $(ARGS)

## soak                 the randomised tests, SOAK_S seconds each
soak: tests
	+$(Q)SOAK_S='$(SOAK_S)' $(RUN) soak

## model                search the models of tests/model completely (spin; some minutes)
.PHONY: model
model:
	$(Q)bash tests/model/run.sh full

# Its own build: libFuzzer and both sanitizers in one program, of what reads timelines.
FUZZ_DIR := build-fuzz
FUZZ_C := tests/fuzz/fuzz_trace.c $(filter-out tools/timeline/report_html.c,$(wildcard tools/timeline/*.c))
FUZZ_FLAGS := -std=gnu11 -O1 -g $(WARN) -D_GNU_SOURCE= -fno-omit-frame-pointer -pthread -Ishim -I.
$(FUZZ_DIR)/fuzz_trace: $(FUZZ_C) $(wildcard tools/timeline/*.h cupti/record.h)
	$(call say,LD,$@)
	@mkdir -p $(@D)/corpus
	$(Q)clang $(FUZZ_FLAGS) -fsanitize=fuzzer,address,undefined,float-cast-overflow -fno-sanitize-recover=all -o $@ $(FUZZ_C) -ldl -lz -lm

## fuzz                 feed broken timelines to what reads them, for FUZZ_S seconds (clang)
.PHONY: fuzz fuzz-seeds
fuzz: $(FUZZ_DIR)/fuzz_trace
	$(Q)ASAN_OPTIONS=detect_leaks=1 nice $< -max_total_time=$(FUZZ_S) -max_len=73728 -timeout=20 -rss_limit_mb=1024 \
		-print_final_stats=1 -artifact_prefix=$(FUZZ_DIR)/ $(FUZZ_DIR)/corpus tests/fuzz/corpus

fuzz-seeds:
	$(Q)mkdir -p $(FUZZ_DIR)
	$(Q)$(CC) $(FUZZ_FLAGS) -o $(FUZZ_DIR)/seeds tests/fuzz/seeds.c tests/unit/common/trace_build.c
	$(Q)$(FUZZ_DIR)/seeds tests/fuzz/corpus

## demo                 a training-like program, bare and preloaded; installs what it needs
demo: setup-build
	+$(Q)$(MAKE) --no-print-directory demo-run

.PHONY: demo-run
demo-run: all $(SIM) $(DEMO_PROGS)
	$(Q)BUILD='$(abspath $(BUILD))' SIM_DIR='$(abspath $(SIM_DIR))' bash tools/demo/demo.sh

## bench                benchmarks that run on any machine
bench: all $(SIM) $(BENCH_PROGS)
	$(Q)BUILD='$(abspath $(BUILD))' SIM_DIR='$(abspath $(SIM_DIR))' BENCH='$(BENCH)' bash tools/bench/bench.sh

## bench-gpu            benchmarks that need a GPU
bench-gpu: all $(SIM) $(BENCH_PROGS)
	$(Q)BUILD='$(abspath $(BUILD))' SIM_DIR='$(abspath $(SIM_DIR))' BENCH='$(BENCH)' python3 tools/bench/gpu/run_bench.py $(ARGS)

# ---- housekeeping -------------------------------------------------------------------

## setup                install what `make check` needs (Debian, Ubuntu)
.PHONY: setup-build
setup:
	$(Q)bash tools/setup.sh check

setup-build:
	$(Q)bash tools/setup.sh build

## format               rewrite the C sources in the project's style
format:
	$(Q)find shim policy cupti tools tests -name '*.[ch]' -exec clang-format -i {} +

## docs                 rewrite the tables in README.md and tools/doctor/README.md
docs: $(COMMAND)
	$(Q)$(COMMAND) options --markdown | awk -f tools/docs.awk -v name=options - README.md > $(BUILD)/README.md && cp $(BUILD)/README.md README.md
	$(Q)$(COMMAND) doctor --list --markdown | awk -f tools/docs.awk -v name=findings - tools/doctor/README.md > $(BUILD)/README.md \
		&& cp $(BUILD)/README.md tools/doctor/README.md

# Made by the command itself, of the tables that its help comes from. Another processor's cannot run here.
MANUAL := $(BUILD)/package/turbo.1
$(MANUAL): $(COMMAND)
	$(call say,GEN,$@)
	@mkdir -p $(@D)
	$(Q)$(COMMAND) help --man > $@.new && mv $@.new $@

SHARE = '$(DESTDIR)$(PREFIX)/share
## install              copy the library, the command, its manual and the simulated driver below PREFIX
install: all $(SIM_CUDA) $(MANUAL)
	install -d '$(DESTDIR)$(PREFIX)/lib/libturbo/sim' '$(DESTDIR)$(PREFIX)/bin' $(SHARE)/man/man1' \
		$(SHARE)/bash-completion/completions' $(SHARE)/doc/libturbo'
	install -m 755 $(LIBTURBO) '$(DESTDIR)$(PREFIX)/lib/libturbo.so'
	install -m 755 $(COMMAND) '$(DESTDIR)$(PREFIX)/bin/turbo'
	install -m 755 $(SIM_CUDA) '$(DESTDIR)$(PREFIX)/lib/libturbo/sim/libcuda.so.1'
	install -m 644 $(MANUAL) $(SHARE)/man/man1/turbo.1'
	install -m 644 tools/package/turbo.bash $(SHARE)/bash-completion/completions/turbo'
	install -m 644 README.md CHANGELOG.md LICENSE $(SHARE)/doc/libturbo/'

## uninstall            remove what `make install` copied below PREFIX
uninstall:
	rm -f '$(DESTDIR)$(PREFIX)/lib/libturbo.so' '$(DESTDIR)$(PREFIX)/bin/turbo' \
		'$(DESTDIR)$(PREFIX)/lib/libturbo/sim/libcuda.so.1' $(SHARE)/man/man1/turbo.1' \
		$(SHARE)/bash-completion/completions/turbo'
	rm -rf $(SHARE)/doc/libturbo'
	rmdir '$(DESTDIR)$(PREFIX)/lib/libturbo/sim' '$(DESTDIR)$(PREFIX)/lib/libturbo' 2>/dev/null || true

## dist                 BUILD/package/libturbo-VERSION-ARCH.tar.gz, which works wherever it is unpacked
## deb                  the same as a Debian package
## wheel                the same for pip
.PHONY: dist deb wheel
dist deb wheel: all $(SIM_CUDA) $(MANUAL)
	+$(Q)BUILD='$(BUILD)' MAKE='$(MAKE)' bash tools/package/package.sh $@ '$(BUILD)/package' '$(VERSION)'

## clean                remove the build directories (fetched headers stay)
clean:
	$(Q)rm -rf build-clang build-address build-undefined build-thread build-fuzz
	$(Q)if [ -d '$(BUILD)' ]; then find '$(BUILD)' -mindepth 1 -maxdepth 1 ! -name deps -exec rm -rf {} +; fi

## distclean            remove fetched headers too
distclean: clean
	$(Q)rm -rf build '$(BUILD)'

## help                 this text
help:
	@printf '%s\n' 'usage: make [VARIABLE=VALUE]... [TARGET]...' '' 'Targets:'
	@sed -n 's/^## \([A-Za-z-]*\|[A-Z]*\.run_test\)   */  \1\t/p' Makefile | grep -v '=' | expand -t 24
	@printf '\n%s\n' 'Variables:'
	@sed -n 's/^## \([A-Z_]*=[^ ]*\)  */  \1\t/p' Makefile | expand -t 40

-include $(shell [ -d $(OBJ) ] && find $(OBJ) -name '*.d')
