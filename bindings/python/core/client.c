/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - gpubroker.Client: a connection to a broker as a Python object. Owns a reference to the connection. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "connection.h"
#include "errors.h"
#include "info.h"
#include "lease.h"
#include "patience.h"
#include "ticket.h"

struct client {
	PyObject_HEAD
	struct connection *connection;
};

/* ---- its life ---- */

/* The process has a connection, which ends in order when the process does. */
static bool watch_end(void)
{
	PyObject *module = PyImport_ImportModule("gpubroker.leaving"), *result = NULL;

	if (module)
		result = PyObject_CallMethod(module, "watch", NULL);
	Py_XDECREF(module);
	Py_XDECREF(result);
	return result != NULL;
}

static PyObject *client_create(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "address", NULL };
	const char *address = NULL;
	struct connection *connection;
	struct client *made;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "|z:Client", names, &address) ||
	    connection_open(address, &connection))
		return NULL;
	made = PyObject_New(struct client, type);
	if (!made) {
		connection_abandon(connection);
		connection_put(connection);
		return NULL;
	}
	made->connection = connection;
	if (!watch_end()) {
		Py_DECREF((PyObject *)made);
		return NULL;
	}
	return (PyObject *)made;
}

static void client_dealloc(struct client *self)
{
	PyTypeObject *type = Py_TYPE((PyObject *)self);
	PyObject *error, *value, *traceback;

	PyErr_Fetch(&error, &value, &traceback);
	connection_abandon(self->connection);
	connection_put(self->connection);
	PyErr_Restore(error, value, traceback);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* Arrays that live keep their leases and the connection. */
static PyObject *client_repr(const struct client *self)
{
	const char *address = self->connection->address;
	bool alive = connection_is_alive(self->connection);

	return PyUnicode_FromFormat("<gpubroker.Client %s%s>", address ? address : "of the default broker",
				    alive ? "" : ", not connected");
}

static int close_client(const struct client *self)
{
	if (connection_close(self->connection))
		return -1;
	holds_return(self->connection);
	connection_abandon(self->connection);
	return 0;
}

static PyObject *client_close(struct client *self, PyObject *Py_UNUSED(none))
{
	return close_client(self) ? NULL : Py_NewRef(Py_None);
}

static PyObject *client_enter(struct client *self, PyObject *Py_UNUSED(none))
{
	if (!connection_enter_or_raise(self->connection))
		return NULL;
	connection_leave(self->connection);
	return Py_NewRef((PyObject *)self);
}

/* The exception of a block goes on, also where its frames hold arrays: then the last of them disconnects. */
static PyObject *client_exit(struct client *self, PyObject *args)
{
	PyObject *type = Py_None, *ignored;

	if (!PyArg_UnpackTuple(args, "__exit__", 0, 3, &type, &ignored, &ignored))
		return NULL;
	if (!close_client(self))
		return Py_NewRef(Py_None);
	if (type == Py_None)
		return NULL;
	PyErr_Clear();
	connection_abandon(self->connection);
	return Py_NewRef(Py_None);
}

/* ---- calls that take a name ---- */

/* 0 is None, else the library's error about that name. Ends the use. */
static PyObject *done(struct client *self, const char *name, int error)
{
	PyObject *result = error ? raise_os_named(name, error) : PyErr_Occurred() ? NULL : Py_NewRef(Py_None);

	connection_leave(self->connection);
	return result;
}

#define CALL(self, error, call)                             \
	if (!connection_enter_or_raise((self)->connection)) \
		return NULL;                                \
	PATIENTLY(error, call)

/* An exception is set, and stays. */
static void unlink_quietly(const struct client *self, const char *name)
{
	Py_BEGIN_ALLOW_THREADS
	gpub_unlink(self->connection->client, name);
	Py_END_ALLOW_THREADS
}

/* None: the current one. */
static int device_from_python(PyObject *object, int32_t *device)
{
	long number = object == Py_None ? GPUB_CURRENT : PyLong_AsLong(object);

	if (PyErr_Occurred())
		return -1;
	if (object != Py_None && (number < 0 || number > INT32_MAX)) {
		PyErr_Format(PyExc_ValueError,
			     "%R is no device: they have numbers from 0 on, and None is the current one", object);
		return -1;
	}
	*device = (int32_t)number;
	return 0;
}

static int spec_from(PyObject *shape, PyObject *dtype, PyObject *device, PyObject *timeout, gpub_spec *spec)
{
	if (layout_from_python(shape, dtype, 0, &spec->layout) || timeout_from_python(timeout, &spec->timeout_ms))
		return -1;
	return device_from_python(device, &spec->device);
}

static PyObject *client_make(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name",	 "shape",   "dtype",  "timeline", "ephemeral", "dedicated",
				 "same_address", "reserve", "device", "mode",	  "timeout",   NULL };
	gpub_spec spec = GPUB_SPEC_INIT;
	PyObject *shape, *dtype = NULL, *device = Py_None, *timeout = NULL, *text = NULL;
	int timeline = 0, ephemeral = 0, dedicated = 0, same_address = 0, error;
	const char *name;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO|O$ppppO&OO&O:create", names, &name, &shape, &dtype,
					 &timeline, &ephemeral, &dedicated, &same_address, number_from_python,
					 &spec.reserve, &device, unsigned_from_python, &spec.mode, &timeout))
		return NULL;
	text = dtype ? Py_NewRef(dtype) : PyUnicode_FromString("uint8");
	timeout = timeout ? Py_NewRef(timeout) : PyLong_FromLong(0);
	error = text && timeout ? spec_from(shape, text, device, timeout, &spec) : -1;
	Py_XDECREF(text);
	Py_XDECREF(timeout);
	if (error)
		return NULL;
	spec.flags = (timeline ? GPUB_TIMELINE : 0) | (ephemeral ? GPUB_EPHEMERAL : 0) |
		     (dedicated ? GPUB_DEDICATED : 0) | (same_address ? GPUB_SAME_ADDRESS : 0);
	CALL(self, error, gpub_create(self->connection->client, name, &spec));
	if (!error && PyErr_Occurred()) /* made before it was interrupted */
		unlink_quietly(self, name);
	return done(self, name, error);
}

