/* SPDX-License-Identifier: Apache-2.0 */
/* ticket.h - gpubroker.Ticket: the text of a ticket, which is a secret, so it prints without it. */
#ifndef GPUB_PYTHON_TICKET_H
#define GPUB_PYTHON_TICKET_H

#include "module.h"

PyObject *ticket_new(const struct module_types *types, const char *text);

/* Of a Ticket or a str. NULL: a TypeError is set. */
const char *ticket_text(const struct module_types *types, PyObject *ticket);

#endif
