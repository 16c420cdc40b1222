/* SPDX-License-Identifier: Apache-2.0 */
/* patience.c - see patience.h */
#include "patience.h"

static _Thread_local struct patience *innermost;

/* Runs what handlers are due. Another exception than the first is dropped: the call ends with that one. */
static int run_handlers(struct patience *patience)
{
	PyObject *type, *value, *traceback;
	int raised;

	if (!patience->raised)
		return PyErr_CheckSignals();
	PyErr_Fetch(&type, &value, &traceback);
	raised = PyErr_CheckSignals();
	PyErr_Restore(type, value, traceback);
	return raised;
}

/* The library calls it on the waiting thread. */
static int check(void *context)
{
	struct patience *patience = context;
	int raised;

	PyEval_RestoreThread(patience->thread);
	raised = run_handlers(patience);
	patience->raised |= raised != 0;
	patience->thread = PyEval_SaveThread();
	return raised;
}

void patience_begin(struct patience *patience)
{
	*patience = (struct patience){ .outer = innermost };
	innermost = patience;
	gpub_set_interrupt(check, patience);
	patience->thread = PyEval_SaveThread();
}

void patience_end(struct patience *patience)
{
	PyEval_RestoreThread(patience->thread);
	innermost = patience->outer;
	gpub_set_interrupt(innermost ? check : NULL, innermost);
}