static PyObject *client_resize(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "nbytes", "timeout", NULL };
	PyObject *timeout = NULL;
	const char *name;
	int timeout_ms = 0, error;
	uint64_t bytes = 0;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO&|O:resize", names, &name, number_from_python, &bytes,
					 &timeout) ||
	    (timeout && timeout_from_python(timeout, &timeout_ms)))
		return NULL;
	CALL(self, error, gpub_resize(self->connection->client, name, bytes, timeout_ms));
	return done(self, name, error);
}

static PyObject *client_unlink(struct client *self, PyObject *args)
{
	const char *name;
	int error;

	if (!PyArg_ParseTuple(args, "s:unlink", &name))
		return NULL;
	CALL(self, error, gpub_unlink(self->connection->client, name));
	return done(self, name, error);
}

static PyObject *client_seal(struct client *self, PyObject *args)
{
	const char *name;
	int error;

	if (!PyArg_ParseTuple(args, "s:seal", &name))
		return NULL;
	CALL(self, error, gpub_seal(self->connection->client, name));
	return done(self, name, error);
}

static PyObject *client_rename(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "to", "replace", "persist", NULL };
	const char *name, *to;
	int replace = 0, persist = 0, error;
	unsigned flags;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "ss|$pp:rename", names, &name, &to, &replace, &persist))
		return NULL;
	flags = (replace ? GPUB_REPLACE : 0) | (persist ? GPUB_PERSIST : 0);
	CALL(self, error, gpub_rename(self->connection->client, name, to, flags));
	return done(self, name, error);
}

static PyObject *client_chmod(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "mode", NULL };
	const char *name;
	uint32_t mode;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO&:chmod", names, &name, unsigned_from_python, &mode))
		return NULL;
	CALL(self, error, gpub_chmod(self->connection->client, name, mode));
	return done(self, name, error);
}

/* As os.chown: -1 leaves it as it is, and is GPUB_KEEP as an unsigned number. */
static PyObject *client_chown(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "owner", "group", NULL };
	long long owner = -1, group = -1;
	const char *name;
	int error;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|LL:chown", names, &name, &owner, &group))
		return NULL;
	if (owner < -1 || group < -1 || owner >= GPUB_KEEP || group >= GPUB_KEEP) {
		PyErr_SetString(PyExc_ValueError, "a uid or gid is a number from 0 on, or -1 to leave it as it is");
		return NULL;
	}
	CALL(self, error, gpub_chown(self->connection->client, name, (uint32_t)owner, (uint32_t)group));
	return done(self, name, error);
}

