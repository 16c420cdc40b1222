/* SPDX-License-Identifier: Apache-2.0 */
/* weather.h - what a job manager, a logout or a cleaner of old files does to a broker that runs. */
#ifndef GPUB_TESTS_WEATHER_H
#define GPUB_TESTS_WEATHER_H

#include "harness.h"

/*
 * Sends the broker a signal that means nothing to it, or removes its status file or its socket: which, modulo WEATHERS,
 * says what. False: the name that was removed is not there again.
 */
#define WEATHERS 10
bool broker_weather(const struct broker_process *broker, unsigned which);

#endif
