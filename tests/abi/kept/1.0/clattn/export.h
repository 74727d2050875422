/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_EXPORT_H
#define CLATTN_EXPORT_H
#if defined(__GNUC__)
#define CLATTN_API __attribute__((visibility("default")))
#else
#define CLATTN_API
#endif
#ifdef __cplusplus
#define CLATTN_BEGIN_DECLS extern "C" {
#define CLATTN_END_DECLS   }
#else
#define CLATTN_BEGIN_DECLS
#define CLATTN_END_DECLS
#endif
enum clattn_enum_size { CLATTN_ENUM_SIZE_IS_THAT_OF_INT = 0 };
typedef char clattn_enums_must_not_be_short[sizeof(enum clattn_enum_size) == sizeof(int) ? 1 : -1];
#endif
