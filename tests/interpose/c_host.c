/* A program without a C++ runtime that opens a library for itself alone; one that has nothing to
   call is closed again. */
#include <dlfcn.h>

int main(int count, char** arguments) {
  void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : 0;
  int (*caught)(void) = library ? (int (*)(void))dlsym(library, "caught") : 0;
  if (caught) return caught();
  return library ? dlclose(library) : 2;
}
