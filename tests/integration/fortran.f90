! SPDX-License-Identifier: Apache-2.0
!
! fortran.f90 - what the Fortran module gives, over a broker on the host device, in TAP. fortran.sh runs it as the one
! worker, with the argument "stop" to see the program end where an error has no stat.
program fortran_module
    use gpubroker
    implicit none

    integer(c_int32_t), parameter :: both = ior(GPUB_READ, GPUB_WRITE)
    type(c_ptr) :: client = c_null_ptr, stream = c_null_ptr
    integer :: points = 0

    call gpub_check(gpub_connect(client))
    if (command_argument_count() > 0) call stop_without_stat()
    call gpub_check(gpub_stream_create(client, GPUB_CURRENT, stream))
    call test_arrays()
    call test_ranks()
    call test_refusals()
    call test_texts()
    call test_many()
    call test_publish()
    call test_resize()
    call test_tickets()
    call test_kernels()
    call gpub_stream_destroy(stream)
    call gpub_disconnect(client)
    print '(a, i0)', '1..', points

contains

    subroutine point(holds, text)
        logical, intent(in) :: holds
        character(*), intent(in) :: text

        points = points + 1
        print '(a, i0, 2a)', trim(merge('ok    ', 'not ok', holds))//' ', points, ' - ', text
        if (.not. holds) print '(2a)', '# ', gpub_strerror_last()
    end subroutine

    subroutine stop_without_stat()
        real(c_float), pointer :: array(:)
        type(gpub_lease) :: lease

        nullify (array)
        call gpub_acquire_f32(client, 'absent', array, GPUB_READ, 0, lease)
        print '(a)', 'it went on'
        stop
    end subroutine

    subroutine create(name, layout)
        character(*), intent(in) :: name, layout
        type(gpub_spec) :: spec

        call gpub_check(gpub_layout_parse(layout, spec%layout))
        call gpub_check(gpub_create(client, name, spec))
    end subroutine

    subroutine test_arrays()
        real(c_float), pointer :: u(:, :)
        real(c_float), pointer :: flat(:)
        type(gpub_lease) :: lease
        type(gpub_info) :: info
        integer :: stat, i

        nullify (u)
        call create('u', 'float32[3,5]')
        call gpub_acquire_f32(client, 'u', u, both, 0, lease, stat)
        call point(stat == 0 .and. associated(u), 'an array is acquired')
        call point(all(shape(u) == [5, 3]), 'float32[3,5] has the shape (5, 3): extents are reversed')
        call point(all(abs(u) <= 0), 'a new buffer is zeros')
        call c_f_pointer(lease%ptr, flat, [15])
        u(4, 2) = 7
        flat(1) = 3
        ! element (1, 3) of float32[3,5], from 0, is the 9th of the memory, from 1
        call point(nint(flat(9)) == 7 .and. nint(u(1, 1)) == 3, 'the elements are where the row-major layout has them')
        stat = gpub_stat(client, 'u   ', info)
        call point(stat == 0 .and. gpub_info_name(info) == 'u', 'trailing blanks of a name do not count')
        call point(info%layout%ndim == 2 .and. all(info%layout%shape(:3) == [3, 5, 0]), 'gpub_stat fills its type')
        call point(info%size == 60 .and. info%state == GPUB_LIVE, 'and its numbers')
        call point(gpub_return(lease) == 0, 'the lease is returned')
        call point(gpub_return(lease) < 0, 'once')
        call point(gpub_renew(lease) == 0, 'and renewed')
        u(:, :) = reshape([(real(i, c_float), i=1, 15)], [5, 3])
        call point(nint(sum(flat)) == 120, 'the array is the memory again')
        call gpub_check(gpub_return(lease))
    end subroutine

    subroutine test_ranks()
        real(c_double), pointer :: one(:), four(:, :, :, :)
        integer(c_int32_t), pointer :: three(:, :, :)
        integer(c_int64_t), pointer :: two(:, :)
        type(gpub_lease) :: lease
        integer :: stat

        nullify (one, two, three, four)
        call create('one', 'float64[6]')
        call create('two', 'int64[2,7]')
        call create('three', 'int32[2,3,4]')
        call create('four', 'float64[2,3,4,5]')
        call gpub_acquire_f64(client, 'one', one, both, 0, lease, stat)
        call point(stat == 0 .and. all(shape(one) == [6]), 'float64 of rank 1')
        call gpub_check(gpub_return(lease))
        call gpub_acquire_i64(client, 'two', two, both, 0, lease, stat)
        call point(stat == 0 .and. all(shape(two) == [7, 2]), 'int64 of rank 2')
        call gpub_check(gpub_return(lease))
        call gpub_acquire_i32(client, 'three', three, both, 0, lease, stat)
        call point(stat == 0 .and. all(shape(three) == [4, 3, 2]), 'int32 of rank 3')
        call gpub_check(gpub_return(lease))
        call gpub_acquire_f64(client, 'four', four, both, 0, lease, stat)
        call point(stat == 0 .and. all(shape(four) == [5, 4, 3, 2]), 'float64 of rank 4')
        call gpub_check(gpub_return(lease))
    end subroutine

    ! A refused acquire changes nothing but stat and errmsg.
    subroutine test_refusals()
        real(c_float), pointer :: u(:, :), flat(:)
        real(c_double), pointer :: other(:, :)
        real(c_float), target :: own(2, 2)
        type(gpub_lease) :: lease
        character(len=:), allocatable :: errmsg
        integer(c_int64_t) :: extents(9)
        type(c_ptr) :: device
        integer :: stat

        nullify (flat, other)
        u => own
        call gpub_acquire_f64(client, 'u', other, GPUB_READ, 0, lease, stat, errmsg)
        call point(stat < 0 .and. .not. associated(other), 'another element type is refused')
        call point(index(errmsg, 'float32[3,5]') > 0, 'and errmsg names what the buffer is')
        call gpub_acquire_f32(client, 'u', flat, GPUB_READ, 0, lease, stat, errmsg)
        call point(stat < 0 .and. .not. associated(flat), 'another rank is refused')
        call gpub_acquire_f32(client, 'absent', u, GPUB_READ, 0, lease, stat, errmsg)
        call point(stat < 0 .and. associated(u, own), 'a name that is not there leaves the pointer as it was')
        call point(.not. c_associated(lease%client), 'and the lease')
        call point(index(errmsg, 'absent') > 0, 'errmsg names the buffer')
        device = c_null_ptr
        extents = -7
        call gpub_acquire_f32(client, 'u', device, extents(:3), GPUB_READ, 0, lease, stat)
        call point(stat < 0 .and. all(extents == -7), 'another rank is refused for device code, too')
        call gpub_acquire_f32(client, 'u', device, extents, GPUB_READ, 0, lease, stat)
        call point(stat < 0 .and. all(extents == -7), 'so are more dimensions than there can be')
        call gpub_acquire_f32(client, 'u', device, extents(:2), GPUB_READ, 0, lease, stat)
        call point(stat == 0 .and. all(extents(:3) == [5, 3, -7]) .and. c_associated(device, lease%ptr), &
                   'device code gets the address and the extents')
        call gpub_check(gpub_return(lease))
    end subroutine

    subroutine test_texts()
        type(gpub_layout) :: layout
        character(len=:), allocatable :: text
        type(c_ptr) :: nobody
        integer :: stat

        call gpub_check(gpub_layout_parse('f32[2,3]', layout))
        call point(gpub_layout_text(layout, text) == 0 .and. text == 'float32[2,3]', 'a layout becomes text')
        call point(len(text) == 12, 'which ends with its last character')
        call point(gpub_layout_parse('f33', layout) < 0 .and. layout%ndim == 2, 'what is no layout is refused')
        call point(index(gpub_strerror_last(), 'f33') > 0, 'gpub_strerror_last is a string')
        layout%bits = 3
        call point(gpub_layout_text(layout, text) < 0 .and. text == 'float32[2,3]', 'a failed call leaves the text')
        call point(gpub_unlink(client, 'two'//c_null_char//'more') == 0, 'a text ends at its NUL')
        nobody = c_null_ptr
        stat = gpub_connect(nobody, 'tcp:nowhere')
        call point(stat < 0 .and. .not. c_associated(nobody), 'an address is passed on')
    end subroutine

    subroutine test_many()
        type(gpub_lease) :: leases(2)
        character(8) :: names(2) = ['one     ', 'four    ']

        call point(gpub_acquire_many(client, names, 2, GPUB_READ, 0, leases) == 0, 'several names are acquired')
        call point(leases(1)%size == 48 .and. leases(2)%size == 960, 'each into its lease')
        call gpub_check(gpub_return(leases(1)))
        call gpub_check(gpub_return(leases(2)))
        names(2) = 'absent'
        leases(1)%size = 1
        call point(gpub_acquire_many(client, names, 2, GPUB_READ, 0, leases) < 0 .and. leases(1)%size == 1, &
            'all or none')
    end subroutine

    subroutine test_publish()
        type(gpub_info) :: before, after
        type(gpub_lease) :: lease
        integer(c_int64_t) :: generation

        call gpub_check(gpub_stat(client, 'three', before))
        call point(gpub_seal(client, 'three') == 0, 'a buffer is sealed')
        call point(gpub_acquire(client, 'three', GPUB_WRITE, 0, lease) < 0, 'and written no more')
        call point(gpub_rename(client, 'three', 'one', 0) < 0, 'a taken name is refused')
        call point(gpub_rename(client, 'three', 'one', GPUB_REPLACE) == 0, 'unless it is to be replaced')
        call point(gpub_wait_newer(client, 'one', before%generation, 0, after) == 0 .and. &
                   after%generation > before%generation, 'the name has a newer buffer')
        call point(iand(after%flags, GPUB_SEALED) /= 0, 'which is sealed')
        call gpub_check(gpub_acquire(client, 'one', GPUB_READ, 0, lease))
        call point(gpub_lease_generation(lease, generation) == 0 .and. generation == after%generation, &
                   'a lease tells the generation')
        call gpub_check(gpub_return(lease))
    end subroutine

    subroutine test_resize()
        type(gpub_spec) :: spec
        type(gpub_info) :: info
        type(gpub_lease) :: lease

        spec%size = 1000
        spec%reserve = 1000000
        call point(gpub_create(client, 'grows', spec) == 0, 'a buffer has a reserve')
        call point(gpub_resize(client, 'grows', 500000_c_int64_t, 0) == 0, 'and grows')
        call gpub_check(gpub_stat(client, 'grows', info))
        call point(info%size == 500000 .and. info%reserve >= 1000000 .and. iand(info%flags, GPUB_GROWABLE) /= 0, &
                   'which the broker tells')
        call gpub_check(gpub_acquire(client, 'grows', GPUB_READ, 0, lease))
        call point(lease%size == 500000, 'and the next lease has')
        call gpub_check(gpub_return(lease))
        call point(gpub_resize(client, 'grows', 2000000_c_int64_t, 0) < 0, 'not beyond the reserve')
        call gpub_check(gpub_unlink(client, 'grows'))
    end subroutine

    subroutine test_tickets()
        type(gpub_ticket_terms) :: terms
        type(gpub_lease) :: lease
        character(len=:), allocatable :: text

        call point(gpub_ticket_issue(client, 'u', GPUB_READ, terms, text) == 0 .and. len(text) > 20, &
            'a ticket is issued')
        call point(gpub_redeem(client, text, lease) == 0 .and. lease%rights == GPUB_READ, 'and redeemed')
        call gpub_check(gpub_return(lease))
        call point(gpub_redeem(client, text, lease) < 0, 'once')
    end subroutine

    ! fill(words, value, count), the kernel of examples/pipeline: a struct by value, and an array of addresses
    subroutine test_kernels()
        type(c_ptr) :: module, args(3)
        type(gpub_kernel) :: fill
        type(gpub_launch_config) :: config
        type(gpub_lease) :: lease
        integer(c_int32_t), pointer :: words(:)
        type(c_ptr), target :: address
        integer(c_int32_t), target :: value
        integer(c_int64_t), target :: count
        integer(c_int64_t) :: reached

        nullify (words)
        module = c_null_ptr
        call timed_buffer()
        call gpub_acquire_i32(client, 'words', words, both, 0, lease)
        call point(gpub_module_open(module, client, 'kernels') == 0, 'a module is opened')
        call point(gpub_module_kernel(module, 'no such', fill) < 0, 'it has no kernel of another name')
        call point(gpub_module_kernel(module, 'fill', fill) == 0, 'its kernel is found')
        address = lease%ptr
        value = 42
        count = 256
        args = [c_loc(address), c_loc(value), c_loc(count)]
        config%block(1) = 256
        config%stream = stream
        call point(gpub_launch(fill, config, args) == 0, 'and launched')
        call point(gpub_signal_on(lease, 5_c_int64_t, stream) == 0, 'a timeline is signalled')
        call point(gpub_wait_on(lease, 5_c_int64_t, stream) == 0 .and. gpub_stream_sync(stream) == 0, 'and waited for')
        call point(gpub_timeline(lease, reached) == 0 .and. reached == 5, 'and read')
        call point(all(words == 42), 'the kernel wrote the array')
        value = 7
        call gpub_check(gpub_copy_on(client, c_loc(words(3)), c_loc(value), 4_c_int64_t, stream))
        call gpub_check(gpub_stream_sync(stream))
        call point(words(3) == 7 .and. words(4) == 42, 'a copy goes where it is sent')
        call point(gpub_return_on(lease, stream) == 0, 'the lease is returned in stream order')
        call point(gpub_module_close(module) == 0, 'the module is closed')
    end subroutine

    subroutine timed_buffer()
        type(gpub_spec) :: spec

        spec%flags = GPUB_TIMELINE_FLAG
        call gpub_check(gpub_layout_parse('int32[256]', spec%layout))
        call gpub_check(gpub_create(client, 'words', spec))
    end subroutine
end program
