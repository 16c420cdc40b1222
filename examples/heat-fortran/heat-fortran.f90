! SPDX-License-Identifier: Apache-2.0
!
! heat-fortran.f90 - a worker of a heat simulation in Fortran: several processes, each with its rows, on the host
! device.
!
!     broker-run -n 4 --device host -- heat-fortran                 a grid of 120 x 96, 300 steps
!     broker-run -n 4 --device host -- heat-fortran 64 48 1000      rows, columns, steps
!
! Worker r owns the buffer heat-fortran/r, float64[2,rows,columns]: in Fortran field(columns, rows, 2), two fields of
! its rows. Step k reads field k-1 and writes field k, which lie in turn in the first and the second one. It reads the
! edge rows of the workers above and below directly from their buffers. The timeline of a buffer is the number of fields
! that are there: 1 with the initial field, k+1 after step k. A worker begins step k when both neighbours are at k, so a
! neighbour has also read what step k overwrites. Worker 0 compares the whole field with the closed form, says so by one
! more value, and all end.
!
! The initial field sin(pi i/(ny+1)) sin(pi j/(nx+1)) is an eigenvector of the step: each step multiplies it by decay().
! Owns its own buffer; a worker that fails ends at once, and the broker releases the others.
program heat_fortran
    use gpubroker
    implicit none

    integer, parameter :: real64 = c_double
    real(real64), parameter :: diffusion = 0.2_real64, pi = acos(-1.0_real64)
    integer, parameter :: patience_ms = 20000 ! how long a buffer is waited for that another worker is about to create

    ! A worker's buffer, held for reading, or for both by its owner.
    type peer
        type(gpub_lease) :: lease
        real(real64), pointer :: field(:, :, :) => null()
        integer :: first = 0 ! the row of the grid before its first
    end type

    type(c_ptr) :: client = c_null_ptr, stream = c_null_ptr
    type(peer), allocatable :: peers(:)
    integer :: rank, workers, ny = 120, nx = 96, steps = 300, step
    real(real64) :: worst

    call read_arguments()
    call gpub_check(gpub_connect(client))
    call gpub_check(gpub_stream_create(client, GPUB_CURRENT, stream))
    call meet()
    do step = 1, steps
        call await_neighbours(step)
        call advance(peers(rank)%field(:, :, 1 + mod(step - 1, 2)), peers(rank)%field(:, :, 1 + mod(step, 2)))
        call announce(step + 1)
    end do
    call finish()

