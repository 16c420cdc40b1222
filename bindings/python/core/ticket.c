/* SPDX-License-Identifier: Apache-2.0 */
/* ticket.c - see ticket.h */
#include "ticket.h"

#include <stddef.h>
#include <structmember.h>

struct ticket {
	PyObject_HEAD
	PyObject *text;
};

static PyObject *make(PyTypeObject *type, PyObject *text)
{
	struct ticket *made = PyObject_New(struct ticket, type);

	if (made)
		made->text = Py_NewRef(text);
	return (PyObject *)made;
}

static PyObject *ticket_create(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "text", NULL };
	PyObject *text;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "U:Ticket", names, &text))
		return NULL;
	return make(type, text);
}

PyObject *ticket_new(const struct module_types *types, const char *text)
{
	PyObject *string = PyUnicode_FromString(text), *made = string ? make(types->ticket, string) : NULL;

	Py_XDECREF(string);
	return made;
}

const char *ticket_text(const struct module_types *types, PyObject *ticket)
{
	if (Py_TYPE(ticket) == types->ticket)
		ticket = ((struct ticket *)ticket)->text;
	if (PyUnicode_Check(ticket))
		return PyUnicode_AsUTF8AndSize(ticket, NULL);
	PyErr_SetString(PyExc_TypeError, "a ticket is a gpubroker.Ticket, or its text");
	return NULL;
}

static void ticket_dealloc(struct ticket *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);

	Py_CLEAR(self->text);
	PyObject_Free(self);
	Py_DECREF(type);
}

static PyObject *ticket_repr(PyObject *Py_UNUSED(self))
{
	return PyUnicode_FromString("<gpubroker.Ticket>");
}

static PyObject *ticket_reduce(struct ticket *self, PyObject *Py_UNUSED(none))
{
	return Py_BuildValue("(O(O))", Py_TYPE((PyObject *)self), self->text);
}

static PyMethodDef methods[] = {
	{ "__reduce__", (PyCFunction)ticket_reduce, METH_NOARGS, NULL },
	{ 0 },
};

static PyMemberDef members[] = {
	{ "text", T_OBJECT_EX, offsetof(struct ticket, text), READONLY,
	  "The ticket itself: a secret, like a password." },
	{ 0 },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc, "Ticket(text)\n"
		     "--\n\n"
		     "The right to acquire one buffer: Client.ticket() makes it, Client.redeem() takes it.\n\n"
		     "It can be pickled and sent to another process. Whoever has it may use it." },
	{ Py_tp_new, (void *)ticket_create },
	{ Py_tp_dealloc, (void *)ticket_dealloc },
	{ Py_tp_repr, (void *)ticket_repr },
	{ Py_tp_methods, methods },
	{ Py_tp_members, members },
	{ 0, NULL },
};

PyType_Spec ticket_spec = {
	.name = "gpubroker.Ticket",
	.basicsize = sizeof(struct ticket),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