static PyObject *client_trim(struct client *self, PyObject *Py_UNUSED(none))
{
	int error;

	CALL(self, error, gpub_trim(self->connection->client));
	return done(self, NULL, error);
}

static PyObject *client_set_device(struct client *self, PyObject *args)
{
	int device, error;

	if (!PyArg_ParseTuple(args, "i:set_device", &device))
		return NULL;
	CALL(self, error, gpub_set_device(self->connection->client, device));
	return done(self, NULL, error);
}

/* ---- what there is ---- */

/* NULL: an exception is set, perhaps by a signal handler. */
static PyObject *info_unless_raised(const struct client *self, const gpub_info *info)
{
	return PyErr_Occurred() ? NULL : info_from(types_of((PyObject *)self), info);
}

static PyObject *client_stat(struct client *self, PyObject *args)
{
	gpub_info info = { .struct_size = sizeof info };
	const char *name;
	PyObject *result;
	int error;

	if (!PyArg_ParseTuple(args, "s:stat", &name))
		return NULL;
	CALL(self, error, gpub_stat(self->connection->client, name, &info));
	result = error ? raise_os_named(name, error) : info_unless_raised(self, &info);
	connection_leave(self->connection);
	return result;
}

/* What gpub_list() found, which other threads of Python do not wait for. */
struct found {
	gpub_info *info;
	size_t     count, room;
	bool       full; /* there was no memory for more */
};

static int found_add(const gpub_info *info, void *context)
{
	struct found *found = context;

	if (found->count == found->room) {
		size_t room = found->room ? 2 * found->room : 64;
		gpub_info *grown = realloc(found->info, room * sizeof *grown);

		found->full = !grown;
		if (!grown)
			return -ENOMEM;
		found->info = grown;
		found->room = room;
	}
	found->info[found->count++] = *info;
	return 0;
}

static PyObject *found_list(const struct client *self, const struct found *found)
{
	PyObject *list = PyErr_Occurred() ? NULL : PyList_New(0);

	for (size_t i = 0; list && i < found->count; i++) {
		PyObject *info = info_from(types_of((PyObject *)self), &found->info[i]);

		if (!info || PyList_Append(list, info))
			Py_CLEAR(list);
		Py_XDECREF(info);
	}
	return list;
}

static PyObject *client_list(struct client *self, PyObject *args)
{
	struct found found = { NULL, 0, 0, false };
	const char *pattern = NULL;
	PyObject *result;
	int error;

	if (!PyArg_ParseTuple(args, "|z:list", &pattern))
		return NULL;
	CALL(self, error, (found.count = 0, gpub_list(self->connection->client, pattern, found_add, &found)));
	if (error)
		result = found.full ? PyErr_NoMemory() : raise_os(error);
	else
		result = found_list(self, &found);
	free(found.info);
	connection_leave(self->connection);
	return result;
}

static PyObject *get_devices(struct client *self, void *Py_UNUSED(none))
{
	int count = 0, error;

	CALL(self, error, gpub_device_count(self->connection->client, &count));
	connection_leave(self->connection);
	return error ? raise_os(error) : PyLong_FromLong(count);
}

static PyObject *get_node(struct client *self, void *Py_UNUSED(none))
{
	char text[GPUB_NODE_SIZE];
	int error;

	CALL(self, error, gpub_node(self->connection->client, text));
	connection_leave(self->connection);
	return error ? raise_os(error) : PyUnicode_FromString(text);
}

static PyObject *get_connected(struct client *self, void *Py_UNUSED(none))
{
	return PyBool_FromLong(connection_is_alive(self->connection));
}

static PyObject *get_address(struct client *self, void *Py_UNUSED(none))
{
	return self->connection->address ? PyUnicode_DecodeFSDefault(self->connection->address) : Py_NewRef(Py_None);
}

/* ---- calls that wait ---- */

/* absent: what no argument means */
static int timeout_or(PyObject *seconds, int absent, int *timeout_ms)
{
	*timeout_ms = absent;
	return seconds ? timeout_from_python(seconds, timeout_ms) : 0;
}

/*
 * The drain would wait for arrays of this process that nobody takes for a lease. Those that nobody can reach go first.
 */
