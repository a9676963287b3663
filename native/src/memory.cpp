// Memory of the process itself.
#include "memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

// Much of a program is touched once, while it starts. Gives back the pages of our own executable that nothing has written to:
// they stay in the page cache and come back by a minor fault when they are needed. Regions that hold even one page of our
// own (relocated data, made read-only after it was written) are left alone: giving them back would lose it.
napi_value memoryForgetProgram(napi_env env, napi_callback_info) {
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  napi_value result = nullptr;
  int64_t bytes = 0;
  FILE* maps = length > 0 ? fopen("/proc/self/smaps", "re") : nullptr;
  if (maps != nullptr) {
    self[length] = '\0';
    char line[4608];
    uintptr_t from = 0;
    uintptr_t to = 0;
    bool ours = false;
    while (fgets(line, sizeof line, maps) != nullptr) {
      unsigned long long start = 0;
      unsigned long long end = 0;
      char access[5] = "";
      int path = 0;
      if (sscanf(line, "%llx-%llx %4s %*s %*s %*s %n", &start, &end, access, &path) >= 3 && access[0] == 'r') {
        line[strcspn(line, "\n")] = '\0';
        ours = access[1] == '-' && access[3] == 'p' && path > 0 && strcmp(line + path, self) == 0;
        from = static_cast<uintptr_t>(start);
        to = static_cast<uintptr_t>(end);
        continue;
      }
      unsigned long long anonymous = 1;
      if (ours && sscanf(line, "Anonymous: %llu kB", &anonymous) == 1) {
        if (anonymous == 0 && madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED) == 0) {
          bytes += static_cast<int64_t>(to - from);
        }
        ours = false;
      }
    }
    fclose(maps);
  }
  napi_create_int64(env, bytes, &result);
  return result;
}
