! SPDX-License-Identifier: Apache-2.0
!
! program.f90 - program.c for Fortran: a user's first program, compiled against the installed files. Without a broker it
! is refused with an error message.
program first
    use gpubroker
    implicit none
    type(c_ptr) :: client = c_null_ptr
    integer :: status

    status = gpub_connect(client, 'unix:/nonexistent/gpubroker.socket')
    print '(a, i0, 2a)', 'gpub_connect: ', status, ', ', gpub_strerror_last()
    if (status >= 0 .or. c_associated(client)) error stop 1
    if (index(gpub_strerror_last(), '/nonexistent/gpubroker.socket') == 0) error stop 2
    if (gpub_create(c_null_ptr, 'name', GPUB_SPEC_INIT) >= 0) error stop 3
end program
