! SPDX-License-Identifier: Apache-2.0
!
! gpubroker.f90 - the module gpubroker: the interface of gpubroker.h, and leases as Fortran arrays.
!
!     call gpub_acquire_f32(client, name, array, rights, timeout_ms, lease [, stat] [, errmsg])
!     call gpub_acquire_f32(client, name, device, extents, rights, timeout_ms, lease [, stat] [, errmsg])
!
! The first form gives a pointer of rank 1 to 4 on the host device. The second gives the address for device code, and
! the extents: as many as extents has elements. Both acquire only a buffer of that element type and that rank. The
! broker's layouts are in row-major order and Fortran's arrays are not, so the extents are reversed: float32[ny,nx] is
! array(nx, ny).
!
! An error sets stat and errmsg; without stat it ends the program with the error message. Then nothing is held, and the
! other arguments are as they were. Owns nothing: the caller returns the lease, and does not use the array after that.
module gpubroker
    use, intrinsic :: iso_c_binding
    use gpubroker_interface
    implicit none
    private :: ENOTSUP, acquire_layout, acquire_host, report

    ! The negative errno where an array is on no host device; tests/install/fortran.sh compares it.
    integer(c_int), parameter :: ENOTSUP = 95

    interface gpub_acquire_f32
        module procedure f32_1, f32_2, f32_3, f32_4, f32_device
    end interface
    interface gpub_acquire_f64
        module procedure f64_1, f64_2, f64_3, f64_4, f64_device
    end interface
    interface gpub_acquire_i32
        module procedure i32_1, i32_2, i32_3, i32_4, i32_device
    end interface
    interface gpub_acquire_i64
        module procedure i64_1, i64_2, i64_3, i64_4, i64_device
    end interface
    private :: f32_1, f32_2, f32_3, f32_4, f32_device
    private :: f64_1, f64_2, f64_3, f64_4, f64_device
    private :: i32_1, i32_2, i32_3, i32_4, i32_device
    private :: i64_1, i64_2, i64_3, i64_4, i64_device