contains

    ! ---- arguments ----

    subroutine refuse(text)
        character(*), intent(in) :: text

        error stop 'heat-fortran: '//text// &
            '; usage: broker-run -n WORKERS --device host -- heat-fortran [ROWS COLUMNS STEPS]'
    end subroutine

    integer function number_of(text, least) result(number)
        character(*), intent(in) :: text
        integer, intent(in) :: least
        integer :: unread

        read (text, *, iostat=unread) number
        if (unread /= 0) call refuse("'"//trim(text)//"' is no number")
        if (number < least .or. number > 1000000) call refuse("'"//trim(text)//"' is out of range")
    end function

    integer function argument(index, least)
        integer, intent(in) :: index, least
        character(32) :: text

        call get_command_argument(index, text)
        argument = number_of(text, least)
    end function

    integer function environment(name, least)
        character(*), intent(in) :: name
        integer, intent(in) :: least
        character(32) :: text
        integer :: missing

        call get_environment_variable(name, text, status=missing)
        if (missing /= 0) call refuse(name//' is not set')
        environment = number_of(text, least)
    end function

    subroutine read_arguments()
        rank = environment('GPUBROKER_RANK', 0)
        workers = environment('GPUBROKER_SIZE', 1)
        if (command_argument_count() == 3) then
            ny = argument(1, 1)
            nx = argument(2, 1)
            steps = argument(3, 0)
        else if (command_argument_count() /= 0) then
            call refuse('there are no or three arguments')
        end if
        if (ny < workers) call refuse('each worker needs a row')
    end subroutine

    ! ---- buffers ----

    ! The rows before those of a worker. Earlier workers take the remainder.
    integer function rows_before(worker)
        integer, intent(in) :: worker

        rows_before = worker*(ny/workers) + min(worker, mod(ny, workers))
    end function

    function buffer_name(worker) result(name)
        integer, intent(in) :: worker
        character(32) :: name

        write (name, '("heat-fortran/", i0)') worker
    end function

    ! This worker's buffer with the initial field, which the others may read once announce(1) says so.
    subroutine publish()
        type(gpub_spec) :: spec
        integer :: rows, i, j

        rows = rows_before(rank + 1) - rows_before(rank)
        spec%flags = ior(GPUB_TIMELINE_FLAG, GPUB_EPHEMERAL)
        spec%device = GPUB_CURRENT
        spec%layout%code = GPUB_FLOAT
        spec%layout%bits = 64
        spec%layout%lanes = 1
        spec%layout%ndim = 3
        spec%layout%shape(:3) = [2, rows, nx]
        call gpub_check(gpub_create(client, buffer_name(rank), spec))
        call hold(rank, ior(GPUB_READ, GPUB_WRITE))
        do i = 1, rows
            do j = 1, nx
                peers(rank)%field(j, i, 1) = mode(peers(rank)%first + i, j)
            end do
        end do
    end subroutine

    ! The type and the rank are checked by the library; the extents here.
    subroutine hold(worker, rights)
        integer, intent(in) :: worker
        integer(c_int32_t), intent(in) :: rights

        associate (p => peers(worker))
            p%first = rows_before(worker)
            call gpub_acquire_f64(client, buffer_name(worker), p%field, rights, patience_ms, p%lease)
            if (any(shape(p%field) /= [nx, rows_before(worker + 1) - p%first, 2])) &
                error stop 'heat-fortran: a worker has another grid'
        end associate
    end subroutine

    ! Worker 0 reads all buffers at the end. The others need their neighbours' and that of worker 0.
    logical function needed(worker)
        integer, intent(in) :: worker

        needed = worker /= rank .and. (rank == 0 .or. worker == 0 .or. abs(worker - rank) == 1)
    end function

    subroutine meet()
        integer :: worker

        allocate (peers(0:workers - 1))
        call publish()
        do worker = 0, workers - 1
            if (needed(worker)) call hold(worker, GPUB_READ)
        end do
        ! only now: who sees it may end, and its buffer with it
        call announce(1)
    end subroutine

    ! ---- timelines ----

    ! The processor wrote the field, so nothing on the stream comes before the value.
    subroutine announce(value)
        integer, intent(in) :: value

        call gpub_check(gpub_signal_on(peers(rank)%lease, int(value, c_int64_t), stream))
    end subroutine

    ! A wait ends also when the worker does: only the timeline says whether the value was reached.
    subroutine await(worker, value)
        integer, intent(in) :: worker, value
        integer(c_int64_t) :: reached

        call gpub_check(gpub_wait_on(peers(worker)%lease, int(value, c_int64_t), stream))
        call gpub_check(gpub_stream_sync(stream))
        call gpub_check(gpub_timeline(peers(worker)%lease, reached))
        if (reached < value) error stop 'heat-fortran: a worker ended before its last step'
    end subroutine

    subroutine await_neighbours(value)
        integer, intent(in) :: value

        if (rank > 0) call await(rank - 1, value)
        if (rank < workers - 1) call await(rank + 1, value)
    end subroutine

    ! ---- the step ----

    ! Row i of this worker's, or the edge row of a neighbour, or the boundary, which is 0.
    pure function row(now, i) result(values)
        real(real64), intent(in) :: now(:, :)
        integer, intent(in) :: i
        real(real64) :: values(0:nx + 1)
        integer :: which

        which = 1 + mod(step - 1, 2)
        values = 0
        if (i >= 1 .and. i <= size(now, 2)) then
            values(1:nx) = now(:, i)
        else if (i < 1 .and. rank > 0) then
            values(1:nx) = peers(rank - 1)%field(:, size(peers(rank - 1)%field, 2), which)
        else if (i > size(now, 2) .and. rank < workers - 1) then
            values(1:nx) = peers(rank + 1)%field(:, 1, which)
        end if
    end function

    subroutine advance(now, next)
        real(real64), intent(in) :: now(:, :)
        real(real64), intent(inout) :: next(:, :)
        real(real64), dimension(0:nx + 1) :: above, here, below
        integer :: i

        here = row(now, 0)
        below = row(now, 1)
        do i = 1, size(now, 2)
            above = here
            here = below
            below = row(now, i + 1)
            next(:, i) = here(1:nx) + diffusion*(above(1:nx) + below(1:nx) + here(0:nx - 1) + here(2:nx + 1) &
                - 4*here(1:nx))
        end do
    end subroutine

    ! ---- the closed form ----

    pure real(real64) function mode(i, j)
        integer, intent(in) :: i, j

        mode = sin(pi*i/(ny + 1))*sin(pi*j/(nx + 1))
    end function

    ! What one step multiplies the mode by.
    pure real(real64) function decay()
        decay = 1 + 2*diffusion*(cos(pi/(ny + 1)) - 1) + 2*diffusion*(cos(pi/(nx + 1)) - 1)
    end function

    ! The largest difference in a worker's rows. Written so that a value that is not a number is the largest.
    pure real(real64) function error_of(p) result(largest)
        type(peer), intent(in) :: p
        real(real64) :: off
        integer :: i, j

        largest = 0
        do i = 1, size(p%field, 2)
            do j = 1, nx
                off = abs(p%field(j, i, 1 + mod(steps, 2)) - decay()**steps*mode(p%first + i, j))
                if (.not. off <= largest) largest = merge(off, huge(off), off == off)
            end do
        end do
    end function

    ! ---- the end ----

    subroutine report()
        integer :: worker

        worst = 0
        do worker = 0, workers - 1
            if (worker /= rank) call await(worker, steps + 1)
            worst = max(worst, error_of(peers(worker)))
        end do
        print '(a, i0, a, i0, a, i0, a, i0, a)', 'heat-fortran: ', ny, ' x ', nx, ', ', steps, ' steps, ', workers, &
            ' workers'
        print '(a, es9.2, a)', 'largest error:', worst, ' against the closed form'
        if (worst > 1e-12_real64*(steps + 1)) error stop 'heat-fortran: the result is wrong'
    end subroutine

    ! The buffers end with their workers: not before worker 0 has read all of them.
    subroutine finish()
        if (rank == 0) then
            call report()
            call announce(steps + 2)
        else
            call await(0, steps + 2)
        end if
        call gpub_stream_destroy(stream)
        call gpub_disconnect(client) ! returns all leases
        deallocate (peers)
    end subroutine
end program
