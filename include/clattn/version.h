/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#include <clattn/export.h>

/* The version of these headers. The build reads it from here, so it stands in one place.
 *
 *     MAJOR   the ABI, and the number in the library's name: libclattn.so.1
 *     MINOR   additions to it
 *     PATCH   no change of it
 *
 * What a program may rely on
 *     A program built against 1.N runs, without being built again, with the shared library of any 1.M, M >= N. Calls
 *     that it makes mean the same, and fields that it does not know have their defaults. Results may differ in rounding
 *     between versions, and plans in kernel and block sizes.
 *     A program built against 1.N runs with an older 1.M, M < N, too, as long as it uses nothing that came after 1.M. A
 *     function that is missing stops the program when it is loaded: symbols carry the version that they came with
 *     (CLATTN_1.0). A field that the older library does not know is refused by the call: see below. An older library
 *     fills no newer field of an _info struct: it reads as 0.
 *     clattn_version() tells at run time which version it is.
 *     No promise is made of what headers under src/ say, of texts (messages, names of a plan's steps, knobs), of the
 *     command's output meant for people, and of files in the cache.
 *
 * How structs grow
 *     No struct of the public headers changes its size, and no member its place, while MAJOR stays. Each ends in
 *     `uint64_t reserved[N]`; a new member takes room from there, whole words of it and without padding. 0 is always
 *     its default, and means what the library did before.
 *     A caller sets all of a struct to 0 and then what it wants: `= {.d = 64}` does. Members are named in initialisers,
 *     never counted: more may come.
 *     Reserved room of a struct that is given to the library must be 0, of the structs inside it, too. Else the call is
 *     CLATTN_INVALID_ARGUMENT, and its message names the struct: what a newer header allows is refused by an older
 *     library, never passed over. The one exception is clattn_capabilities_apply_known, which cannot fail.
 *     Reserved room of a struct that the library fills is set to 0.
 *     What would take much room comes as a pointer to a struct of its own.
 *     Enumerators keep their values, and new ones follow; an enum has the size of an int (<clattn/export.h>). A status,
 *     a plan's source or a feature that a program does not know may come from a newer library.
 *
 * What would raise MAJOR: taking away or changing a function, a member, an enumerator or a default. */
#define CLATTN_VERSION_MAJOR 1
#define CLATTN_VERSION_MINOR 0
#define CLATTN_VERSION_PATCH 0

CLATTN_BEGIN_DECLS

/* The version of the library that is linked, as "MAJOR.MINOR.PATCH". Static storage. Any thread. */
CLATTN_API const char *clattn_version(void);

CLATTN_END_DECLS

#endif
