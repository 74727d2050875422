/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_EXPORT_H
#define CLATTN_EXPORT_H

/* Only what carries CLATTN_API leaves the library; a symbol map (src/clattn.map) enforces it. */
#if defined(_WIN32) && defined(CLATTN_BUILDING)
#define CLATTN_API __declspec(dllexport)
#elif defined(_WIN32)
#define CLATTN_API
#elif defined(__GNUC__)
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

/* Enums are members of structs and are passed by value, so a program and the library must agree on their size: that of
 * an int. A program built otherwise (-fshort-enums) does not compile here. */
enum clattn_enum_size { CLATTN_ENUM_SIZE_IS_THAT_OF_INT = 0 };
typedef char clattn_enums_must_not_be_short[sizeof(enum clattn_enum_size) == sizeof(int) ? 1 : -1];

#endif
