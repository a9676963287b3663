#pragma once
#include "status.h"

// What each export promises: native/README.md.
napi_value fileAllocate(napi_env env, napi_callback_info info);
napi_value fileWriteZeros(napi_env env, napi_callback_info info);
napi_value fileStartWriteback(napi_env env, napi_callback_info info);
napi_value fileDropCache(napi_env env, napi_callback_info info);
napi_value fileLock(napi_env env, napi_callback_info info);
napi_value clockBootMs(napi_env env, napi_callback_info info);