static int check_pinned(const struct client *self, const char *name)
{
	unsigned count = holds_pinned(self->connection, name);

	if (count)
		collect_garbage();
	if (count)
		count = holds_pinned(self->connection, name);
	if (!count)
		return 0;
	PyErr_Format(PyExc_BufferError,
		     "'%s' is used by arrays or tensors of %u released %s in this process: delete them before you "
		     "drain it",
		     name, count, count == 1 ? "lease" : "leases");
	return -1;
}

static PyObject *client_drain(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "timeout", NULL };
	PyObject *timeout = NULL;
	int timeout_ms, error;
	const char *name;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|O:drain", names, &name, &timeout) ||
	    timeout_or(timeout, -1, &timeout_ms) || check_pinned(self, name))
		return NULL;
	CALL(self, error, gpub_drain(self->connection->client, name, timeout_ms));
	return done(self, name, error);
}

static PyObject *client_wait_newer(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "generation", "timeout", NULL };
	gpub_info info = { .struct_size = sizeof info };
	PyObject *timeout = NULL, *result;
	uint64_t generation = 0;
	int timeout_ms, error;
	const char *name;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|O&O:wait_newer", names, &name, number_from_python,
					 &generation, &timeout) ||
	    timeout_or(timeout, -1, &timeout_ms))
		return NULL;
	CALL(self, error, gpub_wait_newer(self->connection->client, name, generation, timeout_ms, &info));
	result = error ? raise_os_named(name, error) : info_unless_raised(self, &info);
	connection_leave(self->connection);
	return result;
}

/* ---- leases ---- */

struct wish {
	struct maybe at, signal;
	PyObject *shape, *dtype;
	unsigned rights;
	int timeout_ms;
	gpub_expectation expectation;
};

/* Either alone is compared afterwards: the library expects whole layouts. */
static int wish_layout(struct wish *wish)
{
	if (wish->shape == Py_None || wish->dtype == Py_None)
		return 0;
	return layout_from_python(wish->shape, wish->dtype, 1, &wish->expectation.layout);
}

/* The layout that was expected, where only one of shape and dtype was: with the other one as the buffer has it. */
static int part_expected(const struct wish *wish, const struct hold *hold, gpub_layout *expected)
{
	PyObject *shape = wish->shape == Py_None ? layout_shape(&hold->layout) : Py_NewRef(wish->shape);
	PyObject *dtype = wish->dtype == Py_None ? layout_dtype(&hold->layout) : Py_NewRef(wish->dtype);
	int result = shape && dtype ? layout_from_python(shape, dtype, 1, expected) : -1;

	Py_XDECREF(shape);
	Py_XDECREF(dtype);
	return result;
}

static bool fits(const gpub_layout *has, const gpub_layout *expected)
{
	if (has->code != expected->code || has->bits != expected->bits || has->lanes != expected->lanes ||
	    has->ndim != expected->ndim)
		return false;
	for (unsigned i = 0; i < has->ndim; i++)
		if (has->shape[i] != expected->shape[i] && expected->shape[i] != GPUB_ANY_EXTENT)
			return false;
	return true;
}

static int check_part(const struct wish *wish, const struct hold *hold)
{
	char is[GPUB_LAYOUT_TEXT_MAX], was[GPUB_LAYOUT_TEXT_MAX];
	gpub_layout expected;

	if ((wish->shape == Py_None) == (wish->dtype == Py_None))
		return 0;
	if (part_expected(wish, hold, &expected))
		return -1;
	if (fits(&hold->layout, &expected))
		return 0;
	gpub_layout_text(&hold->layout, is);
	gpub_layout_text(&expected, was);
	raise_os_text(-EMEDIUMTYPE, "%s is %s, %s was expected", hold->label, is, was);
	return -1;
}

/*
 * The lease that the call gave. Where a signal handler has raised an exception meanwhile, it goes back. Takes the hold
 * over.
 */
static struct hold *hold_taken(struct hold *hold, int error)
{
	if (error)
		raise_os_of(hold->name[0] ? hold->label : NULL, error);
	else
		hold_acquired(hold);
	if (!error && !PyErr_Occurred() && !hold_begin(hold))
		return hold;
	hold_put(hold);
	return NULL;
}

/* The caller is in a use. */
static struct hold *hold_acquire(struct connection *connection, const char *name, struct wish *wish)
{
	struct hold *hold = hold_new(connection, name, wish->at, wish->signal);
	int error;