contains

    ! Acquires a buffer of that type and of as many dimensions as extents has elements, which get its shape in Fortran's
    ! order.
    integer(c_int) function acquire_layout(client, name, code, bits, extents, rights, timeout_ms, lease) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int8_t), intent(in) :: code, bits
        integer(c_int64_t), intent(inout) :: extents(:)
        integer(c_int32_t), intent(in) :: rights
        integer(c_int), intent(in) :: timeout_ms
        type(gpub_lease), intent(inout) :: lease
        type(gpub_expectation) :: expectation
        type(gpub_layout) :: layout
        integer :: rank, ignored

        rank = min(size(extents), GPUB_DIMS_MAX + 1) ! the library refuses more
        expectation%layout = gpub_layout(code, bits, 1_c_int16_t, rank)
        expectation%layout%shape(:min(rank, GPUB_DIMS_MAX)) = GPUB_ANY_EXTENT
        status = gpub_acquire_as(client, name, expectation, rights, timeout_ms, lease)
        if (status /= 0) return
        status = gpub_lease_layout(lease, layout)
        if (status == 0) then
            extents = layout%shape(rank:1:-1)
        else
            ignored = gpub_return(lease)
        end if
    end function

    ! The same on the host device alone, where the address is one of this process.
    subroutine acquire_host(client, name, code, bits, extents, rights, timeout_ms, lease, status, text)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int8_t), intent(in) :: code, bits
        integer(c_int64_t), intent(inout) :: extents(:)
        integer(c_int32_t), intent(in) :: rights
        integer(c_int), intent(in) :: timeout_ms
        type(gpub_lease), intent(inout) :: lease
        integer(c_int), intent(out) :: status
        character(len=:), allocatable, intent(out) :: text
        integer(c_int) :: ignored

        status = acquire_layout(client, name, code, bits, extents, rights, timeout_ms, lease)
        if (status /= 0) then
            text = gpub_strerror_last()
        else if (lease%device /= GPUB_HOST) then
            ignored = gpub_return(lease)
            status = -ENOTSUP
            text = "'"//trim(name)//"' is in the memory of a CUDA device, which no Fortran pointer can reach: "// &
                'pass a type(c_ptr) and its extents, for device code'
        end if
    end subroutine

    ! Where status is not 0, the caller learns of it or the program ends. errmsg is not passed on to here: built by
    ! gfortran 12 with the sanitizers, the caller's errmsg then had another length than its text.
    subroutine report(status, text, stat)
        integer(c_int), intent(in) :: status
        character(len=:), allocatable, intent(in) :: text
        integer(c_int), intent(out), optional :: stat

        if (present(stat)) stat = status
        if (status /= 0 .and. .not. present(stat)) error stop text
    end subroutine

    ! ---- f32 ----

    subroutine f32_1(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 32
        real(c_float), pointer, intent(inout) :: array(:)
        integer(c_int64_t) :: extents(1)
        include 'acquire-host.inc'
    end subroutine

    subroutine f32_2(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 32
        real(c_float), pointer, intent(inout) :: array(:,:)
        integer(c_int64_t) :: extents(2)
        include 'acquire-host.inc'
    end subroutine

    subroutine f32_3(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 32
        real(c_float), pointer, intent(inout) :: array(:,:,:)
        integer(c_int64_t) :: extents(3)
        include 'acquire-host.inc'
    end subroutine

    subroutine f32_4(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 32
        real(c_float), pointer, intent(inout) :: array(:,:,:,:)
        integer(c_int64_t) :: extents(4)
        include 'acquire-host.inc'
    end subroutine

    subroutine f32_device(client, name, device, extents, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 32
        include 'acquire-device.inc'
    end subroutine

    ! ---- f64 ----

    subroutine f64_1(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 64
        real(c_double), pointer, intent(inout) :: array(:)
        integer(c_int64_t) :: extents(1)
        include 'acquire-host.inc'
    end subroutine

    subroutine f64_2(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 64
        real(c_double), pointer, intent(inout) :: array(:,:)
        integer(c_int64_t) :: extents(2)
        include 'acquire-host.inc'
    end subroutine

    subroutine f64_3(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 64
        real(c_double), pointer, intent(inout) :: array(:,:,:)
        integer(c_int64_t) :: extents(3)
        include 'acquire-host.inc'
    end subroutine

    subroutine f64_4(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 64
        real(c_double), pointer, intent(inout) :: array(:,:,:,:)
        integer(c_int64_t) :: extents(4)
        include 'acquire-host.inc'
    end subroutine

    subroutine f64_device(client, name, device, extents, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_FLOAT, bits = 64
        include 'acquire-device.inc'
    end subroutine

    ! ---- i32 ----

    subroutine i32_1(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 32
        integer(c_int32_t), pointer, intent(inout) :: array(:)
        integer(c_int64_t) :: extents(1)
        include 'acquire-host.inc'
    end subroutine

    subroutine i32_2(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 32
        integer(c_int32_t), pointer, intent(inout) :: array(:,:)
        integer(c_int64_t) :: extents(2)
        include 'acquire-host.inc'
    end subroutine

    subroutine i32_3(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 32
        integer(c_int32_t), pointer, intent(inout) :: array(:,:,:)
        integer(c_int64_t) :: extents(3)
        include 'acquire-host.inc'
    end subroutine

    subroutine i32_4(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 32
        integer(c_int32_t), pointer, intent(inout) :: array(:,:,:,:)
        integer(c_int64_t) :: extents(4)
        include 'acquire-host.inc'
    end subroutine

    subroutine i32_device(client, name, device, extents, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 32
        include 'acquire-device.inc'
    end subroutine

    ! ---- i64 ----

    subroutine i64_1(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 64
        integer(c_int64_t), pointer, intent(inout) :: array(:)
        integer(c_int64_t) :: extents(1)
        include 'acquire-host.inc'
    end subroutine

    subroutine i64_2(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 64
        integer(c_int64_t), pointer, intent(inout) :: array(:,:)
        integer(c_int64_t) :: extents(2)
        include 'acquire-host.inc'
    end subroutine

    subroutine i64_3(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 64
        integer(c_int64_t), pointer, intent(inout) :: array(:,:,:)
        integer(c_int64_t) :: extents(3)
        include 'acquire-host.inc'
    end subroutine

    subroutine i64_4(client, name, array, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 64
        integer(c_int64_t), pointer, intent(inout) :: array(:,:,:,:)
        integer(c_int64_t) :: extents(4)
        include 'acquire-host.inc'
    end subroutine

    subroutine i64_device(client, name, device, extents, rights, timeout_ms, lease, stat, errmsg)
        integer(c_int8_t), parameter :: code = GPUB_INT, bits = 64
        include 'acquire-device.inc'
    end subroutine
end module
