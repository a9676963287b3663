#pragma once
#include "status.h"

// What each export promises: native/README.md.
napi_value mappingMap(napi_env env, napi_callback_info info);
napi_value mappingSlice(napi_env env, napi_callback_info info);
napi_value mappingRelease(napi_env env, napi_callback_info info);
napi_value mappingResident(napi_env env, napi_callback_info info);
napi_value mappingForget(napi_env env, napi_callback_info info);
napi_value mappingPopulate(napi_env env, napi_callback_info info);
napi_value mappingLiveSlices(napi_env env, napi_callback_info info);
napi_value mappingUnmap(napi_env env, napi_callback_info info);
