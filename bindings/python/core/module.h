/* SPDX-License-Identifier: Apache-2.0 */
/* module.h - the module's types, kept for each interpreter that imports it. */
#ifndef GPUB_PYTHON_MODULE_H
#define GPUB_PYTHON_MODULE_H

#include "python.h"

struct module_types {
	PyTypeObject *client, *lease, *array, *ticket, *info;
};

/* What each file of a type gives to the module. */
extern PyType_Spec client_spec, lease_spec, array_spec, ticket_spec;
extern PyStructSequence_Desc info_desc;

/* Of an object of one of these types. None of them can be subclassed, so the type is the module's. */
struct module_types *types_of(PyObject *object);

/* Calls a function of a Python module of this package with that argument. */
PyObject *call_python(const char *module, const char *function, PyObject *argument);

/* A full collection, also where the program has switched the automatic one off. Leaves no exception. */
void collect_garbage(void);

#endif
