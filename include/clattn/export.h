/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_EXPORT_H
#define CLATTN_EXPORT_H

/* Only what carries CLATTN_API leaves the library; a symbol map (src/clattn.map) enforces it. */
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

#endif
