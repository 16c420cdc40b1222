/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.c - gpubroker._core: its types and what it exports.
 *
 * It has no state but its types. So each subinterpreter that shares the interpreter lock may import it; one with a lock
 * of its own may not, which is what an interpreter assumes of a module that does not say otherwise.
 */
#include "module.h"

#include "array.h"
#include "connection.h"

struct module_types *types_of(PyObject *object)
{
	return PyType_GetModuleState(Py_TYPE(object));
}

PyObject *call_python(const char *module, const char *function, PyObject *argument)
{
	PyObject *found = PyImport_ImportModule(module), *result = NULL;

	if (found)
		result = PyObject_CallMethod(found, function, "O", argument);
	Py_XDECREF(found);
	return result;
}

void collect_garbage(void)
{
	PyObject *module = PyImport_ImportModule("gc"), *result = NULL;

	if (module)
		result = PyObject_CallMethod(module, "collect", NULL);
	Py_XDECREF(module);
	Py_XDECREF(result);
	PyErr_Clear();
}

static PyObject *module_leave(PyObject *Py_UNUSED(module), PyObject *alone)
{
	int is_alone = PyObject_IsTrue(alone);

	if (is_alone < 0)
		return NULL;
	Py_BEGIN_ALLOW_THREADS
	connections_leave(is_alone);
	Py_END_ALLOW_THREADS
	return Py_NewRef(Py_None);
}

static PyMethodDef module_methods[] = {
	{ "_array_base", array_base, METH_O, NULL },
	{ "_leave", module_leave, METH_O, NULL },
	{ 0 },
};

#define TEXT_OF(number) #number
#define VERSION_OF(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)
#define VERSION VERSION_OF(GPUB_VERSION_MAJOR, GPUB_VERSION_MINOR, GPUB_VERSION_PATCH)

static int type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **type)
{
	*type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *type ? PyModule_AddType(module, *type) : -1;
}

static int module_exec(PyObject *module)
{
	struct module_types *types = PyModule_GetState(module);

	types->info = PyStructSequence_NewType(&info_desc);
	if (!types->info || PyModule_AddType(module, types->info) || type_add(module, &client_spec, &types->client) ||
	    type_add(module, &lease_spec, &types->lease) || type_add(module, &array_spec, &types->array) ||
	    type_add(module, &ticket_spec, &types->ticket))
		return -1;
	if (PyModule_AddStringConstant(module, "__version__", VERSION))
		return -1;
	return PyModule_AddIntConstant(module, "TIMELINE_MAX", (long)GPUB_TIMELINE_MAX);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct module_types *types = PyModule_GetState(module);

	Py_VISIT(types->client);
	Py_VISIT(types->lease);
	Py_VISIT(types->array);
	Py_VISIT(types->ticket);
	Py_VISIT(types->info);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct module_types *types = PyModule_GetState(module);

	Py_CLEAR(types->client);
	Py_CLEAR(types->lease);
	Py_CLEAR(types->array);
	Py_CLEAR(types->ticket);
	Py_CLEAR(types->info);
	return 0;
}

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, (void *)module_exec },
	{ 0, NULL },
};

static PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "gpubroker._core",
	.m_doc = "The types of gpubroker. Import gpubroker instead.",
	.m_size = sizeof(struct module_types),
	.m_methods = module_methods,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
};

PyMODINIT_FUNC PyInit__core(void); /* found by its name alone */
PyMODINIT_FUNC PyInit__core(void)
{
	return PyModuleDef_Init(&module_def);
}
