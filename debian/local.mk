# SPDX-License-Identifier: Apache-2.0

# The packages are made from the release (./bootstrap deb).
EXTRA_DIST += \
	debian/README.source debian/changelog debian/clean debian/control debian/copyright \
	debian/gpubroker-exporter.install debian/gpubroker-tools.install debian/gpubroker.install debian/gpubroker.README.Debian \
	debian/gpubroker.postinst \
	debian/libgpubroker-dev.examples debian/libgpubroker-dev.install \
	debian/libgpubroker0.install debian/libgpubroker0.symbols \
	debian/needrestart/gpubroker.conf debian/not-installed debian/python3-gpubroker.install debian/rules debian/source/format \
	debian/tests/compile debian/tests/control debian/tests/demo debian/tests/python debian/tests/service
