! SPDX-License-Identifier: Apache-2.0
!
! gpubroker-interface.f90 - gpubroker.h for Fortran, in its order. The module gpubroker makes it public.
!
! Each function of the header is here under its name, with its arguments in their order, and returns 0 or a negative
! errno. gpubroker.h has the contract of each; gpubroker_fortran(3) says what differs:
!   - Names and other texts are Fortran strings. Trailing blanks do not count, and the string ends at its first NUL.
!   - Texts that a function gives are allocatable strings.
!   - Unsigned numbers are integers of the same size: the largest one is -1.
!   - Fortran does not distinguish GPUB_TIMELINE from gpub_timeline(), so the flag is GPUB_TIMELINE_FLAG.
!   - The types have the values of the macros ..._INIT from the start.
!
! What Fortran has beside the header: gpub_acquire_f32 and its siblings in gpubroker.f90, gpub_check() and
! gpub_info_name(). Owns nothing; keeps no state; never interprets what a function returns, but in gpub_check().
module gpubroker_interface
    use, intrinsic :: iso_c_binding
    implicit none
    private

    integer(c_int), parameter, public :: GPUB_VERSION_MAJOR = 0, GPUB_VERSION_MINOR = 1, GPUB_VERSION_PATCH = 0

    ! rights of a lease
    integer(c_int32_t), parameter, public :: GPUB_READ = 1, GPUB_WRITE = 2, GPUB_MINE = 4

    ! flags of gpub_spec and gpub_info, of gpub_rename() and of gpub_set_flags()
    integer(c_int32_t), parameter, public :: GPUB_EPHEMERAL = 1, GPUB_TIMELINE_FLAG = 2, GPUB_DEDICATED = 4, &
        GPUB_SEALED = 8, GPUB_SAME_ADDRESS = 16, GPUB_GROWABLE = 32
    integer(c_int32_t), parameter, public :: GPUB_REPLACE = 1, GPUB_PERSIST = 2, GPUB_BACKGROUND_CLOSE = 1

    ! devices, and states of a buffer
    integer(c_int32_t), parameter, public :: GPUB_HOST = -1, GPUB_CURRENT = -2
    integer(c_int32_t), parameter, public :: GPUB_LIVE = 1, GPUB_DRAINING = 2

    integer(c_int), parameter, public :: GPUB_NAME_MAX = 95, GPUB_DIMS_MAX = 8, GPUB_LAYOUT_TEXT_MAX = 200, &
        GPUB_TICKET_MAX = 256
    integer(c_int64_t), parameter, public :: GPUB_TIMELINE_MAX = 4611686018427387903_c_int64_t, GPUB_ANY_EXTENT = -1
    integer(c_int), parameter, public :: GPUB_TIMELINES_MAX = 255, GPUB_NODE_SIZE = 33
    integer(c_int32_t), parameter, public :: GPUB_KEEP = -1, GPUB_ANY_USER = -1, GPUB_TICKET_ONCE = 1

    ! gpub_layout%code
    integer(c_int8_t), parameter, public :: GPUB_INT = 0, GPUB_UINT = 1, GPUB_FLOAT = 2, GPUB_BFLOAT = 4, &
        GPUB_COMPLEX = 5, &
        GPUB_BOOL = 6

    type, bind(C), public :: gpub_lease
        type(c_ptr)        :: ptr = c_null_ptr
        integer(c_int64_t) :: size = 0
        integer(c_int32_t) :: device = 0
        integer(c_int32_t) :: rights = 0
        integer(c_int64_t) :: token = 0
        type(c_ptr)        :: client = c_null_ptr
    end type

    ! shape is as in C, the slowest first: the reverse of an array's shape in Fortran
    type, bind(C), public :: gpub_layout
        integer(c_int8_t)  :: code = 0, bits = 0
        integer(c_int16_t) :: lanes = 0
        integer(c_int32_t) :: ndim = 0
        integer(c_int64_t) :: shape(GPUB_DIMS_MAX) = 0
    end type

    ! struct_size is the size of the type in bytes, which tests/install/fortran.sh compares with the header's.
    type, bind(C), public :: gpub_spec
        integer(c_int32_t) :: struct_size = 112
        integer(c_int32_t) :: flags = 0
        integer(c_int64_t) :: size = 0
        integer(c_int32_t) :: device = 0
        integer(c_int32_t) :: mode = int(o'600', c_int32_t)
        integer(c_int32_t) :: timeout_ms = 0
        integer(c_int32_t) :: reserved = 0
        type(gpub_layout)  :: layout
        integer(c_int64_t) :: reserve = 0
    end type

    type, bind(C), public :: gpub_info
        integer(c_int32_t)     :: struct_size = 240
        integer(c_int32_t)     :: flags = 0
        character(kind=c_char) :: name(GPUB_NAME_MAX + 1) = c_null_char
        integer(c_int64_t)     :: size = 0
        integer(c_int64_t)     :: generation = 0
        integer(c_int32_t)     :: device = 0
        integer(c_int32_t)     :: mode = 0, owner = 0
        integer(c_int32_t)     :: state = 0
        integer(c_int32_t)     :: grants = 0
        integer(c_int32_t)     :: group = 0
        integer(c_int8_t)      :: device_uuid(16) = 0
        type(gpub_layout)      :: layout
        integer(c_int64_t)     :: reserve = 0
    end type

    type, bind(C), public :: gpub_expectation
        integer(c_int32_t) :: struct_size = 80
        integer(c_int32_t) :: owner = GPUB_ANY_USER
        type(gpub_layout)  :: layout
    end type

    type, bind(C), public :: gpub_ticket_terms
        integer(c_int32_t) :: struct_size = 24
        integer(c_int32_t) :: flags = GPUB_TICKET_ONCE
        integer(c_int32_t) :: user = GPUB_ANY_USER
        integer(c_int32_t) :: reserved = 0
        integer(c_int64_t) :: lifetime_ms = 3600000
    end type

    type, bind(C), public :: gpub_kernel
        integer(c_int64_t) :: token = 0
        type(c_ptr)        :: handle = c_null_ptr
    end type

    type, bind(C), public :: gpub_launch_config
        integer(c_int32_t) :: struct_size = 48
        integer(c_int32_t) :: device = GPUB_CURRENT
        ! written out: gfortran 12 makes [1, 0, 0] of a single 1 where it converts GPUB_LAUNCH_INIT to bytes
        integer(c_int32_t) :: grid(3) = [1, 1, 1], block(3) = [1, 1, 1]
        integer(c_int32_t) :: shared_bytes = 0
        integer(c_int32_t) :: reserved = 0
        type(c_ptr)        :: stream = c_null_ptr
    end type

    type(gpub_layout), parameter, public        :: GPUB_LAYOUT_NONE = gpub_layout()
    type(gpub_spec), parameter, public          :: GPUB_SPEC_INIT = gpub_spec()
    type(gpub_expectation), parameter, public   :: GPUB_EXPECTATION_INIT = gpub_expectation()
    type(gpub_ticket_terms), parameter, public  :: GPUB_TICKET_TERMS_INIT = gpub_ticket_terms()
    type(gpub_launch_config), parameter, public :: GPUB_LAUNCH_INIT = gpub_launch_config()

    ! Functions without a text are the library's own.
    public :: gpub_disconnect, gpub_set_flags, gpub_trim, gpub_set_cache, gpub_device_count, gpub_set_device
    public :: gpub_renew, gpub_return, gpub_return_on, gpub_lease_layout, gpub_lease_generation
    public :: gpub_signal_on, gpub_wait_on, gpub_signal_many_on, gpub_wait_many_on, gpub_timeline
    public :: gpub_timeline_wait, gpub_set_interrupt
    public :: gpub_stream_create, gpub_stream_create_priority, gpub_stream_wait, gpub_stream_sync, gpub_stream_destroy
    public :: gpub_copy_on, gpub_host_alloc, gpub_host_free, gpub_launch, gpub_module_close
    ! The others are below: they change Fortran's strings into C's, and back.
    public :: gpub_connect, gpub_create, gpub_unlink, gpub_chmod, gpub_chown, gpub_seal, gpub_rename, gpub_drain, &
        gpub_stat, &
        gpub_list, gpub_resize, gpub_wait_newer, gpub_acquire, gpub_acquire_as, gpub_acquire_many, gpub_layout_parse, &
        gpub_layout_text, gpub_ticket_issue, gpub_redeem, gpub_module_open, gpub_module_kernel, gpub_module_managed, &
        gpub_strerror_last, gpub_node
    public :: gpub_check, gpub_info_name

    interface
        subroutine gpub_disconnect(client) bind(C)
            import
            type(c_ptr), value :: client
        end subroutine
        integer(c_int) function gpub_set_flags(client, flags) bind(C)
            import
            type(c_ptr), value :: client
            integer(c_int32_t), value :: flags
        end function
        integer(c_int) function gpub_trim(client) bind(C)
            import
            type(c_ptr), value :: client
        end function
        integer(c_int) function gpub_set_cache(client, mappings, bytes) bind(C)
            import
            type(c_ptr), value :: client
            integer(c_int32_t), value :: mappings
            integer(c_int64_t), value :: bytes
        end function
        integer(c_int) function gpub_device_count(client, count) bind(C)
            import
            type(c_ptr), value :: client
            integer(c_int), intent(inout) :: count
        end function
        integer(c_int) function gpub_set_device(client, device) bind(C)
            import
            type(c_ptr), value :: client
            integer(c_int), value :: device
        end function
        integer(c_int) function gpub_renew(lease) bind(C)
            import
            type(gpub_lease), intent(inout) :: lease
        end function
        integer(c_int) function gpub_return(lease) bind(C)
            import
            type(gpub_lease), intent(inout) :: lease
        end function
        integer(c_int) function gpub_return_on(lease, stream) bind(C)
            import
            type(gpub_lease), intent(inout) :: lease
            type(c_ptr), value :: stream
        end function
        integer(c_int) function gpub_lease_layout(lease, layout) bind(C)
            import
            type(gpub_lease), intent(in) :: lease
            type(gpub_layout), intent(inout) :: layout
        end function
        integer(c_int) function gpub_lease_generation(lease, generation) bind(C)
            import
            type(gpub_lease), intent(in) :: lease
            integer(c_int64_t), intent(inout) :: generation
        end function
        integer(c_int) function gpub_signal_on(lease, value, stream) bind(C)
            import
            type(gpub_lease), intent(in) :: lease
            integer(c_int64_t), value :: value
            type(c_ptr), value :: stream
        end function
        integer(c_int) function gpub_wait_on(lease, value, stream) bind(C)
            import
            type(gpub_lease), intent(in) :: lease
            integer(c_int64_t), value :: value
            type(c_ptr), value :: stream
        end function
        ! leases: addresses of leases, by c_loc
        integer(c_int) function gpub_signal_many_on(leases, values, count, stream) bind(C)
            import
            type(c_ptr), intent(in) :: leases(*)
            integer(c_int64_t), intent(in) :: values(*)
            integer(c_int32_t), value :: count
            type(c_ptr), value :: stream
        end function
        integer(c_int) function gpub_wait_many_on(leases, values, count, stream) bind(C)
            import
            type(c_ptr), intent(in) :: leases(*)
            integer(c_int64_t), intent(in) :: values(*)
            integer(c_int32_t), value :: count
            type(c_ptr), value :: stream
        end function
        integer(c_int) function gpub_timeline(lease, value) bind(C)
            import
            type(gpub_lease), intent(in) :: lease
            integer(c_int64_t), intent(inout) :: value
        end function
        integer(c_int) function gpub_timeline_wait(lease, value, timeout_ms, reached) bind(C)
            import
            type(gpub_lease), intent(in) :: lease
            integer(c_int64_t), value :: value
            integer(c_int), value :: timeout_ms
            integer(c_int64_t), intent(inout) :: reached
        end function
        ! check: the address of a function with bind(C) of one type(c_ptr), a type(c_funptr)
        integer(c_int) function gpub_set_interrupt(check, context) bind(C)
            import
            type(c_funptr), value :: check
            type(c_ptr), value :: context
        end function
        integer(c_int) function gpub_stream_create(client, device, stream) bind(C)
            import
            type(c_ptr), value :: client
            integer(c_int), value :: device
            type(c_ptr), intent(inout) :: stream
        end function
        integer(c_int) function gpub_stream_create_priority(client, device, priority, stream) bind(C)
            import
            type(c_ptr), value :: client
            integer(c_int), value :: device, priority
            type(c_ptr), intent(inout) :: stream
        end function
        integer(c_int) function gpub_stream_wait(stream, other) bind(C)
            import
            type(c_ptr), value :: stream, other
        end function
        integer(c_int) function gpub_stream_sync(stream) bind(C)
            import
            type(c_ptr), value :: stream
        end function
        subroutine gpub_stream_destroy(stream) bind(C)
            import
            type(c_ptr), value :: stream
        end subroutine
        integer(c_int) function gpub_copy_on(client, dst, src, size, stream) bind(C)
            import
            type(c_ptr), value :: client, dst, src, stream
            integer(c_int64_t), value :: size
        end function
        integer(c_int) function gpub_host_alloc(client, size, ptr) bind(C)
            import
            type(c_ptr), value :: client
            integer(c_int64_t), value :: size
            type(c_ptr), intent(inout) :: ptr
        end function
        integer(c_int) function gpub_host_free(client, ptr) bind(C)
            import
            type(c_ptr), value :: client, ptr
        end function
        integer(c_int) function gpub_launch(kernel, config, args) bind(C)
            import
            type(gpub_kernel), value :: kernel
            type(gpub_launch_config), intent(in) :: config
            type(c_ptr), intent(in) :: args(*)
        end function
        integer(c_int) function gpub_module_close(module) bind(C)
            import
            type(c_ptr), value :: module
        end function
    end interface

    ! The library's functions that take or give a text.
    interface
        integer(c_int) function c_connect(client, address) bind(C, name='gpub_connect')
            import
            type(c_ptr), intent(inout) :: client
            type(c_ptr), value :: address
        end function
        integer(c_int) function c_create(client, name, spec) bind(C, name='gpub_create')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            type(gpub_spec), intent(in) :: spec
        end function
        integer(c_int) function c_unlink(client, name) bind(C, name='gpub_unlink')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
        end function
        integer(c_int) function c_chmod(client, name, mode) bind(C, name='gpub_chmod')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int32_t), value :: mode
        end function
        integer(c_int) function c_chown(client, name, owner, group) bind(C, name='gpub_chown')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int32_t), value :: owner, group
        end function
        integer(c_int) function c_seal(client, name) bind(C, name='gpub_seal')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
        end function
        integer(c_int) function c_rename(client, name, to, flags) bind(C, name='gpub_rename')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*), to(*)
            integer(c_int32_t), value :: flags
        end function
        integer(c_int) function c_resize(client, name, size, timeout_ms) bind(C, name='gpub_resize')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: size
            integer(c_int), value :: timeout_ms
        end function
        integer(c_int) function c_drain(client, name, timeout_ms) bind(C, name='gpub_drain')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: timeout_ms
        end function
        integer(c_int) function c_stat(client, name, info) bind(C, name='gpub_stat')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            type(gpub_info), intent(inout) :: info
        end function
        integer(c_int) function c_list(client, pattern, each, context) bind(C, name='gpub_list')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: pattern(*)
            type(c_funptr), value :: each
            type(c_ptr), value :: context
        end function
        integer(c_int) function c_wait_newer(client, name, generation, timeout_ms, info) bind(C, name='gpub_wait_newer')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: generation
            integer(c_int), value :: timeout_ms
            type(gpub_info), intent(inout) :: info
        end function
        integer(c_int) function c_acquire(client, name, rights, timeout_ms, lease) bind(C, name='gpub_acquire')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int32_t), value :: rights
            integer(c_int), value :: timeout_ms
            type(gpub_lease), intent(inout) :: lease
        end function
        integer(c_int) function c_acquire_as(client, name, expectation, rights, timeout_ms, lease) &
            bind(C, name='gpub_acquire_as')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            type(gpub_expectation), intent(in) :: expectation
            integer(c_int32_t), value :: rights
            integer(c_int), value :: timeout_ms
            type(gpub_lease), intent(inout) :: lease
        end function
        integer(c_int) function c_acquire_many(client, names, count, rights, timeout_ms, leases) &
            bind(C, name='gpub_acquire_many')
            import
            type(c_ptr), value :: client
            type(c_ptr), intent(in) :: names(*)
            integer(c_int32_t), value :: count, rights
            integer(c_int), value :: timeout_ms
            type(gpub_lease), intent(inout) :: leases(*)
        end function
        integer(c_int) function c_layout_parse(text, layout) bind(C, name='gpub_layout_parse')
            import
            character(kind=c_char), intent(in) :: text(*)
            type(gpub_layout), intent(inout) :: layout
        end function
        integer(c_int) function c_layout_text(layout, text) bind(C, name='gpub_layout_text')
            import
            type(gpub_layout), intent(in) :: layout
            character(kind=c_char), intent(inout) :: text(*)
        end function
        integer(c_int) function c_ticket_issue(client, name, rights, terms, text) bind(C, name='gpub_ticket_issue')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int32_t), value :: rights
            type(gpub_ticket_terms), intent(in) :: terms
            character(kind=c_char), intent(inout) :: text(*)
        end function
        integer(c_int) function c_node(client, text) bind(C, name='gpub_node')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(inout) :: text(*)
        end function
        integer(c_int) function c_redeem(client, text, lease) bind(C, name='gpub_redeem')
            import
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: text(*)
            type(gpub_lease), intent(inout) :: lease
        end function
        integer(c_int) function c_module_open(module, client, path) bind(C, name='gpub_module_open')
            import
            type(c_ptr), intent(inout) :: module
            type(c_ptr), value :: client
            character(kind=c_char), intent(in) :: path(*)
        end function
        integer(c_int) function c_module_kernel(module, symbol, kernel) bind(C, name='gpub_module_kernel')
            import
            type(c_ptr), value :: module
            character(kind=c_char), intent(in) :: symbol(*)
            type(gpub_kernel), intent(inout) :: kernel
        end function
        integer(c_int) function c_module_managed(module, symbol, ptr, size) bind(C, name='gpub_module_managed')
            import
            type(c_ptr), value :: module
            character(kind=c_char), intent(in) :: symbol(*)
            type(c_ptr), intent(inout) :: ptr
            integer(c_size_t), intent(inout) :: size
        end function
        type(c_ptr) function c_strerror_last() bind(C, name='gpub_strerror_last')
            import
        end function
        integer(c_size_t) function c_strlen(text) bind(C, name='strlen')
            import
            type(c_ptr), value :: text
        end function
    end interface

