/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CLATTN_TOOL_VERIFY_WORKER_H
#define CLATTN_TOOL_VERIFY_WORKER_H

/* The process that does the cases of a soak (verify/soak.h): serves requests on standard input, a line of JSON each,
 * until it ends.
 *
 *     {"op": "open", "platform": P, "device": D}    {"opened": true} or {"error": TEXT}
 *     {"op": "case", "seed": N, "skeleton": NAME,   {"built": true} once its programs are compiled, then
 *      "unordered": BOOL}                           {"outcome": NAME, "text": WHY, "share": X, "program": KEY}, or the
 *                                                   latter alone where they are not
 */
int verify_worker_main(void);

#endif
