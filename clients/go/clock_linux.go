package tenure

import "golang.org/x/sys/unix"

// now goes on while the host is suspended, as the server's clock does.
func now() moment {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("the system has no CLOCK_BOOTTIME: " + err.Error())
	}
	return moment(ts.Nano())
}
