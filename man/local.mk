# SPDX-License-Identifier: Apache-2.0
dist_man_MANS +=
dist_man_MANS += man/broker-status.1