	if (!hold)
		return NULL;
	PATIENTLY(error, gpub_acquire_as(connection->client, name, &wish->expectation, wish->rights, wish->timeout_ms,
					 &hold->lease));
	hold = hold_taken(hold, error);
	if (hold && check_part(wish, hold)) {
		hold_put(hold);
		return NULL;
	}
	return hold;
}

static int wish_times(struct wish *wish, PyObject *at, PyObject *signal)
{
	return maybe_from_python(at, &wish->at) || maybe_from_python(signal, &wish->signal) ? -1 : 0;
}

static PyObject *client_acquire(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "rights", "at", "signal", "timeout", "shape", "dtype", "owner", NULL };
	struct wish wish = { .shape = Py_None, .dtype = Py_None, .expectation = GPUB_EXPECTATION_INIT };
	PyObject *at = Py_None, *signal = Py_None, *timeout = NULL;
	const char *name, *rights = "r";
	struct hold *hold;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|s$OOOOOO&:acquire", names, &name, &rights, &at, &signal,
					 &timeout, &wish.shape, &wish.dtype, user_from_python,
					 &wish.expectation.owner) ||
	    rights_from_text(rights, &wish.rights) || wish_times(&wish, at, signal) ||
	    timeout_or(timeout, 0, &wish.timeout_ms) || wish_layout(&wish))
		return NULL;
	if (!connection_enter_or_raise(self->connection))
		return NULL;
	hold = hold_acquire(self->connection, name, &wish);
	connection_leave(self->connection);
	return hold ? lease_new(types_of((PyObject *)self), hold) : NULL;
}

/* ---- tickets ---- */

static int terms_from(PyObject *lifetime, int once, gpub_ticket_terms *terms)
{
	int milliseconds;

	terms->flags = once ? GPUB_TICKET_ONCE : 0;
	if ((lifetime && timeout_from_python(lifetime, &milliseconds)))
		return -1;
	if (lifetime)
		terms->lifetime_ms = milliseconds < 0 ? 0 : milliseconds ? (uint64_t)milliseconds : 1;
	return 0;
}

static PyObject *client_ticket(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "name", "rights", "once", "user", "lifetime", NULL };
	gpub_ticket_terms terms = GPUB_TICKET_TERMS_INIT;
	PyObject *lifetime = NULL, *result;
	const char *name, *text = "r";
	char ticket[GPUB_TICKET_MAX];
	unsigned rights;
	int once = 1, error;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|s$pO&O:ticket", names, &name, &text, &once,
					 user_from_python, &terms.user, &lifetime) ||
	    rights_from_text(text, &rights) || terms_from(lifetime, once, &terms))
		return NULL;
	CALL(self, error, gpub_ticket_issue(self->connection->client, name, rights, &terms, ticket));
	result = error ? raise_os_named(name, error) : ticket_new(types_of((PyObject *)self), ticket);
	connection_leave(self->connection);
	return result;
}

/* The caller is in a use. */
static struct hold *hold_redeem(struct connection *connection, const char *text, const struct wish *wish)
{
	struct hold *hold = hold_new(connection, "", wish->at, wish->signal);
	int error;

	if (!hold)
		return NULL;
	PATIENTLY(error, gpub_redeem(connection->client, text, &hold->lease));
	return hold_taken(hold, error);
}

static PyObject *client_redeem(struct client *self, PyObject *args, PyObject *keywords)
{
	static char *names[] = { "ticket", "at", "signal", NULL };
	PyObject *ticket, *at = Py_None, *signal = Py_None;
	struct wish wish = { 0 };
	struct hold *hold;
	const char *text;

	if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$OO:redeem", names, &ticket, &at, &signal))
		return NULL;
	text = ticket_text(types_of((PyObject *)self), ticket);
	if (!text || wish_times(&wish, at, signal) || !connection_enter_or_raise(self->connection))
		return NULL;
	hold = hold_redeem(self->connection, text, &wish);
	connection_leave(self->connection);
	return hold ? lease_new(types_of((PyObject *)self), hold) : NULL;
}

/* ---- the type ---- */

