//go:build !linux

package tenure

import "time"

var start = time.Now()

func now() moment { return moment(time.Since(start)) + 1 }
