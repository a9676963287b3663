// What Node cannot do, and nothing else. Module initialisation; one export per line.
#include "file.h"
#include "mapping.h"
#include "memory.h"

static void add(napi_env env, napi_value exports, const char* name, napi_callback callback) {
  napi_value function = nullptr;
  napi_create_function(env, name, NAPI_AUTO_LENGTH, callback, nullptr, &function);
  napi_set_named_property(env, exports, name, function);
}

NAPI_MODULE_INIT(/* env, exports */) {
  add(env, exports, "map", mappingMap);
  add(env, exports, "slice", mappingSlice);
  add(env, exports, "release", mappingRelease);
  add(env, exports, "resident", mappingResident);
  add(env, exports, "forget", mappingForget);
  add(env, exports, "populate", mappingPopulate);
  add(env, exports, "liveSlices", mappingLiveSlices);
  add(env, exports, "unmap", mappingUnmap);
  add(env, exports, "allocate", fileAllocate);
  add(env, exports, "writeZeros", fileWriteZeros);
  add(env, exports, "startWriteback", fileStartWriteback);
  add(env, exports, "dropCache", fileDropCache);
  add(env, exports, "lock", fileLock);
  add(env, exports, "bootMs", clockBootMs);
  add(env, exports, "forgetProgram", memoryForgetProgram);
  return exports;
}