#define KEYWORDS(function) (PyCFunction)(void (*)(void))(function)
#define NAMED(function)	   KEYWORDS(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef methods[] = {
	{ "close", (PyCFunction)client_close, METH_NOARGS,
	  "close($self, /)\n"
	  "--\n\n"
	  "Returns what is still held and disconnects. Waits for the device work of this process.\n\n"
	  "Arrays that live keep their leases: the last of them disconnects. OSError EBUSY: another thread is in a "
	  "call." },
	{ "create", NAMED(client_make),
	  "create($self, /, name, shape, dtype='uint8', *, timeline=False, ephemeral=False, dedicated=False, "
	  "same_address=False, reserve=0, device=None, mode=0o600, timeout=0)\n"
	  "--\n\n"
	  "Creates a buffer of zeros, an array in row-major order; the name lives until unlink().\n\n"
	  "shape: an int or a tuple of up to 8. dtype: 'float32', numpy.float32, torch.float32 ...; 'float32x4' is of "
	  "vectors. A str means\n"
	  "what NumPy says: 'i8' is int64, 'f4' float32. What NumPy does not know is as gpub_layout_parse(3) has it: "
	  "'bf16', 'f32'.\n"
	  "timeline: it gets a timeline. ephemeral: it ends with this session. dedicated: it has an allocation of its "
	  "own. same_address: each process maps it at the same address. reserve: bytes that resize() may make of it. "
	  "timeout: how\n"
	  "many seconds to wait for memory, None without limit.\n\n"
	  "FileExistsError: the name is taken. OSError ENOMEM, EDQUOT: no memory, or a quota. ValueError: no such "
	  "dtype or shape." },
	{ "unlink", (PyCFunction)client_unlink, METH_VARARGS,
	  "unlink($self, name, /)\n"
	  "--\n\n"
	  "Removes the name. The memory is freed when nobody uses it.\n\n"
	  "FileNotFoundError, PermissionError." },
	{ "drain", NAMED(client_drain),
	  "drain($self, /, name, timeout=None)\n"
	  "--\n\n"
	  "unlink(), and waits until nobody uses the memory. TimeoutError: somebody still does; the name is "
	  "removed.\n\n"
	  "BufferError: arrays of this process live that were made of it by a lease that was released. The name "
	  "stays." },
	{ "chmod", NAMED(client_chmod),
	  "chmod($self, /, name, mode)\n"
	  "--\n\n"
	  "Changes who may acquire it. OSError EBUSY: create it with dedicated=True." },
	{ "chown", NAMED(client_chown),
	  "chown($self, /, name, owner=-1, group=-1)\n"
	  "--\n\n"
	  "Gives it to another user or group, by number; -1 leaves it as it is." },
	{ "stat", (PyCFunction)client_stat, METH_VARARGS,
	  "stat($self, name, /)\n--\n\nWhat the broker knows of it: an Info. FileNotFoundError: no such name." },
	{ "list", (PyCFunction)client_list, METH_VARARGS,
	  "list($self, pattern=None, /)\n"
	  "--\n\n"
	  "The buffers that this user owns or may acquire, in the order of their names: a list of Info.\n\n"
	  "pattern: as of fnmatch, where * and ? match / too; None: all." },
	{ "seal", (PyCFunction)client_seal, METH_VARARGS,
	  "seal($self, name, /)\n"
	  "--\n\n"
	  "No lease can write it from now on: they are refused with EROFS. It cannot be undone.\n\n"
	  "OSError EBUSY: another session can write it." },
	{ "rename", NAMED(client_rename),
	  "rename($self, /, name, to, *, replace=False, persist=False)\n"
	  "--\n\n"
	  "Gives it another name and a new generation, in one step.\n\n"
	  "replace: a buffer of that name is unlinked. persist: it is not ephemeral any more.\n\n"
	  "FileExistsError: the name is taken. Leases go on." },
	{ "resize", NAMED(client_resize),
	  "resize($self, /, name, nbytes, timeout=0)\n"
	  "--\n\n"
	  "Gives a buffer that was created with a reserve another size: what is new is zero.\n\n"
	  "It is a new generation: leases and arrays stay as they are, the next acquire() has as many rows as fit in "
	  "nbytes, tickets for it end. It\n"
	  "shrinks only while no process maps it. timeout: how many seconds to wait for memory, None without limit.\n\n"
	  "FileNotFoundError, PermissionError. OSError EINVAL: it has no reserve; ENOSPC: nbytes is beyond the "
	  "reserve; ENOMEM, EDQUOT: no memory,\n"
	  "or a quota; EBUSY: a process maps what is to shrink, or it is being resized; EROFS: it is sealed." },
	{ "wait_newer", NAMED(client_wait_newer),
	  "wait_newer($self, /, name, generation=0, timeout=None)\n"
	  "--\n\n"
	  "Waits for a buffer of that name of a later generation: its Info.\n\n"
	  "TimeoutError; FileNotFoundError: timeout is 0 and there is no such name." },
	{ "acquire", NAMED(client_acquire),
	  "acquire($self, /, name, rights='r', *, at=None, signal=None, timeout=0, shape=None, dtype=None, "
	  "owner=None)\n"
	  "--\n\n"
	  "Holds the buffer: a Lease, for a with statement.\n\n"
	  "rights: 'r', 'w' or 'rw'. at: its work waits until the buffer's timeline has that value; signal: its end "
	  "sets the\n"
	  "timeline to that value. Both happen on the device, in the order of the stream that the framework uses which "
	  "takes the array; on\n"
	  "the host device acquire() itself waits. timeout: how many seconds to wait for a\n"
	  "name that does not exist, None without limit. shape, dtype, owner: what the buffer must be; an extent of "
	  "None is any.\n\n"
	  "FileNotFoundError, TimeoutError, PermissionError; OSError EMEDIUMTYPE: it has another shape or dtype. "
	  "OSError EROFS: it is\n"
	  "sealed. OSError EOWNERDEAD: the timeline's writer died before 'at'." },
	{ "ticket", NAMED(client_ticket),
	  "ticket($self, /, name, rights='r', *, once=True, user=None, lifetime=3600)\n"
	  "--\n\n"
	  "A Ticket for it, which another process redeems.\n\n"
	  "once: it can be redeemed once. user: the uid that may, None: anybody. lifetime: seconds, None: as long "
	  "as the name." },
	{ "redeem", NAMED(client_redeem),
	  "redeem($self, /, ticket, *, at=None, signal=None)\n"
	  "--\n\n"
	  "Holds the buffer of a Ticket: a Lease with the ticket's rights.\n\n"
	  "OSError EKEYREJECTED, EKEYEXPIRED, ESTALE." },
	{ "trim", (PyCFunction)client_trim, METH_NOARGS,
	  "trim($self, /)\n"
	  "--\n\n"
	  "Closes every mapping that no lease holds. Waits for the device work of this process." },
	{ "set_device", (PyCFunction)client_set_device, METH_VARARGS,
	  "set_device($self, device, /)\n"
	  "--\n\n"
	  "Makes that device current for the calling thread. acquire() and create() use the current one." },
	{ "__enter__", (PyCFunction)client_enter, METH_NOARGS, NULL },
	{ "__exit__", (PyCFunction)client_exit, METH_VARARGS, NULL },
	{ 0 },
};