contains

    ! ---- texts ----

    ! The string as C has it: without trailing blanks, and with a NUL.
    pure function c_text(text) result(converted)
        character(*), intent(in) :: text
        character(kind=c_char, len=:), allocatable :: converted

        converted = trim(text)//c_null_char
    end function

    ! What stands before the first NUL.
    pure function fortran_text(text) result(converted)
        character(kind=c_char), intent(in) :: text(:)
        character(len=:), allocatable :: converted
        integer :: length, i

        length = 0
        do while (length < size(text))
            if (text(length + 1) == c_null_char) exit
            length = length + 1
        end do
        allocate (character(len=length) :: converted)
        do i = 1, length
            converted(i:i) = text(i)
        end do
    end function

    ! ---- connection and buffers ----

    ! Without an address: as NULL in C.
    integer(c_int) function gpub_connect(client, address) result(status)
        type(c_ptr), intent(inout) :: client
        character(*), intent(in), optional :: address
        character(kind=c_char, len=:), allocatable, target :: text

        if (present(address)) then
            text = c_text(address)
            status = c_connect(client, c_loc(text))
        else
            status = c_connect(client, c_null_ptr)
        end if
    end function

    integer(c_int) function gpub_create(client, name, spec) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        type(gpub_spec), intent(in) :: spec

        status = c_create(client, c_text(name), spec)
    end function

    integer(c_int) function gpub_unlink(client, name) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name

        status = c_unlink(client, c_text(name))
    end function

    integer(c_int) function gpub_chmod(client, name, mode) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int32_t), intent(in) :: mode

        status = c_chmod(client, c_text(name), mode)
    end function

    integer(c_int) function gpub_chown(client, name, owner, group) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int32_t), intent(in) :: owner, group

        status = c_chown(client, c_text(name), owner, group)
    end function

    integer(c_int) function gpub_seal(client, name) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name

        status = c_seal(client, c_text(name))
    end function

    integer(c_int) function gpub_resize(client, name, size, timeout_ms) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: size
        integer(c_int), intent(in) :: timeout_ms

        status = c_resize(client, c_text(name), size, timeout_ms)
    end function

    integer(c_int) function gpub_rename(client, name, to, flags) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name, to
        integer(c_int32_t), intent(in) :: flags

        status = c_rename(client, c_text(name), c_text(to), flags)
    end function

    integer(c_int) function gpub_drain(client, name, timeout_ms) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int), intent(in) :: timeout_ms

        status = c_drain(client, c_text(name), timeout_ms)
    end function

    integer(c_int) function gpub_stat(client, name, info) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        type(gpub_info), intent(inout) :: info

        status = c_stat(client, c_text(name), info)
    end function

    ! each: the address of a function with bind(C) of a type(gpub_info), intent(in), and a type(c_ptr), value
    integer(c_int) function gpub_list(client, pattern, each, context) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: pattern
        type(c_funptr), intent(in) :: each
        type(c_ptr), intent(in) :: context

        status = c_list(client, c_text(pattern), each, context)
    end function

    integer(c_int) function gpub_wait_newer(client, name, generation, timeout_ms, info) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int64_t), intent(in) :: generation
        integer(c_int), intent(in) :: timeout_ms
        type(gpub_info), intent(inout) :: info

        status = c_wait_newer(client, c_text(name), generation, timeout_ms, info)
    end function

    ! gpub_info%name as a string.
    pure function gpub_info_name(info) result(name)
        type(gpub_info), intent(in) :: info
        character(len=:), allocatable :: name

        name = fortran_text(info%name)
    end function

    ! ---- leases ----

    integer(c_int) function gpub_acquire(client, name, rights, timeout_ms, lease) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int32_t), intent(in) :: rights
        integer(c_int), intent(in) :: timeout_ms
        type(gpub_lease), intent(inout) :: lease

        status = c_acquire(client, c_text(name), rights, timeout_ms, lease)
    end function

    integer(c_int) function gpub_acquire_as(client, name, expectation, rights, timeout_ms, lease) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        type(gpub_expectation), intent(in) :: expectation
        integer(c_int32_t), intent(in) :: rights
        integer(c_int), intent(in) :: timeout_ms
        type(gpub_lease), intent(inout) :: lease

        status = c_acquire_as(client, c_text(name), expectation, rights, timeout_ms, lease)
    end function

    ! All names have one length in Fortran. count is not larger than the size of names and of leases.
    integer(c_int) function gpub_acquire_many(client, names, count, rights, timeout_ms, leases) result(status)
        type(c_ptr), intent(in) :: client
        integer(c_int32_t), intent(in) :: count
        character(*), intent(in) :: names(count)
        integer(c_int32_t), intent(in) :: rights
        integer(c_int), intent(in) :: timeout_ms
        type(gpub_lease), intent(inout) :: leases(count)
        character(kind=c_char, len=len(names) + 1), target :: texts(count)
        type(c_ptr) :: pointers(count)
        integer :: i

        do i = 1, count
            texts(i) = c_text(names(i))
            pointers(i) = c_loc(texts(i))
        end do
        status = c_acquire_many(client, pointers, count, rights, timeout_ms, leases)
    end function

    integer(c_int) function gpub_layout_parse(text, layout) result(status)
        character(*), intent(in) :: text
        type(gpub_layout), intent(inout) :: layout

        status = c_layout_parse(c_text(text), layout)
    end function

    integer(c_int) function gpub_layout_text(layout, text) result(status)
        type(gpub_layout), intent(in) :: layout
        character(len=:), allocatable, intent(inout) :: text
        character(kind=c_char) :: given(GPUB_LAYOUT_TEXT_MAX)

        status = c_layout_text(layout, given)
        if (status == 0) text = fortran_text(given)
    end function

    integer(c_int) function gpub_ticket_issue(client, name, rights, terms, text) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: name
        integer(c_int32_t), intent(in) :: rights
        type(gpub_ticket_terms), intent(in) :: terms
        character(len=:), allocatable, intent(inout) :: text
        character(kind=c_char) :: given(GPUB_TICKET_MAX)

        status = c_ticket_issue(client, c_text(name), rights, terms, given)
        if (status == 0) text = fortran_text(given)
    end function

    integer(c_int) function gpub_node(client, text) result(status)
        type(c_ptr), intent(in) :: client
        character(len=:), allocatable, intent(inout) :: text
        character(kind=c_char) :: given(GPUB_NODE_SIZE)

        status = c_node(client, given)
        if (status == 0) text = fortran_text(given)
    end function

    integer(c_int) function gpub_redeem(client, text, lease) result(status)
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: text
        type(gpub_lease), intent(inout) :: lease

        status = c_redeem(client, c_text(text), lease)
    end function

    ! ---- kernels ----

    integer(c_int) function gpub_module_open(module, client, path) result(status)
        type(c_ptr), intent(inout) :: module
        type(c_ptr), intent(in) :: client
        character(*), intent(in) :: path

        status = c_module_open(module, client, c_text(path))
    end function

    integer(c_int) function gpub_module_kernel(module, symbol, kernel) result(status)
        type(c_ptr), intent(in) :: module
        character(*), intent(in) :: symbol
        type(gpub_kernel), intent(inout) :: kernel

        status = c_module_kernel(module, c_text(symbol), kernel)
    end function

    integer(c_int) function gpub_module_managed(module, symbol, ptr, size) result(status)
        type(c_ptr), intent(in) :: module
        character(*), intent(in) :: symbol
        type(c_ptr), intent(inout) :: ptr
        integer(c_size_t), intent(inout) :: size

        status = c_module_managed(module, c_text(symbol), ptr, size)
    end function

    ! ---- errors ----

    ! A copy, which stays valid after the thread's next call.
    function gpub_strerror_last() result(text)
        character(len=:), allocatable :: text
        type(c_ptr) :: given
        character(kind=c_char), pointer :: characters(:)

        given = c_strerror_last()
        call c_f_pointer(given, characters, [c_strlen(given)])
        text = fortran_text(characters)
    end function

    ! Ends the program with the library's error message, unless status is 0. The broker takes the process for dead.
    subroutine gpub_check(status)
        integer(c_int), intent(in) :: status

        if (status /= 0) error stop gpub_strerror_last()
    end subroutine
end module
