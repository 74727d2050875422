/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_MPI_H
#define CLATTN_MPI_H

#include <clattn/ring.h>

CLATTN_BEGIN_DECLS

/* Rings of ranks of MPI: a library of its own, libclattn_mpi (pkg-config clattn_mpi), which the build makes where MPI
 * is (-Dmpi). <clattn/clattn.h> does not include this header. MPI is initialised before and finalised behind everything
 * here. */

/* A transport over a communicator, for clattn_ring_create. `comm` is the address of an MPI_Comm, which is duplicated;
 * all its ranks are in the ring. Collective. *transport is set on success alone.
 *
 * Errors: CLATTN_INVALID_ARGUMENT, CL_OUT_OF_HOST_MEMORY, CLATTN_COMMUNICATION_FAILED. */
CLATTN_API clattn_status clattn_mpi_open(const struct clattn_ring_transport **transport, const void *comm);

/* Behind the rings on it. Sets *transport to NULL; accepts NULL and one that is NULL. Collective, but for one on which
 * a message failed or was given up: of that the communicator is not given back. */
CLATTN_API void clattn_mpi_close(const struct clattn_ring_transport **transport);

/* What the last call of this thread to a function of this header that failed had to say; "" before the first. (That of
 * clattn_error_message is libclattn's.) */
CLATTN_API const char *clattn_mpi_error_message(void);

CLATTN_END_DECLS

#endif