static PyGetSetDef getset[] = {
	{ "devices", (getter)get_devices, NULL, "int: how many devices this client can use.", NULL },
	{ "node", (getter)get_node, NULL,
	  "str: which broker this is. Processes with the same one can acquire each other's buffers.", NULL },
	{ "connected", (getter)get_connected, NULL,
	  "bool: it is open, and its broker runs. A client stays without a broker: connect anew.", NULL },
	{ "address", (getter)get_address, NULL, "str: the broker's address as it was given, or None.", NULL },
	{ 0 },
};

static PyType_Slot slots[] = {
	{ Py_tp_doc,
	  "Client(address=None)\n"
	  "--\n\n"
	  "A connection to a broker: gpubroker.connect() makes it. Use it in a with statement, or close() it.\n\n"
	  "Any thread may use it. Its calls raise OSError with the errno and the message of the library. Those that "
	  "wait are ended by\n"
	  "Ctrl-C, and by any other signal whose handler raises an exception; nothing of them is left then. In a "
	  "forked child they raise\n"
	  "ChildProcessError (ECHILD)." },
	{ Py_tp_new, (void *)client_create },
	{ Py_tp_dealloc, (void *)client_dealloc },
	{ Py_tp_repr, (void *)client_repr },
	{ Py_tp_methods, methods },
	{ Py_tp_getset, getset },
	{ 0, NULL },
};

PyType_Spec client_spec = {
	.name = "gpubroker.Client",
	.basicsize = sizeof(struct client),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = slots,
};
