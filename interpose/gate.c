/* The gate: a library without LibTorch that stands before it. Every entry jumps through a slot; a
   slot starts at a resolver that fills it with LibTorch's own function. The core, which is loaded
   only where LibTorch is, puts its hooks into the slots it wants. */
#define _GNU_SOURCE
#include "interpose/gate.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void* ddpscope_gate_slots[];
extern void* const ddpscope_gate_entries[];
extern const char* const ddpscope_gate_names[];
extern const long ddpscope_gate_count;

#define EXPORTED __attribute__((visibility("default")))

static long index_of(const char* name) {
  long begin = 0, end = ddpscope_gate_count;
  while (begin < end) { /* the names are sorted */
    const long middle = begin + (end - begin) / 2;
    const int order = strcmp(ddpscope_gate_names[middle], name);
    if (order == 0) return middle;
    if (order < 0) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return -1;
}

struct search {
  const char* name;
  const void* own;
  void* found;
};

/* A library that was opened with RTLD_LOCAL is not behind RTLD_NEXT: ask it by its file. */
static int ask_library(struct dl_phdr_info* info, size_t size, void* data) {
  struct search* search = data;
  (void)size;
  void* library = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return 0;
  void* found = dlsym(library, search->name);
  dlclose(library);
  if (found != search->own) search->found = found;
  return search->found != NULL;
}

static void* next_definition(const char* name) {
  /* A variable, not a tail call: RTLD_NEXT is relative to the library that calls dlsym. */
  void* volatile next = dlsym(RTLD_NEXT, name);
  if (next != NULL) return next;
  struct search search = {name, ddpscope_gate_entry(name), NULL};
  dl_iterate_phdr(ask_library, &search);
  return search.found;
}

/* Called by the resolver stub with all argument registers saved. */
__attribute__((visibility("hidden"))) void* ddpscope_gate_resolve(long index) {
  const int saved_errno = errno;
  void* target = next_definition(ddpscope_gate_names[index]);
  if (target == NULL) { /* nothing can be called: without us the program would not have started */
    fprintf(stderr, "ddpscope: error: no library defines %s\n", ddpscope_gate_names[index]);
    abort();
  }
  __atomic_store_n(&ddpscope_gate_slots[index], target, __ATOMIC_RELEASE);
  errno = saved_errno;
  return target;
}

EXPORTED int ddpscope_gate_hook(const char* name, void* hook, void** original) {
  const long index = index_of(name);
  if (index < 0) return 0;
  void* next = next_definition(name);
  if (next == NULL) return 0;
  __atomic_store_n(original, next, __ATOMIC_RELEASE);
  __atomic_store_n(&ddpscope_gate_slots[index], hook, __ATOMIC_RELEASE);
  return 1;
}

EXPORTED void** ddpscope_gate_slot(const char* name) {
  const long index = index_of(name);
  return index < 0 ? NULL : &ddpscope_gate_slots[index];
}

EXPORTED void* ddpscope_gate_entry(const char* name) {
  const long index = index_of(name);
  return index < 0 ? NULL : ddpscope_gate_entries[index];
}

static int is_torch(struct dl_phdr_info* info, size_t size, void* found) {
  (void)size;
  if (strstr(info->dlpi_name, "/libtorch_cpu.so") != NULL) *(int*)found = 1;
  return 0;
}

static int is_off(const char* value) {
  return value == NULL || *value == '\0' || !strcmp(value, "0") || !strcmp(value, "off") ||
         !strcmp(value, "false") || !strcmp(value, "no");
}

/* Preloaded: opens the core that lies beside this file, when the program has LibTorch and the
   variable asks for it. A linked program has the core already. */
__attribute__((constructor)) static void open_core(void) {
  if (is_off(getenv("DDPSCOPE"))) return; /* LibTorch-free: config/env.cpp is out of reach here */
  int torch = 0;
  dl_iterate_phdr(is_torch, &torch);
  if (!torch) return;
  Dl_info self;
  char path[4096];
  if (dladdr((void*)open_core, &self) == 0 || strlen(self.dli_fname) >= sizeof path - 32) return;
  strcpy(path, self.dli_fname);
  char* slash = strrchr(path, '/');
  strcpy(slash ? slash + 1 : path, DDPSCOPE_CORE_FILE);
  if (dlopen(DDPSCOPE_CORE_FILE, RTLD_NOW | RTLD_NOLOAD)) return;
  if (!dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    fprintf(stderr, "ddpscope: error: %s. Training continues undiagnosed.\n", dlerror());
  }
}
